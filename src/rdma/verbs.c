/* verbs.c - the table of libibverbs itself: what is inline or a macro there is wrapped. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/verbs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct ibv_device **get_device_list(int *count_out)
{
    return ibv_get_device_list(count_out);
}

/* A card stands behind a real device; Soft-RoCE names the network device that it lies over. */
static bool is_software(struct ibv_device *device)
{
    char path[sizeof(device->ibdev_path) + 16];

    snprintf(path, sizeof(path), "%s/parent", device->ibdev_path);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(path, sizeof(path), "%s/device", device->ibdev_path);
    return access(path, F_OK) != 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr_out)
{
    memset(attr_out, 0, sizeof(*attr_out));
    return ibv_query_port(context, port, attr_out);
}

static int query_gid(struct ibv_context *context, uint8_t port, uint32_t index,
                     struct ibv_gid_entry *entry_out)
{
    return ibv_query_gid_ex(context, port, index, entry_out, 0);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    return ibv_reg_mr(pd, addr, len, access);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *arg,
                                struct ibv_comp_channel *channel)
{
    return ibv_create_cq(context, cqe, arg, channel, 0);
}

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc_out)
{
    return ibv_poll_cq(cq, max, wc_out);
}

static int req_notify_cq(struct ibv_cq *cq)
{
    return ibv_req_notify_cq(cq, 0);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    return ibv_post_send(qp, wr, &bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr)
{
    struct ibv_recv_wr *bad;

    return ibv_post_recv(qp, wr, &bad);
}

static const struct tci_verbs library = {
    .get_device_list = get_device_list,
    .free_device_list = ibv_free_device_list,
    .get_device_name = ibv_get_device_name,
    .is_software = is_software,
    .open_device = ibv_open_device,
    .close_device = ibv_close_device,
    .query_device = ibv_query_device,
    .query_port = query_port,
    .query_gid = query_gid,
    .get_async_event = ibv_get_async_event,
    .ack_async_event = ibv_ack_async_event,
    .alloc_pd = ibv_alloc_pd,
    .dealloc_pd = ibv_dealloc_pd,
    .reg_mr = reg_mr,
    .dereg_mr = ibv_dereg_mr,
    .create_comp_channel = ibv_create_comp_channel,
    .destroy_comp_channel = ibv_destroy_comp_channel,
    .create_cq = create_cq,
    .resize_cq = ibv_resize_cq,
    .destroy_cq = ibv_destroy_cq,
    .get_cq_event = ibv_get_cq_event,
    .ack_cq_events = ibv_ack_cq_events,
    .poll_cq = poll_cq,
    .req_notify_cq = req_notify_cq,
    .create_qp = ibv_create_qp,
    .modify_qp = ibv_modify_qp,
    .destroy_qp = ibv_destroy_qp,
    .post_send = post_send,
    .post_recv = post_recv,
};

static const struct tci_verbs *in_use = &library;

const struct tci_verbs *tci_verbs(void)
{
    return in_use;
}

void tci_verbs_put(const struct tci_verbs *verbs)
{
    in_use = verbs != NULL ? verbs : &library;
}
