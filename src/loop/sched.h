/* sched.h - what the system's scheduler is asked and told. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_LOOP_SCHED_H
#define TCI_LOOP_SCHED_H

#include <pthread.h>

/* Cores that this process may run on; 1 where that is not known, so that nobody spins. */
unsigned tci_sched_cores(void);
/* For who looks at the threads of this process; at most 15 characters. */
void tci_sched_name(pthread_t thread, const char *name);

#endif
