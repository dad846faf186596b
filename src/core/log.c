/* log.c - log lines, one system call each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024 /* a longer line is cut */

static atomic_int level_max = TC_LOG_WARN; /* relaxed: nothing is published through it */
static _Atomic(tc_log_fn) sink_fn;
static _Atomic(void *) sink_arg;

void tc_log_set_sink(tc_log_fn fn, void *arg)
{
    atomic_store_explicit(&sink_arg, arg, memory_order_relaxed);
    /* release: pairs with the acquire in tci_log, publishes the argument. */
    atomic_store_explicit(&sink_fn, fn, memory_order_release);
}

void tc_log_set_level(tc_log_level_t level)
{
    atomic_store_explicit(&level_max, (int)level, memory_order_relaxed);
}

static int prefix(tc_log_level_t level, char *line, size_t room)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};

    return snprintf(line, room, "tcdist: %s: ", names[level]);
}

void tci_log(tc_log_level_t level, const char *fmt, ...)
{
    tc_log_fn fn = atomic_load_explicit(&sink_fn, memory_order_acquire);
    char line[LINE_MAX_BYTES];
    size_t begin = 0, len;
    va_list args;
    int wrote;

    if ((int)level > atomic_load_explicit(&level_max, memory_order_relaxed))
        return;
    if (fn == NULL)
        begin = (size_t)prefix(level, line, sizeof(line));
    va_start(args, fmt);
    wrote = vsnprintf(line + begin, sizeof(line) - begin - 1, fmt, args);
    va_end(args);
    if (wrote < 0)
        return;
    len = begin + (size_t)wrote;
    if (len > sizeof(line) - 2)
        len = sizeof(line) - 2;
    if (fn != NULL) {
        fn(level, line, atomic_load_explicit(&sink_arg, memory_order_relaxed));
        return;
    }
    line[len] = '\n';
    while (write(STDERR_FILENO, line, len + 1) < 0 && errno == EINTR)
        ;
}
