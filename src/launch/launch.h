/* launch.h - what the environment of a process says of its job: its rank, and where to meet. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_LAUNCH_H
#define TCI_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* What one launcher says. */
struct tci_launch {
    const char *name;        /* "slurm"; "none": there is no launcher */
    char variables[256];     /* that were read, "SLURM_PROCID, SLURM_NTASKS" */
    int rank, size;          /* of a group of one: 0 and 1 */
    int local_rank;          /* among the ranks of this host; -1: not said */
    int local_size;          /* -1: not said */
    char url[512];           /* where to meet; "" for a group of one */
    int listen_fd;           /* of rank 0: inherited; -1: none */
    char listen_url[300];    /* of another rank: where it listens; "": beside */
    int connections;         /* of each link; 0: nothing is said */
    int start_timeout_ms;    /* how long ranks may take to come; 0: nothing is said */
    int ports;               /* as in struct tci_meeting */
    bool is_local, is_loose; /* as there */
    bool is_up;              /* as there */
    char advertise[256];     /* of rank 0: the host by which the others reach it; "" */
    const char *devices;     /* the file of tc_dist_options.rdma_devices; borrowed; NULL */
    bool prefers_ring;       /* and rdma_ring */
    char job[192];           /* what no other job is called; "": not known */
    char backend[16];        /* what is to carry the group; "": nothing is said */
    char others[256];        /* launchers whose variables are there too, and not used; "": none */
};

/* Read the environment: the first launcher of the table whose variables are there.  What is half
 * set, or wrong, is an error that names the variable.  Any thread. */
tc_status_t tci_launch_read(struct tci_launch *launch, struct tci_error *error);

/* What was read is not for joining: who was asked for it need not wait for more.  Any thread. */
void tci_launch_leave(void);

/* "any, ring, tcp, …": what TCDIST_BACKEND may be, and whether a name is one of them. */
#define TCI_LAUNCH_BACKENDS "any, ring, tcp, shm, rdma, jaccl, gloo, single"
bool tci_launch_is_backend(const char *name);

#endif
