/* plan.h - PORT: a collective as data: what each rank does, in what order, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_PLAN_H
#define TCI_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/hosts.h"

/* A plan is a pure function from (shape, step number) to one step.  It holds no pointer,
 * allocates nothing, reads no clock: the same plan is run by the engine, replayed by the
 * simulator and proved by the checker. */

enum { TCI_WINDOW = 64 }; /* steps of a lane that may be open at once */

enum tci_step_kind {
    TCI_STEP_SEND,        /* send src to peer, for its step number `match` */
    TCI_STEP_RECV,        /* receive dst from peer */
    TCI_STEP_RECV_REDUCE, /* dst = src op what comes from peer; in rank order where that matters */
    TCI_STEP_FOLD,        /* dst = fold in rank order of all ranks: src (own) and the scratch slots
                           * 0 … size-2 of the other ranks, in rank order, own rank left out */
    TCI_STEP_COPY,        /* dst = src */
    /* The canonical fold in parts, in plans that are `wide`: dst or src is a slot of TMP that holds
     * the accumulator (core/reduce_wide.h). */
    TCI_STEP_WIDEN, /* accumulator dst = src */
    TCI_STEP_ADD,   /* accumulator dst = dst op src */
    TCI_STEP_ROUND  /* dst = accumulator src, rounded; an AVG is divided here */
};

/* Whether a step moves something between ranks. */
static inline bool tci_step_is_message(uint8_t kind)
{
    return kind <= TCI_STEP_RECV_REDUCE;
}

/* Three buffers.  In place, SRC and DST name the same memory, and plans are asked with
 * shape.in_place set, so that they order their touches accordingly. */
enum tci_buf { TCI_BUF_SRC, TCI_BUF_DST, TCI_BUF_TMP };

/* A run of consecutive blocks of a buffer.  How blocks lie in SRC and DST is the collective's
 * business (see tci_layout); TMP has equal slots, each as large as the largest block.
 *
 * A slot of TMP has no length of its own: a step is as long as its slice in SRC or DST.  SEND
 * from TMP and RECV into TMP therefore name in their other slice blocks that are as long as the
 * message, as many of them, and do not touch these.  RECV_REDUCE and COPY from TMP to TMP name
 * such blocks in `as`.
 *
 * A message is one piece of memory, so SEND, RECV and RECV_REDUCE may name several blocks only
 * where those lie close together: cuts of a payload (TCI_LAYOUT_CUT), or slots of a plan that is
 * `packed`.  COPY may name several anywhere, FOLD one. */
struct tci_slice {
    uint8_t buf;
    uint32_t block;
    uint32_t more; /* blocks beyond the first */
};

enum { TCI_STEP_WAITS = 3 }; /* wait and pace */

struct tci_step {
    uint8_t kind;    /* enum tci_step_kind */
    uint8_t wait[2]; /* starts after step i - wait[k] has ended (1 … 63); 0: none */
    uint8_t pace;    /* a third wait, for the network's sake alone: a plan is right without it */
    bool fence;      /* starts after every earlier step has ended */
    bool last;       /* RECV_REDUCE: dst is complete after it, an AVG is divided here */
    bool wide;       /* SEND from TMP, RECV into TMP: of accumulators */
    bool answers;    /* RECV: the peer sends it once it has got what this rank sends it from the
                      * same memory, so it does not wait for that SEND, and its credit is there */
    uint32_t peer;   /* SEND, RECV*: the other rank */
    uint32_t match;  /* SEND: number of the peer's receiving step */
    struct tci_slice src, dst;
    struct tci_slice as; /* from TMP to TMP: blocks of SRC or DST that are as long */
};

/* Everything that a plan may depend on. */
struct tci_shape {
    uint32_t rank, size, root;
    uint32_t radix; /* trees: children a node; at least 2 */
    uint32_t cuts;  /* pipelines: pieces of the payload that follow one another; at least 1 */
    const struct tci_hosts *hosts; /* borrowed: which ranks share a host; NULL: all share one */
    bool in_place; /* SRC and DST are the same memory; where only the root has both, at the root */
};

/* How a collective lays its blocks out: which plans it can use. */
enum tci_layout {
    TCI_LAYOUT_CUT,      /* SRC and DST hold the payload, cut in near-equal blocks: all-reduce,
                          * reduce (DST at the root alone), broadcast (SRC is DST there, always in
                          * place), send and receive */
    TCI_LAYOUT_GATHER,   /* DST holds a payload a rank, block b of rank b; SRC holds one, block 0;
                          * in place SRC block 0 is DST block `rank`; gather: DST at the root */
    TCI_LAYOUT_SCATTER,  /* SRC holds a payload a rank, block b for rank b; DST holds one, block 0;
                          * in place DST block 0 is SRC block 0; scatter: SRC at the root alone, in
                          * place DST block 0 is SRC block `rank` */
    TCI_LAYOUT_EXCHANGE, /* SRC holds a payload for each rank, DST one of each rank; in place they
                          * are the same memory: all-to-all */
    TCI_LAYOUT_NONE      /* no payload: barrier; every message is empty */
};

/* On the wire, in the call: never reused, only added to. */
enum tci_coll {
    TCI_COLL_ALLREDUCE,
    TCI_COLL_BROADCAST,
    TCI_COLL_ALLGATHER,
    TCI_COLL_REDUCE_SCATTER,
    TCI_COLL_BARRIER,
    TCI_COLL_P2P, /* send and receive: same code on the wire at both ends */
    TCI_COLL_REDUCE,
    TCI_COLL_GATHER,
    TCI_COLL_SCATTER,
    TCI_COLL_ALLTOALL,
    /* With a count of its own for each block.  They use the plans of those without. */
    TCI_COLL_ALLGATHERV,
    TCI_COLL_REDUCE_SCATTERV,
    TCI_COLL_ALLTOALLV,
    /* Of several plans (stages.h); MAX: with lengths that differ, up to k_max. */
    TCI_COLL_ALLREDUCE_SPARSE,
    TCI_COLL_ALLREDUCE_SPARSE_MAX,
    TCI_COLL_ALLREDUCE_TOPK,
    TCI_COLL_ALLREDUCE_TOPK_MAX,
    TCI_COLL_ALLREDUCE_COMPRESSED,
    TCI_COLL_COUNT
};

/* The collective whose plans this one uses, first: of ALLGATHERV that is ALLGATHER. */
enum tci_coll tci_coll_base(enum tci_coll coll);

/* "allreduce", …; P2P is "send" to the caller or "recv", see op.c. */
const char *tci_coll_name(enum tci_coll coll);

struct tci_plan {
    const char *name; /* "ring": the algorithm */
    enum tci_coll coll;
    enum tci_layout layout;
    uint8_t id;     /* on the wire; unique within coll, stable; at most 63 */
    bool canonical; /* folds in rank order, rounds once; also true where nothing folds */
    bool whole;     /* a fold sees the contributions of all ranks at once: may be exact */
    bool is_used;   /* offered to users; false: only by name */
    bool equal;     /* only for blocks of one length, in one piece: not for the v-forms */
    bool by_host;   /* looks at shape.hosts */
    bool packed;    /* the slots of TMP lie close together */
    bool wide;      /* the slots of TMP have room for accumulators; always canonical */
    uint32_t (*steps)(const struct tci_shape *shape);
    uint32_t (*blocks)(const struct tci_shape *shape); /* cuts of the payload; CUT only, else 1 */
    uint32_t (*slots)(const struct tci_shape *shape);  /* of TMP */
    /* Pipelines: messages that one piece of the payload waits for on its way, which is what more
     * pieces hide.  NULL where the plan takes no notice of `cuts`. */
    uint32_t (*depth)(const struct tci_shape *shape);
    void (*step)(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out);
};

#endif
