/* auth_text.c - why two ranks do not come together, in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"
#include "net/auth.h"

static void name(char *text, size_t room, uint32_t rank, const struct tci_auth *auth)
{
    if (rank < auth->config.size)
        (void)snprintf(text, room, "rank %" PRIu32, rank);
    else
        (void)snprintf(text, room, "a stranger");
}

const char *tci_auth_explain(const struct tci_auth *auth, char *text, size_t room)
{
    uint32_t by = auth->by_peer ? auth->peer : auth->config.self;
    uint32_t on = auth->by_peer ? auth->config.self : auth->peer;
    char who[32], whom[32];

    name(who, sizeof who, by, auth);
    name(whom, sizeof whom, on, auth);
    switch (auth->reason) {
    case TCI_AUTH_NO_KEY:
        (void)snprintf(text, room,
                       "%s has a key, %s has none: give every rank the same key (TCDIST_KEY), or "
                       "none to any",
                       whom, who);
        break;
    case TCI_AUTH_PLAIN:
        (void)snprintf(text, room,
                       "%s has no key, %s has one: give every rank the same key (TCDIST_KEY), or "
                       "none to any",
                       whom, who);
        break;
    case TCI_AUTH_VERSION:
        (void)snprintf(text, room,
                       "versions differ: %s and %s speak version %d and another of the proof of "
                       "keys; install the same release everywhere",
                       who, whom, TCI_BOOT_VERSION);
        break;
    case TCI_AUTH_KIND:
        (void)snprintf(text, room,
                       "%s and %s prove themselves in different ways, one by a key of all ranks, "
                       "one by a key of its own: form the group by the same call everywhere",
                       who, whom);
        break;
    case TCI_AUTH_ENCRYPTION:
        (void)snprintf(text, room,
                       "one of %s and %s is set to encrypt, the other is not: set "
                       "TCDIST_ENCRYPTION alike everywhere",
                       who, whom);
        break;
    case TCI_AUTH_ELSEWHERE:
        (void)snprintf(text, room,
                       "%s was sent what was meant for another rank, group or port by %s: see that "
                       "addresses lead where they should",
                       who, whom);
        break;
    case TCI_AUTH_IDENTITY:
        (void)snprintf(text, room,
                       "%s gives an identity that is not the one which %s has for it: give every "
                       "rank the same list of identities",
                       whom, who);
        break;
    case TCI_AUTH_KEY_ID:
        (void)snprintf(text, room,
                       "%s proves itself by a key number that %s does not have for it: give the "
                       "key to both before one uses it",
                       whom, who);
        break;
    case TCI_AUTH_PROOF_WRONG:
        (void)snprintf(text, room,
                       "%s and %s have different keys, or what they said was changed on the way: "
                       "give every rank the same key",
                       whom, who);
        break;
    case TCI_AUTH_FINE:
    case TCI_AUTH_GARBLED:
    case TCI_AUTH_REASONS:
        (void)snprintf(text, room, "%s does not speak as a rank with a key does", whom);
        break;
    }
    return text;
}

tc_reason_t tci_auth_class(enum tci_auth_reason reason)
{
    switch (reason) {
    case TCI_AUTH_VERSION:
        return TC_REASON_REFUSED_VERSION;
    case TCI_AUTH_IDENTITY:
    case TCI_AUTH_ELSEWHERE:
        return TC_REASON_REFUSED_IDENTITY;
    default:
        return TC_REASON_REFUSED_KEY;
    }
}
