/* sched.c - processors and names of threads, of a system that binds threads to processors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/sched.h"

#include <sched.h>

unsigned tci_sched_cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1; /* more cores than the set has room for: no harm in not spinning */
    return (unsigned)CPU_COUNT(&set);
}

struct tci_cpus tci_sched_cpus(void)
{
    struct tci_cpus cpus = {{0}};
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return cpus;
    for (int cpu = 0; cpu < TCI_CPUS && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus.words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    return cpus;
}

void tci_sched_name(pthread_t thread, const char *name)
{
    (void)pthread_setname_np(thread, name);
}
