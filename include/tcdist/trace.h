/* trace.h - the last events of a context, and spans that the application adds to them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_TRACE_H
#define TCDIST_TRACE_H

#include <stdint.h>

#include "tcdist/context.h"

TC_BEGIN_DECLS

/* Nanoseconds of CLOCK_MONOTONIC, the clock of every trace event.  Any thread. */
TC_API uint64_t tc_trace_now_ns(void);

/* Add a span of the application's own (compute, loading, …) that began at begin_ns and ends now.
 *
 * name is a string that lives as long as the context (a literal); id tells spans of one name
 * apart.  Any thread. */
TC_API void tc_trace_span(tc_context *context, const char *name, uint64_t id, uint64_t begin_ns);

/* One event as tc_trace_visit() shows it. */
typedef struct tc_trace_event {
    const char *name;     /* "allreduce", "fold", or a span's own */
    const char *category; /* "collective", "step", "transfer", "app" */
    uint64_t begin_ns;    /* as tc_trace_now_ns() */
    uint64_t end_ns;      /* begin_ns for an instant */
    uint64_t tag;         /* of the operation, or the span's id */
    uint64_t bytes;       /* of payload; 0 where there is none */
    int rank;             /* in the group; -1 where there is none */
    uint32_t thread;      /* small number of the thread that recorded it */
    /* How an operation was carried out: "ring", …; NULL elsewhere. */
    const char *algorithm;
} tc_trace_event;

/* Call fn for each event still kept, oldest first.  Any thread; a consistent copy is taken. */
TC_API void tc_trace_visit(tc_context *context, void (*fn)(const tc_trace_event *event, void *arg),
                           void *arg);

/* Write the events as Chrome trace JSON (one process a rank, one row a thread).
 * TC_ERR_INVALID_ARG with the system's reason when the file can't be written.  Any thread. */
TC_API tc_status_t tc_trace_write(tc_context *context, const char *path);

/* Write the trace as it is now to a file that tcdump reads: the events, the operations in flight
 * and what they wait for, groups and links.  The file appears under its name when it is complete.
 * TC_ERR_INVALID_ARG with the system's reason when it can't be written.  Any thread. */
TC_API tc_status_t tc_trace_dump(tc_context *context, const char *path);

/* The same to a descriptor, which stays open; 0, or -1 when it takes no more.  Blocks while the
 * descriptor does.  For an application's own signal handler: it takes no lock, allocates nothing
 * and leaves errno alone; the context must not be shut down meanwhile.  Any thread. */
TC_API int tc_trace_dump_fd(const tc_context *context, int fd);

/* What a context has done so far, and holds now. */
typedef struct tc_stats {
    uint64_t operations_begun;    /* that have come to the loop */
    uint64_t operations_finished; /* of these, that ended well */
    uint64_t operations_failed;   /* cancelled ones included; what is left is in flight */
    uint64_t operation_bytes;     /* payload of those that ended well, as this rank has called */
    uint64_t bytes_sent, bytes_received, messages_sent, messages_received; /* payload, over links */
    uint64_t bytes_copied; /* payload that was copied once more on its way to its place */
    uint64_t strays;       /* connections and frames that were dropped */
    uint64_t eager_bytes;  /* now: messages held for receives that are not posted */
    uint64_t links_open;   /* now */
    uint64_t bytes_kept;   /* now: sent, and kept until the peer has them */
    uint64_t breaks;       /* connections that broke while their peer lived … */
    uint64_t heals;        /* … and were made again */
    uint64_t loop_stalls;  /* callbacks that held the loop for 200 ms and longer */
} tc_stats;

#define TC_STATS_ABI_VERSION 1 /* of tc_stats, in this header */

/* *stats = the counts of all groups of a context, those that were left included.  Those of links
 * are up to 50 ms old.  abi_version is TC_STATS_ABI_VERSION.  TC_ERR_INVALID_ARG, or
 * TC_ERR_ABI_MISMATCH.  Any thread. */
TC_API tc_status_t tc_context_stats(const tc_context *context, uint32_t abi_version,
                                    tc_stats *stats);

TC_END_DECLS

#endif
