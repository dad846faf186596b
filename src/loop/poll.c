/* poll.c - waits to the nanosecond. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/poll_set.h"

#include <time.h>

#include "core/base.h"

int tci_poll(struct pollfd *polls, size_t count, uint64_t timeout_ns)
{
    struct timespec limit = {.tv_sec = (time_t)(timeout_ns / TCI_NS_PER_S),
                             .tv_nsec = (long)(timeout_ns % TCI_NS_PER_S)};

    return ppoll(polls, (nfds_t)count, timeout_ns == TCI_NEVER ? NULL : &limit, NULL);
}
