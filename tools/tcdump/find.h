/* find.h - what is wrong in a job, and who is at fault. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDUMP_FIND_H
#define TCDUMP_FIND_H

#include "job.h"

/* In the order in which they are told: what is a cause before what may follow from it. */
enum finding_kind {
    FIND_GONE,     /* a process that ended without having left its groups */
    FIND_MISMATCH, /* calls of one operation that differ */
    FIND_CYCLE,    /* ranks that wait for each other in a circle */
    FIND_STALL,    /* a loop that does not turn */
    FIND_MISSING,  /* a rank that has not entered what others wait in */
    FIND_LINK,     /* a link that is slower than the others */
    FIND_LATE,     /* a rank that comes later than the others */
    FIND_FAILED,   /* an operation or a group has failed */
    FIND_KINDS
};

struct finding {
    enum finding_kind kind;
    int32_t process; /* at fault; -1: none in particular */
    int32_t peer;    /* the other end of a link; else -1 */
    int64_t ns;      /* how long, or how late; 0: does not apply */
    size_t call;     /* it is about this one; SIZE_MAX: none */
    char text[1024];
};

/* How a rank comes to collectives. */
struct lateness {
    uint32_t calls, lasts; /* collectives that can be compared; of these, where it was the last */
    int64_t total_ns;      /* behind the median of the others, where it was the last: the union */
    int64_t most_ns;
    size_t most_call;    /* with most_ns > 0: the first that is late by most of that at once */
    uint32_t most_calls; /* … of so many */
};

/* What a message takes from one process to another, once both were ready. */
struct path {
    uint32_t from, to;
    uint32_t messages, awaited; /* awaited: by a receiver that was ready when they were sent */
    uint64_t bytes;
    int64_t median_ns, quick_ns; /* of a message; a quarter of those awaited take less */
    double ratio, quick_ratio;   /* the same to other paths, for messages of like length */
    bool is_slow;
};

/* A call in flight at one process that waits for another, which has not made it. */
struct edge {
    uint32_t from, to;
    size_t call;
    bool is_in_cycle;
    bool is_short; /* it may be made yet, and is not overdue: nothing wrong so far */
};

struct limits {
    int64_t late_ns;    /* a rank is late from here on */
    double slow_ratio;  /* a path is slow from here on … */
    int64_t slow_ns;    /* … if a message takes so much longer */
    int64_t stalled_ns; /* a loop is stalled from here on */
    int64_t wait_ns;    /* a rank that runs is missing from here on */
};

struct found {
    const struct job *job;
    struct limits limits;
    struct finding *findings;
    size_t finding_count;
    size_t failed_more;        /* operations that failed, too, without a finding */
    struct lateness *lateness; /* of each process */
    size_t not_compared;       /* collectives with tags whose uses are not counted */
    struct path *paths;
    size_t path_count;
    struct edge *edges;
    size_t edge_count;
    bool lacks_memory;
};

/* Everything there is to find, sorted; false without memory. */
bool find_all(struct found *found, const struct job *job, const struct limits *limits);
void find_fini(struct found *found);

/* Whether a call is not over, or ended by its deadline or a loss. */
bool find_is_waiting(const struct call *call);
/* When a process was ready for it: the futures were there, too. */
int64_t find_came(const struct call *call);
/* Whether a process should have made the calls begin … end, and has not; false where its ring may
 * have forgotten. */
bool find_lacks(const struct job *job, size_t begin, size_t end, uint32_t process);
/* "it entered broadcast tag 6 last, 2.10 s ago", and what else is known of it. */
const char *find_last_words(const struct job *job, uint32_t process, char text[JOB_TEXT * 2]);

/* Parts of find_all. */
struct finding *find_add(struct found *found, enum finding_kind kind, int32_t process, size_t call);
void find_states(struct found *found);     /* find_states.c */
void find_mismatches(struct found *found); /* find_calls.c */
void find_edges(struct found *found);
void find_missing(struct found *found);
void find_cycles(struct found *found); /* find_cycles.c */
void find_late(struct found *found);   /* find_late.c */
void find_slow(struct found *found);   /* find_slow.c */

#endif
