/* key.c - the key of a context: given, or found in the environment, and kept where nobody looks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "key.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* A secret, and what it is called. */
struct given {
    const char *name;
    const void *bytes; /* NULL: none */
    size_t len;
};

static tc_status_t refuse(struct tci_error *error, const char *fmt, const char *name)
{
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init", fmt, name);
    return TC_ERR_INVALID_ARG;
}

/* The first of the variables that is set; two may have a name that others gave them. */
static void find(struct given *given, const char *const *names)
{
    for (; given->bytes == NULL && *names != NULL; names++) {
        const char *text = getenv(*names);

        if (text != NULL)
            *given = (struct given){.name = *names, .bytes = text, .len = strlen(text)};
    }
}

/* Into memory that is locked, guarded, and wiped when it is freed. */
static tc_status_t keep(const struct given *given, const void **bytes_out, size_t *len_out,
                        struct tci_error *error)
{
    void *copy;

    if (given->bytes == NULL)
        return TC_OK;
    if (given->len < TCI_KEY_MIN) {
        tci_error_set(
            error, TC_ERR_INVALID_ARG, -1, 0, "init",
            "%s is %zu bytes long: a key has at least %d, at random, such as 64 digits of "
            "\"openssl rand -hex 32\"",
            given->name, given->len, TCI_KEY_MIN);
        return TC_ERR_INVALID_ARG;
    }
    copy = sodium_init() < 0 ? NULL : sodium_malloc(given->len);
    if (copy == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "init", "no memory for a key");
        return TC_ERR_ALLOC;
    }
    memcpy(copy, given->bytes, given->len);
    *bytes_out = copy;
    *len_out = given->len;
    return TC_OK;
}

static tc_status_t resolve_encryption(tc_config *config, struct tci_error *error)
{
    const char *text = getenv("TCDIST_ENCRYPTION");

    if (config->encryption < -1 || config->encryption > 1) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "encryption is %d, but must be 1 (on), -1 (off) or 0 (not set)",
                      config->encryption);
        return TC_ERR_INVALID_ARG;
    }
    if (config->encryption != 0)
        return TC_OK;
    config->encryption = -1;
    if (text == NULL || strcmp(text, "off") == 0)
        return TC_OK;
    if (strcmp(text, "on") != 0) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                      "TCDIST_ENCRYPTION is \"%.40s\", but must be on or off", text);
        return TC_ERR_INVALID_ARG;
    }
    config->encryption = 1;
    return TC_OK;
}

static tc_status_t check(const struct given *key, const struct given *previous,
                         struct tci_error *error)
{
    if ((key->bytes == NULL && key->len != 0) || (previous->bytes == NULL && previous->len != 0))
        return refuse(error, "%s is NULL, and has a length: give both, or neither",
                      key->bytes == NULL ? key->name : previous->name);
    if (key->bytes == NULL && previous->bytes != NULL)
        return refuse(error, "%s is set, and there is no key that came after it: set a key too",
                      previous->name);
    return TC_OK;
}

tc_status_t tci_key_resolve(tc_config *config, struct tci_error *error)
{
    static const char *const key_names[] = {"TCDIST_KEY", "NUVEC_DISTRIBUTED_KEY", NULL};
    static const char *const previous_names[] = {"TCDIST_PREVIOUS_KEY", NULL};
    struct given key = {"key", config->key, config->key_bytes};
    struct given previous = {"previous_key", config->previous_key, config->previous_key_bytes};
    tc_status_t status;

    config->key = config->previous_key = NULL;
    config->key_bytes = config->previous_key_bytes = 0;
    status = check(&key, &previous, error);
    if (status != TC_OK)
        return status;
    if (key.bytes == NULL) { /* both come from one place */
        find(&key, key_names);
        find(&previous, previous_names);
        status = check(&key, &previous, error);
    }
    if (status == TC_OK)
        status = keep(&key, &config->key, &config->key_bytes, error);
    if (status == TC_OK)
        status = keep(&previous, &config->previous_key, &config->previous_key_bytes, error);
    if (status == TC_OK)
        status = resolve_encryption(config, error);
    return status;
}

void tci_key_fini(tc_config *config)
{
    sodium_free((void *)(uintptr_t)config->key);
    sodium_free((void *)(uintptr_t)config->previous_key);
    config->key = config->previous_key = NULL;
    config->key_bytes = config->previous_key_bytes = 0;
}

bool tci_key_is_missing(const tc_config *config)
{
    return config->key == NULL && config->encryption > 0;
}

tc_status_t tci_key_ring(const tc_config *config, struct tci_keyring **out, struct tci_error *error)
{
    *out = NULL;
    if (config->key == NULL) {
        if (tci_key_is_missing(config))
            tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                          "dist_init: encryption is on, and there is no key to encrypt by: set "
                          "TCDIST_KEY, the same on every rank, or tc_config.key");
        return error->pub.status;
    }
    *out = tci_keyring_shared(config->key, config->key_bytes, config->previous_key,
                              config->previous_key_bytes);
    if (*out == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init", "dist_init: no memory left");
        return TC_ERR_ALLOC;
    }
    (*out)->encrypts = config->encryption > 0;
    return TC_OK;
}
