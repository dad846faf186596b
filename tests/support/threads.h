/* threads.h - how many threads this process has. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_THREADS_H
#define TEST_THREADS_H

/* Threads of the process, once their number stands still: the system shows a thread for a moment
 * after it was joined.  0 when the system does not say. */
unsigned count_threads(void);

#endif
