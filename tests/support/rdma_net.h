/* rdma_net.h - transports over RDMA on fake devices, over TCP, for test nets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUPPORT_RDMA_NET_H
#define TEST_SUPPORT_RDMA_NET_H

#include "transport_suite.h"

/* Opens the transport of each node, over the fake devices that are set up, with the settings of
 * each. */
void rdma_net_open_each(struct net *net, size_t eager_bytes, bool is_sealed,
                        const char *const settings[]);
/* The same with the usual ones. */
void rdma_net_open(struct net *net, size_t eager_bytes);
/* The same where everything is sealed. */
void rdma_net_open_sealed(struct net *net, size_t eager_bytes);
/* Both over queue pairs of kind UC. */
void rdma_net_open_uc(struct net *net, size_t eager_bytes);
void rdma_net_open_sealed_uc(struct net *net, size_t eager_bytes);
/* Two cables between each two ranks: the devices fake0 and fake1; and all of four, sealed. */
enum { RDMA_NET_CABLES = 4 };
void rdma_net_open_cables(struct net *net, size_t eager_bytes);
void rdma_net_open_sealed_cables(struct net *net, size_t eager_bytes);
void rdma_net_open_uc_cables(struct net *net, size_t eager_bytes);
void rdma_net_open_sealed_uc_cables(struct net *net, size_t eager_bytes);
/* The devices of these, before they are opened. */
void rdma_net_setup_cables(void);
/* A rank's transport of a cable to rank 0, or of rank 0's to rank 1. */
struct tci_rdma *rdma_net_cable(const struct net *net, uint32_t rank, int cable);
/* Everything is closed: nothing is left of the fake's objects, nothing was done that no device
 * would allow, and credits were always right. */
void rdma_net_check_clean(void);
/* The same as a teardown. */
int rdma_net_teardown(void **state);

#endif
