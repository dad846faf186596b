/* tcp_call.c - a rank that cannot be connected to is called back, or reached through rank 0. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/log.h"
#include "net/sock.h"

/*   rank 1                      rank 0                      rank 2
 *     | -- connect: fails, or no answer ------------------->X |
 *     | ---- CALL 1 to 2 ---------> | ---- CALL 1 to 2 -----> |   connects to rank 1: where only
 *     |                             |                         |   one way is blocked that stands
 *     | -- PIPE 1 to 2 (a connection of its own) -> |         |
 *     |                             | -- CALL, number n ----> |
 *     |                             | <- PIPE 2 to 1, n ----- |   likewise
 *     | <--- WELCOME -------------- | ---- WELCOME ---------> |
 *     | ==== proof, HELLO, WELCOME, frames: as over any connection ==== |
 *
 * All ranks are linked with rank 0 from the rendezvous on, so it is the one that both reach, and
 * all ranks take the same decision.  What goes through a pipe is the two ranks' own, with their
 * order, their credits, their healing, and their seal where there is a key.
 */
enum { CALL_AFTER_MS = 300, PIPE_AFTER_MS = 1500, FAILURES_MAX = 6 };

/* A connection to rank 0 that is to become one end of a pipe. */
struct tci_knock {
    struct tci_list list;  /* in tcp->knocks */
    struct tci_tcp *tcp;   /* borrowed */
    struct tci_link *link; /* borrowed: that is dialed; NULL: rank 0 has called */
    uint32_t peer;
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

static struct tci_link *root_of(const struct tci_tcp *tcp)
{
    struct tci_link *root = tcp->rank == 0 ? NULL : tcp->links[0];

    return root != NULL && root->state == TCI_LINK_UP && !root->has_left ? root : NULL;
}

static bool is_needed(const struct tci_link *link)
{
    return link->live > 0 || tci_link_has_output(link);
}

/* A probe asks whether there is a direct way, and a link that was only asked for has no need.  Who
 * has other keys has them on every way. */
static bool may_detour(const struct tci_link *link)
{
    const struct tci_tcp *tcp = link->tcp;

    return link->state == TCI_LINK_DIALING && link->index == 0 && link->peer != 0 &&
           link->denials == 0 && link->probe_fn == NULL && !tcp->is_ring && !tcp->is_parting &&
           (!link->is_called || is_needed(link)) && root_of(tcp) != NULL;
}

static void call(struct tci_link *link)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_frame frame = {.kind = TCI_FRAME_CALL,
                              .offset = tci_way_encode(tcp->rank, link->peer)};

    link->has_called = true;
    tci_link_control(root_of(tcp), &frame, NULL);
}

static void go_by_pipe(struct tci_link *link)
{
    char where[TCI_ADDR_TEXT];

    link->is_piped = true;
    tci_log(TC_LOG_WARN,
            "rank %u: rank %u is reached through rank 0, since a connection to it at %s fails (%s, "
            "%u attempt%s), and none comes from it",
            link->tcp->rank, link->peer, tci_addr_print(&link->addr, where),
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
    if (link->is_piped || link->has_connected || !may_detour(link))
        return 0;
    return !link->has_called && waited_ms < CALL_AFTER_MS ? CALL_AFTER_MS
           : waited_ms < PIPE_AFTER_MS                    ? PIPE_AFTER_MS
                                                          : 0;
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

/* That rank 0 has no link with the peer means that the peer is gone; that rank 0 cannot be reached
 * says nothing of the peer. */
static void knock_failed(struct tci_knock *knock, int error)
{
    struct tci_link *link = knock->link;

    tci_knock_end(knock);
    if (link != NULL)
        tci_link_dial_failed(link, error);
}

static int of_root(int error)
{
    return error == ECONNREFUSED ? ENETUNREACH : error;
}

static void knock_stands(struct tci_knock *knock)
{
    struct tci_link *link = knock->link;
    struct tci_tcp *tcp = knock->tcp;
    int fd = knock->fd;

    tci_watch_del(&knock->watch);
    knock->fd = -1;
    tci_knock_end(knock);
    if (link != NULL)
        tci_link_piped(link, fd);
    else
        tci_tcp_take(tcp, fd, true);
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
            knock_failed(knock, got == 0 ? ECONNRESET : of_root(errno));
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
            knock_failed(knock, of_root(error));
            return;
        }
        knock->has_connected = true;
        tci_link_auth_config(knock->tcp, 0, true, &config);
        state = tci_greet_begin(&knock->greet, &config, knock->fd);
    }
    if (state == TCI_GREET_FAILED)
        knock_failed(knock, of_root(errno));
    else if (state == TCI_GREET_READY && !ask(knock))
        knock_failed(knock, ECONNRESET);
}

static void on_knock_timer(struct tci_timer *timer)
{
    knock_failed(tci_container_of(timer, struct tci_knock, timer), ETIMEDOUT);
}

/* NULL with errno. */
static struct tci_knock *knock_new(struct tci_tcp *tcp, uint32_t peer, uint64_t number)
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
    knock->peer = peer;
    knock->number = number;
    knock->watch.fn = on_knock_ready;
    knock->timer.fn = on_knock_timer;
    tci_list_init(&knock->list);
    tci_list_add(&tcp->knocks, &knock->list);
    if (tci_sock_connect(&tcp->addrs[0], &knock->fd, &is_up, &error) != TC_OK) {
        knock->fd = -1;
    } else if (tci_watch_add(tcp->loop, &knock->watch, knock->fd, TC_WRITABLE) == 0 &&
               exec->ops->timer_set(exec, &knock->timer,
                                    exec->ops->now_ns(exec) + TCI_TCP_GREET_MS * TCI_NS_PER_MS) ==
                   0) {
        return knock;
    }
    tci_knock_end(knock);
    errno = errno != 0 ? of_root(errno) : ENOMEM;
    return NULL;
}

int tci_link_knock(struct tci_link *link)
{
    TC_ASSERT(link->knock == NULL && link->fd < 0);
    link->knock = knock_new(link->tcp, link->peer, 0);
    if (link->knock == NULL)
        return errno;
    link->knock->link = link;
    return 0;
}

void tci_knocks_end(struct tci_tcp *tcp)
{
    while (!tci_list_is_empty(&tcp->knocks))
        tci_knock_end(tci_container_of(tci_list_first(&tcp->knocks), struct tci_knock, list));
}

/* ---- What is said about it ------------------------------------------------------------------- */

/* Rank 0 passes a call on; where it has no link with who is called there is nobody to come. */
static const char *pass_call(struct tci_link *link, uint32_t from, uint32_t to)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_frame frame = {.kind = TCI_FRAME_CALL, .offset = tci_way_encode(from, to)};
    struct tci_link *called;

    if (from != link->peer || to == 0 || to >= tcp->size || to == from ||
        link->rx.frame.key.tag != 0)
        return "a call that is none";
    called = tcp->links[to];
    if (called == NULL || called->state != TCI_LINK_UP || called->has_left)
        return NULL;
    /* A rank calls another one once: what is too much is dropped, so that nobody fills the memory
     * of rank 0 with calls to one that does not read. */
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
    if (tcp->rank == 0)
        return pass_call(link, from, to);
    if (link->peer != 0 || to != tcp->rank || from == 0 || from >= tcp->size || from == to)
        return "a call that is none";
    if (frame->key.tag != 0) {
        if (!has_knocks_enough(tcp, from))
            (void)knock_new(tcp, from, frame->key.tag); /* the caller asks again if this fails */
        return NULL;
    }
    caller = tci_link_get(tcp, from);
    if (caller != NULL && caller->state == TCI_LINK_NONE && !tcp->is_leaving)
        tci_link_dial_back(caller);
    return NULL;
}
