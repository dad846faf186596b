/* smoke.c - two RDMA devices of one machine: what the transport stands on holds between them. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   smoke DEVICE DEVICE
 *
 * One process has both ends.  Prints a line a check; exit status 0, 1 where one failed, 77 without
 * such devices.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SKIPPED = 77,
    PORT = 1,
    DEPTH = 16,
    LONG_BYTES = 1 << 20, /* many packets */
    MEMORY_BYTES = 4 << 20,
    WAIT_MS = 10000,
    INLINE_BYTES = 64
};

/* One device and all that it is used with. */
struct end {
    const char *name;
    struct ibv_context *verbs;
    struct ibv_pd *domain;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *region;
    uint8_t *memory;
    union ibv_gid gid;
    int gid_index;
    enum ibv_mtu mtu;
};

static int failed;

static void check(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void check(bool holds, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("%s ", holds ? "ok" : "FAILED");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    failed += !holds;
}

static void need(bool holds, const char *what, const char *device)
{
    if (holds)
        return;
    fprintf(stderr, "smoke: %s: %s\n", device, what);
    exit(1);
}

static struct ibv_context *open_device(const char *name)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    struct ibv_context *verbs = NULL;

    for (int i = 0; i < count; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            verbs = ibv_open_device(list[i]);
    if (list != NULL)
        ibv_free_device_list(list);
    return verbs;
}

/* The address that stands for an IPv4 one: ::ffff:a.b.c.d. */
static bool is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

static void find_gid(struct end *end, const struct ibv_port_attr *port)
{
    end->gid_index = -1;
    for (int i = 0; i < port->gid_tbl_len && end->gid_index < 0; i++)
        if (ibv_query_gid(end->verbs, PORT, i, &end->gid) == 0 && is_ipv4(&end->gid))
            end->gid_index = i;
    need(end->gid_index >= 0, "no address that stands for an IPv4 one", end->name);
}

static void make_pair_end(struct end *end)
{
    struct ibv_qp_init_attr wanted = {.send_cq = end->cq,
                                      .recv_cq = end->cq,
                                      .qp_type = IBV_QPT_RC,
                                      .cap = {.max_send_wr = DEPTH,
                                              .max_recv_wr = DEPTH,
                                              .max_send_sge = 1,
                                              .max_recv_sge = 1,
                                              .max_inline_data = INLINE_BYTES}};
    struct ibv_qp_attr ready = {.qp_state = IBV_QPS_INIT,
                                .port_num = PORT,
                                .qp_access_flags =
                                    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

    end->qp = ibv_create_qp(end->domain, &wanted);
    need(end->qp != NULL, "no queue pair", end->name);
    need(ibv_modify_qp(end->qp, &ready,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "the queue pair cannot be initialised", end->name);
}

static void open_end(struct end *end, const char *name)
{
    struct ibv_port_attr port;

    *end = (struct end){.name = name, .verbs = open_device(name)};
    if (end->verbs == NULL) {
        printf("skipped: no RDMA device %s here\n", name);
        exit(SKIPPED);
    }
    need(ibv_query_port(end->verbs, PORT, &port) == 0, "no port 1", name);
    end->mtu = port.active_mtu;
    find_gid(end, &port);
    end->domain = ibv_alloc_pd(end->verbs);
    end->channel = ibv_create_comp_channel(end->verbs);
    need(end->domain != NULL && end->channel != NULL, "no protection domain or channel", name);
    need(fcntl(end->channel->fd, F_SETFL, O_NONBLOCK) == 0, "a channel that blocks", name);
    end->cq = ibv_create_cq(end->verbs, 4 * DEPTH, NULL, end->channel, 0);
    end->memory = aligned_alloc(4096, MEMORY_BYTES);
    need(end->cq != NULL && end->memory != NULL, "no completion queue or memory", name);
    memset(end->memory, 0, MEMORY_BYTES);
    end->region =
        ibv_reg_mr(end->domain, end->memory, MEMORY_BYTES,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    need(end->region != NULL, "memory cannot be registered", name);
    make_pair_end(end);
}

/* timeout: 4.096 us << timeout until an answer counts as lost. */
static void link_to(struct end *end, const struct end *peer, uint8_t timeout)
{
    struct ibv_qp_attr receive = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = end->mtu < peer->mtu ? end->mtu : peer->mtu,
        .dest_qp_num = peer->qp->qp_num,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {
            .is_global = 1,
            .port_num = PORT,
            .grh = {.dgid = peer->gid, .sgid_index = (uint8_t)end->gid_index, .hop_limit = 64}}};
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS,
                               .timeout = timeout,
                               /* 7 would be without end in rxe. */
                               .retry_cnt = 6,
                               .rnr_retry = 7,
                               .max_rd_atomic = 1};

    need(ibv_modify_qp(end->qp, &receive,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
         "the queue pair cannot receive", end->name);
    need(ibv_modify_qp(end->qp, &send,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "the queue pair cannot send", end->name);
}

/* New queue pairs between the ends, as after an error. */
static void renew(struct end *a, struct end *b, uint8_t timeout)
{
    struct ibv_wc wc;

    need(ibv_destroy_qp(a->qp) == 0 && ibv_destroy_qp(b->qp) == 0, "a queue pair stays", a->name);
    while (ibv_poll_cq(a->cq, 1, &wc) > 0 || ibv_poll_cq(b->cq, 1, &wc) > 0)
        ;
    make_pair_end(a);
    make_pair_end(b);
    link_to(a, b, timeout);
    link_to(b, a, timeout);
}

static void post_receive(struct end *end, size_t offset, uint32_t len)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t)end->memory + offset, .length = len, .lkey = end->region->lkey};
    struct ibv_recv_wr request = {.sg_list = &piece, .num_sge = 1}, *bad;

    need(ibv_post_recv(end->qp, &request, &bad) == 0, "a receive is not taken", end->name);
}

static void post(struct end *end, enum ibv_wr_opcode code, uint32_t len, const struct end *peer,
                 uint32_t rkey)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t)end->memory, .length = len, .lkey = end->region->lkey};
    struct ibv_send_wr request = {
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = code,
        .send_flags = IBV_SEND_SIGNALED,
        .imm_data = code,
        .wr = {.rdma = {.remote_addr = (uintptr_t)peer->memory + LONG_BYTES, .rkey = rkey}}};
    struct ibv_send_wr *bad;

    if (code == IBV_WR_SEND && len <= INLINE_BYTES)
        request.send_flags |= IBV_SEND_INLINE;
    need(ibv_post_send(end->qp, &request, &bad) == 0, "a request is not taken", end->name);
}

/* Poll, arm, poll again, sleep: as the loop does.  *wc_out, or false when the time is over. */
static bool next(struct end *end, struct ibv_wc *wc_out, int wait_ms)
{
    struct pollfd ready = {.fd = end->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *arg;

    while (ibv_poll_cq(end->cq, 1, wc_out) == 0) {
        need(ibv_req_notify_cq(end->cq, 0) == 0, "the queue cannot be armed", end->name);
        if (ibv_poll_cq(end->cq, 1, wc_out) > 0)
            return true;
        if (poll(&ready, 1, wait_ms) == 0)
            return false;
        while (ibv_get_cq_event(end->channel, &cq, &arg) == 0)
            ibv_ack_cq_events(cq, 1);
    }
    return true;
}

static bool ends_well(struct end *end, enum ibv_wc_opcode code)
{
    struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
    bool came = next(end, &wc, WAIT_MS);

    if (!came || wc.status != IBV_WC_SUCCESS)
        printf("%s: %s\n", end->name, came ? ibv_wc_status_str(wc.status) : "nothing came");
    return came && wc.status == IBV_WC_SUCCESS && wc.opcode == code;
}

static bool has_pattern(const uint8_t *bytes, size_t len)
{
    size_t i = 0;

    while (i < len && bytes[i] == (uint8_t)(i * 7 + i / 4096))
        i++;
    return i == len;
}

static void send_and_write(struct end *a, struct end *b)
{
    for (size_t i = 0; i < LONG_BYTES; i++)
        a->memory[i] = (uint8_t)(i * 7 + i / 4096);
    post_receive(b, 2 * LONG_BYTES, 64);
    post(a, IBV_WR_SEND, 64, b, 0);
    check(ends_well(a, IBV_WC_SEND) && ends_well(b, IBV_WC_RECV) &&
              has_pattern(b->memory + 2 * LONG_BYTES, 64),
          "a send that is inline");
    post_receive(b, 0, 64);
    post(a, IBV_WR_RDMA_WRITE_WITH_IMM, LONG_BYTES, b, b->region->rkey);
    check(ends_well(a, IBV_WC_RDMA_WRITE) && ends_well(b, IBV_WC_RECV_RDMA_WITH_IMM) &&
              has_pattern(b->memory + LONG_BYTES, LONG_BYTES),
          "a write of 1 MiB with immediate");
    memset(a->memory, 0, LONG_BYTES);
    post(a, IBV_WR_RDMA_READ, LONG_BYTES, b, b->region->rkey);
    check(ends_well(a, IBV_WC_RDMA_READ) && has_pattern(a->memory, LONG_BYTES), "a read of 1 MiB");
}

/* That a request ends in one of two ways, which is up to the device, then new queue pairs. */
static void fail_well(struct end *a, struct end *b, const char *what, enum ibv_wc_status want,
                      enum ibv_wc_status or_want)
{
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    bool came = next(a, &wc, WAIT_MS);

    check(came && (wc.status == want || wc.status == or_want), "%s: %s", what,
          came ? ibv_wc_status_str(wc.status) : "nothing came");
    renew(a, b, 8);
}

static void fail(struct end *a, struct end *b)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct ibv_wc wc;

    post(a, IBV_WR_RDMA_WRITE, 64, b, b->region->rkey ^ 0x5a5a00);
    fail_well(a, b, "a key that was never given", IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
    post_receive(b, 0, 16);
    post(a, IBV_WR_SEND, 64, b, 0);
    fail_well(a, b, "a message longer than its receive", IBV_WC_REM_OP_ERR, IBV_WC_REM_INV_REQ_ERR);
    post_receive(a, 0, 64);
    need(ibv_modify_qp(a->qp, &error, IBV_QP_STATE) == 0, "no error state", a->name);
    check(next(a, &wc, WAIT_MS) && wc.status == IBV_WC_WR_FLUSH_ERR,
          "receives come back when their queue pair ends");
    post(b, IBV_WR_SEND, 64, a, 0);
    fail_well(b, a, "nobody answers", IBV_WC_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR);
}

static void close_end(struct end *end)
{
    check(ibv_destroy_qp(end->qp) == 0 && ibv_destroy_cq(end->cq) == 0 &&
              ibv_destroy_comp_channel(end->channel) == 0 && ibv_dereg_mr(end->region) == 0 &&
              ibv_dealloc_pd(end->domain) == 0 && ibv_close_device(end->verbs) == 0,
          "%s is closed, and nothing is left", end->name);
    free(end->memory);
}

int main(int argc, char **argv)
{
    struct end a, b;

    if (argc != 3) {
        fprintf(stderr, "usage: smoke DEVICE DEVICE\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_end(&a, argv[1]);
    open_end(&b, argv[2]);
    link_to(&a, &b, 14);
    link_to(&b, &a, 14);
    send_and_write(&a, &b);
    fail(&a, &b);
    send_and_write(&b, &a);
    close_end(&a);
    close_end(&b);
    return failed > 0;
}
