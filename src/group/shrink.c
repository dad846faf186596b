/* shrink.c - the survivors of a group agree on who they are, and stand in a new one. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   the lowest rank that is not gone leads               each other rank follows it
 *   INVITE   ---------------------------------------->
 *            <----------------------------------------   JOIN, with who is gone for it
 *   all have joined, or are gone: they are the members
 *   PROPOSE  number, members  ----------------------->   kept
 *            <----------------------------------------   ACK
 *   all members keep it: it is decided
 *   DONE     ---------------------------------------->   the new group stands
 *
 * Each rank decides for itself who is gone: whose link has ended, who has said that it has left the
 * group, who broke it, who has not come in time.  Where that is the leader, the next one leads, and
 * begins anew; where it is a member, the leader does.  Nobody forgets a decision while the old
 * group stands: whoever has one answers with DONE.  Two rounds are for those that have closed it
 * since: what they may have heard of a leader that ended, all others keep, and decide again as it
 * is.  So a decision may name a rank that has ended meanwhile: the new group then is broken from
 * its beginning, on all its ranks alike.
 *
 * Who was left out may come when the leader has ended, and would lead: whoever closes the old group
 * tells it before, so that it does not take those who stand in a new one for gone.
 *
 * Two that are gone for each other cannot both be members: the lower one stays.  Questions are
 * asked again until there is an answer, so that what is lost for want of memory does no harm.
 */
#include "shrink.h"

#include <stdio.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"
#include "core/mux.h"
#include "group/subgroup.h"

enum { POLL_MS = 10, PAUSE_MS = 100, PAUSE_MS_MAX = 1000, MORE_MS = 1000 };

const char tci_shrink_name[] = "dist_shrink";

static uint64_t now_of(const struct tci_shrink *shrink)
{
    struct tci_exec *exec = shrink->group->comm.exec;

    return exec->ops->now_ns(exec);
}

static struct tci_mux *mux_of(const tc_dist_ctx *group)
{
    return group->comm.transport == NULL ? NULL : tci_mux_of(group->comm.transport);
}

/* ---- The end -------------------------------------------------------------------------------- */

static void free_shrink(struct tci_shrink *shrink)
{
    tci_set_fini(&shrink->gone);
    tci_set_fini(&shrink->kept.out);
    tci_set_fini(&shrink->coming.out);
    tci_set_fini(&shrink->told.out);
    tci_set_fini(&shrink->joined);
    tci_set_fini(&shrink->acked);
    tci_free(shrink->rifts);
    tci_free(shrink);
}

/* error NULL: it went well. */
static void end(struct tci_shrink *shrink, const struct tci_error *error)
{
    tc_dist_ctx *group = shrink->group;
    struct tci_exec *exec = group->comm.exec;
    tc_future *future = shrink->future;

    exec->ops->timer_clear(exec, &shrink->timer);
    if (group->shrink == shrink) {
        group->shrink = NULL;
        if (mux_of(group) != NULL)
            tci_mux_expect_end(mux_of(group));
    }
    free_shrink(shrink);
    tci_future_settle(future, error == NULL ? TC_OK : error->pub.status, error);
    tci_comm_release(&group->comm);
}

/* The others need not wait for this rank. */
static void say_gone(struct tci_shrink *shrink)
{
    uint32_t size = shrink->gone.size, me = (uint32_t)shrink->group->comm.rank;

    for (uint32_t r = 0; r < size; r++)
        if (r != me && !tci_set_has(&shrink->gone, r) &&
            (shrink->is_leading || r == shrink->leader))
            tci_shrink_say(shrink, r, TCI_SHRINK_GONE, NULL);
}

static void fail(struct tci_shrink *shrink, tc_status_t status, int rank, const char *why)
{
    struct tci_error error = {0};

    tci_error_set(&error, status, rank, 0, tci_shrink_name, "%s: %s", tci_shrink_name, why);
    end(shrink, &error);
}

void tci_shrink_exclude(struct tci_shrink *shrink, const char *why)
{
    struct tci_error error = {0};
    int me = shrink->group->comm.rank;

    say_gone(shrink);
    tci_error_blame(&error, TC_ERR_PEER_LOST, me, TC_REASON_LINK_DEAD, tci_shrink_name,
                    "%s: rank %d, this one, is not in the new group: %.250s", tci_shrink_name, me,
                    why);
    end(shrink, &error);
}

void tci_shrink_leave_behind(struct tci_shrink *shrink, const char *why)
{
    shrink->group->is_left_behind = true;
    tci_shrink_exclude(shrink, why);
}

/* Mourn those of the new group's members that have ended meanwhile: the links of some stand, since
 * other groups need them, and tell nothing. */
static void tell_losses(const struct tci_set *gone, const struct tci_set *out, tc_dist_ctx *group)
{
    struct tci_transport_sink *sink = &group->comm.sink;
    uint32_t rank = 0;

    for (uint32_t r = 0; r < gone->size; r++) {
        if (tci_set_has(out, r))
            continue;
        if (tci_set_has(gone, r))
            sink->lost(sink, rank, TC_REASON_EXITED, "had left before the group stood");
        rank++;
    }
}

static tc_dist_ctx *make(struct tci_shrink *shrink, const struct tci_members *members)
{
    struct tci_subgroup subgroup = {.parent = shrink->group, .number = members->number};
    uint32_t size = members->out.size;
    uint32_t *ranks = tci_alloc_array(size, sizeof(*ranks));
    tc_dist_ctx *group = NULL;

    if (ranks == NULL)
        return NULL;
    for (uint32_t r = 0; r < size; r++) {
        if (tci_set_has(&members->out, r))
            continue;
        if (r == (uint32_t)shrink->group->comm.rank)
            subgroup.rank = subgroup.size;
        ranks[subgroup.size++] = r;
    }
    subgroup.members = ranks;
    group = tci_subgroup_make(&subgroup);
    tci_free(ranks);
    return group;
}

void tci_shrink_settle(struct tci_shrink *shrink, struct tci_members *members)
{
    tc_dist_ctx *old = shrink->group, *group;
    struct tci_set gone = shrink->gone;

    TC_ASSERT(members->is_whole && !tci_set_has(&members->out, (uint32_t)old->comm.rank));
    group = make(shrink, members);
    if (group == NULL) {
        fail(shrink, tci_subgroup_is_parent_closed(old) ? TC_ERR_CLOSED : TC_ERR_ALLOC,
             old->comm.rank, tci_subgroup_why_not(old));
        return;
    }
    *shrink->out = group;
    tci_set_fini(&old->shrunk.out);
    old->shrunk = *members;
    old->shrunk_count++;
    old->inviter = -1;
    members->out.words = shrink->gone.words = NULL; /* taken over */
    end(shrink, NULL);
    tell_losses(&gone, &old->shrunk.out, group);
    tci_set_fini(&gone);
}

/* ---- Who is gone, who leads ----------------------------------------------------------------- */

void tci_shrink_miss(struct tci_shrink *shrink, uint32_t rank)
{
    if (rank < shrink->gone.size && rank != (uint32_t)shrink->group->comm.rank)
        (void)tci_set_add(&shrink->gone, rank);
}

void tci_shrink_begin_phase(struct tci_shrink *shrink)
{
    shrink->phase_ns = now_of(shrink);
    shrink->pause_ns = PAUSE_MS * TCI_NS_PER_MS;
    shrink->told_ns = shrink->phase_ns;
}

static bool has_passed(const struct tci_shrink *shrink, uint64_t since_ns, uint64_t times,
                       uint64_t more_ns)
{
    int timeout_ms = shrink->group->comm.context->config.timeout_ms;

    return timeout_ms >= 0 &&
           now_of(shrink) - since_ns >= times * (uint64_t)timeout_ms * TCI_NS_PER_MS + more_ns;
}

bool tci_shrink_is_overdue(struct tci_shrink *shrink, uint64_t more_ns)
{
    return has_passed(shrink, shrink->phase_ns, 1, more_ns);
}

static void look_around(struct tci_shrink *shrink)
{
    struct tci_comm *comm = &shrink->group->comm;
    struct tci_error error;

    for (uint32_t r = 0; r < shrink->gone.size; r++)
        if (r != (uint32_t)comm->rank && !tci_set_has(&shrink->gone, r) &&
            tci_transport_bond(comm->transport, r) >= TCI_BOND_LEFT)
            tci_shrink_miss(shrink, r);
    tci_comm_error(comm, &error);
    if (tci_status_is_loss(error.pub.status) && error.pub.rank >= 0)
        tci_shrink_miss(shrink, (uint32_t)error.pub.rank);
    if (tci_comm_bears_loss(comm) && comm->verdict.notice.reason == TC_REASON_EXITED)
        tci_shrink_miss(shrink, (uint32_t)comm->verdict.notice.culprit);
}

/* The leader changes only by the end of the one before. */
static void elect(struct tci_shrink *shrink)
{
    uint32_t leader = tci_set_first_missing(&shrink->gone);

    if (leader == shrink->leader)
        return;
    TC_ASSERT(leader <= (uint32_t)shrink->group->comm.rank);
    shrink->leader = leader;
    shrink->is_invited = false;
    shrink->is_leading = leader == (uint32_t)shrink->group->comm.rank;
    tci_shrink_begin_phase(shrink);
    tci_shrink_tell(shrink);
}

static void follow(struct tci_shrink *shrink)
{
    if (!tci_shrink_is_overdue(shrink, shrink->is_invited ? MORE_MS * TCI_NS_PER_MS : 0))
        return;
    tci_log(TC_LOG_WARN, "rank %d has not taken part in time as rank %d shrinks its group",
            (int)shrink->leader, shrink->group->comm.rank);
    shrink->is_late = true;
    tci_shrink_miss(shrink, shrink->leader);
    elect(shrink);
}

void tci_shrink_step(struct tci_shrink *shrink)
{
    if (shrink->group->comm.transport != NULL)
        look_around(shrink);
    elect(shrink);
    if (!shrink->is_leading)
        follow(shrink);
    if (shrink->is_leading)
        tci_shrink_lead(shrink);
}

static void on_time(struct tci_timer *timer)
{
    struct tci_shrink *shrink = tci_container_of(timer, struct tci_shrink, timer);
    struct tci_exec *exec = shrink->group->comm.exec;
    char why[128];

    if (has_passed(shrink, shrink->begin_ns, 2, MORE_MS * TCI_NS_PER_MS)) {
        say_gone(shrink);
        snprintf(why, sizeof(why), "the survivors have not agreed in time; rank %d leads them",
                 (int)shrink->leader);
        fail(shrink, TC_ERR_TIMEOUT, (int)shrink->leader, why);
        return;
    }
    if (now_of(shrink) - shrink->told_ns >= shrink->pause_ns) {
        shrink->told_ns = now_of(shrink);
        shrink->pause_ns = tci_min(2 * shrink->pause_ns, PAUSE_MS_MAX * TCI_NS_PER_MS);
        tci_shrink_tell(shrink);
    }
    /* It has its place in the heap: this needs no memory. */
    (void)exec->ops->timer_set(exec, timer, now_of(shrink) + POLL_MS * TCI_NS_PER_MS);
    tci_shrink_step(shrink);
}

/* ---- The call ------------------------------------------------------------------------------- */

static bool has_memory(struct tci_shrink *shrink, uint32_t size)
{
    return tci_set_init(&shrink->gone, size) && tci_set_init(&shrink->kept.out, size) &&
           tci_set_init(&shrink->coming.out, size) && tci_set_init(&shrink->told.out, size) &&
           tci_set_init(&shrink->joined, size) && tci_set_init(&shrink->acked, size);
}

static void begin(struct tci_task *task)
{
    struct tci_shrink *shrink = tci_container_of(task, struct tci_shrink, task);
    tc_dist_ctx *group = shrink->group;
    struct tci_exec *exec = group->comm.exec;

    if (group->state != TCI_GROUP_STANDS) {
        fail(shrink, TC_ERR_CLOSED, group->comm.rank, "the group is closed, or being finalized");
        return;
    }
    if (group->shrink != NULL) {
        fail(shrink, TC_ERR_BUSY, group->comm.rank,
             "this group is being shrunk already: wait for the future of that call");
        return;
    }
    group->shrink = shrink;
    if (mux_of(group) != NULL)
        tci_mux_expect(mux_of(group));
    if (group->is_left_behind) {
        tci_shrink_exclude(shrink, "others have agreed without it");
        return;
    }
    shrink->begin_ns = now_of(shrink);
    shrink->leader = shrink->gone.size; /* nobody */
    shrink->timer.fn = on_time;
    if (exec->ops->timer_set(exec, &shrink->timer, shrink->begin_ns + POLL_MS * TCI_NS_PER_MS) !=
        0) {
        fail(shrink, TC_ERR_ALLOC, group->comm.rank, "no memory left");
        return;
    }
    tci_shrink_step(shrink);
}

static void cancel(void *arg)
{
    struct tci_shrink *shrink = arg;

    if (shrink->group->shrink != shrink)
        return; /* not begun: it ends by its deadline */
    say_gone(shrink);
    fail(shrink, TC_ERR_CANCELLED, shrink->group->comm.rank, "it was cancelled");
}

void tci_shrink_close(tc_dist_ctx *group)
{
    struct tci_notice gone = {.kind = TCI_NOTICE_SHRINK,
                              .status = TC_ERR_CLOSED,
                              .culprit = -1,
                              .key = {.step = TCI_SHRINK_GONE, .use = group->shrunk_count}};
    struct tci_transport *transport = group->comm.transport;

    if (group->shrink != NULL) {
        say_gone(group->shrink);
        fail(group->shrink, TC_ERR_CLOSED, group->comm.rank, "the group was closed meanwhile");
    } else if (group->inviter >= 0 && transport != NULL) {
        transport->ops->notify(transport, (uint32_t)group->inviter, &gone, false);
    }
}

void tci_shrink_fini(tc_dist_ctx *group)
{
    tci_set_fini(&group->shrunk.out);
}

static struct tci_shrink *new_shrink(tc_dist_ctx *group)
{
    struct tci_shrink *shrink = tci_alloc(sizeof(*shrink));

    if (shrink == NULL)
        return NULL;
    shrink->group = group;
    if (has_memory(shrink, (uint32_t)group->comm.size))
        shrink->future = tci_future_new(group->comm.context, cancel, shrink);
    if (shrink->future == NULL) {
        free_shrink(shrink);
        return NULL;
    }
    return shrink;
}

tc_future *tci_shrink(tc_dist_ctx *group, tc_dist_ctx **out)
{
    struct tci_comm *comm;
    struct tci_shrink *shrink;
    tc_future *future;

    if (group == NULL || out == NULL)
        return tci_future_fail(group == NULL ? NULL : group->comm.context, TC_ERR_INVALID_ARG,
                               tci_shrink_name, "%s: group and out may not be NULL",
                               tci_shrink_name);
    comm = &group->comm;
    if (tci_context_is_foreign(comm->context))
        return tci_future_fail(comm->context, TC_ERR_NOT_INITIALIZED, tci_shrink_name,
                               "of another process");
    if (comm->is_ring)
        return tci_future_fail(comm->context, TC_ERR_UNSUPPORTED, tci_shrink_name,
                               "%s: this group was given links between neighbours alone, which its "
                               "survivors would not be",
                               tci_shrink_name);
    shrink = new_shrink(group);
    if (shrink == NULL)
        return tci_future_fail(comm->context, TC_ERR_ALLOC, tci_shrink_name, "%s: no memory left",
                               tci_shrink_name);
    shrink->task.fn = begin;
    shrink->out = out;
    future = shrink->future; /* shrink may be gone once it is posted */
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    comm->exec->ops->post_remote(comm->exec, &shrink->task);
    return future;
}
