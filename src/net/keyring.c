/* keyring.c - the secrets by which ranks know each other: shared, guarded, wiped at the end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/keyring.h"

#include <sodium.h>
#include <stdatomic.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

/* A keyring with room for `count` secrets of `bytes` together; NULL: no memory, or no randomness
 * to work with. */
static struct tci_keyring *keyring_new(size_t count, size_t bytes)
{
    struct tci_keyring *keyring = sodium_init() < 0 ? NULL : tci_alloc(sizeof *keyring);

    if (keyring == NULL)
        return NULL;
    atomic_init(&keyring->refs, 1);
    keyring->count = count;
    keyring->secrets = tci_alloc_array(count, sizeof *keyring->secrets);
    keyring->guarded = sodium_malloc(bytes);
    if (keyring->secrets != NULL && keyring->guarded != NULL)
        return keyring;
    tci_keyring_unref(keyring);
    return NULL;
}

/* The next secret takes its place behind the others; gives the place behind it. */
static uint8_t *put(struct tci_secret *secret, uint8_t *at, const void *bytes, size_t len)
{
    memcpy(at, bytes, len);
    secret->bytes = at;
    secret->len = len;
    return at + len;
}

struct tci_keyring *tci_keyring_shared(const void *key, size_t len, const void *older,
                                       size_t older_len)
{
    struct tci_keyring *keyring = keyring_new(older != NULL ? 2 : 1, len + older_len);
    uint8_t *at;

    TC_ASSERT(len >= TCI_KEY_MIN && (older == NULL || older_len >= TCI_KEY_MIN));
    if (keyring == NULL)
        return NULL;
    keyring->is_shared = true;
    at = put(&keyring->secrets[0], keyring->guarded, key, len);
    if (older != NULL)
        (void)put(&keyring->secrets[1], at, older, older_len);
    sodium_mprotect_readonly(keyring->guarded);
    return keyring;
}

static void copy_identity(char *to, const char *from)
{
    TC_ASSERT(strlen(from) < TCI_IDENTITY_BYTES);
    memcpy(to, from, strlen(from) + 1);
}

struct tci_keyring *tci_keyring_new(const tc_transport_auth_config *config,
                                    const char *const *identities, int size)
{
    struct tci_keyring *keyring;
    size_t bytes = 0;
    uint8_t *at;

    for (size_t k = 0; k < config->key_count; k++)
        bytes += config->keys[k].secret_bytes;
    keyring = keyring_new(config->key_count, bytes);
    if (keyring == NULL)
        return NULL;
    keyring->identities = tci_alloc_array((size_t)size, sizeof *keyring->identities);
    if (keyring->identities == NULL) {
        tci_keyring_unref(keyring);
        return NULL;
    }
    keyring->size = size;
    keyring->active_id = config->active_key_id;
    for (int rank = 0; rank < size; rank++)
        copy_identity(keyring->identities[rank], identities[rank]);
    at = keyring->guarded;
    for (size_t k = 0; k < config->key_count; k++) {
        copy_identity(keyring->secrets[k].identity, config->keys[k].identity);
        keyring->secrets[k].id = config->keys[k].key_id;
        at = put(&keyring->secrets[k], at, config->keys[k].secret, config->keys[k].secret_bytes);
    }
    sodium_mprotect_readonly(keyring->guarded);
    return keyring;
}

struct tci_keyring *tci_keyring_ref(struct tci_keyring *keyring)
{
    /* relaxed: who has one reference may make another */
    if (keyring != NULL)
        atomic_fetch_add_explicit(&keyring->refs, 1, memory_order_relaxed);
    return keyring;
}

void tci_keyring_unref(struct tci_keyring *keyring)
{
    /* acq_rel: what others did with it has happened before it is wiped */
    if (keyring == NULL || atomic_fetch_sub_explicit(&keyring->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (keyring->guarded != NULL)
        sodium_free(keyring->guarded); /* wipes it */
    tci_free(keyring->secrets);
    tci_free(keyring->identities);
    tci_free(keyring);
}

const struct tci_secret *tci_keyring_find(const struct tci_keyring *keyring, const char *identity,
                                          uint64_t id)
{
    for (size_t k = 0; k < keyring->count; k++)
        if (keyring->secrets[k].id == id && strcmp(keyring->secrets[k].identity, identity) == 0)
            return &keyring->secrets[k];
    return NULL;
}
