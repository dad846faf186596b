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

TC_END_DECLS

#endif
