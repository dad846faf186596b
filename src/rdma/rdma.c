/* rdma.c - transport over RDMA: the verbs of the port, to a peer's queue pair or below. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/rdma.h"

#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "core/log.h"
#include "core/meter.h"
#include "core/notice.h"
#include "rdma/link.h"

static void finish(struct tci_xfer *xfer, tc_status_t status)
{
    if (xfer->cq == NULL)
        tci_rdma_part_done(xfer, status);
    else
        tci_cq_push(xfer->cq, xfer, status);
}

void tci_rdma_complete(struct tci_rdma_link *link, struct tci_xfer *xfer, tc_status_t status)
{
    TC_ASSERT(link->live > 0 && link->rdma->live > 0);
    link->live--;
    link->rdma->live--;
    if (!link->is_moving || xfer->cq != NULL || status != TC_ERR_PEER_LOST)
        finish(xfer, status);
}

bool tci_rdma_admit(struct tci_rdma_link *link, const struct tci_key *key,
                    const struct tci_call *call)
{
    struct tci_transport_sink *sink = link->rdma->base.sink;

    return sink->admit(sink, link->peer, key, call);
}

/* ---- Which way ---- */

/* A part keeps how much of it has come already. */
static void clear_room(struct tci_xfer *xfer)
{
    uint64_t done = xfer->cq == NULL ? xfer->room[TCI_ROOM_DONE] : 0;

    memset(xfer->room, 0, sizeof(xfer->room));
    xfer->room[TCI_ROOM_DONE] = done;
    if (!xfer->is_send)
        xfer->room[TCI_RDMA_ROOM_GRANTED] = done;
}

static void post_near(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    if (tci_rdma_is_striped(link, xfer)) {
        tci_rdma_stripe_post(link, xfer);
        return;
    }
    clear_room(xfer);
    link->live++;
    link->rdma->live++;
    if (xfer->is_send)
        tci_rdma_send(link, xfer);
    else
        tci_rdma_recv(link, xfer);
}

/* Its pair does not reach each other by this device, but by another one, or below. */
static void post_far(struct tci_rdma *rdma, struct tci_xfer *xfer)
{
    struct tci_rdma *lead = tci_rdma_lead(rdma, xfer->peer);

    if (lead != NULL)
        tci_rdma_post_at(lead, xfer);
    else
        tci_transport_post(rdma->below, xfer);
}

static struct tci_xfer *take_pending(struct tci_rdma_link *link)
{
    struct tci_xfer *xfer = link->pending.head;

    if (xfer == NULL)
        return NULL;
    tci_xfers_del(&link->pending, xfer);
    link->live--;
    link->rdma->live--;
    return xfer;
}

void tci_rdma_go_on(struct tci_rdma_link *link)
{
    struct tci_xfer *xfer;

    while ((xfer = take_pending(link)) != NULL)
        post_near(link, xfer);
}

static void tell_way(const struct tci_rdma_link *link, const struct tci_rdma *lead, const char *why)
{
    struct tci_rdma *rdma = link->rdma;
    struct tci_transport *below = rdma->below;

    while (tci_rdma_is(below))
        below = tci_rdma_below(below);
    if (lead != NULL)
        tci_log(TC_LOG_INFO, "rank %u: rank %u is reached over RDMA without device %s: %s",
                rdma->rank, link->peer, rdma->choice.info.device, why);
    else
        tci_log(TC_LOG_INFO, "rank %u: rank %u is reached over %s and not over RDMA: %s",
                rdma->rank, link->peer, below->ops->name, why);
}

void tci_rdma_go_below(struct tci_rdma_link *link, const char *why)
{
    struct tci_rdma *rdma = link->rdma;
    struct tci_rdma *lead;
    struct tci_transport *way;
    struct tci_xfer *xfer;

    link->state = TCI_RDMA_FAR;
    lead = tci_rdma_lead(rdma, link->peer);
    way = lead != NULL ? &lead->base : rdma->below;
    tell_way(link, lead, why);
    snprintf(link->why_far, sizeof(link->why_far), "%s", why);
    while ((xfer = take_pending(link)) != NULL)
        post_far(rdma, xfer);
    if (link->is_leaving)
        way->ops->leave_peer(way, link->peer);
    link->is_leaving = false;
    tci_rdma_check_left(rdma);
}

static struct tci_rdma_link *near_link(struct tci_rdma *rdma, uint32_t peer)
{
    struct tci_rdma_link *link = rdma->links[peer];

    return link != NULL && tci_rdma_is_up(link) && tci_rdma_leads(rdma, peer) ? link : NULL;
}

static void post(struct tci_transport *self, struct tci_xfer *xfer)
{
    struct tci_rdma *rdma = tci_rdma_of(self);

    TC_ASSERT(xfer->peer < rdma->size && xfer->status == TC_PENDING);
    if (xfer->peer != rdma->rank && tci_rdma_leads(rdma, xfer->peer))
        tci_rdma_post_at(rdma, xfer);
    else
        tci_transport_post(rdma->below, xfer);
}

void tci_rdma_post_at(struct tci_rdma *rdma, struct tci_xfer *xfer)
{
    struct tci_rdma_link *link = tci_rdma_link_get(rdma, xfer->peer);

    if (link == NULL || link->state == TCI_RDMA_GONE) {
        finish(xfer, link == NULL ? TC_ERR_ALLOC : TC_ERR_PEER_LOST);
        return;
    }
    if (link->state == TCI_RDMA_FAR) {
        post_far(rdma, xfer);
        return;
    }
    if (!tci_xfer_find_place(xfer)) {
        finish(xfer, TC_ERR_ALLOC);
        return;
    }
    if (tci_rdma_is_up(link)) {
        post_near(link, xfer);
        return;
    }
    clear_room(xfer);
    link->live++;
    rdma->live++;
    tci_xfers_add(&link->pending, xfer);
    if (link->state == TCI_RDMA_NEW)
        tci_rdma_meet(link);
}

/* ---- Abort and review ---- */

static void end_xfer(void *arg, struct tci_xfer *xfer, tc_status_t status)
{
    struct tci_rdma *rdma = arg;

    if (!xfer->is_send) {
        tci_rdma_end_recv(rdma->links[xfer->peer], xfer, status);
        return;
    }
    tci_match_del(rdma->match, xfer);
    tci_rdma_end_send(rdma->links[xfer->peer], xfer, status);
}

static void drop_early(void *arg, struct tci_early *early)
{
    struct tci_rdma *rdma = arg;

    tci_rdma_drop_early(rdma->links[early->peer], early);
}

const struct tci_match_ends tci_rdma_ends = {end_xfer, drop_early};

static void abort_pending(struct tci_rdma_link *link, const struct tci_key *key)
{
    struct tci_xfer *xfer, *next;

    for (xfer = link->pending.head; xfer != NULL; xfer = next) {
        next = xfer->room_next;
        if (!tci_key_is_same_tag(&xfer->key, key))
            continue;
        tci_xfers_del(&link->pending, xfer);
        tci_rdma_complete(link, xfer, TC_ERR_CANCELLED);
    }
}

static bool is_among(const struct tci_xfers *xfers, const struct tci_xfer *xfer)
{
    const struct tci_xfer *at = xfers->head;

    while (at != NULL && at != xfer)
        at = at->room_next;
    return at != NULL;
}

void tci_rdma_abort_at(struct tci_rdma *rdma, struct tci_xfer *xfer, tc_status_t status)
{
    struct tci_rdma_link *link = rdma->links[xfer->peer];

    if (link->state == TCI_RDMA_FAR)
        link = tci_rdma_lead(rdma, xfer->peer)->links[xfer->peer];
    if (is_among(&link->revoking, xfer))
        return; /* it is about to end */
    if (is_among(&link->pending, xfer)) {
        tci_xfers_del(&link->pending, xfer);
        tci_rdma_complete(link, xfer, status);
    } else if (!xfer->is_send) {
        tci_rdma_end_recv(link, xfer, status);
    } else if (!tci_rdma_abort_push(link, xfer, status)) {
        tci_match_del(link->rdma->match, xfer);
        tci_rdma_end_send(link, xfer, status);
    }
}

static void rdma_abort(struct tci_transport *self, const struct tci_key *key, int peer)
{
    struct tci_rdma *rdma = tci_rdma_of(self);

    for (uint32_t i = 0; i < rdma->size; i++) {
        struct tci_rdma_link *link = rdma->links[i];

        if (link == NULL || (peer != TCI_ALL_PEERS && (uint32_t)peer != i))
            continue;
        abort_pending(link, key);
        tci_rdma_abort_sends(link, key, TC_ERR_CANCELLED);
        tci_rdma_abort_pushes(link, key, TC_ERR_CANCELLED);
    }
    if (rdma->match != NULL)
        tci_match_end(rdma->match, &tci_rdma_ends, rdma, key, peer, TC_ERR_CANCELLED);
    rdma->below->ops->abort(rdma->below, key, peer);
}

static void rdma_review(struct tci_transport *self, tci_review_fn *keep, void *arg)
{
    struct tci_rdma *rdma = tci_rdma_of(self);

    if (rdma->match != NULL)
        tci_match_review(rdma->match, &tci_rdma_ends, rdma, keep, arg);
    rdma->below->ops->review(rdma->below, keep, arg);
}

/* ---- Notices ---- */

static void rdma_notify(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                        bool may_link)
{
    struct tci_rdma *rdma = tci_rdma_of(self);
    struct tci_rdma_link *link = near_link(rdma, peer);
    struct tci_rdma_head head = {.kind = TCI_RDMA_NOTICE, .len = TCI_NOTICE_BYTES};
    uint8_t payload[TCI_NOTICE_BYTES];

    /* How cables come up is told over the connection; all else in order with the messages. */
    if (link == NULL || notice->kind == TCI_NOTICE_RDMA) {
        rdma->below->ops->notify(rdma->below, peer, notice, may_link);
        return;
    }
    if (link->bye_put)
        return;
    head.key = notice->key;
    head.call = notice->call;
    tci_notice_pack(notice, payload);
    tci_rdma_control(link, &head, payload);
}

static struct tci_rdma *of_sink(struct tci_transport_sink *sink)
{
    return tci_container_of(sink, struct tci_rdma, sink);
}

static bool admit_below(struct tci_transport_sink *sink, uint32_t peer, const struct tci_key *key,
                        const struct tci_call *call)
{
    struct tci_transport_sink *above = of_sink(sink)->base.sink;

    return above->admit(above, peer, key, call);
}

static void notice_below(struct tci_transport_sink *sink, uint32_t peer,
                         const struct tci_notice *notice)
{
    struct tci_rdma *rdma = of_sink(sink);

    if (notice->kind == TCI_NOTICE_RDMA && tci_rdma_cable_to(rdma, peer) >= 0 &&
        notice->arg >> TCI_RDMA_CABLE_SHIFT == (uint64_t)tci_rdma_cable_to(rdma, peer))
        tci_rdma_on_meet(rdma, peer, notice);
    else
        rdma->base.sink->notice(rdma->base.sink, peer, notice);
}

/* What the peer has sent is taken in first, as what lies in a socket is. */
static void end_peer(struct tci_rdma *rdma, uint32_t peer)
{
    struct tci_rdma_link *link = rdma->links[peer];

    if (link == NULL)
        return;
    tci_rdma_take_all(link);
    tci_rdma_link_end(link, TC_ERR_PEER_LOST);
}

static void lost_below(struct tci_transport_sink *sink, uint32_t peer, tc_reason_t reason,
                       const char *how)
{
    struct tci_rdma *rdma = of_sink(sink);

    end_peer(rdma, peer);
    if (rdma->links[peer] != NULL && rdma->links[peer]->is_lost)
        return;
    rdma->base.sink->lost(rdma->base.sink, peer, reason, how);
}

static void gone_below(struct tci_transport_sink *sink, uint32_t peer)
{
    struct tci_rdma *rdma = of_sink(sink);

    end_peer(rdma, peer);
    if (rdma->base.sink->gone != NULL)
        rdma->base.sink->gone(rdma->base.sink, peer);
}

static void left_below(struct tci_transport_sink *sink)
{
    struct tci_transport_sink *above = of_sink(sink)->base.sink;

    of_sink(sink)->is_leaving = false;
    above->left(above);
}

void tci_rdma_hear_below(struct tci_rdma *rdma)
{
    rdma->sink = (struct tci_transport_sink){.admit = admit_below,
                                             .notice = notice_below,
                                             .lost = lost_below,
                                             .gone = gone_below,
                                             .left = left_below};
    rdma->below->sink = &rdma->sink;
}

/* ---- Leaving ---- */

/* The goodbye on the connection follows when all that went over the queue pair has arrived. */
void tci_rdma_check_left(struct tci_rdma *rdma)
{
    struct tci_list *at, *next;
    bool is_clear = true;

    for (at = rdma->near.next; at != &rdma->near; at = next) {
        struct tci_rdma_link *link = tci_container_of(at, struct tci_rdma_link, near_link);
        bool has_said = (link->bye_put && tci_rdma_is_clear(link)) ||
                        !tci_rdma_leads(rdma, link->peer); /* it goes over another one */

        next = at->next;
        is_clear = is_clear && has_said;
        if (link->is_leaving && has_said) {
            link->is_leaving = false;
            rdma->below->ops->leave_peer(rdma->below, link->peer);
        }
    }
    if (!rdma->is_leaving || rdma->has_left_below || !is_clear)
        return;
    for (uint32_t i = 0; i < rdma->size; i++)
        if (rdma->links[i] != NULL && rdma->links[i]->pending.head != NULL)
            return;
    rdma->has_left_below = true;
    rdma->below->ops->leave(rdma->below);
}

static void rdma_leave(struct tci_transport *self)
{
    struct tci_rdma *rdma = tci_rdma_of(self);
    struct tci_list *at;

    rdma->is_leaving = true;
    rdma->has_left_below = false;
    for (at = rdma->near.next; at != &rdma->near; at = at->next)
        tci_rdma_say_bye(tci_container_of(at, struct tci_rdma_link, near_link));
    tci_rdma_check_left(rdma);
}

static void rdma_leave_peer(struct tci_transport *self, uint32_t peer)
{
    struct tci_rdma *rdma = tci_rdma_of(self);
    struct tci_rdma_link *link = rdma->links[peer];

    if (link == NULL || !tci_rdma_leads(rdma, peer) ||
        (!tci_rdma_is_up(link) && link->pending.head == NULL)) {
        rdma->below->ops->leave_peer(rdma->below, peer);
        return;
    }
    link->is_leaving = true;
    if (link->state < TCI_RDMA_NEAR)
        return; /* the two are about to find out which way to go: messages wait for that */
    tci_rdma_say_bye(link);
    tci_rdma_check_left(rdma);
}

static void rdma_part(struct tci_transport *self)
{
    struct tci_rdma *rdma = tci_rdma_of(self);
    struct tci_list *at;

    rdma->is_leaving = rdma->has_left_below = true;
    for (at = rdma->near.next; at != &rdma->near; at = at->next) {
        struct tci_rdma_link *link = tci_container_of(at, struct tci_rdma_link, near_link);

        (void)tci_rdma_flush(link);
        tci_rdma_say_bye(link);
    }
    rdma->below->ops->part(rdma->below);
}

static bool rdma_has_told(const struct tci_transport *self)
{
    const struct tci_rdma *rdma = (const struct tci_rdma *)self;
    const struct tci_list *at;

    for (at = rdma->near.next; at != &rdma->near; at = at->next) {
        const struct tci_rdma_link *link = tci_container_of(at, struct tci_rdma_link, near_link);

        if (link->broken == NULL && (link->queue.len > 0 || !tci_rdma_is_told(link)))
            return false;
    }
    return tci_transport_has_told(rdma->below);
}

/* ---- What it is like ---- */

static enum tci_bond rdma_bond(const struct tci_transport *self, uint32_t peer)
{
    const struct tci_rdma *rdma = (const struct tci_rdma *)self;
    const struct tci_rdma_link *link = rdma->links[peer];

    if (link != NULL && link->is_lost)
        return TCI_BOND_LOST;
    if (link != NULL && link->has_left)
        return TCI_BOND_LEFT;
    return tci_transport_bond(rdma->below, peer);
}

static enum tci_hearing rdma_hear(const struct tci_transport *self, uint32_t peer,
                                  uint64_t since_ns)
{
    const struct tci_rdma *rdma = (const struct tci_rdma *)self;
    const struct tci_rdma_link *link = rdma->links[peer];

    if (link != NULL && link->state == TCI_RDMA_NEAR && link->read_ns >= since_ns)
        return TCI_HEAR_FLOW;
    return tci_transport_hear(rdma->below, peer, since_ns);
}

static void rdma_look(struct tci_transport *self)
{
    struct tci_rdma *rdma = tci_rdma_of(self);

    (void)tci_rdma_poll_cq(rdma, TCI_RDMA_BATCH);
    tci_transport_look(rdma->below);
}

static void rdma_caps(const struct tci_transport *self, struct tci_caps *caps_out)
{
    const struct tci_rdma *rdma = (const struct tci_rdma *)self;

    rdma->below->ops->caps(rdma->below, caps_out);
}

static void rdma_stats(const struct tci_transport *self, struct tci_transport_stats *stats_out)
{
    const struct tci_rdma *rdma = (const struct tci_rdma *)self;

    rdma->below->ops->stats(rdma->below, stats_out);
    tci_stats_add(stats_out, &rdma->stats);
}

const struct tci_transport_ops tci_rdma_ops = {
    .name = "RDMA",
    .post_send = post,
    .post_recv = post,
    .abort = rdma_abort,
    .notify = rdma_notify,
    .review = rdma_review,
    .caps = rdma_caps,
    .stats = rdma_stats,
    .leave = rdma_leave,
    .leave_peer = rdma_leave_peer,
    .part = rdma_part,
    .has_told = rdma_has_told,
    .bond = rdma_bond,
    .look = rdma_look,
    .hear = rdma_hear,
    .close = tci_rdma_close,
};
