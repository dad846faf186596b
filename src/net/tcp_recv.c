/* tcp_recv.c - what comes in finds its receive, or waits for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/assert.h"
#include "core/reduce.h"

static_assert(sizeof(((struct tci_xfer *)0)->room) > TCI_ROOM_GRANT * sizeof(uint64_t),
              "what is known of a transfer fits in its room");

/* ---- Payload to its place ---- */

/* The bytes of an element that is not complete yet wait with the place. */
static void fold_bytes(struct tci_xfer *xfer, struct tci_place *place, const uint8_t *from,
                       size_t len)
{
    size_t size = xfer->fold->size, done = (size_t)place->at;
    uint8_t *carry = place->carry;
    size_t have = done % size, whole;

    if (have > 0) {
        size_t take = tci_min(size - have, len);

        memcpy(carry + have, from, take);
        if (have + take < size)
            return;
        tci_xfer_fold(xfer, done - have, carry, 1);
        done += take;
        from += take;
        len -= take;
    }
    whole = len / size;
    if (whole > 0)
        tci_xfer_fold(xfer, done, from, whole);
    memcpy(carry, from + whole * size, len - whole * size);
}

void tci_xfer_deliver(struct tci_tcp *tcp, struct tci_xfer *xfer, struct tci_place *place,
                      const uint8_t *from, size_t len)
{
    TC_ASSERT(len <= xfer->len - xfer->room[TCI_ROOM_DONE] && len <= xfer->len - place->at);
    TC_ASSERT(xfer->fold == NULL || xfer->fold->size <= sizeof(place->carry));

    if (len == 0)
        return;
    if (xfer->fold != NULL) {
        fold_bytes(xfer, place, from, len);
    } else {
        memcpy((uint8_t *)xfer->data + place->at, from, len);
        tcp->stats.bytes_copied += len;
    }
    place->at += len;
    xfer->room[TCI_ROOM_DONE] += len;
}

/* ---- Ends ---- */

void tci_link_end_recv(struct tci_link *link, struct tci_xfer *xfer, tc_status_t status)
{
    tci_match_del(&link->tcp->match, xfer);
    tci_sides_forget(link, xfer);
    if ((xfer->room[TCI_ROOM_FLAGS] & TCI_XFER_GRANTED) != 0)
        link->large--;
    link->live--;
    tci_tcp_complete(link->tcp, xfer, status);
}

void tci_link_drop_early(struct tci_link *link, struct tci_early *early)
{
    struct tci_tcp *tcp = link->tcp;

    tci_match_del_early(&tcp->match, early);
    if (early->kind == TCI_EARLY_DATA) {
        link->eager_held -= early->total + TCI_TCP_EAGER_COST;
        tcp->stats.eager_bytes -= early->total;
        if (link->rx.early == early) {
            link->rx.early = NULL;
            link->rx.mode = TCI_RX_DISCARD;
        } else {
            link->eager_consumed += early->total + TCI_TCP_EAGER_COST;
        }
        if (early->payload != early->room)
            tci_scratch_put(&tcp->context->scratch, early->payload);
    } else {
        link->early_held--;
    }
    tci_pool_put(&tcp->earlies, early);
}

void tci_link_ack(struct tci_link *link)
{
    if (link->eager_consumed - link->eager_told >= link->tcp->window / 2)
        tci_link_say_ack(link);
}

/* ---- Posting ---- */

static void grant(struct tci_link *link, struct tci_xfer *xfer)
{
    struct tci_frame frame = {
        .kind = TCI_FRAME_CREDIT, .key = xfer->key, .call = *xfer->call, .total = xfer->len};

    frame.offset = ++link->grants;
    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_GRANTED | link->grants << TCI_XFER_GRANT_SHIFT;
    link->large++;
    tci_link_control(link, &frame, NULL);
}

static bool is_same_message(const struct tci_xfer *xfer, const struct tci_call *call,
                            uint64_t total)
{
    return xfer->len == total && tci_key_is_same_call(xfer->call, call);
}

/* The message is here, all of it or its first part. */
static void take_early(struct tci_link *link, struct tci_xfer *xfer, struct tci_early *early)
{
    struct tci_rx *rx = &link->rx;
    bool is_here = rx->early != early;
    struct tci_place place = {.at = 0};

    tci_xfer_deliver(link->tcp, xfer, &place, early->payload, (size_t)early->filled);
    tci_link_drop_early(link, early);
    if (is_here) {
        link->tcp->stats.messages_received++;
        tci_link_end_recv(link, xfer, TC_OK);
        tci_link_ack(link);
        return;
    }
    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_BEGUN;
    rx->mode = TCI_RX_XFER;
    rx->xfer = xfer;
    rx->place = place;
}

/* True when something early decided the fate of the receive. */
static bool use_early(struct tci_link *link, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_early *early;

    while ((early = tci_match_early(&tcp->match, xfer->peer, &xfer->key, TCI_EARLY_DATA)) != NULL) {
        bool is_same = is_same_message(xfer, &early->call, early->total), is_dead;

        if (tci_key_is_later(&early->key, &xfer->key))
            return false;
        is_dead = (!is_same || early->key.use != xfer->key.use) &&
                  !tci_tcp_admit(tcp, xfer->peer, &early->key, &early->call);
        if (is_same && !is_dead) {
            take_early(link, xfer, early);
            return true;
        }
        tci_link_drop_early(link, early);
        if (!is_dead) {
            tci_link_end_recv(link, xfer, TC_ERR_MISMATCH);
            return true;
        }
    }
    early = tci_match_early(&tcp->match, xfer->peer, &xfer->key, TCI_EARLY_WANT);
    if (early == NULL || tci_key_is_later(&early->key, &xfer->key))
        return false;
    if (is_same_message(xfer, &early->call, early->total)) {
        tci_link_drop_early(link, early);
        grant(link, xfer);
        return true;
    }
    if (early->key.use != xfer->key.use ||
        !tci_tcp_admit(tcp, xfer->peer, &early->key, &early->call))
        return false;
    tci_link_drop_early(link, early);
    tci_link_end_recv(link, xfer, TC_ERR_MISMATCH);
    return true;
}

static void recv_from_self(struct tci_tcp *tcp, struct tci_xfer *recv)
{
    struct tci_xfer *send = tci_match_send(&tcp->match, recv->peer, &recv->key);
    struct tci_place place = {.at = 0};
    tc_status_t status = TC_OK;

    if (send == NULL) {
        tci_match_add(&tcp->match, recv);
        return;
    }
    if (!is_same_message(recv, send->call, send->len))
        status = TC_ERR_MISMATCH;
    else
        tci_xfer_deliver(tcp, recv, &place, send->data, send->len);
    tci_match_del(&tcp->match, send);
    tci_tcp_complete(tcp, send, status);
    tci_tcp_complete(tcp, recv, status);
}

void tci_tcp_post_recv(struct tci_transport *self, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = tci_tcp_of(self);
    struct tci_link *link;

    TC_ASSERT(!xfer->is_send && xfer->status == TC_PENDING && xfer->peer < tcp->size);
    memset(xfer->room, 0, sizeof(xfer->room));
    tci_tcp_note_urgency(tcp, xfer);
    tcp->live++;
    if ((xfer->len <= tcp->eager_max || xfer->peer == tcp->rank) && !tci_xfer_find_place(xfer)) {
        tci_tcp_complete(tcp, xfer, TC_ERR_ALLOC);
        return;
    }
    if (xfer->peer == tcp->rank) {
        recv_from_self(tcp, xfer);
        return;
    }
    link = tci_link_get(tcp, xfer->peer);
    if (link == NULL || link->state == TCI_LINK_DOWN) {
        tci_tcp_complete(tcp, xfer, link == NULL ? TC_ERR_ALLOC : TC_ERR_PEER_LOST);
        return;
    }
    link->live++;
    tci_match_add(&tcp->match, xfer);
    if (use_early(link, xfer) || xfer->len <= tcp->eager_max)
        return;
    if (link->state == TCI_LINK_NONE)
        tci_link_dial(link);
    grant(link, xfer);
}

/* ---- Frames ---- */

static void discard(struct tci_link *link)
{
    link->rx.mode = TCI_RX_DISCARD;
    link->tcp->stats.strays++;
}

const char tci_tcp_no_memory[] = "more than there is memory for";

static const char *keep_early(struct tci_link *link, enum tci_early_kind kind)
{
    struct tci_tcp *tcp = link->tcp;
    const struct tci_frame *frame = &link->rx.frame;
    struct tci_early *early = tci_pool_get(&tcp->earlies);

    if (early == NULL)
        return tci_tcp_no_memory;
    early->key = frame->key;
    early->call = frame->call;
    early->peer = link->peer;
    early->kind = kind;
    early->total = frame->total;
    early->filled = 0;
    early->payload = early->room;
    if (kind == TCI_EARLY_DATA && frame->total > TCI_EARLY_ROOM) {
        early->payload = tci_scratch_get(&tcp->context->scratch, (size_t)frame->total);
        if (early->payload == NULL) {
            tci_pool_put(&tcp->earlies, early);
            return tci_tcp_no_memory;
        }
    }
    if (kind == TCI_EARLY_DATA) {
        link->eager_held += frame->total + TCI_TCP_EAGER_COST;
        tcp->stats.eager_bytes += frame->total;
        link->rx.mode = TCI_RX_EARLY;
        link->rx.early = early;
    } else {
        link->early_held++;
    }
    tci_match_add_early(&tcp->match, early);
    return NULL;
}

static const char *on_small(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_rx *rx = &link->rx;
    const struct tci_frame *frame = &rx->frame;
    struct tci_xfer *xfer = tci_match_recv(&tcp->match, link->peer, &frame->key, TCI_XFER_BEGUN, 0);
    bool is_same;

    if (xfer != NULL && tci_key_is_later(&frame->key, &xfer->key))
        xfer = NULL;
    if (xfer == NULL) {
        if (!tci_tcp_admit(tcp, link->peer, &frame->key, &frame->call))
            discard(link);
        else if (link->eager_held + frame->total > 4 * tcp->window)
            return "more early messages than the window allows";
        else
            return keep_early(link, TCI_EARLY_DATA);
        return NULL;
    }
    is_same = is_same_message(xfer, &frame->call, frame->total);
    if ((!is_same || xfer->key.use != frame->key.use) &&
        !tci_tcp_admit(tcp, link->peer, &frame->key, &frame->call)) {
        discard(link);
        return NULL;
    }
    if (!is_same) {
        discard(link);
        tci_link_end_recv(link, xfer, TC_ERR_MISMATCH);
        return NULL;
    }
    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_BEGUN;
    xfer->room[TCI_ROOM_SURE] = xfer->len;
    rx->mode = TCI_RX_XFER;
    rx->xfer = xfer;
    return NULL;
}

/* The receive that a grant was for; it may have ended since. */
static struct tci_xfer *granted(struct tci_link *link, const struct tci_frame *frame)
{
    uint64_t mask = ~(((uint64_t)1 << TCI_XFER_GRANT_SHIFT) - 1) | TCI_XFER_GRANTED;

    if (frame->ack == 0 || frame->ack > UINT64_MAX >> TCI_XFER_GRANT_SHIFT)
        return NULL;
    return tci_match_recv(&link->tcp->match, link->peer, &frame->key, mask,
                          frame->ack << TCI_XFER_GRANT_SHIFT | TCI_XFER_GRANTED);
}

/* A piece of a large message, by any of the connections and in any order. */
static const char *on_piece(struct tci_link *link)
{
    struct tci_rx *rx = &link->rx;
    const struct tci_frame *frame = &rx->frame;
    struct tci_xfer *xfer = granted(link, frame);
    bool is_same = xfer != NULL && is_same_message(xfer, &frame->call, frame->total);

    if ((!is_same || xfer->key.use != frame->key.use) && frame->offset == 0 &&
        !tci_tcp_admit(link->tcp, link->peer, &frame->key, &frame->call))
        xfer = NULL;
    if (xfer == NULL || !is_same || !tci_xfer_find_place(xfer)) {
        discard(link);
        if (xfer != NULL)
            tci_link_end_recv(link->main, xfer, is_same ? TC_ERR_ALLOC : TC_ERR_MISMATCH);
        return NULL;
    }
    if (frame->length > xfer->len - xfer->room[TCI_ROOM_SURE])
        return "more than the whole of a message";
    if (link->index == 0)
        tci_sides_want(link);
    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_BEGUN;
    xfer->room[TCI_ROOM_SURE] += frame->length;
    rx->mode = TCI_RX_XFER;
    rx->xfer = xfer;
    return NULL;
}

static const char *on_data(struct tci_link *link)
{
    const struct tci_frame *frame = &link->rx.frame;

    link->rx.place = (struct tci_place){.at = frame->offset};
    if (frame->total > link->tcp->eager_max)
        return on_piece(link);
    if (link->index != 0)
        return "a small message beside the main connection";
    if (frame->length != frame->total)
        return "a small message in pieces";
    return on_small(link);
}

/* A small message waits at the peer.  When its receive is posted it is granted; when the receive
 * of the same use expects another message, the two calls differ. */
static const char *on_want(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;
    const struct tci_frame *frame = &link->rx.frame;
    struct tci_xfer *xfer =
        tci_match_recv(&tcp->match, link->peer, &frame->key, TCI_XFER_BEGUN | TCI_XFER_GRANTED, 0);

    if (xfer != NULL && tci_key_is_later(&frame->key, &xfer->key))
        xfer = NULL;
    if (xfer != NULL && is_same_message(xfer, &frame->call, frame->total)) {
        grant(link, xfer);
        return NULL;
    }
    if (!tci_tcp_admit(tcp, link->peer, &frame->key, &frame->call))
        return NULL;
    if (xfer != NULL && xfer->key.use == frame->key.use)
        tci_link_end_recv(link, xfer, TC_ERR_MISMATCH);
    else if (frame->total > tcp->eager_max)
        return "a request for a large message";
    else
        return keep_early(link, TCI_EARLY_WANT);
    return NULL;
}

static void on_probe(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;
    const struct tci_frame *frame = &link->rx.frame;
    struct tci_xfer *xfer = tci_match_recv(&tcp->match, link->peer, &frame->key, TCI_XFER_BEGUN, 0);

    if (xfer != NULL && is_same_message(xfer, &frame->call, frame->total))
        return;
    if (tci_tcp_admit(tcp, link->peer, &frame->key, &frame->call) && xfer != NULL &&
        xfer->key.use == frame->key.use)
        tci_link_end_recv(link, xfer, TC_ERR_MISMATCH);
}

static const char *on_control(struct tci_link *link)
{
    const struct tci_frame *frame = &link->rx.frame;

    link->rx.mode = TCI_RX_DISCARD;
    switch (frame->kind) {
    case TCI_FRAME_CREDIT:
    case TCI_FRAME_WANT:
        if (link->early_held >= TCI_TCP_EARLY_MAX)
            return "more credits than can be remembered";
        if (frame->kind == TCI_FRAME_WANT)
            return on_want(link);
        tci_link_on_credit(link, frame);
        return NULL;
    case TCI_FRAME_PROBE:
        on_probe(link);
        return NULL;
    case TCI_FRAME_NOTICE:
        link->rx.mode = TCI_RX_NOTICE;
        link->rx.have = 0;
        return NULL;
    case TCI_FRAME_BYE:
        link->has_left = true;
        return NULL;
    case TCI_FRAME_ACK:
        if (!tci_log_ack(&link->log, frame->total))
            return "an acknowledgement of what was never sent";
        return NULL;
    case TCI_FRAME_TOKEN:
        tci_link_take_token(link, frame->key.tag);
        return NULL;
    case TCI_FRAME_SIDE:
        return tci_side_on_told(link, frame);
    case TCI_FRAME_CALL:
        return tci_link_on_call(link);
    default:
        return "a greeting on a link that stands";
    }
}

/* What rides on a frame besides what it is for. */
static const char *on_ack(struct tci_link *link)
{
    const struct tci_frame *frame = &link->rx.frame;

    if (frame->kind == TCI_FRAME_DATA && frame->total > link->tcp->eager_max)
        return NULL;
    if (frame->kind == TCI_FRAME_ACK && frame->total == 0 && frame->ack == 0)
        return NULL; /* in place of a frame that was cut out */
    if (frame->ack < link->eager_acked || frame->ack > link->eager_framed)
        return "an acknowledgement of what was never sent";
    link->eager_acked = frame->ack;
    return NULL;
}

const char *tci_link_on_frame(struct tci_link *link)
{
    const struct tci_frame *frame = &link->rx.frame;
    const char *wrong;

    if (link->has_left && frame->kind != TCI_FRAME_ACK)
        return "a frame after its goodbye";
    if (frame->seq != link->seq_in++)
        return "a frame out of sequence";
    if (link->index != 0 && frame->kind != TCI_FRAME_DATA && frame->kind != TCI_FRAME_ACK)
        return "a frame of control beside the main connection";
    wrong = on_ack(link);
    if (wrong != NULL)
        return wrong;
    link->rx.left = frame->length;
    return frame->kind == TCI_FRAME_DATA ? on_data(link) : on_control(link);
}

/* A notice of a rank that this one is not linked with, or to one. */
static const char *on_passed_notice(struct tci_link *link, const struct tci_notice *notice)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_way way;

    tci_way_decode(link->rx.frame.offset, &way.from, &way.to);
    if (!tcp->is_ring || way.from >= tcp->size || way.to >= tcp->size || way.from == tcp->rank)
        return "a notice that cannot have come this way";
    if (way.to != tcp->rank && way.to != link->peer)
        tci_tcp_pass_on(tcp, &way, (int)link->peer, notice);
    if (way.to == tcp->rank || tci_tcp_is_for_all(&way, notice))
        tcp->base.sink->notice(tcp->base.sink, way.from, notice);
    return NULL;
}

static const char *end_notice(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_notice notice;
    const char *wrong = tci_notice_decode(&link->rx.frame, link->rx.notice, &notice);

    if (wrong == NULL && notice.culprit >= (int32_t)tcp->size)
        wrong = "a notice that blames no rank there is";
    if (wrong != NULL)
        return wrong;
    if (link->rx.frame.offset != 0)
        return on_passed_notice(link, &notice);
    tcp->base.sink->notice(tcp->base.sink, link->peer, &notice);
    return NULL;
}

static void end_early_message(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;
    const struct tci_key *key = &link->rx.frame.key;
    struct tci_trace_record record = {.kind = TCI_TRACE_EAGER_COPY,
                                      .rank = (int)tcp->rank,
                                      .peer = (int)link->peer,
                                      .group = key->group,
                                      .tag = key->tag,
                                      .a = link->rx.frame.total};

    link->rx.early = NULL;
    if (!tci_trace_keeps(tcp->context->trace,
                         tci_trace_mark_of(key->group, key->space, key->tag, key->use)))
        return;
    record.begin_ns = record.end_ns = tcp->exec->ops->now_ns(tcp->exec);
    tci_trace_add(tcp->context->trace, &record);
}

/* Whether the sender of a message waits for what it is told now.  Its pieces come in any order. */
static bool is_awaited(const struct tci_link *link, uint8_t mode, const struct tci_xfer *xfer)
{
    const struct tci_frame *frame = &link->rx.frame;

    if (frame->kind != TCI_FRAME_DATA || frame->total <= TCI_LOG_COPY_MAX)
        return false;
    return frame->offset + frame->length == frame->total || mode != TCI_RX_XFER ||
           xfer->room[TCI_ROOM_DONE] == xfer->len;
}

/* The sender of a message that is too long to be copied waits for this, of each connection that
 * has carried some of it, and must not wait until the loop turns again: the application may have
 * what it has waited for.  Of all else, grants too, now and then: or one that has granted much
 * would begin with no large message (TCI_TCP_FEW), and nothing more would come. */
static void ack_received(struct tci_link *link, uint8_t mode, const struct tci_xfer *xfer)
{
    struct tci_link *main = link->main;

    if (!is_awaited(link, mode, xfer)) {
        if (link->received - link->received_told >= TCI_TCP_ACK_EVERY)
            tci_link_say_ack(link);
        return;
    }
    for (int i = -1; i < TCI_TCP_SIDES && (i < 0 || main->side_count > 0); i++) {
        struct tci_link *at = i < 0 ? main : main->sides[i];

        if (at == NULL || at->state != TCI_LINK_UP || at->received == at->received_told)
            continue;
        tci_link_say_ack(at);
        if (at->send_errno == 0)
            (void)tci_link_flush(at);
    }
}

const char *tci_link_on_payload(struct tci_link *link)
{
    struct tci_rx *rx = &link->rx;
    struct tci_xfer *xfer = rx->xfer;
    uint8_t mode = rx->mode;

    rx->mode = TCI_RX_HEAD;
    rx->have = 0;
    rx->xfer = NULL;
    if (mode == TCI_RX_NOTICE)
        return end_notice(link);
    if (rx->frame.kind == TCI_FRAME_BYE)
        tci_link_say_ack(link); /* the peer stays until it has this */
    if (link->has_left) {
        tci_link_check_parted(link);
        tci_tcp_check_left(link->tcp);
    }
    ack_received(link, mode, xfer);
    if (rx->frame.kind != TCI_FRAME_DATA)
        return NULL;
    if (mode == TCI_RX_EARLY) {
        end_early_message(link);
        return NULL;
    }
    if (rx->frame.total <= link->tcp->eager_max) {
        link->eager_consumed += rx->frame.total + TCI_TCP_EAGER_COST;
        tci_link_ack(link);
    }
    if (mode == TCI_RX_XFER && xfer->room[TCI_ROOM_DONE] == xfer->len) {
        link->tcp->stats.messages_received++;
        tci_link_end_recv(link->main, xfer, TC_OK);
    }
    return NULL;
}
