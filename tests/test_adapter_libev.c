/* test_adapter_libev.c - tcdist in an application's libev loop. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: needs libev, serial */
#include "tcdist/adapters/libev.h"

#include "support/adapter_suite.h"

static struct ev_loop *loop;
static struct ev_timer timer;
static struct ev_io io;
static void (*on_tick)(void);
static void (*on_ready)(void);

static void call_tick(struct ev_loop *of, struct ev_timer *self, int events)
{
    (void)of;
    (void)self;
    (void)events;
    on_tick();
}

static void call_ready(struct ev_loop *of, struct ev_io *self, int events)
{
    (void)of;
    (void)self;
    (void)events;
    on_ready();
}

static void open_loop(void)
{
    loop = ev_loop_new(EVFLAG_NOENV);
    ev_timer_init(&timer, call_tick, 0., 0.);
    ev_io_init(&io, call_ready, 0, EV_READ);
}

static void *lend(void)
{
    return tc_libev_create(loop);
}

static void take_back(void *lent)
{
    tc_libev_destroy(lent);
}

static void close_loop(void)
{
    ev_timer_stop(loop, &timer);
    ev_io_stop(loop, &io);
    ev_loop_destroy(loop);
}

static void step(void)
{
    ev_run(loop, EVRUN_ONCE);
}

static void tick(unsigned ms, void (*fn)(void))
{
    on_tick = fn;
    ev_timer_set(&timer, ms * 1e-3, ms * 1e-3);
    ev_timer_start(loop, &timer);
}

static void watch(int fd, void (*fn)(void))
{
    on_ready = fn;
    ev_io_set(&io, fd, EV_READ);
    ev_io_start(loop, &io);
}

int main(void)
{
    static const struct adapter_host host = {tc_libev_ops, open_loop, close_loop, lend,
                                             take_back,    step,      tick,       watch};

    return adapter_suite(&host);
}
