/* cut_proxy.c - relays bytes between pairs of sockets until it cuts them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/cut_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { DOORS = 16, PAIRS = 256, ROOM = 64 * 1024, NAP_MS = 5, HALF_OPEN_MS = 30 };

struct door {
    int fd;
    struct sockaddr_in target;
};

/* Bytes on their way from one end to the other. */
struct way {
    size_t at, len;
    bool has_ended;
    char bytes[ROOM];
};

struct pair {
    int fds[2]; /* client, target; -1: closed */
    struct way ways[2];
    bool is_swallowed;
    uint64_t left;     /* bytes until it is cut; UINT64_MAX: it is not */
    uint64_t close_ms; /* when the other end of a cut is closed; 0: it is not cut */
    unsigned number;
};

struct cut_proxy {
    pthread_t thread;
    pthread_mutex_t lock; /* over all that follows */
    bool is_stopping, is_swallowing;
    struct door doors[DOORS];
    int door_count;
    struct pair *pairs[PAIRS];
    uint64_t mean, random, now_ms;
    unsigned most, cuts, made;
};

static uint64_t draw(struct cut_proxy *proxy)
{
    proxy->random ^= proxy->random << 13;
    proxy->random ^= proxy->random >> 7;
    proxy->random ^= proxy->random << 17;
    return proxy->random;
}

static uint64_t draw_left(struct cut_proxy *proxy)
{
    uint64_t kind = draw(proxy) % 8;

    if (proxy->mean == 0 || proxy->cuts >= proxy->most)
        return UINT64_MAX;
    return draw(proxy) % (kind == 0 ? 300 : 2 * proxy->mean);
}

/* With a reset, or in the ordinary way, which still delivers what was taken. */
static void close_end(struct pair *pair, int end, bool is_reset)
{
    struct linger linger = {.l_onoff = 1};

    if (pair->fds[end] < 0)
        return;
    if (is_reset)
        (void)setsockopt(pair->fds[end], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(pair->fds[end]);
    pair->fds[end] = -1;
}

static void cut(struct cut_proxy *proxy, struct pair *pair)
{
    uint64_t kind = draw(proxy);

    proxy->cuts++;
    close_end(pair, kind & 1, kind & 2);
    if ((kind & 12) != 0)
        close_end(pair, !(kind & 1), kind & 2);
    else
        pair->close_ms = proxy->now_ms + HALF_OPEN_MS; /* the other end notices later */
    pair->ways[0].len = pair->ways[1].len = 0;
}

static void add_pair(struct cut_proxy *proxy, int client, const struct sockaddr_in *target)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), at = 0;

    pair->fds[0] = client;
    pair->fds[1] = fd;
    pair->number = proxy->made++;
    pair->is_swallowed = proxy->is_swallowing;
    if (!pair->is_swallowed && connect(fd, (const struct sockaddr *)target, sizeof(*target)) != 0) {
        close_end(pair, 0, true);
        close_end(pair, 1, true);
        free(pair);
        return;
    }
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    pair->left = draw_left(proxy);
    while (at < PAIRS && proxy->pairs[at] != NULL)
        at++;
    if (at == PAIRS)
        abort();
    proxy->pairs[at] = pair;
}

/* One direction: from fds[from] to the other. */
static void relay(struct cut_proxy *proxy, struct pair *pair, int from)
{
    struct way *way = &pair->ways[from];
    ssize_t got;

    if (way->len == 0 && !way->has_ended) {
        got = recv(pair->fds[from], way->bytes, ROOM, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            way->has_ended = true;
            if (got == 0)
                (void)shutdown(pair->fds[!from], SHUT_WR);
            else
                close_end(pair, !from, true);
            return;
        }
        way->at = 0;
        way->len = got < 0 ? 0 : (size_t)got;
    }
    if (pair->left != UINT64_MAX && way->len >= pair->left) {
        (void)send(pair->fds[!from], way->bytes + way->at, pair->left, MSG_NOSIGNAL | MSG_DONTWAIT);
        cut(proxy, pair);
        return;
    }
    if (way->len == 0)
        return;
    got = send(pair->fds[!from], way->bytes + way->at, way->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got < 0)
        return;
    way->at += (size_t)got;
    way->len -= (size_t)got;
    if (pair->left != UINT64_MAX)
        pair->left -= (uint64_t)got;
}

static void serve_pair(struct cut_proxy *proxy, struct pair **at)
{
    struct pair *pair = *at;

    if (pair->close_ms != 0 && proxy->now_ms >= pair->close_ms) {
        close_end(pair, 0, true);
        close_end(pair, 1, true);
    }
    for (int from = 0; from < 2; from++)
        if (pair->close_ms == 0 && !pair->is_swallowed && pair->fds[0] >= 0 && pair->fds[1] >= 0)
            relay(proxy, pair, from);
    if (pair->ways[0].has_ended && pair->ways[1].has_ended) {
        close_end(pair, 0, false);
        close_end(pair, 1, false);
    }
    if (pair->fds[0] >= 0 || pair->fds[1] >= 0) {
        if (pair->close_ms != 0 || (pair->fds[0] >= 0 && pair->fds[1] >= 0))
            return;
        close_end(pair, 0, true); /* the other end was reset */
        close_end(pair, 1, true);
    }
    free(pair);
    *at = NULL;
}

static int gather(struct cut_proxy *proxy, struct pollfd *polls)
{
    int count = 0;

    for (int i = 0; i < proxy->door_count; i++)
        polls[count++] = (struct pollfd){.fd = proxy->doors[i].fd, .events = POLLIN};
    for (int i = 0; i < PAIRS; i++) {
        struct pair *pair = proxy->pairs[i];

        if (pair == NULL || pair->close_ms != 0 || pair->is_swallowed)
            continue;
        for (int end = 0; end < 2; end++) {
            short events = pair->ways[end].len == 0 && !pair->ways[end].has_ended ? POLLIN : 0;

            if (pair->ways[!end].len > 0)
                events |= POLLOUT;
            polls[count++] =
                (struct pollfd){.fd = events != 0 ? pair->fds[end] : -1, .events = events};
        }
    }
    return count;
}

static void *run(void *arg)
{
    struct cut_proxy *proxy = arg;
    struct pollfd polls[DOORS + 2 * PAIRS];
    struct timespec now;

    pthread_mutex_lock(&proxy->lock);
    while (!proxy->is_stopping) {
        int count = gather(proxy, polls);

        pthread_mutex_unlock(&proxy->lock);
        (void)poll(polls, (nfds_t)count, NAP_MS);
        pthread_mutex_lock(&proxy->lock);
        clock_gettime(CLOCK_MONOTONIC, &now);
        proxy->now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
        for (int i = 0; i < proxy->door_count; i++) {
            int fd = accept4(proxy->doors[i].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

            if (fd >= 0)
                add_pair(proxy, fd, &proxy->doors[i].target);
        }
        for (int i = 0; i < PAIRS; i++)
            if (proxy->pairs[i] != NULL)
                serve_pair(proxy, &proxy->pairs[i]);
    }
    pthread_mutex_unlock(&proxy->lock);
    return NULL;
}

struct cut_proxy *cut_proxy_new(uint64_t seed)
{
    struct cut_proxy *proxy = calloc(1, sizeof(*proxy));

    assert_non_null(proxy);
    proxy->random = seed * 2 + 1;
    pthread_mutex_init(&proxy->lock, NULL);
    assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
    return proxy;
}

uint16_t cut_proxy_add(struct cut_proxy *proxy, const struct sockaddr_in *target)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 128), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    pthread_mutex_lock(&proxy->lock);
    assert_true(proxy->door_count < DOORS);
    proxy->doors[proxy->door_count].fd = fd;
    proxy->doors[proxy->door_count++].target = *target;
    pthread_mutex_unlock(&proxy->lock);
    return ntohs(addr.sin_port);
}

void cut_proxy_set(struct cut_proxy *proxy, uint64_t mean, unsigned most)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->mean = mean;
    proxy->most = proxy->cuts + most;
    for (int i = 0; i < PAIRS; i++)
        if (proxy->pairs[i] != NULL)
            proxy->pairs[i]->left = draw_left(proxy);
    pthread_mutex_unlock(&proxy->lock);
}

void cut_proxy_cut_after(struct cut_proxy *proxy, unsigned n, uint64_t bytes)
{
    pthread_mutex_lock(&proxy->lock);
    for (int i = 0; i < PAIRS; i++)
        if (proxy->pairs[i] != NULL && proxy->pairs[i]->number == n)
            proxy->pairs[i]->left = bytes;
    pthread_mutex_unlock(&proxy->lock);
}

unsigned cut_proxy_made(struct cut_proxy *proxy)
{
    unsigned made;

    pthread_mutex_lock(&proxy->lock);
    made = proxy->made;
    pthread_mutex_unlock(&proxy->lock);
    return made;
}

void cut_proxy_swallow(struct cut_proxy *proxy, int is_on)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->is_swallowing = is_on != 0;
    pthread_mutex_unlock(&proxy->lock);
}

unsigned cut_proxy_cuts(struct cut_proxy *proxy)
{
    unsigned cuts;

    pthread_mutex_lock(&proxy->lock);
    cuts = proxy->cuts;
    pthread_mutex_unlock(&proxy->lock);
    return cuts;
}

void cut_proxy_free(struct cut_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->is_stopping = true;
    pthread_mutex_unlock(&proxy->lock);
    pthread_join(proxy->thread, NULL);
    for (int i = 0; i < proxy->door_count; i++)
        close(proxy->doors[i].fd);
    for (int i = 0; i < PAIRS; i++) {
        if (proxy->pairs[i] == NULL)
            continue;
        close_end(proxy->pairs[i], 0, true);
        close_end(proxy->pairs[i], 1, true);
        free(proxy->pairs[i]);
    }
    pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}
