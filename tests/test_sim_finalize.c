/* test_sim_finalize.c - all that finalize a group which one has not come to name that one. */
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

enum { RANKS = 4, TIMEOUT_MS = 1000 };

struct scene {
    struct sim_world *world;
    uint64_t live;
    tc_dist_ctx *groups[RANKS]; /* also of those that have begun to leave */
    tc_future *left[RANKS];
};

struct comer {
    struct scene *scene;
    uint32_t rank;
};

static void scene_open(struct scene *scene)
{
    struct sim_world_config config;

    memset(scene, 0, sizeof(*scene));
    scene->live = tci_alloc_live();
    sim_world_config_default(&config);
    config.timeout_ms = TIMEOUT_MS;
    config.has_groups = true;
    scene->world = sim_world_new(RANKS, &config);
    assert_non_null(scene->world);
    for (uint32_t r = 0; r < RANKS; r++)
        scene->groups[r] = sim_group(scene->world, r);
}

static void scene_close(struct scene *scene)
{
    sim_world_idle(scene->world);
    sim_world_free(scene->world);
    for (uint32_t r = 0; r < RANKS; r++)
        tc_future_release(scene->left[r]);
    assert_int_equal(tci_alloc_live(), scene->live);
}

static void come(void *arg)
{
    struct comer *comer = arg;
    struct scene *scene = comer->scene;

    scene->left[comer->rank] = tc_dist_finalize_async(scene->groups[comer->rank]);
}

static void names(const struct scene *scene, uint32_t rank, uint32_t missing)
{
    const tc_error *error = tc_future_error(scene->left[rank]);
    char says[64];

    snprintf(says, sizeof(says), "rank %u has not entered it within", missing);
    assert_non_null(error);
    if (error->status != TC_ERR_TIMEOUT || error->rank != (int)missing ||
        tc_error_reason(error) != TC_REASON_NOT_ENTERED || strstr(error->message, says) == NULL)
        fail_msg("rank %u names rank %d (%s, %s): %s", rank, error->rank,
                 tc_status_string(error->status), tc_reason_string(tc_error_reason(error)),
                 error->message);
}

/* One path takes longer just when the end is told, so that the word of somebody who has left by
 * that end, or of who has heard of it, comes first. */
static void name_a_missing_rank(uint32_t missing, uint32_t from, uint32_t to)
{
    struct scene scene;
    struct comer comers[RANKS];
    uint64_t end_ns = (uint64_t)TIMEOUT_MS * TCI_NS_PER_MS;

    scene_open(&scene);
    for (uint32_t r = 0; r < RANKS; r++) {
        comers[r] = (struct comer){&scene, r};
        if (r != missing)
            come(&comers[r]);
    }
    sim_world_delay_at(scene.world, from, to, end_ns - 10 * TCI_NS_PER_MS, 20 * TCI_NS_PER_MS);
    sim_world_at(scene.world, missing, 2 * end_ns, come, &comers[missing]);
    sim_world_idle(scene.world);
    for (uint32_t r = 0; r < RANKS; r++)
        names(&scene, r, missing);
    scene_close(&scene);
}

static void all_that_finalize_name_the_missing_rank(void **state)
{
    (void)state;
    for (uint32_t missing = 0; missing < RANKS; missing++)
        for (uint32_t from = 0; from < RANKS; from++)
            for (uint32_t to = 0; to < RANKS; to++)
                if (from != to)
                    name_a_missing_rank(missing, from, to);
}

/* Two are missing: the lower one is named, by the other one too, which comes when all have left. */
static void who_comes_to_the_end_too_late_names_whom_the_others_have_named(void **state)
{
    uint64_t end_ns = (uint64_t)TIMEOUT_MS * TCI_NS_PER_MS;
    struct comer comers[RANKS];
    struct scene scene;

    (void)state;
    scene_open(&scene);
    for (uint32_t r = 0; r < RANKS; r++)
        comers[r] = (struct comer){&scene, r};
    come(&comers[0]);
    come(&comers[3]);
    sim_world_at(scene.world, 1, 2 * end_ns, come, &comers[1]);
    sim_world_at(scene.world, 2, 3 * end_ns, come, &comers[2]);
    sim_world_idle(scene.world);
    for (uint32_t r = 0; r < RANKS; r++)
        names(&scene, r, 1);
    scene_close(&scene);
}

/* What goes on in the group meanwhile fails since a rank has left, whose word says why. */
static void who_is_not_about_to_finalize_hears_why_a_rank_has_left(void **state)
{
    uint64_t end_ns = (uint64_t)TIMEOUT_MS * TCI_NS_PER_MS;
    struct comer comer;
    struct scene scene;
    tc_options patient;
    const tc_error *error;
    tc_future *barrier;

    (void)state;
    scene_open(&scene);
    comer = (struct comer){&scene, 0};
    come(&comer);
    tc_options_default(&patient);
    patient.timeout_ms = 60 * TIMEOUT_MS;
    barrier = tc_barrier_async(scene.groups[3], 7, &patient);
    assert_true(sim_world_run(scene.world, &barrier, 1, 2 * end_ns));
    error = tc_future_error(barrier);
    assert_int_equal(error->status, TC_ERR_PEER_LOST);
    assert_int_equal(error->rank, 0);
    assert_non_null(strstr(error->message, "rank 0 has finalized its group, and waits no longer: "
                                           "rank 2 has not entered it within 1000 ms"));
    tc_future_release(barrier);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_finalize_name_the_missing_rank),
        cmocka_unit_test(who_comes_to_the_end_too_late_names_whom_the_others_have_named),
        cmocka_unit_test(who_is_not_about_to_finalize_hears_why_a_rank_has_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
