/* test_storm.c - many threads, many tags, every rank in an order of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 1800, also tcp */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/coll_case.h"

enum { RANKS_MAX = 8, THREADS = 8, TAGS_MAX = 1000, LETTERS_MAX = 125 };

/* What becomes of a collective's futures. */
enum fate { WAITED, DROPPED, CANCELLED };

/* A send and its receive, under a tag that a collective uses at the same time. */
struct letter {
    int from, to;
    uint64_t sent, received;
    tc_future *send, *recv;
};

struct storm {
    struct world world;
    int ranks, tags;
    struct coll_run runs[TAGS_MAX];
    enum fate fate[TAGS_MAX];
    struct letter letters[LETTERS_MAX]; /* one every TAGS_MAX / LETTERS_MAX tags */
    int order[RANKS_MAX][TAGS_MAX];
};

struct worker {
    pthread_t thread;
    struct storm *storm;
    int rank, index;
};

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A case of any kind; one in 16 is long enough to need credits and several lanes. */
static struct coll_case any_case(uint64_t *state, int tag, int ranks)
{
    static const tc_dtype_t types[] = {TC_DTYPE_F32, TC_DTYPE_BF16, TC_DTYPE_I64, TC_DTYPE_U8};
    static const tc_reduce_op_t ops[] = {TC_REDUCE_SUM, TC_REDUCE_AVG, TC_REDUCE_MAX};
    struct coll_case what = {.kind = (enum coll_kind)(next(state) % COLL_KINDS),
                             .count = next(state) % 3000,
                             .dtype = types[next(state) % 4],
                             .op = ops[next(state) % 3],
                             .root = (int)(next(state) % (uint64_t)ranks),
                             .numerics =
                                 next(state) % 4 == 0 ? TC_NUMERICS_FAST : TC_NUMERICS_CANONICAL,
                             .in_place = next(state) % 2,
                             .tag = (uint64_t)tag * UINT64_C(0x9e3779b97f4a7c15),
                             .seed = (unsigned)next(state)};

    if (next(state) % 16 == 0)
        what.count = 100000 + next(state) % 100000;
    if (what.kind == COLL_BROADCAST)
        what.in_place = true;
    if (!coll_can_be_in_place(what.kind))
        what.in_place = false;
    return what;
}

static void plan_storm(struct storm *storm, uint64_t seed)
{
    uint64_t state = seed;

    for (int t = 0; t < storm->tags; t++) {
        struct coll_case what = any_case(&state, t, storm->ranks);
        coll_prepare(&storm->runs[t], &what, storm->ranks);
        uint64_t dice = next(&state) % 20;
        storm->fate[t] = dice == 0 ? CANCELLED : dice == 1 ? DROPPED : WAITED;
    }
    for (int l = 0; l < LETTERS_MAX; l++)
        storm->letters[l] = (struct letter){.from = (int)(next(&state) % (uint64_t)storm->ranks),
                                            .to = (int)(next(&state) % (uint64_t)storm->ranks),
                                            .sent = next(&state)};
    for (int r = 0; r < storm->ranks; r++) {
        for (int t = 0; t < storm->tags; t++)
            storm->order[r][t] = t;
        for (int t = storm->tags - 1; t > 0; t--) {
            int other = (int)(next(&state) % (uint64_t)(t + 1)), kept = storm->order[r][t];
            storm->order[r][t] = storm->order[r][other];
            storm->order[r][other] = kept;
        }
    }
}

static void start_letter(struct storm *storm, int t, int rank)
{
    struct letter *letter = &storm->letters[t / (TAGS_MAX / LETTERS_MAX)];
    tc_dist_ctx *group = storm->world.group[rank];

    if (letter->from == rank)
        letter->send =
            tc_send_async(group, (uint64_t)t, &letter->sent, 1, TC_DTYPE_U64, letter->to, NULL);
    if (letter->to == rank)
        letter->recv = tc_recv_async(group, (uint64_t)t, &letter->received, 1, TC_DTYPE_U64,
                                     letter->from, NULL);
}

static void check_letters(struct storm *storm)
{
    for (int t = 0; t < storm->tags; t += TAGS_MAX / LETTERS_MAX) {
        struct letter *letter = &storm->letters[t / (TAGS_MAX / LETTERS_MAX)];
        assert_int_equal(world_wait(&storm->world, letter->send), TC_OK);
        assert_int_equal(world_wait(&storm->world, letter->recv), TC_OK);
        assert_true(letter->received == letter->sent);
        tc_future_release(letter->send);
        tc_future_release(letter->recv);
    }
}

/* Start this thread's share of a rank's collectives; cancel or drop what is doomed to it. */
static void *work(void *arg)
{
    struct worker *worker = arg;
    struct storm *storm = worker->storm;
    int r = worker->rank;

    for (int i = worker->index; i < storm->tags; i += THREADS) {
        int t = storm->order[r][i];
        struct coll_run *run = &storm->runs[t];
        coll_start(run, storm->world.group[r], r);
        if (t % (TAGS_MAX / LETTERS_MAX) == 0)
            start_letter(storm, t, r);
        if (storm->fate[t] == CANCELLED && t % storm->ranks == r)
            tc_future_cancel(run->future[r]);
        if (storm->fate[t] == DROPPED) {
            tc_future_release(run->future[r]);
            run->future[r] = NULL;
        }
    }
    return NULL;
}

static void start_all(struct storm *storm)
{
    static struct worker workers[RANKS_MAX][THREADS];

    for (int r = 0; r < storm->ranks; r++)
        for (int i = 0; i < THREADS; i++) {
            workers[r][i] = (struct worker){.storm = storm, .rank = r, .index = i};
            assert_int_equal(pthread_create(&workers[r][i].thread, NULL, work, &workers[r][i]), 0);
        }
    for (int r = 0; r < storm->ranks; r++)
        for (int i = 0; i < THREADS; i++)
            pthread_join(workers[r][i].thread, NULL);
}

/* Whoever was not done when a rank cancelled fails, and names that rank. */
static bool settle_cancelled(struct storm *storm, int t)
{
    struct coll_run *run = &storm->runs[t];
    bool all_good = true;

    for (int r = 0; r < storm->ranks; r++) {
        tc_status_t status = world_wait(&storm->world, run->future[r]);
        if (status == TC_OK)
            continue;
        all_good = false;
        assert_int_equal(status, TC_ERR_CANCELLED);
        assert_int_equal(tc_future_error(run->future[r])->rank, t % storm->ranks);
    }
    return all_good;
}

static void storm_of(uint64_t seed, int ranks, int tags)
{
    struct storm *storm = calloc(1, sizeof(*storm));
    char text[160];
    int cancelled = 0;

    assert_non_null(storm);
    storm->tags = tags;
    storm->ranks = ranks;
    print_message("seed %llu: %d ranks, %d threads each, %d tags\n", (unsigned long long)seed,
                  ranks, THREADS, tags);
    world_open(&storm->world, ranks, NULL);
    plan_storm(storm, seed);
    start_all(storm);
    for (int t = 0; t < tags; t++) {
        struct coll_run *run = &storm->runs[t];
        if (storm->fate[t] == DROPPED)
            continue; /* its memory is in use until the group has been finalized */
        if (storm->fate[t] == CANCELLED && !settle_cancelled(storm, t)) {
            cancelled++;
            continue;
        }
        for (int r = 0; r < storm->ranks; r++)
            if (world_wait(&storm->world, run->future[r]) != TC_OK)
                fail_msg("seed %llu, %s: %s", (unsigned long long)seed,
                         coll_describe(run, text, sizeof(text)),
                         tc_future_error(run->future[r])->message);
    }
    check_letters(storm);
    world_close(&storm->world);
    for (int t = 0; t < tags; t++) {
        bool is_whole = storm->fate[t] == WAITED || storm->fate[t] == DROPPED;
        if (is_whole)
            coll_check(&storm->runs[t]);
        else
            coll_drop(&storm->runs[t]);
    }
    print_message("%d collectives, %d of them cancelled in time\n", tags, cancelled);
    free(storm);
}

/* The long run is 50 seeds of 8 ranks with 1,000 tags. */
static void threads_start_tagged_collectives_in_any_order(void **state)
{
    static const int tags[] = {300, 1000, 1000};
    int effort = test_effort();

    (void)state;
    storm_of(1, 4, tags[effort]);
    if (effort == 1)
        storm_of(2, RANKS_MAX, 400);
    for (uint64_t seed = 3; effort == 2 && seed < 53; seed++)
        storm_of(seed, RANKS_MAX, TAGS_MAX);
}

/* Training reuses a layer's tag in each step, and ranks run ahead of each other. */
static void a_tag_is_used_again_and_again(void **state)
{
    enum { STEPS = 300, LAYERS = 5 };
    struct world world;
    int steps = test_effort() == 0 ? 60 : STEPS;

    (void)state;
    world_open(&world, 3, NULL);
    for (int s = 0; s < steps; s++) {
        struct coll_run runs[LAYERS];
        for (int l = 0; l < LAYERS; l++) {
            struct coll_case what = {.kind = (enum coll_kind)(l % COLL_KINDS),
                                     .count = (size_t)(s * 37 % 1000 + l * 20000),
                                     .dtype = TC_DTYPE_F32,
                                     .root = s % 3,
                                     .in_place = true,
                                     .tag = (uint64_t)l,
                                     .seed = (unsigned)s};
            coll_prepare(&runs[l], &what, 3);
        }
        for (int r = 0; r < 3; r++)
            for (int l = 0; l < LAYERS; l++)
                coll_start(&runs[l], world.group[r], r);
        for (int l = 0; l < LAYERS; l++) {
            for (int r = 0; r < 3; r++)
                if (world_wait(&world, runs[l].future[r]) != TC_OK)
                    fail_msg("step %d: %s", s, tc_future_error(runs[l].future[r])->message);
            coll_check(&runs[l]);
        }
    }
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_start_tagged_collectives_in_any_order),
        cmocka_unit_test(a_tag_is_used_again_and_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
