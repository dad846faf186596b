/* transport_net.c - several ranks in one process, on one loop, for tests of transports. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "loop/state.h"
#include "transport_suite.h"

enum { DEADLINE_S = 60 };

const struct net_subject *net_subject;

static struct net_node *node_of(struct tci_transport_sink *sink)
{
    return (struct net_node *)sink;
}

static bool on_admit(struct tci_transport_sink *sink, uint32_t peer, const struct tci_key *key,
                     const struct tci_call *call)
{
    (void)peer, (void)key, (void)call;
    node_of(sink)->admits++;
    return !node_of(sink)->refuses;
}

static void on_notice(struct tci_transport_sink *sink, uint32_t peer,
                      const struct tci_notice *notice)
{
    (void)peer;
    node_of(sink)->notices++;
    node_of(sink)->notice = *notice;
}

static void on_lost(struct tci_transport_sink *sink, uint32_t peer, tc_reason_t reason,
                    const char *how)
{
    assert_true((int)reason < TCI_REASON_COUNT);
    node_of(sink)->losses++;
    node_of(sink)->lost_peer = peer;
    tci_error_set(&node_of(sink)->error, TC_ERR_PEER_LOST, (int)peer, 0, NULL, "rank %u %s", peer,
                  how);
}

static void on_left(struct tci_transport_sink *sink)
{
    node_of(sink)->lefts++;
}

static void on_completions(struct tci_task *task)
{
    struct tci_cq *cq = tci_container_of(task, struct tci_cq, task);
    struct net_node *node = tci_container_of(cq, struct net_node, cq);

    while (tci_cq_pull(cq) != NULL)
        node->completions++;
}

void net_open(struct net *net, uint32_t size, size_t eager_bytes)
{
    tc_config config = {.loop_mode = TC_LOOP_MANUAL, .spin_us = -1};
    struct tci_error error = {0};

    memset(net, 0, sizeof(*net));
    net->size = size;
    net->loop = tci_loop_new(&config, &error);
    assert_non_null(net->loop);
    net->context.exec = tci_loop_exec(net->loop);
    net->context.trace = tci_trace_new(1024);
    tci_scratch_init(&net->context.scratch, 64 << 20);
    assert_true(tci_loop_try_enter(net->loop));
    net_subject->open(net, eager_bytes);
    for (uint32_t i = 0; i < size; i++) {
        struct net_node *node = &net->nodes[i];

        assert_non_null(node->transport);
        node->sink = (struct tci_transport_sink){
            .admit = on_admit, .notice = on_notice, .lost = on_lost, .left = on_left};
        tci_cq_init(&node->cq, net->context.exec, on_completions);
        node->transport->sink = &node->sink;
    }
}

void net_close_transports(struct net *net)
{
    for (uint32_t i = 0; i < net->size; i++) {
        struct net_node *node = &net->nodes[i];

        if (node->transport != NULL)
            node->transport->ops->close(node->transport);
        node->transport = NULL;
    }
}

void net_close(struct net *net)
{
    net_close_transports(net);
    net_turn(net);
    tci_loop_leave(net->loop);
    tci_loop_free(net->loop);
    tci_trace_free(net->context.trace);
    tci_scratch_fini(&net->context.scratch);
}

void net_turn(struct net *net)
{
    if (tci_loop_pass(net->loop) != 0 || !tci_loop_may_sleep(net->loop)) {
        tci_loop_ask(net->loop, 0);
        return;
    }
    tci_loop_ask(net->loop, TCI_NS_PER_MS);
    tci_wake_rise(net->loop);
}

void net_turn_until(struct net *net, const unsigned *value, unsigned least)
{
    uint64_t end_ns = tci_loop_clock() + DEADLINE_S * 1000 * TCI_NS_PER_MS;

    while (*value < least) {
        assert_true(tci_loop_clock() < end_ns);
        net_turn(net);
    }
}

/* Completed transfers belong to the queue until they are pulled. */
static bool are_pulled(const struct net *net)
{
    for (uint32_t i = 0; i < net->size; i++)
        if (net->nodes[i].cq.is_posted)
            return false;
    return true;
}

void net_wait(struct net *net, const struct tci_xfer *xfer)
{
    uint64_t end_ns = tci_loop_clock() + DEADLINE_S * 1000 * TCI_NS_PER_MS;

    while (xfer->status == TC_PENDING || !are_pulled(net)) {
        assert_true(tci_loop_clock() < end_ns);
        net_turn(net);
    }
}

struct tci_transport_stats net_stats(const struct net *net, uint32_t rank)
{
    struct tci_transport *transport = net->nodes[rank].transport;
    struct tci_transport_stats stats;

    transport->ops->stats(transport, &stats);
    return stats;
}

void net_turn_until_held(struct net *net, uint32_t rank, uint64_t least)
{
    uint64_t end_ns = tci_loop_clock() + DEADLINE_S * 1000 * TCI_NS_PER_MS;

    while (net_stats(net, rank).eager_bytes < least) {
        assert_true(tci_loop_clock() < end_ns);
        net_turn(net);
    }
}

/* ---- Messages ---- */

static uint8_t byte_at(uint64_t tag, size_t i)
{
    return (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) + tag * 31);
}

void net_prepare(struct net_message *message, bool is_send, uint32_t peer, uint64_t tag, size_t len)
{
    memset(message, 0, sizeof(*message));
    message->bytes = malloc(len + 1);
    assert_non_null(message->bytes);
    for (size_t i = 0; i < len; i++)
        message->bytes[i] = is_send ? byte_at(tag, i) : 0xee;
    message->call = (struct tci_call){.count = len, .root = -1};
    message->xfer = (struct tci_xfer){.key = {.tag = tag, .use = 1},
                                      .data = message->bytes,
                                      .len = len,
                                      .peer = peer,
                                      .is_send = is_send,
                                      .status = TC_PENDING};
}

void net_post(struct net *net, struct net_message *message, uint32_t rank)
{
    struct tci_transport *transport = net->nodes[rank].transport;

    message->xfer.call = &message->call;
    message->xfer.cq = &net->nodes[rank].cq;
    if (message->xfer.is_send)
        transport->ops->post_send(transport, &message->xfer);
    else
        transport->ops->post_recv(transport, &message->xfer);
}

void net_send(struct net *net, struct net_message *message, uint32_t from, uint32_t to,
              uint64_t tag, size_t len)
{
    net_prepare(message, true, to, tag, len);
    net_post(net, message, from);
}

void net_recv(struct net *net, struct net_message *message, uint32_t to, uint32_t from,
              uint64_t tag, size_t len)
{
    net_prepare(message, false, from, tag, len);
    net_post(net, message, to);
}

bool net_is_intact(const struct net_message *message)
{
    for (size_t i = 0; i < message->xfer.len; i++)
        if (message->bytes[i] != byte_at(message->xfer.key.tag, i))
            return false;
    return true;
}

void net_free(struct net_message *message)
{
    free(message->bytes);
    message->bytes = NULL;
}

void net_turns(struct net *net, int times)
{
    for (int i = 0; i < times; i++)
        net_turn(net);
}

void net_finish(struct net *net, struct net_message *message, tc_status_t status)
{
    net_wait(net, &message->xfer);
    assert_int_equal(message->xfer.status, status);
    if (!message->xfer.is_send && status == TC_OK && message->xfer.fold == NULL)
        assert_true(net_is_intact(message));
    net_free(message);
}

void net_drop(struct net *net, struct net_message *message)
{
    net_wait(net, &message->xfer);
    if (!message->xfer.is_send && message->xfer.status == TC_OK && message->xfer.fold == NULL)
        assert_true(net_is_intact(message));
    net_free(message);
}

void net_abort(struct net *net, uint32_t rank, const struct tci_key *key)
{
    struct tci_transport *self = net->nodes[rank].transport;

    self->ops->abort(self, key, TCI_ALL_PEERS);
}

void net_exchange(struct net *net, size_t len, uint64_t tag)
{
    struct net_message send[2], recv[2];

    for (uint32_t r = 0; r < 2; r++) {
        net_send(net, &send[r], r, 1 - r, tag, len);
        net_recv(net, &recv[r], r, 1 - r, tag, len);
    }
    for (int r = 0; r < 2; r++) {
        net_finish(net, &send[r], TC_OK);
        net_finish(net, &recv[r], TC_OK);
    }
}

static bool has_failed(const struct net_message *message)
{
    return message->xfer.status != TC_PENDING && message->xfer.status != TC_OK;
}

/* Both end, or one fails, and the other one with it. */
static void wait_for_both(struct net *net, struct net_message *send, struct net_message *recv)
{
    uint64_t end_ns = tci_loop_clock() + DEADLINE_S * 1000 * TCI_NS_PER_MS;

    while (!has_failed(send) && !has_failed(recv) &&
           (send->xfer.status != TC_OK || recv->xfer.status != TC_OK)) {
        assert_true(tci_loop_clock() < end_ns);
        net_turn(net);
    }
    for (uint32_t r = 0; r < 2; r++)
        net_abort(net, r, &recv->xfer.key);
    net_wait(net, &send->xfer);
    net_wait(net, &recv->xfer);
}

uint64_t net_send_without_memory(struct net *net, uint64_t nth, size_t len)
{
    uint64_t before = tci_alloc_total(), count;
    struct net_message send, recv;

    tci_alloc_fail_at(nth, 0);
    net_send(net, &send, 0, 1, 1, len);
    net_turns(net, 3);
    net_recv(net, &recv, 1, 0, 1, len);
    wait_for_both(net, &send, &recv);
    tci_alloc_fail_at(0, 0);
    count = tci_alloc_total() - before;
    if (recv.xfer.status == TC_OK)
        assert_true(net_is_intact(&recv));
    net_free(&send);
    net_free(&recv);
    return count;
}
