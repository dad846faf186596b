/* tcp_call.c - a rank that cannot be connected to is called back, or reached through a third. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/log.h"
#include "net/sock.h"

/*   rank 1                      carrier                     rank 2
 *     | -- connect: fails, or no answer ------------------->X |
 *     | ---- CALL 1 to 2 ---------> | ---- CALL 1 to 2 -----> |   connects to rank 1: where only
 *     |                             |                         |   one way is blocked that stands
 *     | -- PIPE 1 to 2 (a connection of its own) -> |         |
 *     |                             | -- CALL, number n ----> |
 *     |                             | <- PIPE 2 to 1, n ----- |   likewise
 *     | <--- WELCOME -------------- | ---- WELCOME ---------> |
 *     | ==== proof, HELLO, WELCOME, frames: as over any connection ==== |
 *
 * The carrier is the lowest rank that stands with the one that asks: rank 0, with which all are
 * linked from the rendezvous on, and once that is gone another.  It calls the other itself, so that
 * both take the same one; where it does not stand with that, or is not to be reached by a
 * connection, the next is asked.  What goes through a pipe is the two ranks' own, with their order,
 * their credits, their healing, and their seal where there is a key.
 */
enum { CALL_AFTER_MS = 300, PIPE_AFTER_MS = 1500, LOOK_AGAIN_MS = 250, FAILURES_MAX = 6 };

/* A connection to a carrier that is to become one end of a pipe. */
struct tci_knock {
    struct tci_list list;  /* in tcp->knocks */
    struct tci_tcp *tcp;   /* borrowed */
    struct tci_link *link; /* borrowed: that is dialed; NULL: the carrier has called */
    uint32_t carrier, peer;
    uint64_t number; /* of the pipe; 0: a new one is asked for */
    struct tci_watch watch;
    struct tci_timer timer;
    int fd; /* owned */
    struct tci_greet greet;
    bool has_connected, has_asked;
    unsigned have;
    uint8_t greeting[TCI_GREETING_BYTES];
};

/* ---- Whether, and when ----------------------------------------------------------------------- */

/* The next that stands, from the one on that is due: that before it was of no use. */
static struct tci_link *carrier_of(const struct tci_link *link)
{
    const struct tci_tcp *tcp = link->tcp;

    for (uint32_t i = 0; i < tcp->size; i++) {
        uint32_t rank = (link->carrier_due + i) % tcp->size;
        struct tci_link *third = tcp->links[rank];

        if (rank != link->peer && third != NULL && third->state == TCI_LINK_UP &&
            !third->has_left && !third->is_piped)
            return third;
    }
    return NULL;
}

static bool is_needed(const struct tci_link *link)
{
    return link->live > 0 || tci_link_has_output(link);
}

/* A probe asks whether there is a direct way, and a link that was only asked for has no need.  Who
 * has other keys has them on every way. */
static bool wants_detour(const struct tci_link *link)
{
    const struct tci_tcp *tcp = link->tcp;

    return link->state == TCI_LINK_DIALING && link->index == 0 && link->peer != 0 &&
           tcp->rank != 0 && link->denials == 0 && link->probe_fn == NULL && !tcp->is_ring &&
           !tcp->is_parting && (!link->is_called || is_needed(link));
}

static bool may_detour(const struct tci_link *link)
{
    return wants_detour(link) && carrier_of(link) != NULL;
}

static void call(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_frame frame = {.kind = TCI_FRAME_CALL,
                              .offset = tci_way_encode(tcp->rank, link->peer)};

    link->has_called = true;
    tci_link_control(carrier_of(link), &frame, NULL);
}

static void go_by_pipe(struct tci_link *link)
{
    char where[TCI_ADDR_TEXT];

    link->is_piped = true;
    link->carrier = carrier_of(link)->peer;
    tci_log(
        TC_LOG_WARN,
        "rank %u: rank %u is reached through rank %u, since a connection to it at %s fails (%s, "
        "%u attempt%s), and none comes from it",
        link->tcp->rank, link->peer, link->carrier, tci_addr_print(&link->addr, where),
        link->dial_errno != 0 ? strerror(link->dial_errno) : "no answer", link->attempts,
        link->attempts == 1 ? "" : "s");
}

bool tci_link_detour_failed(struct tci_link *link)
{
    if (!may_detour(link))
        return false;
    if (!link->has_called)
        call(link);
    if (link->is_piped || (link->refusals < link->refusals_max && link->attempts < FAILURES_MAX))
        return false;
    go_by_pipe(link);
    return true;
}

bool tci_link_detour_late(struct tci_link *link, uint64_t waited_ms)
{
    if (link->has_connected || link->knock != NULL || !may_detour(link))
        return false;
    if (!link->has_called && waited_ms >= CALL_AFTER_MS)
        call(link);
    if (link->is_piped || waited_ms < PIPE_AFTER_MS)
        return false;
    go_by_pipe(link);
    return true;
}

uint64_t tci_link_detour_next_ms(const struct tci_link *link, uint64_t waited_ms)
{
    if (link->is_piped || link->has_connected || !wants_detour(link))
        return 0;
    /* Nobody to ask stands yet: the one that did may just have ended. */
    return !link->has_called && waited_ms < CALL_AFTER_MS ? CALL_AFTER_MS
           : waited_ms < PIPE_AFTER_MS                    ? PIPE_AFTER_MS
                                                          : waited_ms + LOOK_AGAIN_MS;
}

/* ---- One end of a pipe ----------------------------------------------------------------------- */

void tci_knock_end(struct tci_knock *knock)
{
    if (knock == NULL)
        return;
    tci_watch_del(&knock->watch);
    knock->tcp->exec->ops->timer_clear(knock->tcp->exec, &knock->timer);
    tci_list_del(&knock->list);
    tci_greet_fini(&knock->greet);
    if (knock->link != NULL)
        knock->link->knock = NULL;
    if (knock->fd >= 0)
        close(knock->fd);
    tci_free(knock);
}

/* That the carrier has lost the peer means that the peer is gone; that the carrier cannot be
 * reached, or does not know the peer, says nothing of the peer: then the next carrier is due. */
static void knock_failed(struct tci_knock *knock, int error)
{
    struct tci_link *link = knock->link;

    if (link != NULL && error != ECONNREFUSED)
        link->carrier_due = knock->carrier + 1;
    tci_knock_end(knock);
    if (link != NULL)
        tci_link_dial_failed(link, error);
}

static int of_carrier(int error)
{
    return error == ECONNREFUSED ? ENETUNREACH : error;
}

static void knock_stands(struct tci_knock *knock)
{
    struct tci_link *link = knock->link;
    struct tci_tcp *tcp = knock->tcp;
    uint32_t carrier = knock->carrier;
    int fd = knock->fd;

    tci_watch_del(&knock->watch);
    knock->fd = -1;
    tci_knock_end(knock);
    if (link != NULL)
        tci_link_piped(link, fd);
    else
        tci_tcp_take(tcp, fd, (int)carrier);
}

static bool ask(struct tci_knock *knock)
{
    struct tci_tcp *tcp = knock->tcp;
    struct tci_hello hello = {.from = tcp->rank,
                              .to = knock->peer,
                              .token = knock->number != 0 ? knock->number : 1,
                              .index = knock->number != 0};

    memcpy(hello.group_id, tcp->group_id, TCI_GROUP_ID);
    knock->has_asked = tci_greeting_send(&knock->greet, knock->fd, TCI_FRAME_PIPE, &hello, 0);
    return knock->has_asked;
}

/* No byte behind the answer is read: those are the peer's. */
static void read_answer(struct tci_knock *knock)
{
    struct tci_frame frame;

    for (;;) {
        size_t want = knock->have < TCI_HEAD_BYTES ? TCI_HEAD_BYTES : TCI_GREETING_BYTES;
        ssize_t got = tci_greet_receive(&knock->greet, knock->fd, knock->greeting + knock->have,
                                        want - knock->have);

        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            knock_failed(knock, got == 0 ? ECONNRESET : of_carrier(errno));
            return;
        }
        knock->have += (unsigned)got;
        if (knock->have < TCI_HEAD_BYTES)
            return;
        if (tci_frame_decode(knock->greeting, &frame) != NULL ||
            (frame.kind != TCI_FRAME_WELCOME && frame.kind != TCI_FRAME_REFUSE)) {
            knock_failed(knock, EPROTO);
            return;
        }
        if (frame.kind == TCI_FRAME_REFUSE) {
            knock_failed(knock, frame.total == TCI_REFUSED_FOR_GOOD ? ECONNREFUSED : EAGAIN);
            return;
        }
        if (knock->have == TCI_GREETING_BYTES) {
            knock_stands(knock);
            return;
        }
    }
}

static void on_knock_ready(struct tci_watch *watch, uint32_t ready)
{
    struct tci_knock *knock = tci_container_of(watch, struct tci_knock, watch);
    enum tci_greet_state state;
    struct tci_auth_config config;
    int error;

    (void)ready;
    if (knock->has_asked) {
        read_answer(knock);
        return;
    }
    if (knock->has_connected) {
        state = tci_greet_go_on(&knock->greet, knock->fd);
    } else {
        error = tci_sock_connect_result(knock->fd);
        if (error == 0 && tci_watch_change(&knock->watch, TC_READABLE) != 0)
            error = errno;
        if (error != 0) {
            knock_failed(knock, of_carrier(error));
            return;
        }
        knock->has_connected = true;
        tci_link_auth_config(knock->tcp, knock->carrier, true, &config);
        state = tci_greet_begin(&knock->greet, &config, knock->fd);
    }
    if (state == TCI_GREET_FAILED)
        knock_failed(knock, of_carrier(errno));
    else if (state == TCI_GREET_READY && !ask(knock))
        knock_failed(knock, ECONNRESET);
}

static void on_knock_timer(struct tci_timer *timer)
{
    knock_failed(tci_container_of(timer, struct tci_knock, timer), ETIMEDOUT);
}

/* NULL with errno. */
static struct tci_knock *knock_new(struct tci_tcp *tcp, uint32_t carrier, uint32_t peer,
                                   uint64_t number)
{
    struct tci_knock *knock = tci_alloc(sizeof(*knock));
    struct tci_exec *exec = tcp->exec;
    struct tci_error error = {0};
    bool is_up;

    if (knock == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    knock->tcp = tcp;
    knock->carrier = carrier;
    knock->peer = peer;
    knock->number = number;
    knock->watch.fn = on_knock_ready;
    knock->timer.fn = on_knock_timer;
    tci_list_init(&knock->list);
    tci_list_add(&tcp->knocks, &knock->list);
    if (tci_sock_connect(&tcp->addrs[carrier], &knock->fd, &is_up, &error) != TC_OK) {
        knock->fd = -1;
    } else if (tci_watch_add(tcp->loop, &knock->watch, knock->fd, TC_WRITABLE) == 0 &&
               exec->ops->timer_set(exec, &knock->timer,
                                    exec->ops->now_ns(exec) + TCI_TCP_GREET_MS * TCI_NS_PER_MS) ==
                   0) {
        return knock;
    }
    tci_knock_end(knock);
    errno = errno != 0 ? of_carrier(errno) : ENOMEM;
    return NULL;
}

int tci_link_knock(struct tci_link *link)
{
    const struct tci_link *carrier = carrier_of(link);

    TC_ASSERT(link->knock == NULL && link->fd < 0);
    if (carrier == NULL)
        return ENETUNREACH;
    link->carrier = carrier->peer;
    link->knock = knock_new(link->tcp, link->carrier, link->peer, 0);
    if (link->knock == NULL) {
        link->carrier_due = link->carrier + 1;
        return errno;
    }
    link->knock->link = link;
    return 0;
}

void tci_knocks_end(struct tci_tcp *tcp)
{
    while (!tci_list_is_empty(&tcp->knocks))
        tci_knock_end(tci_container_of(tci_list_first(&tcp->knocks), struct tci_knock, list));
}

/* ---- What is said about it ------------------------------------------------------------------- */

/* A call is passed on; where there is no link with who is called there is nobody to come. */
static const char *pass_call(struct tci_link *link, uint32_t from, uint32_t to)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_frame frame = {.kind = TCI_FRAME_CALL, .offset = tci_way_encode(from, to)};
    struct tci_link *called;

    if (from != link->peer || to == 0 || to >= tcp->size || to == from || link->is_piped ||
        link->rx.frame.key.tag != 0)
        return "a call that is none";
    called = tcp->links[to];
    if (called == NULL || called->state != TCI_LINK_UP || called->has_left)
        return NULL;
    /* A rank calls another one once: what is too much is dropped, so that nobody fills the memory
     * of this one with calls to one that does not read. */
    if (called->log.acked >= called->calls_end)
        called->calls_passed = 0;
    if (called->calls_passed >= tcp->size)
        return NULL;
    tci_link_control(called, &frame, NULL);
    called->calls_passed++;
    called->calls_end = called->log.end;
    return NULL;
}

/* Whether so many ends of pipes from one rank are being made that it needs no further one. */
static bool has_knocks_enough(const struct tci_tcp *tcp, uint32_t from)
{
    unsigned of_it = 0, all = 0;

    for (const struct tci_list *at = tcp->knocks.next; at != &tcp->knocks; at = at->next) {
        const struct tci_knock *knock = tci_container_of(at, struct tci_knock, list);

        of_it += knock->link == NULL && knock->peer == from;
        all++;
    }
    return of_it >= TCI_TCP_PIPES_SAME || all >= TCI_TCP_PIPES_MAX;
}

const char *tci_link_on_call(struct tci_link *link)
{
    const struct tci_frame *frame = &link->rx.frame;
    struct tci_tcp *tcp = link->tcp;
    struct tci_link *caller;
    uint32_t from, to;

    tci_way_decode(frame->offset, &from, &to);
    if (tcp->is_ring)
        return "a call among ranks that only neighbours are linked of";
    if (to != tcp->rank)
        return pass_call(link, from, to);
    if (to == 0 || from == 0 || from >= tcp->size || from == to || from == link->peer)
        return "a call that is none";
    if (frame->key.tag != 0) {
        if (!has_knocks_enough(tcp, from)) /* the caller asks again if this fails */
            (void)knock_new(tcp, link->peer, from, frame->key.tag);
        return NULL;
    }
    caller = tci_link_get(tcp, from);
    if (caller != NULL && caller->state == TCI_LINK_NONE && !tcp->is_leaving)
        tci_link_dial_back(caller);
    return NULL;
}
