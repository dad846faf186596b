/* loop_room.c - a loop of any kind for a test, and clocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/loop_room.h"

#include <errno.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct tci_loop *loop_open(int mode, int spin_us)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    tc_config config;
    struct tci_loop *loop;

    tc_config_default(&config);
    config.loop_mode = mode;
    config.spin_us = spin_us;
    loop = tci_loop_new(&config, &error);
    if (loop == NULL)
        fail_msg("%s", error.pub.message);
    return loop;
}

tc_context *context_open(int mode)
{
    tc_context *context = NULL;
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = mode;
    if (tc_init_config(&config, &context) != TC_OK)
        fail_msg("%s", tc_last_error()->message);
    return context;
}

static uint64_t read_clock(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void clock_pass_ms(unsigned ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}
