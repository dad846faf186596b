/* net_parts.h - what the simulated network consists of; for its own files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_NET_PARTS_H
#define TEST_NET_PARTS_H

#include "core/list.h"
#include "core/match.h"
#include "sim/net_sim.h"

/* A posted transfer.  It outlives its transfer while something still points at it. */
struct sim_half {
    struct sim_event event;    /* a receive: its processor is done */
    struct tci_list in_node;   /* node->live, until completion */
    struct tci_list in_bucket; /* while it waits for its other half */
    struct sim_node *node;
    struct tci_xfer *xfer; /* NULL: completed */
    struct sim_half *next; /* in the adapter's queue, or free */
    uint64_t ready_ns;
    int8_t priority;
    bool is_held; /* by the queue, the adapter or the clock */
};

enum sim_kind { SIM_DATA, SIM_CREDIT, SIM_WANT, SIM_NOTICE };

/* On its way, held up at its sender by a silence, or waiting at its receiver for its other half. */
struct sim_msg {
    struct sim_event event;
    struct tci_list in_node, in_bucket; /* early or held; in_bucket: early */
    struct tci_key key;
    struct tci_call call;
    struct sim_node *to;
    uint32_t from;
    enum sim_kind kind;
    size_t len;
    void *payload;             /* owned, or NULL */
    struct tci_notice *notice; /* owned, or NULL */
    struct sim_msg *next;      /* free */
};

struct sim_node {
    struct tci_transport transport; /* first */
    struct sim_net *net;
    struct sim_exec *exec;
    uint32_t rank;
    struct tci_list live;        /* halves */
    struct tci_list early;       /* messages */
    struct tci_list held;        /* messages whose path carries nothing, in their order */
    struct sim_half *queue;      /* for the adapter: by priority, then by time … */
    struct sim_half *queue_last; /* … its end, or NULL */
    struct sim_half *sending;
    struct sim_event sent;
    uint64_t receive_ns, work_ns; /* adapter, processor: busy until then */
    uint64_t *last_ns;            /* owned, a peer: when the last message reaches it */
    uint64_t *longer_ns;          /* owned, a peer: sim_net_delay; NULL: none */
    uint64_t slow_ns;             /* a message, besides the overhead */
    bool *lost;                   /* owned, a peer; NULL: none */
    bool *is_linked;              /* owned, a peer: a link has been made; NULL: with rank 0 alone */
    struct sim_event left, parted;
    uint32_t tells_left; /* notices until it ends; 0: it does not */
    bool is_leaving, has_left, has_parted, is_closed, is_dead;
    struct tci_transport_stats stats;
};

struct sim_bucket {
    struct tci_list halves, early;
};

struct sim_net {
    struct sim_net_config config;
    struct sim_clock *clock;
    struct sim_node *nodes;
    struct sim_bucket *buckets;
    size_t mask;
    uint32_t size, left_count;
    uint64_t random;
    size_t half_count, early_count; /* what the buckets may hold */
    uint64_t *whole_ns; /* owned: when the path [from * size + to] is whole again; NULL: all are */
    struct sim_half *halves_free;
    struct sim_msg *msgs_free;
};

/* net_match.c */
void sim_match_grow(struct sim_net *net);
struct sim_half *sim_half_new(struct sim_node *node, struct tci_xfer *xfer);
void sim_half_wait(struct sim_half *half); /* for its other half */
/* Give it up: nobody waits for it, or holds it, any more. */
void sim_half_drop(struct sim_half *half);
void sim_half_complete(struct sim_half *half, tc_status_t status);
struct sim_half *sim_find_half(struct sim_node *node, uint32_t peer, const struct tci_key *key,
                               bool is_send);
struct sim_msg *sim_msg_new(struct sim_net *net, enum sim_kind kind, const struct tci_xfer *xfer);
void sim_msg_free(struct sim_net *net, struct sim_msg *msg);
void sim_msg_keep(struct sim_msg *msg); /* until its other half comes */
void sim_msg_drop(struct sim_msg *msg); /* one that was kept */
struct sim_msg *sim_find_early(struct sim_node *node, uint32_t peer, const struct tci_key *key,
                               enum sim_kind kind);
bool sim_admit(struct sim_node *node, const struct sim_msg *msg);

/* net_sim.c */
void sim_send(struct sim_node *node, struct sim_half *half);
void sim_tell(struct sim_node *node, uint32_t peer, struct sim_msg *msg);
/* How long the first byte travels. */
uint64_t sim_travel_ns(struct sim_net *net, uint32_t from, uint32_t to);
/* A path has changed: what it holds up leaves, or is held up again. */
void sim_release(struct sim_net *net, uint32_t from, uint32_t to);
bool sim_is_lost(const struct sim_node *node, uint32_t peer);
/* All are linked with rank 0; the others where something has been sent or is to be received. */
void sim_link(struct sim_node *node, uint32_t peer);
bool sim_is_linked(const struct sim_node *node, uint32_t peer);

/* net_faults.c: a rank has ended, and this one will see it. */
void sim_lose_dead(struct sim_node *node, uint32_t peer);
/* Whether nothing gets through, for good or until when. */
bool sim_is_silent(const struct sim_net *net, uint32_t from, uint32_t to);
bool sim_is_broken(const struct sim_net *net, uint32_t from, uint32_t to);
uint64_t sim_whole_ns(const struct sim_net *net, uint32_t from, uint32_t to);

/* net_receive.c: a message has come all the way; a transfer is posted. */
void sim_arrive(struct sim_msg *msg);
void sim_post_recv(struct tci_transport *self, struct tci_xfer *xfer);
void sim_post_send(struct tci_transport *self, struct tci_xfer *xfer);

#endif
