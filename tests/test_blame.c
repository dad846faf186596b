/* test_blame.c - where calls differ all name the same rank, the one unlike the most. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/comm.h"
#include "sim/world_sim.h"
#include "support/differ.h"

enum { RANKS = 6 };

/* What a rank calls, and when. */
struct part {
    struct sim_world *world;
    tc_dist_ctx *group;
    uint32_t rank;
    int what; /* 0, 1 and 2 differ */
    uint64_t tag;
    tc_future *future;
    float data[4];
};

static void call(void *arg)
{
    struct part *part = arg;
    tc_dist_ctx *group = part->world != NULL ? sim_group(part->world, part->rank) : part->group;

    if (part->what == 2)
        part->future = tc_broadcast_async(group, part->tag, part->data, 1, TC_DTYPE_F32, 0, NULL);
    else
        part->future =
            tc_allreduce_async(group, part->tag, part->data, part->data, 1 + (size_t)part->what,
                               TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
}

static uint64_t random_of(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void check(const struct part *parts, uint32_t size, int culprit, const char *when)
{
    for (uint32_t r = 0; r < size; r++) {
        const char *begins = parts[r].what == 2 ? "broadcast, " : "allreduce, ";
        const tc_error *error = tc_future_error(parts[r].future);

        if (error == NULL || error->status != TC_ERR_MISMATCH || error->rank != culprit ||
            strncmp(error->message, begins, strlen(begins)) != 0)
            fail_msg("%s: rank %u of %u is to name rank %d: %s", when, r, size, culprit,
                     error == NULL ? "no error" : error->message);
    }
}

/* Each rank calls at some time within `spread_ns`. */
static void simulate(uint32_t size, const int *what, int culprit, uint64_t spread_ns, uint64_t seed)
{
    struct sim_world_config config;
    struct part parts[RANKS];
    struct sim_world *world;
    uint64_t state = seed * 2 + 1;
    char when[96];

    sim_world_config_default(&config);
    config.net.seed = seed;
    config.net.jitter = (double)(seed % 4) * 3;
    world = sim_world_new(size, &config);
    for (uint32_t r = 0; r < size; r++) {
        parts[r] = (struct part){
            .world = world, .rank = r, .what = what[r], .tag = seed % 3 == 1 ? TC_TAG_ORDERED : 9};
        sim_world_at(world, r, 2 + random_of(&state) % spread_ns, call, &parts[r]);
    }
    sim_world_idle(world);
    snprintf(when, sizeof(when), "seed %llu, within %.3f ms", (unsigned long long)seed,
             (double)spread_ns * 1e-6);
    check(parts, size, culprit, when);
    assert_true(world->clock.now_ns < spread_ns + 1500 * TCI_NS_PER_MS);
    sim_world_free(world);
    for (uint32_t r = 0; r < size; r++)
        tc_future_release(parts[r].future);
}

static const uint64_t spreads_ns[] = {1, 20000, 300000, 5 * TCI_NS_PER_MS, 300 * TCI_NS_PER_MS};

static void whoever_comes_first_the_odd_rank_is_named(void **state)
{
    uint64_t live = tci_alloc_live(), seeds = test_effort() == 0 ? 12 : 100;

    (void)state;
    for (uint32_t size = 3; size <= RANKS; size++)
        for (uint32_t odd = 0; odd < size; odd++)
            for (size_t s = 0; s < TCI_LEN(spreads_ns); s++)
                for (uint64_t seed = 0; seed < seeds; seed++) {
                    int what[RANKS] = {0};

                    what[odd] = odd > 0 && seed % 2 == 1 ? 2 : 1; /* a root may be done */
                    simulate(size, what, (int)odd, spreads_ns[s], seed);
                }
    assert_int_equal(tci_alloc_live(), live);
}

/* Of calls that as many ranks have made that of the lowest one is right. */
static void without_a_majority_all_go_by_the_lowest_rank(void **state)
{
    static const struct {
        uint32_t size;
        int what[RANKS], culprit;
    } cases[] = {{2, {0, 1}, 1},          {2, {1, 0}, 1},
                 {3, {0, 1, 2}, 2},       {3, {1, 2, 0}, 2},
                 {4, {0, 0, 1, 1}, 2},    {4, {1, 0, 0, 1}, 1},
                 {5, {0, 0, 1, 1, 2}, 4}, {6, {1, 0, 1, 0, 1, 0}, 1}};

    (void)state;
    for (size_t c = 0; c < TCI_LEN(cases); c++)
        for (size_t s = 0; s < TCI_LEN(spreads_ns); s++)
            for (uint64_t seed = 0; seed < 12; seed++)
                simulate(cases[c].size, cases[c].what, cases[c].culprit, spreads_ns[s], seed);
}

/* One never calls: the other two are told in time, and alike. */
static void who_never_calls_is_not_waited_for_too_long(void **state)
{
    (void)state;
    for (uint32_t absent = 0; absent < 3; absent++) {
        struct sim_world *world = sim_world_new(3, NULL);
        struct part parts[2];

        for (uint32_t p = 0; p < 2; p++) {
            parts[p] =
                (struct part){.world = world, .rank = p + (p >= absent), .what = (int)p, .tag = 9};
            sim_world_at(world, parts[p].rank, 2, call, &parts[p]);
        }
        sim_world_idle(world);
        check(parts, 2, (int)parts[1].rank, "without one");
        assert_true(world->clock.now_ns < 2000 * TCI_NS_PER_MS);
        sim_world_free(world);
        for (uint32_t p = 0; p < 2; p++)
            tc_future_release(parts[p].future);
    }
}

/* A loop that has stood still reads what rank 0 has said meanwhile before it goes by what it has
 * seen itself. */
static void stand_still(uint32_t still, uint32_t odd, uint64_t at_us)
{
    struct sim_world *world = sim_world_new(4, NULL);
    struct part parts[4];

    for (uint32_t r = 0; r < 4; r++) {
        parts[r] = (struct part){.world = world, .rank = r, .what = (int)(r == odd), .tag = 9};
        sim_world_at(world, r, 2, call, &parts[r]);
    }
    sim_world_stall_at(world, still, at_us * TCI_NS_PER_US,
                       (still == 0 ? 1300 : 2000) * TCI_NS_PER_MS);
    sim_world_idle(world);
    check(parts, 4, (int)odd, "after a pause");
    sim_world_free(world);
    for (uint32_t r = 0; r < 4; r++)
        tc_future_release(parts[r].future);
}

static void who_has_stood_still_names_the_odd_rank_too(void **state)
{
    uint64_t live = tci_alloc_live();

    (void)state;
    for (uint32_t still = 0; still < 4; still++)
        for (uint32_t odd = 0; odd < 2; odd++)
            for (uint64_t at_us = 1; at_us < 60; at_us++)
                stand_still(still, odd, at_us);
    assert_int_equal(tci_alloc_live(), live);
}

/* ---- When rank 0 rules ----------------------------------------------------------------------- */

static struct tci_comm *comm_of(struct sim_world *world, uint32_t rank)
{
    return (struct tci_comm *)(void *)sim_group(world, rank);
}

static void ask(void *arg)
{
    const struct part *part = arg;
    struct tci_comm *comm = comm_of(part->world, part->rank);
    struct tci_notice notice = {.kind = TCI_NOTICE_ASK,
                                .status = TC_ERR_MISMATCH,
                                .culprit = (int32_t)part->rank,
                                .number = INT32_MIN,
                                .key = {.group = comm->group, .tag = part->tag, .use = 1},
                                .call = {.count = part->tag}};

    comm->transport->ops->notify(comm->transport, 0, &notice, true);
}

/* Of one that has none left the others are not waited for, whatever number says that. */
static void who_asks_without_time_is_told_soon(void **state)
{
    struct sim_world *world = sim_world_new(4, NULL);
    struct part part = {.world = world, .rank = 1, .tag = 9};

    (void)state;
    sim_world_at(world, 1, 2, ask, &part);
    sim_world_idle(world);
    assert_true(world->clock.now_ns > 50 * TCI_NS_PER_MS);
    assert_true(world->clock.now_ns < 200 * TCI_NS_PER_MS);
    sim_world_free(world);
}

static void note_disputes(void *arg)
{
    struct part *part = arg;

    part->what += (int)comm_of(part->world, 0)->disputes.count;
}

/* Rank 0 keeps so much at most for ranks that ask without end. */
static void disputes_are_bounded(void **state)
{
    enum { ASKED = TCI_DISPUTES_MAX + 10 };
    static struct part parts[ASKED];
    struct sim_world *world = sim_world_new(3, NULL);
    struct part look = {.world = world};

    (void)state;
    for (uint32_t i = 0; i < ASKED; i++) {
        parts[i] = (struct part){.world = world, .rank = 1, .tag = 100 + i};
        sim_world_at(world, 1, 2, ask, &parts[i]);
    }
    sim_world_at(world, 0, 10 * TCI_NS_PER_MS, note_disputes, &look);
    sim_world_idle(world);
    assert_int_equal(look.what, TCI_DISPUTES_MAX);
    sim_world_free(world);
}

/* Rank 0, which was done with its own call, has told all who was at fault. */
static void what_was_ruled_is_not_ruled_again(void **state)
{
    struct sim_world *world = sim_world_new(4, NULL);
    struct part parts[4], later = {.world = world, .rank = 1, .tag = 9};
    struct part look = {.world = world};
    uint64_t then_ns = 3000 * TCI_NS_PER_MS;

    (void)state;
    for (uint32_t r = 0; r < 4; r++) {
        parts[r] = (struct part){.world = world, .rank = r, .what = r == 2 ? 0 : 2, .tag = 9};
        sim_world_at(world, r, r == 0 ? 2 : TCI_NS_PER_MS, call, &parts[r]);
    }
    sim_world_at(world, 1, then_ns, ask, &later);
    for (uint64_t us = 0; us < 100; us++)
        sim_world_at(world, 0, then_ns + us * TCI_NS_PER_US, note_disputes, &look);
    sim_world_idle(world);
    check(parts + 2, 1, 2, "the root is done");
    assert_int_equal(tc_future_test(parts[0].future), TC_OK);
    assert_int_equal(look.what, 0);
    sim_world_free(world);
    for (uint32_t r = 0; r < 4; r++)
        tc_future_release(parts[r].future);
}

/* One waits for a diagnosis, which two hold up, when the last one comes with another call.  That
 * may have heard nothing of the others: then they meet its call, and not it theirs. */
static void come_late(uint32_t last, uint64_t after_ms, uint64_t stall_ms, bool has_heard)
{
    enum { TIMEOUT_MS = 1000, LATE_MS = TCI_OP_LATE_MS + 50 };
    struct sim_world_config config;
    struct part parts[4];
    struct sim_world *world;

    sim_world_config_default(&config);
    config.timeout_ms = TIMEOUT_MS;
    world = sim_world_new(4, &config);
    for (uint32_t r = 0; r < 4; r++) {
        parts[r] = (struct part){.world = world, .rank = r, .what = (int)(r == last), .tag = 9};
        sim_world_at(world, r, r == last ? after_ms * TCI_NS_PER_MS : 2, call, &parts[r]);
        if (r < 2)
            sim_world_stall_at(world, r, stall_ms * TCI_NS_PER_MS, 5 * TIMEOUT_MS * TCI_NS_PER_MS);
        if (!has_heard && r != last)
            sim_world_break_at(world, r, last, 1, 2 * TIMEOUT_MS * TCI_NS_PER_MS);
    }
    while (sim_clock_step(&world->clock, (TIMEOUT_MS + LATE_MS) * TCI_NS_PER_MS))
        ;
    if (tc_future_test(parts[5 - last].future) == TC_PENDING)
        fail_msg("rank %u, after %u ms, the others' stall at %u ms: not ended", 5 - last,
                 (unsigned)after_ms, (unsigned)stall_ms);
    sim_world_idle(world);
    sim_world_free(world);
    for (uint32_t r = 0; r < 4; r++)
        tc_future_release(parts[r].future);
}

/* Nobody has taken the diagnosis up; or somebody has, and is waited for past the deadline. */
static void who_comes_past_the_deadline_does_not_hold_up_the_others(void **state)
{
    (void)state;
    for (uint64_t after_ms = 700; after_ms < 1950; after_ms += 20)
        for (uint32_t last = 2; last < 4; last++) {
            come_late(last, after_ms, 100, true);
            come_late(last, after_ms, 800, true);
            come_late(last, after_ms, 800, false);
        }
}

/* ---- In real time ---------------------------------------------------------------------------- */

static void over_sockets_the_odd_rank_is_named(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (uint32_t size = 3; size <= 5; size++) {
        struct place place = {.size = (int)size};

        world_open(&place.tcp, (int)size, NULL);
        for (uint32_t i = 0; i < 60; i++) {
            struct part parts[RANKS];
            uint32_t odd = i % size, first = (uint32_t)random_of(&random) % size;

            for (uint32_t k = 0; k < size; k++) {
                uint32_t r = (first + k) % size;

                parts[r] = (struct part){
                    .group = place.tcp.group[r], .rank = r, .what = (int)(r == odd), .tag = i};
                call(&parts[r]);
                for (uint64_t turns = random_of(&random) % 4; turns > 0; turns--)
                    (void)tc_poll(place.tcp.context[random_of(&random) % size], 0);
            }
            for (uint32_t r = 0; r < size; r++)
                (void)wait_for(&place, parts[r].future);
            check(parts, size, (int)odd, "over sockets");
            for (uint32_t r = 0; r < size; r++)
                tc_future_release(parts[r].future);
        }
        world_close(&place.tcp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_comes_first_the_odd_rank_is_named),
        cmocka_unit_test(without_a_majority_all_go_by_the_lowest_rank),
        cmocka_unit_test(who_never_calls_is_not_waited_for_too_long),
        cmocka_unit_test(who_has_stood_still_names_the_odd_rank_too),
        cmocka_unit_test(who_asks_without_time_is_told_soon),
        cmocka_unit_test(disputes_are_bounded),
        cmocka_unit_test(what_was_ruled_is_not_ruled_again),
        cmocka_unit_test(who_comes_past_the_deadline_does_not_hold_up_the_others),
        cmocka_unit_test(over_sockets_the_odd_rank_is_named),
    };

    hush_log();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
