/* tcp_link.c - the life of a link, from its first use to its loss, and its frames of control. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "net/sock.h"

struct tci_link *tci_link_get(struct tci_tcp *tcp, uint32_t peer)
{
    struct tci_link *link = tcp->links[peer];

    TC_ASSERT(peer < tcp->size);
    if (link != NULL)
        return link;
    link = tci_alloc(sizeof(*link));
    if (link == NULL)
        return NULL;
    tci_link_init(link, tcp, peer);
    link->main = link;
    tcp->links[peer] = link;
    return link;
}

void tci_link_init(struct tci_link *link, struct tci_tcp *tcp, uint32_t peer)
{
    link->tcp = tcp;
    link->peer = peer;
    link->fd = -1;
    link->addr = tcp->addrs[peer];
    link->timer.fn = tci_link_on_dial_timer;
    link->log.release = tci_link_on_release;
    tci_list_init(&link->open_link);
    tci_list_init(&link->sending_link);
    tci_list_init(&link->flows);
}

static void on_ready(struct tci_watch *watch, uint32_t ready)
{
    struct tci_link *link = tci_container_of(watch, struct tci_link, watch);

    if ((ready & TC_WRITABLE) != 0) {
        (void)tci_link_flush(link);
        if (link->state == TCI_LINK_UP && tci_log_unsent(&link->log) == 0 &&
            tci_link_is_flushed(link))
            (void)tci_watch_change(watch, TC_READABLE);
    }
    if (link->state == TCI_LINK_UP && (ready & TC_READABLE) != 0)
        (void)tci_link_read(link);
}

static void show_link(const struct tci_link *link, enum tci_trace_link_state state)
{
    uint64_t job;

    memcpy(&job, link->tcp->group_id, sizeof(job));
    tci_trace_link_set(link->tcp->context->trace, job, link->peer, state);
}

int tci_link_up(struct tci_link *link, int fd)
{
    struct tci_tcp *tcp = link->tcp;

    TC_ASSERT(link->state != TCI_LINK_UP && link->state != TCI_LINK_DOWN);
    TC_ASSERT(link->fd == -1);
    link->watch.fn = on_ready;
    if (tci_watch_add(tcp->loop, &link->watch, fd, TC_READABLE) != 0)
        return -1;
    link->is_near = tci_sock_tune(fd) && !link->is_piped;
    tci_sock_peer(fd, &link->addr);
    link->fd = fd;
    link->state = TCI_LINK_UP;
    tci_list_add(&tcp->open, &link->open_link);
    if (link->index != 0) {
        tci_sides_wake(link->main);
        return 0;
    }
    tcp->stats.links_open++;
    show_link(link, TCI_TRACE_LINK_UP);
    if (tcp->is_leaving || link->is_leaving)
        tci_link_say_bye(link);
    if (tci_link_has_output(link) && tci_list_is_empty(&link->sending_link))
        tci_list_add(&tcp->sending, &link->sending_link);
    tci_link_end_probe(link, true);
    if (link->side_count == 0)
        tci_sides_start(link);
    return 0;
}

static void end_xfer(void *arg, struct tci_xfer *xfer, tc_status_t status)
{
    struct tci_link *link = arg;

    if (!xfer->is_send) {
        tci_link_end_recv(link, xfer, status);
        return;
    }
    tci_match_del(&link->tcp->match, xfer);
    tci_link_end_send(link, xfer, status);
}

static void drop_early(void *arg, struct tci_early *early)
{
    tci_link_drop_early(arg, early);
}

static const struct tci_match_ends ends = {end_xfer, drop_early};

void tci_link_drop_fd(struct tci_link *link)
{
    tci_watch_del(&link->watch);
    if (link->state == TCI_LINK_UP && link->index == 0) {
        link->tcp->stats.links_open--;
        show_link(link, TCI_TRACE_LINK_DOWN);
    }
    tci_list_del(&link->open_link);
    tci_list_del(&link->sending_link);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    tci_crypt_free(link->crypt);
    link->crypt = NULL;
}

/* Everything that needs the peer ends here. */
static void link_end(struct tci_link *link, tc_status_t status)
{
    struct tci_tcp *tcp = link->tcp;

    tci_link_dial_end(link);
    tci_link_drop_fd(link);
    link->state = TCI_LINK_DOWN;
    link->rx.xfer = NULL;
    link->rx.early = NULL;
    link->rx.mode = TCI_RX_HEAD;
    tci_link_abort_sends(link, NULL, status);
    tci_match_end(&tcp->match, &ends, link, NULL, (int)link->peer, status);
    tci_log_fini(&link->log);
    tci_sides_end(link);
    TC_ASSERT(link->live == 0);
    tci_link_end_probe(link, false);
}

void tci_link_fini(struct tci_link *link)
{
    if (link->state != TCI_LINK_DOWN)
        link_end(link, TC_ERR_CLOSED);
}

const char *tci_link_errno_text(int error)
{
    if (error == EBADMSG)
        return "what came does not open with the keys of this connection: it was changed on the "
               "way";
    return strerror(error);
}

tc_reason_t tci_link_errno_reason(int error)
{
    switch (error) {
    case 0: /* the end of the stream */
    case ECONNRESET:
    case ECONNREFUSED:
    case EPIPE:
        return TC_REASON_EXITED;
    case ETIMEDOUT: /* its host acknowledges nothing */
        return TC_REASON_MACHINE_SILENT;
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENONET:
    case EBADMSG:
        return TC_REASON_LINK_DEAD;
    default:
        return TC_REASON_NONE; /* of this side */
    }
}

void tci_link_lose(struct tci_link *link, tc_reason_t reason, const char *fmt, ...)
{
    struct tci_tcp *tcp = link->tcp;
    char addr[TCI_ADDR_TEXT], text[180], how[280];
    va_list args;

    link = link->main;
    if (link->state == TCI_LINK_DOWN)
        return;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (link->is_piped)
        (void)snprintf(how, sizeof(how), "%s (tcp %.60s, through rank %u)", text,
                       tci_addr_print(&link->addr, addr), link->carrier);
    else
        (void)snprintf(how, sizeof(how), "%s (tcp %.60s)", text, tci_addr_print(&link->addr, addr));
    link_end(link, TC_ERR_PEER_LOST);
    if (!link->has_left)
        tcp->base.sink->lost(tcp->base.sink, link->peer, reason, how);
    else if (tcp->base.sink->gone != NULL)
        tcp->base.sink->gone(tcp->base.sink, link->peer);
    tci_tcp_check_left(tcp);
}

/* The peer has done nothing wrong: this rank is the one that is lost. */
static void leave_group(struct tci_link *link, const char *why, const char *how)
{
    struct tci_tcp *tcp = link->tcp;

    tcp->base.sink->lost(tcp->base.sink, tcp->rank, TC_REASON_EXITED, why);
    tci_link_lose(link, TC_REASON_NONE, "is left, since %s", how);
}

void tci_link_starve(struct tci_link *link)
{
    leave_group(link, "has no memory left for what it sends and is sent, and leaves the group",
                "there is no memory for its messages");
}

void tci_link_mislead(struct tci_link *link)
{
    leave_group(link,
                "has begun to send from a buffer that lies outside its memory: it was freed too "
                "early, or is shorter than its count; it leaves the group",
                "it waits for the rest of a message that is not there");
}

void tci_link_control(struct tci_link *link, struct tci_frame *frame, const uint8_t *payload)
{
    size_t len = TCI_HEAD_BYTES + (size_t)frame->length;
    uint8_t *at;

    if (link->state == TCI_LINK_DOWN || (link->bye_queued && frame->kind != TCI_FRAME_ACK))
        return;
    if (tci_list_is_empty(&link->sending_link) && link->state == TCI_LINK_UP)
        tci_list_add(&link->tcp->sending, &link->sending_link);
    at = tci_log_room(&link->log, len, 0);
    if (at == NULL) {
        link->send_errno = ENOMEM;
        return;
    }
    frame->seq = link->seq_out++;
    frame->ack = link->eager_told = link->eager_consumed;
    tci_frame_encode(frame, at);
    if (payload != NULL)
        memcpy(at + TCI_HEAD_BYTES, payload, (size_t)frame->length);
    tci_log_add(&link->log, len);
}

void tci_link_say_ack(struct tci_link *link)
{
    struct tci_frame frame = {.kind = TCI_FRAME_ACK, .total = link->received};

    link->received_told = link->received;
    tci_link_control(link, &frame, NULL);
}

/* Last of all: only when no send is live. */
void tci_link_say_bye(struct tci_link *link)
{
    struct tci_frame frame = {.kind = TCI_FRAME_BYE};

    if (link->bye_queued || link->sends > 0)
        return;
    tci_link_control(link, &frame, NULL);
    link->bye_queued = true;
    link->bye_end = link->log.end;
}

/* Without the last of that a connection that breaks just then would leave the peer with nobody to
 * make it again, and with no goodbye. */
bool tci_link_is_parted(const struct tci_link *link)
{
    return link->has_left && link->bye_queued && link->log.acked >= link->bye_end;
}

void tci_link_check_parted(struct tci_link *link)
{
    if (link->is_leaving && tci_link_is_parted(link) && link->state == TCI_LINK_UP &&
        !tci_link_has_output(link))
        (void)shutdown(link->fd, SHUT_WR);
}
