/* tcp_sim.h - sockets, and a loop's watches over them, in virtual time: for the rendezvous. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TCP_SIM_H
#define TEST_TCP_SIM_H

#include "loop/loop.h"
#include "sim/exec_sim.h"

/*
 *   net/boot_*.c, net/dial.c      as they are
 *         |            |
 *   net/sock.h    tci_watch_…    and recv, send, shutdown, close of a few descriptors:
 *         |            |         a test that is linked with them wrapped comes here
 *   hosts with one address each, a listener's queue, connections of bounded room
 *         |
 *   exec_sim                     a clock for all, a loop for each rank
 */

/* What things cost, in virtual time. */
struct sim_tcp_how {
    uint64_t hop_ns;       /* from host to host */
    uint64_t call_ns;      /* of the caller, for each call of a socket */
    uint64_t bytes_per_us; /* that a host sends */
    size_t room;           /* bytes of a connection that may be on their way */
    unsigned backlog;      /* connections that a listener keeps waiting; one more is not heard */
};

/* A rank; its loop and what it has done so far. */
struct sim_tcp_rank {
    struct sim_exec exec; /* first: it stands for the loop, too */
    uint64_t line_ns;     /* when all that it has sent has left */
    uint64_t calls, sends, bytes_out, bytes_in;
    unsigned dials;           /* connections that it has begun */
    unsigned open, open_most; /* descriptors */
    unsigned waiting_most;    /* connections in the queue of a listener of its */
};

/* One network at a time; ranks 0 … count - 1. */
void sim_tcp_open(const struct sim_tcp_how *how, size_t count);
void sim_tcp_close(void); /* all its descriptors are closed by then */
struct sim_clock *sim_tcp_clock(void);
struct sim_tcp_rank *sim_tcp_rank(size_t rank);
struct tci_loop *sim_tcp_loop(size_t rank);

#endif
