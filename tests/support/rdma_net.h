/* rdma_net.h - transports over RDMA on fake devices, over TCP, for test nets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUPPORT_RDMA_NET_H
#define TEST_SUPPORT_RDMA_NET_H

#include "transport_suite.h"

/* Opens the transport of each node, over the fake devices that are set up. */
void rdma_net_open(struct net *net, size_t eager_bytes);
/* The same where everything is sealed. */
void rdma_net_open_sealed(struct net *net, size_t eager_bytes);
/* Two cables between each two ranks: the devices fake0 and fake1; and all of four, sealed. */
enum { RDMA_NET_CABLES = 4 };
void rdma_net_open_cables(struct net *net, size_t eager_bytes);
void rdma_net_open_sealed_cables(struct net *net, size_t eager_bytes);
/* Everything is closed: nothing is left of the fake's objects, nothing was done that no device
 * would allow, and credits were always right. */
void rdma_net_check_clean(void);

#endif
