/* thread.c - threads of the library's own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/thread.h"

#include <signal.h>
#include <stddef.h>

int tci_thread_start(void *(*fn)(void *), void *arg, pthread_t *thread_out)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int result = pthread_attr_init(&attr);

    if (result != 0)
        return result;
    if (thread_out == NULL)
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(thread_out == NULL ? &thread : thread_out, &attr, fn, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return result;
}
