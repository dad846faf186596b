/* harness.h - measures operations on tensors in the same way for every library. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_HARNESS_H
#define PEERS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks of one run share a control block: a file that `--control` names, or memory that the
 * ranks inherit.  Starts are aligned and times are collected there and never through the library
 * that is measured, so that the harness costs the same for all of them.
 *
 * A time is the maximum over the ranks of what the rank's own clock says.  A line of CSV each:
 * library,variant,op,dtype,metric,ranks,bytes,samples,median,best
 *
 *   synced            us: the ranks meet before each call
 *   back_to_back      us: the ranks meet before a batch of calls, whose time is divided
 *   many              us: 64 operations of `bytes` in flight, until the last has ended
 *   in_turn           us: the same 64 called one after the other
 *   urgent_idle       us: an operation of high priority, nothing else going on
 *   urgent            us: the same while 256 MiB are all-reduced
 *   hidden            %: of the time of an operation that passes while every rank computes
 *   hidden_beside     %: the same where rank 0 alone computes, on one core, and all else, also what
 *                        is timed alone, has one other core
 *   slowdown          %: by which that computing takes longer than alone
 *   slowdown_beside   %
 *   wait_cpu          %: of a processor that a rank uses while it waits for rank 0 to come
 */

enum harness_op {
    HARNESS_ALL_REDUCE,
    HARNESS_REDUCE_SCATTER,
    HARNESS_ALL_GATHER,
    HARNESS_BROADCAST, /* from rank 0 */
    HARNESS_ALL_TO_ALL,
    HARNESS_BARRIER,
    HARNESS_OPS
};

enum harness_dtype { HARNESS_F32, HARNESS_BF16, HARNESS_F16, HARNESS_DTYPES };

/* What is measured together; `--sets` chooses. */
enum harness_set {
    HARNESS_SET_ALL_REDUCE,
    HARNESS_SET_COLLECTIVES, /* the other ones */
    HARNESS_SET_TYPES,       /* all-reduces of the same number of f32, bf16, f16 */
    HARNESS_SET_MANY,
    HARNESS_SET_URGENT,
    HARNESS_SET_OVERLAP,
    HARNESS_SET_WAITING,
    HARNESS_SETS
};

enum { HARNESS_SLOTS = 64, HARNESS_SLOT_BULK = HARNESS_SLOTS, HARNESS_SLOTS_ALL };

/* One operation.  `bytes` are the whole: what a rank puts into a reduce-scatter or an all-to-all,
 * what it gets out of an all-gather; a block is the rank's part of that.  All-reduces and
 * broadcasts are in place, the others are not. */
struct harness_call {
    enum harness_op op;
    enum harness_dtype dtype;
    size_t bytes;
    size_t count; /* elements in `bytes` */
    size_t block; /* elements of one rank's part, where there are parts */
    void *send;   /* where the operation is in place: recv */
    void *recv;
    int slot;       /* which of the operations in flight */
    bool is_urgent; /* goes before others */
};

struct harness_control;

struct harness {
    const char *library; /* borrowed, as all pointers here but control and memory */
    const char *variant; /* --variant */
    int ranks;           /* --ranks */
    int rank;
    double budget_s;          /* --budget: time for the calls of one line */
    size_t bytes_min;         /* --min-bytes: smaller sizes are left out */
    size_t bytes_max;         /* --max-bytes: larger sizes are left out */
    const char *sizes;        /* --sizes: those alone, with commas; NULL: all */
    unsigned sets;            /* --sets, a bit each */
    bool is_pinned;           /* --pin: each rank keeps to one processor */
    bool is_crowded;          /* more ranks than processors: waiting gives the processor away */
    const char *control_path; /* --control */
    struct harness_control *control; /* owned, to the end of the process */
    void *memory[2];                 /* memory_len each; owned, to the end of the process */
    size_t memory_len;

    /* What the library brings; each is called with `library_arg`. */
    void *library_arg;
    /* Before an operation is measured; false: the library has no such thing.  NULL: has all. */
    bool (*prepare)(void *arg, const struct harness_call *call);
    void (*call)(void *arg, const struct harness_call *call);  /* from start to end */
    void (*start)(void *arg, const struct harness_call *call); /* of a slot; NULL: cannot */
    bool (*is_done)(void *arg, int slot);                      /* looks, and carries on */
    void (*wait)(void *arg, int slot);                         /* for the end, and forgets it */
    bool has_priority;                                         /* is_urgent means something */
    void (*settle)(void *arg);   /* the library's own barrier, before ranks meet; NULL: none */
    void (*progress)(void *arg); /* lets the library work while the rank waits; NULL: nothing */
    bool has_threads;            /* threads of the library need a processor while the rank waits */
};

/* Reads the command line; ends the process when it is wrong. */
void harness_parse(struct harness *harness, int argc, char **argv);

/* Starts the ranks as children.  True in each of them, with its rank; false in the parent, when
 * all have ended, with the exit code for it. */
bool harness_fork(struct harness *harness, int *exit_code_out);

/* Maps the control block, places the rank, allocates `memory`.  With `rank` and `ranks` set. */
void harness_open(struct harness *harness);

/* Waits until all ranks are here. */
void harness_meet(struct harness *harness);

/* Checks and measures every set; gives the exit code of the rank. */
int harness_run(struct harness *harness);

#ifdef __cplusplus
}
#endif

#endif
