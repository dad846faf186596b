/* cell.h - one run: a group of processes, a fault, a moment, and what came of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CHAOS_CELL_H
#define TEST_CHAOS_CELL_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/rank.h"

enum { CHAOS_RANKS_MAX = 8, CHAOS_SLACK_MS = 1000 };

enum chaos_fault {
    FAULT_KILL,    /* SIGKILL */
    FAULT_EXIT,    /* exits without a word */
    FAULT_STOP,    /* SIGSTOP, for good */
    FAULT_PAUSE,   /* SIGSTOP, and SIGCONT well before the timeout */
    FAULT_UNPLUG,  /* its cable is pulled */
    FAULT_DROP,    /* all its packets are dropped */
    FAULT_DEAF,    /* those to it */
    FAULT_MUTE,    /* those from it */
    FAULT_APART,   /* those between it and one other rank */
    FAULT_HALVES,  /* the network falls apart: ranks below size / 2, and the others */
    FAULT_FAR,     /* its packets take 20 ms each way, and one of a hundred is lost */
    FAULT_CLOSE,   /* its sockets are closed under the library */
    FAULT_MEMORY,  /* no allocation succeeds any more */
    FAULT_LIMITED, /* nor does the system give memory, or a descriptor (setrlimit) */
    FAULTS
};
extern const char *const chaos_fault_names[FAULTS], *const chaos_moment_names[MOMENTS];

/* Whether it makes sense to strike then. */
bool chaos_is_possible(enum chaos_fault fault, enum chaos_moment moment);

struct chaos_cell {
    enum chaos_fault fault;
    enum chaos_moment moment;
    int size, victim, pause_ms;
    uint64_t random;
};

struct chaos_outcome {
    bool is_built;   /* the processes stood; else nothing is known */
    bool is_settled; /* all futures of all who live, in time */
    bool is_named;   /* all who failed name the right rank, and the same one */
    bool is_alarm;   /* something failed though nothing had to */
    int failed, reasons_right;
    double late_ms; /* the latest */
    char why[400];  /* of what is not as it should be */
};

/* Runs it; all its processes are gone then. */
void chaos_cell_run(const struct chaos_cell *cell, struct chaos_outcome *outcome);

#endif
