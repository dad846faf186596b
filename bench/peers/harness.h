/* harness.h - measures an all-reduce in the same way for every library. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_HARNESS_H
#define PEERS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks of one run share a control block: a file that `--control` names, or memory that the
 * ranks inherit.  Starts are aligned and times are collected there and never through the library
 * that is measured, so that the harness costs the same for all of them.
 *
 * A call sums f32 elements of `buffer` over the ranks, in place.  Its time is the maximum over the
 * ranks of what the rank's own clock says:
 *
 *   synced        the ranks meet before each call; a sample is one call
 *   back_to_back  the ranks meet before a batch of calls; a sample is the batch, divided
 *
 * The median and the minimum of the samples are printed by rank 0, a line of CSV each:
 * library,variant,mode,ranks,bytes,calls,median_us,min_us
 */

struct harness_control;

struct harness {
    const char *library; /* borrowed, as all pointers here but control and buffer */
    const char *variant; /* --variant */
    int ranks;           /* --ranks */
    int rank;
    double budget_s;          /* --budget: time for the calls of one line */
    size_t bytes_min;         /* --min-bytes: smaller sizes are left out */
    size_t bytes_max;         /* --max-bytes: larger sizes are left out */
    bool is_pinned;           /* --pin: each rank keeps to one processor, if there are enough */
    bool is_crowded;          /* more ranks than processors: waiting gives the processor away */
    const char *control_path; /* --control */
    struct harness_control *control; /* owned, to the end of the process */
    float *buffer;                   /* owned, to the end of the process */

    /* What the library brings; each is called with `library_arg`. */
    void *library_arg;
    void (*prepare)(void *arg, size_t count); /* before a size is measured; NULL: nothing */
    void (*call)(void *arg, size_t count);    /* the all-reduce of `count` elements */
    void (*settle)(void *arg);   /* the library's own barrier, before ranks meet; NULL: none */
    void (*progress)(void *arg); /* lets the library work while the rank waits; NULL: nothing */
    bool has_threads;            /* threads of the library need a processor while the rank waits */
};

/* Reads the command line; ends the process when it is wrong. */
void harness_parse(struct harness *harness, int argc, char **argv);

/* Starts the ranks as children.  True in each of them, with its rank; false in the parent, when
 * all have ended, with the exit code for it. */
bool harness_fork(struct harness *harness, int *exit_code_out);

/* Maps the control block, places the rank, allocates `buffer`.  With `rank` and `ranks` set. */
void harness_open(struct harness *harness);

/* Waits until all ranks are here. */
void harness_meet(struct harness *harness);

/* Checks and measures every size; gives the exit code of the rank. */
int harness_run(struct harness *harness);

#ifdef __cplusplus
}
#endif

#endif
