/* shm_net.h - transports over shared memory, over TCP, for test nets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUPPORT_SHM_NET_H
#define TEST_SUPPORT_SHM_NET_H

#include "transport_suite.h"

/* Opens the transport of each node: ranks may read each other's memory, or may not. */
void shm_net_open(struct net *net, size_t eager_bytes);
void shm_net_open_mapping(struct net *net, size_t eager_bytes);

#endif
