/* shrink.h - the survivors of a group on their way to a new one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SHRINK_H
#define TCI_SHRINK_H

#include "core/set.h"
#include "group/group.h"

/*   shrink.c       begin, who is gone, who leads, the end
 *   shrink_lead.c  what the leader does
 *   shrink_wire.c  what survivors tell each other
 */

/* "For rank `rank`, these ranks are gone": of those that have joined, where the leader knows better
 * than to believe it. */
struct tci_rift {
    uint32_t rank, word;
    uint64_t bits;
};

struct tci_shrink {
    struct tci_task task;
    struct tci_timer timer;
    tc_dist_ctx *group; /* the old one; counted there as an operation, so that it stays */
    tc_dist_ctx **out;  /* borrowed until the future has settled */
    tc_future *future;
    uint64_t begin_ns, phase_ns, told_ns, pause_ns;
    uint32_t leader;
    bool is_leading;
    bool is_invited;           /* the leader has begun, too */
    bool is_late;              /* a leader before this one has not come in time */
    struct tci_set gone;       /* as this rank sees it */
    uint32_t suspected_by;     /* ranks for which this one is gone */
    struct tci_members kept;   /* what was proposed to this rank, or by it */
    struct tci_members coming; /* what is being proposed to it, as far as it has come */
    struct tci_members told;   /* what is decided, likewise */
    /* The leader's. */
    bool is_proposing;
    bool is_own;    /* it has proposed what is kept */
    bool is_behind; /* a joiner keeps a proposal that this rank does not know */
    struct tci_set joined, acked;
    struct tci_rift *rifts; /* owned */
    uint32_t rift_count;
};

extern const char tci_shrink_name[];

/* ---- shrink.c ---- */

/* Look around, then do what can be done; may end the shrink. */
void tci_shrink_step(struct tci_shrink *shrink);
/* A rank takes no part any more. */
void tci_shrink_miss(struct tci_shrink *shrink, uint32_t rank);
/* Something was heard of those who are waited for. */
void tci_shrink_begin_phase(struct tci_shrink *shrink);
/* Whether a phase has taken the timeout, and so much longer. */
bool tci_shrink_is_overdue(struct tci_shrink *shrink, uint64_t more_ns);
/* It is decided: the end. */
void tci_shrink_settle(struct tci_shrink *shrink, struct tci_members *members);
/* The others go on without this rank: the end. */
void tci_shrink_exclude(struct tci_shrink *shrink, const char *why);
/* The same, and for good: they have agreed, or may have. */
void tci_shrink_leave_behind(struct tci_shrink *shrink, const char *why);

/* ---- shrink_lead.c ---- */

void tci_shrink_lead(struct tci_shrink *shrink);
void tci_shrink_note_rift(struct tci_shrink *shrink, uint32_t rank, uint32_t word, uint64_t bits);

/* ---- shrink_wire.c ---- */

/* A message without a set. */
void tci_shrink_say(struct tci_shrink *shrink, uint32_t peer, enum tci_shrink_step step,
                    const char *text);
void tci_shrink_say_suspect(struct tci_shrink *shrink, uint32_t suspect);
/* One that ends a set. */
void tci_shrink_join(struct tci_shrink *shrink);
void tci_shrink_send_members(struct tci_shrink *shrink, uint32_t peer, enum tci_shrink_step step,
                             const struct tci_members *members);
/* Say it again to those who have not answered. */
void tci_shrink_tell(struct tci_shrink *shrink);

#endif
