/* tcp_pipe.c - a rank carries what two others say to each other that cannot connect. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/log.h"
#include "net/sock.h"

/*   ASKED --the other comes--> JOINED --either end closes, and all is passed on--> gone
 *     +-- it does not come in time, or this process has no memory --> gone
 *
 * A pipe knows nothing of frames.  Each way has one buffer: while that is not empty nothing is read
 * from its source, so that a receiver that does not read holds its sender back, as over a
 * connection.
 */
enum { BUFFER_BYTES = 128 * 1024, ROUNDS_MAX = 4 };

struct end {
    struct tci_watch watch;
    struct tci_pipe *pipe;
    uint32_t rank;
    int fd;                 /* owned; -1: not there yet */
    struct tci_greet greet; /* until it is joined */
    /* What has come from it. */
    uint8_t *bytes; /* owned, BUFFER_BYTES */
    size_t from, to;
    bool has_ended, is_passed_on;
};

struct tci_pipe {
    struct tci_list list; /* in tcp->pipes */
    struct tci_tcp *tcp;  /* borrowed */
    struct tci_timer timer;
    uint64_t number;
    bool is_joined;
    struct end ends[2]; /* who has asked, who is to come */
};

static void pipe_free(struct tci_pipe *pipe)
{
    struct tci_tcp *tcp = pipe->tcp;

    for (int i = 0; i < 2; i++) {
        struct end *end = &pipe->ends[i];

        tci_watch_del(&end->watch);
        tci_greet_fini(&end->greet);
        if (end->fd >= 0)
            close(end->fd);
        tci_free(end->bytes);
    }
    tcp->exec->ops->timer_clear(tcp->exec, &pipe->timer);
    tci_list_del(&pipe->list);
    tcp->pipe_count--;
    tci_free(pipe);
}

/* This rank may have waited for it alone. */
static void end_pipe(struct tci_pipe *pipe)
{
    struct tci_tcp *tcp = pipe->tcp;

    pipe_free(pipe);
    tci_tcp_check_left(tcp);
}

void tci_pipes_end(struct tci_tcp *tcp)
{
    while (!tci_list_is_empty(&tcp->pipes))
        pipe_free(tci_container_of(tci_list_first(&tcp->pipes), struct tci_pipe, list));
}

/* ---- Carried --------------------------------------------------------------------------------- */

static struct end *other(struct end *end)
{
    return end == &end->pipe->ends[0] ? &end->pipe->ends[1] : &end->pipe->ends[0];
}

/* Pass on what is in the buffer; -1: the connection has failed. */
static int pass_on(struct end *end)
{
    while (end->from < end->to) {
        ssize_t sent = send(other(end)->fd, end->bytes + end->from, end->to - end->from,
                            MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN ? 0 : -1;
        end->from += (size_t)sent;
    }
    end->from = end->to = 0;
    return 0;
}

static int carry(struct end *end)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        ssize_t got;

        if (pass_on(end) != 0)
            return -1;
        if (end->from < end->to || end->has_ended)
            break;
        got = recv(end->fd, end->bytes, BUFFER_BYTES, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno != EAGAIN)
            return -1;
        if (got < 0)
            break;
        end->has_ended = got == 0;
        end->to = (size_t)got;
    }
    if (end->has_ended && end->from == end->to && !end->is_passed_on) {
        (void)shutdown(other(end)->fd, SHUT_WR);
        end->is_passed_on = true;
    }
    return 0;
}

static int watch_again(struct end *end)
{
    uint32_t wants = 0;

    if (!end->has_ended && end->from == end->to)
        wants |= TC_READABLE;
    if (other(end)->from < other(end)->to)
        wants |= TC_WRITABLE;
    return tci_watch_change(&end->watch, wants);
}

static void on_end_ready(struct tci_watch *watch, uint32_t ready)
{
    struct end *end = tci_container_of(watch, struct end, watch);

    (void)ready;
    if (carry(end) == 0 && carry(other(end)) == 0 &&
        !(end->is_passed_on && other(end)->is_passed_on) && watch_again(end) == 0 &&
        watch_again(other(end)) == 0)
        return;
    end_pipe(end->pipe);
}

/* ---- Made ------------------------------------------------------------------------------------ */

static void on_pipe_timer(struct tci_timer *timer)
{
    end_pipe(tci_container_of(timer, struct tci_pipe, timer));
}

static struct tci_link *standing(struct tci_tcp *tcp, uint32_t rank)
{
    struct tci_link *link = tcp->links[rank];

    return link != NULL && link->state == TCI_LINK_UP && !link->has_left ? link : NULL;
}

/* Rank 0 has met all; another has not, and what it never had a link with may well be there. */
static bool is_gone(const struct tci_tcp *tcp, uint32_t rank)
{
    const struct tci_link *link = tcp->links[rank];

    if (link == NULL)
        return tcp->rank == 0;
    return link->state == TCI_LINK_DOWN || link->has_left;
}

/* One rank is not to use up the descriptors of this one, and of whoever is called. */
static bool has_enough(const struct tci_tcp *tcp, const struct tci_hello *hello)
{
    const struct tci_list *at;
    unsigned count = 0;

    for (at = tcp->pipes.next; at != &tcp->pipes; at = at->next) {
        const struct tci_pipe *pipe = tci_container_of(at, struct tci_pipe, list);

        count += pipe->ends[0].rank == hello->from && pipe->ends[1].rank == hello->to;
    }
    return count >= TCI_TCP_PIPES_SAME || tcp->pipe_count >= TCI_TCP_PIPES_MAX;
}

/* Where one of the two is gone there is no use in it. */
static struct tci_pipe *pipe_new(struct tci_tcp *tcp, const struct tci_hello *hello)
{
    struct tci_exec *exec = tcp->exec;
    struct tci_pipe *pipe;

    if (has_enough(tcp, hello) || standing(tcp, hello->from) == NULL ||
        standing(tcp, hello->to) == NULL)
        return NULL;
    pipe = tci_alloc(sizeof(*pipe));
    if (pipe == NULL)
        return NULL;
    pipe->tcp = tcp;
    pipe->number = ++tcp->pipe_last;
    pipe->timer.fn = on_pipe_timer;
    tci_list_init(&pipe->list);
    tci_list_add(&tcp->pipes, &pipe->list);
    tcp->pipe_count++;
    for (int i = 0; i < 2; i++)
        pipe->ends[i] = (struct end){.watch.fn = on_end_ready,
                                     .pipe = pipe,
                                     .rank = i == 0 ? hello->from : hello->to,
                                     .fd = -1,
                                     .bytes = tci_alloc_raw(BUFFER_BYTES)};
    if (pipe->ends[0].bytes != NULL && pipe->ends[1].bytes != NULL &&
        exec->ops->timer_set(exec, &pipe->timer,
                             exec->ops->now_ns(exec) + TCI_TCP_GREET_MS * TCI_NS_PER_MS) == 0)
        return pipe;
    pipe_free(pipe);
    return NULL;
}

static struct tci_pipe *find(struct tci_tcp *tcp, const struct tci_hello *hello)
{
    struct tci_list *at;

    for (at = tcp->pipes.next; at != &tcp->pipes; at = at->next) {
        struct tci_pipe *pipe = tci_container_of(at, struct tci_pipe, list);

        if (pipe->number == hello->token && !pipe->is_joined && pipe->ends[0].rank == hello->to &&
            pipe->ends[1].rank == hello->from)
            return pipe;
    }
    return NULL;
}

static bool join(struct tci_pipe *pipe)
{
    struct tci_tcp *tcp = pipe->tcp;

    for (int i = 0; i < 2; i++) {
        struct end *end = &pipe->ends[i];
        struct tci_hello hello = {
            .from = end->rank, .to = pipe->ends[1 - i].rank, .token = pipe->number};

        memcpy(hello.group_id, tcp->group_id, TCI_GROUP_ID);
        if (!tci_greeting_send(&end->greet, end->fd, TCI_FRAME_WELCOME, &hello, 0) ||
            tci_watch_add(tcp->loop, &end->watch, end->fd, TC_READABLE) != 0)
            return false;
        tci_greet_fini(&end->greet);
        tci_sock_tune(end->fd);
    }
    tcp->exec->ops->timer_clear(tcp->exec, &pipe->timer);
    pipe->is_joined = true;
    tci_log(TC_LOG_WARN, "rank %u: carries what ranks %u and %u say, which cannot connect",
            tcp->rank, pipe->ends[0].rank, pipe->ends[1].rank);
    return true;
}

bool tci_pipe_take(struct tci_tcp *tcp, const struct tci_hello *hello, int fd,
                   struct tci_greet *greet)
{
    bool is_new = hello->index == 0;
    struct tci_pipe *pipe = is_new ? pipe_new(tcp, hello) : find(tcp, hello);
    struct tci_frame frame = {.kind = TCI_FRAME_CALL,
                              .offset = tci_way_encode(hello->from, hello->to)};
    struct end *end;

    if (pipe == NULL) {
        (void)tci_greeting_send(greet, fd, TCI_FRAME_REFUSE, NULL,
                                is_gone(tcp, hello->to) ? TCI_REFUSED_FOR_GOOD
                                                        : TCI_REFUSED_FOR_NOW);
        return false;
    }
    end = &pipe->ends[is_new ? 0 : 1];
    end->fd = fd;
    end->greet = *greet;
    *greet = (struct tci_greet){.auth = NULL};
    if (is_new) {
        frame.key.tag = pipe->number;
        tci_link_control(standing(tcp, hello->to), &frame, NULL);
    } else if (!join(pipe)) {
        end_pipe(pipe);
    }
    return true;
}

bool tci_pipes_carry(const struct tci_tcp *tcp)
{
    return !tci_list_is_empty(&tcp->pipes);
}
