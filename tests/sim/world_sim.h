/* world_sim.h - a group of simulated ranks that a test calls like any other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_WORLD_SIM_H
#define TEST_WORLD_SIM_H

#include "core/comm.h"
#include "sim/net_sim.h"
#include "tcdist/tcdist.h"

struct sim_world_config {
    struct sim_net_config net;
    size_t segment_bytes;
    uint32_t window; /* 2 … TCI_WINDOW */
    int timeout_ms;
    int check;             /* tc_check_t */
    const char *algorithm; /* of every call, where it has that; "" for none */
    const uint64_t *hosts; /* a label a rank, equal on one host; NULL: all on one */
    bool has_groups;       /* as the roof makes them: to be split, finalized and closed */
};
void sim_world_config_default(struct sim_world_config *config);

/* The engine, the operations and the groups are those of the library; time and messages are not.
 * Everything runs inside of the calls below, on the caller's thread. */
struct sim_world {
    struct sim_clock clock;
    struct sim_net *net;
    struct sim_exec *execs;
    struct sim_rank *ranks;
    struct tci_hosts *hosts; /* a reference that all ranks share; NULL: all on one */
    uint32_t size;
};

/* A world at time 0; config NULL: the default.  NULL without memory. */
struct sim_world *sim_world_new(uint32_t size, const struct sim_world_config *config);
/* Ends what still runs, with TC_ERR_CLOSED. */
void sim_world_free(struct sim_world *world);

tc_dist_ctx *sim_group(struct sim_world *world, uint32_t rank);
tc_context *sim_context(struct sim_world *world, uint32_t rank);

/* Until all of the futures (NULLs do not count) have settled; false: nothing happens any more, or
 * nothing before `end_ns`. */
bool sim_world_run(struct sim_world *world, tc_future *const *futures, size_t count,
                   uint64_t end_ns);
/* Until nothing is to come. */
void sim_world_idle(struct sim_world *world);

/* At a time to come, on the loop of a rank (that is not dead by then), call fn as user code. */
void sim_world_at(struct sim_world *world, uint32_t rank, uint64_t at_ns, void (*fn)(void *arg),
                  void *arg);

/* Faults at a time to come. */
void sim_world_kill_at(struct sim_world *world, uint32_t rank, uint64_t at_ns);
void sim_world_cut_at(struct sim_world *world, uint32_t a, uint32_t b, uint64_t at_ns);
/* Nothing gets from one rank to another for a while, or (TCI_NEVER) ever. */
void sim_world_break_at(struct sim_world *world, uint32_t from, uint32_t to, uint64_t at_ns,
                        uint64_t span_ns);
void sim_world_stall_at(struct sim_world *world, uint32_t rank, uint64_t at_ns, uint64_t span_ns);
void sim_world_delay_at(struct sim_world *world, uint32_t from, uint32_t to, uint64_t at_ns,
                        uint64_t longer_ns);
void sim_world_slow_at(struct sim_world *world, uint32_t rank, uint64_t at_ns, uint64_t longer_ns);
/* The clock of a rank jumps ahead. */
void sim_world_jump_at(struct sim_world *world, uint32_t rank, uint64_t at_ns, uint64_t span_ns);

#endif
