/* mux.c - what the shared transport tells goes to the group that it is meant for. */
/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM 1
#include "core/mux.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

/* Notices for groups to come: a few a split that goes on; more are dropped, and deadlines hold. */
enum { HELD_MAX = 1024 };

struct held {
    struct tci_list link; /* first; in mux->held */
    uint32_t from;        /* below */
    struct tci_notice notice;
};

struct loss {
    struct tci_list link; /* first; in mux->losses */
    uint32_t peer;        /* below */
    tc_reason_t reason;
    char how[256];
};

static struct tci_mux *mux_of(struct tci_transport_sink *sink)
{
    return (struct tci_mux *)sink;
}

static struct tci_view *find(const struct tci_mux *mux, uint64_t group)
{
    struct tci_view *view;

    HASH_FIND(hh, mux->views, &group, sizeof(group), view);
    return view;
}

static int compare_members(const void *a, const void *b)
{
    const struct tci_member *left = a, *right = b;

    return left->below < right->below ? -1 : left->below > right->below;
}

bool tci_view_rank(const struct tci_view *view, uint32_t below, uint32_t *rank_out)
{
    struct tci_member wanted = {.below = below};
    const struct tci_member *found;

    if (view->members == NULL) {
        *rank_out = below;
        return below < view->size;
    }
    found = bsearch(&wanted, view->members, view->size, sizeof(wanted), compare_members);
    if (found != NULL)
        *rank_out = found->rank;
    return found != NULL;
}

/* ---- What the transport tells --------------------------------------------------------------- */

static bool tell_view(struct tci_view *view, uint32_t peer, const struct tci_key *key,
                      const struct tci_call *call)
{
    uint32_t rank;

    return tci_view_rank(view, peer, &rank) &&
           view->base.sink->admit(view->base.sink, rank, key, call);
}

static bool admit(struct tci_transport_sink *sink, uint32_t peer, const struct tci_key *key,
                  const struct tci_call *call)
{
    struct tci_mux *mux = mux_of(sink);
    struct tci_view *view = find(mux, key->group);

    return view != NULL ? tell_view(view, peer, key, call) : mux->expecting > 0;
}

/* Ranks in a notice are those of the group that it belongs to. */
static void deliver(struct tci_view *view, uint32_t from, const struct tci_notice *notice)
{
    uint32_t rank;

    if (tci_view_rank(view, from, &rank) && notice->culprit < (int32_t)view->size)
        view->base.sink->notice(view->base.sink, rank, notice);
}

static void hold(struct tci_mux *mux, uint32_t from, const struct tci_notice *notice)
{
    struct held *held = mux->held_count < HELD_MAX ? tci_alloc(sizeof(*held)) : NULL;

    if (held == NULL)
        return;
    held->from = from;
    held->notice = *notice;
    tci_list_add(&mux->held, &held->link);
    mux->held_count++;
}

static void answer_refused(struct tci_timer *timer)
{
    struct tci_mux *mux = tci_container_of(timer, struct tci_mux, refusal);
    struct tci_list *first;

    while ((first = tci_list_first(&mux->refused)) != NULL) {
        struct held *held = tci_container_of(first, struct held, link);
        struct tci_notice gone = {.kind = TCI_NOTICE_SHRINK,
                                  .status = TC_ERR_CLOSED,
                                  .culprit = -1,
                                  .key = held->notice.key};

        gone.key.step = TCI_SHRINK_GONE;
        mux->below->ops->notify(mux->below, held->from, &gone, false);
        tci_list_del(first);
        tci_free(held);
    }
    mux->refused_count = 0;
}

/* Survivors of a group that was left here ask for this rank: they need not wait for it.  Whoever
 * gets no answer asks again. */
static void refuse(struct tci_mux *mux, uint32_t from, const struct tci_notice *notice)
{
    struct tci_exec *exec = mux->exec;
    struct held *held;

    if (notice->kind != TCI_NOTICE_SHRINK || !tci_shrink_is_question(notice->key.step) ||
        mux->refused_count == HELD_MAX)
        return;
    mux->refusal.fn = answer_refused;
    if (exec->ops->timer_set(exec, &mux->refusal, exec->ops->now_ns(exec)) != 0)
        return;
    held = tci_alloc(sizeof(*held));
    if (held == NULL)
        return;
    held->from = from;
    held->notice = *notice;
    tci_list_add(&mux->refused, &held->link);
    mux->refused_count++;
}

static void notice(struct tci_transport_sink *sink, uint32_t peer, const struct tci_notice *notice)
{
    struct tci_mux *mux = mux_of(sink);
    struct tci_view *view = find(mux, notice->key.group);

    if (view != NULL)
        deliver(view, peer, notice);
    else if (mux->expecting > 0)
        hold(mux, peer, notice);
    else
        refuse(mux, peer, notice);
}

static void tell_loss(struct tci_view *view, uint32_t peer, tc_reason_t reason, const char *how)
{
    uint32_t rank;

    if (tci_view_rank(view, peer, &rank))
        view->base.sink->lost(view->base.sink, rank, reason, how);
}

/* Without memory it is not remembered: a group to come learns of it by a deadline. */
static void lost(struct tci_transport_sink *sink, uint32_t peer, tc_reason_t reason,
                 const char *how)
{
    struct tci_mux *mux = mux_of(sink);
    struct loss *loss = tci_alloc(sizeof(*loss));
    struct tci_view *view, *next;

    if (loss != NULL) {
        loss->peer = peer;
        loss->reason = reason;
        snprintf(loss->how, sizeof(loss->how), "%s", how);
        tci_list_add(&mux->losses, &loss->link);
    }
    HASH_ITER(hh, mux->views, view, next)
    {
        tell_loss(view, peer, reason, how);
    }
}

static void left(struct tci_transport_sink *sink)
{
    struct tci_view *view = mux_of(sink)->leaving;

    if (view != NULL)
        view->base.sink->left(view->base.sink);
}

/* ---- Groups to come ------------------------------------------------------------------------- */

uint64_t tci_mux_number(uint32_t leader, uint32_t count)
{
    return (uint64_t)leader << 32 | count;
}

/* After 2^32 groups of this rank the counts begin anew, past those still in use. */
uint32_t tci_mux_count(struct tci_mux *mux)
{
    uint32_t count;

    do
        count = mux->next++;
    while (count <= TCI_MUX_WORLD || find(mux, tci_mux_number(mux->rank, count)) != NULL);
    return count;
}

void tci_mux_expect(struct tci_mux *mux)
{
    mux->expecting++;
}

/* What came early is shown to the group that it came for. */
static bool is_wanted(void *arg, uint32_t peer, const struct tci_key *key,
                      const struct tci_call *call)
{
    struct tci_mux *mux = arg;
    struct tci_view *view = find(mux, key->group);

    if (view == NULL)
        return mux->expecting > 0;
    return !view->is_new || tell_view(view, peer, key, call);
}

static void sort_held(struct tci_mux *mux)
{
    struct tci_list *at, *next;

    for (at = mux->held.next; at != &mux->held; at = next) {
        struct held *held = tci_container_of(at, struct held, link);
        struct tci_view *view = find(mux, held->notice.key.group);

        next = at->next;
        if (view == NULL && mux->expecting > 0)
            continue;
        if (view != NULL)
            deliver(view, held->from, &held->notice);
        else
            refuse(mux, held->from, &held->notice);
        tci_list_del(at);
        mux->held_count--;
        tci_free(held);
    }
}

void tci_mux_expect_end(struct tci_mux *mux)
{
    struct tci_view *view, *next;
    struct tci_list *at;

    TC_ASSERT(mux->expecting > 0);
    mux->expecting--;
    sort_held(mux);
    mux->below->ops->review(mux->below, is_wanted, mux);
    HASH_ITER(hh, mux->views, view, next)
    {
        for (at = mux->losses.next; view->is_new && at != &mux->losses; at = at->next) {
            struct loss *loss = tci_container_of(at, struct loss, link);

            tell_loss(view, loss->peer, loss->reason, loss->how);
        }
        view->is_new = false;
    }
}

void tci_mux_decline(struct tci_mux *mux, uint64_t group, const uint32_t *ranks, uint32_t rank,
                     uint32_t size, const char *why)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_LOST,
                                .reason = TC_REASON_EXITED,
                                .culprit = (int32_t)rank,
                                .key = {.group = group}};

    snprintf(notice.text, sizeof(notice.text), "rank %u %s", rank, why);
    for (uint32_t r = 0; r < size; r++)
        if (r != rank)
            mux->below->ops->notify(mux->below, ranks[r], &notice, true);
}

/* ---- Views ---------------------------------------------------------------------------------- */

static void count_uses(struct tci_mux *mux, const struct tci_view *view, uint32_t by)
{
    for (uint32_t r = 0; r < view->size; r++)
        mux->uses[view->ranks == NULL ? r : view->ranks[r]] += by;
}

void tci_mux_leave_peers(struct tci_view *view)
{
    struct tci_mux *mux = view->mux;

    count_uses(mux, view, UINT32_MAX); /* one less */
    for (uint32_t r = 0; r < view->size; r++) {
        uint32_t peer = view->ranks == NULL ? r : view->ranks[r];

        if (mux->uses[peer] == 0 && peer != mux->rank)
            mux->below->ops->leave_peer(mux->below, peer);
    }
}

static void free_view(struct tci_view *view)
{
    tci_free(view->ranks);
    tci_free(view->members);
    tci_free(view);
}

static bool set_members(struct tci_view *view, uint32_t *ranks)
{
    view->ranks = ranks;
    if (ranks == NULL)
        return true;
    view->members = tci_alloc_array(view->size, sizeof(*view->members));
    for (uint32_t r = 0; view->members != NULL && r < view->size; r++)
        view->members[r] = (struct tci_member){.below = ranks[r], .rank = r};
    if (view->members == NULL)
        return false;
    qsort(view->members, view->size, sizeof(*view->members), compare_members);
    return true;
}

/* Counted from the second view on: a group that is never split needs no memory for it. */
static bool begin_to_count(struct tci_mux *mux)
{
    struct tci_view *view, *next;

    if (mux->uses != NULL || mux->views == NULL)
        return true;
    mux->uses = tci_alloc_array(mux->size, sizeof(*mux->uses));
    if (mux->uses == NULL)
        return false;
    HASH_ITER(hh, mux->views, view, next)
    {
        if (!view->has_left)
            count_uses(mux, view, 1);
    }
    return true;
}

struct tci_transport *tci_mux_view(struct tci_mux *mux, uint64_t group, uint32_t *ranks,
                                   uint32_t size)
{
    struct tci_view *view = find(mux, group) == NULL ? tci_alloc(sizeof(*view)) : NULL, *added;

    if (view == NULL) {
        tci_free(ranks);
        return NULL;
    }
    view->base.ops = &tci_view_ops;
    view->mux = mux;
    view->group = group;
    view->size = size;
    view->is_new = true;
    if (!set_members(view, ranks) || !begin_to_count(mux)) {
        free_view(view);
        return NULL;
    }
    HASH_ADD(hh, mux->views, group, sizeof(view->group), view);
    added = find(mux, group);
    if (added == NULL) { /* no memory for the table itself */
        free_view(view);
        return NULL;
    }
    if (mux->uses != NULL)
        count_uses(mux, view, 1);
    mux->standing++;
    return &view->base;
}

/* The link is what each begins with. */
static void free_list(struct tci_list *list)
{
    struct tci_list *first;

    while ((first = tci_list_first(list)) != NULL) {
        tci_list_del(first);
        tci_free(first);
    }
}

static void free_mux(struct tci_mux *mux)
{
    mux->exec->ops->timer_clear(mux->exec, &mux->refusal);
    mux->below->ops->close(mux->below);
    free_list(&mux->held);
    free_list(&mux->refused);
    free_list(&mux->losses);
    tci_free(mux->uses);
    tci_free(mux);
}

void tci_mux_del(struct tci_view *view)
{
    struct tci_mux *mux = view->mux;

    HASH_DEL(mux->views, view);
    free_view(view);
    if (mux->views == NULL)
        free_mux(mux);
}

struct tci_transport *tci_mux_open(struct tci_exec *exec, struct tci_transport *below,
                                   uint32_t rank, uint32_t size)
{
    struct tci_mux *mux = tci_alloc(sizeof(*mux));
    struct tci_transport *first;

    if (mux == NULL) {
        below->ops->close(below);
        return NULL;
    }
    mux->sink =
        (struct tci_transport_sink){.admit = admit, .notice = notice, .lost = lost, .left = left};
    mux->below = below;
    mux->exec = exec;
    mux->rank = rank;
    mux->size = size;
    tci_list_init(&mux->held);
    tci_list_init(&mux->losses);
    tci_list_init(&mux->refused);
    below->sink = &mux->sink;
    first = tci_mux_view(mux, TCI_MUX_WORLD, NULL, size);
    if (first == NULL)
        free_mux(mux);
    else
        ((struct tci_view *)first)->is_new = false;
    return first;
}
