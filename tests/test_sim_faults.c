/* test_sim_faults.c - deadlines, lost ranks and calls that differ, told in virtual time. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 200, single */
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

enum { RANKS_MAX = 33, COUNT = 30000, EAGER_MAX = 8192 };

/* A world whose ranks each have one future and a buffer. */
struct scene {
    struct sim_world *world;
    uint32_t size;
    uint64_t live;
    tc_future *futures[RANKS_MAX];
    float *data;
};

static void scene_open_config(struct scene *scene, uint32_t size, int timeout_ms,
                              struct sim_world_config *config)
{
    memset(scene, 0, sizeof(*scene));
    scene->live = tci_alloc_live();
    config->timeout_ms = timeout_ms;
    config->net.eager_max = EAGER_MAX;
    scene->world = sim_world_new(size, config);
    scene->size = size;
    scene->data = calloc((size_t)size * COUNT, sizeof(float));
    assert_non_null(scene->data);
}

static void scene_open_with(struct scene *scene, uint32_t size, int timeout_ms, double jitter)
{
    struct sim_world_config config;

    sim_world_config_default(&config);
    config.net.jitter = jitter;
    scene_open_config(scene, size, timeout_ms, &config);
}

static void scene_open(struct scene *scene, uint32_t size, int timeout_ms)
{
    scene_open_with(scene, size, timeout_ms, 0);
}

static float *data_of(struct scene *scene, uint32_t rank)
{
    return scene->data + (size_t)rank * COUNT;
}

static void forget_futures(struct scene *scene)
{
    for (uint32_t r = 0; r < scene->size; r++) {
        tc_future_release(scene->futures[r]);
        scene->futures[r] = NULL;
    }
}

static void scene_close(struct scene *scene)
{
    sim_world_free(scene->world);
    for (uint32_t r = 0; r < scene->size; r++)
        if (scene->futures[r] != NULL)
            assert_int_not_equal(tc_future_test(scene->futures[r]), TC_PENDING);
    forget_futures(scene);
    free(scene->data);
    assert_int_equal(tci_alloc_live(), scene->live);
}

static void start_sum(struct scene *scene, uint32_t rank, uint64_t tag, size_t count)
{
    scene->futures[rank] =
        tc_allreduce_async(sim_group(scene->world, rank), tag, data_of(scene, rank),
                           data_of(scene, rank), count, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
}

static void run(struct scene *scene)
{
    assert_true(sim_world_run(scene->world, scene->futures, scene->size, TCI_NEVER));
}

/* Every rank but `spared` has failed like this, and says so. */
static void check_all(struct scene *scene, uint32_t spared, tc_status_t status, int culprit,
                      const char *says)
{
    for (uint32_t r = 0; r < scene->size; r++) {
        const tc_error *error;

        if (r == spared)
            continue;
        assert_int_equal(tc_future_test(scene->futures[r]), status);
        error = tc_future_error(scene->futures[r]);
        if (culprit >= 0 && error->rank != culprit)
            fail_msg("rank %u blames %d: %s", r, error->rank, error->message);
        if (strstr(error->message, says) == NULL)
            fail_msg("rank %u says: %s; not: %s", r, error->message, says);
    }
}

/* ---- Deadlines ------------------------------------------------------------------------------ */

static void never_enters(uint32_t size, uint32_t missing, size_t count)
{
    struct scene scene;
    char says[64];

    scene_open(&scene, size, 1000);
    for (uint32_t r = 0; r < size; r++)
        scene.futures[r] = tc_barrier_async(sim_group(scene.world, r), 41, NULL);
    run(&scene);
    forget_futures(&scene);
    uint64_t begin = scene.world->clock.now_ns;
    for (uint32_t r = 0; r < size; r++)
        if (r != missing)
            start_sum(&scene, r, 77, count);
    run(&scene);
    uint64_t took = scene.world->clock.now_ns - begin;
    snprintf(says, sizeof(says), "rank %u has not entered", missing);
    check_all(&scene, missing, TC_ERR_TIMEOUT, (int)missing, says);
    check_all(&scene, missing, TC_ERR_TIMEOUT, (int)missing, "barrier, tag 41");
    assert_true(took >= 1000 * TCI_NS_PER_MS && took < 1001 * TCI_NS_PER_MS);
    scene_close(&scene);
}

static void a_rank_that_never_enters_is_named_at_the_deadline(void **state)
{
    static const uint32_t sizes[] = {2, 3, 5, 16, 33};
    static const size_t counts[] = {1, 1000, COUNT};

    (void)state;
    for (size_t s = 0; s < TCI_LEN(sizes); s++)
        for (size_t c = 0; c < TCI_LEN(counts); c++) {
            never_enters(sizes[s], 0, counts[c]);
            never_enters(sizes[s], sizes[s] / 2, counts[c]);
            never_enters(sizes[s], sizes[s] - 1, counts[c]);
        }
}

static void a_rank_that_enters_late_is_told_how_it_ended(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4, 500);
    for (uint32_t r = 0; r < 3; r++)
        start_sum(&scene, r, 8, 1000);
    assert_true(sim_world_run(scene.world, scene.futures, 3, TCI_NEVER));
    sim_world_idle(scene.world);
    uint64_t before = scene.world->clock.now_ns;
    start_sum(&scene, 3, 8, 1000);
    run(&scene);
    assert_true(scene.world->clock.now_ns - before < TCI_NS_PER_MS);
    check_all(&scene, 4, TC_ERR_TIMEOUT, 3, "rank 3 has not entered");
    forget_futures(&scene);
    /* The next use of the tag is as good as new. */
    for (uint32_t r = 0; r < 4; r++)
        start_sum(&scene, r, 8, 1000);
    run(&scene);
    for (uint32_t r = 0; r < 4; r++)
        assert_int_equal(tc_future_test(scene.futures[r]), TC_OK);
    scene_close(&scene);
}

static void a_loop_that_stands_still_is_named(void **state)
{
    struct scene scene;

    (void)state;
    for (uint32_t stalled = 1; stalled < 5; stalled++) {
        scene_open(&scene, 5, 1000);
        for (uint32_t r = 0; r < 5; r++)
            start_sum(&scene, r, 3, COUNT);
        sim_world_stall_at(scene.world, stalled, 8000, 5000 * TCI_NS_PER_MS);
        run(&scene);
        check_all(&scene, stalled, TC_ERR_TIMEOUT, (int)stalled, "does not answer");
        scene_close(&scene);
    }
}

static void a_short_stall_only_delays(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 5, 1000);
    for (uint32_t r = 0; r < 5; r++)
        start_sum(&scene, r, 3, COUNT);
    sim_world_stall_at(scene.world, 2, 8000, 400 * TCI_NS_PER_MS);
    run(&scene);
    for (uint32_t r = 0; r < 5; r++)
        assert_int_equal(tc_future_test(scene.futures[r]), TC_OK);
    assert_true(scene.world->clock.now_ns >= 400 * TCI_NS_PER_MS);
    scene_close(&scene);
}

/* ---- Losses --------------------------------------------------------------------------------- */

/* What a link could not carry it sends again, small messages and large ones, in their order. */
static void a_silence_that_is_lifted_only_delays(void **state)
{
    static const size_t counts[] = {10, COUNT};

    (void)state;
    for (size_t c = 0; c < TCI_LEN(counts); c++)
        for (int is_delay = 0; is_delay < 2; is_delay++) {
            void (*set)(struct sim_world * world, uint32_t from, uint32_t to, uint64_t at_ns,
                        uint64_t ns) = is_delay ? sim_world_delay_at : sim_world_break_at;
            struct scene scene;

            scene_open(&scene, 5, 1000);
            for (uint32_t r = 0; r < 5; r++) {
                if (r != 3) {
                    set(scene.world, r, 3, 0, TCI_NEVER);
                    set(scene.world, r, 3, 200 * TCI_NS_PER_MS, 0);
                }
                start_sum(&scene, r, 1, counts[c]);
            }
            run(&scene);
            assert_true(scene.world->clock.now_ns >= 200 * TCI_NS_PER_MS);
            for (uint32_t r = 0; r < 5; r++)
                assert_int_equal(tc_future_test(scene.futures[r]), TC_OK);
            scene_close(&scene);
        }
}

static void cancel_future(void *future)
{
    tc_future_cancel(future);
}

/* A rank ends `later_ns` after it has cancelled an operation.  The others see its links end before
 * the news of the operation has come, by way of rank 0.  True where that left in time. */
static bool cancels_and_ends(uint64_t later_ns)
{
    enum { SIZE = 5, ENDS = 3, LATE = 4, AT_NS = 50000000 };
    struct sim_world_config config;
    struct scene scene;
    tc_future *own;
    tc_status_t status;

    sim_world_config_default(&config);
    config.net.lost_after_ns = 1000; /* sooner than any message */
    scene_open_config(&scene, SIZE, 30000, &config);
    for (uint32_t r = 0; r < LATE; r++)
        start_sum(&scene, r, 7, 10);
    own = scene.futures[ENDS];
    sim_world_at(scene.world, ENDS, AT_NS, cancel_future, own);
    sim_world_kill_at(scene.world, ENDS, AT_NS + later_ns);
    scene.futures[ENDS] = NULL;
    run(&scene);
    status = tc_future_test(scene.futures[0]);
    for (uint32_t r = 0; r < ENDS; r++) {
        assert_int_equal(tc_future_test(scene.futures[r]), status);
        assert_int_equal(tc_future_error(scene.futures[r])->rank, ENDS);
    }
    sim_world_idle(scene.world); /* the group is of no use all the same */
    for (uint32_t r = 0; r < ENDS; r++)
        assert_int_equal(tc_dist_health(sim_group(scene.world, r), NULL), TC_ERR_PEER_LOST);
    scene.futures[ENDS] = own;
    scene_close(&scene);
    return status == TC_ERR_CANCELLED;
}

static void the_end_of_a_rank_does_not_overtake_what_it_has_told(void **state)
{
    unsigned in_time = 0;

    (void)state;
    for (uint64_t later_ns = 0; later_ns < 60000; later_ns += 500)
        in_time += cancels_and_ends(later_ns);
    assert_true(in_time > 0);
}

static void killed(uint32_t size, uint32_t victim, uint64_t at_ns, size_t count)
{
    struct scene scene;
    char says[32];

    scene_open(&scene, size, 30000);
    sim_world_kill_at(scene.world, victim, at_ns);
    for (uint32_t r = 0; r < size; r++)
        start_sum(&scene, r, 9, count);
    tc_future *spared = scene.futures[victim];
    scene.futures[victim] = NULL;
    run(&scene);
    scene.futures[victim] = spared;
    bool all_done = true;
    for (uint32_t r = 0; r < size; r++)
        all_done = all_done && (r == victim || tc_future_test(scene.futures[r]) == TC_OK);
    if (!all_done) { /* those who needed it name it; who was done is done */
        for (uint32_t r = 0; r < size; r++)
            if (r != victim && tc_future_test(scene.futures[r]) != TC_OK) {
                assert_int_equal(tc_future_test(scene.futures[r]), TC_ERR_PEER_LOST);
                assert_int_equal(tc_future_error(scene.futures[r])->rank, victim);
            }
        assert_true(scene.world->clock.now_ns < 100 * TCI_NS_PER_MS);
    }
    sim_world_idle(scene.world);
    for (uint32_t r = 0; r < size; r++)
        if (r != victim) { /* all that comes is refused */
            tc_future_release(scene.futures[r]);
            start_sum(&scene, r, 10, 1);
        }
    scene.futures[victim] = NULL;
    run(&scene);
    snprintf(says, sizeof(says), "%u lost", victim);
    check_all(&scene, victim, TC_ERR_PEER_LOST, (int)victim, says);
    scene.futures[victim] = spared;
    scene_close(&scene);
}

static void a_rank_that_is_killed_is_named_by_every_survivor(void **state)
{
    static const uint32_t sizes[] = {2, 3, 7, 16};

    (void)state;
    for (size_t s = 0; s < TCI_LEN(sizes); s++)
        for (uint64_t at = 0; at < 30000; at += 3700)
            for (uint32_t v = 0; v < sizes[s]; v += 1 + sizes[s] / 4) {
                killed(sizes[s], v, at, 10);
                killed(sizes[s], v, at, COUNT);
            }
}

static void a_broken_link_ends_the_group_for_all(void **state)
{
    struct scene scene;

    (void)state;
    for (uint32_t a = 0; a < 5; a++)
        for (uint32_t b = a + 1; b < 5; b++) {
            scene_open(&scene, 5, 2000);
            sim_world_cut_at(scene.world, a, b, 6000);
            for (uint32_t r = 0; r < 5; r++)
                start_sum(&scene, r, 9, COUNT);
            run(&scene);
            for (uint32_t r = 0; r < 5; r++) {
                const tc_error *error = tc_future_error(scene.futures[r]);

                assert_non_null(error);
                assert_int_equal(error->status, TC_ERR_PEER_LOST);
                assert_true(error->rank == (int)a || error->rank == (int)b);
            }
            assert_true(scene.world->clock.now_ns < 100 * TCI_NS_PER_MS);
            scene_close(&scene);
        }
}

/* ---- Calls that differ ---------------------------------------------------------------------- */

struct call {
    const char *coll; /* "allreduce", "broadcast", … */
    size_t count;
    tc_dtype_t dtype;
    tc_reduce_op_t op;
    int root;
    const char *algorithm;
};

static tc_future *start_call(struct scene *scene, uint32_t rank, const struct call *call)
{
    tc_dist_ctx *group = sim_group(scene->world, rank);
    void *data = data_of(scene, rank);
    tc_options options;

    tc_options_default(&options);
    options.algorithm = call->algorithm;
    if (strcmp(call->coll, "allreduce") == 0)
        return tc_allreduce_async(group, 6, data, data, call->count, call->dtype, call->op,
                                  &options);
    if (strcmp(call->coll, "broadcast") == 0)
        return tc_broadcast_async(group, 6, data, call->count, call->dtype, call->root, &options);
    if (strcmp(call->coll, "allgather") == 0)
        return tc_allgather_async(group, 6, data, (char *)data + 64, call->count, call->dtype,
                                  &options);
    return tc_barrier_async(group, 6, &options);
}

/* The second use of the tag follows the first one, which all ranks agree on, without a pause. */
struct follower {
    struct scene *scene;
    uint32_t rank;
    const struct call *call;
};

static void follow(tc_future *future, void *arg)
{
    struct follower *follower = arg;

    assert_int_equal(tc_future_test(future), TC_OK);
    follower->scene->futures[follower->rank] =
        start_call(follower->scene, follower->rank, follower->call);
}

/* Error lines of the log that show two calls. */
static unsigned told;

static void hear(tc_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level == TC_LOG_ERROR && strstr(line, " and is done, ") != NULL &&
        strstr(line, " calls ") != NULL)
        told++;
}

/* A rank of a broadcast may be done before it could hear of a call that differs: a root waits for
 * nobody.  When messages are small enough to need no credit, that may be true of all ranks: then
 * the log shows both calls. */
static bool is_one_way(const struct call *call)
{
    return strcmp(call->coll, "broadcast") == 0;
}

/* All have failed, and show both calls; see is_one_way. */
static void check_differ(struct scene *scene, const struct call *most, uint32_t odd)
{
    uint32_t done = 0;
    char says[32];

    snprintf(says, sizeof(says), "rank %u calls ", odd);
    for (uint32_t r = 0; r < scene->size; r++) {
        const tc_error *error = tc_future_error(scene->futures[r]);
        const char *one;

        if (error == NULL && is_one_way(most)) {
            done++;
            continue;
        }
        if (error == NULL || error->status != TC_ERR_MISMATCH)
            fail_msg("%s of %u, odd %u: rank %u: %s", most->coll, scene->size, odd, r,
                     error == NULL ? "ok" : error->message);
        one = strstr(error->message, " calls ");
        if (strstr(error->message, says) == NULL || strstr(one + 1, " calls ") == NULL)
            fail_msg("%s of %u, odd %u: rank %u: %s", most->coll, scene->size, odd, r,
                     error->message);
    }
    if (done == scene->size && (most->count * sizeof(float) > EAGER_MAX || told == 0))
        fail_msg("%s of %u, odd %u: nobody noticed", most->coll, scene->size, odd);
    /* Where the root itself is the odd one all wait to receive, and show each other their calls. */
    if (scene->world->clock.now_ns >= 500 * TCI_NS_PER_MS)
        fail_msg("%s of %u, odd %u: noticed at the deadline", most->coll, scene->size, odd);
}

/* Rank `odd` calls something else; it comes first, last or in between. */
static void differ(const struct call *most, const struct call *other, uint32_t size, uint32_t odd,
                   uint32_t first)
{
    struct scene scene;

    told = 0;
    /* The more jitter, the more a message of the one overtakes those of the others. */
    scene_open_with(&scene, size, 2000, 10.0 * first);
    for (uint32_t i = 0; i < size; i++) {
        uint32_t r = (first + i) % size;

        scene.futures[r] = start_call(&scene, r, r == odd ? other : most);
        if (i % 2 == 1)
            for (int s = 0; s < 40; s++)
                sim_clock_step(&scene.world->clock, scene.world->clock.now_ns + 100000);
    }
    run(&scene);
    check_differ(&scene, most, odd);
    scene_close(&scene);
}

/* The same for ranks that come from an earlier use of the tag, some ahead of others. */
static void differ_later(const struct call *most, const struct call *other, uint32_t size,
                         uint32_t odd, uint32_t jitter)
{
    struct follower followers[RANKS_MAX];
    struct scene scene;

    told = 0;
    scene_open_with(&scene, size, 2000, 10.0 * jitter);
    for (uint32_t r = 0; r < size; r++) {
        tc_future *first = tc_barrier_async(sim_group(scene.world, r), 6, NULL);

        followers[r] = (struct follower){&scene, r, r == odd ? other : most};
        assert_int_equal(tc_future_then(first, follow, &followers[r]), TC_OK);
        tc_future_release(first);
    }
    sim_world_idle(scene.world);
    check_differ(&scene, most, odd);
    scene_close(&scene);
}

static const struct call pairs[][2] = {
    {{"allreduce", 100, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL},
     {"allreduce", 101, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL}},
    {{"allreduce", 30000, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL},
     {"allreduce", 3, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL}},
    {{"allreduce", 30000, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL},
     {"allreduce", 29999, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL}},
    {{"allreduce", 100, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL},
     {"allreduce", 100, TC_DTYPE_I32, TC_REDUCE_SUM, 0, NULL}},
    {{"allreduce", 100, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL},
     {"allreduce", 100, TC_DTYPE_F32, TC_REDUCE_MAX, 0, NULL}},
    {{"allreduce", 100, TC_DTYPE_F32, TC_REDUCE_SUM, 0, "direct"},
     {"allreduce", 100, TC_DTYPE_F32, TC_REDUCE_SUM, 0, "oneshot"}},
    {{"broadcast", 100, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL},
     {"broadcast", 100, TC_DTYPE_F32, TC_REDUCE_SUM, 1, NULL}},
    {{"broadcast", 20000, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL},
     {"broadcast", 20000, TC_DTYPE_F32, TC_REDUCE_SUM, 1, NULL}},
    {{"broadcast", 1000, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL},
     {"allgather", 100, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL}},
    {{"barrier", 0, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL},
     {"allreduce", 100, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL}},
};

static void each_pair(void (*fn)(const struct call *, const struct call *, uint32_t, uint32_t,
                                 uint32_t))
{
    for (size_t p = 0; p < TCI_LEN(pairs); p++)
        for (uint32_t size = 2; size <= 5; size++)
            for (uint32_t odd = 0; odd < size; odd++)
                for (uint32_t first = 0; first < size; first++)
                    fn(&pairs[p][0], &pairs[p][1], size, odd, first);
}

static void calls_that_differ_are_shown_both(void **state)
{
    (void)state;
    each_pair(differ);
}

static int listen_to_log(void **state)
{
    (void)state;
    told = 0;
    tc_log_set_sink(hear, NULL);
    return 0;
}

static int listen_no_more(void **state)
{
    (void)state;
    tc_log_set_sink(NULL, NULL);
    return 0;
}

static void calls_that_differ_in_a_later_use_are_shown_both(void **state)
{
    (void)state;
    each_pair(differ_later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_never_enters_is_named_at_the_deadline),
        cmocka_unit_test(a_rank_that_enters_late_is_told_how_it_ended),
        cmocka_unit_test(a_loop_that_stands_still_is_named),
        cmocka_unit_test(a_short_stall_only_delays),
        cmocka_unit_test(a_silence_that_is_lifted_only_delays),
        cmocka_unit_test(the_end_of_a_rank_does_not_overtake_what_it_has_told),
        cmocka_unit_test(a_rank_that_is_killed_is_named_by_every_survivor),
        cmocka_unit_test(a_broken_link_ends_the_group_for_all),
        cmocka_unit_test_setup_teardown(calls_that_differ_are_shown_both, listen_to_log,
                                        listen_no_more),
        cmocka_unit_test_setup_teardown(calls_that_differ_in_a_later_use_are_shown_both,
                                        listen_to_log, listen_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
