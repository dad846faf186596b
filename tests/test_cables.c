/* test_cables.c - groups that are told which RDMA devices lead where. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120, needs libcjson */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "support/world.h"

#define MESH2 "[[null, \"none0\"], [\"none1\", null]]"
#define MESH4                                                                                      \
    "[[null, \"a\", \"a\", \"a\"], [\"a\", null, \"a\", \"a\"], [\"a\", \"a\", null, \"a\"], "     \
    "[\"a\", \"a\", \"a\", null]]"

/* A group whose devices nobody has: it goes over TCP, or memory, and works all the same. */
static void open_world(struct world *world, int size, const char *devices, int ring)
{
    tc_future *futures[WORLD_MAX];
    char url[64];
    int fd = world_listen(url, sizeof(url));

    *world = (struct world){.size = size};
    for (int r = 0; r < size; r++) {
        tc_dist_options options;

        assert_int_equal(tc_init(&world->context[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = size;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        options.rdma_devices = devices;
        options.rdma_ring = ring;
        futures[r] = tc_dist_init_async(world->context[r], &options, &world->group[r]);
    }
    for (int r = 0; r < size; r++) {
        if (tc_future_wait(futures[r], 60000) != TC_OK)
            fail_msg("rank %d: %s", r, tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
    }
}

static void check_sum(struct world *world, uint64_t tag)
{
    tc_future *futures[WORLD_MAX];
    float data[WORLD_MAX][5];

    for (int r = 0; r < world->size; r++) {
        for (int i = 0; i < 5; i++)
            data[r][i] = (float)(r + i);
        futures[r] = tc_allreduce_async(world->group[r], tag, data[r], data[r], 5, TC_DTYPE_F32,
                                        TC_REDUCE_SUM, NULL);
    }
    for (int r = 0; r < world->size; r++) {
        assert_int_equal(world_wait(world, futures[r]), TC_OK);
        tc_future_release(futures[r]);
        for (int i = 0; i < 5; i++)
            assert_true(data[r][i] ==
                        (float)(world->size * i + world->size * (world->size - 1) / 2));
    }
}

static void devices_that_nobody_has_leave_the_group_to_tcp(void **state)
{
    struct world world;

    (void)state;
    tc_log_set_level(TC_LOG_ERROR);
    open_world(&world, 2, MESH2, 0);
    check_sum(&world, 1);
    world_close(&world);
}

static const char *chosen(struct world *world, const char *collective)
{
    const char *name =
        tc_algorithm(world->group[0], collective, 1 << 20, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);

    assert_non_null(name);
    return name;
}

static void a_ring_takes_plans_along_it_and_others_where_there_are_none(void **state)
{
    struct world world;

    (void)state;
    tc_log_set_level(TC_LOG_ERROR);
    open_world(&world, 4, MESH4, 1);
    assert_string_equal(chosen(&world, "allreduce"), "wide_chain");
    assert_string_equal(chosen(&world, "allgather"), "ring");
    assert_string_equal(chosen(&world, "broadcast"), "chain");
    assert_string_not_equal(chosen(&world, "alltoall"), "ring");
    check_sum(&world, 1);
    world_close(&world);

    open_world(&world, 4, MESH4, 0);
    assert_string_not_equal(chosen(&world, "allgather"), "chain");
    check_sum(&world, 1);
    world_close(&world);
}

static void a_matrix_that_does_not_fit_is_refused(void **state)
{
    static const struct {
        const char *devices, *words;
    } rows[] = {
        {MESH4, "has rows for 4 ranks, and the group has 2"},
        {"[[null, 7], [\"a\", null]]", "the device file (given as text): cell [0][1]"},
        {"/nowhere/devices.json", "the device file /nowhere/devices.json: No such file"},
        {"", "the device file"},
    };
    tc_context *context;
    tc_dist_ctx *group = NULL;
    tc_dist_options options;

    (void)state;
    assert_int_equal(tc_init(&context), TC_OK);
    tc_dist_options_default(&options);
    options.world_size = 2;
    options.rendezvous_url = "rdma://127.0.0.1:1";
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        tc_future *future;

        options.rdma_devices = rows[k].devices;
        future = tc_dist_init_async(context, &options, &group);
        assert_int_equal(tc_future_wait(future, 10000), TC_ERR_INVALID_ARG);
        if (strstr(tc_future_error(future)->message, rows[k].words) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", rows[k].words, tc_future_error(future)->message);
        tc_future_release(future);
    }
    assert_int_equal(tc_shutdown(context), TC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_that_nobody_has_leave_the_group_to_tcp),
        cmocka_unit_test(a_ring_takes_plans_along_it_and_others_where_there_are_none),
        cmocka_unit_test(a_matrix_that_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
