/* sealed.c - with encryption: keys of a queue pair, and what goes over it sealed. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cards of the two ends, which travel over the pair's sealed connection, have a point each of
 * X25519.  Each direction has one run of nonces, over its records and the pieces of large messages
 * alike: they arrive in the order in which they were posted.  A piece is sealed into a chunk of
 * ours, and written to one of the receiver's.  Who sits on the path sees the remote key of that,
 * and may write there at any time; so it is copied before it is opened, and nothing is opened
 * there.
 */
#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/bytes.h"
#include "rdma/link.h"

enum { BOUND = 16 };

static_assert(TCI_RDMA_HEAD + TCI_RDMA_PAYLOAD + TCI_RECORD_TAG <= TCI_RDMA_SLOT, "it fits a slot");
static_assert(TCI_RECORD_MAX % 16 == 0, "what is sealed is whole elements");
static_assert(TCI_RDMA_POINT == crypto_scalarmult_BYTES, "as on the wire");

static const char session_label[] = "tcdist rdma session";
static const char to_acceptor_label[] = "tcdist offerer to acceptor";
static const char to_offerer_label[] = "tcdist acceptor to offerer";

/* ---- Keys ---- */

const char *tci_rdma_crypt_open(struct tci_rdma_link *link)
{
    struct tci_rdma_crypt *crypt;

    if (!link->rdma->encrypts)
        return NULL;
    TC_ASSERT(link->crypt == NULL);
    if (link->rdma->choice.port.max_msg_sz > 0 &&
        link->rdma->choice.port.max_msg_sz < TCI_RDMA_CHUNK)
        return "the device takes no messages as long as those that are sealed";
    crypt = tci_alloc_raw(sizeof(*crypt)); /* aligned as the cipher wants it */
    if (crypt == NULL)
        return "there is no memory left for its keys";
    memset(crypt, 0, sizeof(*crypt));
    link->crypt = crypt;
    randombytes_buf(crypt->secret, sizeof(crypt->secret));
    if (crypto_scalarmult_base(crypt->point, crypt->secret) != 0)
        return "no keys can be made";
    return NULL;
}

void tci_rdma_crypt_close(struct tci_rdma_link *link)
{
    if (link->crypt == NULL)
        return;
    sodium_memzero(link->crypt, sizeof(*link->crypt));
    tci_free(link->crypt);
    link->crypt = NULL;
}

static void derive(const uint8_t from[32], const char *label, uint8_t out[32])
{
    (void)crypto_auth_hmacsha256(out, (const uint8_t *)label, strlen(label) + 1, from);
}

static void make_session(const uint8_t shared[32], const uint8_t *offered, const uint8_t *accepted,
                         uint8_t session[32])
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, shared, 32);
    crypto_auth_hmacsha256_update(&state, (const uint8_t *)session_label, sizeof(session_label));
    crypto_auth_hmacsha256_update(&state, offered, TCI_RDMA_POINT);
    crypto_auth_hmacsha256_update(&state, accepted, TCI_RDMA_POINT);
    crypto_auth_hmacsha256_final(&state, session);
    sodium_memzero(&state, sizeof(state));
}

static void begin(struct tci_rdma_crypt *crypt, const uint8_t session[32], uint8_t cipher,
                  bool is_offerer)
{
    uint8_t secret[32];

    derive(session, is_offerer ? to_acceptor_label : to_offerer_label, secret);
    tci_seal_init(&crypt->send, cipher, secret);
    derive(session, is_offerer ? to_offerer_label : to_acceptor_label, secret);
    tci_seal_init(&crypt->receive, cipher, secret);
    sodium_memzero(secret, sizeof(secret));
}

const char *tci_rdma_crypt_agree(struct tci_rdma_link *link, const struct tci_rdma_card *card,
                                 bool is_offerer)
{
    struct tci_rdma_crypt *crypt = link->crypt;
    uint8_t both = card->ciphers & tci_seal_ciphers(), shared[32], session[32];
    const uint8_t *offered, *accepted;

    if ((crypt != NULL) != (card->ciphers != 0))
        return "one of both encrypts, and the other does not";
    if (crypt == NULL)
        return NULL;
    if (both == 0 || crypto_scalarmult(shared, crypt->secret, card->point) != 0)
        return "its part of the keys makes no sense";
    offered = is_offerer ? crypt->point : card->point;
    accepted = is_offerer ? card->point : crypt->point;
    make_session(shared, offered, accepted, session);
    begin(crypt, session, both & TCI_CIPHER_AES256GCM ? TCI_CIPHER_AES256GCM : both, is_offerer);
    sodium_memzero(crypt->secret, sizeof(crypt->secret));
    sodium_memzero(shared, sizeof(shared));
    sodium_memzero(session, sizeof(session));
    return NULL;
}

/* ---- Records, where they lie: no peer may write to a slot ---- */

size_t tci_rdma_seal_record(struct tci_rdma_link *link, uint8_t *record, size_t bytes)
{
    tci_seal_put(&link->crypt->send, (struct tci_bound){NULL, 0}, record, bytes, record);
    return bytes + TCI_RECORD_TAG;
}

size_t tci_rdma_open_record(struct tci_rdma_link *link, uint8_t *record, size_t bytes)
{
    if (bytes <= TCI_RECORD_TAG || bytes > TCI_RDMA_SLOT ||
        !tci_seal_get(&link->crypt->receive, (struct tci_bound){NULL, 0}, record,
                      bytes - TCI_RECORD_TAG, record))
        return 0;
    return bytes - TCI_RECORD_TAG;
}

/* ---- Pieces of large messages ---- */

size_t tci_rdma_sealed_len(uint64_t len)
{
    return (size_t)(len + (len + TCI_RECORD_MAX - 1) / TCI_RECORD_MAX * TCI_RECORD_TAG);
}

/* Where it belongs: at another place of the message, or in another one, it does not open. */
static struct tci_bound bind(uint8_t bytes[BOUND], uint32_t imm, uint32_t number, uint64_t at)
{
    tci_put32(bytes, imm);
    tci_put32(bytes + 4, number);
    tci_put64(bytes + 8, at);
    return (struct tci_bound){bytes, BOUND};
}

size_t tci_rdma_seal_piece(struct tci_rdma_link *link, const struct tci_rdma_push *push,
                           const struct tci_rdma_chunk *chunk, size_t len)
{
    const struct tci_rdma_range *range = &push->ranges[0];
    uint64_t at = range->at + push->in_range;
    const uint8_t *from = (const uint8_t *)push->xfer->data + at;
    uint8_t *to = chunk->data, bytes[BOUND];
    struct tci_bound bound = bind(bytes, tci_rdma_imm(range->place, link->sent), push->number, at);
    size_t part;

    TC_ASSERT(tci_rdma_sealed_len(len) <= TCI_RDMA_CHUNK);
    for (size_t done = 0; done < len; done += part) {
        part = tci_min(len - done, TCI_RECORD_MAX);
        tci_seal_put(&link->crypt->send, bound, from + done, part, to);
        to += part + TCI_RECORD_TAG;
    }
    return (size_t)(to - chunk->data);
}

bool tci_rdma_open_piece(struct tci_rdma_link *link, const struct tci_rdma_grant *grant)
{
    struct tci_xfer *xfer = grant->xfer;
    bool is_plain = xfer != NULL && xfer->fold == NULL;
    uint8_t *sealed = link->rdma->sealed, bytes[BOUND];
    const uint8_t *from = grant->chunk->data;
    uint32_t place = (uint32_t)(grant - link->grants);
    struct tci_bound bound =
        bind(bytes, tci_rdma_imm(place, link->taken), grant->number, grant->at);
    size_t part;

    for (size_t done = 0; done < grant->len; done += part) {
        uint8_t *to = sealed;

        part = (size_t)tci_min(grant->len - done, TCI_RECORD_MAX);
        if (is_plain)
            to = (uint8_t *)xfer->data + xfer->room[TCI_ROOM_DONE];
        memcpy(sealed, from, part + TCI_RECORD_TAG);
        from += part + TCI_RECORD_TAG;
        if (!tci_seal_get(&link->crypt->receive, bound, sealed, part, to))
            return false;
        if (is_plain)
            xfer->room[TCI_ROOM_DONE] += part;
        else if (xfer != NULL)
            tci_xfer_append(xfer, sealed, part);
    }
    return true;
}
