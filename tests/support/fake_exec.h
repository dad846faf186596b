/* fake_exec.h - a loop that turns when a test says so, in a time of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_EXEC_H
#define FAKE_EXEC_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "core/exec.h"
#include "core/heap.h"
#include "core/inbox.h"

struct fake_queue {
    struct tci_task *head, **tail;
};

struct fake_exec {
    struct tci_exec exec; /* first */
    struct tci_inbox inbox;
    struct fake_queue posted, user;
    struct tci_heap timers;
    atomic_uint_fast64_t now_ns;
    unsigned user_runs; /* tasks that were run as user code */
    /* A thread that turns it, if asked for. */
    pthread_t thread;
    sem_t work;
    atomic_bool has_thread, is_ending;
};

void fake_exec_init(struct fake_exec *fake);
void fake_exec_fini(struct fake_exec *fake);

/* Run tasks until there are none, and the timers that are due; gives the number of both. */
unsigned fake_exec_run(struct fake_exec *fake);

/* Run this one task on the loop, and nothing else. */
void fake_exec_only(struct fake_exec *fake, struct tci_task *task);

/* Let time pass, and run. */
unsigned fake_exec_advance(struct fake_exec *fake, uint64_t span_ns);

/* Turn it on a thread of its own; waits then block, and time is that of CLOCK_MONOTONIC. */
void fake_exec_start(struct fake_exec *fake);
void fake_exec_stop(struct fake_exec *fake);

#endif
