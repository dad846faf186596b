/* near.h - ranks that share memory, or have RDMA between them: settings, and the transports. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_NEAR_H
#define TCI_NEAR_H

#include "core/context.h"
#include "core/error.h"
#include "core/transport.h"
#include "launch/jaccl.h"
#include "net/boot.h"

/* Whether TCDIST_SHM and TCDIST_SHM_CMA are 0, 1 or not set: TC_OK, or the cause in error. */
tc_status_t tci_near_check(struct tci_error *error);

/* Whether ranks of this host share memory as far as settings go. */
bool tci_near_may_share(const tc_context *context);

/* What a group asks for besides its settings. */
struct tci_near_wish {
    const char *url;         /* rdma://: RDMA over software devices too */
    struct tci_jaccl *jaccl; /* which devices lead where; no ranks in it: nothing is said */
};

/* The transport of a group over `tcp`, which it takes over: shared memory between ranks of one
 * host, RDMA between others, as far as the settings let it.  NULL without memory; then tcp is
 * closed.  Loop thread. */
struct tci_transport *tci_near_open(tc_context *context, struct tci_transport *tcp,
                                    const struct tci_boot_result *result,
                                    const struct tci_near_wish *wish);

#endif
