/* verbs.h - the calls of libibverbs that are used, as a table: tests put their own there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_VERBS_H
#define TCI_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Each as ibv_... of the same name, with its results and errno. */
struct tci_verbs {
    struct ibv_device **(*get_device_list)(int *count_out);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    /* Whether the device is the kernel's own work over a network card (Soft-RoCE, SoftiWARP). */
    bool (*is_software)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr_out);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr_out);
    int (*query_gid)(struct ibv_context *context, uint8_t port, uint32_t index,
                     struct ibv_gid_entry *entry_out);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event_out);
    void (*ack_async_event)(struct ibv_async_event *event);

    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len, int access);
    int (*dereg_mr)(struct ibv_mr *mr);

    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *arg,
                                struct ibv_comp_channel *channel);
    int (*resize_cq)(struct ibv_cq *cq, int cqe);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq_out, void **arg_out);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned count);
    int (*poll_cq)(struct ibv_cq *cq, int max, struct ibv_wc *wc_out);
    int (*req_notify_cq)(struct ibv_cq *cq);

    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr);
};

/* The table in use: libibverbs, unless a test has put another one.  Any thread. */
const struct tci_verbs *tci_verbs(void);
/* For tests, before any context is made; NULL: libibverbs again. */
void tci_verbs_put(const struct tci_verbs *verbs);

#endif
