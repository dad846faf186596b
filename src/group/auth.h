/* auth.h - identities and keys that a caller hands over, checked. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_AUTH_H
#define TCI_AUTH_H

#include "core/error.h"
#include "net/keyring.h"
#include "tcdist/auth.h"
#include "tcdist/context.h"

/* What an authenticated call is given: one identity a rank, and the keyring. */
struct tci_auth_request {
    const char *name; /* of the call, static */
    const char *const *identities;
    size_t identity_count;
    int size, rank;
    const tc_transport_auth_config *config;
};

/* Check, and copy into a keyring, which is the caller's; `settings` say whether to encrypt.  TC_OK,
 * TC_ERR_INVALID_ARG, TC_ERR_ABI_MISMATCH or TC_ERR_ALLOC, with the cause in error, which never
 * shows a secret.  Any thread. */
tc_status_t tci_auth_keyring(const struct tci_auth_request *request, const tc_config *settings,
                             struct tci_keyring **out, struct tci_error *error);

#endif
