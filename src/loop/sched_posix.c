/* sched_posix.c - processors of a system that says how many there are, if that. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/sched.h"

#include <unistd.h>

unsigned tci_sched_cores(void)
{
    long cores = 1;

#ifdef _SC_NPROCESSORS_ONLN
    cores = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return cores < 1 ? 1 : (unsigned)cores;
}

struct tci_cpus tci_sched_cpus(void)
{
    return (struct tci_cpus){{0}};
}

void tci_sched_name(pthread_t thread, const char *name)
{
    (void)thread;
    (void)name;
}
