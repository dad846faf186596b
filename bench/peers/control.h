/* control.h - what the ranks of a run share, and what the parts of the harness lend each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_CONTROL_H
#define PEERS_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#include "harness.h"

enum { RANKS_MAX = 16, SAMPLES_MAX = 4000 };

/* Arrivals, generations and plans on cache lines of their own. */
struct harness_control {
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t generation;
    _Alignas(64) _Atomic long planned; /* what rank 0 has decided for all */
    _Atomic int wrong;
    _Alignas(64) double times[SAMPLES_MAX][RANKS_MAX];
};

/* The system's monotonic clock. */
double harness_now_us(void);

/* Ends the process; errno says why. */
_Noreturn void harness_die(const char *what);

/* What rank 0 says; all ranks call it. */
long harness_agree(struct harness *harness, long value);

/* Fills, calls and compares every element; notes in the control block when one is wrong. */
void check_call(struct harness *harness, const struct harness_call *call);

/* The lines "synced" and "back_to_back". */
void sample_synced(struct harness *harness, const struct harness_call *call);
void sample_batches(struct harness *harness, const struct harness_call *call);

/* 64 in flight ("many"), where the library can, and 64 one after the other ("in_turn"). */
void sample_many(struct harness *harness, const struct harness_call *call);

/* "urgent_idle" and "urgent". */
void sample_urgent(struct harness *harness, const struct harness_call *call,
                   const struct harness_call *bulk);

/* "hidden", "slowdown"; beside: rank 0 alone computes. */
void sample_overlap(struct harness *harness, const struct harness_call *call, bool is_beside);

/* "wait_cpu". */
void sample_waiting(struct harness *harness, const struct harness_call *call);

/* The median over the samples of the largest of the ranks' times; rank 0 alone prints.  Sorts
 * into `worst_out`, which has room for the samples, and leaves out those that are NAN; gives their
 * number. */
int sample_worst(const struct harness *harness, int samples, double *worst_out);

/* One line, by rank 0. */
void sample_print(const struct harness *harness, const struct harness_call *call,
                  const char *metric, int samples, double median, double best);

#endif
