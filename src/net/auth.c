/* auth.c - two ranks prove to each other that they hold the key: a machine without a socket. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/auth.h"

#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "net/auth_proof.h"

static void set_out(struct tci_auth *auth, const uint8_t *bytes, size_t len)
{
    auth->out = bytes;
    auth->out_len = len;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Nothing of the exchange is needed any more. */
static void end(struct tci_auth *auth, enum tci_auth_state state)
{
    auth->state = state;
    tci_proof_wipe(auth->secret, sizeof auth->secret);
    tci_proof_wipe(auth->finish, sizeof auth->finish);
    if (state != TCI_AUTH_PROVEN)
        tci_proof_wipe(&auth->session, sizeof auth->session);
}

static void fail(struct tci_auth *auth, enum tci_auth_reason reason)
{
    auth->reason = reason;
    end(auth, TCI_AUTH_FAILED);
}

/* The other side, which speaks as one of us, is told why. */
static void deny(struct tci_auth *auth, enum tci_auth_reason reason)
{
    const struct tci_auth_deny said = {.reason = (uint8_t)reason, .from = auth->config.self};

    fail(auth, reason);
    tci_boot_head_encode(TCI_BOOT_DENY, TCI_BOOT_DENY_LEN, auth->last);
    tci_auth_deny_encode(&said, auth->last + TCI_BOOT_HEAD);
    set_out(auth, auth->last, TCI_BOOT_HEAD + TCI_BOOT_DENY_LEN);
}

/* ---- Who we are, and who they are ------------------------------------------------------------ */

static uint8_t kind_of(const struct tci_keyring *keyring)
{
    return keyring->is_shared ? TCI_AUTH_SHARED : TCI_AUTH_IDENTITIES;
}

/* What we say of ourselves in an OFFER or an ANSWER. */
static void write_hello(struct tci_auth *auth, uint8_t ciphers, uint8_t *wire)
{
    const struct tci_auth_config *config = &auth->config;
    const struct tci_keyring *keyring = config->keyring;
    struct tci_auth_hello hello = {.place = (uint8_t)config->place,
                                   .kind = kind_of(keyring),
                                   .encrypts = keyring->encrypts,
                                   .ciphers = ciphers,
                                   .from = config->self,
                                   .to = auth->peer,
                                   .key_id = keyring->active_id};
    bool is_answer = !config->is_dialer;

    if (!keyring->is_shared)
        memcpy(hello.identity, keyring->identities[config->self], TCI_IDENTITY_BYTES);
    memcpy(hello.group_id, config->group_id, TCI_GROUP_ID);
    tci_proof_random(hello.nonce, sizeof hello.nonce);
    tci_proof_begin(auth->secret, hello.point);
    tci_boot_head_encode(is_answer ? TCI_BOOT_ANSWER : TCI_BOOT_OFFER,
                         is_answer ? TCI_BOOT_ANSWER_LEN : TCI_BOOT_OFFER_LEN, wire);
    tci_auth_hello_encode(&hello, wire + TCI_BOOT_HEAD);
}

/* By which secret a rank proves itself: the slot counts where all share a key. */
static const struct tci_secret *secret_of(const struct tci_auth *auth, uint32_t rank, uint64_t id,
                                          unsigned slot)
{
    const struct tci_keyring *keyring = auth->config.keyring;

    if (keyring->is_shared)
        return &keyring->secrets[slot < keyring->count ? slot : 0];
    return tci_keyring_find(keyring, keyring->identities[rank], id);
}

static const struct tci_secret *own_secret(const struct tci_auth *auth, unsigned slot)
{
    return secret_of(auth, auth->config.self, auth->config.keyring->active_id, slot);
}

static const struct tci_secret *their_secret(const struct tci_auth *auth, unsigned slot)
{
    return secret_of(auth, auth->peer, auth->theirs.key_id, slot);
}

/* Whether what they say of themselves is what we expect of that rank. */
static enum tci_auth_reason check_hello(const struct tci_auth *auth)
{
    const struct tci_auth_config *config = &auth->config;
    const struct tci_keyring *keyring = config->keyring;
    const struct tci_auth_hello *theirs = &auth->theirs;

    if (theirs->place != config->place || theirs->to != config->self)
        return TCI_AUTH_ELSEWHERE;
    /* Who dials the rendezvous does not know the group yet. */
    if (config->place == TCI_AUTH_AT_LINK &&
        memcmp(theirs->group_id, config->group_id, TCI_GROUP_ID) != 0)
        return TCI_AUTH_ELSEWHERE;
    if (theirs->kind != kind_of(keyring))
        return TCI_AUTH_KIND;
    if (theirs->encrypts != keyring->encrypts)
        return TCI_AUTH_ENCRYPTION;
    if (keyring->is_shared)
        return TCI_AUTH_FINE;
    if (strcmp(theirs->identity, keyring->identities[auth->peer]) != 0)
        return TCI_AUTH_IDENTITY;
    return their_secret(auth, 0) != NULL ? TCI_AUTH_FINE : TCI_AUTH_KEY_ID;
}

static void make_session(struct tci_auth *auth, uint8_t cipher, unsigned slot,
                         const struct tci_secret *ours, const struct tci_secret *of_peer)
{
    bool dials = auth->config.is_dialer;

    auth->session.cipher = cipher;
    auth->session.encrypts = auth->config.keyring->encrypts;
    tci_proof_session(auth, dials ? ours : of_peer, dials ? of_peer : ours, slot, &auth->session);
}

/* ---- Who was dialed -------------------------------------------------------------------------- */

/* The one that both have, AES where the hardware does it. */
static uint8_t choose_cipher(uint8_t theirs)
{
    uint8_t both = theirs & tci_seal_ciphers();

    return both & TCI_CIPHER_AES256GCM ? TCI_CIPHER_AES256GCM : both;
}

static void answer(struct tci_auth *auth)
{
    uint8_t *codes = auth->answer + TCI_BOOT_HEAD + TCI_AUTH_HELLO_LEN;

    write_hello(auth, choose_cipher(auth->theirs.ciphers), auth->answer);
    if (!tci_proof_exchange(auth->secret, auth->theirs.point)) {
        deny(auth, TCI_AUTH_GARBLED);
        return;
    }
    for (unsigned slot = 0; slot < TCI_KEYS_SHARED_MAX; slot++)
        tci_proof_of_answer(auth, own_secret(auth, slot), slot, codes + slot * TCI_AUTH_MAC);
    set_out(auth, auth->answer, sizeof auth->answer);
    auth->expects = TCI_BOOT_PROOF;
}

static void on_offer(struct tci_auth *auth)
{
    enum tci_auth_reason reason;

    memcpy(auth->offer, auth->in, sizeof auth->offer);
    if (tci_auth_hello_decode(auth->in + TCI_BOOT_HEAD, &auth->theirs) != TC_OK) {
        deny(auth, TCI_AUTH_GARBLED);
        return;
    }
    if (auth->theirs.from >= auth->config.size || auth->theirs.from == auth->config.self) {
        deny(auth, TCI_AUTH_ELSEWHERE);
        return;
    }
    auth->peer = auth->theirs.from;
    reason = auth->config.keyring == NULL ? TCI_AUTH_NO_KEY : check_hello(auth);
    if (reason == TCI_AUTH_FINE && choose_cipher(auth->theirs.ciphers) == 0)
        reason = TCI_AUTH_GARBLED;
    if (reason != TCI_AUTH_FINE)
        deny(auth, reason);
    else
        answer(auth);
}

static void on_proof(struct tci_auth *auth)
{
    const uint8_t *body = auth->in + TCI_BOOT_HEAD;
    static const uint8_t zero[TCI_AUTH_PROOF_FIXED - 1];
    uint8_t code[TCI_AUTH_MAC];
    unsigned slot = body[0];
    bool is_right;

    if (slot >= TCI_KEYS_SHARED_MAX || memcmp(body + 1, zero, sizeof zero) != 0) {
        deny(auth, TCI_AUTH_GARBLED);
        return;
    }
    tci_proof_of_dialer(auth, their_secret(auth, slot), slot, code);
    is_right = tci_proof_is_same(code, body + TCI_AUTH_PROOF_FIXED);
    tci_proof_wipe(code, sizeof code);
    if (!is_right) {
        deny(auth, TCI_AUTH_PROOF_WRONG);
        return;
    }
    make_session(auth, choose_cipher(auth->theirs.ciphers), slot, own_secret(auth, slot),
                 their_secret(auth, slot));
    tci_boot_head_encode(TCI_BOOT_FINISH, TCI_BOOT_FINISH_LEN, auth->last);
    tci_proof_of_finish(auth, own_secret(auth, slot), slot, auth->last + TCI_BOOT_HEAD);
    set_out(auth, auth->last, TCI_BOOT_HEAD + TCI_BOOT_FINISH_LEN);
    end(auth, TCI_AUTH_PROVEN);
}

/* ---- Who dials ------------------------------------------------------------------------------- */

/* The secret by which a code of the ANSWER was made, or NULL; its place in *slot_out. */
static const struct tci_secret *find_proof(const struct tci_auth *auth, unsigned *slot_out)
{
    const struct tci_keyring *keyring = auth->config.keyring;
    const uint8_t *codes = auth->answer + TCI_BOOT_HEAD + TCI_AUTH_HELLO_LEN;
    size_t own_count = keyring->is_shared ? keyring->count : 1;
    const struct tci_secret *found = NULL;
    uint8_t code[TCI_AUTH_MAC];

    for (unsigned slot = 0; slot < TCI_KEYS_SHARED_MAX && found == NULL; slot++)
        for (unsigned own = 0; own < own_count && found == NULL; own++) {
            const struct tci_secret *secret = their_secret(auth, own);

            tci_proof_of_answer(auth, secret, slot, code);
            if (tci_proof_is_same(code, codes + slot * TCI_AUTH_MAC)) {
                found = secret;
                *slot_out = slot;
            }
        }
    tci_proof_wipe(code, sizeof code);
    return found;
}

static void say_proof(struct tci_auth *auth, const struct tci_secret *of_peer, unsigned slot)
{
    const struct tci_secret *ours =
        auth->config.keyring->is_shared ? of_peer : own_secret(auth, slot);
    uint8_t *body = auth->last + TCI_BOOT_HEAD;

    tci_boot_head_encode(TCI_BOOT_PROOF, TCI_BOOT_PROOF_LEN, auth->last);
    memset(body, 0, TCI_AUTH_PROOF_FIXED);
    body[0] = (uint8_t)slot;
    tci_proof_of_dialer(auth, ours, slot, body + TCI_AUTH_PROOF_FIXED);
    set_out(auth, auth->last, TCI_BOOT_HEAD + TCI_BOOT_PROOF_LEN);
    tci_proof_of_finish(auth, of_peer, slot, auth->finish);
    make_session(auth, auth->theirs.ciphers, slot, ours, of_peer);
    auth->expects = TCI_BOOT_FINISH;
}

static void on_answer(struct tci_auth *auth)
{
    uint8_t offered = auth->offer[TCI_BOOT_HEAD + 3];
    const struct tci_secret *of_peer;
    enum tci_auth_reason reason;
    unsigned slot = 0;

    memcpy(auth->answer, auth->in, sizeof auth->answer);
    if (tci_auth_hello_decode(auth->in + TCI_BOOT_HEAD, &auth->theirs) != TC_OK ||
        (auth->theirs.ciphers & offered) != auth->theirs.ciphers ||
        auth->theirs.ciphers == TCI_CIPHERS) {
        deny(auth, TCI_AUTH_GARBLED);
        return;
    }
    reason = auth->theirs.from != auth->peer ? TCI_AUTH_ELSEWHERE : check_hello(auth);
    if (reason == TCI_AUTH_FINE && !tci_proof_exchange(auth->secret, auth->theirs.point))
        reason = TCI_AUTH_GARBLED;
    if (reason != TCI_AUTH_FINE) {
        deny(auth, reason);
        return;
    }
    of_peer = find_proof(auth, &slot);
    if (of_peer == NULL)
        deny(auth, TCI_AUTH_PROOF_WRONG);
    else
        say_proof(auth, of_peer, slot);
}

static void on_finish(struct tci_auth *auth)
{
    if (!tci_proof_is_same(auth->in + TCI_BOOT_HEAD, auth->finish)) {
        deny(auth, TCI_AUTH_PROOF_WRONG);
        return;
    }
    memcpy(auth->group_id, auth->theirs.group_id, TCI_GROUP_ID);
    end(auth, TCI_AUTH_PROVEN);
}

/* ---- Both ------------------------------------------------------------------------------------ */

void tci_auth_init(struct tci_auth *auth, const struct tci_auth_config *config)
{
    memset(auth, 0, sizeof *auth);
    TC_ASSERT(config->self < config->size);
    TC_ASSERT(!config->is_dialer || (config->keyring != NULL && config->peer < config->size));
    auth->config = *config;
    auth->state = TCI_AUTH_WAITING;
    auth->peer = config->is_dialer ? config->peer : config->size;
    auth->expects = config->is_dialer ? TCI_BOOT_ANSWER : TCI_BOOT_OFFER;
    memcpy(auth->group_id, config->group_id, TCI_GROUP_ID);
    if (!config->is_dialer)
        return;
    write_hello(auth, tci_seal_ciphers(), auth->offer);
    set_out(auth, auth->offer, sizeof auth->offer);
}

void tci_auth_fini(struct tci_auth *auth)
{
    tci_proof_wipe(auth, sizeof *auth);
}

size_t tci_auth_wants(const struct tci_auth *auth)
{
    if (auth->state != TCI_AUTH_WAITING)
        return 0;
    if (auth->have < TCI_BOOT_HEAD)
        return TCI_BOOT_HEAD - auth->have;
    return TCI_BOOT_HEAD + auth->head.len - auth->have;
}

static void on_deny(struct tci_auth *auth)
{
    struct tci_auth_deny said;

    auth->by_peer = tci_auth_deny_decode(auth->in + TCI_BOOT_HEAD, &said) == TC_OK;
    auth->peer_version = auth->head.version;
    fail(auth, auth->by_peer ? (enum tci_auth_reason)said.reason : TCI_AUTH_GARBLED);
}

/* The first head that the other side says may belong to those who know nothing of keys. */
static void on_head(struct tci_auth *auth)
{
    bool is_first = auth->expects == TCI_BOOT_OFFER || auth->expects == TCI_BOOT_ANSWER;
    /* Over descriptors any rank may hear from another one that there will be no group. */
    bool may_end = auth->config.place == TCI_AUTH_AT_DESCRIPTOR;

    if (tci_boot_head_decode(auth->in, &auth->head) != TC_OK) {
        fail(auth, TCI_AUTH_GARBLED);
    } else if (auth->head.type == TCI_BOOT_DENY) {
        return;
    } else if (auth->head.type != auth->expects) {
        if (is_first || (may_end && auth->head.type == TCI_BOOT_REFUSE))
            end(auth, TCI_AUTH_FOREIGN);
        else
            deny(auth, TCI_AUTH_GARBLED);
    } else if (auth->head.version != TCI_BOOT_VERSION) {
        auth->peer_version = auth->head.version;
        deny(auth, TCI_AUTH_VERSION);
    }
}

static void on_message(struct tci_auth *auth)
{
    switch (auth->head.type) {
    case TCI_BOOT_OFFER:
        on_offer(auth);
        return;
    case TCI_BOOT_ANSWER:
        on_answer(auth);
        return;
    case TCI_BOOT_PROOF:
        on_proof(auth);
        return;
    case TCI_BOOT_FINISH:
        on_finish(auth);
        return;
    default:
        on_deny(auth);
        return;
    }
}

void tci_auth_feed(struct tci_auth *auth, const uint8_t *bytes, size_t len)
{
    TC_ASSERT(len > 0 && len <= tci_auth_wants(auth));
    memcpy(auth->in + auth->have, bytes, len);
    auth->have += len;
    auth->out = NULL;
    auth->out_len = 0;
    if (auth->have <= TCI_BOOT_HEAD && !tci_boot_head_begins(auth->in, auth->have))
        fail(auth, TCI_AUTH_GARBLED);
    else if (auth->have == TCI_BOOT_HEAD)
        on_head(auth);
    else if (auth->have == TCI_BOOT_HEAD + auth->head.len) {
        auth->have = 0;
        on_message(auth);
    }
}
