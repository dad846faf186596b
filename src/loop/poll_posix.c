/* poll_posix.c - waits of whole milliseconds, rounded up, which are all that poll(2) has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/poll_set.h"

#include "core/base.h"

int tci_poll(struct pollfd *polls, size_t count, uint64_t timeout_ns)
{
    uint64_t ms = timeout_ns / TCI_NS_PER_MS + (timeout_ns % TCI_NS_PER_MS != 0);

    if (timeout_ns == TCI_NEVER)
        return poll(polls, (nfds_t)count, -1);
    return poll(polls, (nfds_t)count, ms > INT32_MAX ? INT32_MAX : (int)ms);
}
