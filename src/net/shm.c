/* shm.c - transport over shared memory: the verbs of the port, to a peer's memory or below. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/shm.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/log.h"
#include "core/meter.h"
#include "net/frame.h"
#include "net/shm_link.h"

void tci_shm_complete(struct tci_shm_link *link, struct tci_xfer *xfer, tc_status_t status)
{
    TC_ASSERT(link->live > 0 && link->shm->live > 0);
    link->live--;
    link->shm->live--;
    tci_cq_push(xfer->cq, xfer, status);
}

bool tci_shm_admit(struct tci_shm_link *link, const struct tci_key *key,
                   const struct tci_call *call)
{
    struct tci_transport_sink *sink = link->shm->base.sink;

    return sink->admit(sink, link->peer, key, call);
}

/* ---- Which way ---- */

static void post_near(struct tci_shm_link *link, struct tci_xfer *xfer)
{
    if (xfer->is_send)
        tci_shm_send(link, xfer);
    else
        tci_shm_recv(link, xfer);
}

void tci_shm_go_on(struct tci_shm_link *link)
{
    struct tci_xfer *xfer;

    while ((xfer = link->pending.head) != NULL) {
        tci_xfers_del(&link->pending, xfer);
        post_near(link, xfer);
    }
}

void tci_shm_go_below(struct tci_shm_link *link, const char *why)
{
    struct tci_shm *shm = link->shm;
    struct tci_xfer *xfer;

    tci_log(TC_LOG_INFO, "rank %u: rank %u is reached over %s: its memory %s", shm->rank,
            link->peer, shm->below->ops->name, why);
    link->state = TCI_SHM_FAR;
    link->why_far = why;
    while ((xfer = link->pending.head) != NULL) {
        tci_xfers_del(&link->pending, xfer);
        link->live--;
        shm->live--;
        tci_transport_post(shm->below, xfer);
    }
    tci_shm_check_left(shm);
}

/* Whether a transfer with this peer goes over shared memory, or may. */
static bool is_local(const struct tci_shm *shm, uint32_t peer)
{
    return shm->is_local != NULL && shm->is_local[peer];
}

static struct tci_shm_link *near_link(const struct tci_shm *shm, uint32_t peer)
{
    struct tci_shm_link *link = shm->links[peer];

    return link != NULL && link->state == TCI_SHM_NEAR ? link : NULL;
}

static void post(struct tci_transport *self, struct tci_xfer *xfer)
{
    struct tci_shm *shm = tci_shm_of(self);
    struct tci_shm_link *link;

    TC_ASSERT(xfer->peer < shm->size && xfer->status == TC_PENDING);
    if (!is_local(shm, xfer->peer)) {
        tci_transport_post(shm->below, xfer);
        return;
    }
    link = tci_shm_link_get(shm, xfer->peer);
    if (link == NULL || link->state == TCI_SHM_GONE) {
        tci_cq_push(xfer->cq, xfer, link == NULL ? TC_ERR_ALLOC : TC_ERR_PEER_LOST);
        return;
    }
    if (link->state == TCI_SHM_FAR) {
        tci_transport_post(shm->below, xfer);
        return;
    }
    if (!tci_xfer_find_place(xfer)) {
        tci_cq_push(xfer->cq, xfer, TC_ERR_ALLOC);
        return;
    }
    memset(xfer->room, 0, sizeof(xfer->room));
    link->live++;
    shm->live++;
    if (link->state == TCI_SHM_NEAR) {
        post_near(link, xfer);
        return;
    }
    tci_xfers_add(&link->pending, xfer);
    if (link->state == TCI_SHM_NEW)
        tci_shm_meet(link);
}

static bool put(struct tci_transport *self, struct tci_xfer *xfer)
{
    struct tci_shm *shm = tci_shm_of(self);
    struct tci_shm_link *link = near_link(shm, xfer->peer);

    TC_ASSERT(xfer->is_send && xfer->status == TC_PENDING);
    if (link != NULL && tci_shm_send_now(link, xfer))
        return true;
    if (!is_local(shm, xfer->peer))
        return tci_transport_put(shm->below, xfer);
    post(self, xfer);
    return false;
}

static void ring(struct tci_transport *self)
{
    tci_shm_ring_all(tci_shm_of(self));
}

/* ---- Abort and review ---- */

static void end_xfer(void *arg, struct tci_xfer *xfer, tc_status_t status)
{
    struct tci_shm *shm = arg;

    tci_shm_end_recv(shm->links[xfer->peer], xfer, status);
}

static void drop_early(void *arg, struct tci_early *early)
{
    struct tci_shm *shm = arg;

    tci_shm_drop_early(shm->links[early->peer], early);
}

const struct tci_match_ends tci_shm_ends = {end_xfer, drop_early};

static void abort_pending(struct tci_shm_link *link, const struct tci_key *key)
{
    struct tci_xfer *xfer, *next;

    for (xfer = link->pending.head; xfer != NULL; xfer = next) {
        next = xfer->room_next;
        if (!tci_key_is_same_tag(&xfer->key, key))
            continue;
        tci_xfers_del(&link->pending, xfer);
        tci_shm_complete(link, xfer, TC_ERR_CANCELLED);
    }
}

static void shm_abort(struct tci_transport *self, const struct tci_key *key, int peer)
{
    struct tci_shm *shm = tci_shm_of(self);

    for (uint32_t i = 0; i < shm->size; i++) {
        struct tci_shm_link *link = shm->links[i];

        if (link == NULL || (peer != TCI_ALL_PEERS && (uint32_t)peer != i))
            continue;
        abort_pending(link, key);
        tci_shm_abort_sends(link, key, TC_ERR_CANCELLED);
    }
    if (shm->match != NULL)
        tci_match_end(shm->match, &tci_shm_ends, shm, key, peer, TC_ERR_CANCELLED);
    shm->below->ops->abort(shm->below, key, peer);
}

static void shm_review(struct tci_transport *self, tci_review_fn *keep, void *arg)
{
    struct tci_shm *shm = tci_shm_of(self);

    if (shm->match != NULL)
        tci_match_review(shm->match, &tci_shm_ends, shm, keep, arg);
    shm->below->ops->review(shm->below, keep, arg);
}

/* ---- Notices ---- */

static void shm_notify(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                       bool may_link)
{
    struct tci_shm *shm = tci_shm_of(self);
    struct tci_shm_link *link = near_link(shm, peer);
    uint8_t payload[TCI_NOTICE_BYTES];
    struct tci_shm_head head = {0};
    struct tci_frame frame;

    if (link == NULL) {
        shm->below->ops->notify(shm->below, peer, notice, may_link);
        return;
    }
    if (link->bye_put)
        return;
    tci_notice_encode(notice, &frame, payload);
    tci_shm_head_of(&head, TCI_SHM_NOTICE, &notice->key, &notice->call);
    tci_shm_control(link, &head, payload, sizeof(payload));
}

static struct tci_shm *of_sink(struct tci_transport_sink *sink)
{
    return tci_container_of(sink, struct tci_shm, sink);
}

static bool admit_below(struct tci_transport_sink *sink, uint32_t peer, const struct tci_key *key,
                        const struct tci_call *call)
{
    struct tci_transport_sink *above = of_sink(sink)->base.sink;

    return above->admit(above, peer, key, call);
}

/* There is no transport below that has heard it. */
static void refuse_rdma(struct tci_shm *shm, uint32_t peer, const struct tci_notice *offer)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_RDMA,
                                .culprit = (int32_t)shm->rank,
                                .arg = offer->arg - TCI_RDMA_OFFER + TCI_RDMA_DECLINE,
                                .text = "it has no RDMA device that it may use"};

    if ((offer->arg & ((1 << TCI_RDMA_CABLE_SHIFT) - 1)) == TCI_RDMA_OFFER)
        shm->below->ops->notify(shm->below, peer, &notice, true);
}

static void notice_below(struct tci_transport_sink *sink, uint32_t peer,
                         const struct tci_notice *notice)
{
    struct tci_shm *shm = of_sink(sink);

    if (notice->kind == TCI_NOTICE_NEAR)
        tci_shm_on_meet(shm, peer, notice);
    else if (notice->kind == TCI_NOTICE_RDMA)
        refuse_rdma(shm, peer, notice);
    else
        shm->base.sink->notice(shm->base.sink, peer, notice);
}

/* What the peer has put into the ring is read first, as what lies in a socket is. */
static void end_peer(struct tci_shm *shm, uint32_t peer)
{
    struct tci_shm_link *link = shm->links[peer];

    if (link == NULL)
        return;
    while (link->state == TCI_SHM_NEAR && tci_shm_link_poll(link, TCI_SHM_BATCH) > 0) {
    }
    tci_shm_link_end(link, TC_ERR_PEER_LOST);
}

static void lost_below(struct tci_transport_sink *sink, uint32_t peer, tc_reason_t reason,
                       const char *how)
{
    struct tci_shm *shm = of_sink(sink);

    end_peer(shm, peer);
    if (shm->links[peer] != NULL && shm->links[peer]->is_lost)
        return;
    shm->base.sink->lost(shm->base.sink, peer, reason, how);
}

static void gone_below(struct tci_transport_sink *sink, uint32_t peer)
{
    end_peer(of_sink(sink), peer);
}

static void left_below(struct tci_transport_sink *sink)
{
    struct tci_transport_sink *above = of_sink(sink)->base.sink;

    of_sink(sink)->is_leaving = false;
    above->left(above);
}

/* ---- Leaving ---- */

void tci_shm_check_left(struct tci_shm *shm)
{
    struct tci_list *at, *next;

    for (at = shm->near.next; at != &shm->near; at = next) {
        struct tci_shm_link *link = tci_container_of(at, struct tci_shm_link, near_link);

        next = at->next;
        if (link->is_leaving && link->bye_put && tci_shm_is_clear(link)) {
            link->is_leaving = false;
            shm->below->ops->leave_peer(shm->below, link->peer);
        }
        if (shm->is_leaving && (!link->bye_put || !tci_shm_is_clear(link)))
            return;
    }
    if (!shm->is_leaving || shm->has_left_below)
        return;
    for (uint32_t i = 0; i < shm->size; i++)
        if (shm->links[i] != NULL && shm->links[i]->pending.head != NULL)
            return;
    shm->has_left_below = true;
    shm->below->ops->leave(shm->below);
}

static void shm_leave(struct tci_transport *self)
{
    struct tci_shm *shm = tci_shm_of(self);
    struct tci_list *at;

    shm->is_leaving = true;
    shm->has_left_below = false;
    for (at = shm->near.next; at != &shm->near; at = at->next)
        tci_shm_say_bye(tci_container_of(at, struct tci_shm_link, near_link));
    tci_shm_check_left(shm);
}

static void shm_leave_peer(struct tci_transport *self, uint32_t peer)
{
    struct tci_shm *shm = tci_shm_of(self);
    struct tci_shm_link *link = near_link(shm, peer);

    if (link == NULL) {
        shm->below->ops->leave_peer(shm->below, peer);
        return;
    }
    link->is_leaving = true;
    tci_shm_say_bye(link);
    tci_shm_check_left(shm);
}

static void shm_part(struct tci_transport *self)
{
    struct tci_shm *shm = tci_shm_of(self);
    struct tci_list *at;

    shm->is_leaving = shm->has_left_below = true;
    for (at = shm->near.next; at != &shm->near; at = at->next) {
        struct tci_shm_link *link = tci_container_of(at, struct tci_shm_link, near_link);

        (void)tci_shm_flush(link);
        tci_shm_say_bye(link);
    }
    shm->below->ops->part(shm->below);
}

static bool shm_has_told(const struct tci_transport *self)
{
    const struct tci_shm *shm = (const struct tci_shm *)self;
    const struct tci_list *at;

    for (at = shm->near.next; at != &shm->near; at = at->next)
        if (tci_container_of(at, struct tci_shm_link, near_link)->queue.len > 0)
            return false;
    return tci_transport_has_told(shm->below);
}

/* ---- What it is like ---- */

static enum tci_bond shm_bond(const struct tci_transport *self, uint32_t peer)
{
    const struct tci_shm *shm = (const struct tci_shm *)self;
    const struct tci_shm_link *link = shm->links[peer];

    if (link != NULL && link->is_lost)
        return TCI_BOND_LOST;
    if (link != NULL && link->has_left)
        return TCI_BOND_LEFT;
    return tci_transport_bond(shm->below, peer);
}

static enum tci_hearing shm_hear(const struct tci_transport *self, uint32_t peer, uint64_t since_ns)
{
    const struct tci_shm *shm = (const struct tci_shm *)self;
    const struct tci_shm_link *link = near_link(shm, peer);

    if (link != NULL && (link->is_fresh || link->read_ns >= since_ns))
        return TCI_HEAR_FLOW;
    return tci_transport_hear(shm->below, peer, since_ns);
}

static void shm_look(struct tci_transport *self)
{
    struct tci_shm *shm = tci_shm_of(self);
    struct tci_list *at, *next;

    for (at = shm->near.next; at != &shm->near; at = next) {
        next = at->next;
        (void)tci_shm_link_poll(tci_container_of(at, struct tci_shm_link, near_link),
                                TCI_SHM_BATCH);
    }
    tci_transport_look(shm->below);
}

static void shm_caps(const struct tci_transport *self, struct tci_caps *caps_out)
{
    const struct tci_shm *shm = (const struct tci_shm *)self;

    shm->below->ops->caps(shm->below, caps_out);
}

static void shm_stats(const struct tci_transport *self, struct tci_transport_stats *stats_out)
{
    const struct tci_shm *shm = (const struct tci_shm *)self;

    shm->below->ops->stats(shm->below, stats_out);
    tci_stats_add(stats_out, &shm->stats);
}

static void read_meter(const struct tci_meter *meter, struct tci_transport_stats *stats_out)
{
    const struct tci_shm *shm =
        (const struct tci_shm *)((const char *)meter - offsetof(struct tci_shm, meter));

    *stats_out = shm->stats;
}

/* ---- Open and close ---- */

static void shm_close(struct tci_transport *self)
{
    struct tci_shm *shm = tci_shm_of(self);

    shm->is_leaving = false;
    for (uint32_t i = 0; shm->links != NULL && i < shm->size; i++)
        tci_shm_link_free(shm->links[i]);
    TC_ASSERT(shm->live == 0);
    shm->exec->ops->source_del(shm->exec, &shm->source);
    tci_meter_del(shm->context, &shm->meter);
    tci_watch_del(&shm->bell_watch);
    for (int i = 0; i < 2; i++)
        if (shm->bell[i] >= 0)
            close(shm->bell[i]);
    shm->below->ops->close(shm->below);
    tci_pool_fini(&shm->earlies);
    tci_pool_fini(&shm->pulls);
    tci_pool_fini(&shm->sendings);
    tci_free(shm->match);
    tci_free(shm->staging);
    tci_free(shm->is_local);
    tci_free(shm->links);
    tci_free(shm);
}

static const struct tci_transport_ops shm_ops = {
    .name = "shared memory",
    .post_send = post,
    .post_recv = post,
    .put = put,
    .ring = ring,
    .abort = shm_abort,
    .notify = shm_notify,
    .review = shm_review,
    .caps = shm_caps,
    .stats = shm_stats,
    .leave = shm_leave,
    .leave_peer = shm_leave_peer,
    .part = shm_part,
    .has_told = shm_has_told,
    .bond = shm_bond,
    .look = shm_look,
    .hear = shm_hear,
    .close = shm_close,
};

static bool find_local(struct tci_shm *shm, const struct tci_shm_config *config)
{
    if (!config->is_on || config->hosts == NULL)
        return true;
    shm->is_local = tci_alloc_array(shm->size, sizeof(*shm->is_local));
    for (uint32_t i = 0; shm->is_local != NULL && i < shm->size; i++)
        shm->is_local[i] = i != shm->rank && config->hosts[i] == config->hosts[shm->rank];
    return shm->is_local != NULL;
}

struct tci_transport *tci_shm_open(struct tci_loop *loop, tc_context *context,
                                   struct tci_transport *below, const struct tci_shm_config *config)
{
    struct tci_shm *shm = tci_alloc(sizeof(*shm));

    if (shm == NULL) {
        below->ops->close(below);
        return NULL;
    }
    shm->base.ops = &shm_ops;
    shm->sink = (struct tci_transport_sink){.admit = admit_below,
                                            .notice = notice_below,
                                            .lost = lost_below,
                                            .gone = gone_below,
                                            .left = left_below};
    shm->below = below;
    shm->loop = loop;
    shm->exec = tci_loop_exec(loop);
    shm->context = context;
    shm->rank = config->rank;
    shm->size = config->size;
    shm->may_read = config->may_read;
    shm->eager_max = tci_min(config->eager_bytes, TCI_SHM_EAGER_MAX);
    shm->bell[0] = shm->bell[1] = -1;
    shm->source =
        (struct tci_source){.poll = tci_shm_poll, .arm = tci_shm_arm, .expects = tci_shm_expects};
    tci_list_init(&shm->near);
    below->sink = &shm->sink;
    shm->exec->ops->source_add(shm->exec, &shm->source);
    tci_meter_add(context, &shm->meter, read_meter);
    shm->links = tci_alloc_array(shm->size, sizeof(struct tci_shm_link *));
    if (tci_pool_init(&shm->earlies, sizeof(struct tci_early), 1024) != 0 ||
        tci_pool_init(&shm->pulls, sizeof(struct tci_shm_pull), 256) != 0 ||
        tci_pool_init(&shm->sendings, sizeof(struct tci_shm_sending), 64) != 0 ||
        shm->links == NULL || !find_local(shm, config)) {
        shm_close(&shm->base);
        return NULL;
    }
    return &shm->base;
}

const char *tci_shm_way(const struct tci_transport *self, uint32_t peer, const char **why_out)
{
    const struct tci_shm *shm = (const struct tci_shm *)self;

    *why_out = shm->links[peer] == NULL ? NULL : shm->links[peer]->why_far;
    return near_link(shm, peer) != NULL ? shm_ops.name : shm->below->ops->name;
}

const char *tci_shm_print(const struct tci_transport *self, char text[96])
{
    const struct tci_shm *shm = (const struct tci_shm *)self;
    const char *below = shm->below->ops->name;
    uint32_t near = 0;

    for (uint32_t peer = 0; peer < shm->size; peer++)
        near += is_local(shm, peer);
    if (near == 0)
        return below;
    if (near + 1 == shm->size)
        return shm_ops.name;
    (void)snprintf(text, 96, "%s on this host, %s to others", shm_ops.name, below);
    return text;
}

struct tci_transport *tci_shm_below(struct tci_transport *self)
{
    TC_ASSERT(self->ops == &shm_ops);
    return tci_shm_of(self)->below;
}
