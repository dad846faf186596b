/* mux.h - one transport shared by groups: each has a view of it, told apart by its number. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_MUX_H
#define TCI_MUX_H

#include <uthash.h>

#include "core/list.h"
#include "core/transport.h"

/*
 *   group 1        group 7        group 9          a comm each, with ranks of its own
 *      | verbs  ^ sink |             |
 *   view           view           view             ranks of the group <-> ranks below
 *      +--------------+--------------+
 *                    mux                           finds the view by the number on the wire
 *                     |
 *             the transport below                  one set of links
 *
 * The links live as long as the last view.  A peer that no view contains any more is left alone.
 * A group's number is made of the rank below that leads it and of a count of that rank's, so that
 * nobody ever gives a number twice, however many splits go on at once: a late frame of a group
 * that is gone can meet no other one, and is dropped.
 *
 * While a split goes on, a faster member may use a group that does not stand here yet.  What comes
 * for unknown groups is then kept: messages as all early messages are, within the window of their
 * link, notices up to a bound.  At other times it is dropped.
 */
struct tci_member {
    uint32_t below, rank;
};

struct tci_view {
    struct tci_transport base; /* first */
    struct tci_mux *mux;       /* shared */
    UT_hash_handle hh;         /* in mux->views */
    uint64_t group;
    uint32_t size;
    uint32_t *ranks;            /* owned: the ranks below, by rank; NULL: the same */
    struct tci_member *members; /* owned: the inverse, by rank below; NULL: the same */
    struct tci_timer left;      /* tells the sink, not from a verb */
    bool has_left;
    bool is_new; /* its sink has not heard yet what came before it */
};

struct tci_mux {
    struct tci_transport_sink sink; /* first: of the transport below */
    struct tci_transport *below;    /* owned */
    struct tci_exec *exec;          /* borrowed */
    uint32_t rank, size;            /* below */
    struct tci_view *views;         /* by group */
    uint32_t standing;              /* views that have not left */
    uint32_t *uses;                 /* owned: views of each rank below; NULL: one of all */
    uint32_t next;                  /* count in the next number */
    uint32_t expecting;             /* splits under way */
    struct tci_list held;           /* notices for groups to come */
    uint32_t held_count;
    struct tci_list losses;   /* ranks below that are lost, for groups to come */
    struct tci_list refused;  /* questions about groups that do not stand here … */
    uint32_t refused_count;   /* … and have to be answered … */
    struct tci_timer refusal; /* … by this, not from within the transport */
    struct tci_view *leaving; /* left last: to be told by the transport below; NULL: none */
};

enum { TCI_MUX_WORLD = 1 }; /* number of the first group */

/* The view of the first group, of all ranks below, whose rank here is `rank`.  below is taken over,
 * and closed without memory; then NULL.  Loop thread, as all that follows. */
struct tci_transport *tci_mux_open(struct tci_exec *exec, struct tci_transport *below,
                                   uint32_t rank, uint32_t size);
struct tci_mux *tci_mux_of(struct tci_transport *view);

/* A rank's number below. */
uint32_t tci_view_below(const struct tci_transport *view, uint32_t rank);

/* A number for a group that this rank leads, and the one that a rank below makes of its count. */
uint32_t tci_mux_count(struct tci_mux *mux);
uint64_t tci_mux_number(uint32_t leader, uint32_t count);

/* From here until the end of it groups are expected that are not known yet. */
void tci_mux_expect(struct tci_mux *mux);
void tci_mux_expect_end(struct tci_mux *mux);

/* A view of `size` ranks below; `ranks` is taken over.  The sink must be set before the end of what
 * is expected.  NULL without memory, and when the number is in use (its giver breaks the rules). */
struct tci_transport *tci_mux_view(struct tci_mux *mux, uint64_t group, uint32_t *ranks,
                                   uint32_t size);
/* Instead of a view: the other members learn that this rank is not one of them; `why` goes on after
 * "rank 2 ". */
void tci_mux_decline(struct tci_mux *mux, uint64_t group, const uint32_t *ranks, uint32_t rank,
                     uint32_t size, const char *why);

/* ---- For view.c ---- */

/* This rank's number in a view of a rank below; false: not a member. */
bool tci_view_rank(const struct tci_view *view, uint32_t below, uint32_t *rank_out);
/* The verbs of views. */
extern const struct tci_transport_ops tci_view_ops;
/* A view needs its peers no more: those that no view needs are left. */
void tci_mux_leave_peers(struct tci_view *view);
/* The end of a view: its memory, and with the last one the transport below. */
void tci_mux_del(struct tci_view *view);

#endif
