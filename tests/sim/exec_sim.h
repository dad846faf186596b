/* exec_sim.h - many event loops in one thread, on one virtual clock. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_EXEC_SIM_H
#define TEST_EXEC_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/exec.h"
#include "core/heap.h"

struct sim_clock;
struct sim_exec;

/* Something that happens at a time on the loop of one rank; memory of whoever adds it, free again
 * when fn is called, which happens once. */
struct sim_event {
    struct sim_exec *exec;
    void (*fn)(struct sim_event *self);
};

struct sim_queue {
    struct tci_task *head, **tail;
};

/* The loop of one rank. */
struct sim_exec {
    struct tci_exec exec;    /* first */
    struct sim_clock *clock; /* borrowed */
    struct sim_queue posted, user;
    struct tci_heap timers;
    struct sim_event turn, wake;
    bool has_turn;          /* `turn` is in the clock */
    uint64_t wake_ns;       /* when `wake` is due; TCI_NEVER: it is not */
    uint64_t stalled_to_ns; /* the loop does not turn before */
    uint64_t ahead_ns;      /* of its own clock before the common one */
    bool is_dead;           /* nothing of it runs any more */
};

struct sim_slot {
    uint64_t at_ns, seq;
    struct sim_event *event;
};

/* What is to come, the earliest first; at one time, in the order in which it was added. */
struct sim_clock {
    uint64_t now_ns, seq;
    struct sim_slot *slots; /* owned, a heap */
    size_t count, room;
    struct sim_exec *turning; /* whose loop is turning right now; NULL: none */
    uint64_t events;          /* that have happened */
};

void sim_clock_init(struct sim_clock *clock);
void sim_clock_fini(struct sim_clock *clock);
/* Let something happen; a time that has passed means now. */
void sim_clock_add(struct sim_clock *clock, uint64_t at_ns, struct sim_event *event);
/* The next thing happens; false: nothing is to come, or nothing before `end_ns`. */
bool sim_clock_step(struct sim_clock *clock, uint64_t end_ns);

void sim_exec_init(struct sim_exec *exec, struct sim_clock *clock);
void sim_exec_fini(struct sim_exec *exec);

/* From seed to numbers: xorshift; the state is never 0. */
uint64_t sim_random(uint64_t *state);

#endif
