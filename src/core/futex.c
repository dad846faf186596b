/* futex.c - the system call that libc does not wrap. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/futex.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base.h"

static_assert(sizeof(atomic_uint) == sizeof(uint32_t), "a futex is 32 bits");

bool tci_futex_wait(atomic_uint *word, unsigned value, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / TCI_NS_PER_S),
                             .tv_nsec = (long)(deadline_ns % TCI_NS_PER_S)};
    /* The bit set variant, since its time is a point and not a span. */
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
                      deadline_ns == TCI_NEVER ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);

    return rc == 0 || errno != ETIMEDOUT;
}

void tci_futex_wake(atomic_uint *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}
