/* test_sim_judges.c - what a judge learns at the last moment, or has not asked, misleads nobody. */
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
#include "core/ruling.h"
#include "sim/world_sim.h"

enum { RANKS = 5, COUNT = 30000, TIMEOUT_MS = 1000 };

struct scene {
    struct sim_world *world;
    uint64_t live;
    tc_future *futures[RANKS];
    float *data;
};

static void scene_open(struct scene *scene)
{
    struct sim_world_config config;

    memset(scene, 0, sizeof(*scene));
    scene->live = tci_alloc_live();
    sim_world_config_default(&config);
    config.timeout_ms = TIMEOUT_MS;
    scene->world = sim_world_new(RANKS, &config);
    scene->data = calloc((size_t)RANKS * COUNT, sizeof(float));
    assert_non_null(scene->data);
}

static void scene_close(struct scene *scene)
{
    sim_world_free(scene->world);
    for (uint32_t r = 0; r < RANKS; r++)
        tc_future_release(scene->futures[r]);
    free(scene->data);
    assert_int_equal(tci_alloc_live(), scene->live);
}

static float *data_of(struct scene *scene, uint32_t rank)
{
    return scene->data + (size_t)rank * COUNT;
}

/* ---- A loop that goes on just before the ruling --------------------------------------------- */

static void say(struct tci_answers *answers, int rank, int waits_for)
{
    answers->said[rank].what = ENTERED;
    answers->said[rank].waits[0] = waits_for;
}

/* Rank 3 waits for rank 0, that for rank 1, and ranks 1 and 2 for each other: rank 2 has only begun
 * to go on. */
static void who_answers_at_the_last_moment_is_named(void **state)
{
    struct tci_answers *answers = tci_answers_new(4);
    struct tci_evidence evidence = {.size = 4,
                                    .judge = 0,
                                    .peer = TCI_ALL_PEERS,
                                    .timeout_ms = 1000,
                                    .name = "gather",
                                    .answers = answers};
    struct tci_ruling ruling;

    (void)state;
    assert_non_null(answers);
    say(answers, 0, 1);
    say(answers, 1, 2);
    say(answers, 2, 1);
    say(answers, 3, 0);
    answers->said[0].due_ns = 1;
    tci_rule(&evidence, &ruling);
    assert_int_equal(ruling.reason, TC_REASON_SLOW);
    assert_int_equal(ruling.culprit, 1); /* the end of the way: all have answered at once */
    answers->said[2].was_mute = true;
    tci_rule(&evidence, &ruling);
    assert_int_equal(ruling.reason, TC_REASON_SLOW);
    assert_int_equal(ruling.culprit, 2);
    assert_non_null(strstr(ruling.text, "rank 2 has answered only at the end"));
    answers->said[2].is_flowing = true; /* its answer came behind data */
    tci_rule(&evidence, &ruling);
    assert_int_equal(ruling.culprit, 1);
    tci_free(answers);
}

/* ---- A dead path to a third rank ------------------------------------------------------------ */

static void receive(struct scene *scene, uint32_t rank, int from)
{
    scene->futures[rank] = tc_recv_async(sim_group(scene->world, rank), 7, data_of(scene, rank),
                                         COUNT, TC_DTYPE_F32, from, NULL);
}

static void receive_from_0(void *arg)
{
    receive(arg, 1, 0);
}

/* Ranks 0 and 1 do not hear each other.  Rank 2 waits for rank 1, which waits for rank 0 since
 * later: so it is judged first whether rank 1 keeps rank 2 waiting. */
static void wait_behind(uint64_t later_ns)
{
    struct scene scene;

    scene_open(&scene);
    sim_world_break_at(scene.world, 0, 1, 1, TCI_NEVER);
    sim_world_break_at(scene.world, 1, 0, 1, TCI_NEVER);
    receive(&scene, 2, 1);
    sim_world_at(scene.world, 1, later_ns, receive_from_0, &scene);
    sim_world_idle(scene.world);
    for (uint32_t r = 1; r <= 2; r++) {
        const tc_error *error = tc_future_error(scene.futures[r]);

        assert_non_null(error);
        if (error->rank != 1 || tc_error_reason(error) != TC_REASON_LINK_DEAD)
            fail_msg("rank %u, with %.3f ms between: %s", r, (double)later_ns * 1e-6,
                     error->message);
    }
    scene_close(&scene);
}

static void a_dead_path_to_a_third_rank_is_not_taken_for_its_silence(void **state)
{
    (void)state;
    for (uint64_t later_ms = 0; later_ms < 400; later_ms += 5)
        wait_behind(2 + later_ms * TCI_NS_PER_MS);
}

/* ---- A host of which some cannot tell yet ---------------------------------------------------- */

enum { MANY = 8 };
struct entrant {
    struct sim_world *world;
    uint32_t rank;
    tc_future *future;
};

static void enter_barrier(void *arg)
{
    struct entrant *self = arg;

    self->future = tc_barrier_async(sim_group(self->world, self->rank), 1, NULL);
}

/* Nothing comes from rank 0 any more.  Its acknowledgements have taken long before: who has
 * listened for a moment does not know by then whether one is still to come. */
static void fall_silent(uint32_t size, uint64_t patience_ms)
{
    struct sim_world_config config;
    struct entrant ranks[RANKS];
    struct sim_world *world;

    sim_world_config_default(&config);
    config.timeout_ms = 3000;
    config.net.patience_ns = patience_ms * TCI_NS_PER_MS;
    world = sim_world_new(size, &config);
    for (uint32_t r = 1; r < size; r++)
        sim_world_break_at(world, 0, r, 1, TCI_NEVER);
    for (uint32_t r = 0; r < size; r++) {
        ranks[r] = (struct entrant){.world = world, .rank = r};
        sim_world_at(world, r, 2, enter_barrier, &ranks[r]);
    }
    sim_world_idle(world);
    for (uint32_t r = 1; r < size; r++) {
        const tc_error *error = tc_future_error(ranks[r].future);

        assert_non_null(error);
        if (error->rank != 0 || tc_error_reason(error) != TC_REASON_MACHINE_SILENT)
            fail_msg("rank %u of %u, which misses an acknowledgement after %llu ms: %s", r, size,
                     (unsigned long long)patience_ms, error->message);
    }
    sim_world_free(world);
    for (uint32_t r = 0; r < size; r++)
        tc_future_release(ranks[r].future);
}

static void who_cannot_tell_yet_whether_a_host_is_heard_says_nothing(void **state)
{
    (void)state;
    for (uint32_t size = 3; size <= RANKS; size++)
        for (uint64_t patience_ms = 0; patience_ms <= 400; patience_ms += 10)
            fall_silent(size, patience_ms);
}

/* All enter a barrier, which fails on all but the one that is at fault as it should. */
static void enter_and_fail(struct sim_world *world, struct entrant *ranks, uint32_t size,
                           int culprit, tc_reason_t reason)
{
    for (uint32_t r = 0; r < size; r++) {
        ranks[r] = (struct entrant){.world = world, .rank = r};
        sim_world_at(world, r, 2, enter_barrier, &ranks[r]);
    }
    sim_world_idle(world);
    for (uint32_t r = 0; r < size; r++) {
        const tc_error *error = tc_future_error(ranks[r].future);

        if ((int)r == culprit)
            continue;
        assert_non_null(error);
        if (error->rank != culprit || tc_error_reason(error) != reason)
            fail_msg("rank %u: %s", r, error->message);
    }
    sim_world_free(world);
    for (uint32_t r = 0; r < size; r++)
        tc_future_release(ranks[r].future);
}

/* Rank 3 is stuck, and its host answers rank 0, which judges.  What the host of rank 3 owes rank 1,
 * which waits for it too, comes only when rank 1 has listened: that path is not dead. */
static void a_late_acknowledgement_is_no_dead_path(void **state)
{
    struct entrant ranks[4];
    struct sim_world_config config;
    struct sim_world *world;

    (void)state;
    sim_world_config_default(&config);
    config.timeout_ms = 3000;
    config.net.patience_ns = 1000 * TCI_NS_PER_MS;
    world = sim_world_new(4, &config);
    sim_world_stall_at(world, 3, 1, 10000 * TCI_NS_PER_MS);
    sim_world_break_at(world, 1, 3, 2200 * TCI_NS_PER_MS, 600 * TCI_NS_PER_MS);
    enter_and_fail(world, ranks, 4, 3, TC_REASON_LOOP_STALLED);
}

/* Rank 0 does not hear rank 7, which is stuck, while it asks the others, and rank 2 has to be
 * linked with rank 7 to tell.  What is lost on a link that was not there tells nothing. */
static void what_is_lost_on_a_new_link_is_no_dead_path(void **state)
{
    struct entrant ranks[MANY];
    struct sim_world_config config;
    struct sim_world *world;

    (void)state;
    sim_world_config_default(&config);
    config.timeout_ms = 3000;
    config.net.is_sparse = true;
    world = sim_world_new(MANY, &config);
    sim_world_stall_at(world, MANY - 1, 1, 10000 * TCI_NS_PER_MS);
    sim_world_break_at(world, 0, MANY - 1, 2200 * TCI_NS_PER_MS, 600 * TCI_NS_PER_MS);
    sim_world_break_at(world, 2, MANY - 1, 1, TCI_NEVER);
    enter_and_fail(world, ranks, MANY, MANY - 1, TC_REASON_LOOP_STALLED);
}

/* The network falls apart.  Of the upper half only rank 4 turns when it is to be said why: the
 * hosts of the others answer, and so rank 4 knows that it is not the one that is cut off. */
static void who_hears_a_host_is_not_cut_off(void **state)
{
    struct entrant ranks[MANY];
    struct sim_world_config config;
    struct sim_world *world;

    (void)state;
    sim_world_config_default(&config);
    config.timeout_ms = 3000;
    world = sim_world_new(MANY, &config);
    for (uint32_t r = 0; r < MANY / 2; r++)
        for (uint32_t other = MANY / 2; other < MANY; other++) {
            sim_world_break_at(world, r, other, 1, TCI_NEVER);
            sim_world_break_at(world, other, r, 1, TCI_NEVER);
        }
    for (uint32_t r = 0; r < MANY; r++) {
        ranks[r] = (struct entrant){.world = world, .rank = r};
        sim_world_at(world, r, 2, enter_barrier, &ranks[r]);
        if (r > MANY / 2)
            sim_world_stall_at(world, r, 2000 * TCI_NS_PER_MS, 2000 * TCI_NS_PER_MS);
    }
    sim_world_idle(world);
    for (uint32_t r = MANY / 2; r < MANY; r++) {
        const tc_error *error = tc_future_error(ranks[r].future);

        assert_non_null(error);
        if (error->rank != 0 || tc_error_reason(error) != TC_REASON_MACHINE_SILENT)
            fail_msg("rank %u: %s", r, error->message);
    }
    sim_world_free(world);
    for (uint32_t r = 0; r < MANY; r++)
        tc_future_release(ranks[r].future);
}

/* ---- How soon ------------------------------------------------------------------------------- */

/* Rank 1 is held up as it is to ask rank 0, which has not entered, to judge: so the time that it
 * has left, which it tells in milliseconds, is no whole number of them. */
static void no_operation_ends_before_its_deadline(void **state)
{
    const uint64_t deadline_ns = 3000 * TCI_NS_PER_MS;
    struct entrant ranks[3];
    struct sim_world_config config;
    struct sim_world *world;

    (void)state;
    sim_world_config_default(&config);
    config.timeout_ms = 3000;
    world = sim_world_new(3, &config);
    for (uint32_t r = 1; r < 3; r++) {
        ranks[r] = (struct entrant){.world = world, .rank = r};
        enter_barrier(&ranks[r]);
    }
    sim_world_stall_at(world, 1, 2000 * TCI_NS_PER_MS, 500 * TCI_NS_PER_MS + TCI_NS_PER_MS / 2);
    assert_false(sim_world_run(world, &ranks[1].future, 1, deadline_ns - 1));
    assert_int_equal(tc_future_test(ranks[2].future), TC_PENDING);
    assert_true(sim_world_run(world, &ranks[1].future, 1, deadline_ns + 10 * TCI_NS_PER_MS));
    assert_int_equal(tc_error_reason(tc_future_error(ranks[1].future)), TC_REASON_NOT_ENTERED);
    sim_world_free(world);
    for (uint32_t r = 1; r < 3; r++)
        tc_future_release(ranks[r].future);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_answers_at_the_last_moment_is_named),
        cmocka_unit_test(a_dead_path_to_a_third_rank_is_not_taken_for_its_silence),
        cmocka_unit_test(who_cannot_tell_yet_whether_a_host_is_heard_says_nothing),
        cmocka_unit_test(a_late_acknowledgement_is_no_dead_path),
        cmocka_unit_test(what_is_lost_on_a_new_link_is_no_dead_path),
        cmocka_unit_test(who_hears_a_host_is_not_cut_off),
        cmocka_unit_test(no_operation_ends_before_its_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
