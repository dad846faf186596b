/* key.h - the key of a context: given, or found in the environment, and kept where nobody looks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_KEY_H
#define TCI_KEY_H

#include "core/error.h"
#include "net/keyring.h"
#include "tcdist/context.h"

/* key, previous_key and encryption of a copied tc_config: checked and copied into guarded memory,
 * or filled from the environment.  After a failure none of them is borrowed any more. */
tc_status_t tci_key_resolve(tc_config *config, struct tci_error *error);
void tci_key_fini(tc_config *config); /* wipes */

/* Whether there is something to encrypt and nothing to do it by. */
bool tci_key_is_missing(const tc_config *config);

/* What the groups of a context prove themselves by; *out is NULL where it has no key.
 * TC_ERR_ALLOC; TC_ERR_INVALID_ARG where a key is missing. */
tc_status_t tci_key_ring(const tc_config *config, struct tci_keyring **out,
                         struct tci_error *error);

#endif
