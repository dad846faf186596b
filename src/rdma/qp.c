/* qp.c - a queue pair: made, connected with the peer's, and posted to. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <string.h>

#include "core/assert.h"
#include "core/random.h"
#include "rdma/link.h"

enum { INLINE = 220, RNR_TIMER = 12 /* 0.64 ms */, RNR_RETRIES = 6, HOPS = 64 };

/* ---- What a work request is named by ---- */

static uint64_t id_of(const struct tci_rdma_link *link, bool is_recv, uint32_t index)
{
    return (uint64_t)link->peer << 32 | (uint32_t)link->generation << 16 | (uint32_t)is_recv << 15 |
           index;
}

/* ---- Life ---- */

static bool make(struct tci_rdma_link *link, enum ibv_qp_type type, uint32_t inline_max)
{
    struct tci_rdma *rdma = link->rdma;
    struct ibv_qp_init_attr attr = {.send_cq = rdma->cq,
                                    .recv_cq = rdma->cq,
                                    .qp_type = type,
                                    .cap = {.max_send_wr = TCI_RDMA_QUEUE,
                                            .max_recv_wr = TCI_RDMA_SLOTS,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = inline_max}};

    link->qp = rdma->verbs->create_qp(rdma->pd, &attr);
    link->inline_max = inline_max;
    link->is_uc = type == IBV_QPT_UC;
    return link->qp != NULL;
}

static bool make_of(struct tci_rdma_link *link, enum ibv_qp_type type)
{
    return make(link, type, INLINE) || make(link, type, 0);
}

static bool to_init(struct tci_rdma_link *link)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = link->rdma->choice.info.port,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

    return link->rdma->verbs->modify_qp(link->qp, &attr, mask) == 0;
}

static const char no_pair[] = "the device gives no queue pair for one more peer";

static const char *set_up(struct tci_rdma_link *link)
{
    if (!to_init(link))
        return "its queue pair cannot be set up";
    for (uint32_t slot = 0; slot < TCI_RDMA_SLOTS; slot++)
        if (tci_rdma_post_slot(link, slot) != 0)
            return "its queue pair takes no receives";
    return NULL;
}

static const char *open_pair(struct tci_rdma_link *link, bool wants_uc)
{
    struct tci_rdma *rdma = link->rdma;

    link->out = tci_rdma_chunk_get(rdma, false);
    link->in = tci_rdma_chunk_get(rdma, false);
    if (link->out == NULL || link->in == NULL)
        return "no memory can be registered: raise the limit of locked memory (ulimit -l)";
    if (!tci_rdma_cq_reserve(rdma, TCI_RDMA_QUEUE + TCI_RDMA_SLOTS))
        return "the device has no room for the completions of one more peer";
    link->cqe = TCI_RDMA_QUEUE + TCI_RDMA_SLOTS;
    if ((wants_uc || !make_of(link, IBV_QPT_RC)) && !make_of(link, IBV_QPT_UC))
        return no_pair;
    return set_up(link);
}

static void begin(struct tci_rdma_link *link)
{
    link->generation = ++link->rdma->generations;
    link->is_drained = link->is_stopped = link->has_waited = false;
    if (!tci_random(&link->psn, sizeof(link->psn)))
        link->psn = 0x5a5a5a ^ link->peer;
    link->psn &= 0xffffff;
}

const char *tci_rdma_qp_open(struct tci_rdma_link *link, bool wants_uc)
{
    const char *why;

    TC_ASSERT(link->qp == NULL);
    begin(link);
    why = tci_rdma_crypt_open(link);
    if (why == NULL)
        why = open_pair(link, wants_uc || link->rdma->options.is_uc);
    if (why != NULL)
        tci_rdma_qp_close(link);
    return why;
}

const char *tci_rdma_qp_open_again(struct tci_rdma_link *link)
{
    TC_ASSERT(link->qp == NULL && link->in != NULL);
    const char *why;

    begin(link);
    why = make_of(link, IBV_QPT_RC) ? set_up(link) : no_pair;
    if (why != NULL)
        tci_rdma_qp_destroy(link);
    else
        link->has_had = false;
    return why;
}

void tci_rdma_qp_stop(struct tci_rdma_link *link)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    (void)link->rdma->verbs->modify_qp(link->qp, &attr, IBV_QP_STATE);
}

/* Slots hold what was opened in them. */
static void wipe(const struct tci_rdma_link *link)
{
    if (link->crypt == NULL)
        return;
    if (link->out != NULL)
        sodium_memzero(link->out->data, TCI_RDMA_CHUNK);
    if (link->in != NULL)
        sodium_memzero(link->in->data, TCI_RDMA_CHUNK);
}

void tci_rdma_qp_destroy(struct tci_rdma_link *link)
{
    if (link->qp != NULL)
        (void)link->rdma->verbs->destroy_qp(link->qp);
    link->qp = NULL;
}

void tci_rdma_qp_close(struct tci_rdma_link *link)
{
    struct tci_rdma *rdma = link->rdma;

    tci_rdma_qp_destroy(link);
    (void)tci_rdma_cq_reserve(rdma, -link->cqe);
    link->cqe = 0;
    for (uint32_t at = link->works_done; at != link->works_put; at++)
        tci_rdma_chunk_put(rdma, link->works[at % TCI_RDMA_QUEUE].chunk);
    link->works_done = link->flown = link->works_put;
    rdma->exec->ops->timer_clear(rdma->exec, &link->ask);
    link->records_done = link->records_put;
    link->quiet = 0;
    wipe(link);
    tci_rdma_crypt_close(link);
    tci_rdma_chunk_put(rdma, link->out);
    tci_rdma_chunk_put(rdma, link->in);
    link->out = link->in = NULL;
}

void tci_rdma_card_fill(const struct tci_rdma_link *link, struct tci_rdma_card *card_out)
{
    const struct tci_rdma *rdma = link->rdma;
    unsigned mtu = rdma->choice.info.mtu;

    if (rdma->options.mtu > 0)
        mtu = (unsigned)tci_min(mtu, (size_t)rdma->options.mtu);
    *card_out = (struct tci_rdma_card){.slots = TCI_RDMA_SLOTS,
                                       .slot_bytes = TCI_RDMA_SLOT,
                                       .eager_max = (unsigned)rdma->eager_max,
                                       .mtu = mtu,
                                       .lid = rdma->choice.port.lid,
                                       .kind = rdma->choice.gid.gid_type,
                                       .qpn = link->qp->qp_num,
                                       .cables = tci_rdma_cables(link->rdma, link->peer),
                                       .psn = link->psn,
                                       .is_uc = link->is_uc};
    memcpy(card_out->gid, rdma->choice.gid.gid.raw, sizeof(card_out->gid));
    if (link->crypt == NULL)
        return;
    card_out->ciphers = tci_seal_ciphers();
    memcpy(card_out->point, link->crypt->point, sizeof(card_out->point));
}

/* ---- Connecting ---- */

static enum ibv_mtu mtu_of(unsigned bytes)
{
    enum ibv_mtu mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && (128u << (mtu + 1)) <= bytes)
        mtu = (enum ibv_mtu)(mtu + 1);
    return mtu;
}

static bool to_rtr(struct tci_rdma_link *link, const struct tci_rdma_card *card)
{
    const struct tci_rdma *rdma = link->rdma;
    bool is_routed = rdma->choice.port.link_layer == IBV_LINK_LAYER_ETHERNET ||
                     memcmp(card->gid, rdma->choice.gid.gid.raw, 8) != 0; /* another subnet */
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = mtu_of(link->mtu),
                               .dest_qp_num = card->qpn,
                               .rq_psn = card->psn,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = RNR_TIMER,
                               .ah_attr = {.is_global = is_routed,
                                           .dlid = (uint16_t)card->lid,
                                           .port_num = rdma->choice.info.port}};
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               (link->is_uc ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

    attr.ah_attr.grh.sgid_index = (uint8_t)rdma->choice.gid.gid_index;
    attr.ah_attr.grh.hop_limit = HOPS;
    if (rdma->options.traffic_class > 0)
        attr.ah_attr.grh.traffic_class = (uint8_t)rdma->options.traffic_class;
    memcpy(attr.ah_attr.grh.dgid.raw, card->gid, sizeof(card->gid));
    return rdma->verbs->modify_qp(link->qp, &attr, mask) == 0;
}

/* Soft-RoCE takes seven retries for as many as it takes, and where it is slower than the time it
 * loses messages at their repetition (Linux 6.1). */
static bool to_rts(struct tci_rdma_link *link)
{
    const struct tci_rdma_options *options = &link->rdma->options;
    bool is_software = link->rdma->choice.info.is_software;
    int timeout = is_software ? TCI_RDMA_TIMEOUT_SOFTWARE : TCI_RDMA_TIMEOUT;
    int retries = is_software ? TCI_RDMA_RETRIES - 1 : TCI_RDMA_RETRIES;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = (uint8_t)(options->timeout >= 0 ? options->timeout : timeout),
        .retry_cnt = (uint8_t)(options->retries >= 0 ? options->retries : retries),
        .rnr_retry = RNR_RETRIES,
        .sq_psn = link->psn,
        .max_rd_atomic = 1};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (!link->is_uc)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

    return link->rdma->verbs->modify_qp(link->qp, &attr, mask) == 0;
}

const char *tci_rdma_qp_connect(struct tci_rdma_link *link, const struct tci_rdma_card *card)
{
    struct tci_rdma_card own;

    tci_rdma_card_fill(link, &own);
    if (card->slots != own.slots || card->slot_bytes != own.slot_bytes ||
        card->eager_max != own.eager_max)
        return "it speaks of RDMA in another way: run the same version on all ranks";
    if (card->kind != own.kind)
        return "its address is of another kind (RoCE v1, v2 or InfiniBand): choose by gid=";
    if (link->state != TCI_RDMA_HEALING) /* parts of messages go by them */
        link->cables = (uint8_t)(card->cables & own.cables);
    link->mtu = 128u << mtu_of((unsigned)tci_min(card->mtu, own.mtu));
    if (!to_rtr(link, card) || !to_rts(link))
        return "its address cannot be reached from here by this device";
    return NULL;
}

/* ---- Posting ---- */

int tci_rdma_post_slot(struct tci_rdma_link *link, uint32_t slot)
{
    struct ibv_sge sge = {.addr = (uintptr_t)link->in->data + (uint64_t)slot * TCI_RDMA_SLOT,
                          .length = TCI_RDMA_SLOT,
                          .lkey = link->in->lkey};
    struct ibv_recv_wr wr = {.wr_id = id_of(link, true, slot), .sg_list = &sge, .num_sge = 1};

    return link->rdma->verbs->post_recv(link->qp, &wr);
}

bool tci_rdma_has_room(const struct tci_rdma_link *link)
{
    return link->works_put - link->works_done < TCI_RDMA_QUEUE &&
           link->sent - link->acked < TCI_RDMA_SLOTS - TCI_RDMA_KEPT &&
           link->writes < TCI_RDMA_WRITES;
}

bool tci_rdma_has_slot(const struct tci_rdma_link *link, bool is_ack)
{
    uint32_t most = TCI_RDMA_SLOTS - (is_ack ? 0 : TCI_RDMA_KEPT);

    return link->works_put - link->works_done < TCI_RDMA_QUEUE &&
           link->records_put - link->records_done < TCI_RDMA_SLOTS &&
           link->sent - link->acked < most;
}

uint8_t *tci_rdma_slot_out(struct tci_rdma_link *link)
{
    return link->out->data + (size_t)(link->records_put % TCI_RDMA_SLOTS) * TCI_RDMA_SLOT;
}

/* Nobody waits for the end of what is sent again and again; it is known by that of the next. */
static bool is_quiet(const struct tci_rdma_link *link, uint8_t kind)
{
    return tci_rdma_is_quiet(kind) && link->quiet < TCI_RDMA_QUIET - 1;
}

int tci_rdma_post_record(struct tci_rdma_link *link, size_t bytes, uint8_t kind)
{
    struct tci_rdma_work *work = &link->works[link->works_put % TCI_RDMA_QUEUE];
    struct ibv_sge sge = {.addr = (uintptr_t)tci_rdma_slot_out(link),
                          .length = (uint32_t)bytes,
                          .lkey = link->out->lkey};
    struct ibv_send_wr wr = {.wr_id = id_of(link, false, link->works_put % TCI_RDMA_QUEUE),
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = bytes <= link->inline_max ? IBV_SEND_INLINE : 0};
    bool quiet = is_quiet(link, kind);
    int error;

    if (!quiet)
        wr.send_flags |= IBV_SEND_SIGNALED;
    error = link->rdma->verbs->post_send(link->qp, &wr);
    if (error != 0)
        return error;
    *work = (struct tci_rdma_work){.kind = kind, .sge = sge};
    link->quiet = quiet ? link->quiet + 1 : 0;
    link->works_put++;
    link->records_put++;
    link->sent++;
    tci_rdma_note_sent(link, kind == TCI_RDMA_ACK);
    return 0;
}

int tci_rdma_post_write(struct tci_rdma_link *link, struct tci_rdma_push *push,
                        struct tci_rdma_chunk *chunk, size_t len)
{
    const struct tci_rdma_range *range = &push->ranges[0];
    const uint8_t *from = (const uint8_t *)push->xfer->data + range->at + push->in_range;
    struct ibv_sge sge = {.addr = (uintptr_t)(chunk != NULL ? chunk->data : from),
                          .length = (uint32_t)len,
                          .lkey = chunk != NULL ? chunk->lkey : push->region->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id_of(link, false, link->works_put % TCI_RDMA_QUEUE),
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED};
    uint32_t imm = tci_rdma_imm(range->place, link->sent);
    int error;

    wr.imm_data = htobe32(imm);
    wr.wr.rdma.remote_addr = range->addr + push->in_range;
    wr.wr.rdma.rkey = range->rkey;
    error = link->rdma->verbs->post_send(link->qp, &wr);
    if (error != 0)
        return error;
    link->works[link->works_put % TCI_RDMA_QUEUE] =
        (struct tci_rdma_work){.push = push,
                               .chunk = chunk,
                               .sge = sge,
                               .to = wr.wr.rdma.remote_addr,
                               .rkey = range->rkey,
                               .imm = imm,
                               .is_write = true};
    link->quiet = 0;
    link->works_put++;
    link->sent++;
    link->writes++;
    tci_rdma_note_sent(link, false);
    return 0;
}

static int post_work_again(struct tci_rdma_link *link, uint32_t index)
{
    struct tci_rdma_work *work = &link->works[index];
    struct ibv_send_wr wr = {.wr_id = id_of(link, false, index),
                             .sg_list = &work->sge,
                             .num_sge = work->sge.length > 0 ? 1 : 0,
                             .opcode = work->is_write ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED};

    wr.imm_data = htobe32(work->imm);
    wr.wr.rdma.remote_addr = work->to;
    wr.wr.rdma.rkey = work->rkey;
    return link->rdma->verbs->post_send(link->qp, &wr);
}

void tci_rdma_post_again(struct tci_rdma_link *link)
{
    for (uint32_t at = link->works_done; at != link->works_put; at++)
        if (post_work_again(link, at % TCI_RDMA_QUEUE) != 0)
            tci_rdma_link_break(link, "the device takes no sends any more");
    link->quiet = 0;
}
