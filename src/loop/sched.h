/* sched.h - what the system's scheduler is asked and told. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_LOOP_SCHED_H
#define TCI_LOOP_SCHED_H

#include <pthread.h>
#include <stdint.h>

/* Processors by their numbers; those beyond are left out. */
enum { TCI_CPUS = 1024 };
struct tci_cpus {
    uint64_t words[TCI_CPUS / 64];
};
static inline void tci_cpus_add(struct tci_cpus *cpus, const struct tci_cpus *more)
{
    for (int k = 0; k < TCI_CPUS / 64; k++)
        cpus->words[k] |= more->words[k];
}
static inline unsigned tci_cpus_count(const struct tci_cpus *cpus)
{
    unsigned count = 0;

    for (int k = 0; k < TCI_CPUS / 64; k++)
        count += (unsigned)__builtin_popcountll(cpus->words[k]);
    return count;
}

/* Those that this process may run on; none where that is not known. */
struct tci_cpus tci_sched_cpus(void);
/* Cores that this process may run on; 1 where that is not known, so that nobody spins. */
unsigned tci_sched_cores(void);
/* For who looks at the threads of this process; at most 15 characters. */
void tci_sched_name(pthread_t thread, const char *name);

#endif
