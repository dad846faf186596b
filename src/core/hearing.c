/* hearing.c - hosts are listened to, and what is heard is told to whoever asks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hearing.h"

#include "core/alloc.h"
#include "core/base.h"
#include "core/comm.h"

enum {
    LISTEN_MAX_MS = 1000,
    JURORS_MAX = 64, /* listened to at once; who is not answered has others to ask */
    LINKED_MAX = 4   /* links are made to so many, in order to ask them; and by them, to listen */
};

/* One rank that this one listens to, for one that asks. */
struct juror {
    struct tci_timer timer;
    struct tci_list link;
    struct tci_comm *comm;
    uint32_t asker, of;
    uint64_t since_ns;
    bool is_new; /* there was no link: what is lost on such a one tells nothing */
};

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

void tci_hearings_init(struct tci_hearings *hearings)
{
    tci_list_init(&hearings->jurors);
    hearings->count = 0;
}

enum tci_hearing tci_hearing_of(const struct tci_comm *comm, uint32_t peer, uint64_t since_ns)
{
    if (comm->transport == NULL)
        return TCI_HEAR_NO_LINK;
    return tci_transport_hear(comm->transport, peer, since_ns);
}

static void testify(struct tci_comm *comm, uint32_t asker, uint32_t of, enum tci_hearing hearing)
{
    bool is_heard = hearing >= TCI_HEAR_HOST;
    struct tci_notice notice = {.kind = TCI_NOTICE_TESTIFY,
                                .reason = is_heard ? TC_REASON_NONE : TC_REASON_MACHINE_SILENT,
                                .culprit = (int32_t)of,
                                .number = hearing == TCI_HEAR_FLOW};

    if (asker == (uint32_t)comm->rank)
        tci_hearing_testified(comm, asker, &notice);
    else
        comm->transport->ops->notify(comm->transport, asker, &notice, comm->is_ring);
}

static void free_juror(struct juror *juror)
{
    tci_list_del(&juror->link);
    juror->comm->hearings.count--;
    tci_free(juror);
}

void tci_hearings_end(struct tci_comm *comm)
{
    struct tci_list *first;

    while ((first = tci_list_first(&comm->hearings.jurors)) != NULL) {
        struct juror *juror = tci_container_of(first, struct juror, link);

        comm->exec->ops->timer_clear(comm->exec, &juror->timer);
        free_juror(juror);
        tci_comm_release(comm);
    }
}

static void on_listened(struct tci_timer *timer)
{
    struct juror *juror = tci_container_of(timer, struct juror, timer);
    struct tci_comm *comm = juror->comm;
    enum tci_hearing hearing = tci_hearing_of(comm, juror->of, juror->since_ns);
    bool is_known = hearing >= TCI_HEAR_HOST || (hearing == TCI_HEAR_NOTHING && !juror->is_new);

    if (is_known && !comm->is_deaf)
        testify(comm, juror->asker, juror->of, hearing);
    free_juror(juror);
    tci_comm_release(comm);
}

static bool is_listening(const struct tci_comm *comm, uint32_t asker, uint32_t of)
{
    for (const struct tci_list *at = comm->hearings.jurors.next; at != &comm->hearings.jurors;
         at = at->next) {
        const struct juror *juror = tci_container_of(at, struct juror, link);

        if (juror->asker == asker && juror->of == of)
            return true;
    }
    return false;
}

void tci_hearing_listen(struct tci_comm *comm, uint32_t asker, uint32_t of, uint32_t ms,
                        bool may_link)
{
    struct tci_exec *exec = comm->exec;
    struct juror *juror;

    if (comm->hearings.count == JURORS_MAX || is_listening(comm, asker, of))
        return;
    juror = tci_alloc(sizeof(*juror));
    if (juror == NULL)
        return;
    *juror = (struct juror){.timer = {.fn = on_listened},
                            .comm = comm,
                            .asker = asker,
                            .of = of,
                            .since_ns = now(comm)};
    tci_list_init(&juror->link);
    juror->is_new = tci_hearing_of(comm, of, juror->since_ns) == TCI_HEAR_NO_LINK;
    tci_beat_send(comm, of, may_link);
    if (exec->ops->timer_set(exec, &juror->timer,
                             juror->since_ns +
                                 tci_min(tci_max(ms, 1), LISTEN_MAX_MS) * TCI_NS_PER_MS) != 0) {
        tci_free(juror);
        return;
    }
    tci_list_add(&comm->hearings.jurors, &juror->link);
    comm->hearings.count++;
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
}

void tci_hearing_inquire(struct tci_comm *comm, int of, uint32_t ms)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_INQUIRE, .culprit = of, .number = (int32_t)ms};
    int left = LINKED_MAX;

    for (int r = 0; of != comm->rank && r < comm->size; r++) {
        bool may_link =
            r != of && left > 0 && tci_hearing_of(comm, (uint32_t)r, 0) != TCI_HEAR_NOTHING;

        if (r == comm->rank)
            continue;
        notice.arg = may_link;
        left -= may_link;
        comm->transport->ops->notify(comm->transport, (uint32_t)r, &notice,
                                     may_link || comm->is_ring);
    }
}

void tci_hearing_inquired(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    uint32_t ms = notice->number < 1 ? 1 : (uint32_t)notice->number;

    if (notice->culprit < 0 || notice->culprit >= comm->size || notice->culprit == (int32_t)from)
        return;
    if (comm->error.pub.status != TC_OK)
        tci_verdict_answer(comm, from);
    else if (notice->culprit == comm->rank)
        testify(comm, from, (uint32_t)comm->rank, TCI_HEAR_HOST);
    else
        tci_hearing_listen(comm, from, (uint32_t)notice->culprit, ms, notice->arg == 1);
}

void tci_hearing_testified(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    if (notice->culprit < 0 || notice->culprit >= comm->size)
        return;
    tci_inquest_testified(comm, from, notice);
    tci_verdict_testified(comm, from, notice);
}
