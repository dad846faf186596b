/* jaccl.h - which RDMA devices lead from each rank to each other, as MLX's JACCL writes it down. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_JACCL_H
#define TCI_JACCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum {
    TCI_CABLES_MAX = 4,   /* between two ranks */
    TCI_DEVICE_ROOM = 64, /* a name and its zero: what the kernel allows */
    TCI_MESH_MAX = 8,     /* ranks that are all linked with each other */
    TCI_RING_MAX = 1024
};

/* The devices by which this rank reaches another one, a cable each. */
struct tci_cables {
    uint8_t count; /* 0: none leads there */
    char device[TCI_CABLES_MAX][TCI_DEVICE_ROOM];
};

struct tci_jaccl {
    uint32_t size;             /* number of ranks */
    bool is_ring;              /* neighbours alone have to be linked; else all are */
    struct tci_cables *cables; /* owned: of this rank, one a rank; none to itself */
};

/* Who asks, and for what. */
struct tci_jaccl_asked {
    const char *name; /* of the file, for errors */
    int rank;
    bool prefers_ring;
};

/* A matrix from the text of a device file:
 *
 *   [[null, "rdma_en5"], [["rdma_en3", "rdma_en4"], null]]      a row a rank, a cell a peer
 *
 * A cell is null, a name or a list of names.  It is a mesh where every rank has a device to every
 * other, and a ring where each has the same number of cables to the one before and the one after;
 * where it is both, a mesh unless prefers_ring.  TC_ERR_INVALID_ARG where it is neither, or no
 * matrix, or has no row for the rank: the error says which cell is wrong.  TC_ERR_ALLOC;
 * TC_ERR_UNSUPPORTED in a build without cJSON.  Any thread. */
tc_status_t tci_jaccl_parse(const char *text, size_t len, const struct tci_jaccl_asked *asked,
                            struct tci_jaccl *jaccl_out, struct tci_error *error);

/* The same from the file of that name. */
tc_status_t tci_jaccl_load(const struct tci_jaccl_asked *asked, struct tci_jaccl *jaccl_out,
                           struct tci_error *error);

/* NULL cables are fine. */
void tci_jaccl_fini(struct tci_jaccl *jaccl);

#endif
