/* rdma_flow.c - messages in both directions, plain and folded, that are to survive failures. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/rdma_flow.h"

void rdma_flow_start(struct net *net, struct rdma_flow *flow, uint64_t tag)
{
    assert_int_equal(tci_fold_init(&flow->fold, TC_DTYPE_F32, TC_REDUCE_SUM), TC_OK);
    for (uint32_t r = 0; r < 2; r++)
        for (int i = 0; i < RDMA_FLOW_OPS; i++) {
            struct net_message *recv = &flow->recv[r][i], *send = &flow->send[1 - r][i];

            net_prepare(send, true, r, tag, RDMA_FLOW_LEN);
            net_prepare(recv, false, 1 - r, tag, RDMA_FLOW_LEN);
            for (size_t k = 0; i % 2 == 1 && k < RDMA_FLOW_LEN / sizeof(float); k++) {
                ((float *)(void *)send->bytes)[k] = (float)(k % 1000);
                ((float *)(void *)recv->bytes)[k] = (float)(k % 77 + r);
            }
            if (i % 2 == 1) {
                recv->xfer.fold = &flow->fold;
                recv->xfer.operand = recv->bytes;
            }
            net_post(net, recv, r);
            net_post(net, send, 1 - r);
        }
}

static void check_folded(const struct net_message *recv, uint32_t rank)
{
    for (size_t k = 0; k < RDMA_FLOW_LEN / sizeof(float); k++)
        if (((const float *)(const void *)recv->bytes)[k] !=
            (float)(k % 1000) + (float)(k % 77 + rank))
            fail_msg("element %zu of %zu was folded %s", k, RDMA_FLOW_LEN / sizeof(float),
                     "wrongly");
}

void rdma_flow_finish(struct net *net, struct rdma_flow *flow)
{
    for (uint32_t r = 0; r < 2; r++)
        for (int i = 0; i < RDMA_FLOW_OPS; i++) {
            net_wait(net, &flow->recv[r][i].xfer);
            if (i % 2 == 1)
                check_folded(&flow->recv[r][i], r);
            net_finish(net, &flow->recv[r][i], TC_OK);
            net_finish(net, &flow->send[r][i], TC_OK);
        }
}

void rdma_flow_drop(struct net *net, struct rdma_flow *flow)
{
    for (uint32_t r = 0; r < 2; r++)
        for (int i = 0; i < RDMA_FLOW_OPS; i++) {
            struct net_message *recv = &flow->recv[r][i], *send = &flow->send[r][i];

            net_wait(net, &recv->xfer);
            if (recv->xfer.status == TC_OK && i % 2 == 1)
                check_folded(recv, r);
            net_drop(net, recv);
            net_drop(net, send);
        }
}
