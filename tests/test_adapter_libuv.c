/* test_adapter_libuv.c - tcdist in an application's libuv loop. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: needs libuv, serial */
#include "tcdist/adapters/libuv.h"

#include <stdbool.h>
#include <stddef.h>

#include "support/adapter_suite.h"

static uv_loop_t loop;
static uv_timer_t timer;
static uv_poll_t socket_poll;
static bool has_timer, has_poll;
static void (*on_tick)(void);
static void (*on_ready)(void);

static void call_tick(uv_timer_t *handle)
{
    (void)handle;
    on_tick();
}

static void call_ready(uv_poll_t *handle, int status, int events)
{
    (void)handle;
    (void)status;
    (void)events;
    on_ready();
}

static void open_loop(void)
{
    uv_loop_init(&loop);
}

static void *lend(void)
{
    return tc_libuv_create(&loop);
}

static void take_back(void *lent)
{
    tc_libuv_destroy(lent);
}

static void close_loop(void)
{
    if (has_timer)
        uv_close((uv_handle_t *)&timer, NULL);
    if (has_poll)
        uv_close((uv_handle_t *)&socket_poll, NULL);
    has_timer = has_poll = false;
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0)
        abort(); /* something of ours was left in it */
}

static void step(void)
{
    uv_run(&loop, UV_RUN_ONCE);
}

static void tick(unsigned ms, void (*fn)(void))
{
    on_tick = fn;
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, call_tick, ms, ms);
    has_timer = true;
}

static void watch(int fd, void (*fn)(void))
{
    on_ready = fn;
    uv_poll_init(&loop, &socket_poll, fd);
    uv_poll_start(&socket_poll, UV_READABLE, call_ready);
    has_poll = true;
}

int main(void)
{
    static const struct adapter_host host = {tc_libuv_ops, open_loop, close_loop, lend,
                                             take_back,    step,      tick,       watch};

    return adapter_suite(&host);
}
