/* exec.h - PORT: time and turn, all that core asks of an event loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_EXEC_H
#define TCI_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/status.h"

struct tc_future;
struct tci_exec;

/* Something to run once on the loop; memory of the poster's, free again when fn is called. */
struct tci_task {
    struct tci_task *next;
    void (*fn)(struct tci_task *self);
};

/* Something to run once at a time.  All zero at first, but for fn. */
struct tci_timer {
    uint64_t deadline_ns;
    size_t heap_at; /* 1 + place in the heap; 0: not armed */
    void (*fn)(struct tci_timer *self);
};

/* Something that brings work in: polled while the loop is hot, armed before it sleeps. */
struct tci_source {
    struct tci_source *prev, *next;
    /* Do what can be done without blocking; gives the amount, 0 for nothing. */
    unsigned (*poll)(struct tci_source *self, unsigned budget);
    /* Make sure that the sleep ends when something comes; false: something is there, poll. */
    bool (*arm)(struct tci_source *self);
    /* Whether work is in flight here, so that spinning for it is worth while. */
    bool (*expects)(struct tci_source *self);
};

struct tci_exec_ops {
    /* CLOCK_MONOTONIC, or time of its own.  Any thread. */
    uint64_t (*now_ns)(struct tci_exec *self);
    /* The same, read anew even where a turn keeps its time; NULL: now_ns does so.  Any thread. */
    uint64_t (*clock_ns)(struct tci_exec *self);
    /* Run the task in the next turn.  Loop thread. */
    void (*post)(struct tci_exec *self, struct tci_task *task);
    /* The same from any thread; wakes a loop that sleeps. */
    void (*post_remote)(struct tci_exec *self, struct tci_task *task);
    /* The same, at once and within the call where the caller may turn the loop and nobody does;
     * now_ns: the time that it is.  True: the next wait is to turn the loop, though what it waits
     * for may be there.  NULL: post_remote does. */
    bool (*run_or_post)(struct tci_exec *self, struct tci_task *task, uint64_t now_ns);
    /* Run the task where user code runs: with no library frame below it but the turn. */
    void (*post_user)(struct tci_exec *self, struct tci_task *task);
    /* Arm or move a timer; -1 without memory.  Loop thread. */
    int (*timer_set)(struct tci_exec *self, struct tci_timer *timer, uint64_t deadline_ns);
    void (*timer_clear)(struct tci_exec *self, struct tci_timer *timer);
    void (*source_add)(struct tci_exec *self, struct tci_source *source);
    void (*source_del)(struct tci_exec *self, struct tci_source *source);
    /* Whether the caller is the loop: turning it right now, on this thread. */
    bool (*is_here)(struct tci_exec *self);
    /* Return when the future is settled or the time (TCI_NEVER: none) has come; turns the loop
     * where that is the caller's business.  Any thread but inside the loop. */
    void (*wait)(struct tci_exec *self, struct tc_future *future, uint64_t deadline_ns);
};

struct tci_exec {
    const struct tci_exec_ops *ops;
};

/* For measuring how long something takes. */
static inline uint64_t tci_exec_clock(struct tci_exec *exec)
{
    return exec->ops->clock_ns != NULL ? exec->ops->clock_ns(exec) : exec->ops->now_ns(exec);
}

#endif
