/* port.c - the device that is used: its completions and its events, and what the loop polls. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>

#include "core/assert.h"
#include "core/log.h"
#include "rdma/link.h"

enum { CQE_FIRST = 1024 };

/* ---- The completion queue ---- */

/* It must never run over; work of queue pairs that are gone may still be in it. */
bool tci_rdma_cq_reserve(struct tci_rdma *rdma, int entries)
{
    int wanted = rdma->cqe_used + entries, room = rdma->cq->cqe;

    if (entries > 0 && wanted > room) {
        int most = rdma->choice.device.max_cqe;
        int more = (int)tci_min((size_t)most, (size_t)2 * (size_t)wanted);

        if (wanted > most || rdma->verbs->resize_cq(rdma->cq, more) != 0)
            return false;
    }
    rdma->cqe_used = wanted;
    return true;
}

static const struct {
    enum ibv_wc_status status;
    const char *cause;
} causes[] = {
    {IBV_WC_LOC_LEN_ERR, "a message was longer than its place"},
    {IBV_WC_LOC_QP_OP_ERR, "the queue pair is inconsistent"},
    {IBV_WC_LOC_PROT_ERR, "memory on this side is not registered any more: was a buffer freed "
                          "too early?"},
    {IBV_WC_MW_BIND_ERR, "a memory window could not be bound"},
    {IBV_WC_BAD_RESP_ERR, "the answer of its device made no sense"},
    {IBV_WC_LOC_ACCESS_ERR, "memory on this side may not be written to"},
    {IBV_WC_REM_INV_REQ_ERR, "its device took the request for invalid"},
    {IBV_WC_REM_ACCESS_ERR, "its device refused to write to its memory: was a buffer there freed "
                            "too early?"},
    {IBV_WC_REM_OP_ERR, "its device could not carry the request out"},
    {IBV_WC_RETRY_EXC_ERR, "no acknowledgement came: look at the link, the cable and the switch, "
                           "also at its MTU, and whether its host runs"},
    {IBV_WC_RNR_RETRY_EXC_ERR, "it had no receive posted"},
    {IBV_WC_FATAL_ERR, "the device has failed"},
    {IBV_WC_RESP_TIMEOUT_ERR, "the answer of its device took too long"},
    {IBV_WC_GENERAL_ERR, "the transport has failed"},
};

static const char unknown[] = "the device reports an error that is not known here";

static const char *cause_of(enum ibv_wc_status status)
{
    if (status == IBV_WC_WR_FLUSH_ERR)
        return tci_rdma_flushed;
    for (size_t i = 0; i < TCI_LEN(causes); i++)
        if (causes[i].status == status)
            return causes[i].cause;
    return unknown;
}

bool tci_rdma_is_passing(const char *cause)
{
    static const enum ibv_wc_status passing[] = {
        IBV_WC_WR_FLUSH_ERR,  IBV_WC_LOC_QP_OP_ERR,     IBV_WC_BAD_RESP_ERR,     IBV_WC_REM_OP_ERR,
        IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_GENERAL_ERR,
    };

    for (size_t i = 0; i < TCI_LEN(passing); i++)
        if (cause == cause_of(passing[i]))
            return true;
    return cause == unknown;
}

static struct tci_rdma_link *link_of(struct tci_rdma *rdma, uint64_t id)
{
    uint32_t peer = (uint32_t)(id >> 32);
    struct tci_rdma_link *link = peer < rdma->size ? rdma->links[peer] : NULL;

    /* What comes from a queue pair that is gone means nothing any more. */
    return link != NULL && link->qp != NULL && link->generation == (uint16_t)(id >> 16) ? link
                                                                                        : NULL;
}

static void take(struct tci_rdma *rdma, const struct ibv_wc *wc)
{
    struct tci_rdma_link *link = link_of(rdma, wc->wr_id);
    bool is_recv = (wc->wr_id >> 15 & 1) != 0;
    uint32_t index = (uint32_t)wc->wr_id & 0x7fff;
    bool is_taken = true;

    if (link == NULL || link->state == TCI_RDMA_STOPPED || (is_recv && rdma->is_closing))
        return;
    link->is_drained = link->is_drained || (is_recv && wc->status == IBV_WC_WR_FLUSH_ERR);
    if (wc->status != IBV_WC_SUCCESS)
        tci_rdma_link_break(link, cause_of(wc->status));
    else if (!is_recv)
        tci_rdma_on_done(link, index);
    else if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        is_taken = tci_rdma_on_written(link, be32toh(wc->imm_data), wc->byte_len);
    else
        is_taken = tci_rdma_on_record(link, index, wc->byte_len);
    /* The slot is the device's again, whatever it was used for. */
    if (is_recv && is_taken && link->qp != NULL && wc->status == IBV_WC_SUCCESS) {
        link->taken++;
        if (link->state < TCI_RDMA_NEAR)
            (void)tci_rdma_acknowledge(link);
        if (tci_rdma_post_slot(link, index) != 0)
            tci_rdma_link_break(link, "the device takes no receives any more");
    }
}

unsigned tci_rdma_poll_cq(struct tci_rdma *rdma, unsigned budget)
{
    struct ibv_wc wcs[TCI_RDMA_BATCH];
    unsigned done = 0;

    while (done < budget) {
        int most = (int)tci_min(TCI_RDMA_BATCH, budget - done);
        int got = rdma->verbs->poll_cq(rdma->cq, most, wcs);

        for (int i = 0; i < got; i++)
            take(rdma, &wcs[i]);
        done += got > 0 ? (unsigned)got : 0;
        if (got < most)
            break;
    }
    return done;
}

/* ---- The source ---- */

/* No link ends while they are flushed. */
static unsigned flush_all(struct tci_rdma *rdma)
{
    struct tci_list *at, *next;
    unsigned work = rdma->has_broken;

    if (rdma->has_broken)
        tci_rdma_end_broken(rdma);
    if (rdma->has_failed)
        tci_rdma_end_stripes(rdma);
    if (rdma->may_feed && rdma->starved > 0)
        tci_rdma_feed(rdma);

    for (at = rdma->near.next; at != &rdma->near; at = next) {
        next = at->next;
        work += tci_rdma_flush(tci_container_of(at, struct tci_rdma_link, near_link));
    }
    return work;
}

static unsigned poll_source(struct tci_source *source, unsigned budget)
{
    struct tci_rdma *rdma = tci_container_of(source, struct tci_rdma, source);
    unsigned work = tci_rdma_poll_cq(rdma, budget);
    struct tci_list *first;

    work += flush_all(rdma);
    /* Nobody is always the first. */
    first = tci_list_first(&rdma->near);
    if (first != NULL && first->next != &rdma->near) {
        tci_list_del(first);
        tci_list_add(&rdma->near, first);
    }
    /* A software device works on the processors that would only poll. */
    if (work == 0 && rdma->choice.info.is_software)
        (void)sched_yield();
    return work;
}

/* Poll, arm, poll again: what comes between the first two would ring nobody. */
static bool arm_source(struct tci_source *source)
{
    struct tci_rdma *rdma = tci_container_of(source, struct tci_rdma, source);

    if (rdma->is_dead)
        return true;
    if (rdma->verbs->req_notify_cq(rdma->cq) != 0)
        return true; /* the device is gone: its events tell */
    return tci_rdma_poll_cq(rdma, TCI_RDMA_BATCH) + flush_all(rdma) == 0;
}

static bool expects_work(struct tci_source *source)
{
    return tci_container_of(source, struct tci_rdma, source)->live > 0;
}

static void on_channel(struct tci_watch *watch, uint32_t ready)
{
    struct tci_rdma *rdma = tci_container_of(watch, struct tci_rdma, channel_watch);
    struct ibv_cq *cq;
    void *arg;

    (void)ready;
    while (rdma->verbs->get_cq_event(rdma->channel, &cq, &arg) == 0)
        rdma->verbs->ack_cq_events(cq, 1);
    /* what it was rung for is found by the next poll */
}

/* ---- Events of the device ---- */

static void lose_all(struct tci_rdma *rdma, const char *cause)
{
    for (uint32_t i = 0; i < rdma->size; i++)
        if (rdma->links[i] != NULL && tci_rdma_may_break(rdma->links[i]))
            tci_rdma_link_break(rdma->links[i], cause);
    tci_rdma_end_broken(rdma);
}

static void on_event(struct tci_watch *watch, uint32_t ready)
{
    struct tci_rdma *rdma = tci_container_of(watch, struct tci_rdma, event_watch);
    const struct tci_rdma_port_info *info = &rdma->choice.info;
    struct ibv_async_event event;
    enum ibv_event_type type;

    (void)ready;
    while (rdma->verbs->get_async_event(rdma->choice.context, &event) == 0) {
        type = event.event_type;
        if (type == IBV_EVENT_PORT_ERR && event.element.port_num == info->port)
            tci_log(TC_LOG_WARN, "rank %u: RDMA device %s, port %u: the link is down", rdma->rank,
                    info->device, info->port);
        else if (type == IBV_EVENT_PORT_ACTIVE && event.element.port_num == info->port)
            tci_log(TC_LOG_INFO, "rank %u: RDMA device %s, port %u: the link is up", rdma->rank,
                    info->device, info->port);
        rdma->verbs->ack_async_event(&event);
        if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR) {
            rdma->is_dead = true;
            lose_all(rdma, type == IBV_EVENT_CQ_ERR ? "its completion queue ran over"
                                                    : "the device has failed or was taken out");
        }
    }
}

/* ---- Open and close ---- */

static bool watch(struct tci_rdma *rdma)
{
    int fds[2] = {rdma->channel->fd, rdma->choice.context->async_fd};

    for (int i = 0; i < 2; i++)
        if (fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK) != 0 ||
            fcntl(fds[i], F_SETFD, FD_CLOEXEC) != 0)
            return false;
    rdma->channel_watch.fn = on_channel;
    rdma->event_watch.fn = on_event;
    return tci_watch_add(rdma->loop, &rdma->channel_watch, fds[0], TC_READABLE) == 0 &&
           tci_watch_add(rdma->loop, &rdma->event_watch, fds[1], TC_READABLE) == 0;
}

bool tci_rdma_port_open(struct tci_rdma *rdma)
{
    const struct tci_verbs *verbs = rdma->verbs;
    int cqe = (int)tci_min(CQE_FIRST, (size_t)rdma->choice.device.max_cqe);

    rdma->pd = verbs->alloc_pd(rdma->choice.context);
    if (rdma->pd == NULL)
        return false;
    rdma->channel = verbs->create_comp_channel(rdma->choice.context);
    if (rdma->channel == NULL)
        return false;
    rdma->cq = verbs->create_cq(rdma->choice.context, cqe, NULL, rdma->channel);
    if (rdma->cq == NULL || !watch(rdma))
        return false;
    rdma->source =
        (struct tci_source){.poll = poll_source, .arm = arm_source, .expects = expects_work};
    rdma->exec->ops->source_add(rdma->exec, &rdma->source);
    return true;
}

void tci_rdma_port_close(struct tci_rdma *rdma)
{
    const struct tci_verbs *verbs = rdma->verbs;

    if (rdma->source.poll != NULL)
        rdma->exec->ops->source_del(rdma->exec, &rdma->source);
    if (rdma->cq != NULL && rdma->channel != NULL)
        on_channel(&rdma->channel_watch, 0); /* it ends only when all its events are answered */
    tci_watch_del(&rdma->channel_watch);
    tci_watch_del(&rdma->event_watch);
    if (rdma->cq != NULL)
        (void)verbs->destroy_cq(rdma->cq);
    if (rdma->channel != NULL)
        (void)verbs->destroy_comp_channel(rdma->channel);
    if (rdma->pd != NULL)
        (void)verbs->dealloc_pd(rdma->pd);
    (void)verbs->close_device(rdma->choice.context);
}
