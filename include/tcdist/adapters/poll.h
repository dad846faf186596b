/* poll.h - a small event loop on poll(2) for applications without one, lent to tcdist. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_ADAPTERS_POLL_H
#define TCDIST_ADAPTERS_POLL_H

/*   tc_poll_loop *loop = tc_poll_loop_create();
 *   tc_config     config;
 *
 *   tc_config_default(&config);
 *   config.loop_mode = TC_LOOP_HOST;
 *   config.reactor = tc_poll_loop_ops();
 *   config.reactor_arg = loop;
 *   tc_init_config(&config, &context);
 *   ... start operations, tc_future_then(); then, as long as there is something to do: ...
 *       tc_poll_loop_run_once(loop, -1);
 *   tc_shutdown(context);
 *   tc_poll_loop_destroy(loop);
 *
 * A loop has one timer, for one context.  Each further context on the thread is lent a guest of
 * the loop, tc_poll_loop_create_guest(), which is turned with it and destroyed before it.
 *
 * All on one thread.  The verbs serve the application's own descriptors just as well:
 * tc_poll_loop_watch_add() and so on.  Also an example of how to lend a loop of one's own. */

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>

#include "tcdist/reactor.h"
#include "tcdist/trace.h"

typedef struct tc_poll_watch {
    int fd;
    uint32_t interest;
    tc_reactor_fn fn; /* NULL: deleted, freed before the next poll */
    void *arg;
} tc_poll_watch;

typedef struct tc_poll_loop {
    struct pollfd *polls;    /* filled before each poll, from … */
    tc_poll_watch **watches; /* … these, in the same order */
    size_t count, room;
    uint64_t due_ns; /* of the timer; 0: not armed */
    tc_reactor_fn timer_fn;
    void *timer_arg;
    struct tc_poll_loop *host; /* of a guest: has its watches; NULL: not a guest */
    struct tc_poll_loop *next; /* the next guest */
} tc_poll_loop;

static inline uint64_t tc_poll_loop_now(void)
{
    return tc_trace_now_ns(); /* CLOCK_MONOTONIC, also for a program in strict C */
}

static inline int tc_poll_loop_watch_add(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn,
                                         void *arg, void **watch_out)
{
    tc_poll_loop *guest = (tc_poll_loop *)reactor;
    tc_poll_loop *self = guest->host != NULL ? guest->host : guest;
    size_t room = self->room == 0 ? 16 : 2 * self->room;
    tc_poll_watch *watch;
    void *grown;

    if (self->count == self->room) {
        grown = realloc(self->polls, room * sizeof(struct pollfd));
        if (grown == NULL)
            return -1;
        self->polls = (struct pollfd *)grown;
        grown = realloc(self->watches, room * sizeof(tc_poll_watch *));
        if (grown == NULL)
            return -1;
        self->watches = (tc_poll_watch **)grown;
        self->room = room;
    }
    watch = (tc_poll_watch *)calloc(1, sizeof(*watch));
    if (watch == NULL)
        return -1;
    watch->fd = fd;
    watch->interest = interest;
    watch->fn = fn;
    watch->arg = arg;
    self->watches[self->count++] = watch;
    *watch_out = watch;
    return 0;
}

static inline int tc_poll_loop_watch_change(void *reactor, void *watch, uint32_t interest)
{
    (void)reactor;
    ((tc_poll_watch *)watch)->interest = interest;
    return 0;
}

static inline void tc_poll_loop_watch_del(void *reactor, void *watch)
{
    (void)reactor;
    ((tc_poll_watch *)watch)->fn = NULL;
}

static inline int tc_poll_loop_timer_arm(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn,
                                         void *arg)
{
    tc_poll_loop *self = (tc_poll_loop *)reactor;

    self->due_ns = tc_poll_loop_now() + timeout_ns;
    self->timer_fn = fn;
    self->timer_arg = arg;
    return 0;
}

static inline void tc_poll_loop_timer_cancel(void *reactor)
{
    ((tc_poll_loop *)reactor)->due_ns = 0;
}

/* Drop the deleted watches, and list the others for poll(2), which skips negative descriptors. */
static inline void tc_poll_loop_prepare(tc_poll_loop *self)
{
    size_t kept = 0;

    for (size_t i = 0; i < self->count; i++) {
        tc_poll_watch *watch = self->watches[i];

        if (watch->fn == NULL) {
            free(watch);
            continue;
        }
        self->polls[kept].fd = watch->interest == 0 ? -1 : watch->fd;
        self->polls[kept].events = (short)(((watch->interest & TC_READABLE) ? POLLIN : 0) |
                                           ((watch->interest & TC_WRITABLE) ? POLLOUT : 0));
        self->polls[kept].revents = 0;
        self->watches[kept++] = watch;
    }
    self->count = kept;
}

/* When the first timer of the loop and its guests is due; 0: none is armed. */
static inline uint64_t tc_poll_loop_due(const tc_poll_loop *self)
{
    uint64_t due_ns = 0;

    for (; self != NULL; self = self->next)
        if (self->due_ns != 0 && (due_ns == 0 || self->due_ns < due_ns))
            due_ns = self->due_ns;
    return due_ns;
}

/* Call the timers that are due; one that arms itself again waits for the next turn. */
static inline int tc_poll_loop_run_timers(tc_poll_loop *self)
{
    tc_poll_loop *next;
    int calls = 0;

    for (; self != NULL; self = next) {
        next = self->next;
        if (self->due_ns == 0 || self->due_ns > tc_poll_loop_now())
            continue;
        self->due_ns = 0;
        self->timer_fn(self->timer_arg, 0);
        calls++;
    }
    return calls;
}

/* Wait at most timeout_ms milliseconds (-1: no limit) for something to be ready or due, and call
 * it.  Gives the number of calls; -1 with errno when poll(2) fails. */
static inline int tc_poll_loop_run_once(tc_poll_loop *self, int timeout_ms)
{
    uint64_t due_ns = tc_poll_loop_due(self), now = due_ns == 0 ? 0 : tc_poll_loop_now();
    uint64_t left_ms = due_ns <= now ? 0 : (due_ns - now + 999999) / 1000000;
    size_t count;
    int calls = 0;

    if (due_ns != 0 && (timeout_ms < 0 || left_ms < (uint64_t)timeout_ms))
        timeout_ms = left_ms > 1000000 ? 1000000 : (int)left_ms;
    tc_poll_loop_prepare(self);
    count = self->count;
    if (poll(self->polls, (nfds_t)count, timeout_ms) < 0)
        return errno == EINTR ? 0 : -1;
    for (size_t i = 0; i < count; i++) {
        int events = self->polls[i].revents;
        tc_poll_watch *watch = self->watches[i];
        uint32_t ready = ((events & POLLIN) ? (uint32_t)TC_READABLE : 0u) |
                         ((events & POLLOUT) ? (uint32_t)TC_WRITABLE : 0u);

        if (events & (POLLERR | POLLHUP | POLLNVAL))
            ready = (uint32_t)(TC_READABLE | TC_WRITABLE);
        if (ready == 0 || watch->fn == NULL)
            continue;
        watch->fn(watch->arg, ready);
        calls++;
    }
    return calls + tc_poll_loop_run_timers(self);
}

/* The verbs, for tc_config.reactor. */
static inline const tc_reactor_ops *tc_poll_loop_ops(void)
{
    static const tc_reactor_ops ops = {TC_REACTOR_ABI_VERSION,    tc_poll_loop_watch_add,
                                       tc_poll_loop_watch_change, tc_poll_loop_watch_del,
                                       tc_poll_loop_timer_arm,    tc_poll_loop_timer_cancel};

    return &ops;
}

/* A loop, which goes into tc_config.reactor_arg; NULL without memory. */
static inline tc_poll_loop *tc_poll_loop_create(void)
{
    return (tc_poll_loop *)calloc(1, sizeof(tc_poll_loop));
}

/* A guest of a loop, which a further context on the same thread is lent: the loop turns it.  NULL
 * without memory. */
static inline tc_poll_loop *tc_poll_loop_create_guest(tc_poll_loop *host)
{
    tc_poll_loop *self = tc_poll_loop_create();

    if (self == NULL)
        return NULL;
    self->host = host;
    self->next = host->next;
    host->next = self;
    return self;
}

/* After tc_shutdown(), and not from what the loop calls; guests before their loop. */
static inline void tc_poll_loop_destroy(tc_poll_loop *self)
{
    tc_poll_loop *before = self == NULL ? NULL : self->host;

    if (self == NULL)
        return;
    while (before != NULL && before->next != self)
        before = before->next;
    if (before != NULL)
        before->next = self->next;
    for (size_t i = 0; i < self->count; i++)
        free(self->watches[i]);
    free(self->watches);
    free(self->polls);
    free(self);
}

#endif
