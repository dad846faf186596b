/* cables.h - groups that are told which RDMA devices lead from each rank to each other one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_CABLES_H
#define TCI_CABLES_H

#include "core/comm.h"
#include "launch/jaccl.h"
#include "rdma/rdma.h"
#include "tcdist/dist.h"

/* The matrix of the options, with no ranks where they have none: TC_OK, or the cause in error; also
 * where it has another number of ranks than the group.  Any thread. */
tc_status_t tci_cables_read(const tc_dist_options *options, struct tci_jaccl *jaccl_out,
                            struct tci_error *error);

/* A transport over `below` for each device, for the ranks to which it leads; config has what is
 * the same for all.  Gives the topmost, or `below` where no device can be used, which the log says.
 * Loop thread. */
struct tci_transport *tci_cables_open(struct tci_loop *loop, tc_context *context,
                                      struct tci_transport *below,
                                      const struct tci_rdma_config *config,
                                      const struct tci_jaccl *jaccl);

/* Where the cables make a ring of four ranks and more, the group takes plans along the ring for all
 * that they can carry, and for the rest the cheapest, which goes over TCP between ranks that are no
 * neighbours. */
void tci_cables_heed(struct tci_comm *comm, const struct tci_jaccl *jaccl);

#endif
