/* tcp_send.c - messages on their way out: at once, by turns, or after a credit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/alloc.h"
#include "core/assert.h"

/* Payloads up to this go into the log with their header: that costs less than another part. */
enum { COPY_AT_ONCE = 4096, PARTS_MAX = 64, KEPT_MORE = 1024 * 1024 };

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
    return tci_log_unsent(&link->log) > 0 || !tci_list_is_empty(&link->flows) ||
           !tci_link_is_flushed(link) || link->send_errno != 0 || tci_sides_have_rest(link);
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
    if (link->side_count > 0)
        tci_sides_wake(link);
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

static void make_head(struct tci_link *link, const struct tci_xfer *xfer, uint64_t offset,
                      size_t length, uint8_t *head)
{
    struct tci_frame frame = {.kind = TCI_FRAME_DATA,
                              .key = xfer->key,
                              .call = *xfer->call,
                              .offset = offset,
                              .length = length,
                              .total = xfer->len,
                              .seq = link->seq_out++,
                              .ack = xfer->room[TCI_ROOM_GRANT]};

    if (is_eager(link->tcp, xfer))
        frame.ack = link->eager_told = link->eager_consumed;
    tci_frame_encode(&frame, head);
}

/* The last piece is in the log, and what the log needs of it is its own. */
static void end_sent(struct tci_link *link, struct tci_xfer *xfer)
{
    link->tcp->stats.messages_sent++;
    tci_link_end_send(link, xfer, TC_OK);
    if ((link->tcp->is_leaving || link->is_leaving) && link->state == TCI_LINK_UP)
        tci_link_say_bye(link);
}

void tci_link_on_release(struct tci_log *log, struct tci_xfer *xfer, uint64_t len)
{
    xfer->room[TCI_ROOM_SURE] += len;
    if (xfer->room[TCI_ROOM_SURE] == xfer->len)
        end_sent(tci_container_of(log, struct tci_link, log)->main, xfer);
}

/* Its memory is read until the peer has it. */
bool tci_link_put_piece(struct tci_link *link, struct tci_xfer *xfer, uint64_t offset,
                        size_t length)
{
    uint8_t *head = tci_log_room(&link->log, TCI_HEAD_BYTES, 0);

    if (head == NULL) {
        link->send_errno = ENOMEM;
        return false;
    }
    make_head(link, xfer, offset, length, head);
    tci_log_add(&link->log, TCI_HEAD_BYTES);
    tci_log_add_payload(&link->log, xfer, (const uint8_t *)xfer->data + offset, length, 0);
    return true;
}

/* A message that is short enough to be copied: with its header, or once it has left. */
static bool put_short(struct tci_link *link, struct tci_xfer *xfer)
{
    struct tci_log *log = &link->log;
    size_t now = xfer->len <= COPY_AT_ONCE ? xfer->len : 0, later = xfer->len - now;
    uint8_t *head = tci_log_room(log, TCI_HEAD_BYTES + now, later);

    if (head == NULL) {
        link->send_errno = ENOMEM;
        return false;
    }
    make_head(link, xfer, 0, xfer->len, head);
    if (now > 0)
        memcpy(head + TCI_HEAD_BYTES, xfer->data, now);
    tci_log_add(log, TCI_HEAD_BYTES + now);
    if (later > 0)
        tci_log_add_payload(log, xfer, xfer->data, later, later);
    return true;
}

/* Into the log goes the next piece of a message: a small one is in one frame, always. */
static bool start_frame(struct tci_link *link, struct tci_flow *flow, struct tci_xfer *xfer)
{
    size_t done = (size_t)xfer->room[TCI_ROOM_DONE], length = xfer->len - done;
    bool is_small = is_eager(link->tcp, xfer), is_short = xfer->len <= TCI_LOG_COPY_MAX;
    struct tci_link *main = link->main;

    if (!is_small)
        length = tci_min(length, tci_tcp_piece_bytes(link->tcp));
    if (is_short ? !put_short(link, xfer) : !tci_link_put_piece(link, xfer, done, length))
        return false;
    if (is_small) {
        main->eager_framed += eager_cost(xfer);
        if (flow != NULL)
            main->eager_queued -= eager_cost(xfer);
    }
    xfer->room[TCI_ROOM_DONE] += length;
    if (flow != NULL && done + length == xfer->len)
        del_from_flow(main, flow, xfer);
    if (xfer->len <= COPY_AT_ONCE)
        end_sent(main, xfer);
    return true;
}

/* ---- Writing ---- */

/* One system call; what was written, 0 when nothing can be now. */
static size_t write_some(struct tci_link *link)
{
    struct iovec parts[PARTS_MAX];
    int count = tci_log_parts(&link->log, parts, PARTS_MAX, tci_tcp_turn_bytes(link->tcp));
    ssize_t sent = tci_link_writev(link, parts, count);

    if (sent < 0) {
        if (errno == EFAULT && tci_link_cut_missing(link->main))
            return 0; /* the rest at the next poll */
        if (errno != EAGAIN && errno != ENOBUFS)
            link->send_errno = errno;
        return 0;
    }
    link->tcp->stats.bytes_sent += (uint64_t)sent;
    if (link->index != 0)
        link->tcp->stats.bytes_beside += (uint64_t)sent;
    tci_log_sent(&link->log, (size_t)sent);
    return (size_t)sent;
}

/* What is kept for a peer that does not say that it has it ends somewhere. */
static bool has_log_room(const struct tci_link *link)
{
    return tci_log_kept(&link->log) <= link->tcp->window + KEPT_MORE;
}

/* Large enough to go by any connection: its receive is known by the number of its grant. */
static bool is_wide(const struct tci_link *link, const struct tci_xfer *xfer)
{
    return !is_eager(link->tcp, xfer) && xfer->len > TCI_LOG_COPY_MAX;
}

/* Whether so much is on its way that no large message is to begin, where others wait too. */
static bool is_full(const struct tci_link *link)
{
    return link->is_near && link->log.end - link->log.acked >= TCI_TCP_FEW &&
           link->flows.next != link->flows.prev && !tci_sides_carry(link);
}

/* The flow whose turn it is among those that go over a connection; NULL: none.  Whoever begins
 * with it now gets none that has to wait until fewer are on their way: nor one behind that, for
 * else a message that is under way would leave the others nothing. */
static struct tci_flow *next_flow(const struct tci_link *link, bool begins)
{
    const struct tci_link *main = link->main;
    bool is_main = link->index == 0, takes_wide = true;

    if (tci_list_is_empty(&main->flows))
        return NULL;
    if (!is_main)
        takes_wide = tci_side_carries(link);
    else if (main->side_count > 0)
        takes_wide = !tci_sides_part(main);
    for (struct tci_list *at = main->flows.next; at != &main->flows; at = at->next) {
        struct tci_flow *flow = tci_container_of(at, struct tci_flow, link);
        const struct tci_xfer *xfer = flow->xfers.head;
        bool is_large = is_wide(main, xfer);

        if (is_large && begins && xfer->room[TCI_ROOM_DONE] == 0 && is_full(link))
            takes_wide = false;
        if (is_large ? takes_wide : is_main)
            return flow;
    }
    return NULL;
}

/* The next frame of that flow; then it is the turn of the next as urgent. */
static bool start_next(struct tci_link *link)
{
    struct tci_flow *flow;

    if (tci_sides_have_rest(link))
        return tci_sides_put_rest(link);
    if (!has_log_room(link))
        return false;
    flow = next_flow(link, true);
    if (flow == NULL ||
        (tci_log_unsent(&link->log) > COPY_AT_ONCE && !is_eager(link->tcp, flow->xfers.head)))
        return false;
    if (is_wide(link, flow->xfers.head))
        tci_sides_want(link);
    tci_list_del(&flow->link);
    place_flow(link, flow);
    return start_frame(link, flow, flow->xfers.head);
}

/* Beside the main connection: the next piece of a large message. */
static bool start_beside(struct tci_link *side)
{
    struct tci_flow *flow = next_flow(side, false);

    return flow != NULL && start_frame(side, flow, flow->xfers.head);
}

bool tci_link_flush(struct tci_link *link)
{
    /* A piece each, where several connections share them. */
    size_t most = tci_sides_carry(link->main) ? tci_tcp_piece_bytes(link->tcp)
                                              : tci_tcp_turn_bytes(link->tcp);
    size_t bytes = 0, sent = 1;

    if (link->state != TCI_LINK_UP)
        return false;
    while (sent > 0 && bytes < most && link->send_errno == 0) {
        while (tci_log_unsent(&link->log) < TCI_TCP_GATHERED &&
               (link->index == 0 ? start_next(link) : start_beside(link)))
            continue;
        sent = write_some(link);
        bytes += sent;
    }
    if ((link->tcp->is_leaving || link->is_leaving) && !link->bye_queued && link->sends == 0 &&
        link->index == 0) {
        tci_link_say_bye(link);
        (void)write_some(link);
    }
    if (!tci_link_has_output(link) && (link->index == 0 || next_flow(link, false) == NULL)) {
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
    if (!start_frame(link, NULL, xfer))
        tci_link_end_send(link, xfer, TC_ERR_ALLOC);
    (void)write_some(link);
    if (tci_link_has_output(link) && tci_list_is_empty(&link->sending_link))
        tci_list_add(&tcp->sending, &link->sending_link);
}

/* Not the first of this turn: it leaves with its neighbours, when these are as many as one system
 * call should carry, or at the next poll. */
static bool gather_small(struct tci_link *link, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = link->tcp;

    if (link->sent_pass != tcp->passes || xfer->len > TCI_LOG_COPY_MAX || !is_eager(tcp, xfer))
        return false;
    if (!start_frame(link, NULL, xfer))
        return false;
    if (tci_log_unsent(&link->log) >= TCI_TCP_GATHERED)
        (void)write_some(link);
    if (tci_link_has_output(link) && tci_list_is_empty(&link->sending_link))
        tci_list_add(&tcp->sending, &link->sending_link);
    return true;
}

static bool is_idle(const struct tci_link *link)
{
    return link->state == TCI_LINK_UP && next_flow(link, false) == NULL && link->send_errno == 0 &&
           tci_log_unsent(&link->log) < TCI_TCP_GATHERED && has_log_room(link);
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
        uint64_t grant = credit->filled;
        bool is_dead;

        if (tci_key_is_later(&credit->key, &xfer->key))
            return false;
        is_dead = (!is_same || credit->key.use != xfer->key.use) &&
                  !tci_tcp_admit(tcp, xfer->peer, &credit->key, &credit->call);
        tci_link_drop_early(link, credit);
        if (is_dead)
            continue;
        xfer->room[TCI_ROOM_GRANT] = grant;
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
    struct tci_place place = {.at = 0};
    tc_status_t status = TC_OK;

    if (recv == NULL) {
        tci_match_add(&tcp->match, send);
        return;
    }
    if (recv->len != send->len || !tci_key_is_same_call(recv->call, send->call))
        status = TC_ERR_MISMATCH;
    else
        tci_xfer_deliver(tcp, recv, &place, send->data, send->len);
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
    tci_tcp_note_urgency(tcp, xfer);
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

/* The first that waited does no more: the credits of those behind it may have come before its. */
static void use_credits_behind(struct tci_link *link, const struct tci_key *key)
{
    struct tci_match *match = &link->tcp->match;
    struct tci_xfer *xfer;

    while ((xfer = tci_match_send(match, link->peer, key)) != NULL) {
        struct tci_early *credit = tci_match_early(match, link->peer, key, TCI_EARLY_CREDIT);

        if (credit == NULL || tci_key_is_later(&credit->key, &xfer->key))
            return;
        tci_match_del(match, xfer);
        if (!use_early_credit(link, xfer))
            tci_match_add(match, xfer);
    }
}

void tci_link_on_credit(struct tci_link *link, const struct tci_frame *frame)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_xfer *xfer = tci_match_send(&tcp->match, link->peer, &frame->key);
    bool is_behind = xfer != NULL && tci_key_is_later(&frame->key, &xfer->key);
    struct tci_early *early;
    bool is_same;

    if (is_behind)
        xfer = NULL;
    if (xfer != NULL) {
        is_same = tci_key_is_same_call(xfer->call, &frame->call) && xfer->len == frame->total;
        if ((!is_same || xfer->key.use != frame->key.use) &&
            !tci_tcp_admit(tcp, link->peer, &frame->key, &frame->call))
            return;
        tci_match_del(&tcp->match, xfer);
        xfer->room[TCI_ROOM_GRANT] = frame->offset;
        if (is_same)
            add_to_flow(link, xfer);
        else
            tci_link_end_send(link, xfer, TC_ERR_MISMATCH);
        use_credits_behind(link, &frame->key);
        return;
    }
    /* A small message is granted only while it waits: behind others, or that grant is overtaken. */
    if (!tci_tcp_admit(tcp, link->peer, &frame->key, &frame->call) ||
        (frame->total <= tcp->eager_max && !is_behind))
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
    early->filled = frame->offset;
    early->payload = NULL;
    link->early_held++;
    tci_match_add_early(&tcp->match, early);
}

/* ---- Abort ---- */

static void abort_flow(struct tci_link *link, struct tci_flow *flow, tc_status_t status)
{
    struct tci_xfer *xfer, *next;

    for (xfer = flow->xfers.head; xfer != NULL; xfer = next) {
        next = xfer->room_next;
        if (is_eager(link->tcp, xfer))
            link->eager_queued -= eager_cost(xfer);
        tci_xfers_del(&flow->xfers, xfer);
        tci_link_end_send(link, xfer, status);
    }
    tci_list_del(&flow->link);
    tci_pool_put(&link->tcp->flows, flow);
}

/* What has begun must follow.  It is copied, so that the memory is free and the peer, who may not
 * know of the abort yet, still gets nothing but true data. */
static void abort_logged(struct tci_link *link, const struct tci_key *key, tc_status_t status)
{
    struct tci_log *log = &link->log;
    struct tci_link *main = link->main;

    for (uint64_t at = log->first; at != log->last; at++) {
        struct tci_span *span = tci_log_span(log, at);
        struct tci_xfer *xfer = span->xfer;

        if (xfer == NULL || (key != NULL && !tci_key_is_same_tag(&xfer->key, key)))
            continue;
        if (main->state == TCI_LINK_DOWN)
            span->xfer = NULL; /* nothing is sent any more */
        else if (!tci_log_own(log, span))
            main->send_errno = ENOMEM;
        xfer->room[TCI_ROOM_SURE] += span->len;
        if (xfer->room[TCI_ROOM_SURE] == xfer->len)
            tci_link_end_send(main, xfer, status);
    }
}

void tci_link_abort_sends(struct tci_link *link, const struct tci_key *key, tc_status_t status)
{
    struct tci_list *at, *next;

    abort_logged(link, key, status);
    for (int i = 0; i < TCI_TCP_SIDES && link->side_count > 0; i++)
        if (link->sides[i] != NULL)
            abort_logged(link->sides[i], key, status);
    for (at = link->flows.next; at != &link->flows; at = next) {
        struct tci_flow *flow = tci_container_of(at, struct tci_flow, link);

        next = at->next;
        if (key == NULL || tci_key_is_same_tag(&flow->xfers.head->key, key))
            abort_flow(link, flow, status);
    }
}
