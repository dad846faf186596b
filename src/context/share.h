/* share.h - whether ranks of one host share memory: what the environment says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SHARE_H
#define TCI_SHARE_H

#include "core/context.h"
#include "core/error.h"

/* Whether TCDIST_SHM and TCDIST_SHM_CMA are 0, 1 or not set: TC_OK, or the cause in error. */
tc_status_t tci_share_check(struct tci_error *error);

/* Whether ranks of this host share memory as far as settings go. */
bool tci_share_is_on(const tc_context *context);

/* Whether a rank may read what another has not lent, out of its memory. */
bool tci_share_may_read(void);

#endif
