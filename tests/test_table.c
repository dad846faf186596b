/* test_table.c - tables of choices: rank 0's counts for all, and what is none is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/world.h"

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

enum { RANKS = 3 };

#define HEAD "{\"tcdist_choices\": 1, \"ranks\": 3, \"choices\": ["
#define LINE(collective, numerics, bytes, algorithm)                                               \
    "{\"collective\": \"" collective "\", \"numerics\": \"" numerics "\", \"bytes\": " bytes       \
    ", \"algorithm\": \"" algorithm "\"}"

static void write_file(char *path, size_t room, const char *text)
{
    FILE *file;
    int fd;

    snprintf(path, room, "/tmp/tcdist-table-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    file = fdopen(fd, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Rank 0 has one opinion, the others have another. */
static void open_world(struct world *world, const char *first, const char *others)
{
    tc_future *futures[RANKS];
    char url[64];
    int fd = world_listen(url, sizeof(url));

    memset(world, 0, sizeof(*world));
    world->size = RANKS;
    for (int r = 0; r < RANKS; r++) {
        tc_dist_options options;
        tc_config config;

        tc_config_default(&config);
        config.loop_mode = TC_LOOP_THREAD;
        config.tune = r == 0 ? first : others;
        assert_int_equal(tc_init_config(&config, &world->context[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = RANKS;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(world->context[r], &options, &world->group[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        if (tc_future_wait(futures[r], 60000) != TC_OK)
            fail_msg("rank %d: %s", r, tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
    }
}

static const char *said(struct world *world, int rank, const char *collective, size_t count,
                        int numerics)
{
    tc_options options;
    const char *name;

    tc_options_default(&options);
    options.numerics = numerics;
    name =
        tc_algorithm(world->group[rank], collective, count, TC_DTYPE_F32, TC_REDUCE_SUM, &options);
    assert_non_null(name);
    return name;
}

/* The sum of what the ranks give, whatever carries it out. */
static void check_sum(struct world *world, uint64_t tag, size_t count)
{
    static float data[RANKS][5000];
    tc_future *futures[RANKS];

    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < count; i++)
            data[r][i] = (float)(r + 1);
        futures[r] = tc_allreduce_async(world->group[r], tag, data[r], data[r], count, TC_DTYPE_F32,
                                        TC_REDUCE_SUM, NULL);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(tc_future_wait(futures[r], 60000), TC_OK);
        tc_future_release(futures[r]);
        assert_true(data[r][count - 1] == 6);
    }
}

static void the_ways_to_choose_are_rank_0s(void **state)
{
    static const char *const ways[] = {"off", "auto", "measure"};

    (void)state;
    for (size_t a = 0; a < 3; a++)
        for (size_t b = 0; b < 3; b++) {
            struct world world;

            open_world(&world, ways[a], ways[b]);
            for (size_t count = 1; count < 5000; count *= 4)
                for (int r = 1; r < RANKS; r++)
                    assert_string_equal(said(&world, r, "allreduce", count, TC_NUMERICS_FAST),
                                        said(&world, 0, "allreduce", count, TC_NUMERICS_FAST));
            check_sum(&world, 1, 3000);
            world_close(&world);
        }
}

#ifdef HAS_CJSON

static void a_table_of_rank_0_counts_for_all(void **state)
{
    struct world world;
    char path[64];

    (void)state;
    write_file(
        path, sizeof(path),
        HEAD LINE("allreduce", "canonical", "0", "direct") "," LINE(
            "allreduce", "canonical", "4096",
            "oneshot") "," LINE("allreduce", "fast", "0", "ring") "," LINE("broadcast", "canonical",
                                                                           "1000", "chain") "]}");
    open_world(&world, path, "off");
    for (int r = 0; r < RANKS; r++) {
        assert_string_equal(said(&world, r, "allreduce", 16, 0), "direct");
        assert_string_equal(said(&world, r, "allreduce", 1023, 0), "direct");
        assert_string_equal(said(&world, r, "allreduce", 1024, 0), "oneshot");
        assert_string_equal(said(&world, r, "allreduce", 1 << 24, 0), "oneshot");
        assert_string_equal(said(&world, r, "allreduce", 1, TC_NUMERICS_FAST), "ring");
        assert_string_equal(said(&world, r, "broadcast", 100000, 0), "chain");
    }
    check_sum(&world, 1, 16);
    check_sum(&world, 2, 3000);
    world_close(&world);
    unlink(path);
}

/* What was not measured is not guessed from what was. */
static void above_its_end_a_table_leaves_the_choice_to_the_model(void **state)
{
    struct world world, plain;
    char path[64];

    (void)state;
    write_file(path, sizeof(path),
               HEAD LINE("allreduce", "fast", "0", "oneshot") "," LINE("allreduce", "fast", "4097",
                                                                       "model") "]}");
    open_world(&world, path, "off");
    open_world(&plain, "off", "off");
    for (int r = 0; r < RANKS; r++) {
        const char *chosen = said(&plain, r, "allreduce", 1 << 24, TC_NUMERICS_FAST);

        assert_string_not_equal(chosen, "oneshot");
        assert_string_equal(said(&world, r, "allreduce", 1 << 24, TC_NUMERICS_FAST), chosen);
        assert_string_equal(said(&world, r, "allreduce", 1024, TC_NUMERICS_FAST), "oneshot");
    }
    check_sum(&world, 1, 3000);
    world_close(&plain);
    world_close(&world);
    unlink(path);
}

/* What a plan cannot keep is not done, table or not: the model chooses. */
static void a_line_that_breaks_a_promise_does_not_count(void **state)
{
    struct world world;
    char path[64];

    (void)state;
    write_file(path, sizeof(path), HEAD LINE("allreduce", "canonical", "0", "ring") "]}");
    open_world(&world, path, NULL);
    for (int r = 0; r < RANKS; r++)
        assert_string_equal(said(&world, r, "allreduce", 16, 0), "oneshot");
    check_sum(&world, 1, 16);
    world_close(&world);
    unlink(path);
}

static void a_table_of_other_ranks_gives_its_figures_alone(void **state)
{
    struct world world;
    char path[64];

    (void)state;
    write_file(path, sizeof(path),
               "{\"tcdist_choices\": 1, \"ranks\": 2, \"figures\": {\"local\": {\"latency_ps\": 9, "
               "\"overhead_ps\": 1000000000, \"byte_fs\": 1}}, \"choices\": [" LINE(
                   "allreduce", "fast", "0", "chain") "]}");
    open_world(&world, path, NULL);
    for (int r = 0; r < RANKS; r++)
        assert_string_equal(said(&world, r, "allreduce", 1 << 20, TC_NUMERICS_CANONICAL),
                            "oneshot"); /* where a message is all that costs */
    world_close(&world);
    unlink(path);
}

static void refused(const char *text, const char *says)
{
    tc_context *context = NULL;
    tc_config config;
    char path[64];

    write_file(path, sizeof(path), text);
    tc_config_default(&config);
    config.tune = path;
    assert_int_equal(tc_init_config(&config, &context), TC_ERR_INVALID_ARG);
    assert_null(context);
    if (strstr(tc_last_error()->message, says) == NULL ||
        strstr(tc_last_error()->message, path) == NULL)
        fail_msg("%s\nsays: %s\nnot: %s", text, tc_last_error()->message, says);
    unlink(path);
}

static void what_is_no_table_is_refused_in_words(void **state)
{
    char *deep = malloc(100001);

    (void)state;
    assert_non_null(deep);
    memset(deep, '[', 100000);
    deep[100000] = '\0';
    refused("", "no JSON object");
    refused(deep, "no JSON object");
    refused("[]", "no JSON object");
    refused("{\"tcdist_choices\": 2}", "must be 1");
    refused("{\"tcdist_choices\": 1, \"ranks\": 0, \"choices\": []}", "ranks must be");
    refused("{\"tcdist_choices\": 1, \"ranks\": 2.5, \"choices\": []}", "ranks must be");
    refused("{\"tcdist_choices\": 1, \"ranks\": 1e300, \"choices\": []}", "ranks must be");
    refused("{\"tcdist_choices\": 1, \"ranks\": 3}", "choices must be");
    refused("{\"tcdist_choices\": 1, \"ranks\": 3, \"figures\": 3, \"choices\": []}", "figures");
    refused("{\"tcdist_choices\": 1, \"ranks\": 3, \"figures\": {\"local\": {\"latency_ps\": -1, "
            "\"overhead_ps\": 0, \"byte_fs\": 0}}, \"choices\": []}",
            "figures");
    refused(HEAD "7]}", "choices[0]: collective");
    refused(HEAD LINE("send", "fast", "0", "send") "]}", "choices[0]: collective");
    refused(HEAD LINE("allreduce", "fast", "0", "rings") "]}", "choices[0]: algorithm");
    refused(HEAD LINE("allreduce", "quick", "0", "ring") "]}", "choices[0]: numerics");
    refused(HEAD LINE("allreduce", "fast", "-1", "ring") "]}", "choices[0]: bytes");
    refused(HEAD LINE("allreduce", "fast", "1e30", "ring") "]}", "choices[0]: bytes");
    refused(
        HEAD LINE("allreduce", "fast", "8", "ring") "," LINE("allreduce", "fast", "8", "tree") "]}",
        "choices[1]: bytes must ascend");
    free(deep);
}

#endif

static void a_file_that_is_not_there_is_named(void **state)
{
    tc_context *context = NULL;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.tune = "/nowhere/at/all";
    assert_int_not_equal(tc_init_config(&config, &context), TC_OK);
    assert_non_null(strstr(tc_last_error()->message, "/nowhere/at/all"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ways_to_choose_are_rank_0s),
#ifdef HAS_CJSON
        cmocka_unit_test(a_table_of_rank_0_counts_for_all),
        cmocka_unit_test(above_its_end_a_table_leaves_the_choice_to_the_model),
        cmocka_unit_test(a_line_that_breaks_a_promise_does_not_count),
        cmocka_unit_test(a_table_of_other_ranks_gives_its_figures_alone),
        cmocka_unit_test(what_is_no_table_is_refused_in_words),
#endif
        cmocka_unit_test(a_file_that_is_not_there_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
