/* launch.h - starts one rank on this host, under its guard, with its pipes and environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_LAUNCH_H
#define TCRUN_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "processors.h"

/* What tcrun inherited and changed for itself; ranks get it back. */
struct inherited {
    sigset_t mask;
    struct sigaction sigpipe;
    struct sigaction sigchld;
    struct rlimit files;
};

/* What a rank reads. */
enum launch_input {
    LAUNCH_NO_INPUT,
    LAUNCH_OWN_INPUT, /* what this process reads, as it is */
    LAUNCH_PIPE       /* a pipe that is filled by this process */
};

/* Everything is borrowed. */
struct launch {
    const struct inherited *inherited;
    char **command;        /* NULL at its end, as for exec */
    char *const *env;      /* NAME=VALUE over what is inherited; NULL at its end */
    char *const *more_env; /* further ones, as env; NULL: none */
    int listener; /* the listening socket of the rendezvous, which the rank inherits; -1: none */
    enum launch_input input;
    const struct processors
        *processors; /* of which the rank has its share; NULL: it is not bound */
    struct share share;
};

/* The launcher's ends of a rank; the caller owns them. */
struct launched {
    pid_t guard; /* also the number of the rank's process group; 0: it is on another host */
    int sock;    /* to the guard, see guard.h */
    int out;     /* non-blocking, as the two below */
    int err;
    int in; /* what the rank reads; -1: nothing is brought to it */
};

/* Returns 0, or an errno with nothing started. */
int launch_rank(const struct launch *launch, struct launched *launched_out);

/* ---- For all who start ranks ----------------------------------------------------------------- */

/* Without this a pipe of a rank could get the number 0, 1 or 2. */
void launch_fill_descriptors(void);

/* Raises the soft limit of files for so many ranks, as far as the hard one allows. */
void launch_raise_limit(unsigned ranks, struct inherited *inherited);

/* A pipe whose end of this process, pair[0], does not block; both close on exec. */
int launch_pipe(int pair[2], bool is_input);

/* A file in memory that a rank reads by a path; it lasts as long as this process keeps *fd_out
 * open. "VARIABLE=path", which the caller frees; NULL: errno says why. */
char *launch_file(const char *variable, const char *text, int *fd_out);

#endif
