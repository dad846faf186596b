/* futex.h - sleep on a word, wake who sleeps there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_FUTEX_H
#define TCI_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Sleep while *word is `value`, until the time of CLOCK_MONOTONIC (TCI_NEVER: none).  False when
 * that has come; true otherwise, also for no reason: look at the word again.  Any thread. */
bool tci_futex_wait(atomic_uint *word, unsigned value, uint64_t deadline_ns);

/* Wake all that sleep on the word.  Any thread. */
void tci_futex_wake(atomic_uint *word);

#endif
