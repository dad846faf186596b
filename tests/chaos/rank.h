/* rank.h - one rank of a group under fire: what it does, and what it says became of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CHAOS_RANK_H
#define TEST_CHAOS_RANK_H

#include <signal.h>

/* When a fault strikes. */
enum chaos_moment { MOMENT_FORMING, MOMENT_IDLE, MOMENT_BUSY, MOMENT_CLOSING, MOMENTS };

struct chaos_rank {
    int rank, size, timeout_ms;
    enum chaos_moment moment;
    const char *url;
    int out; /* reports, one a write */
    int in;  /* orders, a byte each */
};

/* Orders.  A group forms on GO; when all are READY the fault strikes, and then comes ON. */
enum { ORDER_GO = 'g', ORDER_ON = 'o', ORDER_END = 'e' };

/* Signals that a rank does harm to itself by. */
#define CHAOS_EXIT   SIGUSR1 /* it exits */
#define CHAOS_CLOSE  SIGUSR2 /* its sockets are closed under the library */
#define CHAOS_MEMORY SIGHUP  /* from now on no allocation of the library succeeds */

enum chaos_said { SAID_ENTERED, SAID_READY, SAID_SETTLED, SAID_HUNG, SAID_DONE };

struct chaos_report {
    enum chaos_said said;
    int status, culprit, reason; /* of a future that has settled */
    double late_ms;              /* after its deadline, less what this process was held up for */
    char what[24], text[200];
};

/* Never returns. */
void chaos_rank_run(const struct chaos_rank *rank) __attribute__((noreturn));

#endif
