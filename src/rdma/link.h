/* link.h - what the files of the transport over RDMA share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RDMA_LINK_H
#define TCI_RDMA_LINK_H

#include <pthread.h>

#include "core/base.h"
#include "core/list.h"
#include "core/match.h"
#include "core/memories.h"
#include "core/seal.h"
#include "rdma/cables.h"
#include "rdma/device.h"
#include "rdma/wire.h"

/*   rdma.c      the verbs of the port: to the peer's queue pair, or below
 *   open.c      the device is chosen and opened; all of it is closed
 *   meet.c      two ranks find out whether they reach each other over RDMA
 *   link.c      the life of a link, records out and in
 *   port.c      the device that is used: completions and events, and what the loop polls
 *   qp.c        a queue pair: made, connected, posted to
 *   mem.c       registered memory: slots and chunks of ours, the user's for a while
 *   send.c      messages go into slots, or wait for a credit
 *   push.c      large messages are written into the receiver's memory
 *   pair.c      several cables between two ranks: which of them leads
 *   stripe.c    large messages over all of them
 *   failover.c  one of them fails, and the others take over
 *   heal.c      the one that leads fails, and its queue pair is made again
 *   uc.c        where devices acknowledge nothing: ends tell, and ask, what has come
 *   recv.c      records are matched with receives
 *   grant.c     receivers give credits, and take them back
 *   sealed.c    with encryption: keys, and what is sealed
 *   wire.c      records as bytes
 */

enum {
    TCI_RDMA_KEPT = 4,           /* slots of the peer for acknowledgements alone */
    TCI_RDMA_WRITES = 8,         /* pieces of large messages on their way at a time */
    TCI_RDMA_QUEUE = 64,         /* work requests on their way; > slots and writes */
    TCI_RDMA_CHUNK = 256 * 1024, /* = slots of one direction */
    TCI_RDMA_CHUNK_SEALED = TCI_RDMA_CHUNK - TCI_RDMA_CHUNK / TCI_RECORD_MAX * TCI_RECORD_TAG,
    TCI_RDMA_PIECE = 1024 * 1024,      /* of a large message: then a more urgent one has its turn */
    TCI_RDMA_EAGER_MAX = 64 * 1024,    /* above it two copies cost more than a round trip */
    TCI_RDMA_EAGER_COST = 80,          /* of a message besides its payload: none is free */
    TCI_RDMA_WINDOW = 4 * 1024 * 1024, /* early bytes that a peer may have us keep */
    TCI_RDMA_EARLY_MAX = 1 << 18,      /* and early credits and requests */
    TCI_RDMA_GRANTS = 1024,            /* ranges that a peer may write to at a time */
    TCI_RDMA_STAGED = 2,               /* chunks of one receive: one is filled, one is read */
    TCI_RDMA_CHUNKS = 64,              /* lent to peers at a time, by all receives */
    TCI_RDMA_REGIONS = 64,             /* some devices stop near 100 */
    TCI_RDMA_CABLES = 4,               /* between two ranks */
    TCI_RDMA_QUIET = 8,                /* of so many small records one completes: work saved … */
    TCI_RDMA_BATCH = 32,               /* completions that are taken at once */
    TCI_RDMA_TIMEOUT = 14,             /* of an acknowledgement: 67 ms … */
    TCI_RDMA_TIMEOUT_SOFTWARE = 18,    /* 1.1 s: its packets wait for processors */
    TCI_RDMA_RETRIES = 7 /* … so a silent peer is known after half a second or some */
};

/* ---- Registered memory ---- */

/* A piece of ours, TCI_RDMA_CHUNK bytes. */
struct tci_rdma_chunk {
    struct tci_rdma_chunk *next; /* free */
    uint8_t *data;
    uint32_t lkey, rkey;
    bool is_open; /* to peers, for writing */
};

/* Memory of the user's.  What tc_buffer_alloc has made stays registered until it is freed; other
 * memory while it is used. */
struct tci_rdma_region {
    struct tci_list link; /* in rdma->regions, the last used one first */
    struct ibv_mr *mr;    /* owned */
    uintptr_t begin;
    size_t len;
    uint64_t life; /* of struct tci_memory; 0: of the user's own */
    unsigned uses;
    bool is_writable, is_gone;
};

/* ---- Transfers ---- */

/* A large message of ours whose receiver has given a credit. */
struct tci_rdma_push {
    struct tci_list link; /* in link->pushes, the most urgent first */
    struct tci_xfer *xfer;
    uint32_t number; /* of the receive, by its receiver */
    struct tci_rdma_range ranges[TCI_RDMA_RANGES];
    unsigned range_count;
    uint64_t in_range;              /* bytes of the first range that are posted */
    uint64_t posted;                /* of the message */
    unsigned flying;                /* writes that are posted and not completed */
    struct tci_rdma_region *region; /* NULL: it goes through chunks */
    int8_t priority;
    bool is_ending;
    tc_status_t status; /* then */
};

/* A range of a receive that the peer may write to. */
struct tci_rdma_grant {
    struct tci_xfer *xfer; /* NULL: free, or aborted */
    uint32_t number;       /* of the receive; 0: free */
    uint64_t at, len, got;
    struct tci_rdma_region *region; /* or … */
    struct tci_rdma_chunk *chunk;
    uint32_t next_free;
};

/* ---- Links ---- */

/*   NEW --post--> OFFERED --ACCEPT--> GREETING --CONFIRM--> NEAR
 *    |                                                       ^
 *    +--OFFER--> ACCEPTED --hello is answered----------------+
 *   any of them before NEAR --refused, no path, too late--> FAR: all goes another way
 *   NEAR --of several cables one that does not lead has failed--> STOPPED --the peer too--> FAR
 *   NEAR --the only one, or the one that leads, has failed--> HEALING --made again--> NEAR
 *   lost, or left: GONE
 */
enum tci_rdma_state {
    TCI_RDMA_NEW,
    TCI_RDMA_OFFERED,
    TCI_RDMA_ACCEPTED,
    TCI_RDMA_GREETING,
    TCI_RDMA_NEAR,
    TCI_RDMA_HEALING,
    TCI_RDMA_STOPPED,
    TCI_RDMA_FAR,
    TCI_RDMA_GONE
};

/* What one tells the other of its queue pair. */
enum { TCI_RDMA_POINT = 32 }; /* of X25519 */
struct tci_rdma_card {
    unsigned slots, slot_bytes, eager_max, mtu, lid, kind, qpn, psn;
    unsigned is_uc;   /* 1: the queue pair is of kind UC */
    unsigned cables;  /* to the other end that are there, a bit each */
    unsigned ciphers; /* TCI_CIPHER_…, all that there are; 0: it does not encrypt */
    uint8_t gid[16];
    uint8_t point[TCI_RDMA_POINT]; /* where it encrypts */
};

/* What is there besides where links are sealed. */
struct tci_rdma_crypt {
    struct tci_seal send, receive;             /* once both cards are known */
    uint8_t secret[32], point[TCI_RDMA_POINT]; /* our part of them; the secret is wiped then */
};

/* A work request that is posted, as it is posted once more over a queue pair that is made again. */
struct tci_rdma_work {
    struct tci_rdma_push *push;   /* a write for it; NULL: a record, or nobody waits for it */
    struct tci_rdma_chunk *chunk; /* that it is written from; or NULL */
    struct ibv_sge sge;           /* length 0: a write that keeps its place alone */
    uint64_t to;                  /* a write: the peer's memory */
    uint32_t rkey, imm;           /* the same */
    uint8_t kind;                 /* of the record */
    bool is_write;
};

/* A message of several records that is coming in. */
struct tci_rdma_rx {
    struct tci_xfer *xfer;   /* its receive; or … */
    struct tci_early *early; /* where it is kept; both NULL: it is dropped */
    uint64_t total, filled;  /* equal: none is coming */
};

struct tci_rdma_link {
    struct tci_rdma *rdma;     /* borrowed */
    struct tci_list near_link; /* in rdma->near */
    uint32_t peer;
    uint16_t generation; /* of its work requests: what is left of another one means nothing */
    uint8_t state;
    uint8_t cables;   /* that are there at both ends, a bit each; known once cards are */
    bool has_greeted; /* the peer's hello has come */
    bool has_left;    /* the peer has said goodbye */
    bool is_lost;     /* and that was told */
    bool is_leaving;  /* so will we, or … */
    bool bye_put;     /* … have we */
    bool has_waited;  /* for what the other end knows of the failure, or what it has sent */
    bool is_stopped;  /* the queue pair takes nothing in any more … */
    bool is_drained;  /* … and all that it has taken is known */
    bool is_moving;   /* its parts go over another cable, with all that they have */
    bool has_had;     /* the peer has said … */
    uint32_t had;     /* … what it has taken, of works_put */
    struct tci_rdma_heal {
        uint64_t begun_ns; /* when the last one failed … */
        uint64_t since_ns; /* … and the first of those since when nothing has arrived; 0: none */
        uint32_t done;     /* works_done, after the last one */
        unsigned tries;    /* since nothing has arrived */
        bool is_told;      /* in the log: it has failed, and not yet that it stands again */
        struct tci_timer timer;
    } heal;
    bool is_uc;         /* the queue pair: nothing is acknowledged by devices */
    const char *broken; /* static: it cannot go on; ended at the next poll */
    char why_far[200];  /* "": not tried */
    struct tci_timer timer;
    struct tci_xfers pending; /* posted before it was known which way to go */

    struct ibv_qp *qp;            /* owned */
    struct tci_rdma_crypt *crypt; /* owned, with the queue pair; NULL: nothing is sealed */
    uint32_t psn, inline_max;
    unsigned mtu;                    /* of packets, once both cards are known */
    int cqe;                         /* entries of the completion queue that are its */
    struct tci_rdma_chunk *out, *in; /* owned: slots */
    struct tci_rdma_work works[TCI_RDMA_QUEUE];
    uint32_t works_put, works_done;     /* ever; = sent, once more, and what of it has ended */
    uint32_t flown;                     /* of these: that the device has done */
    uint32_t records_put, records_done; /* of these, in slots of ours */
    uint32_t quiet;                     /* the last so many records, which complete with the next */
    uint32_t sent, acked;               /* records and writes: to slots of the peer's */
    uint32_t taken, told;               /* the same the other way */
    uint32_t writes;                    /* on their way */
    uint32_t spoken, owed;  /* with UC: the last that more than acknowledges; told soon, up to it */
    uint32_t asked;         /* acked, when it was asked */
    uint64_t lead_asked_ns; /* over the cable that leads, since this one is silent; 0: not */
    uint64_t ask_ms;
    struct tci_timer ask;
    uint64_t read_ns; /* when something last came */

    struct tci_rdma_queue {
        uint8_t *data; /* owned: records that wait for a slot */
        size_t len, done, room;
        uint32_t revoked; /* answers to what the peer takes back among them */
    } queue;
    struct tci_xfers sends;        /* wait for a slot, the most urgent first */
    struct tci_xfer *sending;      /* the first of these is partly out */
    struct tci_list pushes;        /* struct tci_rdma_push */
    uint64_t framed, window_acked; /* early bytes sent ever, and of these known to be used up */
    uint64_t consumed, consumed_told;
    uint64_t held;       /* early bytes that we keep */
    uint32_t early_held; /* early credits and requests */
    struct tci_rdma_rx rx;
    uint32_t numbers;                             /* receives that were given a credit, ever */
    struct tci_rdma_grant *grants;                /* owned */
    uint32_t grant_count, grant_room, grant_free; /* free: place + 1; 0: none */
    struct tci_xfers revoking; /* receives that are aborted, while the peer may write to them */
    uint32_t live, sends_live;
};

struct tci_rdma {
    struct tci_transport base;      /* first */
    struct tci_transport_sink sink; /* of the transport below */
    struct tci_transport *below;    /* owned */
    struct tci_loop *loop;
    struct tci_exec *exec;
    tc_context *context;
    uint32_t rank, size;
    size_t eager_max;
    bool encrypts;   /* every link is sealed … */
    uint8_t *sealed; /* owned: then one record of a piece, where no peer can write */
    struct tci_rdma_options options;

    const struct tci_verbs *verbs;
    struct tci_rdma_choice choice; /* its context is owned */
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    int cqe_used;
    uint16_t generations;
    struct tci_source source;
    struct tci_watch channel_watch, event_watch;
    uint64_t heal_ns; /* how long a queue pair may be away; 0: it is not made again */
    bool is_dead;     /* the device */
    bool has_broken;  /* links */
    bool is_closing;  /* nothing is taken in any more */

    int8_t *cable_to;             /* owned: as in the configuration; NULL: the first to all */
    struct tci_list siblings;     /* transports of the other devices: a ring */
    struct tci_list stripes;      /* struct tci_rdma_stripe: messages that this one leads */
    bool has_failed;              /* one of these */
    struct tci_rdma_link **links; /* owned, `size`; NULL in it: never needed */
    struct tci_list near;
    struct tci_match *match; /* owned; made with the first link */
    struct tci_pool earlies, pushes, stripe_pool;
    struct tci_timer probe;
    uint64_t probe_ms;
    uint32_t starved; /* receives that wait for a chunk or a grant … */
    bool may_feed;    /* … that may be free now */
    uint32_t granted; /* grants that peers have, or have yet to give back */

    struct tci_rdma_slab *slabs; /* owned */
    struct tci_rdma_chunk *free_chunks[2];
    unsigned chunks_lent;
    pthread_mutex_t regions_lock;
    struct tci_list regions;
    unsigned region_count;
    size_t idle_bytes, idle_max; /* of those without a use; besides the last one used, at most */
    struct tci_memories_watch memories;

    bool is_leaving, has_left_below;
    uint64_t live; /* transfers over links that are near, or may be */
    struct tci_transport_stats stats;
    struct tci_meter meter; /* of these */
};

/* What a receive, or a send, has in its room. */
enum {
    TCI_RDMA_ROOM_GRANTED = TCI_ROOM_DONE + 1, /* a receive: bytes that were granted so far */
    TCI_RDMA_ROOM_SINCE, /* the same: when it was revoked; its status is in TCI_ROOM_DONE then */
    TCI_RDMA_ROOM_COST = TCI_ROOM_DONE + 1 /* a small send: of the window */
};
enum { TCI_XFER_STARVED = 8 };

static inline struct tci_rdma *tci_rdma_of(struct tci_transport *transport)
{
    return (struct tci_rdma *)transport;
}

/* Messages go over it, now or once it is made again. */
static inline bool tci_rdma_is_up(const struct tci_rdma_link *link)
{
    return link->state == TCI_RDMA_NEAR || link->state == TCI_RDMA_HEALING;
}

/* It has a queue pair, or waits for another one. */
static inline bool tci_rdma_may_break(const struct tci_rdma_link *link)
{
    return link->qp != NULL || link->state == TCI_RDMA_HEALING;
}

static inline bool tci_rdma_may_post(const struct tci_rdma_link *link)
{
    return link->broken == NULL && link->state != TCI_RDMA_HEALING;
}

/* Which cable to a rank this device is; -1: none. */
static inline int tci_rdma_cable_to(const struct tci_rdma *rdma, uint32_t peer)
{
    return rdma->cable_to == NULL ? 0 : rdma->cable_to[peer];
}

/* ---- rdma.c ---- */

extern const struct tci_transport_ops tci_rdma_ops;
/* How transfers in match end, and what came early. */
extern const struct tci_match_ends tci_rdma_ends;
/* What the transport below has to say comes to this one from now on. */
void tci_rdma_hear_below(struct tci_rdma *rdma);
void tci_rdma_complete(struct tci_rdma_link *link, struct tci_xfer *xfer, tc_status_t status);
bool tci_rdma_admit(struct tci_rdma_link *link, const struct tci_key *key,
                    const struct tci_call *call);
/* A transfer, or a part of one, at a cable; where that is down, at the one that leads. */
void tci_rdma_post_at(struct tci_rdma *rdma, struct tci_xfer *xfer);
void tci_rdma_abort_at(struct tci_rdma *rdma, struct tci_xfer *xfer, tc_status_t status);
void tci_rdma_go_on(struct tci_rdma_link *link);
/* The other way is taken. */
void tci_rdma_go_below(struct tci_rdma_link *link, const char *why);
void tci_rdma_check_left(struct tci_rdma *rdma);

/* ---- open.c ---- */

void tci_rdma_close(struct tci_transport *self);

/* ---- meet.c ---- */

void tci_rdma_meet(struct tci_rdma_link *link); /* NEW: begin */
void tci_rdma_on_meet(struct tci_rdma *rdma, uint32_t peer, const struct tci_notice *notice);
/* A hello of the peer's, or the end of ours, over the queue pair; a record that comes behind it. */
void tci_rdma_on_hello(struct tci_rdma_link *link);
void tci_rdma_on_hello_sent(struct tci_rdma_link *link);
void tci_rdma_stand(struct tci_rdma_link *link);
/* Tell the peer, over the connection, that a link that stood has ended. */
void tci_rdma_tell_end(struct tci_rdma_link *link, const char *why);
void tci_rdma_tell_failed(struct tci_rdma_link *link, const char *cause);
void tci_rdma_tell_card(struct tci_rdma_link *link, enum tci_rdma_meeting what);
void tci_rdma_tell_connected(struct tci_rdma_link *link);
/* Both take the transport below instead. */
void tci_rdma_decline(struct tci_rdma_link *link, const char *why);
void tci_rdma_on_link_timer(struct tci_timer *timer);

/* ---- link.c ---- */

/* The link of a peer, made when it is new; NULL: no memory. */
struct tci_rdma_link *tci_rdma_link_get(struct tci_rdma *rdma, uint32_t peer);
void tci_rdma_link_up(struct tci_rdma_link *link);
void tci_rdma_link_end(struct tci_rdma_link *link, tc_status_t status);
/* Take in all that the peer has sent. */
void tci_rdma_take_all(struct tci_rdma_link *link);
/* The peer cannot be reached any more, or has broken the rules. */
void tci_rdma_link_lose(struct tci_rdma_link *link, const char *how);
void tci_rdma_link_lose_for(struct tci_rdma_link *link, const char *cause); /* over this device */
/* It cannot go on, for a reason that is a static text; ended when nobody stands on it. */
void tci_rdma_link_break(struct tci_rdma_link *link, const char *cause);
extern const char tci_rdma_flushed[];    /* the cause where the other end knows more */
extern const char tci_rdma_not_opened[]; /* how it is lost when something does not open */
void tci_rdma_end_broken(struct tci_rdma *rdma);
void tci_rdma_link_free(struct tci_rdma_link *link);
/* Put a record with a little payload: at once, or when there is room. */
void tci_rdma_control(struct tci_rdma_link *link, struct tci_rdma_head *head, const void *payload);
/* The same at once, or not at all: false. */
bool tci_rdma_put(struct tci_rdma_link *link, struct tci_rdma_head *head, const void *payload);
/* What waits goes out as far as there is room; the amount of work. */
unsigned tci_rdma_flush(struct tci_rdma_link *link);
/* No record that completes by itself is on its way: notices have arrived. */
bool tci_rdma_is_told(const struct tci_rdma_link *link);
bool tci_rdma_is_clear(const struct tci_rdma_link *link);
void tci_rdma_say_bye(struct tci_rdma_link *link);
/* A slot of ours was filled, or a range was written to: `len` bytes.  False: what came before has
 * not come, so neither has this, and the link is broken. */
bool tci_rdma_on_record(struct tci_rdma_link *link, uint32_t slot, uint32_t len);
bool tci_rdma_on_written(struct tci_rdma_link *link, uint32_t imm, uint32_t len);
/* The device has done a work request of ours, and all before it. */
void tci_rdma_on_done(struct tci_rdma_link *link, uint32_t work);
void tci_rdma_retire(struct tci_rdma_link *link); /* those that are finished */
/* Say what was taken in, if it is time to. */
unsigned tci_rdma_acknowledge(struct tci_rdma_link *link);

/* ---- port.c ---- */

/* What the chosen device gives: false when that is not enough. */
bool tci_rdma_port_open(struct tci_rdma *rdma);
void tci_rdma_port_close(struct tci_rdma *rdma);
bool tci_rdma_cq_reserve(struct tci_rdma *rdma, int entries);
/* Take in completions; the amount of work. */
unsigned tci_rdma_poll_cq(struct tci_rdma *rdma, unsigned budget);
/* Whether another queue pair need not fail for the same. */
bool tci_rdma_is_passing(const char *cause);

/* ---- qp.c ---- */

/* NULL, or why there is none: a static text.  Of kind UC where it is wanted, and where the device
 * has no other. */
const char *tci_rdma_qp_open(struct tci_rdma_link *link, bool wants_uc);
/* Another one in its place, with the memory and the keys of the one that has failed. */
const char *tci_rdma_qp_open_again(struct tci_rdma_link *link);
const char *tci_rdma_qp_connect(struct tci_rdma_link *link, const struct tci_rdma_card *card);
void tci_rdma_qp_stop(struct tci_rdma_link *link); /* what is posted is flushed */
/* The device is done with all memory; what was posted stays known, for the peer's count of it. */
void tci_rdma_qp_destroy(struct tci_rdma_link *link);
void tci_rdma_qp_close(struct tci_rdma_link *link); /* that is given up, too */
void tci_rdma_card_fill(const struct tci_rdma_link *link, struct tci_rdma_card *card_out);
/* 0, or an errno: then the queue pair is of no use any more. */
int tci_rdma_post_slot(struct tci_rdma_link *link, uint32_t slot);
int tci_rdma_post_record(struct tci_rdma_link *link, size_t bytes, uint8_t kind);
/* From the chunk, where there is one: `len` bytes as they go over the wire. */
int tci_rdma_post_write(struct tci_rdma_link *link, struct tci_rdma_push *push,
                        struct tci_rdma_chunk *chunk, size_t len);
void tci_rdma_post_again(struct tci_rdma_link *link);   /* all that has not ended */
uint8_t *tci_rdma_slot_out(struct tci_rdma_link *link); /* the next one */
/* Whether a record may be posted; an acknowledgement may when nothing else may. */
bool tci_rdma_has_slot(const struct tci_rdma_link *link, bool is_ack);
bool tci_rdma_has_room(const struct tci_rdma_link *link); /* for a write */

/* ---- uc.c: nothing is done where the queue pair is of kind RC ---- */

/* How many work requests, of all ever, have ended: their memory is free, and the peer has them. */
uint32_t tci_rdma_finished(const struct tci_rdma_link *link);
bool tci_rdma_is_quiet(uint8_t kind); /* nobody waits for the end of such a record */
/* One was posted: link->sent has it. */
void tci_rdma_note_sent(struct tci_rdma_link *link, bool is_ack);
/* The next that is taken in is waited for there. */
void tci_rdma_owe(struct tci_rdma_link *link, bool is_awaited_there);
void tci_rdma_owe_record(struct tci_rdma_link *link, uint8_t kind);
bool tci_rdma_owes(const struct tci_rdma_link *link);
void tci_rdma_on_ask_timer(struct tci_timer *timer);

/* ---- sealed.c ---- */

/* NULL, or why there are no keys: a static text.  Nothing is done where nothing is sealed. */
const char *tci_rdma_crypt_open(struct tci_rdma_link *link);
const char *tci_rdma_crypt_agree(struct tci_rdma_link *link, const struct tci_rdma_card *card,
                                 bool is_offerer);
void tci_rdma_crypt_close(struct tci_rdma_link *link);
/* In place; how long it is then.  0: it does not open. */
size_t tci_rdma_seal_record(struct tci_rdma_link *link, uint8_t *record, size_t bytes);
size_t tci_rdma_open_record(struct tci_rdma_link *link, uint8_t *record, size_t bytes);
size_t tci_rdma_sealed_len(uint64_t len); /* of a piece */
/* The next `len` bytes of a push, at most TCI_RDMA_CHUNK_SEALED, into a chunk; how long they are
 * there. */
size_t tci_rdma_seal_piece(struct tci_rdma_link *link, const struct tci_rdma_push *push,
                           const struct tci_rdma_chunk *chunk, size_t len);
/* To where it belongs, or nowhere where nobody waits for it; false: it does not open. */
bool tci_rdma_open_piece(struct tci_rdma_link *link, const struct tci_rdma_grant *grant);

/* ---- mem.c ---- */

struct tci_rdma_chunk *tci_rdma_chunk_get(struct tci_rdma *rdma, bool is_open);
void tci_rdma_chunk_put(struct tci_rdma *rdma, struct tci_rdma_chunk *chunk);
/* NULL: it cannot be registered now. */
struct tci_rdma_region *tci_rdma_region_get(struct tci_rdma *rdma, const void *data, size_t len,
                                            bool is_writable);
void tci_rdma_region_put(struct tci_rdma *rdma, struct tci_rdma_region *region);
/* Out of the user's memory; false: it is not there. */
bool tci_rdma_copy(void *to, const void *from, size_t len);
void tci_rdma_mem_open(struct tci_rdma *rdma);
void tci_rdma_mem_close(struct tci_rdma *rdma);

/* ---- send.c ---- */

void tci_rdma_send(struct tci_rdma_link *link, struct tci_xfer *xfer);
unsigned tci_rdma_flush_sends(struct tci_rdma_link *link);
const char *tci_rdma_on_credit(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                               const uint8_t *payload);
void tci_rdma_end_send(struct tci_rdma_link *link, struct tci_xfer *xfer, tc_status_t status);
void tci_rdma_drop_credit(struct tci_rdma_link *link, uint32_t number);
/* NULL: all of them. */
void tci_rdma_abort_sends(struct tci_rdma_link *link, const struct tci_key *key,
                          tc_status_t status);
void tci_rdma_on_probe_timer(struct tci_timer *timer);

/* ---- push.c ---- */

void tci_rdma_push_start(struct tci_rdma_link *link, struct tci_xfer *xfer, uint32_t number,
                         const struct tci_rdma_range *ranges, unsigned count);
const char *tci_rdma_on_further(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                                const uint8_t *payload);
unsigned tci_rdma_push_some(struct tci_rdma_link *link);
void tci_rdma_push_done(struct tci_rdma_link *link, struct tci_rdma_push *push);
/* The receiver wants no more of it. */
const char *tci_rdma_on_revoke(struct tci_rdma_link *link, uint32_t number);
void tci_rdma_abort_pushes(struct tci_rdma_link *link, const struct tci_key *key,
                           tc_status_t status);

/* Of those that were aborted, and wait for a device that is done with them. */
void tci_rdma_end_aborted_pushes(struct tci_rdma_link *link);

/* False: it is none of these. */
bool tci_rdma_abort_push(struct tci_rdma_link *link, const struct tci_xfer *xfer,
                         tc_status_t status);

/* ---- recv.c ---- */

void tci_rdma_recv(struct tci_rdma_link *link, struct tci_xfer *xfer);
const char *tci_rdma_on_message(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                                const uint8_t *payload);
const char *tci_rdma_on_part(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                             const uint8_t *payload);
void tci_rdma_on_cut(struct tci_rdma_link *link);
const char *tci_rdma_on_want(struct tci_rdma_link *link, const struct tci_rdma_head *head);
void tci_rdma_on_probe(struct tci_rdma_link *link, const struct tci_rdma_head *head);
void tci_rdma_end_recv(struct tci_rdma_link *link, struct tci_xfer *xfer, tc_status_t status);
void tci_rdma_drop_early(struct tci_rdma_link *link, struct tci_early *early);

/* ---- grant.c ---- */

/* Give a receive its credit, now or when there is room for it. */
void tci_rdma_grant(struct tci_rdma_link *link, struct tci_xfer *xfer);
const char *tci_rdma_on_filled(struct tci_rdma_link *link, uint32_t place, uint32_t len);
void tci_rdma_on_revoked(struct tci_rdma_link *link, uint32_t number);
/* The receive ends before it is complete: true when the transfer completes later, once the peer
 * cannot write to its memory any more. */
bool tci_rdma_take_back(struct tci_rdma_link *link, struct tci_xfer *xfer, tc_status_t status);
/* What is not answered in time. */
void tci_rdma_check_revoking(struct tci_rdma_link *link);
/* The queue pair is gone, nobody writes any more. */
void tci_rdma_end_revoking(struct tci_rdma_link *link);
void tci_rdma_end_grants(struct tci_rdma_link *link);
void tci_rdma_feed(struct tci_rdma *rdma);

#endif
