/* tcp_net.h - transports over TCP as the meeting point would have made them, for test nets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUPPORT_TCP_NET_H
#define TEST_SUPPORT_TCP_NET_H

#include "net/addr.h"
#include "transport_suite.h"

/* A socket that listens on a port of loopback, which is told. */
int tcp_net_listen(struct tci_addr *bound);

/* Opens the transport of each node. */
void tcp_net_open(struct net *net, size_t eager_bytes);

/* The same over sealed links. */
void tcp_net_open_sealed(struct net *net, size_t eager_bytes);

#endif
