/* trace.h - ring of the last events, and what is so now: fixed size, written without formatting. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TRACE_H
#define TCI_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/trace_format.h"
#include "tcdist/status.h"

struct tci_transport_stats;

/* Kinds of event; each has a name and a category in trace.c.  Files know them by number. */
enum tci_trace_kind {
    TCI_TRACE_OP,         /* span: an operation from call to settle; a: bytes, b: status */
    TCI_TRACE_OP_FAIL,    /* instant; a: status; peer: the rank at fault; step: 1 + its peer */
    TCI_TRACE_XFER_END,   /* span: a transfer from post to end; a: bytes, b: lane << 1 | is_send */
    TCI_TRACE_FOLD,       /* span; a: bytes */
    TCI_TRACE_EAGER_COPY, /* instant: a message came before its receive; a: bytes */
    TCI_TRACE_APP,        /* span of the application's; its name is a string */
    TCI_TRACE_CALL,       /* span: from the call to where the loop enters it; a: count, b: call */
    TCI_TRACE_RUN,        /* instant: what it was to start after has settled */
    TCI_TRACE_LINK,       /* instant; a: enum tci_trace_link_state; rank: this, peer: below */
    TCI_TRACE_STALL,      /* span: what held the loop; its name is a string */
    TCI_TRACE_BREAK,      /* instant: the group is broken; a: status; peer: the rank at fault */
    /* OP and CALL of one that ended well and quickly, in one: as OP, but b: call, and step:
     * nanoseconds from the call to where the loop entered it. */
    TCI_TRACE_DONE,
    TCI_TRACE_KINDS
};

/* Events of each operation of a flood would take a notable share of its time.  So few are kept
 * whole, and the others leave a mark: trace_flood.c.  Loop thread. */
struct tci_trace_flood {
    /* Operations with no higher mark are kept whole; all ones: all are, or the trace is paused. */
    uint64_t limit;
    uint64_t pause_ns;          /* one that comes from then on is kept whole, as after a pause */
    uint64_t entered_ns;        /* when the last one was that was kept whole */
    uint64_t due_ns, ticked_ns; /* when all this will be looked at, and was */
    int64_t tokens; /* events that may be written without a thought; less than 0: debts */
    uint64_t limit_before_pause; /* 0: it is not paused */
    bool keeps_all;              /* the application wants it so */
    uint64_t stamped;            /* the number of the next mark then */
    uint64_t promoted;           /* operations that had a mark, and were kept whole later */
    /* Keeps those whole that have had a mark since then, or before; NULL: there are none. */
    void (*promote)(void *arg, uint64_t entered_ns);
    void *promote_arg;
};

/* A trace in this process: the bytes of trace_format.h, and what only this process needs. */
struct tci_trace {
    /* First, and close together: what every operation looks at. */
    struct tci_trace_head *head;
    struct tci_trace_mark *marks;
    uint64_t mask;         /* slots - 1, and marks - 1 */
    atomic_bool is_paused; /* bench/trace_cost.c measures what all this costs; else never */
    struct tci_trace_flood flood;
    struct tci_trace_name *names;
    struct tci_trace_group *groups;
    struct tci_trace_link *links;
    struct tci_trace_live *live;
    struct tci_trace_slot *slots;
    uint32_t live_next, live_used;   /* of the operations in flight; loop thread */
    _Atomic(const char *) *pointers; /* owned; of the names */
    bool owns_image;
    void (*on_end)(struct tci_trace *trace); /* the roof's, or NULL: gives the image back */
    /* The roof's, or NULL: brings the counters of transports up to date.  Loop thread. */
    void (*sample)(void *arg);
    void *sample_arg;
    uint64_t sampled_ns, sampled_next, clocked_ns;
    /* The roof's, or NULL: an operation or the group has failed.  Loop thread. */
    void (*on_failure)(void *arg, tc_status_t status);
    void *failure_arg;
};

/* Bytes of the image of a trace of `events` (rounded up to a power of two); 0: too many. */
size_t tci_trace_bytes(size_t events);

/* Room for `events` events, in memory of its own; NULL without memory. */
struct tci_trace *tci_trace_new(size_t events);
/* The same in `image`, of tci_trace_bytes() zero bytes, which must live as long. */
struct tci_trace *tci_trace_new_in(size_t events, void *image);
void tci_trace_free(struct tci_trace *trace);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t tci_trace_now(void);

static inline bool tci_trace_is_paused(const struct tci_trace *trace)
{
    /* relaxed: whoever pauses it does so between operations */
    return atomic_load_explicit(&((struct tci_trace *)(uintptr_t)trace)->is_paused,
                                memory_order_relaxed);
}

/* What is recorded.  What a kind has not stays 0, but for rank and peer, which are -1 then. */
struct tci_trace_record {
    enum tci_trace_kind kind;
    int rank, peer;
    const char *name; /* lives as long as the trace; NULL: that of the kind */
    uint64_t begin_ns, end_ns, tag, a, b, group;
    const char *algorithm; /* likewise */
    uint32_t space, use, step;
    uint32_t names; /* of name and algorithm, by tci_trace_names; 0: they are looked up */
};

/* Any thread; wait-free: the oldest event gives way; one whose writer was
 * stopped for a whole ring is left out. */
void tci_trace_add(struct tci_trace *trace, const struct tci_trace_record *record);

/* The same in two steps, for what is recorded often: the slot of the next event, whose words other
 * than the turn the caller stores one by one, each with release; NULL: it is left out. */
struct tci_trace_slot *tci_trace_claim(struct tci_trace *trace, uint64_t *number);
static inline void tci_trace_commit(struct tci_trace_slot *slot, uint64_t number)
{
    /* release: pairs with the acquire of whoever reads the turn, the fields are complete */
    atomic_store_explicit(&slot->turn, 2 * number + 2, memory_order_release);
}

/* The number of a string in the table of names.  Any thread. */
uint32_t tci_trace_name_number(struct tci_trace *trace, const char *name);
/* Those of a name and an algorithm in one, for a record. */
static inline uint32_t tci_trace_names(struct tci_trace *trace, const char *name,
                                       const char *algorithm)
{
    return tci_trace_name_number(trace, name) << 16 | tci_trace_name_number(trace, algorithm);
}
/* A small number of the calling thread's own, from 1. */
uint32_t tci_trace_thread(void);

/* ---- What is so now: trace_state.c.  Loop thread. ---- */

/* Words that the loop changes, and others only read. */
static inline void tci_word_set(tci_word *word, uint64_t value)
{
    /* relaxed: each is right by itself */
    atomic_store_explicit(word, value, memory_order_relaxed);
}
/* Of an entry with turns. */
static inline void tci_word_put(tci_word *word, uint64_t value)
{
    /* release: whoever reads a word of this turn finds the odd turn, or a later one */
    atomic_store_explicit(word, value, memory_order_release);
}
static inline uint64_t tci_word_get(const tci_word *word)
{
    return atomic_load_explicit((tci_word *)(uintptr_t)word, memory_order_relaxed);
}
static inline void tci_trace_count(struct tci_trace *trace, enum tci_trace_counter counter,
                                   uint64_t more)
{
    tci_word *word = &trace->head->counters[counter];

    tci_word_set(word, tci_word_get(word) + more);
}

/* The loop rests for a while, or is paused, or some time has passed since the last tick. */
void tci_trace_rest(struct tci_trace *trace);
void tci_trace_pause(struct tci_trace *trace);
void tci_trace_tick(struct tci_trace *trace, uint64_t now_ns);

/* How old counters of transports may be when the loop rests. */
enum { TCI_TRACE_REST_NS = 4000000 };

/* The loop gives a sign of itself; trace may be NULL.  now_ns: 0: not known. */
static inline void tci_trace_beat(struct tci_trace *trace, enum tci_trace_part part,
                                  uint64_t now_ns)
{
    if (trace == NULL)
        return;
    if (tci_trace_is_paused(trace)) {
        tci_trace_pause(trace);
        return;
    }
    tci_word_set(&trace->head->loop_part, (uint64_t)part);
    if (now_ns != 0)
        tci_word_set(&trace->head->loop_ns, now_ns);
    if (part == TCI_PART_TURNING && now_ns != 0) {
        tci_word_set(&trace->head->loop_turns, tci_word_get(&trace->head->loop_turns) + 1);
        if (now_ns >= trace->flood.due_ns)
            tci_trace_tick(trace, now_ns);
    } else if ((part == TCI_PART_ASLEEP || part == TCI_PART_AWAY) &&
               tci_word_get(&trace->head->loop_ns) >= trace->sampled_ns + TCI_TRACE_REST_NS) {
        tci_trace_rest(trace);
    }
}
/* When the loop has to turn even if nothing comes, so that what stands still shows; all ones:
 * never. */
uint64_t tci_trace_due_ns(const struct tci_trace *trace);

/* ---- Floods: trace_flood.c.  Loop thread. ---- */

void tci_trace_flood_init(struct tci_trace_flood *flood);
/* How many are kept, of those that come without a pause. */
void tci_trace_flood_limit(struct tci_trace_flood *flood, uint64_t limit);
/* So many events more are written. */
void tci_trace_flood_spend(struct tci_trace_flood *flood, unsigned events);
/* Looks at what was spent, and decides how many are kept from now on. */
void tci_trace_flood_tick(struct tci_trace *trace, uint64_t now_ns);
/* Whether an operation with this mark leaves events. */
static inline bool tci_trace_keeps(const struct tci_trace *trace, uint64_t mark)
{
    return mark <= trace->flood.limit;
}
/* Operations that have nothing but a mark and have not ended. */
static inline uint64_t tci_trace_marked(const struct tci_trace *trace)
{
    return tci_word_get(&trace->head->marks) - tci_word_get(&trace->head->stamps) -
           tci_word_get(&trace->head->left_out) - trace->flood.promoted;
}
/* How long after the one before an operation is kept whole whatever its mark. */
enum { TCI_TRACE_PAUSE_NS = 1000000 };
/* Something held the loop. */
void tci_trace_stall(struct tci_trace *trace, const char *what, uint64_t begin_ns, uint64_t end_ns);

struct tci_trace_group_facts {
    uint64_t number;
    uint64_t job[2];
    int rank, size, shown_rank;
};
/* A group stands; of one that is known already the facts change. */
void tci_trace_group_set(struct tci_trace *trace, const struct tci_trace_group_facts *facts);
/* It is broken, or was left. */
void tci_trace_group_broken(struct tci_trace *trace, uint64_t number, tc_status_t status,
                            int culprit, const char *reason);
void tci_trace_group_left(struct tci_trace *trace, uint64_t number);

/* A link to a rank below is up or down. */
void tci_trace_link_set(struct tci_trace *trace, uint64_t job, uint32_t peer,
                        enum tci_trace_link_state state);

/* ---- Reading it as bytes: trace_copy.c.  Any thread. ---- */

/* Bytes [from, from + len) of the image as it is now.  What is being written meanwhile is left
 * out of tables whole: `from` must be where a piece of tci_trace_piece() begins.  Calls nothing
 * that a signal handler may not. */
void tci_trace_copy(const struct tci_trace *trace, size_t from, size_t len, void *out);
/* How many bytes from `from` on may be copied at once into room for `room` (256 at least). */
size_t tci_trace_piece(const struct tci_trace *trace, size_t from, size_t room);

#endif
