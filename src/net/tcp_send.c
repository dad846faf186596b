/* tcp_send.c - messages on their way out: at once, by turns, or after a credit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/alloc.h"
#include "core/assert.h"

enum { PROBE_MIN_MS = 50, PROBE_MAX_MS = 1600, SEND_MAX_BYTES = 2 * 1024 * 1024 };

static bool is_eager(const struct tci_tcp *tcp, const struct tci_xfer *xfer)
{
    return xfer->len <= tcp->eager_max;
}

static uint64_t eager_cost(const struct tci_xfer *xfer)
{
    return xfer->len + TCI_TCP_EAGER_COST;
}

bool tci_link_has_output(const struct tci_link *link)
{
    return link->tx.is_busy || link->out.done < link->out.len || !tci_list_is_empty(&link->flows) ||
           link->send_errno != 0;
}

void tci_link_end_send(struct tci_link *link, struct tci_xfer *xfer, tc_status_t status)
{
    TC_ASSERT(link->live > 0 && link->sends > 0);
    link->live--;
    link->sends--;
    tci_tcp_complete(link->tcp, xfer, status);
}

/* ---- Flows ---- */

static struct tci_flow *find_flow(struct tci_link *link, const struct tci_key *key)
{
    struct tci_list *at;

    for (at = link->flows.next; at != &link->flows; at = at->next) {
        struct tci_flow *flow = tci_container_of(at, struct tci_flow, link);

        if (tci_key_is_same_tag(&flow->xfers.head->key, key))
            return flow;
    }
    return NULL;
}

/* Behind all flows that are as urgent. */
static void place_flow(struct tci_link *link, struct tci_flow *flow)
{
    struct tci_list *at = link->flows.prev;

    while (at != &link->flows &&
           tci_container_of(at, struct tci_flow, link)->priority < flow->priority)
        at = at->prev;
    tci_list_add(at->next, &flow->link);
}

static void add_to_flow(struct tci_link *link, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_flow *flow = find_flow(link, &xfer->key);

    if (flow == NULL) {
        flow = tci_pool_get(&tcp->flows);
        if (flow == NULL) {
            tci_link_end_send(link, xfer, TC_ERR_ALLOC);
            return;
        }
        tci_list_init(&flow->link);
        flow->xfers = (struct tci_xfers){0};
        flow->priority = xfer->priority;
        place_flow(link, flow);
    } else if (xfer->priority > flow->priority) {
        flow->priority = xfer->priority;
        tci_list_del(&flow->link);
        place_flow(link, flow);
    }
    tci_xfers_add(&flow->xfers, xfer);
    if (is_eager(tcp, xfer))
        link->eager_queued += eager_cost(xfer);
    if (link->state == TCI_LINK_UP && tci_list_is_empty(&link->sending_link))
        tci_list_add(&tcp->sending, &link->sending_link);
}

/* The flow ends with its last message, and falls back to what is left in it. */
static void del_from_flow(struct tci_link *link, struct tci_flow *flow, struct tci_xfer *xfer)
{
    struct tci_xfer *at;
    int8_t priority = INT8_MIN;

    tci_xfers_del(&flow->xfers, xfer);
    if (flow->xfers.head == NULL) {
        tci_list_del(&flow->link);
        tci_pool_put(&link->tcp->flows, flow);
        return;
    }
    if (xfer->priority < flow->priority)
        return;
    for (at = flow->xfers.head; at != NULL; at = at->room_next)
        priority = at->priority > priority ? at->priority : priority;
    flow->priority = priority;
}

/* ---- One frame ---- */

static void make_head(struct tci_link *link, const struct tci_xfer *xfer, size_t length,
                      uint8_t *head)
{
    struct tci_frame frame = {.kind = TCI_FRAME_DATA,
                              .key = xfer->key,
                              .call = *xfer->call,
                              .offset = xfer->room[TCI_ROOM_DONE],
                              .length = length,
                              .total = xfer->len,
                              .seq = link->seq_out++,
                              .ack = link->eager_consumed};

    link->eager_told = link->eager_consumed;
    tci_frame_encode(&frame, head);
}

static void start_frame(struct tci_link *link, struct tci_flow *flow, struct tci_xfer *xfer)
{
    struct tci_tx *tx = &link->tx;
    size_t done = (size_t)xfer->room[TCI_ROOM_DONE];
    size_t length = tci_min(xfer->len - done, TCI_TCP_SEGMENT);

    TC_ASSERT(!tx->is_busy && tx->copy == NULL);
    if (is_eager(link->tcp, xfer)) { /* in one frame, always */
        length = xfer->len;
        link->eager_framed += eager_cost(xfer);
        if (flow != NULL)
            link->eager_queued -= eager_cost(xfer);
    }
    make_head(link, xfer, length, tx->head);
    tx->is_busy = true;
    tx->head_done = 0;
    tx->payload = length > 0 ? (const uint8_t *)xfer->data + done : NULL;
    tx->left = length;
    tx->xfer = xfer;
    tx->flow = flow;
    link->out.before = link->out.len;
}

/* The frame has been written. */
static void end_frame(struct tci_link *link)
{
    struct tci_tx *tx = &link->tx;
    struct tci_xfer *xfer = tx->xfer;
    struct tci_flow *flow = tx->flow;

    tx->is_busy = false;
    tx->xfer = NULL;
    tx->flow = NULL;
    tci_free(tx->copy);
    tx->copy = NULL;
    if (xfer == NULL)
        return;
    if (is_eager(link->tcp, xfer))
        xfer->room[TCI_ROOM_DONE] = xfer->len;
    else
        xfer->room[TCI_ROOM_DONE] +=
            tci_min(xfer->len - (size_t)xfer->room[TCI_ROOM_DONE], TCI_TCP_SEGMENT);
    if (xfer->room[TCI_ROOM_DONE] == xfer->len) {
        link->tcp->stats.messages_sent++;
        if (flow != NULL)
            del_from_flow(link, flow, xfer);
        tci_link_end_send(link, xfer, TC_OK);
    }
}

/* ---- Writing ---- */

/* Up to three parts: control before the frame, its header, its payload. */
static int gather_parts(struct tci_link *link, struct iovec *iov)
{
    struct tci_out *out = &link->out;
    struct tci_tx *tx = &link->tx;
    size_t control = (tx->is_busy ? out->before : out->len) - out->done;
    int count = 0;

    if (control > 0)
        iov[count++] = (struct iovec){out->data + out->done, control};
    if (!tx->is_busy)
        return count;
    if (tx->head_done < TCI_HEAD_BYTES)
        iov[count++] = (struct iovec){tx->head + tx->head_done, TCI_HEAD_BYTES - tx->head_done};
    if (tx->left > 0)
        iov[count++] = (struct iovec){(void *)(uintptr_t)tx->payload, tx->left};
    return count;
}

static void advance(struct tci_link *link, size_t sent)
{
    struct tci_out *out = &link->out;
    struct tci_tx *tx = &link->tx;
    size_t part = tci_min(sent, (tx->is_busy ? out->before : out->len) - out->done);

    link->tcp->stats.bytes_sent += sent;
    out->done += part;
    sent -= part;
    if (out->done == out->len)
        out->done = out->len = out->before = 0;
    if (!tx->is_busy)
        return;
    part = tci_min(sent, TCI_HEAD_BYTES - tx->head_done);
    tx->head_done += (unsigned)part;
    sent -= part;
    TC_ASSERT(sent <= tx->left);
    if (sent > 0)
        tx->payload += sent;
    tx->left -= sent;
    if (tx->head_done == TCI_HEAD_BYTES && tx->left == 0)
        end_frame(link);
}

/* One system call; what was written, 0 when nothing can be now. */
static size_t write_some(struct tci_link *link)
{
    struct iovec iov[3];
    struct msghdr message = {.msg_iov = iov};
    ssize_t sent;

    message.msg_iovlen = (size_t)gather_parts(link, iov);
    if (message.msg_iovlen == 0)
        return 0;
    do
        sent = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        if (errno != EAGAIN && errno != ENOBUFS)
            link->send_errno = errno;
        return 0;
    }
    advance(link, (size_t)sent);
    return (size_t)sent;
}

/* The next frame of the flow whose turn it is; then it is the turn of the next as urgent. */
static bool start_next(struct tci_link *link)
{
    struct tci_list *first = tci_list_first(&link->flows);
    struct tci_flow *flow;

    if (first == NULL)
        return false;
    flow = tci_container_of(first, struct tci_flow, link);
    tci_list_del(&flow->link);
    place_flow(link, flow);
    start_frame(link, flow, flow->xfers.head);
    return true;
}

bool tci_link_flush(struct tci_link *link)
{
    size_t bytes = 0, sent = 1;

    if (link->state != TCI_LINK_UP)
        return false;
    while (sent > 0 && bytes < SEND_MAX_BYTES && link->send_errno == 0) {
        if (!link->tx.is_busy)
            (void)start_next(link);
        sent = write_some(link);
        bytes += sent;
    }
    if ((link->tcp->is_leaving || link->is_leaving) && !link->bye_queued && link->sends == 0) {
        tci_link_say_bye(link);
        (void)write_some(link);
    }
    if (!tci_link_has_output(link)) {
        tci_list_del(&link->sending_link);
        tci_link_check_parted(link);
        tci_tcp_check_left(link->tcp);
    }
    return bytes > 0;
}

/* ---- Posting ---- */

/* Nothing is before it: one system call, and for most messages that was all. */
static void send_now(struct tci_link *link, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = link->tcp;

    link->sent_pass = tcp->passes;
    start_frame(link, NULL, xfer);
    (void)write_some(link);
    if (link->tx.is_busy && tci_list_is_empty(&link->sending_link))
        tci_list_add(&tcp->sending, &link->sending_link);
}

/* Not the first of this turn: copied, to leave with its neighbours at the next poll. */
static bool gather_small(struct tci_link *link, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_out *out = &link->out;
    uint8_t *at;

    if (link->sent_pass != tcp->passes || xfer->len > TCI_TCP_GATHER_MAX ||
        out->len - out->done > TCI_TCP_GATHERED_MAX)
        return false;
    at = tci_link_out_room(link, TCI_HEAD_BYTES + xfer->len);
    if (at == NULL)
        return false;
    make_head(link, xfer, xfer->len, at);
    if (xfer->len > 0)
        memcpy(at + TCI_HEAD_BYTES, xfer->data, xfer->len);
    out->len += TCI_HEAD_BYTES + xfer->len;
    link->eager_framed += eager_cost(xfer);
    tcp->stats.messages_sent++;
    tcp->stats.bytes_copied += xfer->len;
    if (tci_list_is_empty(&link->sending_link))
        tci_list_add(&tcp->sending, &link->sending_link);
    tci_link_end_send(link, xfer, TC_OK);
    return true;
}

static bool is_idle(const struct tci_link *link)
{
    return link->state == TCI_LINK_UP && !link->tx.is_busy && tci_list_is_empty(&link->flows) &&
           link->send_errno == 0;
}

static void send_admitted(struct tci_link *link, struct tci_xfer *xfer)
{
    if (!is_idle(link))
        add_to_flow(link, xfer);
    else if (!gather_small(link, xfer))
        send_now(link, xfer);
}

static void send_to_wait(struct tci_link *link, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = link->tcp;

    tci_match_add(&tcp->match, xfer);
    tci_tcp_probe_start(tcp);
    if (is_eager(tcp, xfer)) {
        struct tci_frame frame = {
            .kind = TCI_FRAME_WANT, .key = xfer->key, .call = *xfer->call, .total = xfer->len};

        tci_link_control(link, &frame, NULL);
    }
}

/* A credit that came before: true when it decided the fate of the transfer. */
static bool use_early_credit(struct tci_link *link, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_early *credit;

    while ((credit = tci_match_early(&tcp->match, xfer->peer, &xfer->key, TCI_EARLY_CREDIT)) !=
           NULL) {
        bool is_same =
            tci_key_is_same_call(&credit->call, xfer->call) && credit->total == xfer->len;
        bool is_dead;

        if (tci_key_is_later(&credit->key, &xfer->key))
            return false;
        is_dead = (!is_same || credit->key.use != xfer->key.use) &&
                  !tci_tcp_admit(tcp, xfer->peer, &credit->key, &credit->call);
        tci_link_drop_early(link, credit);
        if (is_dead)
            continue;
        if (is_same)
            add_to_flow(link, xfer);
        else
            tci_link_end_send(link, xfer, TC_ERR_MISMATCH);
        return true;
    }
    return false;
}

static void send_to_self(struct tci_tcp *tcp, struct tci_xfer *send)
{
    struct tci_xfer *recv = tci_match_recv(&tcp->match, send->peer, &send->key, 0, 0);
    tc_status_t status = TC_OK;

    if (recv == NULL) {
        tci_match_add(&tcp->match, send);
        return;
    }
    if (recv->len != send->len || !tci_key_is_same_call(recv->call, send->call))
        status = TC_ERR_MISMATCH;
    else
        tci_xfer_deliver(tcp, recv, send->data, send->len);
    tci_match_del(&tcp->match, recv);
    tci_tcp_complete(tcp, send, status);
    tci_tcp_complete(tcp, recv, status);
}

void tci_tcp_post_send(struct tci_transport *self, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = tci_tcp_of(self);
    struct tci_link *link;
    uint64_t used;

    TC_ASSERT(xfer->is_send && xfer->status == TC_PENDING && xfer->peer < tcp->size);
    memset(xfer->room, 0, sizeof(xfer->room));
    tcp->live++;
    if (xfer->peer == tcp->rank) {
        send_to_self(tcp, xfer);
        return;
    }
    link = tci_link_get(tcp, xfer->peer);
    if (link == NULL || link->state == TCI_LINK_DOWN || link->bye_queued) {
        tci_tcp_complete(tcp, xfer, link == NULL ? TC_ERR_ALLOC : TC_ERR_PEER_LOST);
        return;
    }
    link->live++;
    link->sends++;
    if (link->state == TCI_LINK_NONE)
        tci_link_dial(link);
    /* Equal keys stay in order: behind one that waits, all wait. */
    if (tci_match_send(&tcp->match, xfer->peer, &xfer->key) != NULL) {
        send_to_wait(link, xfer);
        return;
    }
    used = link->eager_queued + link->eager_framed - link->eager_acked;
    if (is_eager(tcp, xfer) && used + eager_cost(xfer) <= tcp->window)
        send_admitted(link, xfer);
    else if (is_eager(tcp, xfer) || !use_early_credit(link, xfer))
        send_to_wait(link, xfer);
}

void tci_link_on_credit(struct tci_link *link, const struct tci_frame *frame)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_xfer *xfer = tci_match_send(&tcp->match, link->peer, &frame->key);
    struct tci_early *early;
    bool is_same;

    if (xfer != NULL && tci_key_is_later(&frame->key, &xfer->key))
        xfer = NULL;
    if (xfer != NULL) {
        is_same = tci_key_is_same_call(xfer->call, &frame->call) && xfer->len == frame->total;
        if ((!is_same || xfer->key.use != frame->key.use) &&
            !tci_tcp_admit(tcp, link->peer, &frame->key, &frame->call))
            return;
        tci_match_del(&tcp->match, xfer);
        if (is_same)
            add_to_flow(link, xfer);
        else
            tci_link_end_send(link, xfer, TC_ERR_MISMATCH);
        return;
    }
    /* A small message is granted only while it waits; that grant has been overtaken. */
    if (!tci_tcp_admit(tcp, link->peer, &frame->key, &frame->call) ||
        frame->total <= tcp->eager_max)
        return;
    early = tci_pool_get(&tcp->earlies);
    if (early == NULL) {
        link->send_errno = ENOMEM;
        return;
    }
    early->key = frame->key;
    early->call = frame->call;
    early->peer = link->peer;
    early->kind = TCI_EARLY_CREDIT;
    early->total = frame->total;
    early->payload = NULL;
    link->early_held++;
    tci_match_add_early(&tcp->match, early);
}

/* ---- Abort ---- */

/* The rest of a frame whose header is out must follow.  It is copied, so that the memory is free
 * and the peer, who may not know of the abort yet, still gets nothing but true data. */
static void orphan_frame(struct tci_link *link)
{
    struct tci_tx *tx = &link->tx;

    tx->xfer = NULL;
    tx->flow = NULL;
    if (link->state != TCI_LINK_UP) {
        tx->is_busy = false;
        return;
    }
    if (tx->left == 0)
        return;
    tx->copy = tci_alloc_raw(tx->left);
    if (tx->copy == NULL) {
        link->send_errno = ENOMEM;
        tx->is_busy = false;
        return;
    }
    memcpy(tx->copy, tx->payload, tx->left);
    tx->payload = tx->copy;
}

static void abort_flow(struct tci_link *link, struct tci_flow *flow, tc_status_t status)
{
    struct tci_xfer *xfer, *next;

    for (xfer = flow->xfers.head; xfer != NULL; xfer = next) {
        next = xfer->room_next;
        if (xfer == link->tx.xfer)
            orphan_frame(link);
        else if (is_eager(link->tcp, xfer))
            link->eager_queued -= eager_cost(xfer);
        tci_xfers_del(&flow->xfers, xfer);
        tci_link_end_send(link, xfer, status);
    }
    tci_list_del(&flow->link);
    tci_pool_put(&link->tcp->flows, flow);
}

void tci_link_abort_sends(struct tci_link *link, const struct tci_key *key, tc_status_t status)
{
    struct tci_xfer *xfer = link->tx.xfer;
    struct tci_list *at, *next;

    if (xfer != NULL && link->tx.flow == NULL &&
        (key == NULL || tci_key_is_same_tag(&xfer->key, key))) {
        orphan_frame(link);
        tci_link_end_send(link, xfer, status);
    }
    for (at = link->flows.next; at != &link->flows; at = next) {
        struct tci_flow *flow = tci_container_of(at, struct tci_flow, link);

        next = at->next;
        if (key == NULL || tci_key_is_same_tag(&flow->xfers.head->key, key))
            abort_flow(link, flow, status);
    }
}

/* ---- Probes ---- */

void tci_tcp_probe_start(struct tci_tcp *tcp)
{
    struct tci_exec *exec = tcp->exec;

    if (tcp->match.sends_count <= 1)
        tcp->probe_ms = PROBE_MIN_MS;
    if (tcp->probe.heap_at == 0)
        (void)exec->ops->timer_set(exec, &tcp->probe,
                                   exec->ops->now_ns(exec) + tcp->probe_ms * TCI_NS_PER_MS);
}

static void probe_one(void *arg, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = arg;
    struct tci_frame frame = {.kind = TCI_FRAME_PROBE};

    if (!xfer->is_send || xfer->peer == tcp->rank)
        return;
    if ((xfer->room[TCI_ROOM_FLAGS] & TCI_XFER_SEEN) == 0) {
        xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_SEEN;
        return;
    }
    frame.key = xfer->key;
    frame.call = *xfer->call;
    frame.total = xfer->len;
    tci_link_control(tcp->links[xfer->peer], &frame, NULL);
}

/* Whose credit does not come may wait for a peer that made another call, in which no message is
 * as long: the peer is shown the call. */
void tci_tcp_on_probe_timer(struct tci_timer *timer)
{
    struct tci_tcp *tcp = tci_container_of(timer, struct tci_tcp, probe);

    tcp->probe_ms = tci_min(2 * tcp->probe_ms, PROBE_MAX_MS);
    if (tcp->match.sends_count == 0)
        return;
    tci_match_each_xfer(&tcp->match, probe_one, tcp);
    (void)tcp->exec->ops->timer_set(
        tcp->exec, timer, tcp->exec->ops->now_ns(tcp->exec) + tcp->probe_ms * TCI_NS_PER_MS);
}
