/* case.c - a judge gathers what the ranks know of an operation, and ends it for all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/case.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/waiting.h"

enum {
    CASES_MAX = 1024, /* at once; a rank whose operation has no judge names the judge */
    PEERS_MAX = 8,    /* that a rank listens to, of those it waits for */
    SUSPECTS_MAX = 8, /* that others are asked about */
    /* Time for answers: of what is left until the deadline the half. */
    ANSWER_MIN_MS = 50,
    ANSWER_MAX_MS = 500,
    HEAR_MIN_MS = 130, /* nothing can be said sooner of a host that does not answer */
    /* Hosts are listened to for a third of it.  In the first the slowest acknowledgement has come:
     * see net/tcp_hear.c. */
    LISTEN_MIN_MS = 150,
    LISTEN_MAX_MS = 350,
    MARGIN_MS = 30, /* until what was heard has been told */
    LATER_MS = 50,  /* a loss is about to be judged */
    LOSS_MAX_MS = 400
};

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

void tci_case_end(struct tci_case *it)
{
    struct tci_comm *comm = it->comm;

    comm->exec->ops->timer_clear(comm->exec, &it->timer);
    tci_list_del(&it->link);
    comm->inquests.count--;
    tci_free(it->evidence.answers);
    tci_free(it);
}

/* ---- Gathering ------------------------------------------------------------------------------ */

bool tci_case_asks(const struct tci_case *it, int rank)
{
    return rank != it->comm->rank &&
           (it->evidence.peer == TCI_ALL_PEERS || it->evidence.peer == rank);
}

void tci_case_query(const struct tci_case *it, int rank)
{
    struct tci_comm *comm = it->comm;
    struct tci_notice notice = {.kind = TCI_NOTICE_QUERY,
                                .status = TC_PENDING,
                                .culprit = comm->rank,
                                .number = (int32_t)it->listen_ms,
                                .key = it->key,
                                .call = it->call};

    comm->transport->ops->notify(comm->transport, (uint32_t)rank, &notice, true);
}

void tci_case_listen(struct tci_comm *comm, int judge, uint32_t ms)
{
    uint32_t peers[PEERS_MAX], count = tci_waiting_peers(comm, peers, PEERS_MAX);

    for (uint32_t p = 0; p < count; p++)
        if (peers[p] != (uint32_t)comm->rank && peers[p] != (uint32_t)judge)
            tci_hearing_listen(comm, (uint32_t)judge, peers[p], ms, false);
}

/* What this rank knows itself, as it is now. */
static void note_own(struct tci_case *it)
{
    struct tci_comm *comm = it->comm;
    struct tci_notice asked = {.key = it->key, .call = it->call}, own;
    uint32_t from = it->evidence.peer >= 0 ? (uint32_t)it->evidence.peer : (uint32_t)comm->rank;

    tci_waiting_answer(comm, from, &asked, TCI_NOTICE_REPORT, &own);
    tci_answers_note(it->evidence.answers, comm->rank, &own);
}

/* A rank that has said goodbye was done. */
static bool is_silent(struct tci_case *it, int rank)
{
    struct said *said = &it->evidence.answers->said[rank];

    if (!tci_case_asks(it, rank) || said->what != SILENT)
        return false;
    if (tci_transport_bond(it->comm->transport, (uint32_t)rank) == TCI_BOND_LEFT)
        said->what = FINISHED;
    return said->what == SILENT;
}

static bool has_silent(struct tci_case *it)
{
    for (int r = 0; r < it->comm->size; r++)
        if (is_silent(it, r))
            return true;
    return false;
}

/* Those who have not answered are asked once more, and those who have not entered may have by now.
 * Where not even the host has answered, others are asked for it. */
static void look_for_silent(struct tci_case *it)
{
    struct tci_comm *comm = it->comm;
    struct said *said = it->evidence.answers->said;
    int suspects = 0;

    it->has_looked = true;
    for (int r = 0; r < comm->size; r++) {
        bool is_mute = is_silent(it, r);
        enum tci_hearing hearing;

        if (is_mute || (tci_case_asks(it, r) && said[r].what == NOT_ENTERED))
            tci_case_query(it, r);
        if (!is_mute)
            continue;
        hearing = tci_hearing_of(comm, (uint32_t)r, it->begin_ns);
        said[r].was_mute = hearing != TCI_HEAR_FLOW;
        if (hearing >= TCI_HEAR_HOST)
            continue;
        it->is_listening = true;
        if (comm->size > 2 && suspects++ < SUSPECTS_MAX)
            tci_hearing_inquire(comm, r, (uint32_t)it->listen_ms);
    }
    if (it->is_listening)
        it->heard_ns = now(comm) + (it->listen_ms + MARGIN_MS) * TCI_NS_PER_MS;
}

/* ---- Ruling --------------------------------------------------------------------------------- */

static uint64_t due_ns(const struct tci_case *it)
{
    const struct tci_answers *answers = it->evidence.answers;
    uint64_t due = TCI_NEVER;

    for (int r = 0; r < answers->size; r++)
        if (answers->said[r].due_ns != 0)
            due = tci_min(due, answers->said[r].due_ns);
    return due;
}

/* Tell all, this rank too. */
static void tell_end(struct tci_case *it, struct tci_notice *notice)
{
    struct tci_comm *comm = it->comm;
    uint32_t from = it->evidence.peer >= 0 ? (uint32_t)it->evidence.peer : (uint32_t)comm->rank;

    for (int r = 0; r < comm->size; r++)
        if (tci_case_asks(it, r))
            comm->transport->ops->notify(comm->transport, (uint32_t)r, notice, true);
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed); /* outlive the case */
    tci_case_end(it);
    tci_comm_ended(comm, from, notice);
    tci_comm_release(comm);
}

static void end_operation(struct tci_case *it, const struct tci_ruling *ruling)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_END,
                                .reason = (uint8_t)ruling->reason,
                                .status = TC_ERR_TIMEOUT,
                                .culprit = ruling->culprit,
                                .key = it->key,
                                .call = it->call};
    char more[160] = "", text[sizeof(ruling->text) + sizeof(more)];

    if (ruling->reason == TC_REASON_LOOP_STALLED)
        (void)tci_beat_print(it->comm, ruling->culprit, more, sizeof(more));
    snprintf(text, sizeof(text), "%s%s", ruling->text, more);
    snprintf(notice.text, sizeof(notice.text), "%.255s", text);
    tell_end(it, &notice);
}

static bool end_mismatch(struct tci_case *it)
{
    const struct tci_opinion *most, *least;
    struct tci_notice notice = {
        .kind = TCI_NOTICE_END, .status = TC_ERR_MISMATCH, .key = it->key, .call = it->call};

    if (!tci_answers_differ(it->evidence.answers, &most, &least))
        return false;
    notice.culprit = least->first;
    (void)tci_mismatch_print(it->comm, most, least, notice.text, sizeof(notice.text));
    tell_end(it, &notice);
    return true;
}

static void break_group(struct tci_case *it, const struct tci_ruling *ruling)
{
    struct tci_comm *comm = it->comm;
    struct tci_error error = {0};
    char more[160] = "";

    if (ruling->culprit != comm->rank)
        (void)tci_beat_print(comm, ruling->culprit, more, sizeof(more));
    tci_error_blame(&error, TC_ERR_PEER_LOST, ruling->culprit, ruling->reason, NULL, "%s%s",
                    ruling->text, more);
    tci_comm_break(comm, &error); /* which ends all cases */
}

/* What this rank hears itself of those who have not answered. */
static void hear_silent(struct tci_case *it)
{
    struct tci_comm *comm = it->comm;

    for (int r = 0; r < comm->size; r++) {
        struct said *said = &it->evidence.answers->said[r];
        enum tci_hearing hearing;

        if (!is_silent(it, r))
            continue;
        hearing = tci_hearing_of(comm, (uint32_t)r, it->begin_ns);
        said->is_heard = said->is_heard || hearing >= TCI_HEAR_HOST;
        it->evidence.hears_others = it->evidence.hears_others || hearing >= TCI_HEAR_HOST;
        said->is_flowing = said->is_flowing || hearing == TCI_HEAR_FLOW;
        if (hearing == TCI_HEAR_NOTHING)
            tci_evidence_add_dead(&it->evidence, comm->rank, r);
        else if (hearing >= TCI_HEAR_HOST)
            tci_evidence_drop_dead(&it->evidence, comm->rank, r);
    }
}

static void rule(struct tci_case *it)
{
    struct tci_ruling ruling;

    if (end_mismatch(it))
        return;
    hear_silent(it);
    tci_rule(&it->evidence, &ruling);
    if (ruling.is_loss)
        break_group(it, &ruling);
    else
        end_operation(it, &ruling);
}

/* ---- Times ---------------------------------------------------------------------------------- */

static void on_time(struct tci_timer *timer);

/* False: no memory; one that has its place in the heap already is moved without. */
static bool wake_at(struct tci_case *it, uint64_t at_ns)
{
    struct tci_exec *exec = it->comm->exec;

    it->timer.fn = on_time;
    return exec->ops->timer_set(exec, &it->timer, at_ns) == 0;
}

/* When it is known what there is to know. */
static uint64_t ready_ns(const struct tci_case *it)
{
    const struct tci_evidence *evidence = &it->evidence;
    uint64_t told = it->begin_ns + (it->listen_ms + MARGIN_MS) * TCI_NS_PER_MS;

    if (it->is_listening)
        return tci_max(it->heard_ns, told);
    return tci_ruling_is_clear(evidence) ? it->begin_ns : told;
}

/* When there is something to do next; in the past: now it is to be ruled. */
static uint64_t next_ns(struct tci_case *it)
{
    struct tci_comm *comm = it->comm;
    uint64_t due = due_ns(it), at = tci_max(due, ready_ns(it));

    if (at <= now(comm) && tci_comm_bears_loss(comm) &&
        now(comm) < due + LOSS_MAX_MS * TCI_NS_PER_MS)
        return now(comm) + LATER_MS * TCI_NS_PER_MS;
    return at;
}

static void on_time(struct tci_timer *timer)
{
    struct tci_case *it = tci_container_of(timer, struct tci_case, timer);
    uint64_t hear_ns = it->begin_ns + HEAR_MIN_MS * TCI_NS_PER_MS, at;

    if (!it->has_looked && now(it->comm) < hear_ns && has_silent(it) && wake_at(it, hear_ns))
        return;
    if (!it->has_looked)
        look_for_silent(it);
    note_own(it);
    at = next_ns(it);
    if (at <= now(it->comm) || !wake_at(it, at))
        rule(it);
}

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return tci_min(tci_max(value, least), most);
}

/* A case of this rank's; NULL: no memory, or too many. */
struct tci_case *tci_case_open(struct tci_comm *comm, int peer, const struct tci_notice *petition)
{
    uint64_t left_ms = petition->number < 0 ? 0 : (uint64_t)petition->number, at;
    struct tci_case *it;

    if (comm->inquests.count == CASES_MAX)
        return NULL;
    it = tci_alloc(sizeof(*it));
    if (it == NULL)
        return NULL;
    tci_list_init(&it->link);
    *it = (struct tci_case){.link = it->link,
                            .timer = {.fn = on_time},
                            .comm = comm,
                            .key = petition->key,
                            .call = petition->call,
                            .evidence = {.size = comm->size,
                                         .judge = comm->rank,
                                         .peer = peer,
                                         .timeout_ms = petition->arg,
                                         .answers = tci_answers_new(comm->size)},
                            .begin_ns = now(comm),
                            .listen_ms = clamp(left_ms / 3, LISTEN_MIN_MS, LISTEN_MAX_MS)};
    tci_list_init(&it->link);
    snprintf(it->name, sizeof(it->name), "%.31s", petition->text);
    it->evidence.name = it->name;
    it->evidence.is_last = it->key.space == TCI_SPACE_INTERNAL && strcmp(it->name, "finalize") == 0;
    at = it->begin_ns + clamp(left_ms / 2, ANSWER_MIN_MS, ANSWER_MAX_MS) * TCI_NS_PER_MS;
    if (it->evidence.answers == NULL ||
        comm->exec->ops->timer_set(comm->exec, &it->timer, at) != 0) {
        tci_free(it->evidence.answers);
        tci_free(it);
        return NULL;
    }
    tci_list_add(&comm->inquests.cases, &it->link);
    comm->inquests.count++;
    note_own(it);
    for (int r = 0; r < comm->size; r++)
        if (tci_case_asks(it, r)) {
            (void)tci_hearing_of(comm, (uint32_t)r, it->begin_ns);
            tci_case_query(it, r);
        }
    tci_case_listen(comm, comm->rank, (uint32_t)it->listen_ms);
    return it;
}

void tci_case_note_due(struct tci_case *it, int rank, const struct tci_notice *petition)
{
    struct tci_comm *comm = it->comm;
    uint64_t left_ms = petition->number < 0 ? 0 : (uint64_t)petition->number;

    it->evidence.answers->said[rank].due_ns = tci_max(now(comm) + left_ms * TCI_NS_PER_MS, 1);
    if (it->has_looked)
        (void)wake_at(it, next_ns(it)); /* it is set already */
}

/* Of a send or receive no third rank is asked.  Where one of the two does not hear the host of such
 * a one others are asked whether they do, if there is time: else a path that is dead would be taken
 * for a machine that is silent. */
static void ask_about(struct tci_case *it, int third)
{
    struct tci_comm *comm = it->comm;
    struct said *said = &it->evidence.answers->said[third];
    uint64_t heard_ns = now(comm) + (it->listen_ms + MARGIN_MS) * TCI_NS_PER_MS;
    uint64_t due = due_ns(it);

    if (said->is_heard || said->is_asked_about ||
        heard_ns - tci_min(due, heard_ns) > LOSS_MAX_MS * TCI_NS_PER_MS)
        return;
    said->is_asked_about = true;
    it->is_listening = true;
    it->heard_ns = heard_ns;
    tci_hearing_inquire(comm, third, (uint32_t)it->listen_ms);
    if (it->has_looked)
        (void)wake_at(it, next_ns(it)); /* it is set already */
}

static bool is_third(const struct tci_case *it, int rank)
{
    return it->evidence.peer != TCI_ALL_PEERS && it->evidence.peer != rank &&
           it->comm->rank != rank;
}

void tci_case_note_dead(struct tci_case *it, int by, int of)
{
    tci_evidence_add_dead(&it->evidence, by, of);
    if (is_third(it, by)) /* it has been asked by this rank, and has answered */
        it->evidence.answers->said[by].is_heard = true;
    if (is_third(it, of))
        ask_about(it, of);
}

void tci_case_forget_due(struct tci_case *it, int rank)
{
    it->evidence.answers->said[rank].due_ns = 0;
    if (due_ns(it) == TCI_NEVER)
        tci_case_end(it); /* nobody waits for it any more */
}
