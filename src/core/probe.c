/* probe.c - the system reads them for us: it fails where we would end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/probe.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/assert.h"

/* A set of signals is copied in before the system sees that nothing can be done with it.  The word
 * around a byte is in one page. */
static bool can_be_copied(const void *at)
{
    uintptr_t word = (uintptr_t)at & ~(uintptr_t)7;

    return syscall(SYS_rt_sigprocmask, ~0, word, NULL, 8) == 0 || errno != EFAULT;
}

/* All at once, but memory of devices is not read so: then each by itself. */
bool tci_probe(const void *const *at, unsigned count)
{
    char seen[TCI_PROBES_MAX];
    struct iovec there[TCI_PROBES_MAX], here = {.iov_base = seen, .iov_len = count};
    ssize_t got;

    TC_ASSERT(count > 0 && count <= TCI_PROBES_MAX);
    for (unsigned i = 0; i < count; i++)
        there[i] = (struct iovec){.iov_base = (void *)(uintptr_t)at[i], .iov_len = 1};
    got = process_vm_readv(getpid(), &here, 1, there, count, 0);
    if ((got < 0 && errno != EFAULT) || got == (ssize_t)count)
        return true; /* or there is a filter of system calls */
    for (unsigned i = 0; i < count; i++)
        if (!can_be_copied(at[i]))
            return false;
    return true;
}
