/* cond_posix.c - conditions that wait by the time of day, as they do where nobody can choose. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cond.h"

#include <time.h>

#include "core/base.h"

/* The time of day may be set meanwhile: what is left is looked at anew so often. */
#define SLICE_NS (100 * TCI_NS_PER_MS)

int tci_cond_init(pthread_cond_t *cond)
{
    return pthread_cond_init(cond, NULL);
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * TCI_NS_PER_S + (uint64_t)now.tv_nsec;
}

bool tci_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns)
{
    uint64_t now, until_ns;
    struct timespec until;

    if (deadline_ns == TCI_NEVER) {
        (void)pthread_cond_wait(cond, lock);
        return true;
    }
    now = now_ns(CLOCK_MONOTONIC);
    if (now >= deadline_ns)
        return false;
    until_ns = now_ns(CLOCK_REALTIME) + tci_min(deadline_ns - now, SLICE_NS);
    until = (struct timespec){.tv_sec = (time_t)(until_ns / TCI_NS_PER_S),
                              .tv_nsec = (long)(until_ns % TCI_NS_PER_S)};
    (void)pthread_cond_timedwait(cond, lock, &until);
    return now_ns(CLOCK_MONOTONIC) < deadline_ns;
}
