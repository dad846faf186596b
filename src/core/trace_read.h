/* trace_read.h - reads the bytes of a trace, whoever wrote them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TRACE_READ_H
#define TCI_TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "core/trace.h"

/* Texts end with a zero byte and have printable ASCII alone. */
enum { TCI_TRACE_NAME_TEXT = 32, TCI_TRACE_REASON_TEXT = 8 * TCI_TRACE_REASON_WORDS + 1 };

/* The head, checked. */
struct tci_trace_view {
    const uint8_t *bytes; /* borrowed; do not change meanwhile */
    size_t len;
    struct tci_trace_table_place tables[TCI_TRACE_TABLES];
    uint64_t pid, process_start, context, opened_ns, copied_ns, next, ended_ns;
    uint64_t loop_ns, loop_part, loop_turns;
    uint64_t clock_ns, clock_wall_ns; /* the last pair; 0: none */
    uint64_t counters[TCI_COUNTERS];  /* with those that left a mark alone */
    uint64_t marks;                   /* number of the next mark */
    char library[17], boot_id[41], host[65], program[65];
};

/* NULL, or what is wrong with these bytes: a static string. */
const char *tci_trace_view_open(struct tci_trace_view *view, const void *bytes, size_t len);

struct tci_trace_seen {
    uint64_t number, begin_ns, end_ns, tag, group, a, b;
    uint32_t kind, space, name, algorithm, thread, use, step;
    int32_t rank, peer; /* -1: none */
};
/* The number of the oldest event that may be there; view->next is behind the last. */
uint64_t tci_trace_view_first(const struct tci_trace_view *view);
/* Event number `number`; false when it is not whole, or gone. */
bool tci_trace_view_event(const struct tci_trace_view *view, uint64_t number,
                          struct tci_trace_seen *event_out);

/* Whether there is the mark of an operation: it was entered. */
bool tci_trace_view_has_mark(const struct tci_trace_view *view, uint64_t mark);
/* From when on all marks are there; 0: always. */
uint64_t tci_trace_view_marked_ns(const struct tci_trace_view *view);

/* A name into text, which is returned; "" for none. */
const char *tci_trace_view_name(const struct tci_trace_view *view, uint32_t number,
                                char text[TCI_TRACE_NAME_TEXT]);

struct tci_trace_seen_group {
    uint64_t number, job[2], since_ns;
    uint32_t rank, size, shown, state;
    int32_t status, culprit; /* status 0: it is not broken; culprit -1: none */
    char reason[TCI_TRACE_REASON_TEXT];
};
/* Entry i of a table; false: it is free, or not whole.  i is less than the table's count. */
bool tci_trace_view_group(const struct tci_trace_view *view, uint32_t i,
                          struct tci_trace_seen_group *group_out);

struct tci_trace_seen_link {
    uint64_t job, since_ns;
    uint32_t peer, state;
};
bool tci_trace_view_link(const struct tci_trace_view *view, uint32_t i,
                         struct tci_trace_seen_link *link_out);

struct tci_trace_seen_live {
    uint64_t group, tag, called_ns, entered_ns, count, call;
    uint32_t state, space, name, algorithm, thread, use, receives, sends;
    int32_t peer;                   /* of a send or receive; -1: it is a collective */
    uint32_t waits_count;           /* of the list below; receives + sends may be more */
    int32_t waits[TCI_TRACE_CELLS]; /* peers of transfers that are open */
    bool is_send[TCI_TRACE_CELLS];
};
bool tci_trace_view_live(const struct tci_trace_view *view, uint32_t i,
                         struct tci_trace_seen_live *live_out);

/* The call of a packed word; count is apart. */
struct tci_trace_seen_call {
    int32_t root;
    uint8_t coll, dtype, op, plan;
};
static inline struct tci_trace_seen_call tci_trace_unpack_call(uint64_t call)
{
    return (struct tci_trace_seen_call){(int32_t)(uint32_t)(call >> 32), (uint8_t)(call >> 24),
                                        (uint8_t)(call >> 16), (uint8_t)(call >> 8), (uint8_t)call};
}

/* Two copies of a trace that was written meanwhile, one after the other, into `bytes`: entries that
 * differ are taken for not whole.  Both have `len` bytes and a head that tci_trace_view_open has
 * checked. */
void tci_trace_merge_copies(const struct tci_trace_view *view, uint8_t *bytes,
                            const uint8_t *later);

#endif
