/* verdict.c - charges, testimony, and the verdict that all ranks of a group share. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/verdict.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/comm.h"

enum {
    /* News of a failed operation comes by way of rank 0, and may take so much longer than the end
     * of a rank that has failed; so may the other's word, where only the link has ended. */
    GRACE_MS = 30,
    PING_MS = 150,    /* in which a host acknowledges what was said to it: many round trips */
    INQUIRE_MS = 300, /* and in which others can say so */
    ALONE_MS = 80,    /* in which others have said whether they have lost it, too */
    ARBITER_MS = 500, /* in which an arbiter has judged */
    ARBITERS_MAX = 2, /* that are tried before a rank judges alone */
    CHARGES_MAX = 16  /* the first ones count: later ones are their consequences */
};

struct charge {
    int by, of;
    uint8_t reason;
    char text[sizeof(((struct tci_notice *)0)->text)];
};

struct tci_trial {
    struct charge charges[CHARGES_MAX];
    unsigned count, sent; /* of these, told to the arbiter */
    int arbiter;          /* asked last; -1: none */
    unsigned tries;
    uint64_t since_ns; /* of the inquiry */
    bool is_of_heard;  /* somebody hears the host of the accused … */
    bool is_by_heard;  /* … and of the accuser */
    bool hears_others; /* somebody has said something at all */
    bool is_of_alive;  /* the accused has said itself that it is there */
    bool lost[];       /* by rank: its link ended here, or it said that it ends */
};

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

static bool is_broken(const struct tci_comm *comm)
{
    return comm->error.pub.status != TC_OK;
}

/* Whether the question is who is heard by whom, and not whose process has ended. */
static bool is_of_silence(uint8_t reason)
{
    return reason == TC_REASON_MACHINE_SILENT || reason == TC_REASON_LINK_DEAD;
}

/* Two that have other keys, or releases, are both there, and no path between them is broken. */
static bool is_refusal(uint8_t reason)
{
    return tci_status_of_loss((tc_reason_t)reason) == TC_ERR_AUTH;
}

static void run_task(struct tci_task *task);
static void proceed(struct tci_comm *comm);

static void post(struct tci_comm *comm)
{
    struct tci_verdict *verdict = &comm->verdict;

    if (verdict->is_posted)
        return;
    verdict->is_posted = true;
    verdict->task.fn = run_task;
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    comm->exec->ops->post(comm->exec, &verdict->task);
}

/* ---- Charges ------------------------------------------------------------------------------ */

static bool is_known(const struct tci_trial *trial, int by, int of, uint8_t reason)
{
    for (unsigned c = 0; c < trial->count; c++)
        if (trial->charges[c].by == by && trial->charges[c].of == of &&
            trial->charges[c].reason == reason)
            return true;
    return false;
}

static void add_charge(struct tci_comm *comm, int by, const struct tci_notice *notice)
{
    struct tci_verdict *verdict = &comm->verdict;
    struct tci_trial *trial;
    struct charge *charge;

    if (comm->is_deaf || is_broken(comm) || verdict->is_told || notice->culprit < 0 ||
        notice->culprit >= comm->size)
        return;
    if (verdict->step == TCI_VERDICT_NONE) {
        verdict->step = TCI_VERDICT_CHARGED;
        verdict->notice = *notice;
        verdict->trial = tci_alloc(sizeof(*trial) + (size_t)comm->size * sizeof(bool));
        if (verdict->trial != NULL)
            verdict->trial->arbiter = -1;
    }
    post(comm);
    trial = verdict->trial;
    if (trial == NULL)
        return;
    if (by == comm->rank || by == notice->culprit)
        trial->lost[notice->culprit] = true;
    if (trial->count == CHARGES_MAX || is_known(trial, by, notice->culprit, notice->reason))
        return;
    charge = &trial->charges[trial->count++];
    charge->by = by;
    charge->of = notice->culprit;
    charge->reason = notice->reason;
    memcpy(charge->text, notice->text, sizeof(charge->text));
}

void tci_verdict_lost(struct tci_comm *comm, uint32_t peer, tc_reason_t reason, const char *how)
{
    struct tci_notice notice = {
        .kind = TCI_NOTICE_LOST, .reason = (uint8_t)reason, .culprit = (int32_t)peer};

    snprintf(notice.text, sizeof(notice.text), "rank %u %.240s", peer, how);
    add_charge(comm, comm->rank, &notice);
}

/* A rank that tells of its own end is a charge as well: of two that end at a time, the arbiter
 * says which was the first. */
void tci_verdict_told(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    struct tci_verdict *verdict = &comm->verdict;

    if (notice->culprit < 0 || notice->culprit >= comm->size)
        return;
    if (notice->culprit == (int32_t)from && notice->reason == TC_REASON_EXITED) {
        add_charge(comm, (int)from, notice);
        return;
    }
    if (comm->is_deaf || is_broken(comm) || verdict->is_told)
        return;
    verdict->notice = *notice;
    verdict->is_told = true;
    if (verdict->step == TCI_VERDICT_NONE)
        verdict->step = TCI_VERDICT_CHARGED;
    post(comm);
}

void tci_verdict_answer(struct tci_comm *comm, uint32_t peer)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_LOST,
                                .reason = (uint8_t)comm->error.reason,
                                .culprit = comm->error.pub.rank};

    if (!tci_status_is_loss(comm->error.pub.status))
        return;
    snprintf(notice.text, sizeof(notice.text), "%.255s", comm->error.text);
    tci_comm_tell_loss(comm, peer, &notice, false);
}

void tci_verdict_accused(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    if (is_broken(comm))
        tci_verdict_answer(comm, from);
    else if (notice->arg < (uint64_t)comm->size)
        add_charge(comm, (int)notice->arg, notice);
}

/* ---- Judging ------------------------------------------------------------------------------ */

static void break_by(struct tci_comm *comm, int culprit, tc_reason_t reason, const char *text)
{
    struct tci_error error = {0};
    char more[160] = "";

    if (culprit != comm->rank && !comm->verdict.is_told)
        (void)tci_beat_print(comm, culprit, more, sizeof(more));
    if (strlen(text) + strlen(more) >= sizeof(comm->verdict.notice.text))
        more[0] = 0; /* the others are told the same, and no half of it */
    tci_error_blame(&error, tci_status_of_loss(reason), culprit, reason, NULL, "%s%s", text, more);
    tci_comm_break(comm, &error);
}

/* How many ranks do not hear this one, or are not heard by it. */
static int silences_of(const struct tci_trial *trial, int rank)
{
    int count = 0;

    for (unsigned c = 0; c < trial->count; c++)
        count += is_of_silence(trial->charges[c].reason) &&
                 (trial->charges[c].by == rank || trial->charges[c].of == rank);
    return count;
}

/* The host is heard by some: a path is broken.  At fault is the end of it that has most of such, or
 * the higher rank, which more groups can do without. */
static void judge_link(struct tci_comm *comm, const struct charge *charge)
{
    const struct tci_trial *trial = comm->verdict.trial;
    int of = charge->of, by = charge->by, culprit = tci_max(by, of);
    char text[256];

    if (silences_of(trial, of) != silences_of(trial, by))
        culprit = silences_of(trial, of) > silences_of(trial, by) ? of : by;
    snprintf(text, sizeof(text),
             "the hosts of rank %d and rank %d do not hear each other, but others hear both: the "
             "path between them is broken; check cables, routes and firewalls",
             by, of);
    break_by(comm, culprit, TC_REASON_LINK_DEAD, text);
}

/* Whether every host that this rank was linked with is silent: then it is this one that is cut off,
 * as far as can be told from inside.  Between two there is no saying. */
static bool is_cut_off(const struct tci_comm *comm)
{
    const struct tci_trial *trial = comm->verdict.trial;
    int silent = 0;

    if (trial->hears_others)
        return false;
    for (int r = 0; r < comm->size; r++) {
        enum tci_hearing hearing = TCI_HEAR_NO_LINK;

        if (r != comm->rank && !trial->lost[r])
            hearing = tci_hearing_of(comm, (uint32_t)r, trial->since_ns);
        if (hearing >= TCI_HEAR_HOST)
            return false;
        silent += trial->lost[r] || hearing == TCI_HEAR_NOTHING;
    }
    return silent > 1;
}

/* The first charge, in the words of who knows most: of one of the two who has been refused, else of
 * a rank that has told of its end itself, else of one that has seen that end, else of those that do
 * not hear it. */
static const struct charge *first_cause(const struct tci_trial *trial)
{
    const struct charge *best = &trial->charges[0];

    for (unsigned c = 1; c < trial->count; c++) {
        const struct charge *charge = &trial->charges[c];

        if (charge->of == best->of && best->by != best->of &&
            (charge->by == charge->of ||
             (is_of_silence(best->reason) && !is_of_silence(charge->reason))))
            best = charge;
    }
    for (unsigned c = 0; c < trial->count; c++) {
        const struct charge *charge = &trial->charges[c];

        if (is_refusal(charge->reason) && charge->by + charge->of == best->by + best->of &&
            (charge->by == best->by || charge->by == best->of))
            return charge;
    }
    return best;
}

/* What this rank hears of the host of one of the two; nothing where the other one is its own. */
static enum tci_hearing hear_here(const struct tci_comm *comm, int rank, int other)
{
    if (rank == comm->rank)
        return TCI_HEAR_HOST;
    if (other == comm->rank)
        return TCI_HEAR_NOTHING;
    return tci_hearing_of(comm, (uint32_t)rank, comm->verdict.trial->since_ns);
}

/* Each of the two has seen the end of the link between them, and both live to tell. */
static bool is_mutual(const struct tci_trial *trial, const struct charge *charge)
{
    if (trial->is_of_alive && !trial->lost[charge->of])
        return true;
    for (unsigned c = 0; c < trial->count && charge->by != charge->of; c++)
        if (trial->charges[c].by == charge->of && trial->charges[c].of == charge->by)
            return true;
    return false;
}

static void judge(struct tci_comm *comm)
{
    const struct tci_trial *trial = comm->verdict.trial;
    const struct charge *charge = first_cause(trial);
    int lower = charge->by < charge->of ? charge->by : charge->of;
    int higher = charge->by < charge->of ? charge->of : charge->by;
    char text[256];

    if (comm->size > 2 && !is_of_silence(charge->reason) && !is_refusal(charge->reason) &&
        is_mutual(trial, charge)) {
        snprintf(text, sizeof(text),
                 "the connection between rank %d and rank %d has broken and cannot be made again, "
                 "though both are there: check the path between them",
                 lower, higher);
        break_by(comm, higher, TC_REASON_LINK_DEAD, text);
        return;
    }
    if (!is_of_silence(charge->reason)) {
        break_by(comm, charge->of, (tc_reason_t)charge->reason, charge->text);
        return;
    }
    if (!trial->is_by_heard && hear_here(comm, charge->by, charge->of) < TCI_HEAR_TOO_SOON) {
        snprintf(text, sizeof(text),
                 "rank %d is cut off: it can say that it does not hear others, but nobody's host "
                 "has its acknowledgement; check its links and firewalls",
                 charge->by);
        break_by(comm, charge->by, TC_REASON_MACHINE_SILENT, text);
    } else if (trial->is_of_heard || hear_here(comm, charge->of, charge->by) >= TCI_HEAR_HOST) {
        judge_link(comm, charge);
    } else if (is_cut_off(comm)) {
        snprintf(text, sizeof(text),
                 "rank %d hears the hosts of no other rank any more: its own network is down, or "
                 "theirs all are",
                 comm->rank);
        break_by(comm, comm->rank, TC_REASON_MACHINE_SILENT, text);
    } else {
        break_by(comm, charge->of,
                 comm->size == 2 ? (tc_reason_t)charge->reason : TC_REASON_MACHINE_SILENT,
                 charge->text);
    }
}

static void on_judge(struct tci_timer *timer)
{
    struct tci_comm *comm = tci_container_of(timer, struct tci_comm, verdict.timer);

    judge(comm);
    tci_comm_release(comm);
}

/* A timer that runs counts as something live; tci_verdict_end stops it. */
static bool wait_for(struct tci_comm *comm, uint64_t ms, void (*fn)(struct tci_timer *timer))
{
    struct tci_exec *exec = comm->exec;
    struct tci_timer *timer = &comm->verdict.timer;

    TC_ASSERT(timer->heap_at == 0);
    timer->fn = fn;
    if (exec->ops->timer_set(exec, timer, now(comm) + ms * TCI_NS_PER_MS) != 0)
        return false;
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    return true;
}

/* Whether the end of a rank has been told by itself, or seen by two, the arbiter among them. */
static bool is_confirmed(const struct tci_comm *comm)
{
    const struct tci_trial *trial = comm->verdict.trial;
    const struct charge *first = &trial->charges[0];

    if (comm->size == 2 || first->by == first->of)
        return true;
    for (unsigned c = 0; c < trial->count; c++)
        if (trial->charges[c].of == first->of &&
            (trial->charges[c].by == first->of || trial->charges[c].by != first->by))
            return trial->lost[first->of];
    return false;
}

/* It may be that only a link has ended.  Of a rank that this one is still linked with it says so
 * itself; of a lower one that this rank alone has lost another tells, which tells that one. */
static uint64_t look_closer(struct tci_comm *comm)
{
    const struct tci_trial *trial = comm->verdict.trial;
    const struct charge *charge = &trial->charges[0];
    struct tci_notice notice = {.kind = TCI_NOTICE_INQUIRE, .culprit = charge->of, .number = 1};
    int other = charge->of;

    if (is_confirmed(comm))
        return tci_list_is_empty(&comm->ops) ? 0 : GRACE_MS;
    if (charge->by == comm->rank && charge->of > comm->rank)
        return GRACE_MS;
    if (charge->by == comm->rank) {
        for (other = 0; other < comm->size && (other == comm->rank || trial->lost[other]);)
            other++;
        notice = (struct tci_notice){.kind = TCI_NOTICE_ACCUSE,
                                     .reason = charge->reason,
                                     .culprit = charge->of,
                                     .arg = (uint64_t)charge->by};
        memcpy(notice.text, charge->text, sizeof(notice.text));
    }
    if (other < comm->size && other != comm->rank)
        comm->transport->ops->notify(comm->transport, (uint32_t)other, &notice,
                                     charge->by == comm->rank);
    return ALONE_MS;
}

/* This rank is the arbiter, or judges alone. */
static void try_case(struct tci_comm *comm)
{
    struct tci_trial *trial = comm->verdict.trial;
    const struct charge *charge = &trial->charges[0];
    uint64_t ms;

    comm->verdict.step = TCI_VERDICT_TRIED;
    trial->since_ns = now(comm);
    if (!is_of_silence(charge->reason)) {
        ms = look_closer(comm);
    } else {
        ms = comm->size > 2 ? INQUIRE_MS : 0;
        tci_hearing_inquire(comm, charge->of, PING_MS);
        tci_hearing_inquire(comm, charge->by, PING_MS);
    }
    if (ms == 0 || !wait_for(comm, ms, on_judge))
        judge(comm);
}

/* Another one has lost it as well: there is nothing to wait for but what operations tell. */
static void hasten(struct tci_comm *comm)
{
    struct tci_timer *timer = &comm->verdict.timer;
    uint64_t at = comm->verdict.trial->since_ns + GRACE_MS * TCI_NS_PER_MS;

    if (timer->heap_at != 0 && !is_of_silence(comm->verdict.trial->charges[0].reason) &&
        is_confirmed(comm))
        (void)comm->exec->ops->timer_set(comm->exec, timer, tci_max(at, now(comm)));
}

/* ---- The arbiter -------------------------------------------------------------------------- */

static void send_charges(struct tci_comm *comm)
{
    struct tci_trial *trial = comm->verdict.trial;

    for (; trial->sent < trial->count; trial->sent++) {
        const struct charge *charge = &trial->charges[trial->sent];
        struct tci_notice notice = {.kind = TCI_NOTICE_ACCUSE,
                                    .reason = charge->reason,
                                    .culprit = charge->of,
                                    .arg = (uint64_t)charge->by};

        memcpy(notice.text, charge->text, sizeof(notice.text));
        tci_comm_tell_loss(comm, (uint32_t)trial->arbiter, &notice, true);
    }
}

static void on_mute(struct tci_timer *timer)
{
    struct tci_comm *comm = tci_container_of(timer, struct tci_comm, verdict.timer);

    proceed(comm);
    tci_comm_release(comm);
}

/* The next arbiter is told, or the case is tried here. */
static void proceed(struct tci_comm *comm)
{
    struct tci_trial *trial = comm->verdict.trial;
    int arbiter = trial->arbiter + 1;

    while (arbiter < comm->rank && trial->lost[arbiter])
        arbiter++;
    if (arbiter >= comm->rank || trial->tries == ARBITERS_MAX) {
        try_case(comm);
        return;
    }
    trial->arbiter = arbiter;
    trial->tries++;
    trial->sent = 0;
    comm->verdict.step = TCI_VERDICT_ASKED;
    send_charges(comm);
    if (!wait_for(comm, ARBITER_MS, on_mute))
        try_case(comm);
}

/* The arbiter has ended before it could judge. */
static void pass_over(struct tci_comm *comm)
{
    struct tci_exec *exec = comm->exec;

    if (comm->verdict.timer.heap_at != 0) {
        exec->ops->timer_clear(exec, &comm->verdict.timer);
        atomic_fetch_sub_explicit(&comm->ops_live, 1, memory_order_relaxed); /* the task lives */
    }
    proceed(comm);
}

static void run_task(struct tci_task *task)
{
    struct tci_comm *comm = tci_container_of(task, struct tci_comm, verdict.task);
    struct tci_verdict *verdict = &comm->verdict;
    const struct tci_notice *notice = &verdict->notice;

    verdict->is_posted = false;
    if (is_broken(comm) || comm->transport == NULL)
        ;
    else if (verdict->is_told || verdict->trial == NULL)
        break_by(comm, notice->culprit, (tc_reason_t)notice->reason, notice->text);
    else if (verdict->step == TCI_VERDICT_CHARGED)
        proceed(comm);
    else if (verdict->step == TCI_VERDICT_ASKED && verdict->trial->lost[verdict->trial->arbiter])
        pass_over(comm);
    else if (verdict->step == TCI_VERDICT_ASKED)
        send_charges(comm);
    else if (verdict->step == TCI_VERDICT_TRIED)
        hasten(comm);
    tci_comm_release(comm);
}

void tci_verdict_end(struct tci_comm *comm)
{
    struct tci_verdict *verdict = &comm->verdict;

    verdict->step = TCI_VERDICT_GIVEN;
    tci_free(verdict->trial);
    verdict->trial = NULL;
    if (verdict->timer.heap_at == 0)
        return;
    comm->exec->ops->timer_clear(comm->exec, &verdict->timer);
    tci_comm_release(comm);
}

void tci_verdict_testified(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    struct tci_trial *trial = comm->verdict.trial;

    if (trial == NULL || trial->count == 0)
        return;
    trial->hears_others = true;
    trial->is_of_alive = trial->is_of_alive || (int)from == trial->charges[0].of;
    if (notice->reason != TC_REASON_NONE)
        return;
    trial->is_of_heard = trial->is_of_heard || notice->culprit == trial->charges[0].of;
    trial->is_by_heard = trial->is_by_heard || notice->culprit == trial->charges[0].by;
}
