/* probe.c - a rank tries every other one: each of its addresses, small and large messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "roundtable.h"

enum { PINGS = 10, SENDS = 3, PIECE = 65536, STUCK_S = 10, ASKERS_MAX = 256 };

#define ASKING UINT64_C(0x7463646f63746f72)

/* One who tries says which nonce he expects, and hears which one is here; then pings of a byte, or
 * 'L', a number of bytes, so many bytes, and is answered when they are there. */
struct hello {
    uint64_t magic, nonce;
};

struct probe {
    pthread_t thread;
    int listener, stop[2];
    uint64_t nonce;
    _Atomic int askers;
};

struct asker {
    struct probe *probe;
    int fd;
};

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void limit(int fd, int seconds)
{
    struct timeval time = {.tv_sec = seconds};
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static bool give(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool take(int fd, void *bytes, size_t len)
{
    char *at = bytes;

    while (len > 0) {
        ssize_t n = recv(fd, at, len, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

/* ---- Answering ------------------------------------------------------------------------------- */

static bool take_large(int fd)
{
    char piece[PIECE];
    uint64_t left;

    if (!take(fd, &left, sizeof left))
        return false;
    while (left > 0) {
        size_t len = left < sizeof piece ? (size_t)left : sizeof piece;

        if (!take(fd, piece, len))
            return false;
        left -= len;
    }
    return true;
}

static void *answer(void *arg)
{
    struct asker *asker = arg;
    struct hello hello;
    char byte;

    limit(asker->fd, STUCK_S);
    if (take(asker->fd, &hello, sizeof hello) && hello.magic == ASKING) {
        hello.nonce = asker->probe->nonce;
        while (give(asker->fd, &hello, sizeof hello) && take(asker->fd, &byte, 1) &&
               (byte != 'L' || take_large(asker->fd)))
            ;
    }
    close(asker->fd);
    atomic_fetch_sub(&asker->probe->askers, 1);
    free(asker);
    return NULL;
}

static void admit(struct probe *probe, int fd)
{
    struct asker *asker = probe->askers < ASKERS_MAX ? malloc(sizeof *asker) : NULL;
    pthread_t thread;

    if (asker == NULL) {
        close(fd);
        return;
    }
    *asker = (struct asker){probe, fd};
    atomic_fetch_add(&probe->askers, 1);
    if (pthread_create(&thread, NULL, answer, asker) == 0) {
        pthread_detach(thread);
        return;
    }
    atomic_fetch_sub(&probe->askers, 1);
    close(fd);
    free(asker);
}

static void *serve(void *arg)
{
    struct probe *probe = arg;

    for (;;) {
        struct pollfd fds[] = {{.fd = probe->listener, .events = POLLIN},
                               {.fd = probe->stop[0], .events = POLLIN}};
        int fd;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents != 0)
            return NULL;
        fd = fds[0].revents != 0 ? accept4(probe->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd >= 0)
            admit(probe, fd);
    }
}

/* Of both families where there is IPv6. */
static int listen_anywhere(uint32_t *port_out)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    socklen_t len = sizeof six;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;

    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (bind(fd, (struct sockaddr *)&six, len) == 0 && listen(fd, SOMAXCONN) == 0 &&
            getsockname(fd, (struct sockaddr *)&six, &len) == 0) {
            *port_out = ntohs(six.sin6_port);
            return fd;
        }
        close(fd);
    }
    len = sizeof four;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&four, len) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&four, &len) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *port_out = ntohs(four.sin_port);
    return fd;
}

struct probe *probe_open(uint64_t nonce, uint32_t *port_out)
{
    struct probe *probe = calloc(1, sizeof *probe);

    if (probe == NULL)
        return NULL;
    probe->nonce = nonce;
    probe->listener = listen_anywhere(port_out);
    if (probe->listener >= 0 && pipe2(probe->stop, O_CLOEXEC) == 0) {
        if (pthread_create(&probe->thread, NULL, serve, probe) == 0)
            return probe;
        close(probe->stop[0]);
        close(probe->stop[1]);
    }
    if (probe->listener >= 0)
        close(probe->listener);
    free(probe);
    return NULL;
}

void probe_close(struct probe *probe)
{
    close(probe->stop[1]);
    pthread_join(probe->thread, NULL);
    close(probe->stop[0]);
    close(probe->listener);
    /* Those who still ask are done soon: they have limits. */
    while (probe->askers > 0)
        (void)poll(NULL, 0, 5);
    free(probe);
}

/* ---- Trying ---------------------------------------------------------------------------------- */

/* By a link of ours where the address means nothing without one. */
static int begin_connect(const struct address_facts *address, uint32_t port, const char *link,
                         int *error_out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *list;
    char text[12], host[ADDRESS_ROOM + LINK_ROOM + 1];
    int fd;

    (void)snprintf(text, sizeof text, "%u", port);
    (void)snprintf(host, sizeof host, "%s%s%s", address->text, link != NULL ? "%" : "",
                   link != NULL ? link : "");
    if (getaddrinfo(host, text, &hints, &list) != 0) {
        *error_out = EADDRNOTAVAIL;
        return -1;
    }
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *error_out = fd < 0 || connect(fd, list->ai_addr, list->ai_addrlen) != 0 ? errno : 0;
    freeaddrinfo(list);
    if (fd >= 0 && *error_out != 0 && *error_out != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The link of ours that a connection goes by; -1: not known. */
static int8_t link_of(const struct facts *me, int fd)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    char text[ADDRESS_ROOM + LINK_ROOM + 1], *at = text;

    if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0 ||
        getnameinfo((struct sockaddr *)&addr, len, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
        return -1;
    text[strcspn(text, "%")] = '\0';
    if (strncmp(at, "::ffff:", 7) == 0)
        at += 7;
    for (uint32_t i = 0; i < me->address_count; i++)
        if (strcmp(me->addresses[i].text, at) == 0)
            return (int8_t)me->addresses[i].link;
    return -1;
}

static uint8_t outcome_of(int error)
{
    if (error == ETIMEDOUT || error == EINPROGRESS)
        return TIMED_OUT;
    return error == ECONNREFUSED ? REFUSED : UNREACHABLE;
}

static void note_error(struct attempt *attempt, int error)
{
    attempt->outcome = outcome_of(error);
    attempt->error = (uint8_t)error;
}

/* A connection that stands: is it who it should be, and how fast does it answer? */
static bool meet(int fd, uint64_t nonce, struct attempt *attempt)
{
    struct hello hello = {ASKING, nonce};
    double least = 0;

    if (!give(fd, &hello, sizeof hello) || !take(fd, &hello, sizeof hello)) {
        attempt->outcome = TIMED_OUT;
        return false;
    }
    if (hello.magic != ASKING || hello.nonce != nonce) {
        attempt->outcome = STRANGER;
        return false;
    }
    for (int i = 0; i < PINGS; i++) {
        double begun = now_us(), took;

        if (!give(fd, "p", 1) || !take(fd, &hello, sizeof hello)) {
            attempt->outcome = TIMED_OUT;
            return false;
        }
        took = now_us() - begun;
        if (i == 0 || took < least)
            least = took;
    }
    attempt->outcome = REACHED;
    attempt->rtt_us = (float)least;
    return true;
}

static void be_patient(int fd, int timeout_ms)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    limit(fd, timeout_ms / 1000 > 0 ? timeout_ms / 1000 : 1);
}

/* One connection that has begun to an address of a peer. */
struct trial {
    int fd;
    uint32_t address;
    int8_t link; /* that it was told to take; -1: the system chose */
};

enum { TRIALS_MAX = ADDRESSES_MAX + ADDRESSES_MAX * LINKS_MAX };

/* Waits for connections that have begun, all at once. */
static void settle(const struct facts *me, const struct facts *peer, struct trial *trial,
                   struct tried *tried, int64_t deadline_ms, int timeout_ms)
{
    struct attempt attempt = {.outcome = NOT_TRIED, .via = -1}, *noted;
    struct pollfd wait = {.fd = trial->fd, .events = POLLOUT};
    int64_t left = deadline_ms - table_now_ms();
    int error = ETIMEDOUT;
    socklen_t len = sizeof error;

    if (poll(&wait, 1, left > 0 ? (int)left : 0) > 0)
        getsockopt(trial->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error != 0) {
        note_error(&attempt, error);
    } else {
        be_patient(trial->fd, timeout_ms);
        if (meet(trial->fd, peer->nonce, &attempt))
            attempt.via = trial->link >= 0 ? trial->link : link_of(me, trial->fd);
    }
    close(trial->fd);

    /* A scoped address has several trials, of which one is to succeed. */
    noted = &tried->attempts[trial->address];
    if (noted->outcome != NOT_TRIED && attempt.outcome != REACHED)
        return;
    *noted = attempt;
    if (attempt.outcome == REACHED && peer->addresses[trial->address].is_scoped == 0 &&
        (tried->best < 0 || attempt.rtt_us < tried->attempts[tried->best].rtt_us))
        tried->best = (int8_t)trial->address;
}

/* All that have begun to one peer. */
struct trials {
    const struct facts *me, *peer;
    struct tried *tried;
    struct trial at[TRIALS_MAX];
    size_t count;
};

static void begin(struct trials *trials, uint32_t address, int link)
{
    int error = 0;
    int fd = begin_connect(&trials->peer->addresses[address], trials->peer->probe_port,
                           link >= 0 ? trials->me->links[link].name : NULL, &error);

    if (fd >= 0)
        trials->at[trials->count++] = (struct trial){fd, address, (int8_t)link};
    else if (link < 0)
        note_error(&trials->tried->attempts[address], error);
}

/* Loopback leads to another host's rank only where there is none of it. */
static void try_rank(const struct facts *me, const struct facts *peer, struct tried *tried,
                     int timeout_ms)
{
    struct trials trials = {.me = me, .peer = peer, .tried = tried};
    int64_t deadline_ms = table_now_ms() + timeout_ms;

    for (uint32_t i = 0; i < peer->address_count; i++) {
        if (peer->addresses[i].is_loopback != 0 && peer->machine != me->machine)
            continue;
        if (peer->addresses[i].is_scoped == 0) {
            begin(&trials, i, -1);
            continue;
        }
        for (uint32_t k = 0; k < me->link_count; k++)
            if (me->links[k].kind != LINK_LOOPBACK && me->links[k].has_carrier != 0 &&
                peer->machine != me->machine)
                begin(&trials, i, (int)k);
    }
    for (size_t i = 0; i < trials.count; i++)
        settle(me, peer, &trials.at[i], tried, deadline_ms, timeout_ms);
}

void probe_reach(const struct facts *all, const uint8_t *is_here, int rank, struct tried *tried,
                 int timeout_ms)
{
    int size = all[rank].size;

    for (int i = 0; i < size; i++)
        tried[i] = (struct tried){.best = -1};
    /* Each begins behind itself, so that not all try the same one. */
    for (int k = 1; k < size; k++) {
        int peer = (rank + k) % size;

        if (is_here[peer] != 0)
            try_rank(&all[rank], &all[peer], &tried[peer], timeout_ms);
    }
}

/* Megabytes a second; negative: it did not pass, 0: it could not be begun. */
static float send_large(const struct facts *me, const struct facts *peer, int address, int via,
                        size_t bytes, int timeout_ms)
{
    static char piece[PIECE];
    bool is_scoped = peer->addresses[address].is_scoped != 0;
    struct attempt attempt = {.outcome = NOT_TRIED};
    struct hello hello;
    uint64_t left = bytes;
    double begun = 0;
    int error = 0;
    int fd = begin_connect(&peer->addresses[address], peer->probe_port,
                           is_scoped && via >= 0 ? me->links[via].name : NULL, &error);
    bool is_good;

    if (fd < 0)
        return 0;
    (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, timeout_ms);
    be_patient(fd, timeout_ms);
    if (!meet(fd, peer->nonce, &attempt)) {
        close(fd);
        return 0;
    }
    begun = now_us();
    is_good = give(fd, "L", 1) && give(fd, &left, sizeof left);
    while (left > 0 && is_good) {
        size_t len = left < sizeof piece ? (size_t)left : sizeof piece;

        is_good = give(fd, piece, len);
        left -= len;
    }
    is_good = is_good && take(fd, &hello, sizeof hello);
    close(fd);
    return is_good ? (float)((double)bytes / (now_us() - begun)) : -1;
}

/* The best of a few: what else goes on only makes it slower. */
static float send_times(const struct facts *me, const struct facts *peer, int address, int via,
                        size_t bytes, int timeout_ms)
{
    float best = 0;

    for (int i = 0; i < SENDS; i++) {
        float speed = send_large(me, peer, address, via, bytes, timeout_ms);

        if (speed <= 0)
            return speed;
        if (speed > best)
            best = speed;
    }
    return best;
}

void probe_large(const struct facts *me, const struct facts *peer, struct tried *tried,
                 size_t bytes, int timeout_ms)
{
    float speed;

    if (tried->best < 0)
        return;
    speed = send_times(me, peer, tried->best, tried->attempts[tried->best].via, bytes, timeout_ms);
    tried->is_large = speed < 0 || speed > 0;
    tried->has_stuck = speed < 0;
    tried->mb_per_s = speed > 0 ? speed : 0;
}

void probe_each(const struct facts *me, const struct facts *peer, struct tried *tried, size_t bytes,
                int timeout_ms)
{
    for (uint32_t i = 0; i < peer->address_count; i++) {
        struct attempt *attempt = &tried->attempts[i];

        if (attempt->outcome != REACHED || (peer->addresses[i].is_loopback != 0))
            continue;
        attempt->mb_per_s = send_times(me, peer, (int)i, attempt->via, bytes, timeout_ms);
    }
}

const char *probe_outcome(const struct attempt *attempt)
{
    switch (attempt->outcome) {
    case TIMED_OUT:
        return "no answer";
    case REFUSED:
        return "refused";
    case UNREACHABLE:
        return strerror(attempt->error);
    case STRANGER:
        return "somebody else answers there";
    default:
        return "not tried";
    }
}
