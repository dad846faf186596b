/* seal.c - one direction of a link: encrypted, authenticated, counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/seal.h"

#include <assert.h>
#include <string.h>

#include "core/assert.h"

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

uint8_t tci_seal_ciphers(void)
{
    return TCI_CIPHER_CHACHA20POLY1305 |
           (crypto_aead_aes256gcm_is_available() ? TCI_CIPHER_AES256GCM : 0);
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

void tci_seal_put(struct tci_seal *seal, struct tci_bound bound, const uint8_t *payload, size_t len,
                  uint8_t *sealed)
{
    uint8_t nonce[NONCE];

    TC_ASSERT(len > 0 && len <= TCI_RECORD_MAX);
    next_nonce(seal, nonce);
    if (seal->cipher == TCI_CIPHER_AES256GCM)
        (void)crypto_aead_aes256gcm_encrypt_afternm(sealed, NULL, payload, len, bound.bytes,
                                                    bound.len, NULL, nonce, &seal->aes);
    else
        (void)crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, payload, len, bound.bytes,
                                                        bound.len, NULL, nonce, seal->key);
}

bool tci_seal_get(struct tci_seal *seal, struct tci_bound bound, const uint8_t *sealed, size_t len,
                  uint8_t *payload)
{
    size_t bytes = len + TCI_RECORD_TAG;
    uint8_t nonce[NONCE];

    TC_ASSERT(len > 0);
    next_nonce(seal, nonce);
    if (seal->cipher == TCI_CIPHER_AES256GCM)
        return crypto_aead_aes256gcm_decrypt_afternm(payload, NULL, NULL, sealed, bytes,
                                                     bound.bytes, bound.len, nonce,
                                                     &seal->aes) == 0;
    return crypto_aead_chacha20poly1305_ietf_decrypt(payload, NULL, NULL, sealed, bytes,
                                                     bound.bytes, bound.len, nonce, seal->key) == 0;
}

/* ---- Records ---- */

void tci_seal_close(struct tci_seal *seal, const uint8_t *payload, size_t len, uint8_t *record)
{
    uint32_t rest = (uint32_t)len + TCI_RECORD_TAG;

    for (int k = 0; k < TCI_RECORD_HEAD; k++)
        record[k] = (uint8_t)(rest >> (8 * (TCI_RECORD_HEAD - 1 - k)));
    tci_seal_put(seal, (struct tci_bound){record, TCI_RECORD_HEAD}, payload, len,
                 record + TCI_RECORD_HEAD);
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
    TC_ASSERT(bytes > TCI_RECORD_OVER);
    return tci_seal_get(seal, (struct tci_bound){record, TCI_RECORD_HEAD}, record + TCI_RECORD_HEAD,
                        bytes - TCI_RECORD_OVER, payload);
}
