/* keyring.h - the secrets by which ranks know each other: shared, guarded, wiped at the end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_KEYRING_H
#define TCI_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/auth.h"

enum {
    TCI_KEY_MIN = 16,        /* bytes of a key that all ranks share */
    TCI_KEYS_SHARED_MAX = 2, /* the one in use, and the one before it */
    TCI_IDENTITY_BYTES = 128 /* with the zero behind it */
};

struct tci_secret {
    char identity[TCI_IDENTITY_BYTES]; /* "": of all ranks */
    uint64_t id;                       /* 0: of all ranks */
    const uint8_t *bytes;              /* in guarded memory of the keyring */
    size_t len;
};

/* Read only, once it is made; counted. */
struct tci_keyring {
    _Atomic unsigned refs;
    bool is_shared; /* one key for all ranks, maybe an older one besides; else one an identity */
    bool encrypts;  /* everything is sealed, not only what is said until a link stands */
    size_t count;
    struct tci_secret *secrets; /* owned; when shared the one in use is the first */
    uint8_t *guarded;           /* owned: the bytes of all */
    int size;
    char (*identities)[TCI_IDENTITY_BYTES]; /* owned; by rank; NULL when shared */
    uint64_t active_id;                     /* of this rank's key; 0 when shared */
};

/* A key, and NULL or an older one, of at least TCI_KEY_MIN bytes; copied.  NULL: no memory. */
struct tci_keyring *tci_keyring_shared(const void *key, size_t len, const void *older,
                                       size_t older_len);
/* Identities by rank and their keys, that have been checked; copied.  NULL: no memory. */
struct tci_keyring *tci_keyring_new(const tc_transport_auth_config *config,
                                    const char *const *identities, int size);
/* Any thread. */
struct tci_keyring *tci_keyring_ref(struct tci_keyring *keyring); /* NULL is fine */
void tci_keyring_unref(struct tci_keyring *keyring);              /* NULL is fine */

/* The secret of an identity under a number; NULL: it has none. */
const struct tci_secret *tci_keyring_find(const struct tci_keyring *keyring, const char *identity,
                                          uint64_t id);

#endif
