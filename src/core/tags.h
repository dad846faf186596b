/* tags.h - which tags are in use, how often they were used, and what is known about them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TAGS_H
#define TCI_TAGS_H

#include <pthread.h>
#include <uthash.h>

#include "core/list.h"
#include "core/transport.h"

struct tci_op;

/* Idle tags that are remembered.  A use count that was forgotten starts again at 1, which only
 * makes a mismatch harder to tell from a peer that is one operation ahead. */
enum { TCI_TAGS_IDLE_MAX = 65536 };

/* Key of the table; no padding. */
struct tci_tag_name {
    uint64_t tag;
    int32_t  peer; /* TCI_ALL_PEERS but in the spaces of send and receive */
    uint32_t space;
};

/* A call that a peer has made before this rank has. */
struct tci_foreign {
    struct tci_call call;
    uint32_t        use;
    int32_t         peer; /* -1: none */
};

struct tci_tag {
    struct tci_tag_name name;
    UT_hash_handle      hh;
    struct tci_list     idle;     /* oldest first; in no list while reserved or pinned */
    struct tci_op      *op;       /* running, or NULL */
    bool                is_reserved;
    uint32_t            uses;     /* operations started here */
    uint32_t            dead_use; /* uses up to this one have failed somewhere: drop their messages */
    struct tci_foreign  foreign[2]; /* the first call that came early, and the first unlike it */
    struct tci_error   *death;    /* owned; the next use has failed already, elsewhere */
};

/* Reservations may be asked for by any thread, hence the one lock; all else of a tag belongs to
 * the loop. */
struct tci_tags {
    pthread_mutex_t lock;
    struct tci_tag *table;
    struct tci_list idle;
    size_t          idle_count;
};

void tci_tags_init(struct tci_tags *tags);
void tci_tags_fini(struct tci_tags *tags);

/* Reserve a tag for op: TC_OK, TC_ERR_BUSY or TC_ERR_ALLOC.  Any thread. */
tc_status_t tci_tags_reserve(struct tci_tags *tags, const struct tci_tag_name *name,
                             struct tci_op *op, struct tci_tag **out);
/* The caller's release: TC_OK, TC_ERR_BUSY while the operation runs, TC_ERR_INVALID_ARG.  Any
 * thread. */
tc_status_t tci_tags_release(struct tci_tags *tags, const struct tci_tag_name *name);
/* The operation has ended; releases too, if told. */
void tci_tags_end(struct tci_tags *tags, struct tci_tag *tag, bool release);

/* The entry of a name: made when there is none; NULL without memory.  Loop thread. */
struct tci_tag *tci_tags_get(struct tci_tags *tags, const struct tci_tag_name *name);

#endif
