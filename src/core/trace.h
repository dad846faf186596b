/* trace.h - ring of the last events: fixed size, written without formatting. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TRACE_H
#define TCI_TRACE_H

#include <stddef.h>
#include <stdint.h>

struct tci_trace;

/* Kinds of event; each has a name and a category in trace.c. */
enum tci_trace_kind {
    TCI_TRACE_OP,         /* span: an operation from start to settle; a: bytes */
    TCI_TRACE_OP_FAIL,    /* instant; a: status */
    TCI_TRACE_XFER_END,   /* span: a transfer from post to end; a: bytes */
    TCI_TRACE_FOLD,       /* span; a: bytes */
    TCI_TRACE_EAGER_COPY, /* instant: a message came before its receive; a: bytes */
    TCI_TRACE_APP,        /* span of the application's; its name is a string */
    TCI_TRACE_KINDS
};

/* Room for `events` (rounded up to a power of two) events; NULL without memory. */
struct tci_trace *tci_trace_new(size_t events);
void tci_trace_free(struct tci_trace *trace);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t tci_trace_now(void);

/* What is recorded.  name: for TCI_TRACE_OP the operation's static name, for TCI_TRACE_APP the
 * span's; NULL elsewhere. */
struct tci_trace_record {
    enum tci_trace_kind kind;
    int rank;
    const char *name;
    uint64_t begin_ns, end_ns, tag, a;
    const char *algorithm; /* of TCI_TRACE_OP, static; NULL elsewhere */
};

/* Any thread; wait-free: the oldest event gives way; one whose writer was
 * stopped for a whole ring is left out. */
void tci_trace_add(struct tci_trace *trace, const struct tci_trace_record *record);

#endif
