/* net_receive.c - messages of the simulated network meet the transfers they are meant for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/reduce.h"
#include "sim/net_parts.h"

static bool is_same_message(const struct tci_xfer *xfer, const struct sim_msg *msg)
{
    return xfer->len == msg->len && tci_key_is_same_call(xfer->call, &msg->call);
}

/* ---- Payload -------------------------------------------------------------------------------- */

static void put(const struct tci_xfer *xfer, const void *payload)
{
    if (xfer->fold == NULL)
        memcpy(xfer->data, payload, xfer->len);
    else
        tci_xfer_fold(xfer, 0, payload, xfer->len / xfer->fold->size);
}

static void worked(struct sim_event *event)
{
    struct sim_half *half = tci_container_of(event, struct sim_half, event);

    half->is_held = false;
    if (half->xfer != NULL)
        sim_half_complete(half, TC_OK);
    else
        sim_half_drop(half);
}

/* The message goes to its place; that takes the processor a while. */
static void take(struct sim_half *half, const struct sim_msg *msg, unsigned copies)
{
    struct sim_node *node = half->node;
    struct sim_net *net = node->net;
    uint64_t cost;

    copies += half->xfer->fold != NULL;
    cost = (uint64_t)(net->config.fold_byte_ns * (double)copies * (double)msg->len);
    node->stats.messages_received++;
    node->stats.bytes_received += msg->len;
    if (!tci_xfer_find_place(half->xfer)) {
        sim_half_complete(half, TC_ERR_ALLOC);
        return;
    }
    if (msg->payload != NULL)
        put(half->xfer, msg->payload);
    if (cost == 0) {
        sim_half_complete(half, TC_OK);
        return;
    }
    tci_list_del(&half->in_bucket);
    node->work_ns = tci_max(node->work_ns, net->clock->now_ns) + cost;
    half->is_held = true;
    half->event.fn = worked;
    sim_clock_add(net->clock, node->work_ns, &half->event);
}

/* ---- Arrivals ------------------------------------------------------------------------------- */

static void arrive_data(struct sim_node *node, struct sim_msg *msg)
{
    struct sim_half *half = sim_find_half(node, msg->from, &msg->key, false);
    bool is_same;

    if (half != NULL && tci_key_is_later(&msg->key, &half->xfer->key))
        half = NULL;
    if (half == NULL) {
        if (sim_admit(node, msg) && msg->len <= node->net->config.eager_max)
            sim_msg_keep(msg);
        else
            sim_msg_free(node->net, msg);
        return;
    }
    is_same = is_same_message(half->xfer, msg);
    if ((!is_same || half->xfer->key.use != msg->key.use) && !sim_admit(node, msg))
        node->stats.strays++;
    else if (!is_same)
        sim_half_complete(half, TC_ERR_MISMATCH);
    else
        take(half, msg, 0);
    sim_msg_free(node->net, msg);
}

/* A credit that overtakes its send is kept, and so is the news that a large message waits. */
static void arrive_control(struct sim_node *node, struct sim_msg *msg)
{
    bool is_credit = msg->kind == SIM_CREDIT, is_same;
    struct sim_half *half = sim_find_half(node, msg->from, &msg->key, is_credit);

    if (half != NULL && tci_key_is_later(&msg->key, &half->xfer->key))
        half = NULL;
    if (half == NULL) {
        if (sim_admit(node, msg))
            sim_msg_keep(msg);
        else
            sim_msg_free(node->net, msg);
        return;
    }
    is_same = is_same_message(half->xfer, msg);
    if ((is_same && half->xfer->key.use == msg->key.use) || sim_admit(node, msg)) {
        if (!is_same) {
            sim_half_complete(half, TC_ERR_MISMATCH);
        } else if (is_credit) {
            tci_list_del(&half->in_bucket);
            sim_send(node, half);
        }
    }
    sim_msg_free(node->net, msg);
}

void sim_arrive(struct sim_msg *msg)
{
    struct sim_node *node = msg->to;

    if (node->is_closed || node->is_dead || sim_is_lost(node, msg->from)) {
        sim_msg_free(node->net, msg);
    } else if (msg->kind == SIM_DATA) {
        arrive_data(node, msg);
    } else if (msg->kind == SIM_NOTICE) {
        node->transport.sink->notice(node->transport.sink, msg->from, msg->notice);
        sim_msg_free(node->net, msg);
    } else {
        arrive_control(node, msg);
    }
}

/* ---- Posting -------------------------------------------------------------------------------- */

/* What of a kind came before the transfer.  Completes it when the calls differ; gives the message
 * that fits (still kept), or NULL. */
static struct sim_msg *meet(struct sim_half *half, enum sim_kind kind)
{
    struct sim_node *node = half->node;
    const struct tci_xfer *xfer = half->xfer;
    struct sim_msg *msg;

    while ((msg = sim_find_early(node, xfer->peer, &xfer->key, kind)) != NULL) {
        bool is_same = is_same_message(xfer, msg), is_dead;

        if (tci_key_is_later(&msg->key, &xfer->key))
            return NULL;
        is_dead = (!is_same || msg->key.use != xfer->key.use) && !sim_admit(node, msg);
        if (is_same && !is_dead)
            return msg;
        sim_msg_drop(msg);
        if (!is_dead) {
            sim_half_complete(half, TC_ERR_MISMATCH);
            return NULL;
        }
    }
    return NULL;
}

static struct sim_half *begin(struct sim_node *node, struct tci_xfer *xfer)
{
    struct sim_half *half = sim_half_new(node, xfer);

    TC_ASSERT(xfer->status == TC_PENDING && xfer->peer < node->net->size && !node->is_closed);
    if (!sim_is_lost(node, xfer->peer))
        return half;
    sim_half_complete(half, TC_ERR_PEER_LOST);
    return NULL;
}

void sim_post_recv(struct tci_transport *self, struct tci_xfer *xfer)
{
    struct sim_node *node = (struct sim_node *)self;
    struct sim_half *half = begin(node, xfer);
    struct sim_msg *msg;

    if (half == NULL)
        return;
    sim_link(node, xfer->peer);
    msg = meet(half, SIM_DATA);
    if (msg != NULL) {
        node->stats.bytes_copied += msg->len;
        take(half, msg, 1);
        sim_msg_drop(msg);
        return;
    }
    if (half->xfer == NULL)
        return;
    if (xfer->len > node->net->config.eager_max) {
        msg = meet(half, SIM_WANT);
        if (msg != NULL)
            sim_msg_drop(msg);
        if (half->xfer == NULL)
            return;
        sim_tell(node, xfer->peer, sim_msg_new(node->net, SIM_CREDIT, xfer));
    }
    sim_half_wait(half);
}

void sim_post_send(struct tci_transport *self, struct tci_xfer *xfer)
{
    struct sim_node *node = (struct sim_node *)self;
    struct sim_half *half = begin(node, xfer);
    struct sim_msg *msg;

    if (half == NULL)
        return;
    sim_link(node, xfer->peer);
    if (xfer->len <= node->net->config.eager_max) {
        sim_send(node, half);
        return;
    }
    msg = meet(half, SIM_CREDIT);
    if (msg != NULL) {
        sim_msg_drop(msg);
        sim_send(node, half);
        return;
    }
    if (half->xfer == NULL)
        return;
    sim_half_wait(half);
    sim_tell(node, xfer->peer, sim_msg_new(node->net, SIM_WANT, xfer));
}
