/* device.h - devices, their ports and addresses, and which one is used. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RDMA_DEVICE_H
#define TCI_RDMA_DEVICE_H

#include "rdma/rdma.h"
#include "rdma/verbs.h"

/* A port that is used: its device is open. */
struct tci_rdma_choice {
    struct ibv_context *context; /* owned by whoever chose */
    struct tci_rdma_port_info info;
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct ibv_gid_entry gid;
};

/* The first port that can be used; TC_OK, or why there is none, in `why_out`. */
bool tci_rdma_choose(const struct tci_rdma_options *options, struct tci_rdma_choice *choice_out,
                     char *why_out, size_t why_room);

#endif
