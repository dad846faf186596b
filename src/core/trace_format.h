/* trace_format.h - the bytes of a trace, in memory, in a mapped file and in a dump. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TRACE_FORMAT_H
#define TCI_TRACE_FORMAT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* docs/tracing.md says the same for those who write a reader.
 *
 *   head | names | groups | links | live operations | slots of the ring | marks
 *
 * Numbers have the byte order of the machine that wrote them; `version` tells another one.  What
 * changes is made of words of 64 bits, each stored at once: a process that is killed in between
 * leaves old and new words, and the turns of slots and live operations tell where. */
#define TCI_TRACE_MAGIC "TCDTRACE"
enum { TCI_TRACE_VERSION = 2 };

typedef _Atomic uint64_t tci_word;

enum tci_trace_table {
    TCI_TRACE_NAMES,
    TCI_TRACE_GROUPS,
    TCI_TRACE_LINKS,
    TCI_TRACE_LIVE,
    TCI_TRACE_SLOTS,
    TCI_TRACE_MARKS,
    TCI_TRACE_TABLES
};

struct tci_trace_table_place {
    uint64_t offset;
    uint32_t count, each; /* `each`: bytes */
};

/* Counters: what has been, since the context began, and what is.  New ones come last. */
enum tci_trace_counter {
    TCI_COUNT_BEGUN,    /* operations entered on the loop; in the head without those marked */
    TCI_COUNT_FINISHED, /* … that ended well; likewise */
    TCI_COUNT_FAILED,   /* … that failed, cancelled ones included */
    TCI_COUNT_UNSEEN,   /* … for which the table of live operations had no room */
    TCI_COUNT_OP_BYTES, /* payload of those that ended well; likewise */
    TCI_COUNT_BYTES_SENT,
    TCI_COUNT_BYTES_RECEIVED,
    TCI_COUNT_MESSAGES_SENT,
    TCI_COUNT_MESSAGES_RECEIVED,
    TCI_COUNT_BYTES_COPIED,
    TCI_COUNT_STRAYS,
    TCI_COUNT_EAGER_BYTES, /* now: held for receives that are not posted */
    TCI_COUNT_LINKS_OPEN,  /* now */
    TCI_COUNT_STALLS,      /* of the loop */
    TCI_COUNT_BREAKS,      /* connections that broke while their peer lived */
    TCI_COUNT_HEALS,       /* … and were made again */
    TCI_COUNT_KEPT_BYTES,  /* now: sent, and kept until the peer has them */
    TCI_COUNT_LEFT_OUT,    /* of FINISHED, with a mark alone; in the head a word of its own */
    TCI_COUNTERS
};
enum { TCI_TRACE_COUNTER_ROOM = 40, TCI_TRACE_CLOCKS = 8 };

/* What the loop is at. */
enum tci_trace_part {
    TCI_PART_NONE,    /* it has not turned yet */
    TCI_PART_TURNING, /* in the library */
    TCI_PART_USER,    /* in a continuation of the application */
    TCI_PART_ASLEEP,  /* waits for something to come */
    TCI_PART_AWAY,    /* MANUAL and HOST: nobody turns it */
    TCI_PARTS
};

enum { TCI_TRACE_HEAD_BYTES = 1024 };
struct tci_trace_head {
    char magic[8];
    uint32_t version, head_bytes;
    uint64_t file_bytes;
    struct tci_trace_table_place tables[TCI_TRACE_TABLES];
    uint64_t pid, process_start; /* in ticks since the boot; 0: not known */
    uint64_t context;            /* number in its process */
    uint64_t opened_ns;          /* CLOCK_MONOTONIC, as all times without another word */
    uint64_t copied_ns;          /* in a dump: when it was made; 0: this is the trace itself */
    char library[16], boot_id[40], host[64], program[64]; /* end with a zero byte */
    /* From here on it changes. */
    tci_word next;                        /* number of the next event */
    tci_word ended_ns;                    /* when the context was shut down; 0: it was not */
    tci_word loop_ns;                     /* last sign of the loop */
    tci_word loop_part;                   /* enum tci_trace_part */
    tci_word loop_turns;                  /* so far */
    tci_word marks;                       /* number of the next mark … */
    tci_word stamps;                      /* of these, times */
    tci_word left_out, left_out_bytes;    /* operations that ended well with a mark alone */
    tci_word clock_count;                 /* pairs of times taken so far … */
    tci_word clocks[TCI_TRACE_CLOCKS][2]; /* … the last: monotonic, wall clock */
    tci_word counters[TCI_TRACE_COUNTER_ROOM];
};
static_assert(sizeof(struct tci_trace_head) <= TCI_TRACE_HEAD_BYTES, "the head has room");

/* Names are zero-padded and cut to 31 bytes.  Number 0 is none, 1 stands for all that had no
 * room. */
enum { TCI_TRACE_NAME_WORDS = 4, TCI_TRACE_NAME_NONE = 0, TCI_TRACE_NAME_OTHER = 1 };
struct tci_trace_name {
    tci_word text[TCI_TRACE_NAME_WORDS];
};

/* A group of ranks; free while its state is. */
enum tci_trace_group_state {
    TCI_TRACE_GROUP_FREE,
    TCI_TRACE_GROUP_STANDS,
    TCI_TRACE_GROUP_BROKEN,
    TCI_TRACE_GROUP_LEFT
};
enum { TCI_TRACE_REASON_WORDS = 16 };
struct tci_trace_group {
    tci_word number;
    tci_word job[2];    /* the same for all groups that descend from one, and for no other */
    tci_word rank_size; /* rank << 32 | size */
    tci_word shown;     /* rank of this process in traces << 32 | state */
    tci_word since_ns;  /* of the state */
    tci_word broken;    /* culprit + 1 << 32 | status, as 32 bits; 0: none */
    tci_word reason[TCI_TRACE_REASON_WORDS]; /* text; ends with a zero byte */
};

/* A link of a transport. */
enum tci_trace_link_state { TCI_TRACE_LINK_FREE, TCI_TRACE_LINK_UP, TCI_TRACE_LINK_DOWN };
struct tci_trace_link {
    tci_word peer_state; /* (peer + 1) << 32 | state; 0: free */
    tci_word job;        /* low word of the job */
    tci_word since_ns;
};

/* An operation in flight.  Odd turn: being changed; 0: never used; state 0: free. */
enum tci_trace_live_state {
    TCI_TRACE_LIVE_FREE,
    TCI_TRACE_LIVE_WAITING, /* for futures it starts after */
    TCI_TRACE_LIVE_RUNNING,
    TCI_TRACE_LIVE_DRAINING /* failed; its last transfers end */
};
enum { TCI_TRACE_CELL_WORDS = 8, TCI_TRACE_CELLS = 2 * TCI_TRACE_CELL_WORDS };
struct tci_trace_live {
    tci_word turn;
    tci_word group, tag;
    tci_word called_ns, entered_ns;
    tci_word count;
    tci_word call;     /* root << 32 | coll << 24 | dtype << 16 | op << 8 | plan */
    tci_word what;     /* state << 56 | space << 48 | name << 32 | algorithm << 16 | thread */
    tci_word use_peer; /* use << 32 | peer + 1 */
    tci_word open;     /* transfers posted and not ended: receives << 32 | sends */
    /* Peers of these, as many as fit: (peer + 1) | 1 << 31 for a send, two a word, low first. */
    tci_word cells[TCI_TRACE_CELL_WORDS];
};
#define TCI_TRACE_CELL_SEND UINT32_C(0x80000000)

/* One event; `turn` is odd while it is written: 2 n + 1 before and 2 n + 2 after event number n.
 * What a and b are is said with the kinds, in trace.h. */
struct tci_trace_slot {
    tci_word turn;
    tci_word begin_ns, end_ns;
    tci_word tag, group;
    tci_word a, b;
    tci_word what;      /* kind << 56 | space << 48 | name << 32 | algorithm << 16 | thread */
    tci_word rank_peer; /* rank + 1 << 32 | peer + 1 */
    tci_word use_step;
};
static_assert(sizeof(struct tci_trace_slot) == 80, "no padding");

/* A mark: that an operation of a flood was entered which left no event, by an odd number, or an
 * even one: the time from which on those behind it were made; 0: never used. */
struct tci_trace_mark {
    tci_word word;
};

/* What all marks of a group have in common. */
static inline uint64_t tci_trace_mark_base(uint64_t group)
{
    return group * UINT64_C(0x9e3779b97f4a7c15);
}

/* The number that an operation is marked with, in a group that has this base; its highest bits also
 * choose which ones of a flood are kept whole, so that all ranks choose the same. */
static inline uint64_t tci_trace_mark_in(uint64_t base, uint32_t space, uint64_t tag, uint32_t use)
{
    uint64_t name = tag + base + ((uint64_t)space << 32 | use) * UINT64_C(0xd6e8feb86659fd93);

    return name * UINT64_C(0xff51afd7ed558ccd) | 1;
}
/* The same by the group's number. */
static inline uint64_t tci_trace_mark_of(uint64_t group, uint32_t space, uint64_t tag, uint32_t use)
{
    return tci_trace_mark_in(tci_trace_mark_base(group), space, tag, use);
}

/* Of one entry of a table. */
static inline uint32_t tci_trace_entry_bytes(size_t table)
{
    static const uint32_t bytes[TCI_TRACE_TABLES] = {
        [TCI_TRACE_NAMES] = sizeof(struct tci_trace_name),
        [TCI_TRACE_GROUPS] = sizeof(struct tci_trace_group),
        [TCI_TRACE_LINKS] = sizeof(struct tci_trace_link),
        [TCI_TRACE_LIVE] = sizeof(struct tci_trace_live),
        [TCI_TRACE_SLOTS] = sizeof(struct tci_trace_slot),
        [TCI_TRACE_MARKS] = sizeof(struct tci_trace_mark),
    };

    return bytes[table];
}

#endif
