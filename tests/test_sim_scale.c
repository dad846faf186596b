/* test_sim_scale.c - a thousand ranks, ten thousand, and a hundred thousand, in one process. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 900, single */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/base.h"
#include "sim/world_sim.h"
#include "support/world.h"

/* Of memory that a rank may take in one collective, whatever the number of ranks; direct plans and
 * others with a slot or a transfer a rank are tried with few. */
enum { RANK_BYTES_MAX = 96 << 10 };

struct trial {
    const char *name, *algorithm;
    uint32_t size, per_host; /* 0: all on one */
    size_t count;
    bool no_data, is_barrier;
    int numerics;
};

/* Of the processor. */
static double seconds(void)
{
    struct timespec now;

    /* Other programs may have it in between. */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static void start(struct sim_world *world, const struct trial *trial, tc_future **futures,
                  float *data)
{
    tc_options options;

    tc_options_default(&options);
    options.algorithm = trial->algorithm;
    options.numerics = trial->numerics;
    for (uint32_t r = 0; r < trial->size; r++) {
        float *own = data + (trial->no_data ? 0 : (size_t)r * trial->count);

        if (trial->is_barrier)
            futures[r] = tc_barrier_async(sim_group(world, r), 1, &options);
        else
            futures[r] = tc_allreduce_async(sim_group(world, r), 1, own, own, trial->count,
                                            TC_DTYPE_F32, TC_REDUCE_SUM, &options);
    }
}

static float input_of(uint32_t rank)
{
    return (float)(rank % 16);
}

static void check(const struct trial *trial, tc_future **futures, const float *data)
{
    float wanted = 0; /* exact: below 2^24 */

    for (uint32_t r = 0; r < trial->size; r++)
        wanted += input_of(r);
    for (uint32_t r = 0; r < trial->size; r++) {
        assert_int_equal(tc_future_test(futures[r]), TC_OK);
        for (size_t i = 0; !trial->no_data && i < trial->count; i++)
            assert_true(data[(size_t)r * trial->count + i] == wanted);
        tc_future_release(futures[r]);
    }
}

struct cost {
    size_t bytes; /* a rank */
    uint64_t virtual_ns, events;
    double seconds;
};

/* Carries one collective out. */
static struct cost carry_out(const struct trial *trial)
{
    double began = seconds();
    struct cost cost;
    size_t before = heap_bytes(), count = trial->no_data ? 1 : trial->size;
    tc_future **futures = calloc(trial->size, sizeof(*futures));
    float *data = calloc(count * trial->count + 1, sizeof(*data));
    uint64_t *hosts = calloc(trial->size, sizeof(*hosts));
    struct sim_world_config config;
    struct sim_world *world;

    assert_non_null(hosts);
    assert_non_null(futures);
    assert_non_null(data);
    for (size_t i = 0; !trial->no_data && i < count * trial->count; i++)
        data[i] = input_of((uint32_t)(i / trial->count));
    sim_world_config_default(&config);
    config.net.no_data = trial->no_data;
    config.timeout_ms = -1;
    for (uint32_t r = 0; r < trial->size && trial->per_host > 0; r++)
        hosts[r] = r / trial->per_host;
    config.hosts = hosts;
    world = sim_world_new(trial->size, &config);
    start(world, trial, futures, data);
    assert_true(sim_world_run(world, futures, trial->size, TCI_NEVER));
    cost.bytes = (heap_bytes() - before) / trial->size;
    check(trial, futures, data);
    cost.virtual_ns = world->clock.now_ns;
    cost.events = world->clock.events;
    cost.seconds = seconds() - began;
    print_message("%-28s %6u ranks: %9.3f ms virtual, %8llu events, %5.2f s, %5.2f M events/s, "
                  "%6zu bytes a rank\n",
                  trial->name, trial->size, (double)cost.virtual_ns * 1e-6,
                  (unsigned long long)cost.events, cost.seconds,
                  (double)cost.events / cost.seconds * 1e-6, cost.bytes);
    sim_world_free(world);
    free(hosts);
    free(data);
    free(futures);
    malloc_trim(0);
    return cost;
}

static void a_thousand_ranks_all_reduce(void **state)
{
    static const struct trial trials[] = {
        {.name = "tree, fast", .algorithm = "tree", .size = 1024, .count = 1024, .numerics = 2},
        {.name = "ring, fast, no data",
         .algorithm = "ring",
         .size = 1024,
         .count = 1 << 18,
         .no_data = true,
         .numerics = 2},
        {.name = "direct, canonical",
         .algorithm = "direct",
         .size = 1024,
         .count = 2048,
         .numerics = 1},
        {.name = "two-level, fast, 8 a host",
         .algorithm = "two_level",
         .size = 1024,
         .per_host = 8,
         .count = 1024,
         .numerics = 2},
        {.name = "dissemination barrier", .size = 1024, .is_barrier = true},
    };

    (void)state;
    for (size_t t = 0; t < TCI_LEN(trials); t++)
        carry_out(&trials[t]);
}

static void skip_unless_full(void)
{
    if (test_effort() < 2) {
        printf("skipped: takes a minute; TCDIST_TEST_EFFORT=full runs it\n");
        skip();
    }
}

/* What a rank needs does not grow with their number, or every simulation would end here. */
static void ten_thousand_ranks_fit_in_one_process(void **state)
{
    static const struct trial trials[] = {
        {.name = "dissemination barrier", .size = 10000, .is_barrier = true},
        {.name = "tree, fast", .algorithm = "tree", .size = 10000, .count = 256, .numerics = 2},
        {.name = "two-level, fast, 100 a host",
         .algorithm = "two_level",
         .size = 10000,
         .per_host = 100,
         .count = 256,
         .numerics = 2},
        {.name = "recursive doubling, fast",
         .algorithm = "recursive_doubling",
         .size = 10000,
         .count = 256,
         .numerics = 2},
        {.name = "halving and doubling, fast",
         .algorithm = "halving_doubling",
         .size = 10000,
         .count = 256,
         .numerics = 2},
        {.name = "halving, 4 MiB, no data",
         .algorithm = "halving_doubling",
         .size = 10000,
         .count = 1 << 20,
         .no_data = true,
         .numerics = 2},
        {.name = "double tree, fast",
         .algorithm = "double_tree",
         .size = 10000,
         .count = 256,
         .numerics = 2},
        {.name = "double tree, 4 MiB, no data",
         .algorithm = "double_tree",
         .size = 10000,
         .count = 1 << 20,
         .no_data = true,
         .numerics = 2},
    };

    (void)state;
    skip_unless_full();
    for (size_t t = 0; t < TCI_LEN(trials); t++)
        assert_true(carry_out(&trials[t]).bytes < RANK_BYTES_MAX);
}

static void a_hundred_thousand_ranks_fit_in_one_process(void **state)
{
    static const struct trial trials[] = {
        {.name = "recursive doubling, fast",
         .algorithm = "recursive_doubling",
         .size = 100000,
         .count = 16,
         .numerics = 2},
    };

    (void)state;
    skip_unless_full();
    for (size_t t = 0; t < TCI_LEN(trials); t++)
        assert_true(carry_out(&trials[t]).bytes < RANK_BYTES_MAX);
}

/* For the plot of docs/plans.md: an all-reduce of 1 KiB from 16 to 100,000 ranks, as CSV into the
 * file that TCDIST_TEST_CURVES names. */
static void the_curves_are_written_where_asked_for(void **state)
{
    static const char *const algorithms[] = {"recursive_doubling", "halving_doubling", "tree",
                                             "two_level"};
    static const uint32_t sizes[] = {16, 64, 256, 1000, 4096, 10000, 32768, 100000};
    const char *path = getenv("TCDIST_TEST_CURVES");
    FILE *file;

    (void)state;
    if (path == NULL) {
        printf("skipped: TCDIST_TEST_CURVES names no file\n");
        skip();
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("algorithm,ranks,virtual_us,bytes_a_rank,events,processor_s\n", file);
    for (size_t a = 0; a < TCI_LEN(algorithms); a++)
        for (size_t s = 0; s < TCI_LEN(sizes); s++) {
            struct trial trial = {.name = algorithms[a],
                                  .algorithm = algorithms[a],
                                  .size = sizes[s],
                                  .count = 256,
                                  .numerics = TC_NUMERICS_FAST};
            struct cost cost;

            trial.per_host = strcmp(algorithms[a], "two_level") == 0 ? 24 : 0;
            cost = carry_out(&trial);
            fprintf(file, "%s,%u,%.3f,%zu,%llu,%.6f\n", algorithms[a], sizes[s],
                    (double)cost.virtual_ns * 1e-3, cost.bytes, (unsigned long long)cost.events,
                    cost.seconds);
        }
    assert_int_equal(fclose(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_ranks_all_reduce),
        cmocka_unit_test(ten_thousand_ranks_fit_in_one_process),
        cmocka_unit_test(a_hundred_thousand_ranks_fit_in_one_process),
        cmocka_unit_test(the_curves_are_written_where_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
