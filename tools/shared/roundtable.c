/* roundtable.c - the ranks sit around a table: a star of connections, or a group. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "roundtable.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/addr.h"

enum { AGAIN_MS = 100, GREET_MS = 2000, CLOCK_ROUNDS = 8 };

#define GREETING UINT32_C(0x64743174)

/* What a rank says first, and rank 0 answers to. */
struct greeting {
    uint32_t magic;
    int32_t rank, size;
};

int64_t table_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Whole messages over a connection, until a deadline -------------------------------------- */

static bool wait_for(int fd, short events, int64_t deadline_ms)
{
    struct pollfd wait = {.fd = fd, .events = events};
    int64_t left = deadline_ms - table_now_ms();

    return poll(&wait, 1, left > 0 ? (int)left : 0) > 0;
}

bool table_send(int fd, const void *bytes, size_t len, int64_t deadline_ms)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = write(fd, at, len);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (n < 0 && !wait_for(fd, POLLOUT, deadline_ms))
            return false;
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return true;
}

bool table_recv(int fd, void *bytes, size_t len, int64_t deadline_ms)
{
    char *at = bytes;

    while (len > 0) {
        ssize_t n = read(fd, at, len);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n < 0 && !wait_for(fd, POLLIN, deadline_ms))
            return false;
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return true;
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

/* The round that took least says most. */
static bool ask_clock(struct table *table, int64_t deadline_ms)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < CLOCK_ROUNDS; i++) {
        int64_t sent = wall_ns(), theirs, came;

        if (!table_send(table->conns[0], &sent, sizeof sent, deadline_ms) ||
            !table_recv(table->conns[0], &theirs, sizeof theirs, deadline_ms))
            return false;
        came = wall_ns();
        if (came - sent < least) {
            least = came - sent;
            table->ahead_ns = sent + (came - sent) / 2 - theirs;
        }
    }
    return true;
}

static bool answer_clock(int fd, int64_t deadline_ms)
{
    for (int i = 0; i < CLOCK_ROUNDS; i++) {
        int64_t asked, now;

        if (!table_recv(fd, &asked, sizeof asked, deadline_ms))
            return false;
        now = wall_ns();
        if (!table_send(fd, &now, sizeof now, deadline_ms))
            return false;
    }
    return true;
}

/* ---- Meeting --------------------------------------------------------------------------------- */

static int listen_at(const struct addrinfo *addr)
{
    int fd = socket(addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, addr->ai_addr, addr->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    close(fd);
    return -1;
}

/* One who comes is believed when he says a rank that is not there yet. */
static bool admit(struct table *table, int fd, int64_t deadline_ms)
{
    struct greeting greeting, mine = {GREETING, 0, table->size};
    int64_t limit = table_now_ms() + GREET_MS;

    if (limit > deadline_ms)
        limit = deadline_ms;
    if (!table_recv(fd, &greeting, sizeof greeting, limit) || greeting.magic != GREETING ||
        greeting.size != table->size || greeting.rank <= 0 || greeting.rank >= table->size ||
        table->is_here[greeting.rank] != 0 || !table_send(fd, &mine, sizeof mine, limit) ||
        !answer_clock(fd, limit))
        return false;
    table->conns[greeting.rank] = fd;
    table->is_here[greeting.rank] = 1;
    return true;
}

static void admit_all(struct table *table, int64_t deadline_ms)
{
    int here = 1;

    while (here < table->size && wait_for(table->listener, POLLIN, deadline_ms)) {
        int fd = accept4(table->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
            continue;
        if (admit(table, fd, deadline_ms))
            here++;
        else
            close(fd);
    }
}

static int connect_by(const struct addrinfo *addr, int64_t deadline_ms)
{
    int fd = socket(addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t len = sizeof error;

    if (fd < 0)
        return -1;
    if (connect(fd, addr->ai_addr, addr->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS && wait_for(fd, POLLOUT, deadline_ms))
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
        else if (error == EINPROGRESS)
            error = ETIMEDOUT;
    }
    if (error == 0)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

static bool greet(struct table *table, int fd, int64_t deadline_ms)
{
    struct greeting mine = {GREETING, table->rank, table->size}, theirs;

    if (!table_send(fd, &mine, sizeof mine, deadline_ms) ||
        !table_recv(fd, &theirs, sizeof theirs, deadline_ms) || theirs.magic != GREETING ||
        theirs.size != table->size)
        return false;
    table->conns[0] = fd;
    return ask_clock(table, deadline_ms);
}

/* Until rank 0 is there, or the time is over. */
static bool join(struct table *table, const struct addrinfo *list, int64_t deadline_ms, char *why,
                 size_t room)
{
    int error = 0;

    for (;;) {
        for (const struct addrinfo *addr = list; addr != NULL; addr = addr->ai_next) {
            int fd = connect_by(addr, deadline_ms);

            error = fd < 0 ? errno : EPROTO;
            if (fd < 0)
                continue;
            if (greet(table, fd, deadline_ms))
                return true;
            close(fd);
            table->conns[0] = -1;
        }
        if (table_now_ms() + AGAIN_MS > deadline_ms)
            break;
        (void)poll(NULL, 0, AGAIN_MS);
    }
    if (error == EPROTO)
        (void)snprintf(why, room, "what answers there is no tcdoctor of %d ranks", table->size);
    else
        (void)snprintf(why, room, "%s", strerror(error));
    return false;
}

static bool take_seat(struct table *table, const char *url_text, int64_t deadline_ms, char *why,
                      size_t room)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    const char *inherited = getenv("TCDIST_RENDEZVOUS_FD");
    struct tci_error error = {0};
    struct tci_url url;
    char port[8];
    bool is_good = true;
    int code;

    if (tci_url_parse(url_text, &url, &error) != TC_OK) {
        (void)snprintf(why, room, "%s", error.text);
        return false;
    }
    (void)snprintf(port, sizeof port, "%u", (unsigned)url.port);
    code = getaddrinfo(url.host, port, &hints, &list);
    if (code != 0) {
        (void)snprintf(why, room, "%s: %s", url.host, gai_strerror(code));
        return false;
    }
    if (table->rank > 0) {
        is_good = join(table, list, deadline_ms, why, room);
    } else {
        /* The library takes the inherited one itself, later. */
        table->listener =
            inherited != NULL ? fcntl(atoi(inherited), F_DUPFD_CLOEXEC, 3) : listen_at(list);
        is_good = table->listener >= 0;
        if (!is_good)
            (void)snprintf(why, room, "cannot listen there: %s", strerror(errno));
        else
            admit_all(table, deadline_ms);
    }
    freeaddrinfo(list);
    return is_good;
}

static bool make_table(struct table *table, int rank, int size)
{
    *table = (struct table){.rank = rank, .size = size, .listener = -1, .out = -1};
    table->conns = calloc((size_t)size, sizeof *table->conns);
    table->is_here = calloc((size_t)size, sizeof *table->is_here);
    if (table->conns == NULL || table->is_here == NULL)
        return false;
    for (int i = 0; i < size; i++)
        table->conns[i] = -1;
    table->is_here[rank] = 1;
    return true;
}

bool table_open(struct table *table, const tc_dist_env *env, int timeout_ms, char *why, size_t room)
{
    if (!make_table(table, env->rank, env->world_size)) {
        (void)snprintf(why, room, "out of memory");
        return false;
    }
    if (env->world_size > 1 &&
        !take_seat(table, env->rendezvous, table_now_ms() + timeout_ms, why, room))
        return false;
    if (table->listener >= 0)
        close(table->listener);
    table->listener = -1;
    return true;
}

bool table_open_group(struct table *table, tc_dist_ctx *group)
{
    if (!make_table(table, tc_dist_rank(group), tc_dist_world_size(group)))
        return false;
    table->group = group;
    for (int i = 0; i < table->size; i++)
        table->is_here[i] = 1;
    return true;
}

bool table_open_pipes(struct table *table, int rank, int size, int in, int out)
{
    if (!make_table(table, rank, size))
        return false;
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
    table->conns[0] = in;
    table->out = out;
    return true;
}

void table_close(struct table *table)
{
    for (int i = 0; table->conns != NULL && i < table->size; i++)
        if (table->conns[i] >= 0)
            close(table->conns[i]);
    if (table->listener >= 0)
        close(table->listener);
    if (table->out >= 0)
        close(table->out);
    free(table->conns);
    free(table->is_here);
    *table = (struct table){.listener = -1, .out = -1};
}

/* ---- Exchanging ------------------------------------------------------------------------------ */

static void lose(struct table *table, int rank)
{
    close(table->conns[rank]);
    table->conns[rank] = -1;
    table->is_here[rank] = 0;
}

static void collect(struct table *table, char *all, size_t len, int64_t deadline_ms)
{
    size_t bytes = len * (size_t)table->size;

    for (int i = 1; i < table->size; i++) {
        char *theirs = all + (size_t)i * len;

        if (table->conns[i] >= 0 && !table_recv(table->conns[i], theirs, len, deadline_ms)) {
            lose(table, i);
            memset(theirs, 0, len);
        }
    }
    for (int i = 1; i < table->size; i++)
        if (table->conns[i] >= 0 &&
            (!table_send(table->conns[i], table->is_here, (size_t)table->size, deadline_ms) ||
             !table_send(table->conns[i], all, bytes, deadline_ms)))
            lose(table, i);
}

static bool over_group(struct table *table, const void *mine, size_t len, void *all)
{
    tc_future *future = tc_allgather_async(table->group, 1, mine, all, len, TC_DTYPE_U8, NULL);
    tc_status_t status = tc_future_wait(future, -1);

    tc_future_release(future);
    return status == TC_OK;
}

bool table_exchange(struct table *table, const void *mine, size_t len, void *all, int timeout_ms)
{
    int64_t deadline_ms = table_now_ms() + timeout_ms;

    if (table->group != NULL)
        return over_group(table, mine, len, all);
    memset(all, 0, len * (size_t)table->size);
    memcpy((char *)all + (size_t)table->rank * len, mine, len);
    if (table->rank == 0 && table->out < 0) {
        collect(table, all, len, deadline_ms);
        return true;
    }
    /* Rank 0 waits for others first, each of them as long. */
    return table_send(table->out >= 0 ? table->out : table->conns[0], mine, len, deadline_ms) &&
           table_recv(table->conns[0], table->is_here, (size_t)table->size,
                      deadline_ms + timeout_ms) &&
           table_recv(table->conns[0], all, len * (size_t)table->size, deadline_ms + timeout_ms);
}
