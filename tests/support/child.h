/* child.h - what a rank that is a process of its own tells the test. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUPPORT_CHILD_H
#define TEST_SUPPORT_CHILD_H

#include <stdio.h>
#include <unistd.h>

#include "tcdist/status.h"

/* How a child ends that has said what is wrong. */
enum { EXIT_SAYS = 3 };

/* A child's assertion: the line goes over rank->out to the parent, which fails the test with it. */
#define CHECK(rank, condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            const tc_error *last = tc_last_error();                                                \
            dprintf((rank)->out, "rank %d: line %d: not so: %s (last error: %s)\n", (rank)->rank,  \
                    __LINE__, #condition, last == NULL ? "none" : last->message);                  \
            _exit(EXIT_SAYS);                                                                      \
        }                                                                                          \
    } while (0)

/* Entries of a directory: descriptors, threads. */
int entries_of(const char *path);

#endif
