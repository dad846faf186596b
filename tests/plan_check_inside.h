/* plan_check_inside.h - what the parts of the plan checker share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_CHECK_INSIDE_H
#define PLAN_CHECK_INSIDE_H

#include "plan_check.h"

/* Which steps of one rank are known to have ended: those below top - 64, and those of the 64 before
 * top whose bit is set, bit d for step top - 1 - d.  Nothing is lost by that: a step opens only
 * after all that lie TCI_WINDOW back. */
struct plan_ended {
    uint32_t top; /* 0: none */
    uint64_t bits;
};

enum { PLAN_CLOCKS = 2 * TCI_WINDOW }; /* kept a rank: a window ahead of the base, one behind */

struct plan_rank {
    struct tci_shape shape;
    const struct tci_plan *plan;
    uint32_t steps, first; /* first: index of its step 0 among all ranks' steps */
    uint32_t base;         /* steps before it have ended */
    uint64_t open, ended;  /* of the steps from base on */
    uint32_t *cells;       /* value in each cell of memory; 0: undefined */
    uint32_t src_cells, dst_cells, tmp_cells;
};

/* A value: an input, a fold of all inputs in rank order, a op b, or the accumulator of such a fold
 * over the first ranks. */
enum plan_value_kind { PLAN_VALUE_INPUT, PLAN_VALUE_FOLD, PLAN_VALUE_OP, PLAN_VALUE_WIDE };

struct plan_value {
    uint8_t kind;
    uint32_t a, b; /* INPUT: rank; OP: values; WIDE: ranks */
    uint32_t block;
    uint32_t inputs; /* how many ranks' inputs are in it */
};

struct plan_values {
    struct plan_value *at; /* [0] is not used */
    uint64_t *inputs;      /* words of bits a value: whose inputs are in it */
    uint32_t count, max, words;
    uint32_t *table; /* hash table of values; 0: free */
    uint32_t table_size;
};

struct plan_clocks {
    uint32_t width;            /* entries of a clock: one a rank, or only the own */
    uint32_t kept;             /* clocks a rank */
    struct plan_ended *at;     /* of step i: at its opening, later at its end */
    struct plan_ended *prefix; /* of step i: at the end of all up to it */
    struct plan_ended *own;    /* for each step: what its opening knows of its own rank */
};

struct plan_proof {
    struct plan_case subject;
    struct plan_rank *ranks;
    struct tci_step *steps; /* of all ranks, one after the other */
    uint32_t *sender;       /* of each receiving step: the sending one; NO_STEP */
    uint32_t steps_count;
    struct plan_values values;
    struct plan_clocks clocks;
    char *why;
    size_t why_max;
};

#define NO_STEP UINT32_MAX
#define NO_CELL UINT32_MAX

/* Write why the proof fails, with the step where it does; gives false. */
__attribute__((format(printf, 4, 5))) bool plan_fails(struct plan_proof *proof, uint32_t rank,
                                                      uint32_t i, const char *format, ...);

static inline struct tci_step *plan_step(const struct plan_proof *proof, uint32_t rank, uint32_t i)
{
    return &proof->steps[proof->ranks[rank].first + i];
}

/* The cell of memory that a block of a slice of a rank is; in place, two can be one cell. */
uint32_t plan_cell(const struct plan_proof *proof, uint32_t rank, struct tci_slice slice,
                   uint32_t block);

/* Whether a buffer holds a block for each rank. */
bool plan_has_each_rank(const struct tci_plan *plan, uint8_t buf);

/* Whether a rank has SRC or DST at all: some collectives give one to the root alone. */
bool plan_has_buffer(const struct plan_proof *proof, uint32_t rank, uint8_t buf);

/* plan_match.c: 1. */
bool plan_match_check(struct plan_proof *proof);

/* plan_value.c: 3 and 5. */
void plan_values_init(struct plan_proof *proof);
void plan_values_fini(struct plan_proof *proof);
bool plan_values_move(struct plan_proof *proof, uint32_t from, uint32_t to, uint32_t to_step);
bool plan_values_local(struct plan_proof *proof, uint32_t rank, uint32_t i);
bool plan_values_check(struct plan_proof *proof);

/* plan_order.c: 4, and that a barrier is one. */
void plan_clocks_init(struct plan_proof *proof);
void plan_clocks_fini(struct plan_proof *proof);
void plan_clocks_open(struct plan_proof *proof, uint32_t rank, uint32_t i);
void plan_clocks_end(struct plan_proof *proof, uint32_t rank, uint32_t i);
void plan_clocks_move(struct plan_proof *proof, uint32_t from, uint32_t send, uint32_t to,
                      uint32_t recv);
void plan_clocks_pass(struct plan_proof *proof, uint32_t rank, uint32_t i);
bool plan_order_check(struct plan_proof *proof);

#endif
