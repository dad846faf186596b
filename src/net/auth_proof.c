/* auth_proof.c - the arithmetic of the proof: exchange, codes, keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/auth_proof.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"

/* Every code is HMAC-SHA256, by a key that ranks were given, of
 *
 *   label, slot, the secret of the exchange, SHA-256 of what went over the wire so far
 *
 * so that who only listens has nothing to try keys on: the secret of the exchange is in it.
 */
static_assert(TCI_AUTH_MAC == crypto_auth_hmacsha256_BYTES, "as on the wire");
static_assert(TCI_AUTH_POINT == crypto_scalarmult_BYTES, "as on the wire");

static const char answer_label[] = "tcdist proof of who was dialed";
static const char dialer_label[] = "tcdist proof of who dials";
static const char finish_label[] = "tcdist finish of who was dialed";
static const char session_label[] = "tcdist session";
static const char to_dialed_label[] = "tcdist dialer to dialed";
static const char to_dialer_label[] = "tcdist dialed to dialer";

void tci_proof_random(void *bytes, size_t len)
{
    randombytes_buf(bytes, len);
}

void tci_proof_wipe(void *bytes, size_t len)
{
    sodium_memzero(bytes, len);
}

bool tci_proof_is_same(const uint8_t a[TCI_AUTH_MAC], const uint8_t b[TCI_AUTH_MAC])
{
    return crypto_verify_32(a, b) == 0; /* in constant time */
}

void tci_proof_begin(uint8_t secret[32], uint8_t point[TCI_AUTH_POINT])
{
    int result;

    randombytes_buf(secret, 32);
    result = crypto_scalarmult_base(point, secret);
    TC_ASSERT(result == 0);
}

bool tci_proof_exchange(uint8_t secret[32], const uint8_t point[TCI_AUTH_POINT])
{
    uint8_t shared[32];
    bool is_good = crypto_scalarmult(shared, secret, point) == 0; /* refuses points of low order */

    if (is_good)
        memcpy(secret, shared, sizeof shared);
    sodium_memzero(shared, sizeof shared);
    return is_good;
}

/* Of the OFFER, and of the first bytes of the ANSWER. */
static void hash_wire(const struct tci_auth *auth, size_t answer_len,
                      uint8_t hash[crypto_hash_sha256_BYTES])
{
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, auth->offer, sizeof auth->offer);
    crypto_hash_sha256_update(&state, auth->answer, answer_len);
    crypto_hash_sha256_final(&state, hash);
}

struct code {
    const char *label;
    unsigned slot;
    size_t answer_len;   /* of the ANSWER that it covers */
    const uint8_t *more; /* TCI_AUTH_MAC bytes, or NULL */
};

static void make_code(const struct tci_auth *auth, const struct tci_secret *key,
                      const struct code *what, uint8_t code[TCI_AUTH_MAC])
{
    crypto_auth_hmacsha256_state state;
    uint8_t slot = (uint8_t)what->slot, hash[crypto_hash_sha256_BYTES];

    hash_wire(auth, what->answer_len, hash);
    crypto_auth_hmacsha256_init(&state, key->bytes, key->len);
    crypto_auth_hmacsha256_update(&state, (const uint8_t *)what->label, strlen(what->label) + 1);
    crypto_auth_hmacsha256_update(&state, &slot, 1);
    crypto_auth_hmacsha256_update(&state, auth->secret, sizeof auth->secret);
    crypto_auth_hmacsha256_update(&state, hash, sizeof hash);
    if (what->more != NULL)
        crypto_auth_hmacsha256_update(&state, what->more, TCI_AUTH_MAC);
    crypto_auth_hmacsha256_final(&state, code);
    sodium_memzero(&state, sizeof state);
}

void tci_proof_of_answer(const struct tci_auth *auth, const struct tci_secret *key, unsigned slot,
                         uint8_t code[TCI_AUTH_MAC])
{
    const struct code what = {answer_label, slot, TCI_BOOT_HEAD + TCI_AUTH_HELLO_LEN, NULL};

    make_code(auth, key, &what, code);
}

void tci_proof_of_dialer(const struct tci_auth *auth, const struct tci_secret *key, unsigned slot,
                         uint8_t code[TCI_AUTH_MAC])
{
    const struct code what = {dialer_label, slot, sizeof auth->answer, NULL};

    make_code(auth, key, &what, code);
}

void tci_proof_of_finish(const struct tci_auth *auth, const struct tci_secret *key, unsigned slot,
                         uint8_t code[TCI_AUTH_MAC])
{
    const struct code what = {finish_label, slot, sizeof auth->answer, NULL};

    make_code(auth, key, &what, code);
}

static void derive(const uint8_t from[TCI_AUTH_MAC], const char *label, uint8_t key[32])
{
    (void)crypto_auth_hmacsha256(key, (const uint8_t *)label, strlen(label) + 1, from);
}

void tci_proof_session(const struct tci_auth *auth, const struct tci_secret *dialer,
                       const struct tci_secret *dialed, unsigned slot, struct tci_session *out)
{
    uint8_t half[TCI_AUTH_MAC], whole[TCI_AUTH_MAC];
    const struct code first = {session_label, slot, sizeof auth->answer, NULL};
    const struct code second = {session_label, slot, sizeof auth->answer, half};
    bool dials = auth->config.is_dialer;

    make_code(auth, dialed, &first, half);
    make_code(auth, dialer, &second, whole);
    derive(whole, to_dialed_label, dials ? out->send : out->receive);
    derive(whole, to_dialer_label, dials ? out->receive : out->send);
    sodium_memzero(half, sizeof half);
    sodium_memzero(whole, sizeof whole);
}
