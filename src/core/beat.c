/* beat.c - beats are sent, heard, and put into words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/beat.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/comm.h"

struct tci_heard {
    uint64_t at_ns; /* 0: nothing has been heard */
    uint64_t entered, finished;
    char last[48];
};

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

static void fill(const struct tci_comm *comm, struct tci_notice *notice)
{
    char tag[32];

    *notice = (struct tci_notice){.kind = TCI_NOTICE_BEAT,
                                  .culprit = comm->rank,
                                  .arg = comm->beat.entered,
                                  .key = {.tag = comm->beat.finished}};
    if (comm->last.name != NULL)
        snprintf(notice->text, sizeof(notice->text), "%s, %s", comm->last.name,
                 tci_tag_print(comm->last.space, comm->last.tag, tag, sizeof(tag)));
}

void tci_beat_send(struct tci_comm *comm, uint32_t peer, bool may_link)
{
    struct tci_notice notice;

    if (comm->transport == NULL || (int)peer == comm->rank)
        return;
    fill(comm, &notice);
    comm->transport->ops->notify(comm->transport, peer, &notice, may_link);
}

static void on_beat(struct tci_timer *timer)
{
    struct tci_comm *comm = tci_container_of(timer, struct tci_comm, beat.timer);
    struct tci_notice notice;

    fill(comm, &notice);
    for (int peer = 0; peer < comm->size; peer++)
        if (peer != comm->rank)
            comm->transport->ops->notify(comm->transport, (uint32_t)peer, &notice, false);
    (void)comm->exec->ops->timer_set(comm->exec, timer,
                                     now(comm) + comm->beat.period_ms * TCI_NS_PER_MS);
}

void tci_beat_start(struct tci_comm *comm, uint32_t period_ms)
{
    if (comm->transport == NULL || comm->size == 1 || period_ms == 0)
        return;
    comm->beat.period_ms = period_ms;
    comm->beat.timer.fn = on_beat;
    /* Without memory none are sent; an error then says less. */
    (void)comm->exec->ops->timer_set(comm->exec, &comm->beat.timer,
                                     now(comm) + period_ms * TCI_NS_PER_MS);
}

void tci_beat_end(struct tci_comm *comm)
{
    comm->exec->ops->timer_clear(comm->exec, &comm->beat.timer);
}

void tci_beat_fini(struct tci_comm *comm)
{
    tci_beat_end(comm);
    tci_free(comm->beat.heard);
    comm->beat.heard = NULL;
}

void tci_beat_heard(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    struct tci_heard *heard;

    if (comm->is_deaf || from >= (uint32_t)comm->size)
        return;
    if (comm->beat.heard == NULL)
        comm->beat.heard = tci_alloc_array((size_t)comm->size, sizeof(*heard));
    if (comm->beat.heard == NULL)
        return;
    heard = &comm->beat.heard[from];
    heard->at_ns = tci_max(now(comm), 1);
    heard->entered = notice->arg;
    heard->finished = notice->key.tag;
    snprintf(heard->last, sizeof(heard->last), "%.47s", notice->text);
}

const char *tci_beat_print(const struct tci_comm *comm, int rank, char *text, size_t text_bytes)
{
    const struct tci_heard *heard = comm->beat.heard == NULL ? NULL : &comm->beat.heard[rank];

    text[0] = '\0';
    if (heard == NULL || heard->at_ns == 0)
        return text;
    snprintf(text, text_bytes, " (heard %.1f s ago: %" PRIu64 " entered, %" PRIu64 " ended%s%s)",
             (double)(now(comm) - heard->at_ns) * 1e-9, heard->entered, heard->finished,
             heard->last[0] != 0 ? ", last " : "", heard->last);
    return text;
}
