/* choice.h - which plan is the cheapest for a payload: worked out once, looked up ever after. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_CHOICE_H
#define TCI_CHOICE_H

#include "core/comm.h"

/* Numbers of tc_numerics_t are below this. */
enum { TCI_NUMERICS_COUNT = 4 };

/* What the choice depends on, beside the group. */
struct tci_ask {
    enum tci_coll coll;
    int numerics; /* resolved */
    enum tci_fold_class fold;
    bool folds;                  /* the collective reduces */
    const struct tci_plan *plan; /* only in what pieces; NULL: which plan too */
    uint64_t bytes;              /* of payload, as args->count counts it */
};

struct tci_choice {
    const struct tci_plan *plan; /* NULL: no plan is possible */
    uint32_t radix;
    uint32_t cuts;       /* of a lane, where the plan is a pipeline; 0: as its payload says */
    uint64_t lane_bytes; /* of payload; at least 1 */
};

/* A line of a table that was measured: from so many bytes on, this plan. */
struct tci_told {
    const struct tci_plan *plan; /* NULL: what the model says */
    enum tci_coll coll;          /* with blocks of one length */
    uint64_t bytes;
    int numerics;
    bool is_swift; /* counts for folds that run at the speed of memory, alone */
};

/* All choices of groups that are alike in size, segments and figures, shared by them.  Rows are
 * worked out when they are first asked for. */
struct tci_choices;

/* told: NULL, or `count` lines in ascending order of bytes, copied, that go before the model.  NULL
 * without memory.  Any thread. */
struct tci_choices *tci_choices_new(const struct tci_figures *figures, uint32_t size,
                                    uint64_t segment_bytes, const struct tci_told *told,
                                    size_t count);
void tci_choices_unref(struct tci_choices *choices); /* NULL is fine */

const struct tci_figures *tci_choices_figures(const struct tci_choices *choices);

/* The choice; false without memory.  is_legal: whether a plan keeps what `numerics` promises of a
 * reduction of such a type.  Any thread. */
typedef bool (*tci_is_legal)(const struct tci_plan *plan, const struct tci_ask *ask);
bool tci_choose(struct tci_choices *choices, const struct tci_ask *ask, tci_is_legal is_legal,
                struct tci_choice *choice_out);

/* Payload that a lane may carry at most. */
uint64_t tci_lane_bytes_max(enum tci_layout layout, uint32_t size, uint64_t segment_bytes);

#endif
