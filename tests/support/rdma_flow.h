/* rdma_flow.h - messages in both directions, plain and folded, that are to survive failures. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUPPORT_RDMA_FLOW_H
#define TEST_SUPPORT_RDMA_FLOW_H

#include "core/reduce.h"
#include "transport_suite.h"

enum { RDMA_FLOW_OPS = 3, RDMA_FLOW_LEN = (1 << 20) + 12 };

/* Messages in both directions under one key, each plain and folded in place by turns. */
struct rdma_flow {
    struct net_message send[2][RDMA_FLOW_OPS], recv[2][RDMA_FLOW_OPS];
    struct tci_fold fold;
};

/* Between the first two ranks. */
void rdma_flow_start(struct net *net, struct rdma_flow *flow, uint64_t tag);
/* All of them succeed, and are right. */
void rdma_flow_finish(struct net *net, struct rdma_flow *flow);
/* Each ends one way or the other, and nothing wrong is taken for right. */
void rdma_flow_drop(struct net *net, struct rdma_flow *flow);

#endif
