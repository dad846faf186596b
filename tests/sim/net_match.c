/* net_match.c - who waits for whom in the simulated network: one table for all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "core/assert.h"
#include "core/base.h"
#include "sim/net_parts.h"

static struct sim_bucket *bucket_of(const struct sim_node *node, uint32_t peer,
                                    const struct tci_key *key)
{
    uint64_t hash = key->tag * UINT64_C(0x9e3779b97f4a7c15);

    hash ^= ((uint64_t)key->lane << 32 | key->step) * UINT64_C(0xc2b2ae3d27d4eb4f);
    hash ^= ((uint64_t)node->rank << 32 | peer) * UINT64_C(0x165667b19e3779f9);
    hash ^= key->space ^ key->group * UINT64_C(0xd6e8feb86659fd93);
    hash ^= hash >> 32;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return &node->net->buckets[(size_t)(hash >> 32) & node->net->mask];
}

static void move(struct sim_bucket *from)
{
    struct tci_list *first;

    while ((first = tci_list_first(&from->halves)) != NULL) {
        tci_list_del(first);
        sim_half_wait(tci_container_of(first, struct sim_half, in_bucket));
    }
    while ((first = tci_list_first(&from->early)) != NULL) {
        struct sim_msg *msg = tci_container_of(first, struct sim_msg, in_bucket);

        tci_list_del(first);
        tci_list_add(&bucket_of(msg->to, msg->from, &msg->key)->early, first);
    }
}

/* As many buckets as things in them, or more; the order of equal keys stays. */
void sim_match_grow(struct sim_net *net)
{
    struct sim_bucket *before = net->buckets;
    size_t count = before == NULL ? 0 : net->mask + 1;

    net->mask = tci_max(1024, 4 * count) - 1;
    net->buckets = malloc((net->mask + 1) * sizeof(*net->buckets));
    TC_ASSERT(net->buckets != NULL);
    for (size_t b = 0; b <= net->mask; b++) {
        tci_list_init(&net->buckets[b].halves);
        tci_list_init(&net->buckets[b].early);
    }
    for (size_t b = 0; b < count; b++)
        move(&before[b]);
    free(before);
}

static void grow_if_full(struct sim_net *net)
{
    if (net->half_count + net->early_count > net->mask)
        sim_match_grow(net);
}

/* ---- Posted transfers ----------------------------------------------------------------------- */

struct sim_half *sim_half_new(struct sim_node *node, struct tci_xfer *xfer)
{
    struct sim_half *half = node->net->halves_free;

    if (half != NULL)
        node->net->halves_free = half->next;
    else
        half = malloc(sizeof(*half));
    TC_ASSERT(half != NULL);
    node->net->half_count++;
    *half = (struct sim_half){.event.exec = node->exec, .node = node, .xfer = xfer};
    tci_list_init(&half->in_node);
    tci_list_init(&half->in_bucket);
    tci_list_add(&node->live, &half->in_node);
    grow_if_full(node->net);
    return half;
}

void sim_half_wait(struct sim_half *half)
{
    struct sim_bucket *bucket = bucket_of(half->node, half->xfer->peer, &half->xfer->key);

    tci_list_add(&bucket->halves, &half->in_bucket);
}

void sim_half_drop(struct sim_half *half)
{
    TC_ASSERT(half->xfer == NULL);
    if (half->is_held)
        return;
    half->next = half->node->net->halves_free;
    half->node->net->halves_free = half;
}

void sim_half_complete(struct sim_half *half, tc_status_t status)
{
    struct tci_xfer *xfer = half->xfer;

    tci_list_del(&half->in_node);
    tci_list_del(&half->in_bucket);
    half->xfer = NULL;
    half->node->net->half_count--;
    tci_cq_push(xfer->cq, xfer, status);
    sim_half_drop(half);
}

struct sim_half *sim_find_half(struct sim_node *node, uint32_t peer, const struct tci_key *key,
                               bool is_send)
{
    struct tci_list *head = &bucket_of(node, peer, key)->halves;

    for (struct tci_list *at = head->next; at != head; at = at->next) {
        struct sim_half *half = tci_container_of(at, struct sim_half, in_bucket);

        if (half->node == node && half->xfer->peer == peer && half->xfer->is_send == is_send &&
            tci_key_is_equal(&half->xfer->key, key))
            return half;
    }
    return NULL;
}

/* ---- Messages that came early --------------------------------------------------------------- */

struct sim_msg *sim_msg_new(struct sim_net *net, enum sim_kind kind, const struct tci_xfer *xfer)
{
    struct sim_msg *msg = net->msgs_free;

    if (msg != NULL)
        net->msgs_free = msg->next;
    else
        msg = malloc(sizeof(*msg));
    TC_ASSERT(msg != NULL);
    *msg = (struct sim_msg){.kind = kind};
    tci_list_init(&msg->in_node);
    tci_list_init(&msg->in_bucket);
    if (xfer != NULL) {
        msg->key = xfer->key;
        msg->call = *xfer->call;
        msg->len = xfer->len;
    }
    return msg;
}

void sim_msg_free(struct sim_net *net, struct sim_msg *msg)
{
    free(msg->payload);
    free(msg->notice);
    msg->next = net->msgs_free;
    net->msgs_free = msg;
}

void sim_msg_keep(struct sim_msg *msg)
{
    msg->to->net->early_count++;
    grow_if_full(msg->to->net);
    tci_list_add(&msg->to->early, &msg->in_node);
    tci_list_add(&bucket_of(msg->to, msg->from, &msg->key)->early, &msg->in_bucket);
    if (msg->kind == SIM_DATA)
        msg->to->stats.eager_bytes += msg->len;
}

void sim_msg_drop(struct sim_msg *msg)
{
    TC_ASSERT(!tci_list_is_empty(&msg->in_node));
    msg->to->net->early_count--;
    tci_list_del(&msg->in_node);
    tci_list_del(&msg->in_bucket);
    if (msg->kind == SIM_DATA)
        msg->to->stats.eager_bytes -= msg->len;
    sim_msg_free(msg->to->net, msg);
}

struct sim_msg *sim_find_early(struct sim_node *node, uint32_t peer, const struct tci_key *key,
                               enum sim_kind kind)
{
    struct tci_list *head = &bucket_of(node, peer, key)->early;

    for (struct tci_list *at = head->next; at != head; at = at->next) {
        struct sim_msg *msg = tci_container_of(at, struct sim_msg, in_bucket);

        if (msg->to == node && msg->from == peer && msg->kind == kind &&
            tci_key_is_equal(&msg->key, key))
            return msg;
    }
    return NULL;
}

bool sim_admit(struct sim_node *node, const struct sim_msg *msg)
{
    return node->transport.sink->admit(node->transport.sink, msg->from, &msg->key, &msg->call);
}
