/* work.c - what is posted on a fake queue pair is carried out, in order, or fails. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base.h"
#include "fake_verbs/fake.h"

enum { AT_ONCE = 16 };

static struct fake_world *const world = &fake_world;

/* ---- Completions ---- */

static void complete(struct fake_cq *cq, struct fake_qp *qp, const struct ibv_wc *wc,
                     unsigned retires)
{
    if (cq->count == cq->room) {
        world->counts.overruns++;
        return;
    }
    cq->entries[(cq->first + cq->count) % cq->room] =
        (struct fake_entry){.wc = *wc, .qp = qp, .retires = retires};
    cq->entries[(cq->first + cq->count) % cq->room].wc.qp_num = qp->base.qp_num;
    cq->count++;
    if (cq->is_armed)
        fake_ring(cq);
}

static struct fake_work *take(struct fake_queue *queue)
{
    struct fake_work *work = queue->head;

    queue->head = work->next;
    if (queue->head == NULL)
        queue->tail = &queue->head;
    queue->count--;
    return work;
}

/* Of a failure there is always a completion. */
static void end_send(struct fake_qp *qp, enum ibv_wc_status status)
{
    struct fake_work *work = take(&qp->sends);
    bool is_write = work->opcode == IBV_WR_RDMA_WRITE || work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    struct ibv_wc wc = {.wr_id = work->id,
                        .status = status,
                        .opcode = is_write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND,
                        .vendor_err = status == IBV_WC_SUCCESS ? 0 : 0x51};

    qp->unsignaled++;
    if (status != IBV_WC_SUCCESS || qp->signals_all || (work->flags & IBV_SEND_SIGNALED) != 0) {
        complete((struct fake_cq *)qp->base.send_cq, qp, &wc, qp->unsignaled);
        qp->unsignaled = 0;
    }
    free(work);
}

void fake_flush(struct fake_qp *qp)
{
    qp->base.state = IBV_QPS_ERR;
    while (qp->sends.head != NULL)
        end_send(qp, IBV_WC_WR_FLUSH_ERR);
    while (qp->recvs.head != NULL) {
        struct fake_work *work = take(&qp->recvs);
        struct ibv_wc wc = {
            .wr_id = work->id, .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV};

        complete((struct fake_cq *)qp->base.recv_cq, qp, &wc, 0);
        free(work);
    }
}

static void fail(struct fake_qp *qp, enum ibv_wc_status status)
{
    end_send(qp, status);
    fake_flush(qp);
}

/* ---- Memory ---- */

static const struct fake_mr *find_mr(const struct ibv_pd *pd, uint32_t key, bool is_remote)
{
    struct fake_mr *mr;

    for (mr = world->mrs; mr != NULL; mr = mr->next)
        if (mr->base.pd == pd && (is_remote ? mr->base.rkey : mr->base.lkey) == key)
            return mr;
    return NULL;
}

static bool covers(const struct fake_mr *mr, uint64_t addr, uint64_t len)
{
    uint64_t begin = (uint64_t)(uintptr_t)mr->base.addr;

    return addr >= begin && len <= mr->base.length && addr - begin <= mr->base.length - len;
}

static size_t length_of(const struct fake_work *work)
{
    size_t len = 0;

    for (int i = 0; i < work->sge_count; i++)
        len += work->sges[i].length;
    return len;
}

static bool may_use(const struct ibv_pd *pd, const struct fake_work *work, int access)
{
    if ((work->flags & IBV_SEND_INLINE) != 0)
        return true;
    for (int i = 0; i < work->sge_count; i++) {
        const struct fake_mr *mr = find_mr(pd, work->sges[i].lkey, false);

        if (work->sges[i].length > 0 &&
            (mr == NULL || !covers(mr, work->sges[i].addr, work->sges[i].length) ||
             (mr->access & access) != access))
            return false;
    }
    return true;
}

/* All bytes of a request, one after the other, to a place; or from there into the pieces of it. */
static void gather(const struct fake_work *work, uint8_t *to)
{
    const uint8_t *from = work->inlined;

    for (int i = 0; i < work->sge_count; i++) {
        if ((work->flags & IBV_SEND_INLINE) == 0)
            from = (const uint8_t *)(uintptr_t)work->sges[i].addr;
        memcpy(to, from, work->sges[i].length);
        from += work->sges[i].length;
        to += work->sges[i].length;
    }
}

static void scatter(const struct fake_work *work, const uint8_t *from, size_t len)
{
    for (int i = 0; i < work->sge_count && len > 0; i++) {
        size_t part = tci_min(len, work->sges[i].length);

        memcpy((void *)(uintptr_t)work->sges[i].addr, from, part);
        from += part;
        len -= part;
    }
}

/* ---- Carrying out ---- */

static struct fake_qp *find_peer(const struct fake_qp *qp)
{
    const struct fake_device *device = ((struct fake_context *)qp->base.context)->device;
    struct fake_qp *peer;

    if (world->is_cut || device->state != IBV_PORT_ACTIVE)
        return NULL;
    for (peer = world->qps; peer != NULL; peer = peer->next)
        if (peer->base.qp_num == qp->attr.dest_qp_num)
            break;
    if (peer == NULL || peer->base.qp_type != qp->base.qp_type ||
        (peer->base.state != IBV_QPS_RTR && peer->base.state != IBV_QPS_RTS) ||
        peer->attr.dest_qp_num != qp->base.qp_num || peer->attr.rq_psn != qp->attr.sq_psn)
        return NULL;
    device = ((struct fake_context *)peer->base.context)->device;
    return device->state == IBV_PORT_ACTIVE ? peer : NULL;
}

static void receive(struct fake_qp *peer, const struct fake_work *send, const uint8_t *data,
                    size_t len)
{
    struct fake_work *recv = take(&peer->recvs);
    bool is_write = send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    bool has_imm = is_write || send->opcode == IBV_WR_SEND_WITH_IMM;
    struct ibv_wc wc = {.wr_id = recv->id,
                        .status = IBV_WC_SUCCESS,
                        .opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
                        .byte_len = (uint32_t)len,
                        .imm_data = send->imm,
                        .wc_flags = has_imm ? IBV_WC_WITH_IMM : 0};

    if (!is_write)
        scatter(recv, data, len);
    complete((struct fake_cq *)peer->base.recv_cq, peer, &wc, 0);
    free(recv);
}

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What becomes of the request at the head, at its peer. */
static enum ibv_wc_status deliver(struct fake_qp *qp, struct fake_qp *peer,
                                  const struct fake_work *work, bool is_changed)
{
    size_t len = length_of(work);
    bool is_write = work->opcode == IBV_WR_RDMA_WRITE || work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const struct fake_mr *mr = is_write ? find_mr(peer->base.pd, work->rkey, true) : NULL;
    uint64_t began_ns;
    uint8_t *data;

    if (!may_use(qp->base.pd, work, 0))
        return IBV_WC_LOC_PROT_ERR;
    if (is_write && len > 0 &&
        (mr == NULL || !covers(mr, work->remote_addr, len) ||
         (mr->access & IBV_ACCESS_REMOTE_WRITE) == 0))
        return IBV_WC_REM_ACCESS_ERR;
    if (!is_write && (length_of(peer->recvs.head) < len ||
                      !may_use(peer->base.pd, peer->recvs.head, IBV_ACCESS_LOCAL_WRITE)))
        return IBV_WC_REM_INV_REQ_ERR;
    began_ns = clock_ns();
    data = malloc(len + 1);
    gather(work, data);
    if (is_changed && len > 0)
        data[world->script.at % len] ^= 1;
    if (world->marker != NULL && memmem(data, len, world->marker, world->marker_len) != NULL)
        world->counts.marked++;
    if (is_write)
        memcpy((void *)(uintptr_t)work->remote_addr, data, len);
    if (work->opcode != IBV_WR_RDMA_WRITE)
        receive(peer, work, data, len);
    if (is_write)
        world->counts.writes++;
    else
        world->counts.sends++;
    free(data);
    world->counts.carried_ns += clock_ns() - began_ns;
    return IBV_WC_SUCCESS;
}

/* Both ends have to cut messages alike. */
static bool fits_path(const struct fake_qp *qp, const struct fake_qp *peer,
                      const struct fake_work *work)
{
    size_t packet = tci_min(length_of(work), 128u << qp->attr.path_mtu);

    if (qp->attr.path_mtu != peer->attr.path_mtu)
        world->counts.mistakes++;
    return world->switch_mtu == 0 || packet <= world->switch_mtu;
}

static bool meets_fate(const struct fake_work *work)
{
    if (world->script.nth == 0 ||
        (world->script.opcode >= 0 && (int)work->opcode != world->script.opcode))
        return false;
    return --world->script.nth == 0;
}

static bool is_uc(const struct fake_qp *qp)
{
    return qp->base.qp_type == IBV_QPT_UC;
}

/* Nothing tells its sender.  Of a write, the first packet may have come. */
static void lose(struct fake_qp *qp, struct fake_qp *peer)
{
    struct fake_work *work = qp->sends.head;
    const struct fake_mr *mr = peer != NULL ? find_mr(peer->base.pd, work->rkey, true) : NULL;
    size_t packet = 128u << qp->attr.path_mtu;

    if (is_uc(qp) && work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && length_of(work) > packet &&
        mr != NULL && covers(mr, work->remote_addr, packet))
        memset((void *)(uintptr_t)work->remote_addr, 0x55, packet);
    end_send(qp, IBV_WC_SUCCESS);
}

/* What ends a queue pair of kind RC goes unnoticed with UC, where it is not this device's. */
static void fail_on_path(struct fake_qp *qp, struct fake_qp *peer, enum ibv_wc_status status)
{
    if (is_uc(qp)) {
        lose(qp, peer);
        return;
    }
    fail(qp, status);
    if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
        status == IBV_WC_REM_OP_ERR)
        fake_flush(peer);
}

static bool is_of_path(enum ibv_wc_status status)
{
    return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
           status == IBV_WC_REM_OP_ERR || status == IBV_WC_RETRY_EXC_ERR ||
           status == IBV_WC_RNR_RETRY_EXC_ERR;
}

/* False: it has to wait. */
static bool carry_out(struct fake_qp *qp)
{
    struct fake_work *work = qp->sends.head;
    struct fake_qp *peer = find_peer(qp);
    enum ibv_wc_status status;
    bool is_met;

    if (peer == NULL || !fits_path(qp, peer, work)) {
        fail_on_path(qp, peer, IBV_WC_RETRY_EXC_ERR);
        return true;
    }
    if (work->opcode != IBV_WR_RDMA_WRITE && peer->recvs.head == NULL) {
        world->counts.waits_for_receive++;
        if (qp->attr.rnr_retry == 7 && !is_uc(qp))
            return false;
        fail_on_path(qp, peer, IBV_WC_RNR_RETRY_EXC_ERR);
        return true;
    }
    is_met = meets_fate(work);
    if (is_met && world->script.fate == FAKE_IS_LOST) {
        lose(qp, peer);
        return true;
    }
    if (is_met && world->script.fate == FAKE_GOES_ASTRAY)
        work->rkey = world->next_key + 1;
    if (is_met && (world->script.fate == FAKE_FAILS || world->script.fate == FAKE_IS_UNSURE)) {
        status = world->script.status;
        if (world->script.fate == FAKE_IS_UNSURE)
            (void)deliver(qp, peer, work, false);
    } else {
        status = deliver(qp, peer, work, is_met && world->script.fate == FAKE_IS_CHANGED);
    }
    if (status == IBV_WC_SUCCESS)
        end_send(qp, status);
    else if (is_of_path(status))
        fail_on_path(qp, peer, status);
    else
        fail(qp, status);
    return true;
}

void fake_progress(unsigned most)
{
    if (world->is_held)
        return;
    for (struct fake_qp *qp = world->qps; qp != NULL; qp = qp->next)
        for (unsigned i = 0; i < most && qp->sends.head != NULL && qp->base.state == IBV_QPS_RTS;
             i++)
            if (!carry_out(qp))
                break;
}

/* ---- The verbs ---- */

int fake_poll_cq(struct ibv_cq *base, int max, struct ibv_wc *wc_out)
{
    struct fake_cq *cq = (struct fake_cq *)base;
    int got = 0;

    pthread_mutex_lock(&world->lock);
    fake_progress(AT_ONCE);
    for (; got < max && cq->count > 0; got++) {
        struct fake_entry *entry = &cq->entries[cq->first];

        wc_out[got] = entry->wc;
        if (entry->wc.status != IBV_WC_SUCCESS) {
            /* All other fields are undefined then, and may be anything. */
            wc_out[got].opcode = (enum ibv_wc_opcode)77;
            wc_out[got].byte_len = 0x7fffffff;
        }
        if (entry->qp != NULL)
            entry->qp->sq_used -= entry->retires;
        cq->first = (cq->first + 1) % cq->room;
        cq->count--;
    }
    pthread_mutex_unlock(&world->lock);
    return got;
}

int fake_req_notify_cq(struct ibv_cq *base)
{
    struct fake_cq *cq = (struct fake_cq *)base;

    pthread_mutex_lock(&world->lock);
    fake_progress(UINT32_MAX);
    cq->is_armed = true;
    world->counts.arms++;
    pthread_mutex_unlock(&world->lock);
    return 0;
}

static void append(struct fake_queue *queue, struct fake_work *work)
{
    *queue->tail = work;
    queue->tail = &work->next;
    queue->count++;
}

static int keep_send(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    const struct fake_device *device = ((struct fake_context *)qp->base.context)->device;
    uint32_t max = device->max_msg_bytes != 0 ? device->max_msg_bytes : 1u << 30;
    struct fake_work *work;

    if (qp->sq_used == qp->cap.max_send_wr)
        return ENOMEM;
    if (wr->num_sge > (int)qp->cap.max_send_sge)
        return EINVAL;
    work = calloc(1, sizeof(*work));
    *work = (struct fake_work){.id = wr->wr_id,
                               .opcode = wr->opcode,
                               .flags = wr->send_flags,
                               .imm = wr->imm_data,
                               .remote_addr = wr->wr.rdma.remote_addr,
                               .rkey = wr->wr.rdma.rkey,
                               .sge_count = wr->num_sge};
    memcpy(work->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
    if (length_of(work) > max ||
        ((wr->send_flags & IBV_SEND_INLINE) != 0 && length_of(work) > qp->cap.max_inline_data)) {
        free(work);
        return EINVAL;
    }
    if ((wr->send_flags & IBV_SEND_INLINE) != 0) {
        work->flags &= ~(unsigned)IBV_SEND_INLINE;
        gather(work, work->inlined);
        work->flags |= IBV_SEND_INLINE;
    }
    qp->sq_used++;
    append(&qp->sends, work);
    return 0;
}

int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *wr)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    int error = 0;

    pthread_mutex_lock(&world->lock);
    world->counts.posts++;
    if (base->state != IBV_QPS_RTS && base->state != IBV_QPS_ERR)
        error = EINVAL;
    for (; wr != NULL && error == 0; wr = wr->next)
        error = keep_send(qp, wr);
    if (error != 0)
        world->counts.mistakes++;
    if (base->state == IBV_QPS_ERR)
        fake_flush(qp);
    pthread_mutex_unlock(&world->lock);
    return error;
}

int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    int error = 0;

    pthread_mutex_lock(&world->lock);
    for (; wr != NULL && error == 0; wr = wr->next) {
        struct fake_work *work;

        if (base->state == IBV_QPS_RESET || qp->recvs.count == qp->cap.max_recv_wr ||
            wr->num_sge > (int)qp->cap.max_recv_sge) {
            error = base->state == IBV_QPS_RESET ? EINVAL : ENOMEM;
            world->counts.mistakes++;
            break;
        }
        work = calloc(1, sizeof(*work));
        work->id = wr->wr_id;
        work->sge_count = wr->num_sge;
        memcpy(work->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
        append(&qp->recvs, work);
    }
    if (base->state == IBV_QPS_ERR)
        fake_flush(qp);
    pthread_mutex_unlock(&world->lock);
    return error;
}
