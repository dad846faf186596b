/* group.h - a group of ranks as the roof sees it: from joining to leaving. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_GROUP_H
#define TCI_GROUP_H

#include "core/comm.h"
#include "core/set.h"
#include "loop/loop.h"
#include "net/boot.h"
#include "tcdist/dist.h"

enum tci_group_state {
    TCI_GROUP_STANDS,
    TCI_GROUP_FINISHING, /* finalize: waits for its own operations … */
    TCI_GROUP_MEETING,   /* … then for every rank to come to the last barrier … */
    TCI_GROUP_LEAVING,   /* … then for every link to say goodbye */
    TCI_GROUP_CLOSING,   /* at once: waits for what it fails to drain … */
    TCI_GROUP_PARTING    /* … and after a loss, for what it said of that to go out */
};

/* Which way the all-reduces of a gloo group go, agreed by all its ranks (gloo.c). */
enum tci_route {
    TCI_ROUTE_NONE,   /* no gloo group */
    TCI_ROUTE_BROKER, /* the cheapest way */
    TCI_ROUTE_STAR,   /* through rank 0: some neighbours cannot reach each other */
    TCI_ROUTE_RING    /* between neighbours */
};

/* Who goes on in a group that survivors agree on. */
struct tci_members {
    uint64_t number;    /* of the group; 0: none */
    struct tci_set out; /* ranks of the old group that are not in it; without memory: none yet */
    bool is_whole;
};

struct tci_shrink; /* shrink.h */
struct tci_names;  /* names.h */

struct tc_dist_ctx {
    struct tci_comm comm; /* first: tci_comm_of() */
    struct tci_list link; /* in context->groups */
    enum tci_group_state state;
    _Atomic uint64_t splits; /* calls of split so far */
    unsigned owners;         /* of a group formed from the environment, often one; loop */
    bool is_from_env;
    enum tci_route route;
    uint8_t meeting; /* payload of the last meeting on the star */
    struct tci_task free_task;
    bool is_freeing;
    uint64_t finish_ns;       /* until then own operations without a deadline are waited for */
    struct tci_timer goodbye; /* bounds the wait for own operations, and for others' goodbye */
    struct tci_future_hook barrier_hook;
    tc_future *barrier;
    struct tci_task close_task; /* brings a close to the loop … */
    tc_future *closed;          /* … with the future that is `left` then; NULL: nobody waits */
    tc_future *left;            /* settled when the group is gone; NULL: nobody waits */
    struct tci_error reason;
    struct tci_names *names;   /* a reference; NULL: none were given.  Set before it is used */
    struct tci_shrink *shrink; /* under way; NULL: none.  Loop, as the rest: */
    struct tci_members shrunk; /* what it came to last; for ranks that have not heard it */
    uint32_t shrunk_count;     /* how often it has come to something */
    int inviter;               /* rank that waits for this one to shrink the group; -1: none */
    bool is_left_behind;       /* others stand in a new group without this rank */
};

/* A group over a transport, NULL for one rank; the transport is closed on failure.  NULL without
 * memory.  Loop thread. */
tc_dist_ctx *tci_group_new(tc_context *context, struct tci_transport *transport,
                           const struct tci_comm_config *config);

/* Begin to leave; `left` (may be NULL) is settled at the end, and the group is freed.  Loop. */
void tci_group_finish(tc_dist_ctx *group, tc_future *left);
void tci_group_close(tc_dist_ctx *group, tc_future *left);

/* Whether options are fit to form a group: TC_OK, or the cause in error.  Any thread. */
tc_status_t tci_join_check(tc_context *context, const tc_dist_options *options, tc_dist_ctx **out,
                           struct tci_error *error);

/* Split a group; the future of tc_dist_split_async.  Any thread. */
tc_future *tci_split(tc_dist_ctx *parent, int color, int key, tc_dist_ctx **out);

/* The survivors' new group; the future of tc_dist_shrink_async.  Any thread. */
tc_future *tci_shrink(tc_dist_ctx *group, tc_dist_ctx **out);
/* What survivors say, and the end of the old group; its memory goes with it.  Loop. */
void tci_shrink_noticed(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
void tci_shrink_tell_left_out(tc_dist_ctx *group); /* before anyone hears that it is closed */
void tci_shrink_close(tc_dist_ctx *group);
void tci_shrink_fini(tc_dist_ctx *group);

/* Form a group as options say; the future of tc_dist_init_async.  keyring: what its ranks prove
 * themselves by, shared; NULL: the key of the context, where it has one.  Any thread. */
struct tci_join_how {
    bool is_from_env;
    struct tci_meeting meeting; /* what a launcher says besides; all zero: nothing */
    int connections;            /* of each link; 0: as the context has it */
    int start_timeout_ms;       /* where neither call nor context have one; 0: none either */
    int carrier;                /* enum tci_carrier */
    struct tci_paths *paths;    /* taken over when the call does not fail at once; NULL: none */
    struct tci_keyring *keyring;
};
tc_future *tci_join(tc_context *context, const tc_dist_options *options,
                    const struct tci_join_how *how, tc_dist_ctx **out);

#endif
