/* comm.h - a group of ranks: its operations, its tags, what is known of the others. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_COMM_H
#define TCI_COMM_H

#include <stdatomic.h>

#include "core/beat.h"
#include "core/context.h"
#include "core/dispute.h"
#include "core/engine.h"
#include "core/figures.h"
#include "core/hearing.h"
#include "core/inquest.h"
#include "core/round.h"
#include "core/verdict.h"
#include "tcdist/dist.h"

struct tci_comm_config {
    int rank, size;
    int shown_rank;          /* in traces: one number a process, whatever its rank in a group */
    uint64_t group;          /* number on the wire */
    uint64_t job[2];         /* in traces: the same for all groups that descend from one */
    size_t segment_bytes;    /* agreed */
    int numerics;            /* agreed default, resolved */
    int check;               /* agreed, tc_check_t; 0: cheap */
    const char *algorithm;   /* agreed default, "" for none; copied */
    struct tci_hosts *hosts; /* agreed; the group takes a reference; NULL: all on one */
    const struct tci_figures *figures; /* agreed; copied; NULL: what is usual */
    const struct tci_figures *steady;  /* for fast folds; copied; NULL: the same */
};

struct tci_choices; /* algo/choice.h */

/* What the roof may look at before it advises. */
struct tci_advice {
    const char *name; /* of the call */
    uint64_t tag;
    const struct tci_call *call; /* without its plan */
    int numerics;                /* resolved */
    const char *named;           /* by the caller; NULL: none */
};

struct tci_comm {
    tc_context *context;
    struct tci_list link;    /* in context->comms */
    struct tci_trace *trace; /* of the context */
    struct tci_exec *exec;
    struct tci_transport *transport; /* owned; NULL in a group of one */
    struct tci_transport_sink sink;
    struct tci_cq cq;
    int rank, size, shown_rank;
    uint64_t group, job[2];
    size_t segment_bytes;
    uint32_t window; /* steps of a lane that may be open at once: 2 … TCI_WINDOW */
    int numerics, check;
    char algorithm[24];
    atomic_bool has_told_algorithm; /* that it does not count for some calls */
    size_t eager_max;
    struct tci_hosts *hosts;                   /* a reference; NULL: all on one */
    struct {                                   /* which plan is the cheapest: algo/tuning.c */
        struct tci_figures figures;            /* of the beginning; load 0: none were given */
        struct tci_figures steady_figures;     /* of the beginning, for fast folds; load 0: none */
        _Atomic(struct tci_choices *) choices; /* a reference; NULL: not asked for yet */
        /* A reference, or NULL.  For fast folds, whose bits follow the plan: choices that do not
         * come from an unasked measurement, so that they are the same in every run. */
        _Atomic(struct tci_choices *) steady;
        atomic_uint version;       /* counts changes of the choices */
        atomic_uint choosing;      /* threads that look at them just now */
        atomic_bool is_changing;   /* nobody may look: they are measured anew */
        uint64_t rounds;           /* how often the group was measured; loop */
        struct tci_refine *refine; /* owned: algo/refine.c; NULL: nothing is refined */
        /* NULL, or asked when an ordered call is about to enter: false keeps the operation, by its
         * `link`, until tci_op_enter, or has let it fail.  Loop. */
        bool (*admit)(struct tci_comm *comm, struct tci_op *op);
        void (*fini)(struct tci_comm *comm); /* NULL: nothing to end */
    } tuning;
    _Atomic(struct tci_op *) recent; /* owned: it ended well, and may be called again; or NULL */
    struct tci_tags tags;
    struct tci_list ops;    /* entered and not settled */
    struct tci_timer alarm; /* the first of these that have no timer yet would ring: diagnose.c */
    struct tci_list busy;   /* lanes that fold in pieces */
    struct tci_step_xfer *xfers_free;
    struct tci_round round;        /* the last that the engine has asked for */
    _Atomic uint64_t ordered_next; /* number of the next ordered collective */
    /* Owned; [2 * peer + is_receive]; NULL before the first ordered send or receive. */
    _Atomic(_Atomic uint64_t *) ordered_p2p;
    _Atomic uint64_t ops_live; /* started and not freed, any thread */
    struct {
        const char *name; /* NULL: nothing yet */
        uint32_t space;
        uint64_t tag, at_ns;
    } last;                                                   /* what this rank has entered last */
    const char *(*plan_name)(enum tci_coll coll, uint8_t id); /* NULL: nothing entered yet */
    struct tci_error late;   /* the first call that ended well here and differed; under `lock` */
    struct tci_error error;  /* first loss; status TC_OK while all is well.  Written on the loop,
                             * under `lock`, read by any thread under it. */
    struct tci_notice unmet; /* how the last barrier has failed; status TC_OK: it has not.  Loop */
    pthread_mutex_t lock;
    uint64_t broken_ns;           /* when `error` was set; 0: it was not, or the others know why */
    struct tci_beat beat;         /* what is told now and then, and heard */
    struct tci_verdict verdict;   /* on who is lost */
    struct tci_inquests inquests; /* into operations that do not end */
    struct tci_disputes disputes; /* calls that differ; rank 0 */
    struct tci_hearings hearings; /* whom this rank listens to, for others */
    uint64_t warned_ns;           /* when the log last said whom an operation waits for */
    unsigned unwarned;            /* that it has not said since */
    struct {
        const char *name;
        const struct tci_plan *plan;
        uint32_t names;
    } traced;            /* the names that the trace was given last */
    uint64_t marks_base; /* by tci_trace_mark_base() */
    uint64_t recent_ns;  /* a time of this turn, for the trace: trace_op.h; 0: read the clock */
    bool is_deaf; /* about to be freed: what the transport tells is of no interest any more */
    /* The roof's, or NULL: the algorithm of a collective; NULL: the cheapest, or, with a cause in
     * error, none.  Any thread. */
    const char *(*advise)(struct tci_comm *comm, const struct tci_advice *advice,
                          struct tci_error *error);
    /* The roof's, or NULL: a collective is about to start.  Any thread. */
    void (*on_start)(struct tci_comm *comm, const struct tci_call *call, const char *algorithm);
    /* The roof's, or NULL: survivors of the group agree on a new one.  Loop. */
    void (*on_shrink)(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
    bool is_ring; /* there are links between neighbours alone */
    /* The roof's: asked when nothing is live any more, and when the transport has said goodbye. */
    void (*on_idle)(struct tci_comm *comm);
    void (*on_left)(struct tci_comm *comm);
    void *owner;
};

/* The public handle of a group begins with its comm. */
static inline struct tci_comm *tci_comm_of(const tc_dist_ctx *group)
{
    return (struct tci_comm *)group;
}

/* transport is taken over (its cq and sink are set here).  -1 without memory. */
int tci_comm_init(struct tci_comm *comm, tc_context *context, struct tci_transport *transport,
                  const struct tci_comm_config *config);
/* The number of the next ordered send to a peer, or receive from it; false without memory.  Any
 * thread. */
bool tci_comm_number_p2p(struct tci_comm *comm, int peer, bool is_send, uint64_t *number_out);
/* Loop thread; no operation is live. */
void tci_comm_fini(struct tci_comm *comm);

/* The group is of no use any more: everything pending fails with this error, and all that comes.
 * A loss is told to the others.  First cause wins.  Loop thread. */
void tci_comm_break(struct tci_comm *comm, const struct tci_error *error);

/* Whether a loss is known for which the group will break in a moment: what ended by it then fails
 * with all else. */
bool tci_comm_bears_loss(const struct tci_comm *comm);

/* A copy of the first error; its status is TC_OK while all is well.  Any thread. */
void tci_comm_error(struct tci_comm *comm, struct tci_error *out);

/* Whether the others have been told what this rank said at a time (0: nothing), as far as that can
 * be waited for; sets that time to 0 then. */
bool tci_comm_has_told(struct tci_comm *comm, uint64_t *since_ns);

/* One live thing fewer; the last one tells the roof.  Loop thread. */
void tci_comm_release(struct tci_comm *comm);

/* Send a notice to all other ranks: by way of rank 0.  That of a loss goes over every link that
 * stands, so that it comes before this rank's own end; new ones are made with rank 0 alone. */
void tci_comm_tell(struct tci_comm *comm, const struct tci_notice *notice);

/* Send a notice about a loss to a rank.  Where the last barrier has failed that comes first: who
 * leaves because of that is not what the others' finalization fails by. */
void tci_comm_tell_loss(struct tci_comm *comm, uint32_t peer, const struct tci_notice *notice,
                        bool may_link);

/* How the last barrier has failed before this rank has come to it, or TC_OK.  Loop. */
void tci_comm_unmet(const struct tci_comm *comm, struct tci_error *out);

/* A copy of the first call that ended well here, but differed from another rank's; its status is
 * TC_OK while there is none.  Any thread. */
void tci_comm_late(struct tci_comm *comm, struct tci_error *out);

/* By rank 0: pass a notice on to all but its sender. */
void tci_comm_relay(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);

/* An operation of a peer has failed, and so it ends here. */
void tci_comm_ended(struct tci_comm *comm, uint32_t peer, const struct tci_notice *notice);

/* The tag that a message of a peer belongs to. */
static inline struct tci_tag_name tci_comm_tag_name(const struct tci_key *key, uint32_t peer)
{
    return (struct tci_tag_name){.tag = key->tag,
                                 .peer =
                                     tci_space_is_p2p(key->space) ? (int32_t)peer : TCI_ALL_PEERS,
                                 .space = key->space};
}

/* This rank leaves a group that is whole, in the middle of things: to the others that is a loss of
 * it, even where its links go on serving other groups; where another one is the cause (else NULL),
 * of that one.  `why` is a sentence. */
void tci_comm_tell_end(struct tci_comm *comm, const struct tci_error *cause, const char *why);

/* Deadlines (diagnose.c): watch an operation from now on, by the group's alarm until that rings. */
void tci_diagnose_arm(struct tci_op *op);
/* It runs, after it has waited for others. */
void tci_diagnose_ran(struct tci_op *op);
/* What follows from a timeout (-1: none), into text. */
void tci_diagnose_print_times(int timeout_ms, char *text, size_t text_bytes);

#endif
