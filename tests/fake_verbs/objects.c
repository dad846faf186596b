/* objects.c - the fake's devices, regions, queues and queue pairs: made, counted, ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fake_verbs/fake.h"

enum { KEY_STEP = 0x101, CQE_MAX = 1 << 16, QP_WR_MAX = 4096 };

struct fake_world fake_world = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .next_key = 0x1000, .next_qpn = 0x11};

static struct fake_world *const world = &fake_world;

static void lock(void)
{
    pthread_mutex_lock(&world->lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&world->lock);
}

/* The answer to something that no device would allow; under the lock. */
static int mistake(int error)
{
    world->counts.mistakes++;
    errno = error;
    return error;
}

/* ---- Devices ---- */

static struct ibv_device **get_device_list(int *count_out)
{
    struct ibv_device **list;

    lock();
    list = calloc(FAKE_DEVICES + 1, sizeof(struct ibv_device *));
    for (unsigned i = 0; i < world->device_count; i++)
        list[i] = &world->listed[i];
    *count_out = (int)world->device_count;
    unlock();
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
    return device->name;
}

static struct fake_device *device_of(const struct ibv_device *device)
{
    return &world->devices[device - world->listed];
}

static bool is_software(struct ibv_device *device)
{
    return device_of(device)->is_software;
}

/* A test may pull a card, or say that there is no more of something, while loops go on. */
static bool is_so(const bool *said)
{
    bool is;

    lock();
    is = *said;
    unlock();
    return is;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct fake_context *context;

    if (device_of(device)->opens_not || is_so(&world->is_removed)) {
        errno = EACCES;
        return NULL;
    }
    context = calloc(1, sizeof(*context));
    context->base.device = device;
    context->base.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    context->base.num_comp_vectors = 1;
    context->device = device_of(device);
    lock();
    context->next = world->contexts;
    world->contexts = context;
    world->counts.contexts++;
    unlock();
    return &context->base;
}

static int close_device(struct ibv_context *base)
{
    struct fake_context *context = (struct fake_context *)base, **at;

    lock();
    if (context->children != 0)
        (void)mistake(EBUSY);
    for (at = &world->contexts; *at != context; at = &(*at)->next)
        continue;
    *at = context->next;
    world->counts.contexts--;
    unlock();
    close(base->async_fd);
    free(context);
    return 0;
}

static int query_device(struct ibv_context *base, struct ibv_device_attr *attr_out)
{
    const struct fake_device *device = ((struct fake_context *)base)->device;

    *attr_out = (struct ibv_device_attr){
        .phys_port_cnt = (uint8_t)device->ports,
        .max_qp = 1000,
        .max_qp_wr = device->max_qp_wr != 0 ? device->max_qp_wr : QP_WR_MAX,
        .max_sge = FAKE_SGES,
        .max_cq = 1000,
        .max_cqe = device->max_cqe != 0 ? device->max_cqe : CQE_MAX,
        .max_mr = 1000,
        .max_mr_size = UINT64_MAX,
        .max_qp_rd_atom = 16};
    return 0;
}

static int query_port(struct ibv_context *base, uint8_t port, struct ibv_port_attr *attr_out)
{
    const struct fake_device *device = ((struct fake_context *)base)->device;
    enum ibv_mtu mtu = device->mtu != 0 ? device->mtu : IBV_MTU_4096;

    lock();
    if (port == 0 || port > device->ports) {
        (void)mistake(EINVAL);
        unlock();
        return EINVAL;
    }
    *attr_out = (struct ibv_port_attr){
        .state = device->state,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = mtu,
        .gid_tbl_len = 4,
        .max_msg_sz = device->max_msg_bytes != 0 ? device->max_msg_bytes : 1u << 30,
        .link_layer = device->link_layer != 0 ? device->link_layer : IBV_LINK_LAYER_ETHERNET,
        .lid = device->link_layer == IBV_LINK_LAYER_INFINIBAND ? 7 : 0};
    unlock();
    return 0;
}

/* ---- Events of a device ---- */

void fake_tell(struct fake_context *context, enum ibv_event_type type, uint8_t port)
{
    uint64_t one = 1;

    if (context->events_count == FAKE_EVENTS)
        return;
    context->events[(context->events_first + context->events_count++) % FAKE_EVENTS] =
        (struct ibv_async_event){.event_type = type, .element = {.port_num = port}};
    (void)!write(context->base.async_fd, &one, sizeof(one));
}

static int get_async_event(struct ibv_context *base, struct ibv_async_event *event_out)
{
    struct fake_context *context = (struct fake_context *)base;
    uint64_t one;

    if (read(base->async_fd, &one, sizeof(one)) != sizeof(one))
        return -1;
    lock();
    *event_out = context->events[context->events_first];
    context->events_first = (context->events_first + 1) % FAKE_EVENTS;
    context->events_count--;
    unlock();
    return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

/* ---- Domains and regions ---- */

static struct ibv_pd *alloc_pd(struct ibv_context *base)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));

    pd->context = base;
    lock();
    ((struct fake_context *)base)->children++;
    world->counts.pds++;
    unlock();
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    bool is_used = false;

    lock();
    for (struct fake_mr *mr = world->mrs; mr != NULL; mr = mr->next)
        is_used = is_used || mr->base.pd == pd;
    for (struct fake_qp *qp = world->qps; qp != NULL; qp = qp->next)
        is_used = is_used || qp->base.pd == pd;
    if (is_used) {
        (void)mistake(EBUSY);
        unlock();
        return EBUSY;
    }
    ((struct fake_context *)pd->context)->children--;
    world->counts.pds--;
    unlock();
    free(pd);
    return 0;
}

/* Looked at here and there, as a device does with each page. */
static bool is_there(const uint8_t *addr, size_t len)
{
    for (size_t at = 0; at < len; at += 1 << 20) {
        uint8_t byte;
        struct iovec own = {.iov_base = &byte, .iov_len = 1};
        struct iovec there = {.iov_base = (void *)(uintptr_t)(addr + at), .iov_len = 1};

        if (process_vm_readv(getpid(), &own, 1, &there, 1, 0) < 0 && errno == EFAULT)
            return false;
    }
    return true;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    struct fake_counts *counts = &world->counts;
    struct fake_mr *mr;

    if (!is_there(addr, len)) {
        errno = EFAULT;
        return NULL;
    }
    lock();
    if (world->is_removed || (world->regions_max != 0 && counts->regions >= world->regions_max) ||
        (world->region_bytes_max != 0 && counts->region_bytes + len > world->region_bytes_max)) {
        unlock();
        errno = ENOMEM;
        return NULL;
    }
    mr = calloc(1, sizeof(*mr));
    mr->base = (struct ibv_mr){.context = pd->context,
                               .pd = pd,
                               .addr = addr,
                               .length = len,
                               .lkey = world->next_key,
                               .rkey = world->next_key ^ 0x800000};
    world->next_key += KEY_STEP;
    mr->access = access;
    mr->next = world->mrs;
    world->mrs = mr;
    counts->regions++;
    counts->registered++;
    counts->region_bytes += len;
    if (counts->regions > counts->regions_most)
        counts->regions_most = counts->regions;
    unlock();
    return &mr->base;
}

static int dereg_mr(struct ibv_mr *base)
{
    struct fake_mr *mr = (struct fake_mr *)base, **at;

    lock();
    for (at = &world->mrs; *at != mr; at = &(*at)->next)
        continue;
    *at = mr->next;
    world->counts.regions--;
    world->counts.region_bytes -= base->length;
    unlock();
    free(mr);
    return 0;
}

/* ---- Completion queues ---- */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *base)
{
    struct fake_channel *channel = calloc(1, sizeof(*channel));

    channel->base.context = base;
    channel->base.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    lock();
    ((struct fake_context *)base)->children++;
    world->counts.channels++;
    unlock();
    return &channel->base;
}

static int destroy_comp_channel(struct ibv_comp_channel *base)
{
    lock();
    if (base->refcnt != 0)
        (void)mistake(EBUSY);
    ((struct fake_context *)base->context)->children--;
    world->counts.channels--;
    unlock();
    close(base->fd);
    free(base);
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *base, int cqe, void *arg,
                                struct ibv_comp_channel *channel)
{
    const struct fake_device *device = ((struct fake_context *)base)->device;
    struct fake_cq *cq;

    if (cqe <= 0 || cqe > (device->max_cqe != 0 ? device->max_cqe : CQE_MAX)) {
        lock();
        (void)mistake(EINVAL);
        unlock();
        return NULL;
    }
    cq = calloc(1, sizeof(*cq));
    cq->base = (struct ibv_cq){.context = base, .channel = channel, .cq_context = arg, .cqe = cqe};
    cq->entries = calloc((size_t)cqe, sizeof(*cq->entries));
    cq->room = (unsigned)cqe;
    lock();
    if (channel != NULL)
        channel->refcnt++;
    cq->next = world->cqs;
    world->cqs = cq;
    ((struct fake_context *)base)->children++;
    world->counts.cqs++;
    unlock();
    return &cq->base;
}

static int resize_cq(struct ibv_cq *base, int cqe)
{
    const struct fake_device *device = ((struct fake_context *)base->context)->device;
    struct fake_cq *cq = (struct fake_cq *)base;
    struct fake_entry *entries;

    lock();
    if (world->refuses_growth || cqe > (device->max_cqe != 0 ? device->max_cqe : CQE_MAX)) {
        unlock();
        return ENOSYS;
    }
    entries = calloc((size_t)cqe, sizeof(*entries));
    for (unsigned i = 0; i < cq->count; i++)
        entries[i] = cq->entries[(cq->first + i) % cq->room];
    free(cq->entries);
    cq->entries = entries;
    cq->first = 0;
    cq->room = (unsigned)cqe;
    base->cqe = cqe;
    unlock();
    return 0;
}

void fake_ring(struct fake_cq *cq)
{
    struct fake_channel *channel = (struct fake_channel *)cq->base.channel;
    uint64_t one = 1;

    cq->is_armed = false;
    if (channel == NULL || cq->has_event)
        return;
    cq->has_event = true;
    cq->next_event = channel->first;
    channel->first = cq;
    (void)!write(channel->base.fd, &one, sizeof(one));
}

static int get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq_out, void **arg_out)
{
    struct fake_channel *channel = (struct fake_channel *)base;
    struct fake_cq *cq;
    uint64_t one;

    if (read(base->fd, &one, sizeof(one)) != sizeof(one))
        return -1;
    lock();
    cq = channel->first;
    channel->first = cq->next_event;
    cq->has_event = false;
    cq->unacked++;
    unlock();
    *cq_out = &cq->base;
    *arg_out = cq->base.cq_context;
    return 0;
}

static void ack_cq_events(struct ibv_cq *base, unsigned count)
{
    lock();
    ((struct fake_cq *)base)->unacked -= count;
    unlock();
}

static int destroy_cq(struct ibv_cq *base)
{
    struct fake_cq *cq = (struct fake_cq *)base, **at;

    lock();
    if (cq->users != 0 || cq->unacked != 0) { /* the second one would wait for ever */
        (void)mistake(EBUSY);
        unlock();
        return EBUSY;
    }
    for (at = &world->cqs; *at != cq; at = &(*at)->next)
        continue;
    *at = cq->next;
    if (base->channel != NULL) {
        struct fake_channel *channel = (struct fake_channel *)base->channel;

        if (cq->has_event)
            channel->first = NULL;
        base->channel->refcnt--;
    }
    ((struct fake_context *)base->context)->children--;
    world->counts.cqs--;
    unlock();
    free(cq->entries);
    free(cq);
    return 0;
}

/* ---- Queue pairs ---- */

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    const struct fake_device *device = ((struct fake_context *)pd->context)->device;
    unsigned wr_max = device->max_qp_wr != 0 ? (unsigned)device->max_qp_wr : QP_WR_MAX;
    struct fake_qp *qp;

    if (device->is_uc_only && attr->qp_type != IBV_QPT_UC) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (is_so(&world->refuses_qps) || is_so(&world->is_removed)) {
        errno = ENOMEM;
        return NULL;
    }
    if (attr->cap.max_send_wr > wr_max || attr->cap.max_recv_wr > wr_max ||
        attr->cap.max_send_sge > FAKE_SGES || attr->cap.max_inline_data > FAKE_INLINE) {
        errno = EINVAL;
        return NULL;
    }
    qp = calloc(1, sizeof(*qp));
    qp->base = (struct ibv_qp){.context = pd->context,
                               .qp_context = attr->qp_context,
                               .pd = pd,
                               .send_cq = attr->send_cq,
                               .recv_cq = attr->recv_cq,
                               .state = IBV_QPS_RESET,
                               .qp_type = attr->qp_type};
    qp->cap = attr->cap;
    qp->signals_all = attr->sq_sig_all != 0;
    qp->sends.tail = &qp->sends.head;
    qp->recvs.tail = &qp->recvs.head;
    lock();
    qp->base.qp_num = world->next_qpn++;
    qp->next = world->qps;
    world->qps = qp;
    ((struct fake_cq *)attr->send_cq)->users++;
    ((struct fake_cq *)attr->recv_cq)->users++;
    world->counts.qps++;
    unlock();
    return &qp->base;
}

/* Only the moves that a device allows, with all that each of them needs. */
static bool may_move(const struct ibv_qp *base, enum ibv_qp_state to, int mask)
{
    static const int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    bool is_uc = base->qp_type == IBV_QPT_UC;
    int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                 (is_uc ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    int to_rts =
        IBV_QP_STATE | IBV_QP_SQ_PSN |
        (is_uc ? 0
               : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);

    return (to == IBV_QPS_INIT && base->state == IBV_QPS_RESET && mask == to_init) ||
           (to == IBV_QPS_RTR && base->state == IBV_QPS_INIT && mask == to_rtr) ||
           (to == IBV_QPS_RTS && base->state == IBV_QPS_RTR && mask == to_rts) ||
           (to == IBV_QPS_ERR && mask == IBV_QP_STATE);
}

/* A completion of any other thread may fail it meanwhile. */
static int modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    enum ibv_qp_state to = attr->qp_state;

    lock();
    if (!may_move(base, to, mask)) {
        (void)mistake(EINVAL);
        unlock();
        return EINVAL;
    }
    if (to == IBV_QPS_RTR &&
        ((struct fake_context *)base->context)->device->state != IBV_PORT_ACTIVE) {
        unlock();
        return ENETUNREACH; /* as Soft-RoCE, which looks for the way to its peer then */
    }
    if (to == IBV_QPS_RTR) {
        qp->attr = *attr;
    } else if (to == IBV_QPS_RTS) {
        qp->attr.sq_psn = attr->sq_psn;
        qp->attr.timeout = attr->timeout;
        qp->attr.retry_cnt = attr->retry_cnt;
        qp->attr.rnr_retry = attr->rnr_retry;
    }
    base->state = to;
    if (to == IBV_QPS_ERR)
        fake_flush(qp);
    unlock();
    return 0;
}

static void forget_work(struct fake_queue *queue)
{
    while (queue->head != NULL) {
        struct fake_work *work = queue->head;

        queue->head = work->next;
        free(work);
    }
}

/* Its completions stay in the queue: some devices leave them there. */
static int destroy_qp(struct ibv_qp *base)
{
    struct fake_qp *qp = (struct fake_qp *)base, **at;

    lock();
    for (at = &world->qps; *at != qp; at = &(*at)->next)
        continue;
    *at = qp->next;
    for (struct fake_cq *cq = world->cqs; cq != NULL; cq = cq->next)
        for (unsigned i = 0; i < cq->count; i++)
            if (cq->entries[(cq->first + i) % cq->room].qp == qp)
                cq->entries[(cq->first + i) % cq->room].qp = NULL;
    ((struct fake_cq *)base->send_cq)->users--;
    ((struct fake_cq *)base->recv_cq)->users--;
    world->counts.qps--;
    unlock();
    forget_work(&qp->sends);
    forget_work(&qp->recvs);
    free(qp);
    return 0;
}

const struct tci_verbs fake_verbs = {
    .get_device_list = get_device_list,
    .free_device_list = free_device_list,
    .get_device_name = get_device_name,
    .is_software = is_software,
    .open_device = open_device,
    .close_device = close_device,
    .query_device = query_device,
    .query_port = query_port,
    .query_gid = fake_query_gid,
    .get_async_event = get_async_event,
    .ack_async_event = ack_async_event,
    .alloc_pd = alloc_pd,
    .dealloc_pd = dealloc_pd,
    .reg_mr = reg_mr,
    .dereg_mr = dereg_mr,
    .create_comp_channel = create_comp_channel,
    .destroy_comp_channel = destroy_comp_channel,
    .create_cq = create_cq,
    .resize_cq = resize_cq,
    .destroy_cq = destroy_cq,
    .get_cq_event = get_cq_event,
    .ack_cq_events = ack_cq_events,
    .poll_cq = fake_poll_cq,
    .req_notify_cq = fake_req_notify_cq,
    .create_qp = create_qp,
    .modify_qp = modify_qp,
    .destroy_qp = destroy_qp,
    .post_send = fake_post_send,
    .post_recv = fake_post_recv,
};
