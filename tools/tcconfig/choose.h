/* choose.h - what the hosts form together: a mesh or a ring, over which addresses and devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCCONFIG_CHOOSE_H
#define TCCONFIG_CHOOSE_H

#include <stdbool.h>

#include "survey.h"

struct choice {
    int *order; /* owned; the hosts that are there, around the ring if there is one */
    int count;
    bool is_mesh, is_ring;           /* of addresses */
    bool is_rdma_mesh, is_rdma_ring; /* of devices */
    const char *backend;             /* for the host file; NULL: what was asked for is not there */
    char why[320];                   /* what keeps it from being a mesh, or what was asked for */
};

/* False: out of memory. */
bool choice_make(struct choice *choice, const struct survey *survey, const struct options *options);
void choice_fini(struct choice *choice);

/* The hosts with the addresses and devices that were chosen; false: why says what is wrong. */
bool choice_hosts(const struct choice *choice, const struct survey *survey,
                  const struct options *options, struct hosts *hosts, char why[HOSTS_WHY_ROOM]);

/* Whether host a reaches address i of host b by links that count. */
bool choice_counts(const struct survey *survey, const struct options *options, int a, int b,
                   uint32_t i);

#endif
