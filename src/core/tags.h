/* tags.h - which tags are in use, how often they were used, and what is known about them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TAGS_H
#define TCI_TAGS_H

#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

#include "core/list.h"
#include "core/transport.h"
#include "core/uses.h"

struct tci_op;

/* Idle tags that are remembered with their last call: so many, and of those that are no neighbours
 * of others, as long as `past` has no room, more.  From the first on whose uses are not known after
 * that, new ones that `past` does not know are not counted: their use is 0, which stands for any,
 * and a peer that is one operation ahead is taken for one that is not.  Nothing tells a failed use
 * from a later one then, so there is none: the tag is spent. */
enum { TCI_TAGS_IDLE_NEAR = 4096, TCI_TAGS_IDLE_MAX = 65536 };

/* Key of the table; no padding. */
enum { TCI_SELF_RECV = -2 };
struct tci_tag_name {
    uint64_t tag;
    int32_t peer; /* TCI_ALL_PEERS but in the spaces of send and receive; or TCI_SELF_RECV */
    uint32_t space;
};

/* A call that a peer has made before this rank has. */
struct tci_foreign {
    struct tci_call call;
    uint32_t use;
    int32_t peer; /* -1: none */
};

/* A call that has ended well here: messages of a peer that made another one may still come. */
struct tci_done {
    struct tci_call call;
    uint32_t use;         /* 0: none, or not counted */
    bool is_set, is_told; /* a mismatch of it has been told */
    bool is_ruled;        /* … and who is at fault, with which the others have ended */
};

/* Ordered calls that are remembered after their end.  A peer is seldom as many calls behind: its
 * messages of an older one are dropped without a look at the call. */
enum { TCI_TAGS_ORDERED_MAX = 256 };

/* Calls of a sequence that need no place in the table: few of them are under way at a time, and
 * their numbers follow one another. */
enum { TCI_TAGS_NEAR = 64 };

/* Calls of sequences that have failed and are remembered, so that their late messages are dropped:
 * peers that are as many failed calls behind have been told of them, and send none. */
enum { TCI_TAGS_FAILED_MAX = 4096 };

/* A use that another rank has ended before this one has entered it. */
struct tci_death {
    struct tci_death *next;
    uint32_t use;
    struct tci_error error;
};

struct tci_tag {
    struct tci_tag_name name;
    UT_hash_handle hh;
    struct tci_list idle; /* in one list of the table at most; in none while reserved, or running,
                           * or put away in vain */
    bool is_reserved, is_running, is_idle; /* under the lock */
    bool is_near;                          /* in `near`, and not in the table */
    bool is_counted;
    bool is_spent;                 /* not counted, and failed here or elsewhere */
    struct tci_op *op;             /* entered and not ended, or NULL */
    uint32_t uses;                 /* operations entered here */
    uint32_t dead_use;             /* uses up to this one have failed: drop their messages */
    struct tci_done done;          /* the last use that has ended well here */
    struct tci_foreign foreign[2]; /* the first call that came early, and the first unlike it */
    struct tci_death *deaths;      /* owned; of uses to come, the next first */
};

/* Reservations may be asked for by any thread, hence the lock of the table; all else of a tag
 * belongs to the loop.  Calls of a sequence need no reservation: nobody else has their number. */
struct tci_tags {
    pthread_mutex_t lock;
    struct tci_tag *table;
    struct tci_list idle; /* the oldest first */
    size_t idle_count;
    struct tci_list released;  /* by the application; the loop lets them go idle */
    struct tci_uses past;      /* of those that are not in the table */
    bool has_forgotten;        /* not all of them */
    struct tci_tag *anchor;    /* owned: in the table, so that it is made but once */
    struct tci_tag *far_spare; /* owned, or NULL: one that has left the table, for the next */
    /* Of calls of sequences; the loop's alone. */
    struct tci_tag *near[TCI_TAGS_NEAR]; /* by number; the first of each place, or NULL */
    struct tci_tag *spare;               /* owned, or NULL: one that was forgotten, for the next */
    size_t far_count;                    /* of those that are in the table */
    struct tci_list failed;              /* they have ended; the oldest first */
    size_t failed_count;
    _Atomic size_t calls;             /* that have entered and not ended; any thread reads it */
    struct tci_ordered_done *ordered; /* owned; of ordered calls, see tci_tags_note_done */
};

void tci_tags_init(struct tci_tags *tags);
void tci_tags_fini(struct tci_tags *tags);

/* Reserve a tag that is no call of a sequence: TC_OK, TC_ERR_BUSY or TC_ERR_ALLOC.  Any thread. */
tc_status_t tci_tags_reserve(struct tci_tags *tags, const struct tci_tag_name *name,
                             struct tci_tag **out);
/* The entry of a call of a sequence, which is about to enter; NULL without memory.  Loop. */
struct tci_tag *tci_tags_take(struct tci_tags *tags, const struct tci_tag_name *name);
/* The caller's release: TC_OK, TC_ERR_BUSY while the operation runs, TC_ERR_INVALID_ARG.  Any
 * thread. */
tc_status_t tci_tags_release(struct tci_tags *tags, const struct tci_tag_name *name);
/* How many are reserved, or taken: their operation runs, or has ended and was not released.  Any
 * thread. */
size_t tci_tags_reserved(struct tci_tags *tags);
/* The operation is entered: gives the number of this use, 0 when it is not counted.  Loop. */
uint32_t tci_tags_enter(struct tci_tag *tag, struct tci_op *op);
/* The operation has ended; releases too, if told.  Loop. */
void tci_tags_end(struct tci_tags *tags, struct tci_tag *tag, bool release);

/* How many operations were entered here under a name; what is not counted counts as none.  Loop. */
uint32_t tci_tags_uses(struct tci_tags *tags, const struct tci_tag_name *name);

/* Whether a use has failed, here or elsewhere: its messages are dropped.  Loop. */
bool tci_tag_is_dead(const struct tci_tag *tag, uint32_t use);
/* The use that is entered has failed: late messages of it, and of those before, are dropped.
 * Loop. */
void tci_tag_bury(struct tci_tag *tag, uint32_t use);
/* Remember that a use to come has ended elsewhere, of a tag that is not counted all there will be:
 * use is 0 then.  Without memory it is not.  Loop. */
void tci_tag_kill(struct tci_tag *tag, uint32_t use, const struct tci_error *error);
/* Why the use that is entered now has ended already; NULL: it has not.  The caller frees.  Loop. */
struct tci_death *tci_tag_take_death(struct tci_tag *tag, uint32_t use);

/* The entry of a name: made when there is none; NULL without memory.  Loop thread. */
struct tci_tag *tci_tags_get(struct tci_tags *tags, const struct tci_tag_name *name);
/* The same, but NULL when there is none. */
struct tci_tag *tci_tags_find(struct tci_tags *tags, const struct tci_tag_name *name);

/* The call of a use has ended well.  A tag remembers the last one; an ordered call, whose number
 * never comes again, leaves its tag and is remembered beside.  Loop thread. */
void tci_tags_note_done(struct tci_tags *tags, struct tci_tag *tag, const struct tci_call *call,
                        uint32_t use);
/* What is remembered of a use that has ended well; NULL: nothing.  Loop thread. */
struct tci_done *tci_tags_done(struct tci_tags *tags, const struct tci_tag_name *name,
                               uint32_t use);
/* Whether an ordered call is so old that it has been forgotten.  Loop thread. */
bool tci_tags_is_forgotten(struct tci_tags *tags, const struct tci_tag_name *name);
/* Whether tags of a space are numbers that never come again. */
bool tci_space_is_ordered(uint32_t space);

#endif
