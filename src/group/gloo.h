/* gloo.h - the gloo backend: its variables, and which route its all-reduces take. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_GLOO_H
#define TCI_GLOO_H

#include "group/group.h"

/* What the environment says to a rank. */
struct tci_gloo {
    bool applies; /* false: another backend, and the rest is not set */
    bool wants_ring, traces;
    int connect_ms;  /* how long a neighbour is tried */
    char *advertise; /* owned; host under which the others reach this rank; NULL: not given */
};

/* Read the variables, if the options ask for this backend.  Any thread. */
tc_status_t tci_gloo_read(const tc_dist_options *options, struct tci_gloo *gloo,
                          struct tci_error *error);
void tci_gloo_fini(struct tci_gloo *gloo);

/* comm->advise of such a group. */
const char *tci_gloo_advise(struct tci_comm *comm, const struct tci_advice *advice,
                            struct tci_error *error);

/* comm->on_start of one that traces: the route of each all-reduce, on standard error. */
void tci_gloo_trace(struct tci_comm *comm, const struct tci_call *call, const char *algorithm);

/* The least of all ranks' bytes, over the connections with rank 0 alone: an internal collective, to
 * be started by the caller.  byte is borrowed until it has ended. */
void tci_gloo_star(struct tci_comm *comm, const char *name, uint8_t *byte,
                   struct tci_op_args *args_out);

/* Agree on the route, in a group that nobody uses yet: every rank that wants the ring tries its
 * neighbour, then all hear what all have found.  done(arg, route, error) is called once, on the
 * loop: with the route for group->route, or with TCI_ROUTE_NONE and why the group is of no use; not
 * at once when the group is closed, and maybe when it is gone.  TC_ERR_ALLOC, and no call, without
 * memory.  Loop thread. */
typedef void (*tci_gloo_fn)(void *arg, enum tci_route route, const struct tci_error *error);
tc_status_t tci_gloo_agree(tc_dist_ctx *group, struct tci_transport *tcp,
                           const struct tci_gloo *gloo, tci_gloo_fn done, void *arg);

#endif
