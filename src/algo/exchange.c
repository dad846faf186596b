/* exchange.c - all-to-all with every message on its way at once. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 4          k = 1    k = 2    k = 3
 *   rank r sends   r + 1    r + 2    r + 3     block `peer` of its own
 *   and receives   r - 1    r - 2    r - 3     as block `peer`
 *
 *   cost: 1 round, n - 1 messages, (n - 1)/n * bytes sent and received a rank: the least there is
 *   waits: none; the window bounds how many messages are open.  In place what comes waits in
 *   scratch until the block that it replaces was sent.
 *
 * Source: the direct algorithm in Thakur, Rabenseifner, Gropp 2005.
 */
#include "algo/algo.h"
#include "algo/steps.h"

static uint32_t round_steps(const struct tci_shape *shape)
{
    return 2 * (shape->size - 1);
}

static uint32_t alltoall_steps(const struct tci_shape *shape)
{
    return round_steps(shape) + (shape->in_place ? shape->size - 1 : 1);
}

static uint32_t alltoall_slots(const struct tci_shape *shape)
{
    return shape->in_place ? shape->size - 1 : 0;
}

/* Step 2n - 3 + k moves what the k-th rank before has sent, in step 2(k - 1), to its block, which
 * went to that rank, n - k places ahead, in step 2(n - k) - 1. */
static void move_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, k = i - round_steps(shape) + 1;
    uint32_t peer = tci_before(shape->rank, k, n);

    *step_out = tci_copy(tci_dst(peer), tci_tmp_of(shape, peer));
    step_out->wait[0] = tci_back(2 * n - 1 - k);
    step_out->wait[1] = tci_back(3 * k - 2);
}

static void alltoall_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, k = i / 2 + 1;

    TC_ASSERT(i < alltoall_steps(shape));
    if (i >= round_steps(shape)) {
        if (shape->in_place)
            move_step(shape, i, step_out);
        else
            *step_out = tci_copy(tci_dst(r), tci_src(r));
    } else if (i % 2 == 1) {
        *step_out = tci_send(tci_src(tci_after(r, k, n)), tci_after(r, k, n), i - 1);
    } else {
        uint32_t peer = tci_before(r, k, n);

        *step_out = tci_recv(shape->in_place ? tci_tmp_of(shape, peer) : tci_dst(peer), peer);
        step_out->src = tci_src(peer);
    }
}

const struct tci_plan tci_direct_alltoall = {
    .name = "direct",
    .coll = TCI_COLL_ALLTOALL,
    .layout = TCI_LAYOUT_EXCHANGE,
    .id = TCI_ALGO_DIRECT,
    .canonical = true,
    .is_used = true,
    .steps = alltoall_steps,
    .blocks = tci_one,
    .slots = alltoall_slots,
    .step = alltoall_step,
};
