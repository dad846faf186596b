/* transport.h - PORT: the narrow door between collectives and the world. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TRANSPORT_H
#define TCI_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/exec.h"

/* Above it: plans and the engine, which know ranks, buffers and order.  Below it: TCP, shared
 * memory, verbs and the simulator, which know bytes.  Loop thread, all of it. */

struct tci_fold;

/* Whose numbers a tag is.  Each space has its own; the tag of a send and its receive belongs to
 * the ordered pair of ranks, so that up (from the lower rank to the higher, or to itself) and down
 * are two. */
enum tci_space {
    TCI_SPACE_TAGGED,
    TCI_SPACE_ORDERED,
    TCI_SPACE_INTERNAL, /* the group's own collectives */
    TCI_SPACE_P2P_UP,
    TCI_SPACE_P2P_DOWN,
    TCI_SPACE_P2P_ORDERED_UP,
    TCI_SPACE_P2P_ORDERED_DOWN,
    TCI_SPACE_COUNT
};

/* Between two ranks alone. */
static inline bool tci_space_is_p2p(uint32_t space)
{
    return space >= TCI_SPACE_P2P_UP;
}

enum { TCI_ALL_PEERS = -1 };

/* The call as every rank must have made it; compared field by field, shown on a mismatch. */
struct tci_call {
    uint64_t count;
    int32_t root;  /* -1 where there is none; below: a hash of the counts of all ranks */
    uint8_t coll;  /* enum tci_coll */
    uint8_t dtype; /* tc_dtype_t; 255: none */
    uint8_t op;    /* tc_reduce_op_t; 255: none */
    uint8_t plan;  /* id of the plan, and one of the bits below */
};
enum { TCI_CALL_FAST = 128, TCI_CALL_EXACT = 64, TCI_CALL_PLAN = 63 };

/* Which message this is.  Both ends compute it from the plan, so there is no wildcard.  Equal keys
 * of one pair of ranks, sent with one priority, match in the order in which they were posted; an
 * operation has one priority, and the next use of its tag comes after its sends.  `use` counts how
 * often the sender has used the tag, and serves to tell messages of an operation that failed from
 * those of the next one under the same tag: a message of a later use waits for that use.  0: not
 * counted, goes with any. */
struct tci_key {
    uint64_t tag;
    uint64_t group; /* a number that no other group has, or has ever had */
    uint32_t lane;
    uint32_t step; /* number of the receiving step */
    uint32_t use;
    uint8_t space; /* enum tci_space */
};

/* One transfer.  Memory belongs to the poster, who may not touch it between post and completion.
 * All fields down to `room` are filled by the poster. */
struct tci_xfer {
    struct tci_xfer *next; /* in the completion queue */
    struct tci_key key;
    const struct tci_call *call; /* borrowed until completion */
    struct tci_cq *cq;           /* borrowed: where it completes */
    void *data;                  /* sent from, or received to */
    size_t len;                  /* exact at both ends */
    /* RECV_REDUCE: data[i] = operand[i] op incoming[i] (or incoming op operand), folded as it
     * arrives; NULL: plain receive.  `operand` may be `data`. */
    const struct tci_fold *fold;
    const void *operand;
    bool incoming_first; /* the peer's value is the left one */
    unsigned divide;     /* after the fold, divide by this; 0: do not */
    bool use_many;       /* canonical: fold->many of the two instead of pair */
    uint32_t peer;       /* a transport over another one puts that one's number here */
    int8_t priority;
    bool is_send;
    bool is_late;       /* RECV: `data` is not known yet, tci_xfer_find_place() asks for it */
    tc_status_t status; /* TC_PENDING until on the completion queue */
    /* The transport's own. */
    struct tci_xfer *room_prev, *room_next;
    uint64_t room[4];
};

/* Folds `count` whole elements that have come, beginning `at` bytes into the message: core/xfer.c.
 * For the transports; xfer->fold is there. */
void tci_xfer_fold(const struct tci_xfer *xfer, size_t at, const void *incoming, size_t count);

/* Completions are pushed by the transport and pulled by the engine, so that no transport ever
 * calls into a collective.  The first push posts the engine's task. */
struct tci_cq {
    struct tci_xfer *head, **tail;
    struct tci_exec *exec;
    struct tci_task task; /* task.fn is the reader's */
    bool is_posted;
    /* The reader's: fills in `data` of a receive that is late.  False: no memory. */
    bool (*place)(struct tci_xfer *xfer);
};
void tci_cq_init(struct tci_cq *cq, struct tci_exec *exec, void (*fn)(struct tci_task *));
void tci_cq_push(struct tci_cq *cq, struct tci_xfer *xfer, tc_status_t status);
struct tci_xfer *tci_cq_pull(struct tci_cq *cq); /* NULL: none; then the next push posts again */

/* Before a transport needs to know where a receive goes, and no earlier than it must: so memory is
 * taken for what comes, and not for all that is waited for.  False: no memory, and the receive has
 * yet to be completed. */
static inline bool tci_xfer_find_place(struct tci_xfer *xfer)
{
    if (xfer->is_late)
        xfer->is_late = !xfer->cq->place(xfer);
    return !xfer->is_late;
}

/* What ranks tell each other besides payload.  Small, in order with the messages of the link. */
enum tci_notice_kind {
    TCI_NOTICE_END,    /* sender's operation `key` has failed with status; culprit, text say why */
    TCI_NOTICE_LOST,   /* rank `culprit` is lost; text says how that was seen */
    TCI_NOTICE_ASK,    /* calls of `key` differ: dispute.h.  To rank 0: rank `culprit` has made this
                        * one; number: milliseconds left.  From rank 0: what has the receiver
                        * called?  status MISMATCH: the operation may not end well any more */
    TCI_NOTICE_ANSWER, /* of rank `culprit` to that.  status: PENDING entered, OK finished,
                        * both with its call; CLOSED finished, the call is forgotten;
                        * NOT_INITIALIZED not entered; text: what was entered last and when */
    TCI_NOTICE_CALL,   /* rank `culprit` has made this call; arg: the rank to compare it, or all
                        * ones for every rank */
    TCI_NOTICE_SHRINK, /* survivors agree on a new group: below */
    TCI_NOTICE_ACCUSE, /* rank `arg` has seen that `culprit` is lost, for a reason: verdict.h */
    TCI_NOTICE_INQUIRE, /* who hears the host of rank `culprit`?  number: milliseconds to listen;
                         * arg 1: make a link with it if there is none */
    TCI_NOTICE_TESTIFY, /* whether the sender, which has a link with it, hears the host of rank
                         * `culprit`: reason NONE, or MACHINE_SILENT; number: 1 where data moves */
    TCI_NOTICE_BEAT, /* what rank `culprit`, the sender, has done: arg: operations entered; key.tag:
                         * of these, ended; text: the last one */
    TCI_NOTICE_NEAR, /* rank `culprit` may share memory; arg, text: net/shm_meet.c */
    TCI_NOTICE_PETITION, /* the sender's operation `key` comes to its deadline: inquest.h.  status:
                          * PENDING, or OK where it has ended well after all; number: milliseconds
                          * left; arg: its timeout; text: its name */
    TCI_NOTICE_QUERY,    /* rank `culprit` finds out why `key` does not end; it asks, where it is
                          * the sender.  number: milliseconds to listen */
    TCI_NOTICE_REPORT,   /* the sender's answer to that, as an ANSWER; arg: for whom it waits
                          * besides (waiting.h) */
    TCI_NOTICE_RDMA,     /* rank `culprit` has an RDMA device; arg, text: rdma/meet.c */
    TCI_NOTICE_KINDS
};
/* arg of a notice RDMA. */
enum tci_rdma_meeting {
    TCI_RDMA_OFFER,
    TCI_RDMA_ACCEPT,
    TCI_RDMA_CONFIRM,
    TCI_RDMA_DECLINE,        /* the text says why */
    TCI_RDMA_FAILED,         /* rdma/failover.c; the text says what has come, and why */
    TCI_RDMA_CABLE_SHIFT = 8 /* above it: of which cable between the two, from 0 */
};
/* key.step of a notice SHRINK; src/group/shrink.c says when which is sent.  key.use: shrinks of the
 * group that the sender has come through; key.tag: number of the group to come; key.lane, arg: 64
 * ranks of a set, which is complete with the notice after the parts. */
enum tci_shrink_step {
    TCI_SHRINK_INVITE,       /* the sender leads; status TIMEOUT: those before it did not come */
    TCI_SHRINK_JOIN_PART,    /* ranks that are gone for the sender */
    TCI_SHRINK_JOIN,         /* it takes part; tag: of what was proposed to it, or 0 */
    TCI_SHRINK_PROPOSE_PART, /* ranks that will not be in the new group */
    TCI_SHRINK_PROPOSE,
    TCI_SHRINK_ACK,       /* the sender keeps what was proposed */
    TCI_SHRINK_DONE_PART, /* ranks that are not in the new group */
    TCI_SHRINK_DONE,      /* it is decided */
    TCI_SHRINK_SUSPECT,   /* culprit takes the leader for gone */
    TCI_SHRINK_SUSPECTED, /* the sender takes the receiver for gone */
    TCI_SHRINK_EXCLUDED,  /* the receiver is not in the new group; text says why */
    TCI_SHRINK_GONE,      /* the sender has left the group */
    TCI_SHRINK_STEPS
};
/* Whoever has left the group answers those with GONE. */
static inline bool tci_shrink_is_question(uint32_t step)
{
    return step == TCI_SHRINK_INVITE || step == TCI_SHRINK_JOIN || step == TCI_SHRINK_PROPOSE;
}
struct tci_notice {
    uint8_t kind;
    uint8_t reason; /* tc_reason_t: of END, LOST and ACCUSE */
    int32_t status; /* tc_status_t */
    int32_t culprit;
    int32_t number; /* see the kinds; of ANSWER: the rank that it waits for, -1: none */
    uint64_t arg;
    struct tci_key key;
    struct tci_call call;
    char text[256]; /* terminated; checked for that on arrival */
};

/* What the transport asks and tells; implemented by the group (comm.c).  Called from poll and
 * timers of the transport, on the loop; they do not call back into the transport, but post. */
struct tci_transport_sink {
    /* A message (or credit) of `peer` came whose receive is not posted, or with another call than
     * the receive that it matches.  False: drop it, it belongs to an operation that has failed. */
    bool (*admit)(struct tci_transport_sink *self, uint32_t peer, const struct tci_key *key,
                  const struct tci_call *call);
    void (*notice)(struct tci_transport_sink *self, uint32_t peer, const struct tci_notice *notice);
    /* The link to peer is gone and will not come back; `how` goes on after "rank 2 ".  Once a
     * peer. */
    void (*lost)(struct tci_transport_sink *self, uint32_t peer, tc_reason_t reason,
                 const char *how);
    /* After leave(): everything is sent, and every linked peer has said goodbye too, or is gone. */
    void (*left)(struct tci_transport_sink *self);
    /* The link to a peer that has said goodbye has ended.  May be NULL. */
    void (*gone)(struct tci_transport_sink *self, uint32_t peer);
};

struct tci_caps {
    size_t eager_max;    /* at or below: may be sent before the receive is posted */
    double latency_us;   /* half a round trip of a small message */
    double gbytes_per_s; /* of one stream */
};

/* Counters for tests, benches and tc health. */
struct tci_transport_stats {
    uint64_t bytes_sent, bytes_received, messages_sent, messages_received;
    uint64_t bytes_copied;  /* payload that was copied once more on its way to its place */
    uint64_t eager_bytes;   /* held now for receives that are not posted */
    uint64_t strays;        /* connections and frames that were dropped */
    uint64_t bytes_kept;    /* sent, and kept here until the peer has them */
    uint64_t breaks, heals; /* connections that broke while their peer lived, and stand again */
    uint32_t links_open;
    uint64_t bytes_beside; /* of those sent, over further connections of a link */
    uint32_t sides_open;   /* further connections of those links */
};

/* How the link with a peer stands. */
enum tci_bond {
    TCI_BOND_NONE, /* there is none so far */
    TCI_BOND_STANDS,
    TCI_BOND_MENDING, /* it broke, and may come back */
    TCI_BOND_LEFT,    /* the peer has said goodbye: no group of its own needs this rank any more */
    TCI_BOND_LOST     /* for good */
};

/* What is known of a peer's host since a time at which something was said to it. */
enum tci_hearing {
    TCI_HEAR_NO_LINK,  /* no link stands */
    TCI_HEAR_NOTHING,  /* it owes an acknowledgement for longer than that takes */
    TCI_HEAR_TOO_SOON, /* it owes one that may yet come: nothing is known */
    TCI_HEAR_HOST,     /* it has acknowledged something since, or all that was said */
    TCI_HEAR_FLOW      /* the same, and data moves between the two */
};

/* Whether something that came early is still wanted. */
typedef bool tci_review_fn(void *arg, uint32_t peer, const struct tci_key *key,
                           const struct tci_call *call);

struct tci_transport;
struct tci_transport_ops {
    const char *name; /* "tcp", "sim" */
    /* Neither fails here: every posted transfer completes exactly once on its cq. */
    void (*post_send)(struct tci_transport *self, struct tci_xfer *xfer);
    void (*post_recv)(struct tci_transport *self, struct tci_xfer *xfer);
    /* As post_send, but true: nothing completes, for it is out for good, and its memory is free
     * again.  NULL: never. */
    bool (*put)(struct tci_transport *self, struct tci_xfer *xfer);
    /* What was put is there for peers that look; now those that sleep are woken.  Between the two
     * there is time for what needs no peer, and nothing is waited for.  NULL: put has done so. */
    void (*ring)(struct tci_transport *self);
    /* Every live transfer of (group, space, tag) with a peer, or with TCI_ALL_PEERS, completes now
     * with TC_ERR_CANCELLED, one in the middle without touching its memory any more; where a device
     * reads or writes that just now, as soon as it does not.  Early messages of it up to `use` are
     * dropped; all of them, if that is not counted. */
    void (*abort)(struct tci_transport *self, const struct tci_key *key, int peer);
    /* Tell a peer, over a link that is made if need be and allowed; copied; fire and forget. */
    void (*notify)(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                   bool may_link);
    /* Ask about every message, want and credit that waits for its transfer; what keep() refuses is
     * dropped. */
    void (*review)(struct tci_transport *self, tci_review_fn *keep, void *arg);
    void (*caps)(const struct tci_transport *self, struct tci_caps *caps_out);
    void (*stats)(const struct tci_transport *self, struct tci_transport_stats *stats_out);
    /* Say goodbye on every link, behind all that was posted; sink->left follows.  The end of a
     * stream whose peer has said goodbye is no loss. */
    void (*leave)(struct tci_transport *self);
    /* Say goodbye to one peer, behind all that was posted: nothing will be posted with it any
     * more.  Nothing follows. */
    void (*leave_peer)(struct tci_transport *self, uint32_t peer);
    /* Goodbye to all, after a loss: sink->left follows as soon as the peers' hosts have all that
     * was said to them, whether they have left or not. */
    void (*part)(struct tci_transport *self);
    /* Whether the hosts of the peers have all that was told so far, so that it does not need this
     * process any more; NULL: always. */
    bool (*has_told)(const struct tci_transport *self);
    /* How the link with a peer stands, by what was read of it so far; NULL: nobody knows. */
    enum tci_bond (*bond)(const struct tci_transport *self, uint32_t peer);
    /* Read now what has come on every link that stands, so that the end of one is known without a
     * turn of the loop; NULL: nothing is to be read. */
    void (*look)(struct tci_transport *self);
    /* Whether the host of a peer is heard, as far as the medium tells that apart from the peer
     * itself; NULL: it does not. */
    enum tci_hearing (*hear)(const struct tci_transport *self, uint32_t peer, uint64_t since_ns);
    /* End: transfers still live complete with TC_ERR_CLOSED; frees the transport. */
    void (*close)(struct tci_transport *self);
};
struct tci_transport {
    const struct tci_transport_ops *ops;
    struct tci_transport_sink *sink; /* borrowed: of the group */
};

static inline void tci_transport_post(struct tci_transport *self, struct tci_xfer *xfer)
{
    if (xfer->is_send)
        self->ops->post_send(self, xfer);
    else
        self->ops->post_recv(self, xfer);
}

/* Calls of what a transport may leave out, with what NULL means there. */

static inline bool tci_transport_put(struct tci_transport *self, struct tci_xfer *xfer)
{
    if (self->ops->put != NULL)
        return self->ops->put(self, xfer);
    self->ops->post_send(self, xfer);
    return false;
}

static inline void tci_transport_ring(struct tci_transport *self)
{
    if (self->ops->ring != NULL)
        self->ops->ring(self);
}

static inline bool tci_transport_has_told(const struct tci_transport *self)
{
    return self->ops->has_told == NULL || self->ops->has_told(self);
}

static inline enum tci_bond tci_transport_bond(const struct tci_transport *self, uint32_t peer)
{
    return self->ops->bond == NULL ? TCI_BOND_NONE : self->ops->bond(self, peer);
}

static inline void tci_transport_look(struct tci_transport *self)
{
    if (self->ops->look != NULL)
        self->ops->look(self);
}

static inline enum tci_hearing tci_transport_hear(const struct tci_transport *self, uint32_t peer,
                                                  uint64_t since_ns)
{
    return self->ops->hear == NULL ? TCI_HEAR_NO_LINK : self->ops->hear(self, peer, since_ns);
}

#endif
