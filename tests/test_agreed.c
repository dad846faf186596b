/* test_agreed.c - what all ranks must share is rank 0's setting, by field or by environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/comm.h"
#include "support/world.h"

enum { RANKS = 3, COUNT = 3000 };

struct settings {
    int numerics, check;
    const char *algorithm;
    size_t segment_bytes, eager_bytes;
    const char *hosts;
};

static void finish(tc_future *future)
{
    if (tc_future_wait(future, 60000) != TC_OK)
        fail_msg("%s", tc_future_error(future)->message);
    tc_future_release(future);
}

/* Rank 0 has one opinion, the others have another; NULL: the environment's. */
static void open_world(struct world *world, const struct settings *first,
                       const struct settings *others)
{
    tc_future *futures[RANKS];
    char url[64];
    int fd = world_listen(url, sizeof(url));

    memset(world, 0, sizeof(*world));
    world->size = RANKS;
    for (int r = 0; r < RANKS; r++) {
        const struct settings *mine = r == 0 ? first : others;
        tc_dist_options options;
        tc_config config;

        tc_config_default(&config);
        config.loop_mode = TC_LOOP_THREAD;
        if (mine != NULL) {
            config.numerics = mine->numerics;
            config.check = mine->check;
            config.algorithm = mine->algorithm;
            config.segment_bytes = mine->segment_bytes;
            config.eager_bytes = mine->eager_bytes;
            config.hosts = mine->hosts;
        }
        assert_int_equal(tc_init_config(&config, &world->context[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = RANKS;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(world->context[r], &options, &world->group[r]);
    }
    for (int r = 0; r < RANKS; r++)
        finish(futures[r]);
}

/* Sums 2^30 + 1 - 2^30: 1 when folded in a wide accumulator, 0 where the ring rounds in between.
 * Gives how many elements are not 1; all ranks have the same bits. */
static int rounded(struct world *world, const tc_options *options)
{
    static float data[RANKS][COUNT];
    tc_future *futures[RANKS];
    int others = 0;

    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < COUNT; i++)
            data[r][i] = r == 1 ? 1.0f : r == 0 ? 0x1p30f : -0x1p30f;
        futures[r] = tc_allreduce_async(world->group[r], 3, data[r], data[r], COUNT, TC_DTYPE_F32,
                                        TC_REDUCE_SUM, options);
    }
    for (int r = 0; r < RANKS; r++)
        finish(futures[r]);
    for (int r = 1; r < RANKS; r++)
        assert_memory_equal(data[0], data[r], sizeof(data[0]));
    for (int i = 0; i < COUNT; i++)
        others += data[0][i] != 1.0f;
    return others;
}

static void the_numerics_and_the_algorithm_are_rank_0s(void **state)
{
    const struct settings exact = {.numerics = TC_NUMERICS_CANONICAL, .algorithm = "oneshot"};
    const struct settings fast = {.numerics = TC_NUMERICS_FAST, .algorithm = "ring"};
    struct world world;

    (void)state;
    open_world(&world, &exact, &fast);
    assert_int_equal(rounded(&world, NULL), 0);
    world_close(&world);
    open_world(&world, &fast, &exact);
    assert_int_not_equal(rounded(&world, NULL), 0);
    world_close(&world);
}

static void the_check_of_calls_is_rank_0s(void **state)
{
    const struct settings full = {.numerics = TC_NUMERICS_FAST, .check = TC_CHECK_FULL};
    const struct settings cheap = {.numerics = TC_NUMERICS_FAST, .check = TC_CHECK_CHEAP};
    struct world world;

    (void)state;
    for (int check = TC_CHECK_CHEAP; check <= TC_CHECK_FULL; check++) {
        bool is_full = check == TC_CHECK_FULL;

        open_world(&world, is_full ? &full : &cheap, is_full ? &cheap : &full);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(tci_comm_of(world.group[r])->check, check);
            assert_int_equal(tci_comm_of(world.group[r])->numerics, TC_NUMERICS_FAST);
        }
        world_close(&world);
    }
}

static void the_sizes_of_pieces_are_rank_0s(void **state)
{
    const struct settings small = {.segment_bytes = 64, .eager_bytes = 16};
    const struct settings large = {.segment_bytes = 1 << 20, .eager_bytes = 1 << 16};
    struct world world;

    (void)state;
    open_world(&world, &small, &large);
    assert_int_equal(rounded(&world, NULL), 0);
    world_close(&world);
    open_world(&world, &large, &small);
    assert_int_equal(rounded(&world, NULL), 0);
    world_close(&world);
}

/* "0 0 1": the host of each rank, as every rank has it. */
static void check_hosts(struct world *world, const uint32_t expected[RANKS])
{
    for (int r = 0; r < RANKS; r++) {
        const struct tci_hosts *hosts = tci_comm_of(world->group[r])->hosts;

        assert_non_null(hosts);
        assert_memory_equal(hosts->host, expected, RANKS * sizeof(*expected));
    }
}

static void the_hosts_are_rank_0s_or_found_out(void **state)
{
    static const struct {
        struct settings first, others;
        uint32_t hosts[RANKS];
    } rows[] = {{{.hosts = "2,1"}, {.hosts = "1*3"}, {0, 0, 1}},
                {{.hosts = "1*3"}, {.hosts = NULL}, {0, 1, 2}},
                {{.hosts = "=7,3,7"}, {.hosts = "auto"}, {0, 1, 0}},
                {{.hosts = "auto"}, {.hosts = "1*3"}, {0, 0, 0}}};
    struct world world;
    tc_options options;

    (void)state;
    tc_options_default(&options);
    options.numerics = TC_NUMERICS_FAST;
    options.algorithm = "two_level";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        open_world(&world, &rows[i].first, &rows[i].others);
        check_hosts(&world, rows[i].hosts);
        (void)rounded(&world, &options);
        world_close(&world);
    }
}

static void hosts_for_another_number_of_ranks_are_refused(void **state)
{
    tc_context *context = NULL;
    tc_dist_ctx *group = NULL;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.hosts = "4,4";
    assert_int_equal(tc_init_config(&config, &context), TC_OK);
    assert_int_equal(tc_dist_init(context, TC_DIST_ANY, 3, 0, "tcp://127.0.0.1:1", &group),
                     TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "\"4,4\" are for 8 ranks"));
    assert_null(group);
    tc_shutdown(context);
}

static void an_option_goes_before_the_default(void **state)
{
    const struct settings exact = {.numerics = TC_NUMERICS_CANONICAL};
    const struct settings fast = {.numerics = TC_NUMERICS_FAST, .algorithm = "ring"};
    struct world world;
    tc_options options;

    (void)state;
    tc_options_default(&options);
    options.numerics = TC_NUMERICS_FAST;
    options.algorithm = "ring";
    open_world(&world, &exact, &exact);
    assert_int_not_equal(rounded(&world, &options), 0);
    assert_int_equal(rounded(&world, NULL), 0);
    world_close(&world);

    options.numerics = TC_NUMERICS_CANONICAL;
    options.algorithm = "direct";
    open_world(&world, &fast, &fast);
    assert_int_equal(rounded(&world, &options), 0);
    options.algorithm = NULL; /* the default's ring cannot keep rank order: another is taken */
    assert_int_equal(rounded(&world, &options), 0);
    world_close(&world);
}

static void the_environment_gives_the_defaults(void **state)
{
    struct world world;

    (void)state;
    setenv("TCDIST_NUMERICS", "fast", 1);
    setenv("TCDIST_ALGORITHM", "ring", 1);
    open_world(&world, NULL, NULL);
    assert_int_not_equal(rounded(&world, NULL), 0);
    world_close(&world);
    setenv("TCDIST_NUMERICS", "canonical", 1);
    open_world(&world, NULL, NULL);
    assert_int_equal(rounded(&world, NULL), 0);
    world_close(&world);
    unsetenv("TCDIST_NUMERICS");
    unsetenv("TCDIST_ALGORITHM");
}

static void a_bad_default_is_refused_and_its_variable_named(void **state)
{
    tc_context *context = NULL;

    (void)state;
    setenv("TCDIST_ALGORITHM", "magic", 1);
    assert_int_equal(tc_init(&context), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "TCDIST_ALGORITHM is \"magic\""));
    assert_non_null(strstr(tc_last_error()->message, "ring"));
    unsetenv("TCDIST_ALGORITHM");
    setenv("TCDIST_NUMERICS", "sloppy", 1);
    assert_int_equal(tc_init(&context), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "TCDIST_NUMERICS is \"sloppy\""));
    assert_non_null(strstr(tc_last_error()->message, "canonical, fast or exact"));
    unsetenv("TCDIST_NUMERICS");
    assert_null(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numerics_and_the_algorithm_are_rank_0s),
        cmocka_unit_test(the_check_of_calls_is_rank_0s),
        cmocka_unit_test(the_sizes_of_pieces_are_rank_0s),
        cmocka_unit_test(the_hosts_are_rank_0s_or_found_out),
        cmocka_unit_test(hosts_for_another_number_of_ranks_are_refused),
        cmocka_unit_test(an_option_goes_before_the_default),
        cmocka_unit_test(the_environment_gives_the_defaults),
        cmocka_unit_test(a_bad_default_is_refused_and_its_variable_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
