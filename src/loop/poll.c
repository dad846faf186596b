/* poll.c - waits to the nanosecond. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/poll_set.h"

#include <time.h>

#include "core/base.h"

int tci_poll(struct pollfd *polls, size_t count, uint64_t timeout_ns)
{
    struct timespec limit = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                             .tv_nsec = (long)(timeout_ns % 1000000000u)};

    return ppoll(polls, (nfds_t)count, timeout_ns == TCI_NEVER ? NULL : &limit, NULL);
}
