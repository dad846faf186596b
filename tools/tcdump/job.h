/* job.h - what the traces of all ranks say together: groups, calls, transfers, on one clock. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDUMP_JOB_H
#define TCDUMP_JOB_H

#include "trace_files.h"

/* Times are nanoseconds of the clock of the first process, once job_align() has run. */

struct process {
    const struct trace_file *file; /* borrowed */
    int64_t shift_ns;              /* to be added to its times */
    int64_t doubt_ns;              /* … right to so much; -1: only its wall clock is known */
    int64_t first_ns, seen_ns;     /* what its ring has; up to when it tells anything */
    bool is_forgetful;             /* its ring has let go of events */
    int64_t marked_ns;             /* from when on it has all marks; INT64_MIN: always */
    uint32_t rank;                 /* to be shown */
};

/* A group of ranks, whoever of them has left a trace. */
struct group {
    uint64_t job[2], number;
    uint32_t size;
    int32_t *process_of; /* owned; by rank; -1: no trace of it */
};

enum call_state { CALL_WAITS, CALL_RUNS, CALL_DRAINS, CALL_ENDED };

/* A call of an operation by a process.  Calls of one operation stand side by side. */
struct call {
    uint32_t group; /* index */
    uint32_t space, use;
    uint64_t tag;
    int32_t low, high;  /* ranks of a send and its receive; -1: a collective */
    uint32_t process;   /* index */
    int64_t begin_ns;   /* when the application has called */
    int64_t entered_ns; /* when its loop has taken that up */
    int64_t ran_ns;     /* when the futures were there that it was to start after; 0: no such */
    int64_t end_ns;     /* with CALL_ENDED */
    uint64_t bytes, count, word; /* word: see tci_trace_unpack_call */
    int32_t status;              /* 0: well, or not ended */
    int32_t culprit;             /* process; -1: none known */
    uint32_t thread;
    enum call_state state;
    bool has_word;
    char name[TCI_TRACE_NAME_TEXT], algorithm[TCI_TRACE_NAME_TEXT];
    struct tci_trace_seen_live live; /* unless CALL_ENDED */
};

/* A transfer's one end. */
struct transfer {
    uint32_t group, space, use, step, lane;
    uint64_t tag;
    int32_t from, to; /* ranks */
    bool is_send;
    uint32_t process;
    int64_t begin_ns, end_ns;
    uint64_t bytes;
};

struct job {
    struct process *processes;
    uint32_t process_count;
    struct group *groups;
    uint32_t group_count;
    struct call *calls; /* by operation, then process */
    size_t call_count;
    struct transfer *transfers; /* by message: its send and its receive side by side */
    size_t transfer_count;
    int64_t first_ns, seen_ns; /* of all */
};

/* files are borrowed and must live as long.  False without memory. */
bool job_build(struct job *job, const struct trace_files *files);
void job_fini(struct job *job);

/* Set the clocks right: clocks.c.  Called by job_build. */
void job_align(struct job *job);

/* The end of the calls of one operation that begin at `begin`, and where those of a call begin. */
size_t job_operation_end(const struct job *job, size_t begin);
size_t job_operation_begin(const struct job *job, size_t call);

/* Whether transfer i and the next are the two ends of one message. */
bool job_is_pair(const struct job *job, size_t i);

/* Whether a process has left the mark of a call: it was in it, though no event says so. */
bool job_has_mark(const struct job *job, const struct call *call, uint32_t process);

/* "rank 3", or "rank 3 of group 2:5" where that says more, into text. */
enum { JOB_TEXT = 256 };
const char *job_rank_text(const struct job *job, uint32_t group, int32_t rank, char *text);
/* "allreduce tag 7 (1024 x f32, sum)". */
const char *job_call_text(const struct job *job, const struct call *call, char *text);
/* The same without its arguments. */
const char *job_call_name(const struct job *job, const struct call *call, char *text);
/* The process of a rank of a group; -1: no trace of it. */
int32_t job_process_of(const struct job *job, uint32_t group, int64_t rank);
/* The rank of a process in a group; -1: it is not in it. */
int32_t job_rank_in(const struct job *job, uint32_t group, uint32_t process);

/* "2.10 s", "35 ms", "120 us". */
const char *job_time_text(int64_t ns, char text[32]);

#endif
