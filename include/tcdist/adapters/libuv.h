/* libuv.h - lends a libuv loop to tcdist. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_ADAPTERS_LIBUV_H
#define TCDIST_ADAPTERS_LIBUV_H

/*   uv_loop_t *loop = uv_default_loop();
 *   tc_libuv  *lent = tc_libuv_create(loop);
 *   tc_config  config;
 *
 *   tc_config_default(&config);
 *   config.loop_mode = TC_LOOP_HOST;
 *   config.reactor = tc_libuv_ops();
 *   config.reactor_arg = lent;
 *   tc_init_config(&config, &context);
 *   ... start operations, tc_future_then(), uv_run(loop, UV_RUN_DEFAULT) ...
 *   tc_shutdown(context);
 *   tc_libuv_destroy(lent);
 *   uv_run(loop, UV_RUN_DEFAULT);
 *
 * All on the thread of that loop, which keeps running until tc_shutdown().  libuv closes handles
 * in the turn after: run it once more, as above, before uv_loop_close(). */

#include <stdint.h>
#include <stdlib.h>
#include <uv.h>

#include "tcdist/reactor.h"

typedef struct tc_libuv {
    uv_timer_t timer; /* first */
    uv_loop_t *loop;
    tc_reactor_fn timer_fn;
    void *timer_arg;
} tc_libuv;

struct tc_libuv_watch {
    uv_poll_t poll; /* first */
    tc_reactor_fn fn;
    void *arg;
};

static inline void tc_libuv_on_close(uv_handle_t *handle)
{
    free(handle);
}

/* After an error libuv has stopped the handle: it is the user's move. */
static inline void tc_libuv_on_ready(uv_poll_t *handle, int status, int events)
{
    struct tc_libuv_watch *watch = (struct tc_libuv_watch *)handle;

    if (status < 0)
        watch->fn(watch->arg, (uint32_t)(TC_READABLE | TC_WRITABLE));
    else
        watch->fn(watch->arg, ((events & UV_READABLE) ? (uint32_t)TC_READABLE : 0u) |
                                  ((events & UV_WRITABLE) ? (uint32_t)TC_WRITABLE : 0u));
}

static inline void tc_libuv_on_timer(uv_timer_t *handle)
{
    tc_libuv *self = (tc_libuv *)handle;

    self->timer_fn(self->timer_arg, 0);
}

static inline int tc_libuv_watch_change(void *reactor, void *handle, uint32_t interest)
{
    struct tc_libuv_watch *watch = (struct tc_libuv_watch *)handle;
    int events =
        ((interest & TC_READABLE) ? UV_READABLE : 0) | ((interest & TC_WRITABLE) ? UV_WRITABLE : 0);

    (void)reactor;
    if (interest == 0)
        return uv_poll_stop(&watch->poll) == 0 ? 0 : -1;
    return uv_poll_start(&watch->poll, events, tc_libuv_on_ready) == 0 ? 0 : -1;
}

static inline void tc_libuv_watch_del(void *reactor, void *handle)
{
    struct tc_libuv_watch *watch = (struct tc_libuv_watch *)handle;

    (void)reactor;
    uv_close((uv_handle_t *)&watch->poll, tc_libuv_on_close);
}

static inline int tc_libuv_watch_add(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn,
                                     void *arg, void **watch_out)
{
    tc_libuv *self = (tc_libuv *)reactor;
    struct tc_libuv_watch *watch = (struct tc_libuv_watch *)calloc(1, sizeof(*watch));

    if (watch == NULL)
        return -1;
    if (uv_poll_init(self->loop, &watch->poll, fd) != 0) {
        free(watch);
        return -1;
    }
    watch->fn = fn;
    watch->arg = arg;
    if (tc_libuv_watch_change(self, watch, interest) != 0) {
        tc_libuv_watch_del(self, watch);
        return -1;
    }
    *watch_out = watch;
    return 0;
}

/* libuv's timers count milliseconds from the time of its turn. */
static inline int tc_libuv_timer_arm(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn,
                                     void *arg)
{
    tc_libuv *self = (tc_libuv *)reactor;
    uint64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);

    self->timer_fn = fn;
    self->timer_arg = arg;
    uv_update_time(self->loop);
    return uv_timer_start(&self->timer, tc_libuv_on_timer, ms, 0) == 0 ? 0 : -1;
}

static inline void tc_libuv_timer_cancel(void *reactor)
{
    uv_timer_stop(&((tc_libuv *)reactor)->timer);
}

/* The verbs, for tc_config.reactor. */
static inline const tc_reactor_ops *tc_libuv_ops(void)
{
    static const tc_reactor_ops ops = {TC_REACTOR_ABI_VERSION, tc_libuv_watch_add,
                                       tc_libuv_watch_change,  tc_libuv_watch_del,
                                       tc_libuv_timer_arm,     tc_libuv_timer_cancel};

    return &ops;
}

/* What goes into tc_config.reactor_arg; NULL without memory.  The loop is borrowed. */
static inline tc_libuv *tc_libuv_create(uv_loop_t *loop)
{
    tc_libuv *self = (tc_libuv *)calloc(1, sizeof(*self));

    if (self == NULL)
        return NULL;
    self->loop = loop;
    uv_timer_init(loop, &self->timer);
    return self;
}

/* After tc_shutdown(); freed when the loop has run once more. */
static inline void tc_libuv_destroy(tc_libuv *self)
{
    if (self != NULL)
        uv_close((uv_handle_t *)&self->timer, tc_libuv_on_close);
}

#endif
