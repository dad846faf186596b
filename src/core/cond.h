/* cond.h - conditions whose waits end at a time of the loop's clock. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_COND_H
#define TCI_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* 0, or an errno.  Ended by pthread_cond_destroy. */
int tci_cond_init(pthread_cond_t *cond);

/* Sleep until the condition is told, or until that time of CLOCK_MONOTONIC (TCI_NEVER: none).
 * False when that has come; true otherwise, also for no reason.  The lock is held. */
bool tci_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);

#endif
