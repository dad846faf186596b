/* cond.c - conditions that can be told which clock to wait by. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cond.h"

#include <errno.h>
#include <time.h>

#include "core/base.h"

int tci_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int failed = pthread_condattr_init(&attr);

    if (failed != 0)
        return failed;
    failed = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (failed == 0)
        failed = pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return failed;
}

bool tci_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / TCI_NS_PER_S),
                             .tv_nsec = (long)(deadline_ns % TCI_NS_PER_S)};

    if (deadline_ns == TCI_NEVER)
        return pthread_cond_wait(cond, lock) != ETIMEDOUT;
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}
