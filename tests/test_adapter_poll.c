/* test_adapter_poll.c - tcdist in the small poll(2) loop that comes with it. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: serial */
#include "tcdist/adapters/poll.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "support/adapter_suite.h"

static tc_poll_loop *loop;
static int timer_fd = -1;
static void (*on_tick)(void);
static void (*on_ready)(void);

static void call_tick(void *arg, uint32_t ready)
{
    uint64_t times;
    ssize_t got = read(timer_fd, &times, sizeof(times));

    (void)arg;
    (void)ready;
    if (got > 0)
        on_tick();
}

static void call_ready(void *arg, uint32_t ready)
{
    (void)arg;
    (void)ready;
    on_ready();
}

static void open_loop(void)
{
    loop = tc_poll_loop_create();
}

static void *lend(void)
{
    return tc_poll_loop_create_guest(loop);
}

static void take_back(void *lent)
{
    tc_poll_loop_destroy(lent);
}

static void close_loop(void)
{
    tc_poll_loop_destroy(loop);
    if (timer_fd >= 0)
        close(timer_fd);
    timer_fd = -1;
}

static void step(void)
{
    tc_poll_loop_run_once(loop, -1);
}

static void tick(unsigned ms, void (*fn)(void))
{
    struct timespec every = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    struct itimerspec when = {.it_value = every, .it_interval = every};
    void *handle;

    on_tick = fn;
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    timerfd_settime(timer_fd, 0, &when, NULL);
    tc_poll_loop_watch_add(loop, timer_fd, TC_READABLE, call_tick, NULL, &handle);
}

static void watch(int fd, void (*fn)(void))
{
    void *handle;

    on_ready = fn;
    tc_poll_loop_watch_add(loop, fd, TC_READABLE, call_ready, NULL, &handle);
}

int main(void)
{
    static const struct adapter_host host = {tc_poll_loop_ops, open_loop, close_loop, lend,
                                             take_back,        step,      tick,       watch};

    return adapter_suite(&host);
}
