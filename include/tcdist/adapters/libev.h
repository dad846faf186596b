/* libev.h - lends a libev loop to tcdist. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_ADAPTERS_LIBEV_H
#define TCDIST_ADAPTERS_LIBEV_H

/*   struct ev_loop *loop = ev_default_loop(0);
 *   tc_libev       *lent = tc_libev_create(loop);
 *   tc_config       config;
 *
 *   tc_config_default(&config);
 *   config.loop_mode = TC_LOOP_HOST;
 *   config.reactor = tc_libev_ops();
 *   config.reactor_arg = lent;
 *   tc_init_config(&config, &context);
 *   ... start operations, tc_future_then(), ev_run(loop, 0) ...
 *   tc_shutdown(context);
 *   tc_libev_destroy(lent);
 *
 * All on the thread of that loop, which keeps running until tc_shutdown().  <ev.h> does not go
 * together with <event2/event.h> in one file. */

#include <ev.h>
#include <stdint.h>
#include <stdlib.h>

#include "tcdist/reactor.h"

typedef struct tc_libev {
    struct ev_timer timer; /* first */
    struct ev_loop *loop;
    tc_reactor_fn timer_fn;
    void *timer_arg;
} tc_libev;

struct tc_libev_watch {
    struct ev_io io; /* first */
    tc_reactor_fn fn;
    void *arg;
};

static inline int tc_libev_events(uint32_t interest)
{
    return ((interest & TC_READABLE) ? EV_READ : 0) | ((interest & TC_WRITABLE) ? EV_WRITE : 0);
}

static inline void tc_libev_on_ready(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct tc_libev_watch *watch = (struct tc_libev_watch *)io;

    (void)loop;
    watch->fn(watch->arg, ((events & EV_READ) ? (uint32_t)TC_READABLE : 0u) |
                              ((events & EV_WRITE) ? (uint32_t)TC_WRITABLE : 0u));
}

static inline void tc_libev_on_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    tc_libev *self = (tc_libev *)timer;

    (void)loop;
    (void)events;
    self->timer_fn(self->timer_arg, 0);
}

static inline int tc_libev_watch_add(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn,
                                     void *arg, void **watch_out)
{
    tc_libev *self = (tc_libev *)reactor;
    struct tc_libev_watch *watch = (struct tc_libev_watch *)calloc(1, sizeof(*watch));

    if (watch == NULL)
        return -1;
    watch->fn = fn;
    watch->arg = arg;
    ev_io_init(&watch->io, tc_libev_on_ready, fd, tc_libev_events(interest));
    if (interest != 0)
        ev_io_start(self->loop, &watch->io);
    *watch_out = watch;
    return 0;
}

static inline int tc_libev_watch_change(void *reactor, void *handle, uint32_t interest)
{
    tc_libev *self = (tc_libev *)reactor;
    struct tc_libev_watch *watch = (struct tc_libev_watch *)handle;
    int fd = watch->io.fd;

    ev_io_stop(self->loop, &watch->io);
    ev_io_set(&watch->io, fd, tc_libev_events(interest));
    if (interest != 0)
        ev_io_start(self->loop, &watch->io);
    return 0;
}

static inline void tc_libev_watch_del(void *reactor, void *handle)
{
    struct tc_libev_watch *watch = (struct tc_libev_watch *)handle;

    ev_io_stop(((tc_libev *)reactor)->loop, &watch->io);
    free(watch);
}

static inline int tc_libev_timer_arm(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn,
                                     void *arg)
{
    tc_libev *self = (tc_libev *)reactor;

    self->timer_fn = fn;
    self->timer_arg = arg;
    ev_now_update(self->loop); /* timers count from the time of libev's turn */
    ev_timer_stop(self->loop, &self->timer);
    ev_timer_set(&self->timer, (ev_tstamp)timeout_ns * 1e-9, 0.);
    ev_timer_start(self->loop, &self->timer);
    return 0;
}

static inline void tc_libev_timer_cancel(void *reactor)
{
    tc_libev *self = (tc_libev *)reactor;

    ev_timer_stop(self->loop, &self->timer);
}

/* The verbs, for tc_config.reactor. */
static inline const tc_reactor_ops *tc_libev_ops(void)
{
    static const tc_reactor_ops ops = {TC_REACTOR_ABI_VERSION, tc_libev_watch_add,
                                       tc_libev_watch_change,  tc_libev_watch_del,
                                       tc_libev_timer_arm,     tc_libev_timer_cancel};

    return &ops;
}

/* What goes into tc_config.reactor_arg; NULL without memory.  The loop is borrowed. */
static inline tc_libev *tc_libev_create(struct ev_loop *loop)
{
    tc_libev *self = (tc_libev *)calloc(1, sizeof(*self));

    if (self == NULL)
        return NULL;
    self->loop = loop;
    ev_timer_init(&self->timer, tc_libev_on_timer, 0., 0.);
    return self;
}

/* After tc_shutdown(). */
static inline void tc_libev_destroy(tc_libev *self)
{
    free(self);
}

#endif
