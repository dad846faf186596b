/* test_sim_groups.c - groups within groups in virtual time: overlapping splits, losses. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single */
#include <inttypes.h>
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
#include "sim/world_sim.h"

enum { RANKS = 9, SPLITS = 12, GROUPS_MAX = 1 + 3 * SPLITS, NOBODY = -1 };

/* A group as it must come out, and as it does. */
struct expected {
    int size;
    int number[RANKS]; /* of each rank of the world; -1: not a member */
    tc_dist_ctx *handle[RANKS];
};

/* What one rank does about one split: as soon as it has its group, it uses it. */
struct part {
    struct storm *storm;
    int rank, split, group; /* group: index of its new one; -1: none */
    tc_dist_ctx *made;
    tc_future *splitting, *summing[2];
    bool has_begun;
    uint64_t bits, of_all[2];
};

struct storm {
    struct sim_world *world;
    uint64_t random, seed;
    struct expected groups[GROUPS_MAX];
    int parents[SPLITS];
    int group_count, split_count;
    struct part parts[SPLITS][RANKS];
    int killed; /* a rank, or NOBODY */
    unsigned failed_splits, failed_uses;
};

static uint64_t next(struct storm *storm, uint64_t below)
{
    return sim_random(&storm->random) % below;
}

/* ---- What must come out ---------------------------------------------------------------------- */

static bool is_before(const struct expected *parent, const int *keys, int a, int b)
{
    return keys[a] != keys[b] ? keys[a] < keys[b] : parent->number[a] < parent->number[b];
}

/* The members of a color, numbered by counting who comes before each. */
static void expect_group(struct storm *storm, int split, int color, const int *colors,
                         const int *keys)
{
    const struct expected *parent = &storm->groups[storm->parents[split]];
    struct expected *group = &storm->groups[storm->group_count];

    memset(group, 0, sizeof(*group));
    for (int r = 0; r < RANKS; r++) {
        group->number[r] = -1;
        if (parent->number[r] < 0 || colors[r] != color)
            continue;
        group->size++;
        group->number[r] = 0;
        storm->parts[split][r].group = storm->group_count;
        for (int k = 0; k < RANKS; k++)
            group->number[r] += k != r && parent->number[k] >= 0 && colors[k] == color &&
                                is_before(parent, keys, k, r);
    }
    storm->group_count += group->size > 0;
}

/* ---- What is done ---------------------------------------------------------------------------- */

static void use_group(tc_future *splitting, void *arg)
{
    struct part *part = arg;

    part->has_begun = true;
    if (tc_future_test(splitting) != TC_OK || part->made == NULL)
        return;
    part->bits = UINT64_C(1) << part->rank;
    for (uint64_t t = 0; t < 2; t++)
        part->summing[t] = tc_allreduce_async(part->made, t, &part->bits, &part->of_all[t], 1,
                                              TC_DTYPE_U64, TC_REDUCE_BOR, NULL);
}

/* Every member of some group there is splits it; several such calls are under way at once. */
static void start_split(struct storm *storm, int parent_at)
{
    struct expected *parent = &storm->groups[parent_at];
    int split = storm->split_count++, colors[RANKS], keys[RANKS], first = (int)next(storm, RANKS);

    storm->parents[split] = parent_at;
    for (int r = 0; r < RANKS; r++) {
        colors[r] = (int)next(storm, 4) - 1;
        keys[r] = (int)next(storm, 3) - 1;
        storm->parts[split][r] =
            (struct part){.storm = storm, .rank = r, .split = split, .group = -1};
    }
    for (int color = 0; color < 3; color++)
        expect_group(storm, split, color, colors, keys);
    for (int i = 0; i < RANKS; i++) {
        int r = (first + i) % RANKS;
        struct part *part = &storm->parts[split][r];

        if (parent->number[r] < 0 || parent->handle[r] == NULL || storm->world->execs[r].is_dead)
            continue;
        part->splitting = tc_dist_split_async(parent->handle[r], colors[r], keys[r], &part->made);
        assert_int_equal(tc_future_then(part->splitting, use_group, part), TC_OK);
    }
}

static void settle(struct storm *storm, const struct part *part, tc_future *future)
{
    if (future == NULL || part->rank == storm->killed)
        return;
    if (!sim_world_run(storm->world, &future, 1, TCI_NEVER))
        fail_msg("seed %" PRIu64 ": split %d hangs on rank %d", storm->seed, part->split,
                 part->rank);
}

static void settle_splits(struct storm *storm, int first)
{
    for (int s = first; s < storm->split_count; s++)
        for (int r = 0; r < RANKS; r++) {
            struct part *part = &storm->parts[s][r];

            settle(storm, part, part->splitting);
            while (part->splitting != NULL && !part->has_begun && r != storm->killed)
                assert_true(sim_clock_step(&storm->world->clock, TCI_NEVER));
            if (part->group >= 0)
                storm->groups[part->group].handle[r] = part->made;
        }
}

static void open_storm(struct storm *storm, uint64_t seed, bool kills)
{
    struct sim_world_config config;

    memset(storm, 0, sizeof(*storm));
    storm->seed = seed;
    storm->random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    sim_world_config_default(&config);
    config.has_groups = true;
    config.timeout_ms = 2000;
    config.net.seed = seed;
    config.net.jitter = 4;
    config.net.eager_max = seed % 3 == 0 ? 4 : 8192; /* also by credit */
    storm->world = sim_world_new(RANKS, &config);
    storm->groups[0].size = RANKS;
    storm->group_count = 1;
    for (int r = 0; r < RANKS; r++) {
        storm->groups[0].number[r] = r;
        storm->groups[0].handle[r] = sim_group(storm->world, (uint32_t)r);
    }
    storm->killed = kills ? (int)next(storm, RANKS) : NOBODY;
    if (kills)
        sim_world_kill_at(storm->world, (uint32_t)storm->killed, 20000 + next(storm, 2000000));
}

/* Two rounds: the second splits what the first has made, and goes on in its parents as well. */
static void run_storm(struct storm *storm)
{
    for (int round = 0; round < 2; round++) {
        int first = storm->split_count, known = storm->group_count;

        for (int i = 0; i < SPLITS / 2; i++)
            start_split(storm, (int)next(storm, (uint64_t)known));
        settle_splits(storm, first);
    }
    for (int s = 0; s < storm->split_count; s++)
        for (int r = 0; r < RANKS; r++)
            for (int t = 0; t < 2; t++)
                settle(storm, &storm->parts[s][r], storm->parts[s][r].summing[t]);
}

/* ---- What is checked ------------------------------------------------------------------------- */

static bool has_killed(const struct storm *storm, int group)
{
    return storm->killed != NOBODY && storm->groups[group].number[storm->killed] >= 0;
}

/* Whether every member has got its group. */
static bool is_whole(const struct storm *storm, int group)
{
    for (int r = 0; r < RANKS; r++)
        if (storm->groups[group].number[r] >= 0 && storm->groups[group].handle[r] == NULL)
            return false;
    return true;
}

static void blames(const struct storm *storm, int group, const tc_future *future)
{
    const tc_error *error = tc_future_error(future);
    const struct expected *of = &storm->groups[group];

    if (error->status == TC_ERR_PEER_LOST) {
        if (!has_killed(storm, group) || error->rank != of->number[storm->killed])
            fail_msg("seed %" PRIu64 ": group %d blames %d: %s", storm->seed, group, error->rank,
                     error->message);
        return;
    }
    /* A member that did not get its group, since the parent broke under it. */
    for (int r = 0; r < RANKS; r++)
        if (error->status == TC_ERR_TIMEOUT && of->number[r] == error->rank &&
            (of->handle[r] == NULL || r == storm->killed))
            return;
    fail_msg("seed %" PRIu64 ": group %d: rank %d: %s", storm->seed, group, error->rank,
             error->message);
}

static void check_sums(struct storm *storm, const struct part *part)
{
    const struct expected *group = &storm->groups[part->group];
    uint64_t bits = 0;

    for (int r = 0; r < RANKS; r++)
        bits |= group->number[r] >= 0 ? UINT64_C(1) << r : 0;
    assert_int_equal(tc_dist_world_size(part->made), group->size);
    assert_int_equal(tc_dist_rank(part->made), group->number[part->rank]);
    for (int t = 0; t < 2; t++) {
        if (tc_future_test(part->summing[t]) == TC_OK)
            assert_int_equal(part->of_all[t], bits);
        else
            blames(storm, part->group, part->summing[t]);
        storm->failed_uses += tc_future_test(part->summing[t]) != TC_OK;
        if (!has_killed(storm, part->group) && is_whole(storm, part->group))
            assert_int_equal(tc_future_test(part->summing[t]), TC_OK);
    }
}

static void check_storm(struct storm *storm)
{
    for (int s = 0; s < storm->split_count; s++)
        for (int r = 0; r < RANKS; r++) {
            const struct part *part = &storm->parts[s][r];

            if (part->splitting == NULL || r == storm->killed)
                continue;
            if (tc_future_test(part->splitting) != TC_OK) {
                assert_null(part->made);
                storm->failed_splits++;
                blames(storm, storm->parents[s], part->splitting);
                continue;
            }
            assert_int_equal(part->made != NULL, part->group >= 0);
            if (part->made != NULL)
                check_sums(storm, part);
        }
}

/* ---- How it ends ----------------------------------------------------------------------------- */

/* Groups that are well are finalized, in any order; the others end with the world. */
static void finalize_some(struct storm *storm)
{
    for (int g = storm->group_count; g-- > 0;) {
        tc_future *futures[RANKS] = {NULL};

        if (has_killed(storm, g) || !is_whole(storm, g) || next(storm, 5) == 0)
            continue;
        for (int r = 0; r < RANKS; r++)
            if (storm->groups[g].number[r] >= 0)
                futures[r] = tc_dist_finalize_async(storm->groups[g].handle[r]);
        if (next(storm, 2) == 0 && g > 0)
            sim_world_run(storm->world, futures, RANKS, storm->world->clock.now_ns + 100000);
        assert_true(sim_world_run(storm->world, futures, RANKS, TCI_NEVER));
        for (int r = 0; r < RANKS; r++) {
            if (futures[r] != NULL && tc_future_test(futures[r]) != TC_OK)
                fail_msg("seed %" PRIu64 ": group %d is not finalized: %s", storm->seed, g,
                         tc_future_error(futures[r])->message);
            tc_future_release(futures[r]);
        }
    }
}

static void close_storm(struct storm *storm)
{
    finalize_some(storm);
    sim_world_free(storm->world);
    for (int s = 0; s < storm->split_count; s++)
        for (int r = 0; r < RANKS; r++) {
            tc_future_release(storm->parts[s][r].splitting);
            for (int t = 0; t < 2; t++)
                tc_future_release(storm->parts[s][r].summing[t]);
        }
}

/* What the storms of one kind came to. */
struct tally {
    uint64_t made, splits, uses;
};

static void one_storm(uint64_t seed, bool kills, struct tally *tally)
{
    static struct storm storm;
    uint64_t live = tci_alloc_live();

    open_storm(&storm, seed, kills);
    run_storm(&storm);
    check_storm(&storm);
    tally->made += (uint64_t)storm.group_count - 1;
    tally->splits += storm.failed_splits;
    tally->uses += storm.failed_uses;
    close_storm(&storm);
    if (tci_alloc_live() != live)
        fail_msg("seed %" PRIu64 " leaves %" PRIu64 " blocks", seed, tci_alloc_live() - live);
}

static void storms(bool kills, uint64_t count)
{
    /* 1937: a rank dies when it is about to make a group of its own alone. */
    static const uint64_t known[] = {1937};
    const char *given = getenv("TCDIST_SIM_SEED");
    struct tally tally = {0};

    if (given != NULL) {
        one_storm(strtoull(given, NULL, 10), kills, &tally);
        count = 0;
    }
    for (size_t i = 0; given == NULL && i < TCI_LEN(known); i++)
        one_storm(known[i], kills, &tally);
    for (uint64_t seed = 1; seed <= count; seed++)
        one_storm(seed, kills, &tally);
    print_message("%" PRIu64 " groups, %" PRIu64 " calls to split and %" PRIu64
                  " uses that failed\n",
                  tally.made, tally.splits, tally.uses);
}

static uint64_t seeds(void)
{
    const char *effort = getenv("TCDIST_TEST_EFFORT");

    if (effort != NULL && strcmp(effort, "quick") == 0)
        return 30;
    return effort != NULL && strcmp(effort, "full") == 0 ? 5000 : 300;
}

static void overlapping_splits_come_out_right(void **state)
{
    (void)state;
    storms(false, seeds());
}

static void a_lost_rank_breaks_its_groups_and_no_others(void **state)
{
    (void)state;
    storms(true, seeds());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_splits_come_out_right),
        cmocka_unit_test(a_lost_rank_breaks_its_groups_and_no_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
