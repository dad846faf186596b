/* auth_wire.c - the messages of the proof as bytes: written, and checked when read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/auth_wire.h"

#include <assert.h>
#include <string.h>

#include "core/assert.h"
#include "core/bytes.h"

/* Numbers are in network order.
 *
 *   OFFER     0 place   1 kind   2 encrypts   3 ciphers   4 from   8 to   12 zero   16 group id[16]
 *             32 key id   40 nonce[32]   72 point[32]   104 identity[128]
 *   ANSWER    the same, and   232 proof[32]   264 proof by the older key[32]
 *   PROOF     0 which of the two   1 zero[7]   8 proof[32]
 *   FINISH    0 proof[32]
 *   DENY      0 reason   1 zero[3]   4 from
 */
static_assert(TCI_BOOT_OFFER_LEN == 104 + TCI_IDENTITY_BYTES, "as drawn");
static_assert(TCI_BOOT_ANSWER_LEN == TCI_AUTH_HELLO_LEN + 2 * TCI_AUTH_MAC, "as drawn");
static_assert(TCI_BOOT_PROOF_LEN == TCI_AUTH_PROOF_FIXED + TCI_AUTH_MAC, "as drawn");
static_assert((int)TCI_BOOT_FINISH_LEN == (int)TCI_AUTH_MAC, "as drawn");

void tci_auth_hello_encode(const struct tci_auth_hello *hello, uint8_t *bytes)
{
    TC_ASSERT(strlen(hello->identity) < TCI_IDENTITY_BYTES);
    memset(bytes, 0, TCI_AUTH_HELLO_LEN);
    bytes[0] = hello->place;
    bytes[1] = hello->kind;
    bytes[2] = hello->encrypts;
    bytes[3] = hello->ciphers;
    tci_put_number(bytes + 4, hello->from, 4);
    tci_put_number(bytes + 8, hello->to, 4);
    memcpy(bytes + 16, hello->group_id, TCI_GROUP_ID);
    tci_put_number(bytes + 32, hello->key_id, 8);
    memcpy(bytes + 40, hello->nonce, TCI_AUTH_NONCE);
    memcpy(bytes + 72, hello->point, TCI_AUTH_POINT);
    memcpy(bytes + 104, hello->identity, strlen(hello->identity));
}

/* Printable up to its end, and zero behind it. */
static bool is_identity(const uint8_t *bytes)
{
    size_t len = 0;

    while (len < TCI_IDENTITY_BYTES && bytes[len] >= 0x20 && bytes[len] <= 0x7e)
        len++;
    for (size_t k = len; k < TCI_IDENTITY_BYTES; k++)
        if (bytes[k] != 0)
            return false;
    return len < TCI_IDENTITY_BYTES;
}

tc_status_t tci_auth_hello_decode(const uint8_t *bytes, struct tci_auth_hello *hello_out)
{
    struct tci_auth_hello hello = {
        .place = bytes[0],
        .kind = bytes[1],
        .encrypts = bytes[2],
        .ciphers = bytes[3],
        .from = (uint32_t)tci_get_number(bytes + 4, 4),
        .to = (uint32_t)tci_get_number(bytes + 8, 4),
        .key_id = tci_get_number(bytes + 32, 8),
    };
    bool has_identity = bytes[104] != 0;

    if (hello.place < TCI_AUTH_AT_RENDEZVOUS || hello.place > TCI_AUTH_AT_DESCRIPTOR ||
        hello.kind < TCI_AUTH_SHARED || hello.kind > TCI_AUTH_IDENTITIES || hello.encrypts > 1 ||
        hello.ciphers == 0 || hello.ciphers > TCI_CIPHERS || tci_get_number(bytes + 12, 4) != 0 ||
        !is_identity(bytes + 104))
        return TC_ERR_TRANSPORT;
    if (has_identity != (hello.kind == TCI_AUTH_IDENTITIES) || has_identity != (hello.key_id != 0))
        return TC_ERR_TRANSPORT;
    memcpy(hello.group_id, bytes + 16, TCI_GROUP_ID);
    memcpy(hello.nonce, bytes + 40, TCI_AUTH_NONCE);
    memcpy(hello.point, bytes + 72, TCI_AUTH_POINT);
    memcpy(hello.identity, bytes + 104, TCI_IDENTITY_BYTES);
    *hello_out = hello;
    return TC_OK;
}

void tci_auth_deny_encode(const struct tci_auth_deny *deny, uint8_t *bytes)
{
    TC_ASSERT(deny->reason != TCI_AUTH_FINE && deny->reason < TCI_AUTH_REASONS);
    memset(bytes, 0, TCI_BOOT_DENY_LEN);
    bytes[0] = deny->reason;
    tci_put_number(bytes + 4, deny->from, 4);
}

tc_status_t tci_auth_deny_decode(const uint8_t *bytes, struct tci_auth_deny *deny_out)
{
    struct tci_auth_deny deny = {.reason = bytes[0],
                                 .from = (uint32_t)tci_get_number(bytes + 4, 4)};

    if (deny.reason == TCI_AUTH_FINE || deny.reason >= TCI_AUTH_REASONS ||
        tci_get_number(bytes + 1, 3) != 0)
        return TC_ERR_TRANSPORT;
    *deny_out = deny;
    return TC_OK;
}
