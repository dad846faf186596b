/* rdma.h - transport over RDMA where ranks have it, over another one elsewhere. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RDMA_H
#define TCI_RDMA_H

#include "core/context.h"
#include "core/transport.h"
#include "loop/loop.h"
#include "rdma/options.h"

/* One port of a device, for people and for the choice. */
struct tci_rdma_port_info {
    char device[64];
    uint8_t port;
    bool is_software;    /* the kernel's own: Soft-RoCE */
    bool is_usable;      /* it lacks nothing */
    bool is_chosen;      /* by the options; of several the first */
    char state[24];      /* "active", "down", … */
    char layer[16];      /* "ethernet", "infiniband" */
    bool has_rc, has_uc; /* kinds of queue pairs; told of in lists */
    char transport[4];   /* the kind that would be used: "RC", "UC", or "" */
    uint32_t mtu;        /* bytes */
    int gid_index;       /* that would be used; -1: none */
    char gid_kind[12];   /* "RoCE v2", "RoCE v1", "IB" */
    char address[48];    /* of that GID, as an IP address */
    char lacks[200];     /* what has to be done about it; "": nothing */
};

/* Whether this build has it.  Any thread. */
bool tci_rdma_is_built(void);

/* All ports of all devices, in an array that tci_free() frees.  NULL, or why there is none: a
 * static text such as "there is no RDMA device here".  Any thread. */
const char *tci_rdma_list(const struct tci_rdma_options *options,
                          struct tci_rdma_port_info **ports_out, size_t *count_out);

/* Whether one of them can be used; else what is to be done about it, in `why_out`.  Any thread. */
bool tci_rdma_can(const struct tci_rdma_options *options, char *why_out, size_t why_room);

struct tci_rdma_config {
    uint32_t rank, size;
    size_t eager_bytes; /* agreed */
    bool encrypts;      /* so do all ranks: what goes over queue pairs is sealed */
    struct tci_rdma_options options;
    /* Which cable to each rank it is, `size` of them: 0 the first, -1 none; borrowed; NULL: the
     * first to all.  Several are several transports, of which each but the one opened first is told
     * of another one. */
    const int8_t *cable_to;
    struct tci_transport *sibling;
};

/* Pairs of ranks that turn out to have RDMA between them use it; what goes between the others, and
 * whether a rank still lives, is the business of the transport below.  Takes `below` over, and
 * gives `below` itself where there is no device that can be used, or no memory, with the reason in
 * the log.  Loop thread. */
struct tci_transport *tci_rdma_open(struct tci_loop *loop, tc_context *context,
                                    struct tci_transport *below,
                                    const struct tci_rdma_config *config);

/* Whether it is one of these; the transport below, if it is, and else itself. */
bool tci_rdma_is(const struct tci_transport *self);
struct tci_transport *tci_rdma_below(struct tci_transport *self);

/* How a peer is reached, for people: "RDMA", or the name of the transport below; and why not over
 * RDMA (NULL: not known, or not tried). */
const char *tci_rdma_way(const struct tci_transport *self, uint32_t peer, const char **why_out);

#endif
