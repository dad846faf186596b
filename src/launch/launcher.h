/* launcher.h - inside of the launchers: what each one is, and how its variables are read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_LAUNCHER_H
#define TCI_LAUNCHER_H

#include "launch/launch.h"

struct tci_launcher {
    const char *name;  /* "slurm" */
    const char *title; /* "srun of Slurm", for sentences */
    /* What says the rank and the size, to be shown where another launcher is used; NULL: none. */
    const char *rank_name, *size_name;
    bool (*is_there)(void); /* whether this one has started the process */
    tc_status_t (*read)(struct tci_launch *launch, struct tci_error *error);
};

/* One file each. */
extern const struct tci_launcher tci_launcher_tcdist, tci_launcher_mlx, tci_launcher_torchrun,
    tci_launcher_openmpi, tci_launcher_pmi, tci_launcher_pmix, tci_launcher_slurm;

/* A variable that is set and not empty, or NULL. */
const char *tci_launch_get(const char *name);
/* The same, noted as read. */
const char *tci_launch_use(struct tci_launch *launch, const char *name);
/* One that must be there. */
tc_status_t tci_launch_need(struct tci_launch *launch, const char *name, const char **text_out,
                            struct tci_error *error);
/* A whole number in low … high from one that must be there; or that may be, and the number is left
 * as it is without it. */
struct tci_launch_number {
    const char *name;
    int low, high;
};
tc_status_t tci_launch_need_number(struct tci_launch *launch, const struct tci_launch_number *what,
                                   int *out, struct tci_error *error);
tc_status_t tci_launch_may_number(struct tci_launch *launch, const struct tci_launch_number *what,
                                  int *out, struct tci_error *error);
/* Rank and size by their names, the size first. */
tc_status_t tci_launch_place(struct tci_launch *launch, const char *rank_name,
                             const char *size_name, struct tci_error *error);
/* The same of those on this host, where they are set. */
tc_status_t tci_launch_local(struct tci_launch *launch, const char *rank_name,
                             const char *size_name, struct tci_error *error);
/* Whether TCDIST_RENDEZVOUS names a place of the user's own, so that the launcher's is of no use.
 * One with port 0 names a host alone: the port goes round as the launcher has it. */
bool tci_launch_has_place(void);
/* TC_ERR_INVALID_ARG: "NAME is "text": why". */
tc_status_t tci_launch_refuse(struct tci_error *error, const char *name, const char *text,
                              const char *why);
/* "tcp://host:port" into launch->url, an IPv6 address in brackets; refused where it has no room. */
tc_status_t tci_launch_meet_at(struct tci_launch *launch, const char *host, int port,
                               struct tci_error *error);

#endif
