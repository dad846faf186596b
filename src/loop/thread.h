/* thread.h - threads of the library's own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_THREAD_H
#define TCI_THREAD_H

#include <pthread.h>

/* Starts a thread that no signal of the application's ends up on: its handlers run on its own
 * threads.  It is joined by way of *thread_out, or, where that is NULL, ends by itself.  0, or an
 * errno.  Any thread. */
int tci_thread_start(void *(*fn)(void *), void *arg, pthread_t *thread_out);

#endif
