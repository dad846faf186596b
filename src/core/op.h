/* op.h - one collective: start, fail, drain, settle. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_OP_H
#define TCI_OP_H

#include "core/error.h"
#include "core/exec.h"
#include "core/future.h"
#include "core/list.h"
#include "core/plan.h"
#include "core/reduce.h"
#include "core/stages.h"
#include "core/tags.h"
#include "core/transport.h"

struct tci_comm;
struct tci_op;

/* So long after its deadline an operation may still wait to be told who is at fault. */
enum { TCI_OP_LATE_MS = 900 };

/* Segments of one operation that are under way at once: a ring has the whole bandwidth with two,
 * two more hide the fold. */
enum { TCI_LANES_MAX = 4 };
/* The lane behind those walks through args.check. */
enum { TCI_LANE_CHECK = TCI_LANES_MAX, TCI_LANES_ALL };

/* A transfer of a step. */
struct tci_step_xfer {
    struct tci_xfer x; /* first: the completion queue gives it back */
    struct tci_lane *lane;
    struct tci_step_xfer *next_free;
    uint64_t begin_ns;
    uint32_t step, peer; /* the peer's number in the group */
    uint8_t cell;        /* 1 + its place in the trace's list of what is waited for; 0: none */
};

/* One segment's walk through the plan.  Bit k of `open`, `ended`, `known` and `fenced` speaks of
 * step base + k.  A step is asked for when it comes into the window and again when it opens; what
 * it waits for is kept in between. */
struct tci_lane {
    struct tci_op *op;
    const struct tci_plan *plan; /* that of the operation, or args.check */
    uint32_t steps;              /* of it */
    uint32_t index;              /* of the segment; of the check: UINT32_MAX */
    uint32_t base;               /* first step that has not ended */
    uint64_t open, ended;
    uint64_t known, fenced; /* whose waits are kept; of these, those with a fence */
    size_t first, count;    /* elements of the payload */
    uint8_t *tmp;           /* owned scratch, or NULL */
    size_t slot_bytes;
    uint32_t round;            /* messages of a round that is under way; 0: steps go one by one */
    bool is_folding;           /* a long FOLD goes on in the next turn … */
    uint32_t fold_step;        /* … of this step … */
    size_t fold_done;          /* … from this element */
    struct tci_list link_busy; /* in comm->busy while it does */
    uint8_t back[TCI_WINDOW][TCI_STEP_WAITS]; /* waits of step i at [i % TCI_WINDOW] */
};

enum tci_op_state {
    TCI_OP_NEW,     /* made by the caller's thread, on its way to the loop */
    TCI_OP_WAITING, /* for the futures it was told to start after */
    TCI_OP_RUNNING,
    TCI_OP_DRAINING, /* failed; waits for the last transfer to end */
    TCI_OP_SETTLED
};

/* The v-forms: how many elements each block has, and where it begins in its buffer, in elements.
 * NULL: `count` elements each, one after the other. */
struct tci_blocks {
    const size_t *src_counts, *src_offsets, *dst_counts, *dst_offsets;
};

/* What the layer above has checked and chosen. */
struct tci_op_args {
    const char *name; /* static: "allreduce" */
    const struct tci_plan *plan;
    /* A barrier that goes beside the plan, or NULL: the operation ends when both have, so that no
     * rank is done before it has heard, by way of others, that all have made this call. */
    const struct tci_plan *check;
    bool checks_last; /* it begins where the plan has ended */
    struct tci_shape shape;
    struct tci_call call;
    struct tci_fold fold; /* where call.op is one */
    const void *send;
    void *recv;
    size_t count; /* of the payload, or of the largest block */
    size_t elem_bytes, lane_elems;
    struct tci_blocks blocks; /* copied */
    uint64_t tag;             /* TC_TAG_ORDERED is resolved by the caller */
    uint32_t space;
    int32_t peer;             /* of a send or receive; else TCI_ALL_PEERS */
    int priority, timeout_ms; /* -1: none */
    tc_future *const *after;
    size_t n_after;
    bool auto_release, is_canonical;
    const char *(*plan_name)(enum tci_coll coll, uint8_t id); /* of any plan; NULL: by number */
    struct tci_stages *stages; /* given away with the call; NULL: the plan is all there is */
    bool is_from_self;         /* a receive from this rank */
    bool is_named;             /* the plan was asked for; only its pieces were chosen */
    /* All of this but buffers and tag follows from the call and from the choices of the group, as
     * long as they have this version: it need not be worked out again. */
    bool is_plain;
    unsigned version;
    bool is_of_number; /* but the plan: it is what ordered calls take from some number on */
};

/* Ranks up to which a fold's inputs need no memory of their own. */
enum { TCI_OP_FEW = 8 };

struct tci_after; /* op.c */

struct tci_op {
    struct tci_task task;  /* brings it to the loop */
    struct tci_list link;  /* in comm->ops */
    struct tci_comm *comm; /* borrowed; outlives the operation */
    tc_future *future;     /* the operation's share */
    struct tci_op_args args;
    struct tci_key key; /* lane and step are filled in per transfer */
    struct tci_tag *tag;
    enum tci_op_state state;
    uint32_t blocks, slots;
    size_t lanes_total; /* segments */
    size_t lanes_next;
    uint32_t lanes_live, xfers_live;
    const void **inputs; /* of a FOLD, one a rank; NULL without; `few_inputs`, or owned */
    const void *few_inputs[TCI_OP_FEW];
    size_t *blocks_kept; /* owned, or NULL: where args.blocks points */
    struct tci_timer timer;
    uint64_t begin_ns, deadline_ns;
    uint64_t told_ns; /* when the others were told of its failure; 0: they need not, or have it */
    uint32_t live;    /* 1 + its entry in the trace's table of what is in flight; 0: none */
    uint32_t trace_names; /* by tci_trace_names; once it is traced */
    uint32_t live_cells;  /* which places of that entry are taken … */
    uint32_t old_cells;   /* … of these, by transfers that were open when it was promoted */
    uint64_t entered_ns;  /* where it is marked, or was */
    bool is_traced;       /* it leaves events, and has that entry if there was one */
    bool is_marked;       /* it leaves nothing but a mark (trace_flood.c), until it leaves more */
    bool is_enrolled;     /* it has entered: in comm->ops, with its use of the tag */
    /* Its timer has done: */
    bool is_shown;        /* its call was shown to those that it waits for */
    bool is_warned;       /* the log says whom it waits for; without a deadline, again and again */
    bool is_asked;        /* somebody was asked to say why it does not end: inquest.h */
    bool is_held;         /* calls of it differ: it will fail */
    bool is_up;           /* of such a one: the time for that; see dispute.c */
    int32_t asked, judge; /* the last that was asked, and who finds it out; -1: nobody so far */
    uint32_t tries;       /* how many were asked */
    uint64_t asked_ns;
    int32_t met; /* whose other call was met; -1: none */
    struct tci_call met_call;
    struct tci_after *after; /* owned, or NULL; op.c */
    struct tci_error error;
    struct tci_lane lanes[TCI_LANES_ALL];
};

size_t tci_op_bytes(void);

/* Start an operation; the caller owns the future, which may have failed already.  Any thread. */
tc_future *tci_op_start(struct tci_comm *comm, const struct tci_op_args *args);

/* The last operation that ended well and is plain, to be called once more: with other buffers and
 * another tag, and else as it is.  NULL: there is none, or another thread has it.  Who takes it
 * starts it, or drops it.  Any thread. */
struct tci_op *tci_op_take_recent(struct tci_comm *comm);
tc_future *tci_op_start_again(struct tci_op *op);
void tci_op_drop_recent(struct tci_comm *comm, struct tci_op *op);

/* An operation that tuning.admit has kept enters now.  Loop thread. */
void tci_op_enter(struct tci_op *op);

/* Stop opening steps, abort what is open, settle when the last transfer has ended.  The first
 * cause counts.  When tell is set the other ranks learn of it.  Loop thread. */
void tci_op_fail(struct tci_op *op, const struct tci_error *error, bool tell);
/* The same from its parts. */
__attribute__((format(printf, 5, 6))) void tci_op_fail_with(struct tci_op *op, tc_status_t status,
                                                            int rank, bool tell, const char *fmt,
                                                            ...);

/* Fail it as the group fails, or as others have: what the error says behind the operation's name
 * and tag.  Others are not told. */
void tci_op_fail_as(struct tci_op *op, const struct tci_error *error);
/* The record of a cause, its message behind the operation's name and tag. */
void tci_op_words(const struct tci_op *op, const tc_error *cause, tc_reason_t reason,
                  struct tci_error *error_out);

/* For the engine: all lanes are done; the last transfer of a draining operation has ended. */
void tci_op_done(struct tci_op *op);
void tci_op_drained(struct tci_op *op);

/* "tag 7", or "call 12 in order" into text. */
const char *tci_tag_print(uint32_t space, uint64_t tag, char *text, size_t text_bytes);
/* "allreduce(1024 x f32, sum, direct)": the whole call, for mismatches. */
const char *tci_call_print(const struct tci_comm *comm, const struct tci_call *call, char *text,
                           size_t text_bytes);
bool tci_call_is_equal(const struct tci_call *a, const struct tci_call *b);

#endif
