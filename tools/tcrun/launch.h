/* launch.h - starts one rank on this host, under its guard, with its pipes and environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_LAUNCH_H
#define TCRUN_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "options.h"
#include "rendezvous.h"

/* What tcrun inherited and changed for itself; ranks get it back. */
struct inherited {
    sigset_t mask;
    struct sigaction sigpipe;
    struct sigaction sigchld;
    struct rlimit files;
    bool has_terminal; /* standard input is one */
};

struct launch {
    const struct options *options; /* borrowed, as the two below */
    const struct rendezvous *rendezvous;
    const struct inherited *inherited;
    unsigned rank;
};

/* tcrun's ends of a rank; the caller owns them. */
struct launched {
    pid_t guard; /* also the number of the rank's process group */
    int sock;    /* to the guard, see guard.h */
    int out;     /* non-blocking, as the two below */
    int err;
    int in; /* rank 0 of a terminal: what the rank reads; -1 otherwise */
};

/* Returns 0, or an errno with nothing started. */
int launch_rank(const struct launch *launch, struct launched *launched_out);

#endif
