/* seal.c - one direction of a connection, in records: encrypted, authenticated, counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/seal.h"

#include <assert.h>
#include <string.h>

#include "core/assert.h"
#include "net/auth_wire.h"

enum { NONCE = crypto_aead_aes256gcm_NPUBBYTES };
static_assert(NONCE == crypto_aead_chacha20poly1305_ietf_NPUBBYTES, "one form of nonce for both");
static_assert(TCI_RECORD_TAG == crypto_aead_aes256gcm_ABYTES, "as drawn");
static_assert(TCI_RECORD_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES, "as drawn");

static const char key_label[] = "tcdist record key", next_label[] = "tcdist next secret";

static void derive(const uint8_t secret[32], const char *label, uint8_t out[32])
{
    (void)crypto_auth_hmacsha256(out, (const uint8_t *)label, strlen(label) + 1, secret);
}

static void set_key(struct tci_seal *seal)
{
    derive(seal->secret, key_label, seal->key);
    if (seal->cipher == TCI_CIPHER_AES256GCM)
        (void)crypto_aead_aes256gcm_beforenm(&seal->aes, seal->key);
}

void tci_seal_init(struct tci_seal *seal, uint8_t cipher, const uint8_t secret[32])
{
    TC_ASSERT(cipher == TCI_CIPHER_AES256GCM || cipher == TCI_CIPHER_CHACHA20POLY1305);
    memset(seal, 0, sizeof *seal);
    seal->cipher = cipher;
    memcpy(seal->secret, secret, sizeof seal->secret);
    set_key(seal);
}

void tci_seal_fini(struct tci_seal *seal)
{
    sodium_memzero(seal, sizeof *seal);
}

/* The number of the next record, and before it the key that it is due. */
static void next_nonce(struct tci_seal *seal, uint8_t nonce[NONCE])
{
    if (seal->count != 0 && seal->count % TCI_RECORDS_A_KEY == 0) {
        uint8_t next[32];

        derive(seal->secret, next_label, next);
        memcpy(seal->secret, next, sizeof next);
        sodium_memzero(next, sizeof next);
        set_key(seal);
    }
    memset(nonce, 0, NONCE);
    for (int k = 0; k < 8; k++)
        nonce[NONCE - 1 - k] = (uint8_t)(seal->count >> (8 * k));
    seal->count++;
}

void tci_seal_close(struct tci_seal *seal, const uint8_t *payload, size_t len, uint8_t *record)
{
    uint32_t rest = (uint32_t)len + TCI_RECORD_TAG;
    uint8_t *sealed = record + TCI_RECORD_HEAD, nonce[NONCE];

    TC_ASSERT(len > 0 && len <= TCI_RECORD_MAX);
    for (int k = 0; k < TCI_RECORD_HEAD; k++)
        record[k] = (uint8_t)(rest >> (8 * (TCI_RECORD_HEAD - 1 - k)));
    next_nonce(seal, nonce);
    if (seal->cipher == TCI_CIPHER_AES256GCM)
        (void)crypto_aead_aes256gcm_encrypt_afternm(sealed, NULL, payload, len, record,
                                                    TCI_RECORD_HEAD, NULL, nonce, &seal->aes);
    else
        (void)crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, payload, len, record,
                                                        TCI_RECORD_HEAD, NULL, nonce, seal->key);
}

size_t tci_record_bytes(const uint8_t head[TCI_RECORD_HEAD], size_t payload_max)
{
    size_t rest = 0;

    for (int k = 0; k < TCI_RECORD_HEAD; k++)
        rest = rest << 8 | head[k];
    return rest > TCI_RECORD_TAG && rest <= payload_max + TCI_RECORD_TAG ? TCI_RECORD_HEAD + rest
                                                                         : 0;
}

bool tci_seal_open(struct tci_seal *seal, const uint8_t *record, size_t bytes, uint8_t *payload)
{
    const uint8_t *sealed = record + TCI_RECORD_HEAD;
    size_t len = bytes - TCI_RECORD_HEAD;
    uint8_t nonce[NONCE];

    TC_ASSERT(bytes > TCI_RECORD_OVER);
    next_nonce(seal, nonce);
    if (seal->cipher == TCI_CIPHER_AES256GCM)
        return crypto_aead_aes256gcm_decrypt_afternm(payload, NULL, NULL, sealed, len, record,
                                                     TCI_RECORD_HEAD, nonce, &seal->aes) == 0;
    return crypto_aead_chacha20poly1305_ietf_decrypt(payload, NULL, NULL, sealed, len, record,
                                                     TCI_RECORD_HEAD, nonce, seal->key) == 0;
}
