/* p2p.c - send and receive: the shortest plans, one step each. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   0 -> 1     cost: 1 round, bytes sent once
 *
 * shape.root is the peer.  Where all calls are checked in full, who receives sends an empty message
 * back, and who sends waits for it.
 */
#include "algo/algo.h"
#include "algo/steps.h"

static void send_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    TC_ASSERT(i == 0);
    *step_out = tci_send(tci_src(0), shape->root, 0);
}

static void recv_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    TC_ASSERT(i == 0);
    *step_out = tci_recv(tci_dst(0), shape->root);
}

const struct tci_plan tci_p2p_send = {
    .name = "send",
    .coll = TCI_COLL_P2P,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_SEND,
    .canonical = true,
    .is_used = true,
    .steps = tci_one,
    .blocks = tci_one,
    .slots = tci_none,
    .step = send_step,
};

const struct tci_plan tci_p2p_recv = {
    .name = "recv",
    .coll = TCI_COLL_P2P,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_RECV,
    .canonical = true,
    .is_used = true,
    .steps = tci_one,
    .blocks = tci_one,
    .slots = tci_none,
    .step = recv_step,
};

const struct tci_plan tci_p2p_answered = {
    .name = "answered",
    .coll = TCI_COLL_P2P,
    .layout = TCI_LAYOUT_NONE,
    .canonical = true,
    .steps = tci_one,
    .blocks = tci_one,
    .slots = tci_none,
    .step = recv_step,
};

const struct tci_plan tci_p2p_answer = {
    .name = "answer",
    .coll = TCI_COLL_P2P,
    .layout = TCI_LAYOUT_NONE,
    .canonical = true,
    .steps = tci_one,
    .blocks = tci_one,
    .slots = tci_none,
    .step = send_step,
};
