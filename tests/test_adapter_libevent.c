/* test_adapter_libevent.c - tcdist in an application's libevent loop. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: needs libevent_core, serial */
#include "tcdist/adapters/libevent.h"

#include "support/adapter_suite.h"

static struct event_base *base;
static struct event *own[2]; /* tick and watch */

static void call(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (*(void (**)(void))arg)();
}

static void open_loop(void)
{
    base = event_base_new();
}

static void *lend(void)
{
    return tc_libevent_create(base);
}

static void take_back(void *lent)
{
    tc_libevent_destroy(lent);
}

static void close_loop(void)
{
    for (int i = 0; i < 2; i++) {
        if (own[i] != NULL)
            event_free(own[i]);
        own[i] = NULL;
    }
    event_base_free(base);
}

static void step(void)
{
    event_base_loop(base, EVLOOP_ONCE);
}

static void tick(unsigned ms, void (*fn)(void))
{
    static void (*on_tick)(void);
    struct timeval every = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};

    on_tick = fn;
    own[0] = event_new(base, -1, EV_PERSIST, call, &on_tick);
    event_add(own[0], &every);
}

static void watch(int fd, void (*fn)(void))
{
    static void (*on_ready)(void);

    on_ready = fn;
    own[1] = event_new(base, fd, EV_READ | EV_PERSIST, call, &on_ready);
    event_add(own[1], NULL);
}

int main(void)
{
    static const struct adapter_host host = {tc_libevent_ops, open_loop, close_loop, lend,
                                             take_back,       step,      tick,       watch};

    return adapter_suite(&host);
}
