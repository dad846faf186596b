/* libevent.h - lends a libevent loop to tcdist. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_ADAPTERS_LIBEVENT_H
#define TCDIST_ADAPTERS_LIBEVENT_H

/*   struct event_base *base = event_base_new();
 *   tc_libevent       *lent = tc_libevent_create(base);
 *   tc_config          config;
 *
 *   tc_config_default(&config);
 *   config.loop_mode = TC_LOOP_HOST;
 *   config.reactor = tc_libevent_ops();
 *   config.reactor_arg = lent;
 *   tc_init_config(&config, &context);
 *   ... start operations, tc_future_then(), event_base_dispatch(base) ...
 *   tc_shutdown(context);
 *   tc_libevent_destroy(lent);
 *
 * All on the thread of that loop, which keeps running until tc_shutdown(). */

#include <event2/event.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>

#include "tcdist/reactor.h"

typedef struct tc_libevent {
    struct event_base *base;
    struct event *timer;
    tc_reactor_fn timer_fn;
    void *timer_arg;
} tc_libevent;

struct tc_libevent_watch {
    struct event *event;
    tc_reactor_fn fn;
    void *arg;
};

static inline short tc_libevent_events(uint32_t interest)
{
    return (short)(EV_PERSIST | ((interest & TC_READABLE) ? EV_READ : 0) |
                   ((interest & TC_WRITABLE) ? EV_WRITE : 0));
}

static inline void tc_libevent_on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct tc_libevent_watch *watch = (struct tc_libevent_watch *)arg;

    (void)fd;
    watch->fn(watch->arg, ((what & EV_READ) ? (uint32_t)TC_READABLE : 0u) |
                              ((what & EV_WRITE) ? (uint32_t)TC_WRITABLE : 0u));
}

static inline void tc_libevent_on_timer(evutil_socket_t fd, short what, void *arg)
{
    tc_libevent *self = (tc_libevent *)arg;

    (void)fd;
    (void)what;
    self->timer_fn(self->timer_arg, 0);
}

static inline void tc_libevent_watch_del(void *reactor, void *handle)
{
    struct tc_libevent_watch *watch = (struct tc_libevent_watch *)handle;

    (void)reactor;
    if (watch->event != NULL)
        event_free(watch->event);
    free(watch);
}

static inline int tc_libevent_watch_add(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn,
                                        void *arg, void **watch_out)
{
    tc_libevent *self = (tc_libevent *)reactor;
    struct tc_libevent_watch *watch = (struct tc_libevent_watch *)calloc(1, sizeof(*watch));

    if (watch == NULL)
        return -1;
    watch->fn = fn;
    watch->arg = arg;
    watch->event =
        event_new(self->base, fd, tc_libevent_events(interest), tc_libevent_on_ready, watch);
    if (watch->event == NULL || (interest != 0 && event_add(watch->event, NULL) != 0)) {
        tc_libevent_watch_del(self, watch);
        return -1;
    }
    *watch_out = watch;
    return 0;
}

static inline int tc_libevent_watch_change(void *reactor, void *handle, uint32_t interest)
{
    tc_libevent *self = (tc_libevent *)reactor;
    struct tc_libevent_watch *watch = (struct tc_libevent_watch *)handle;
    evutil_socket_t fd = event_get_fd(watch->event);

    event_del(watch->event);
    event_assign(watch->event, self->base, fd, tc_libevent_events(interest), tc_libevent_on_ready,
                 watch);
    return interest == 0 ? 0 : event_add(watch->event, NULL);
}

static inline int tc_libevent_timer_arm(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn,
                                        void *arg)
{
    tc_libevent *self = (tc_libevent *)reactor;
    uint64_t us = timeout_ns / 1000 + (timeout_ns % 1000 != 0);
    struct timeval when;

    when.tv_sec = (time_t)(us / 1000000);
    when.tv_usec = (suseconds_t)(us % 1000000);
    self->timer_fn = fn;
    self->timer_arg = arg;
    return event_add(self->timer, &when);
}

static inline void tc_libevent_timer_cancel(void *reactor)
{
    event_del(((tc_libevent *)reactor)->timer);
}

/* The verbs, for tc_config.reactor. */
static inline const tc_reactor_ops *tc_libevent_ops(void)
{
    static const tc_reactor_ops ops = {TC_REACTOR_ABI_VERSION,   tc_libevent_watch_add,
                                       tc_libevent_watch_change, tc_libevent_watch_del,
                                       tc_libevent_timer_arm,    tc_libevent_timer_cancel};

    return &ops;
}

/* What goes into tc_config.reactor_arg; NULL without memory.  The base is borrowed. */
static inline tc_libevent *tc_libevent_create(struct event_base *base)
{
    tc_libevent *self = (tc_libevent *)calloc(1, sizeof(*self));

    if (self == NULL)
        return NULL;
    self->base = base;
    self->timer = evtimer_new(base, tc_libevent_on_timer, self);
    if (self->timer == NULL) {
        free(self);
        return NULL;
    }
    return self;
}

/* After tc_shutdown(). */
static inline void tc_libevent_destroy(tc_libevent *self)
{
    if (self != NULL)
        event_free(self->timer);
    free(self);
}

#endif
