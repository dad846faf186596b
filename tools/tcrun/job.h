/* job.h - the life of a group of ranks: started, watched, ended, accounted for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_JOB_H
#define TCRUN_JOB_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "guard.h"
#include "input.h"
#include "launch.h"
#include "link.h"
#include "options.h"
#include "order.h"
#include "output.h"
#include "rendezvous.h"

/*      SIGINT, SIGHUP
 *     +-------> PASSING --+
 *     |                   v
 *  RUNNING ----------> ENDING --> KILLING --> FORCING     each --> DRAINING --> over
 *     |     SIGTERM       ^         ^                     when every guard is gone
 *     +------> LEAVING ---+         |
 *     | a rank failed     |         |
 *     +-------------------+---------+ all ranks have ended; what they left behind is killed
 */
enum phase {
    JOB_RUNNING, /* or beginning: other hosts are reached first */
    JOB_LEAVING, /* a rank failed: the others may say why they end; SIGTERM at the deadline */
    JOB_PASSING, /* a signal was passed on; SIGTERM at the deadline */
    JOB_ENDING,  /* asked to end by SIGTERM; SIGKILL at the deadline */
    JOB_KILLING, /* the guards kill; at the deadline the guards are killed as well */
    JOB_FORCING,
    JOB_DRAINING /* nobody is left; what they wrote is still forwarded */
};

struct rank {
    struct launched at; /* at.sock is -1 before it is started, and once the guard is gone */
    struct link *link;  /* borrowed; NULL: it runs here */
    pid_t pid;          /* 0: not known yet */
    bool has_ended;     /* the rank itself; the guard may watch over its descendants */
};

/* A message that says a rank failed, kept until the earliest is known. */
struct failure {
    struct rank *rank; /* borrowed; NULL: none */
    struct guard_message message;
};

struct job {
    const struct options *options; /* borrowed, as inherited */
    const struct inherited *inherited;
    struct rendezvous rendezvous;
    struct output output;
    struct input input;
    struct link *links; /* owned; one for each other host */
    unsigned link_count;
    struct processors processors; /* of this host, where its ranks are bound */
    char *traces; /* owned; a folder for the traces of all; NULL: none are collected */
    char *files[ORDER_FILES_MAX + 2]; /* owned; variables for files of this host; NULL at the end */
    struct rank *ranks;               /* owned; options->ranks places */
    bool is_begun;                    /* all have been started, or told to start */
    bool is_asked;                    /* the host of rank 0, for the port where the ranks meet */
    unsigned running;                 /* so many of them have not ended */
    unsigned guarded;                 /* so many guards are not gone */
    struct pollfd *fds;               /* owned; big enough for all */
    int signals;                      /* owned */
    unsigned interrupts;              /* SIGINTs so far */
    int ending_signal;                /* the first signal that ended the job; 0: none */
    enum phase phase;
    int64_t deadline_ms;  /* of the phase; INT64_MAX: none */
    struct failure first; /* the earliest failure, while other hosts may tell of an earlier one */
    int64_t judge_ms;     /* when it is taken for the first; INT64_MAX: there is none */
    bool has_lost_host;   /* which is why it ends */
    bool has_success;     /* a rank has ended well */
    bool has_result;      /* exit_code is final: the first cause wins */
    int exit_code;
};

/* Starts and watches until all is over; returns the exit code.  `signals` are handled, the others
 * keep what they do; signals in it must be blocked. */
int job_run(const struct options *options, const struct inherited *inherited,
            const sigset_t *signals);

/* ---- Inside: begin.c, used by job.c ---------------------------------------------------------- */

/* Starts the way to each other host.  Returns 0 or an errno. */
int job_open_links(struct job *job);

/* Starts all ranks, once all other hosts are there and it is known where the ranks meet; says and
 * concludes what goes wrong. */
void job_begin(struct job *job);

/* Hears what relays have to say. */
void job_hear_links(struct job *job);

/* ---- Inside: ending.c, used by job.c ------------------------------------------------------- */

int64_t job_now_ms(void);

/* Notes the result, unless there is one. */
void job_conclude(struct job *job, int exit_code);

/* Asks all ranks to end with `sig`; SIGTERM, if it is another one, follows after half the grace and
 * SIGKILL after all of it. */
void job_end(struct job *job, int sig);

/* A signal to tcrun: passed on to the ranks, which are then ended; the second SIGINT kills. */
void job_interrupt(struct job *job, int sig);

/* Kills all ranks and their descendants. */
void job_kill(struct job *job);

/* Goes on to the next phase where it is time to. */
void job_advance(struct job *job, int64_t now_ms);

/* Says how a rank failed and ends the others. */
void job_fail(struct job *job, const struct failure *failure);

/* Says how a rank has ended; or that its host is lost, once. */
void job_tell_ended(struct job *job, const struct rank *rank, int status);
void job_tell_lost(struct job *job, struct link *link);

#endif
