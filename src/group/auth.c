/* auth.c - identities and keys that a caller hands over, checked. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "auth.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Write down what is wrong; gives false. */
__attribute__((format(printf, 3, 4))) static bool bad(struct tci_error *error, const char *name,
                                                      const char *fmt, ...)
{
    char text[300];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, name, "%s: %s", name, text);
    return false;
}

/* Printable ASCII, 1 to 127 characters. */
static bool is_identity(const char *text)
{
    size_t len = 0;

    if (text == NULL)
        return false;
    for (; text[len] != '\0'; len++)
        if (len == TC_TRANSPORT_AUTH_MAX_IDENTITY_BYTES || text[len] < 0x20 || text[len] > 0x7e)
            return false;
    return len > 0;
}

static bool is_of(const tc_transport_auth_key *key, const char *identity)
{
    return strcmp(key->identity, identity) == 0;
}

static bool check_keys(const struct tci_auth_request *request, struct tci_error *error)
{
    const tc_transport_auth_config *config = request->config;
    const char *name = request->name;

    if (config->keys == NULL || config->key_count == 0)
        return bad(error, name, "there are no keys");
    for (size_t k = 0; k < config->key_count; k++) {
        const tc_transport_auth_key *key = &config->keys[k];

        if (!is_identity(key->identity))
            return bad(error, name, "the identity of key %zu is not 1 to 127 printable characters",
                       k);
        if (key->key_id == 0)
            return bad(error, name, "key %zu, of \"%s\", has the number 0, which is reserved", k,
                       key->identity);
        if (key->secret == NULL || key->secret_bytes < TC_TRANSPORT_AUTH_MIN_SECRET_BYTES)
            return bad(error, name, "the secret of key %zu, of \"%s\", is shorter than 32 bytes", k,
                       key->identity);
        for (size_t other = 0; other < k; other++)
            if (config->keys[other].key_id == key->key_id &&
                is_of(&config->keys[other], key->identity))
                return bad(error, name, "keys %zu and %zu of \"%s\" have the same number", other, k,
                           key->identity);
    }
    return true;
}

static bool has_key(const tc_transport_auth_config *config, const char *identity)
{
    for (size_t k = 0; k < config->key_count; k++)
        if (is_of(&config->keys[k], identity))
            return true;
    return false;
}

static bool check_local(const struct tci_auth_request *request, struct tci_error *error)
{
    const tc_transport_auth_config *config = request->config;

    if (!is_identity(config->local_identity))
        return bad(error, request->name,
                   "local_identity is not 1 to 127 printable characters long");
    for (size_t k = 0; k < config->key_count; k++)
        if (config->keys[k].key_id == config->active_key_id &&
            is_of(&config->keys[k], config->local_identity))
            return true;
    return bad(error, request->name, "active_key_id %llu is no key of \"%s\"",
               (unsigned long long)config->active_key_id, config->local_identity);
}

static bool check_identities(const struct tci_auth_request *request, struct tci_error *error)
{
    const char *name = request->name;

    if (request->identities == NULL || request->identity_count != (size_t)request->size)
        return bad(error, name, "%zu identities for %d ranks: there is one a rank",
                   request->identities == NULL ? 0 : request->identity_count, request->size);
    for (size_t r = 0; r < request->identity_count; r++) {
        const char *identity = request->identities[r];

        if (!is_identity(identity))
            return bad(error, name, "the identity of rank %zu is not 1 to 127 printable characters",
                       r);
        for (size_t other = 0; other < r; other++)
            if (strcmp(request->identities[other], identity) == 0)
                return bad(error, name, "ranks %zu and %zu are both \"%s\"", other, r, identity);
        if (!has_key(request->config, identity))
            return bad(error, name, "there is no key for \"%s\", who is rank %zu", identity, r);
    }
    if (strcmp(request->identities[request->rank], request->config->local_identity) != 0)
        return bad(error, name, "rank %d is \"%s\", but local_identity is \"%s\"", request->rank,
                   request->identities[request->rank], request->config->local_identity);
    return true;
}

static tc_status_t check(const struct tci_auth_request *request, struct tci_error *error)
{
    const tc_transport_auth_config *config = request->config;

    if (config == NULL)
        bad(error, request->name, "the keys are NULL");
    else if (config->abi_version != TC_TRANSPORT_AUTH_ABI_VERSION_CURRENT)
        tci_error_set(error, TC_ERR_ABI_MISMATCH, -1, 0, request->name,
                      "%s: keys of version %u, the library has %u", request->name,
                      config->abi_version, TC_TRANSPORT_AUTH_ABI_VERSION_CURRENT);
    else if (check_keys(request, error) && check_local(request, error))
        (void)check_identities(request, error);
    return error->pub.status;
}

tc_status_t tci_auth_keyring(const struct tci_auth_request *request, const tc_config *settings,
                             struct tci_keyring **out, struct tci_error *error)
{
    if (check(request, error) != TC_OK)
        return error->pub.status;
    *out = tci_keyring_new(request->config, request->identities, request->size);
    if (*out == NULL)
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, request->name, "%s: no memory left",
                      request->name);
    else
        (*out)->encrypts = settings->encryption > 0;
    return error->pub.status;
}
