/* near.h - the transports between ranks that share memory, or have RDMA between them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_NEAR_H
#define TCI_NEAR_H

#include "core/context.h"
#include "core/transport.h"
#include "launch/jaccl.h"
#include "net/boot.h"

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
