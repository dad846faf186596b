/* tcp.c - transport over TCP: the verbs of the port. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "net/acks.h"
#include "net/tcp_link.h"

enum { HEAL_MS = 15000 };

void tci_tcp_complete(struct tci_tcp *tcp, struct tci_xfer *xfer, tc_status_t status)
{
    TC_ASSERT(tcp->live > 0);
    tcp->live--;
    if (xfer == tcp->put && status == TC_OK)
        tcp->put = NULL;
    else
        tci_cq_push(xfer->cq, xfer, status);
}

/* What was the main connections' to send goes beside them from now on. */
static void begin_short_turns(struct tci_tcp *tcp)
{
    bool were_long = tcp->short_for == 0;

    tcp->short_for = TCI_TCP_SHORT_FOR;
    for (uint32_t i = 0; were_long && i < tcp->size; i++)
        if (tcp->links[i] != NULL && !tci_list_is_empty(&tcp->links[i]->flows))
            tci_sides_wake(tcp->links[i]);
}

void tci_tcp_note_urgency(struct tci_tcp *tcp, const struct tci_xfer *xfer)
{
    if (xfer->len > tcp->eager_max) {
        tcp->bulk_priority = xfer->priority;
        tcp->short_for -= tcp->short_for > 0;
    } else if (xfer->priority > tcp->bulk_priority) {
        begin_short_turns(tcp);
    }
}

bool tci_tcp_admit(struct tci_tcp *tcp, uint32_t peer, const struct tci_key *key,
                   const struct tci_call *call)
{
    return tcp->base.sink->admit(tcp->base.sink, peer, key, call);
}

/* ---- Verbs ---- */

static void end_xfer(void *arg, struct tci_xfer *xfer, tc_status_t status)
{
    struct tci_tcp *tcp = arg;

    if (!xfer->is_send && xfer->peer != tcp->rank) {
        tci_link_end_recv(tcp->links[xfer->peer], xfer, status);
        return;
    }
    tci_match_del(&tcp->match, xfer);
    if (xfer->peer == tcp->rank)
        tci_tcp_complete(tcp, xfer, status);
    else
        tci_link_end_send(tcp->links[xfer->peer], xfer, status);
}

static void drop_early(void *arg, struct tci_early *early)
{
    struct tci_tcp *tcp = arg;
    struct tci_link *link = tcp->links[early->peer];

    tci_link_drop_early(link, early);
    tci_link_ack(link);
}

static const struct tci_match_ends ends = {end_xfer, drop_early};

static void tcp_abort(struct tci_transport *self, const struct tci_key *key, int peer)
{
    struct tci_tcp *tcp = tci_tcp_of(self);

    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->links[i] != NULL && (peer == TCI_ALL_PEERS || (uint32_t)peer == i))
            tci_link_abort_sends(tcp->links[i], key, TC_ERR_CANCELLED);
    tci_match_end(&tcp->match, &ends, tcp, key, peer, TC_ERR_CANCELLED);
}

static void tcp_review(struct tci_transport *self, tci_review_fn *keep, void *arg)
{
    struct tci_tcp *tcp = tci_tcp_of(self);

    tci_match_review(&tcp->match, &ends, tcp, keep, arg);
}

static void tcp_notify(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                       bool may_link)
{
    struct tci_tcp *tcp = tci_tcp_of(self);
    struct tci_link *link = tcp->links[peer];
    uint8_t payload[TCI_NOTICE_BYTES];
    struct tci_frame frame;

    TC_ASSERT(notice->kind < TCI_NOTICE_KINDS && peer != tcp->rank);
    if (tcp->is_ring && link == NULL) {
        if (may_link)
            tci_tcp_pass_on(tcp, &(struct tci_way){tcp->rank, peer}, TCI_FROM_HERE, notice);
        return;
    }
    if (link == NULL && may_link)
        link = tci_link_get(tcp, peer);
    if (link == NULL || (link->state == TCI_LINK_NONE && !may_link))
        return;
    if (link->state == TCI_LINK_NONE)
        tci_link_dial(link);
    tci_notice_encode(notice, &frame, payload);
    tci_link_control(link, &frame, payload);
    /* Whoever tells of a loss may exit the next moment, and must not be taken for its cause. */
    if (notice->kind == TCI_NOTICE_LOST)
        (void)tci_link_flush(link);
}

static struct tci_link *standing(struct tci_tcp *tcp, uint32_t peer)
{
    struct tci_link *link = tcp->links[peer];

    return link != NULL && link->state == TCI_LINK_UP && !link->has_left ? link : NULL;
}

bool tci_tcp_is_for_all(const struct tci_way *way, const struct tci_notice *notice)
{
    return notice->kind == TCI_NOTICE_END && way->from == 0 && !tci_space_is_p2p(notice->key.space);
}

static void pass_to(struct tci_link *link, const struct tci_way *way,
                    const struct tci_notice *notice)
{
    uint8_t payload[TCI_NOTICE_BYTES];
    struct tci_frame frame;

    if (link == NULL)
        return;
    tci_notice_encode(notice, &frame, payload);
    frame.offset = tci_way_encode(way->from, way->to);
    tci_link_control(link, &frame, payload);
}

void tci_tcp_pass_on(struct tci_tcp *tcp, const struct tci_way *way, int came_from,
                     const struct tci_notice *notice)
{
    uint32_t right = (tcp->rank + 1) % tcp->size, left = (tcp->rank + tcp->size - 1) % tcp->size;
    bool is_right = (way->to + tcp->size - tcp->rank) % tcp->size <= tcp->size / 2;
    struct tci_link *link;

    if (came_from != TCI_FROM_HERE)
        is_right = (uint32_t)came_from == left;
    link = standing(tcp, is_right ? right : left);
    if (came_from == TCI_FROM_HERE && (link == NULL || tci_tcp_is_for_all(way, notice)))
        pass_to(standing(tcp, is_right ? left : right), way, notice);
    pass_to(link, way, notice);
}

static bool put(struct tci_transport *self, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = tci_tcp_of(self);
    bool is_out;

    tcp->put = xfer;
    tci_tcp_post_send(self, xfer);
    is_out = tcp->put == NULL;
    tcp->put = NULL;
    return is_out;
}

static void tcp_caps(const struct tci_transport *self, struct tci_caps *caps_out)
{
    const struct tci_tcp *tcp = (const struct tci_tcp *)self;

    *caps_out =
        (struct tci_caps){.eager_max = tcp->eager_max, .latency_us = 6.0, .gbytes_per_s = 5.0};
}

static void add_stats(const struct tci_link *link, struct tci_transport_stats *stats)
{
    stats->bytes_kept += tci_log_kept(&link->log);
    for (int i = 0; i < TCI_TCP_SIDES; i++)
        if (link->sides[i] != NULL) {
            stats->bytes_kept += tci_log_kept(&link->sides[i]->log);
            stats->sides_open += link->sides[i]->state == TCI_LINK_UP;
        }
}

static void tcp_stats(const struct tci_transport *self, struct tci_transport_stats *stats_out)
{
    const struct tci_tcp *tcp = (const struct tci_tcp *)self;

    *stats_out = tcp->stats;
    for (uint32_t i = 0; tcp->links != NULL && i < tcp->size; i++)
        if (tcp->links[i] != NULL)
            add_stats(tcp->links[i], stats_out);
}

static void read_meter(const struct tci_meter *meter, struct tci_transport_stats *stats_out)
{
    const struct tci_tcp *tcp =
        (const struct tci_tcp *)((const char *)meter - offsetof(struct tci_tcp, meter));

    tcp_stats(&tcp->base, stats_out);
}

/* ---- Leaving ---- */

/* Whether the peer's host has everything; a reset cannot take it back from there. */
static bool has_arrived(const struct tci_link *link)
{
    return link->state != TCI_LINK_UP || tci_acks_has_all(link->fd);
}

static bool has_ended(const struct tci_link *link)
{
    if (link == NULL || link->state == TCI_LINK_NONE || link->state == TCI_LINK_DOWN)
        return true;
    if (link->tcp->is_parting)
        return link->state == TCI_LINK_HEALING ||
               (link->bye_queued && !tci_link_has_output(link) && has_arrived(link));
    return tci_link_is_parted(link) && !tci_link_has_output(link);
}

void tci_tcp_check_left(struct tci_tcp *tcp)
{
    if (!tcp->is_leaving)
        return;
    for (uint32_t i = 0; i < tcp->size; i++)
        if (!has_ended(tcp->links[i]))
            return;
    if (tci_pipes_carry(tcp) && !tcp->is_parting)
        return; /* the ranks at its ends have not left each other */
    (void)tcp->exec->ops->timer_set(tcp->exec, &tcp->left_timer, tcp->exec->ops->now_ns(tcp->exec));
}

static void on_left_timer(struct tci_timer *timer)
{
    struct tci_tcp *tcp = tci_container_of(timer, struct tci_tcp, left_timer);

    for (uint32_t i = 0; tcp->is_parting && i < tcp->size; i++)
        if (!has_ended(tcp->links[i])) {
            (void)tcp->exec->ops->timer_set(tcp->exec, timer,
                                            tcp->exec->ops->now_ns(tcp->exec) + TCI_NS_PER_MS);
            return;
        }
    tcp->is_leaving = false;
    tcp->base.sink->left(tcp->base.sink);
}

static void tcp_leave_peer(struct tci_transport *self, uint32_t peer)
{
    struct tci_link *link = tci_tcp_of(self)->links[peer];

    if (link == NULL || link->state == TCI_LINK_NONE || link->state == TCI_LINK_DOWN)
        return;
    link->is_leaving = true;
    tci_link_say_bye(link);
}

static void tcp_leave(struct tci_transport *self)
{
    struct tci_tcp *tcp = tci_tcp_of(self);

    tcp->is_leaving = true;
    for (uint32_t i = 0; i < tcp->size; i++) {
        struct tci_link *link = tcp->links[i];

        if (link == NULL || link->state == TCI_LINK_DOWN || link->state == TCI_LINK_NONE)
            continue;
        if (link->state == TCI_LINK_DIALING && link->live == 0 && !tci_link_has_output(link))
            tci_link_fini(link);
        else
            tci_link_say_bye(link);
    }
    tci_tcp_check_left(tcp);
}

static bool tcp_has_told(const struct tci_transport *self)
{
    const struct tci_tcp *tcp = (const struct tci_tcp *)self;

    /* What is told over a link that is just being made, or made again, waits for that too. */
    for (uint32_t i = 0; i < tcp->size; i++) {
        const struct tci_link *link = tcp->links[i];

        if (link != NULL && link->state != TCI_LINK_DOWN && link->send_errno == 0 &&
            (tci_link_has_output(link) || !has_arrived(link)))
            return false;
    }
    return true;
}

static void tcp_part(struct tci_transport *self)
{
    struct tci_tcp *tcp = tci_tcp_of(self);

    tcp->is_parting = true;
    tcp_leave(self);
    (void)tcp->exec->ops->timer_set(tcp->exec, &tcp->left_timer, tcp->exec->ops->now_ns(tcp->exec));
}

/* ---- Open and close ---- */

void tci_tcp_be_quiet(struct tci_transport *self)
{
    tci_tcp_of(self)->is_quiet = true;
}

/* Closing with unread bytes would reset the connection, and what we said last with it. */
static void close_gently(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;

    if (link->state == TCI_LINK_UP) {
        (void)tci_link_flush(link); /* why it ends, above all */
        (void)shutdown(link->fd, SHUT_WR);
        for (int i = 0; i < TCI_TCP_DRAIN_MAX; i++)
            if (recv(link->fd, tcp->staging, TCI_TCP_STAGING, MSG_DONTWAIT) <= 0)
                break;
    }
    tci_link_fini(link);
    tci_sides_free(link);
    tci_free(link);
}

static void tcp_close(struct tci_transport *self)
{
    struct tci_tcp *tcp = tci_tcp_of(self);
    struct tci_exec *exec = tcp->exec;

    tci_meter_del(tcp->context, &tcp->meter); /* it looks at the links */
    tcp->is_leaving = false;
    for (uint32_t i = 0; tcp->links != NULL && i < tcp->size; i++)
        if (tcp->links[i] != NULL)
            close_gently(tcp->links[i]);
    tci_match_end(&tcp->match, &ends, tcp, NULL, (int)tcp->rank, TC_ERR_CLOSED);
    TC_ASSERT(tcp->live == 0);
    tci_tcp_listen_end(tcp);
    tci_knocks_end(tcp);
    tci_pipes_end(tcp);
    exec->ops->timer_clear(exec, &tcp->probe);
    exec->ops->timer_clear(exec, &tcp->left_timer);
    exec->ops->timer_clear(exec, &tcp->pulse);
    exec->ops->source_del(exec, &tcp->source);
    tci_pool_fini(&tcp->flows);
    tci_pool_fini(&tcp->earlies);
    tci_keyring_unref(tcp->keyring);
    tci_free(tcp->links);
    tci_free(tcp->addrs);
    tci_free(tcp->input);
    tci_free(tcp->staging);
    tci_free(tcp);
}

static const struct tci_transport_ops tcp_ops = {
    .name = "tcp",
    .post_send = tci_tcp_post_send,
    .put = put,
    .post_recv = tci_tcp_post_recv,
    .abort = tcp_abort,
    .notify = tcp_notify,
    .review = tcp_review,
    .caps = tcp_caps,
    .stats = tcp_stats,
    .leave = tcp_leave,
    .leave_peer = tcp_leave_peer,
    .part = tcp_part,
    .has_told = tcp_has_told,
    .bond = tci_tcp_bond,
    .look = tci_tcp_look,
    .hear = tci_tcp_hear,
    .close = tcp_close,
};

static uint64_t heal_time(const tc_config *config)
{
    if (config->heal_ms == 0)
        return HEAL_MS * TCI_NS_PER_MS;
    return config->heal_ms < 0 ? 0 : (uint64_t)config->heal_ms * TCI_NS_PER_MS;
}

static struct tci_tcp *tcp_new(struct tci_loop *loop, tc_context *context,
                               const struct tci_boot_result *result)
{
    struct tci_tcp *tcp = tci_alloc(sizeof(*tcp));

    if (tcp == NULL)
        return NULL;
    tcp->base.ops = &tcp_ops;
    tcp->loop = loop;
    tcp->exec = tci_loop_exec(loop);
    tcp->context = context;
    tcp->rank = (uint32_t)result->rank;
    tcp->size = (uint32_t)result->size;
    tcp->is_ring = result->is_ring;
    tci_tcp_listen_init(tcp);
    tcp->passes = 1;
    tcp->bulk_priority = INT_MAX;
    tcp->source =
        (struct tci_source){.poll = tci_tcp_poll, .arm = tci_tcp_arm, .expects = tci_tcp_expects};
    tcp->probe.fn = tci_tcp_on_probe_timer;
    tcp->left_timer.fn = on_left_timer;
    tcp->eager_max = (size_t)result->agreed.eager_bytes;
    if (tcp->eager_max > TCI_TCP_EAGER_MAX)
        tcp->eager_max = TCI_TCP_EAGER_MAX;
    tcp->window = tci_max(TCI_TCP_WINDOW, 4 * (tcp->eager_max + TCI_TCP_EAGER_COST));
    tcp->heal_ns = heal_time(&context->config);
    tcp->connections = (uint32_t)tci_min(result->connections > 0 ? (size_t)result->connections
                                                                 : context->config.connections,
                                         TCI_TCP_SIDES);
    memcpy(tcp->group_id, result->group_id, TCI_GROUP_ID);
    tcp->keyring = tci_keyring_ref(result->keyring);
    tci_list_init(&tcp->open);
    tci_list_init(&tcp->sending);
    tci_list_init(&tcp->halves);
    tci_list_init(&tcp->knocks);
    tci_list_init(&tcp->pipes);
    tci_match_init(&tcp->match);
    tci_meter_add(context, &tcp->meter, read_meter);
    tcp->exec->ops->source_add(tcp->exec, &tcp->source);
    tcp->links = tci_alloc_array(tcp->size, sizeof(struct tci_link *));
    tcp->input = tci_alloc_raw(TCI_TCP_INPUT);
    tcp->staging = tci_alloc_raw(TCI_TCP_STAGING);
    if (tci_pool_init(&tcp->flows, sizeof(struct tci_flow), 256) != 0 ||
        tci_pool_init(&tcp->earlies, sizeof(struct tci_early), 1024) != 0 || tcp->links == NULL ||
        tcp->input == NULL || tcp->staging == NULL) {
        tcp_close(&tcp->base);
        return NULL;
    }
    return tcp;
}

/* What seals the connection of the start seals the link. */
static bool take_seal(struct tci_link *link, struct tci_boot_result *result)
{
    struct tci_crypt *crypt = result->crypts != NULL ? result->crypts[link->peer] : NULL;

    if (crypt == NULL)
        return true;
    result->crypts[link->peer] = NULL;
    link->crypt = crypt;
    return tci_crypt_grow(crypt);
}

/* The connections of the start are the first links. */
static bool take_links(struct tci_tcp *tcp, struct tci_boot_result *result)
{
    for (uint32_t i = 0; result->fds != NULL && i < tcp->size; i++) {
        struct tci_link *link;

        if (result->fds[i] < 0)
            continue;
        link = tci_link_get(tcp, i);
        if (link == NULL || !take_seal(link, result) || tci_link_up(link, result->fds[i]) != 0)
            return false;
        result->fds[i] = -1;
        tci_link_give_token(link);
    }
    return true;
}

struct tci_transport *tci_tcp_open(struct tci_loop *loop, tc_context *context,
                                   struct tci_boot_result *result, struct tci_error *error)
{
    struct tci_tcp *tcp = tcp_new(loop, context, result);

    if (tcp == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, NULL, "no memory for the links of the group");
        return NULL;
    }
    tcp->addrs = result->addrs;
    result->addrs = NULL;
    if (!take_links(tcp, result) || tci_tcp_listen_start(tcp, result) != 0 ||
        tci_tcp_pulse_start(tcp) != 0) {
        tci_error_set(error, TC_ERR_TRANSPORT, -1, 0, NULL,
                      "the links of the group cannot be watched");
        tcp_close(&tcp->base);
        return NULL;
    }
    return &tcp->base;
}
