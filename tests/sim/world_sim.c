/* world_sim.c - contexts and groups of all ranks over the simulated loop and network. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world_sim.h"

#include <stdlib.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/mux.h"
#include "group/group.h"

struct sim_rank {
    struct tci_comm comm; /* first: what a group's handle points at */
    tc_context *context;
    bool is_open;       /* comm */
    tc_dist_ctx *group; /* instead of comm; NULL: comm it is */
    struct tci_task end;
};

/* Enough to see an operation end; thousands of ranks share one process. */
enum { TRACE_EVENTS = 8 };

void sim_world_config_default(struct sim_world_config *config)
{
    *config = (struct sim_world_config){.segment_bytes = (size_t)1 << 20,
                                        .window = TCI_WINDOW,
                                        .timeout_ms = 30000,
                                        .algorithm = ""};
    sim_net_config_default(&config->net);
}

tc_dist_ctx *sim_group(struct sim_world *world, uint32_t rank)
{
    struct sim_rank *at = &world->ranks[rank];

    return at->group != NULL ? at->group : (tc_dist_ctx *)(void *)at;
}

tc_context *sim_context(struct sim_world *world, uint32_t rank)
{
    return world->ranks[rank].context;
}

/* ---- Birth ---------------------------------------------------------------------------------- */

static bool open_rank(struct sim_world *world, uint32_t r, const struct sim_world_config *config)
{
    struct sim_rank *rank = &world->ranks[r];
    struct tci_transport *transport = world->size > 1 ? sim_net_transport(world->net, r) : NULL;
    struct tci_comm_config comm = {.rank = (int)r,
                                   .shown_rank = (int)r,
                                   .size = (int)world->size,
                                   .group = 1,
                                   .segment_bytes = config->segment_bytes,
                                   .numerics = TC_NUMERICS_CANONICAL,
                                   .check = config->check,
                                   .algorithm = config->algorithm,
                                   .hosts = world->hosts};

    rank->context = tci_context_new(tci_op_bytes());
    if (rank->context == NULL)
        return false;
    tci_list_init(&rank->context->groups);
    rank->context->config.timeout_ms = config->timeout_ms;
    rank->context->exec = &world->execs[r].exec;
    rank->context->trace = tci_trace_new(TRACE_EVENTS);
    if (rank->context->trace == NULL)
        return false;
    if (config->has_groups) {
        if (transport != NULL)
            transport = tci_mux_open(rank->context->exec, transport, r, world->size);
        if (transport != NULL || world->size == 1)
            rank->group = tci_group_new(rank->context, transport, &comm);
        return rank->group != NULL;
    }
    rank->is_open = tci_comm_init(&rank->comm, rank->context, transport, &comm) == 0;
    rank->comm.window = config->window;
    return rank->is_open;
}

struct sim_world *sim_world_new(uint32_t size, const struct sim_world_config *config)
{
    struct sim_world *world = calloc(1, sizeof(*world));
    struct sim_world_config defaults;

    TC_ASSERT(world != NULL && size > 0);
    sim_world_config_default(&defaults);
    config = config != NULL ? config : &defaults;
    world->size = size;
    sim_clock_init(&world->clock);
    world->execs = calloc(size, sizeof(*world->execs));
    world->ranks = calloc(size, sizeof(*world->ranks));
    TC_ASSERT(world->execs != NULL && world->ranks != NULL);
    for (uint32_t r = 0; r < size; r++)
        sim_exec_init(&world->execs[r], &world->clock);
    if (config->hosts != NULL)
        world->hosts = tci_hosts_new(config->hosts, size);
    world->net = sim_net_new(&world->clock, world->execs, size, &config->net);
    for (uint32_t r = 0; r < size; r++)
        if (!open_rank(world, r, config)) {
            sim_world_free(world);
            return NULL;
        }
    return world;
}

/* ---- Running -------------------------------------------------------------------------------- */

bool sim_world_run(struct sim_world *world, tc_future *const *futures, size_t count,
                   uint64_t end_ns)
{
    for (size_t i = 0; i < count; i++)
        while (futures[i] != NULL && tc_future_test(futures[i]) == TC_PENDING)
            if (!sim_clock_step(&world->clock, end_ns))
                return false;
    return true;
}

void sim_world_idle(struct sim_world *world)
{
    while (sim_clock_step(&world->clock, TCI_NEVER))
        ;
}

/* ---- At a time ------------------------------------------------------------------------------ */

struct sim_plan {
    struct sim_event event;
    struct tci_task task;
    struct sim_world *world;
    void (*fn)(void *arg);
    void *arg;
    uint32_t rank, other;
    uint64_t span_ns;
};

static struct sim_plan *plan(struct sim_world *world, uint32_t rank, uint64_t at_ns,
                             void (*fn)(struct sim_event *event))
{
    struct sim_plan *what = calloc(1, sizeof(*what));

    TC_ASSERT(what != NULL);
    what->event = (struct sim_event){.exec = &world->execs[rank], .fn = fn};
    what->world = world;
    what->rank = rank;
    sim_clock_add(&world->clock, at_ns, &what->event);
    return what;
}

static void call_user(struct tci_task *task)
{
    struct sim_plan *what = tci_container_of(task, struct sim_plan, task);

    what->fn(what->arg);
    free(what);
}

static void call(struct sim_event *event)
{
    struct sim_plan *what = tci_container_of(event, struct sim_plan, event);
    struct tci_exec *exec = &event->exec->exec;

    if (event->exec->is_dead) {
        free(what);
        return;
    }
    what->task.fn = call_user;
    exec->ops->post_user(exec, &what->task);
}

void sim_world_at(struct sim_world *world, uint32_t rank, uint64_t at_ns, void (*fn)(void *arg),
                  void *arg)
{
    struct sim_plan *what = plan(world, rank, at_ns, call);

    what->fn = fn;
    what->arg = arg;
}

static void kill_now(struct sim_event *event)
{
    struct sim_plan *what = tci_container_of(event, struct sim_plan, event);

    if (!event->exec->is_dead)
        sim_net_kill(what->world->net, what->rank);
    free(what);
}

void sim_world_kill_at(struct sim_world *world, uint32_t rank, uint64_t at_ns)
{
    plan(world, rank, at_ns, kill_now);
}

static void cut_now(struct sim_event *event)
{
    struct sim_plan *what = tci_container_of(event, struct sim_plan, event);

    sim_net_cut(what->world->net, what->rank, what->other);
    free(what);
}

void sim_world_cut_at(struct sim_world *world, uint32_t a, uint32_t b, uint64_t at_ns)
{
    plan(world, a, at_ns, cut_now)->other = b;
}

static void break_now(struct sim_event *event)
{
    struct sim_plan *what = tci_container_of(event, struct sim_plan, event);

    sim_net_break(what->world->net, what->rank, what->other, what->span_ns);
    free(what);
}

void sim_world_break_at(struct sim_world *world, uint32_t from, uint32_t to, uint64_t at_ns,
                        uint64_t span_ns)
{
    struct sim_plan *what = plan(world, from, at_ns, break_now);

    what->other = to;
    what->span_ns = span_ns;
}

static void stall_now(struct sim_event *event)
{
    struct sim_plan *what = tci_container_of(event, struct sim_plan, event);

    event->exec->stalled_to_ns = what->world->clock.now_ns + what->span_ns;
    free(what);
}

void sim_world_stall_at(struct sim_world *world, uint32_t rank, uint64_t at_ns, uint64_t span_ns)
{
    plan(world, rank, at_ns, stall_now)->span_ns = span_ns;
}

static void delay_now(struct sim_event *event)
{
    struct sim_plan *what = tci_container_of(event, struct sim_plan, event);

    sim_net_delay(what->world->net, what->rank, what->other, what->span_ns);
    free(what);
}

void sim_world_delay_at(struct sim_world *world, uint32_t from, uint32_t to, uint64_t at_ns,
                        uint64_t longer_ns)
{
    struct sim_plan *what = plan(world, from, at_ns, delay_now);

    what->other = to;
    what->span_ns = longer_ns;
}

static void slow_now(struct sim_event *event)
{
    struct sim_plan *what = tci_container_of(event, struct sim_plan, event);

    sim_net_slow(what->world->net, what->rank, what->span_ns);
    free(what);
}

void sim_world_slow_at(struct sim_world *world, uint32_t rank, uint64_t at_ns, uint64_t longer_ns)
{
    plan(world, rank, at_ns, slow_now)->span_ns = longer_ns;
}

static void jump_now(struct sim_event *event)
{
    struct sim_plan *what = tci_container_of(event, struct sim_plan, event);

    event->exec->ahead_ns += what->span_ns;
    free(what);
}

void sim_world_jump_at(struct sim_world *world, uint32_t rank, uint64_t at_ns, uint64_t span_ns)
{
    plan(world, rank, at_ns, jump_now)->span_ns = span_ns;
}

/* ---- Death ---------------------------------------------------------------------------------- */

static void end_rank(struct tci_task *task)
{
    struct sim_rank *rank = tci_container_of(task, struct sim_rank, end);
    struct tci_error closed = {0};

    if (rank->group != NULL) {
        rank->context->close_groups(rank->context);
        tci_promise_close_all(rank->context);
        return;
    }
    tci_error_set(&closed, TC_ERR_CLOSED, rank->comm.rank, 0, NULL, "rank %d has closed the group",
                  rank->comm.rank);
    tci_comm_break(&rank->comm, &closed);
    tci_promise_close_all(rank->context);
}

/* A broken group refuses what comes, but what was begun before it broke may be left. */
static void end_all(struct sim_world *world)
{
    for (uint32_t r = 0; r < world->size; r++) {
        struct sim_rank *rank = &world->ranks[r];
        struct tci_exec *exec = &world->execs[r].exec;

        world->execs[r].is_dead = false; /* its memory is to be freed, too */
        world->execs[r].stalled_to_ns = 0;
        if (!rank->is_open && rank->group == NULL)
            continue;
        rank->end.fn = end_rank;
        exec->ops->post(exec, &rank->end);
    }
    sim_world_idle(world);
}

void sim_world_free(struct sim_world *world)
{
    if (world == NULL)
        return;
    end_all(world);
    for (uint32_t r = 0; r < world->size; r++) {
        struct sim_rank *rank = &world->ranks[r];

        if (rank->is_open) {
            TC_ASSERT(atomic_load_explicit(&rank->comm.ops_live, memory_order_relaxed) == 0);
            tci_comm_fini(&rank->comm);
        }
        if (rank->context != NULL) {
            TC_ASSERT(tci_list_is_empty(&rank->context->groups));
            rank->context->exec = NULL;
            tci_trace_free(rank->context->trace);
            rank->context->trace = NULL;
            tci_context_end(rank->context);
        }
        sim_exec_fini(&world->execs[r]);
    }
    sim_net_free(world->net);
    sim_clock_fini(&world->clock);
    free(world->execs);
    tci_hosts_unref(world->hosts);
    free(world->ranks);
    free(world);
}
