/* boot_wire.c - the messages of the rendezvous as bytes: written, and checked when read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/boot_wire.h"

#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/bytes.h"

/* Numbers are in network order.
 *
 *   head      0 magic[8]   8 version   10 type   11 zero   12 length of the body
 *   JOIN      0 size   4 rank   8 address[32]   40 host   48 release   52 zero   56 job[16]
 *             72 cpus[128]
 *   TABLE     0 group id[16]   16 size   20 tune   21 zero   22 cores   24 segment bytes
 *             32 eager bytes   40 numerics   41 algorithm[23]
 *             64 { address[32]   host   label } a rank
 *   REFUSE    0 status   4 rank at fault   8 text
 *   ROW       0 size   4 rank   8 host   16 group id[16]   32 segment bytes   40 eager bytes
 *             48 numerics   49 algorithm[23]   72 ring or not   73 tune   74 cores   76 zero
 *             80 cpus[128]
 */
/* The last of enum tci_tune, which this floor does not see, and the bits above: ranks have
 * identities; those of one host are linked over TCP. */
enum { TUNE_MAX = 15 };

static const uint8_t magic[8] = {'t', 'c', 'd', 'i', 's', 't', '\r', '\n'};

/* ---- Heads ----------------------------------------------------------------------------------- */

void tci_boot_head_encode(enum tci_boot_type type, size_t len, uint8_t *bytes)
{
    memcpy(bytes, magic, sizeof magic);
    tci_put_number(bytes + 8, TCI_BOOT_VERSION, 2);
    tci_put_number(bytes + 10, (uint64_t)type, 1);
    tci_put_number(bytes + 11, 0, 1);
    tci_put_number(bytes + 12, len, 4);
}

bool tci_boot_head_begins(const uint8_t *bytes, size_t len)
{
    return memcmp(bytes, magic, tci_min(len, sizeof magic)) == 0;
}

static bool has_len_of_type(const struct tci_boot_head *head)
{
    switch ((enum tci_boot_type)head->type) {
    case TCI_BOOT_JOIN:
        return head->len == TCI_BOOT_JOIN_LEN;
    case TCI_BOOT_ROW:
        return head->len == TCI_BOOT_ROW_LEN;
    case TCI_BOOT_TABLE:
        return head->len >= tci_boot_table_len(2) &&
               head->len <= tci_boot_table_len(TCI_BOOT_SIZE_MAX) &&
               (head->len - TCI_BOOT_TABLE_FIXED) % TCI_BOOT_TABLE_EACH == 0;
    case TCI_BOOT_WELCOME:
    case TCI_BOOT_READY:
    case TCI_BOOT_GO:
    case TCI_BOOT_PING:
        return head->len == 0;
    case TCI_BOOT_REFUSE:
        return head->len >= TCI_BOOT_REFUSE_FIXED && head->len <= TCI_BOOT_REFUSE_MAX;
    case TCI_BOOT_OFFER:
        return head->len == TCI_BOOT_OFFER_LEN;
    case TCI_BOOT_ANSWER:
        return head->len == TCI_BOOT_ANSWER_LEN;
    case TCI_BOOT_PROOF:
        return head->len == TCI_BOOT_PROOF_LEN;
    case TCI_BOOT_DENY:
        return head->len == TCI_BOOT_DENY_LEN;
    case TCI_BOOT_FINISH:
        return head->len == TCI_BOOT_FINISH_LEN;
    }
    return false;
}

tc_status_t tci_boot_head_decode(const uint8_t *bytes, struct tci_boot_head *head_out)
{
    struct tci_boot_head head = {
        .version = (uint16_t)tci_get_number(bytes + 8, 2),
        .type = bytes[10],
        .len = (uint32_t)tci_get_number(bytes + 12, 4),
    };

    if (!tci_boot_head_begins(bytes, TCI_BOOT_HEAD) || bytes[11] != 0)
        return TC_ERR_TRANSPORT;
    if (head.version == TCI_BOOT_VERSION || head.type == TCI_BOOT_REFUSE ||
        head.type == TCI_BOOT_DENY) {
        if (!has_len_of_type(&head))
            return TC_ERR_TRANSPORT;
    } else if (head.len > TCI_BOOT_REFUSE_MAX) {
        return TC_ERR_TRANSPORT;
    }
    *head_out = head;
    return TC_OK;
}

/* ---- Bodies ---------------------------------------------------------------------------------- */

static void put_cpus(const struct tci_cpus *cpus, uint8_t *bytes)
{
    for (int k = 0; k < TCI_CPUS / 64; k++)
        tci_put_number(bytes + (size_t)8 * (size_t)k, cpus->words[k], 8);
}

static void get_cpus(const uint8_t *bytes, struct tci_cpus *cpus_out)
{
    for (int k = 0; k < TCI_CPUS / 64; k++)
        cpus_out->words[k] = tci_get_number(bytes + (size_t)8 * (size_t)k, 8);
}

void tci_boot_join_encode(const struct tci_boot_join *join, uint8_t *bytes)
{
    tci_put_number(bytes, join->size, 4);
    tci_put_number(bytes + 4, join->rank, 4);
    tci_addr_encode(&join->addr, bytes + 8);
    tci_put_number(bytes + 40, join->host, 8);
    tci_put_number(bytes + 48, join->release, 4);
    tci_put_number(bytes + 52, 0, 4);
    memcpy(bytes + 56, join->job, TCI_GROUP_ID);
    put_cpus(&join->cpus, bytes + 72);
}

tc_status_t tci_boot_join_decode(const uint8_t *bytes, struct tci_boot_join *join_out)
{
    struct tci_boot_join join = {
        .size = (uint32_t)tci_get_number(bytes, 4),
        .rank = (uint32_t)tci_get_number(bytes + 4, 4),
        .host = tci_get_number(bytes + 40, 8),
        .release = (uint32_t)tci_get_number(bytes + 48, 4),
    };

    if (tci_addr_decode(bytes + 8, &join.addr) != TC_OK || tci_addr_port(&join.addr) == 0)
        return TC_ERR_TRANSPORT;
    if (tci_get_number(bytes + 52, 4) != 0)
        return TC_ERR_TRANSPORT;
    memcpy(join.job, bytes + 56, TCI_GROUP_ID);
    get_cpus(bytes + 72, &join.cpus);
    *join_out = join;
    return TC_OK;
}

const char *tci_boot_join_release(const struct tci_boot_head *head, const uint8_t *bytes,
                                  char *text)
{
    uint32_t release = head->len >= 52 ? (uint32_t)tci_get_number(bytes + 48, 4) : 0;

    if (release == 0) /* versions 1 and 2 did not say it */
        (void)snprintf(text, 64, "a tcdist of version %u of the rendezvous", head->version);
    else
        (void)snprintf(text, 64, "tcdist %u.%u.%u", release >> 24, release >> 16 & 255,
                       release & 65535);
    return text;
}

/* Beside the numerics: all calls are checked in full. */
enum { FULL = 128 };

/* 40 bytes of settings. */
static void put_agreed(const struct tci_agreed *agreed, uint8_t *bytes)
{
    tci_put_number(bytes, agreed->segment_bytes, 8);
    tci_put_number(bytes + 8, agreed->eager_bytes, 8);
    tci_put_number(bytes + 16, agreed->numerics | (agreed->check == TC_CHECK_FULL ? FULL : 0u), 1);
    memcpy(bytes + 17, agreed->algorithm, sizeof agreed->algorithm);
}

static tc_status_t get_agreed(const uint8_t *bytes, struct tci_agreed *agreed_out)
{
    struct tci_agreed agreed = {
        .segment_bytes = tci_get_number(bytes, 8),
        .eager_bytes = tci_get_number(bytes + 8, 8),
        .numerics = bytes[16] & ~FULL,
        .check = bytes[16] & FULL ? TC_CHECK_FULL : TC_CHECK_CHEAP,
    };

    memcpy(agreed.algorithm, bytes + 17, sizeof agreed.algorithm);
    if (agreed.numerics > TC_NUMERICS_EXACT ||
        memchr(agreed.algorithm, '\0', sizeof agreed.algorithm) == NULL)
        return TC_ERR_TRANSPORT;
    *agreed_out = agreed;
    return TC_OK;
}

void tci_boot_row_encode(const struct tci_boot_row *row, uint8_t *bytes)
{
    memset(bytes, 0, TCI_BOOT_ROW_LEN);
    tci_put_number(bytes, row->size, 4);
    tci_put_number(bytes + 4, row->rank, 4);
    tci_put_number(bytes + 8, row->host, 8);
    memcpy(bytes + 16, row->group_id, TCI_GROUP_ID);
    put_agreed(&row->agreed, bytes + 32);
    bytes[72] = row->is_ring;
    tci_put_number(bytes + 73, row->agreed.tune, 1);
    tci_put_number(bytes + 74, row->agreed.cores, 2);
    put_cpus(&row->cpus, bytes + 80);
}

tc_status_t tci_boot_row_decode(const uint8_t *bytes, struct tci_boot_row *row_out)
{
    struct tci_boot_row row = {
        .size = (uint32_t)tci_get_number(bytes, 4),
        .rank = (uint32_t)tci_get_number(bytes + 4, 4),
        .host = tci_get_number(bytes + 8, 8),
        .is_ring = bytes[72] != 0,
    };

    if (bytes[72] > 1 || bytes[73] > TUNE_MAX || tci_get_number(bytes + 76, 4) != 0 ||
        get_agreed(bytes + 32, &row.agreed) != TC_OK)
        return TC_ERR_TRANSPORT;
    row.agreed.tune = bytes[73];
    row.agreed.cores = (uint16_t)tci_get_number(bytes + 74, 2);
    get_cpus(bytes + 80, &row.cpus);
    memcpy(row.group_id, bytes + 16, TCI_GROUP_ID);
    *row_out = row;
    return TC_OK;
}

void tci_boot_table_encode(const struct tci_boot_result *result, uint8_t *bytes)
{
    uint8_t *each = bytes + TCI_BOOT_TABLE_FIXED;

    TC_ASSERT(result->size >= 2 && result->size <= TCI_BOOT_SIZE_MAX);
    memset(bytes, 0, TCI_BOOT_TABLE_FIXED);
    memcpy(bytes, result->group_id, TCI_GROUP_ID);
    tci_put_number(bytes + 16, (uint64_t)result->size, 4);
    tci_put_number(bytes + 20, result->agreed.tune, 1);
    tci_put_number(bytes + 22, result->agreed.cores, 2);
    put_agreed(&result->agreed, bytes + 24);
    for (int rank = 0; rank < result->size; rank++, each += TCI_BOOT_TABLE_EACH) {
        tci_addr_encode(&result->addrs[rank], each);
        tci_put_number(each + TCI_ADDR_WIRE, result->hosts[rank], 8);
        tci_put_number(each + TCI_ADDR_WIRE + 8, result->labels[rank], 8);
    }
}

tc_status_t tci_boot_table_decode(const uint8_t *bytes, struct tci_boot_result *result)
{
    const uint8_t *each = bytes + TCI_BOOT_TABLE_FIXED;
    struct tci_agreed agreed;

    if (tci_get_number(bytes + 16, 4) != (uint64_t)result->size || bytes[20] > TUNE_MAX ||
        bytes[21] != 0 || get_agreed(bytes + 24, &agreed) != TC_OK)
        return TC_ERR_TRANSPORT;
    agreed.tune = bytes[20];
    agreed.cores = (uint16_t)tci_get_number(bytes + 22, 2);

    for (int rank = 0; rank < result->size; rank++, each += TCI_BOOT_TABLE_EACH) {
        if (tci_addr_decode(each, &result->addrs[rank]) != TC_OK ||
            tci_addr_port(&result->addrs[rank]) == 0)
            return TC_ERR_TRANSPORT;
        result->hosts[rank] = tci_get_number(each + TCI_ADDR_WIRE, 8);
        result->labels[rank] = tci_get_number(each + TCI_ADDR_WIRE + 8, 8);
    }
    memcpy(result->group_id, bytes, TCI_GROUP_ID);
    result->agreed = agreed;
    return TC_OK;
}

size_t tci_boot_refuse_encode(const struct tci_error *error, uint8_t *bytes)
{
    size_t len = tci_min(strlen(error->text), TCI_BOOT_TEXT_MAX);

    TC_ASSERT(error->pub.status != TC_OK);
    tci_put_number(bytes, (uint32_t)error->pub.status, 4);
    tci_put_number(bytes + 4, (uint32_t)error->pub.rank, 4);
    if (error->pub.rank >= 0)
        bytes[4] = (uint8_t)error->reason;
    memcpy(bytes + TCI_BOOT_REFUSE_FIXED, error->text, len);
    return TCI_BOOT_REFUSE_FIXED + len;
}

void tci_boot_refuse_decode(const uint8_t *bytes, size_t len, struct tci_error *error)
{
    static const tc_status_t known[] = {TC_ERR_TIMEOUT,   TC_ERR_PEER_LOST,   TC_ERR_ALLOC,
                                        TC_ERR_TRANSPORT, TC_ERR_INVALID_ARG, TC_ERR_AUTH};
    uint32_t number = (uint32_t)tci_get_number(bytes, 4);
    uint32_t rank = (uint32_t)tci_get_number(bytes + 4, 4), reason = bytes[4];
    tc_status_t status = TC_ERR_RENDEZVOUS;
    char text[TCI_BOOT_TEXT_MAX + 1];
    size_t text_len = len - TCI_BOOT_REFUSE_FIXED;

    TC_ASSERT(len >= TCI_BOOT_REFUSE_FIXED && len <= TCI_BOOT_REFUSE_MAX);
    for (size_t k = 0; k < TCI_LEN(known); k++) {
        if (number == (uint32_t)known[k])
            status = known[k];
    }
    for (size_t k = 0; k < text_len; k++) {
        uint8_t byte = bytes[TCI_BOOT_REFUSE_FIXED + k];

        text[k] = byte >= 0x20 && byte < 0x7f ? (char)byte : '?';
    }
    text[text_len] = '\0';
    if (reason < TCI_REASON_COUNT)
        rank &= 0xffffff;
    else
        reason = TC_REASON_NONE;
    if (status == TC_ERR_AUTH && reason == TC_REASON_NONE)
        reason = TC_REASON_REFUSED_KEY;
    tci_error_blame(error, status, rank < TCI_BOOT_SIZE_MAX ? (int)rank : -1, (tc_reason_t)reason,
                    "dist_init", "%s",
                    text_len != 0 ? text : "rank 0 refuses, and does not say why");
}
