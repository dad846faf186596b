/* process.h - which process something was made in: a fork shows at the cost of one load. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_PROCESS_H
#define TCI_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

/* One page of the process holds its number, and the kernel gives a child that page empty
 * (MADV_WIPEONFORK): what was made before the fork has another number than what the page says.
 * Where the kernel cannot do that, the numbers of the processes are compared. */
struct tci_process {
    const atomic_uint *page; /* NULL: there is none */
    unsigned number;         /* never 0 */
    pid_t pid;
};

/* This process.  Any thread. */
void tci_process_get(struct tci_process *out);

static inline bool tci_process_is_this(const struct tci_process *process)
{
    /* relaxed: the page changes at a fork alone, or before anyone has a number. */
    if (process->page != NULL)
        return atomic_load_explicit(process->page, memory_order_relaxed) == process->number;
    return process->pid == getpid();
}

#endif
