/* shm_link.h - what the files of the transport over shared memory share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SHM_LINK_H
#define TCI_SHM_LINK_H

#include <sys/types.h>

#include "core/base.h"
#include "core/list.h"
#include "core/match.h"
#include "net/shm.h"
#include "net/shm_region.h"
#include "net/shm_trial.h"

/*   shm.c         the verbs of the port: to the peer's memory, or below
 *   shm_meet.c    two ranks find out whether they share memory
 *   shm_link.c    the life of a link, its records, the source that the loop polls
 *   shm_send.c    messages go into the ring, or are lent
 *   shm_recv.c    records are matched with receives
 *   shm_pull.c    loans are read
 *   shm_map.c     memory that loans lie in, mapped once
 *   shm_trial.c   which of two ways of copying costs less
 *   shm_region.c, shm_ring.c   memory, and records in it
 */

enum {
    TCI_SHM_EAGER_MAX = 64 * 1024,  /* longer messages are lent: one copy instead of two; and
                                         where nothing is folded, those from … */
    TCI_SHM_MAPPED_MIN = 16 * 1024, /* … here on, of memory that is mapped (64 KiB broadcast: 1.9
                                         us, and 5.9 by the ring) */
    TCI_SHM_MOVED_MIN = 32 * 1024,  /* … and here on, of other memory (3.9 us; 5.2 by the ring,
                                         through the caches; both gathered, 32 KiB each way) */
    TCI_SHM_EAGER_COST = 80,        /* of a message besides its payload: none is free */
    TCI_SHM_WINDOW = 4 * 1024 * 1024, /* early bytes that a peer may have us keep */
    TCI_SHM_EARLY_MAX = 1 << 18,      /* and early loans */
    TCI_SHM_STREAM_MAX = 256 * 1024,  /* shorter loans of all-reduces that are not mapped come by
                                         the ring: two copies of ours cost less than the system's */
    TCI_SHM_READ_MAX = 512 * 1024,    /* read at once: half a second-level cache; calls cost
                                         (1 MiB all-reduced: 64 us, and 117 by 64 KiB) */
    TCI_SHM_MOVE_MAX = 1 << 20,      /* the same, where nothing is folded: its sender, who waits for
                                         it, sees each (tci_shm_way) and does not fall asleep */
    TCI_SHM_READ_BESIDE = 64 * 1024, /* read at once while something more urgent is awaited */
    TCI_SHM_SENT_PIECE = 32 * 1024,  /* of a loan that is sent through the ring */
    TCI_SHM_BATCH = 64               /* records of one link before the next has its turn */
};

/* Payload of LEND. */
struct tci_shm_lend {
    uint64_t total, id;
    uint64_t addr;   /* in its sender's memory */
    uint64_t memory; /* number of the memory that others may map, 0: none */
    uint64_t offset; /* in that memory */
    uint32_t epoch;  /* of the way when it was lent */
    int32_t fd;      /* of that memory */
    uint64_t bytes;  /* its length */
    int64_t priority;
};

/*   NEW --post--> ASKING (offered or accepted) --both see the other's token--> NEAR
 *                    |  refused, or cannot                                      |
 *                    +--> FAR: everything goes below        lost or left: GONE <+
 */
enum tci_shm_state {
    TCI_SHM_NEW,
    TCI_SHM_OFFERED,
    TCI_SHM_ACCEPTED,
    TCI_SHM_NEAR,
    TCI_SHM_FAR,
    TCI_SHM_GONE /* for good */
};

/* A loan of ours.  Its id is its place in the table and the number of its use. */
struct tci_shm_loan {
    struct tci_xfer *xfer; /* NULL: free, or aborted */
    uint32_t use;
    uint32_t next_free;
};

/* How a payload goes into the ring; a short one always through the caches. */
enum { TCI_SHM_CACHED, TCI_SHM_PAST_CACHES };

/* A loan of the peer's that is being read into its receive. */
struct tci_shm_pull {
    struct tci_list link; /* in link->pulls, or link->waiting */
    struct tci_xfer *xfer;
    struct tci_shm_lend lend;
    struct tci_shm_mapped *mapped; /* where it lies; NULL: to be read, or sent */
    int8_t priority;
    bool is_sent; /* the peer was asked to send it */
};

/* Memory of a peer's that is mapped here. */
struct tci_shm_mapped {
    uint64_t memory; /* its number; 0: free */
    const uint8_t *data;
    size_t bytes;
    uint64_t used;  /* when, by link->uses */
    uint32_t pulls; /* that read it */
};
enum { TCI_SHM_MAPPED_MAX = 32 };

/* Records that wait for room in the ring: heads with their payload. */
struct tci_shm_queue {
    uint8_t *data; /* owned */
    size_t len, done, room;
};

struct tci_shm_link {
    struct tci_shm *shm;       /* borrowed */
    struct tci_list near_link; /* in shm->near */
    uint32_t peer;
    uint8_t state;
    const char *why_far;           /* static; NULL: not tried */
    struct tci_xfers pending;      /* posted before it was known which way to go */
    uint8_t token[TCI_SHM_TOKEN];  /* told to the peer, who looks for it */
    struct tci_shm_region *region; /* owned: mapped */
    int region_fd;                 /* owned; -1: the region is the peer's */
    pid_t pid;                     /* of the peer */
    int pidfd;                     /* owned */
    uint64_t alive_ns;             /* when it was last asked, and had not ended; 0: never */
    int bell;                      /* owned: to the peer */
    bool may_read;                 /* its memory */
    bool has_left;                 /* the peer has said goodbye */
    bool is_lost;                  /* and that was told */
    bool is_leaving, bye_put;      /* so will we, or have we */
    bool has_put;                  /* it is among shm->put */
    struct tci_shm_writer writer;
    struct tci_shm_reader reader;
    struct tci_shm_link *next_put; /* in shm->put */
    uint64_t read_ns;              /* when something was last read … */
    bool is_fresh;                 /* … but for the last time, which was just now */
    struct tci_shm_queue queue;
    struct tci_xfers sends;     /* wait for room in the ring, the most urgent first */
    struct tci_shm_loan *loans; /* owned */
    uint32_t loan_count, loan_room, loan_free; /* free: place + 1; 0: none */
    struct tci_list asked;      /* pulls of ours to be sent: struct tci_shm_sending */
    struct tci_shm_trial store; /* of payload into the ring */
    uint64_t read_ns_before[2], read_bytes_before[2]; /* of the peer, as its trial began */
    uint64_t framed, acked; /* early bytes sent ever, and of these known to be used up */
    uint64_t consumed;      /* early bytes received and used up ever */
    uint64_t held;          /* early bytes that we keep */
    uint32_t early_held;    /* early loans */
    uint32_t pieces_seen;   /* of our loans, by the peer */
    uint32_t live, sends_live;
    struct tci_list pulls;   /* to be read, the most urgent first */
    struct tci_list waiting; /* for pieces, or for an answer */
    struct tci_shm_mapped mapped[TCI_SHM_MAPPED_MAX];
    uint64_t uses;
};

/* Receives that are posted, by priority. */
struct tci_shm_awaited {
    uint32_t counts[256]; /* by priority, from the least on */
    uint64_t any[4];      /* a bit for each of them that is not 0 */
    uint64_t since_ns;    /* since when reading gives way to the most urgent one; 0: it does not */
    int ended;            /* the most urgent that has ended in this turn of the source */
};

/* A loan of ours that the peer cannot read: it goes through the ring. */
struct tci_shm_sending {
    struct tci_list link; /* in link->asked, the most urgent first */
    uint64_t id;
    struct tci_xfer *xfer;
    uint64_t done;
};

struct tci_shm {
    struct tci_transport base;      /* first */
    struct tci_transport_sink sink; /* of the transport below */
    struct tci_transport *below;    /* owned */
    struct tci_source source;
    struct tci_loop *loop;
    struct tci_exec *exec;
    tc_context *context;
    uint32_t rank, size;
    bool may_read;
    size_t eager_max;            /* longer messages are lent */
    struct tci_cpus cpus;        /* where it and those it is linked with may run */
    bool *is_local;              /* owned: ranks that may share memory; NULL: none */
    struct tci_shm_link **links; /* owned, `size`; NULL in it: never needed */
    struct tci_list near;
    struct tci_shm_link *put; /* where a message was put and nobody was woken for it; NULL: none */
    struct tci_match *match;  /* owned; made with the first link */
    struct tci_pool earlies, pulls, sendings;
    uint8_t *staging; /* owned, TCI_SHM_READ_MAX */
    struct tci_shm_awaited awaited;
    bool has_put_off; /* what was to be read, for what had come */
    int bell[2];      /* owned: a pipe, others write; -1: not made yet */
    struct tci_watch bell_watch;
    bool is_armed;
    bool is_leaving, has_left_below;
    uint64_t live; /* transfers over links that are near */
    struct tci_transport_stats stats;
    struct tci_meter meter; /* of these */
};

static inline struct tci_shm *tci_shm_of(struct tci_transport *transport)
{
    return (struct tci_shm *)transport;
}

/* ---- shm.c ---- */

/* Complete a transfer that is in no list any more. */
void tci_shm_complete(struct tci_shm_link *link, struct tci_xfer *xfer, tc_status_t status);
bool tci_shm_admit(struct tci_shm_link *link, const struct tci_key *key,
                   const struct tci_call *call);
/* How transfers in match end, and what came early. */
extern const struct tci_match_ends tci_shm_ends;
/* What was posted before it was known which way to go goes on. */
void tci_shm_go_on(struct tci_shm_link *link);
/* The other way is taken, for a reason that is a static text. */
void tci_shm_go_below(struct tci_shm_link *link, const char *why);
/* Say goodbye below, once all that goes over shared memory has been said. */
void tci_shm_check_left(struct tci_shm *shm);

/* ---- shm_meet.c ---- */

void tci_shm_meet(struct tci_shm_link *link); /* NEW: begin */
/* The peer's part of it: a notice of the transport's own. */
void tci_shm_on_meet(struct tci_shm *shm, uint32_t peer, const struct tci_notice *notice);

/* ---- shm_link.c ---- */

/* The link of a peer, made when it is new; NULL: no memory. */
struct tci_shm_link *tci_shm_link_get(struct tci_shm *shm, uint32_t peer);
/* A region stands: `is_maker` tells which of its rings is whose.  0, or -1 without memory. */
int tci_shm_link_up(struct tci_shm_link *link, bool is_maker);
/* The peer is gone, or has broken the rules (then `how` is told, as of a loss). */
void tci_shm_link_end(struct tci_shm_link *link, tc_status_t status);
void tci_shm_link_lose(struct tci_shm_link *link, const char *how);
void tci_shm_link_free(struct tci_shm_link *link);
/* Take in what lies in the ring; the amount of work. */
unsigned tci_shm_link_poll(struct tci_shm_link *link, unsigned budget);
/* Tell the writer how far we have read, if it is due: it needs to know that four times a ring. */
void tci_shm_link_tell(struct tci_shm_link *link, bool is_due);
/* Put a record without payload of a message: at once, or when there is room. */
void tci_shm_control(struct tci_shm_link *link, const struct tci_shm_head *head,
                     const void *payload, size_t len);
/* The peer may have something to read: it is woken, if it sleeps. */
void tci_shm_ring(struct tci_shm_link *link);
/* The same later, with all others: so many messages wait but once for what was written to be seen
 * by others, as long as a message takes to come over, and other work is done meanwhile. */
void tci_shm_ring_later(struct tci_shm_link *link);
void tci_shm_ring_all(struct tci_shm *shm);
/* All records that wait are out. */
bool tci_shm_is_clear(const struct tci_shm_link *link);
/* Last of all: only when nothing is on its way. */
void tci_shm_say_bye(struct tci_shm_link *link);
unsigned tci_shm_poll(struct tci_source *source, unsigned budget);
bool tci_shm_arm(struct tci_source *source);
bool tci_shm_expects(struct tci_source *source);
int tci_shm_bell_open(struct tci_shm *shm);
void tci_shm_head_of(struct tci_shm_head *head, enum tci_shm_kind kind, const struct tci_key *key,
                     const struct tci_call *call);
/* And back. */
static inline struct tci_key tci_shm_key_of(const struct tci_shm_head *head)
{
    return (struct tci_key){.tag = head->tag,
                            .group = head->group,
                            .lane = head->lane,
                            .step = head->step,
                            .use = head->use,
                            .space = head->space};
}

static inline struct tci_call tci_shm_call_of(const struct tci_shm_head *head)
{
    return (struct tci_call){.count = head->count,
                             .root = head->root,
                             .coll = head->coll,
                             .dtype = head->dtype,
                             .op = head->op,
                             .plan = head->plan};
}

/* ---- shm_send.c ---- */

void tci_shm_send(struct tci_shm_link *link, struct tci_xfer *xfer);
/* The same, if it is out when the call returns: then it does not complete.  False: not sent. */
bool tci_shm_send_now(struct tci_shm_link *link, const struct tci_xfer *xfer);
/* What waits goes out as far as there is room; the amount of work. */
unsigned tci_shm_flush(struct tci_shm_link *link);
void tci_shm_abort_sends(struct tci_shm_link *link, const struct tci_key *key, tc_status_t status);
void tci_shm_on_taken(struct tci_shm_link *link, uint64_t id);
const char *tci_shm_on_pull(struct tci_shm_link *link, const struct tci_shm_head *head);
void tci_shm_on_ask(struct tci_shm_link *link, uint64_t id);

/* ---- shm_recv.c ---- */

/* Payload that lies in the ring is taken in; `measured` as in its head. */
void tci_shm_append(struct tci_shm_link *link, struct tci_xfer *xfer, const uint8_t *payload,
                    size_t len, uint8_t measured);

void tci_shm_recv(struct tci_shm_link *link, struct tci_xfer *xfer);
/* A message, or the loan of one; NULL, or what is wrong with it. */
const char *tci_shm_on_message(struct tci_shm_link *link, const struct tci_shm_head *head,
                               const uint8_t *payload);
void tci_shm_end_recv(struct tci_shm_link *link, struct tci_xfer *xfer, tc_status_t status);
void tci_shm_drop_early(struct tci_shm_link *link, struct tci_early *early);

/* ---- shm_pull.c ---- */

void tci_shm_pull_start(struct tci_shm_link *link, struct tci_xfer *xfer,
                        const struct tci_shm_lend *lend);
/* Read a piece of the most urgent loan of all links, or give way to what is more urgent still; the
 * amount of work. */
unsigned tci_shm_pull_some(struct tci_shm *shm);
/* A receive is posted, or has ended. */
void tci_shm_await(struct tci_shm *shm, int8_t priority, bool is_posted);
const char *tci_shm_on_piece(struct tci_shm_link *link, const struct tci_shm_head *head,
                             const uint8_t *payload);
void tci_shm_on_good(struct tci_shm_link *link, const struct tci_shm_head *head);
/* A receive that is being read ends: the pull with it.  `tell`: the loan ends too. */
void tci_shm_pull_end(struct tci_shm_link *link, struct tci_xfer *xfer, bool tell);
void tci_shm_end_loan(struct tci_shm_link *link, uint64_t id);

/* ---- shm_map.c ---- */

/* The memory that a loan lies in, mapped; NULL: it cannot be. */
struct tci_shm_mapped *tci_shm_map_loan(struct tci_shm_link *link, const struct tci_shm_lend *lend);
void tci_shm_unmap_all(struct tci_shm_link *link);

#endif
