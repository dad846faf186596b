/* middle.c - relays a connection, and changes, records and cuts what is said over it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/middle.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAIRS = 64, ROOM = 64 * 1024, NAP_MS = 20, RECORD_MAX = 64 << 20 };

struct record {
    uint8_t *bytes; /* owned */
    size_t len, room;
};

struct pair {
    int fds[2]; /* client, target; -1: closed */
    bool is_chosen;
};

struct middle {
    pthread_t thread;
    int listener, wake[2];
    uint16_t port;
    pthread_mutex_t lock; /* over all that follows */
    bool is_stopping;
    struct sockaddr_in target;
    struct pair pairs[PAIRS];
    bool is_begun, is_chosen, has_ended, is_done; /* of the connection that it is about */
    int way;
    size_t at;
    uint8_t bits; /* 0 with is_cut, and where nothing is to be changed */
    bool is_cut;
    struct record records[2];
};

static void put(struct record *record, const uint8_t *bytes, size_t len)
{
    if (record->len + len > RECORD_MAX)
        return;
    if (record->len + len > record->room) {
        record->room = 2 * (record->len + len);
        record->bytes = realloc(record->bytes, record->room);
        assert_non_null(record->bytes);
    }
    memcpy(record->bytes + record->len, bytes, len);
    record->len += len;
}

static void end_pair(struct middle *middle, struct pair *pair)
{
    for (int end = 0; end < 2; end++)
        if (pair->fds[end] >= 0)
            close(pair->fds[end]);
    pair->fds[0] = pair->fds[1] = -1;
    middle->has_ended |= pair->is_chosen;
    pair->is_chosen = false;
}

/* What becomes of a piece on its way; false: it is cut there. */
static bool treat(struct middle *middle, int way, uint8_t *bytes, size_t len)
{
    struct record *record = &middle->records[way];
    bool is_meant = !middle->is_done && middle->way == way && middle->at >= record->len &&
                    middle->at < record->len + len;

    if (is_meant && (middle->is_cut || middle->bits != 0)) {
        middle->is_done = true;
        bytes[middle->at - record->len] ^= middle->bits;
    }
    put(record, bytes, len);
    return !(is_meant && middle->is_cut);
}

/* All of it, at once: what is said here is small, or read as fast as it comes. */
static bool pass_on(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

static void relay(struct middle *middle, struct pair *pair, int way)
{
    static _Thread_local uint8_t bytes[ROOM];
    ssize_t got = recv(pair->fds[way], bytes, sizeof(bytes), MSG_DONTWAIT);
    bool goes_on = got > 0;
    int to = pair->fds[1 - way];

    if (goes_on && pair->is_chosen) {
        pthread_mutex_lock(&middle->lock);
        goes_on = treat(middle, way, bytes, (size_t)got);
        pthread_mutex_unlock(&middle->lock);
    }
    if (goes_on && pass_on(to, bytes, (size_t)got))
        return;
    pthread_mutex_lock(&middle->lock);
    end_pair(middle, pair);
    pthread_mutex_unlock(&middle->lock);
}

static void admit(struct middle *middle)
{
    int fd = accept(middle->listener, NULL, NULL), to = socket(AF_INET, SOCK_STREAM, 0), k = 0;
    int at_once = 1;

    assert_true(fd >= 0 && to >= 0);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
    (void)setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
    pthread_mutex_lock(&middle->lock);
    while (k < PAIRS && middle->pairs[k].fds[0] >= 0)
        k++;
    assert_true(k < PAIRS);
    middle->pairs[k].fds[0] = fd;
    middle->pairs[k].fds[1] = to;
    middle->pairs[k].is_chosen = middle->is_begun && !middle->is_chosen;
    middle->is_chosen |= middle->is_begun;
    if (connect(to, (struct sockaddr *)&middle->target, sizeof(middle->target)) != 0)
        end_pair(middle, &middle->pairs[k]);
    pthread_mutex_unlock(&middle->lock);
}

static void *serve(void *arg)
{
    struct middle *middle = arg;

    while (!middle->is_stopping) {
        struct pollfd polls[2 + 2 * PAIRS] = {{.fd = middle->listener, .events = POLLIN},
                                              {.fd = middle->wake[0], .events = POLLIN}};

        for (int k = 0; k < 2 * PAIRS; k++)
            polls[2 + k] = (struct pollfd){.fd = middle->pairs[k / 2].fds[k % 2], .events = POLLIN};
        if (poll(polls, 2 + 2 * PAIRS, NAP_MS) <= 0)
            continue;
        if (polls[1].revents != 0)
            break;
        if (polls[0].revents != 0)
            admit(middle);
        for (int k = 0; k < 2 * PAIRS; k++)
            if (polls[2 + k].revents != 0 && middle->pairs[k / 2].fds[k % 2] == polls[2 + k].fd &&
                polls[2 + k].fd >= 0)
                relay(middle, &middle->pairs[k / 2], k % 2);
    }
    return NULL;
}

/* ---- The other threads ----------------------------------------------------------------------- */

struct middle *middle_new(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct middle *middle = calloc(1, sizeof(*middle));
    socklen_t len = sizeof(addr);

    assert_non_null(middle);
    for (int k = 0; k < PAIRS; k++)
        middle->pairs[k].fds[0] = middle->pairs[k].fds[1] = -1;
    middle->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(middle->listener >= 0);
    assert_int_equal(bind(middle->listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(middle->listener, 64), 0);
    assert_int_equal(getsockname(middle->listener, (struct sockaddr *)&addr, &len), 0);
    middle->port = ntohs(addr.sin_port);
    assert_int_equal(pipe(middle->wake), 0);
    pthread_mutex_init(&middle->lock, NULL);
    assert_int_equal(pthread_create(&middle->thread, NULL, serve, middle), 0);
    return middle;
}

uint16_t middle_port(const struct middle *middle)
{
    return middle->port;
}

void middle_free(struct middle *middle)
{
    assert_int_equal(write(middle->wake[1], "", 1), 1);
    pthread_join(middle->thread, NULL);
    for (int k = 0; k < PAIRS; k++)
        end_pair(middle, &middle->pairs[k]);
    close(middle->listener);
    close(middle->wake[0]);
    close(middle->wake[1]);
    free(middle->records[0].bytes);
    free(middle->records[1].bytes);
    pthread_mutex_destroy(&middle->lock);
    free(middle);
}

void middle_begin(struct middle *middle, const struct sockaddr_in *target)
{
    pthread_mutex_lock(&middle->lock);
    for (int k = 0; k < PAIRS; k++)
        middle->pairs[k].is_chosen = false;
    middle->target = *target;
    middle->is_begun = true;
    middle->is_chosen = middle->has_ended = middle->is_done = middle->is_cut = false;
    middle->bits = 0;
    middle->records[0].len = middle->records[1].len = 0;
    pthread_mutex_unlock(&middle->lock);
}

static void change(struct middle *middle, int way, size_t at, uint8_t bits)
{
    pthread_mutex_lock(&middle->lock);
    middle->way = way;
    middle->at = at;
    middle->bits = bits;
    middle->is_cut = bits == 0;
    pthread_mutex_unlock(&middle->lock);
}

void middle_flip(struct middle *middle, int way, size_t at, uint8_t bits)
{
    assert_true(bits != 0);
    change(middle, way, at, bits);
}

void middle_cut(struct middle *middle, int way, size_t at)
{
    change(middle, way, at, 0);
}

static bool ask(struct middle *middle, const bool *what)
{
    bool answer;

    pthread_mutex_lock(&middle->lock);
    answer = *what;
    pthread_mutex_unlock(&middle->lock);
    return answer;
}

bool middle_is_done(struct middle *middle)
{
    return ask(middle, &middle->is_done);
}

bool middle_has_ended(struct middle *middle)
{
    return ask(middle, &middle->has_ended);
}

size_t middle_count(struct middle *middle, int way)
{
    size_t count;

    pthread_mutex_lock(&middle->lock);
    count = middle->records[way].len;
    pthread_mutex_unlock(&middle->lock);
    return count;
}

size_t middle_copy(struct middle *middle, int way, uint8_t *bytes, size_t room)
{
    struct record *record = &middle->records[way];
    size_t len;

    pthread_mutex_lock(&middle->lock);
    len = record->len < room ? record->len : room;
    memcpy(bytes, record->bytes, len);
    pthread_mutex_unlock(&middle->lock);
    return len;
}

bool middle_has_seen(struct middle *middle, const void *bytes, size_t len)
{
    bool has = false;

    pthread_mutex_lock(&middle->lock);
    for (int way = 0; way < 2; way++)
        has |= memmem(middle->records[way].bytes, middle->records[way].len, bytes, len) != NULL;
    pthread_mutex_unlock(&middle->lock);
    return has;
}
