/* options.h - what a user may say about RDMA, in one line of text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RDMA_OPTIONS_H
#define TCI_RDMA_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum tci_rdma_mode {
    TCI_RDMA_OFF,
    TCI_RDMA_AUTO, /* devices that are cards */
    TCI_RDMA_ON    /* the kernel's software devices, too */
};

/* Numbers are -1 where nothing was said. */
struct tci_rdma_options {
    enum tci_rdma_mode mode;
    char device[64];   /* "": any */
    int port;          /* of it */
    int gid_index;     /* -1: by kind and address */
    int mtu;           /* bytes, at most what both ports have */
    int traffic_class; /* -1: 0 */
    int timeout;       /* of an acknowledgement: 4.096 us * 2^timeout; -1: 14 (67 ms), 18 (1.1 s) of
                        * the kernel's software */
    bool is_uc;        /* queue pairs of kind UC, also where there are others */
    int retries;       /* -1: 7, or 6 of the kernel's software */
};

#define TCI_RDMA_ALLOWED                                                                           \
    "0, 1 or auto, and then any of device=NAME, port=N, gid=N, mtu=256|512|1024|2048|4096, "       \
    "traffic_class=N, timeout=N, retries=N, service=rc|uc, with a comma before each"

/* False: it is no such text.  NULL and "" stand for auto. */
bool tci_rdma_options_parse(const char *text, struct tci_rdma_options *options_out);

#endif
