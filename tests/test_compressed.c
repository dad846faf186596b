/* test_compressed.c - compressed all-reduces against a plain loop, and what they leave behind. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/narrow.h"
#include "support/reduce_oracle.h"
#include "support/world.h"

/* Larger than what a turn of the loop encodes. */
enum { RANKS_MAX = 9, COUNT_MAX = 60000 };

static const tc_dtype_t types[] = {TC_DTYPE_BF16, TC_DTYPE_F16, TC_DTYPE_F8E4M3, TC_DTYPE_F8E5M2};

static struct world world;

static struct rank {
    float send[COUNT_MAX + 1], recv[COUNT_MAX + 1], residual[COUNT_MAX + 1];
    float x[COUNT_MAX], sent[COUNT_MAX], left[COUNT_MAX];
    tc_compress_stats stats;
    tc_future *future;
} ranks[RANKS_MAX];

static float expected[COUNT_MAX];

/* What is called, the same on every rank. */
struct what {
    int size;
    size_t count;
    tc_dtype_t wire;
    tc_reduce_op_t op;
    bool in_place, has_residual;
    const char *algorithm;
};

/* ---- the definition, as a plain loop -------------------------------------------------------- */

/* `count` values, in parts of `part` and blocks of 256, rounded to the type and back. */
static void round_parts(tc_dtype_t wire, const double *in, float *out, size_t count, size_t part)
{
    static uint8_t bytes[4 * COUNT_MAX];
    struct tci_narrow narrow;
    float values[TCI_NARROW_BLOCK];

    assert_true(tci_narrow_init(&narrow, wire));
    for (size_t first = 0; first < count; first += part)
        for (size_t b = 0; b * TCI_NARROW_BLOCK < part; b++) {
            size_t at = first + b * TCI_NARROW_BLOCK, len = tci_narrow_len(part, b);

            if (at >= count)
                break;
            len = len < count - at ? len : count - at;
            tci_narrow_encode_wide(&narrow, in + at, len, bytes, part, b);
            tci_narrow_decode(&narrow, bytes, part, b, values);
            memcpy(out + at, values, len * sizeof(float));
        }
}

static float or_zero(double value)
{
    return isfinite(value) ? (float)value : 0;
}

static void expect(const struct what *what)
{
    static double in[COUNT_MAX], sums[COUNT_MAX];
    size_t part = (what->count + (size_t)what->size - 1) / (size_t)what->size;
    double by = what->op == TC_REDUCE_AVG ? what->size : 1;

    for (int r = 0; r < what->size; r++) {
        struct rank *rank = &ranks[r];

        for (size_t i = 0; i < what->count; i++) {
            rank->x[i] = what->has_residual ? rank->send[i] + rank->residual[i] : rank->send[i];
            in[i] = (double)rank->x[i];
        }
        round_parts(what->wire, in, rank->sent, what->count, part);
        for (size_t i = 0; i < what->count; i++) {
            sums[i] = r == 0 ? (double)rank->sent[i] : sums[i] + (double)rank->sent[i];
            rank->left[i] = isfinite(rank->x[i]) ? rank->x[i] - rank->sent[i] : 0;
        }
    }
    for (size_t i = 0; i < what->count; i++)
        in[i] = sums[i] / by;
    round_parts(what->wire, in, expected, what->count, part);
    for (size_t i = 0; i < what->count; i++) {
        struct rank *owner = &ranks[i / part];

        owner->left[i] =
            or_zero((double)(owner->left[i] + or_zero(sums[i] - by * (double)expected[i])));
    }
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void draw(const struct what *what, unsigned seed)
{
    uint64_t random = seed;

    for (int r = 0; r < what->size; r++)
        for (size_t i = 0; i < what->count; i++) {
            uint64_t bits = oracle_random(&random);

            ranks[r].send[i] = ldexpf((float)(bits % 20001) - 10000, (int)(bits >> 60) - 16);
            ranks[r].residual[i] = (float)(bits >> 32 & 0xff) / 4096;
        }
}

static void start(const struct what *what, uint64_t tag)
{
    for (int r = 0; r < what->size; r++) {
        struct rank *rank = &ranks[r];
        float *recv = what->in_place ? rank->send : rank->recv;
        tc_options options;

        tc_options_default(&options);
        options.algorithm = what->algorithm;
        rank->stats = (tc_compress_stats){0};
        recv[what->count] = rank->residual[what->count] = -7;
        rank->future = tc_allreduce_compressed_async(
            world.group[r], tag, rank->send, recv, what->count, what->wire, what->op,
            what->has_residual ? rank->residual : NULL, &rank->stats, &options);
    }
}

static void wait_all(int size)
{
    for (int r = 0; r < size; r++) {
        if (world_wait(&world, ranks[r].future) != TC_OK)
            fail_msg("rank %d: %s", r, tc_future_error(ranks[r].future)->message);
        tc_future_release(ranks[r].future);
    }
}

static void check(const struct what *what)
{
    for (int r = 0; r < what->size; r++) {
        struct rank *rank = &ranks[r];
        const float *recv = what->in_place ? rank->send : rank->recv;

        if (memcmp(recv, expected, what->count * sizeof(float)) != 0)
            fail_msg("rank %d of %d, %zu as %s: the result differs", r, what->size, what->count,
                     tc_dtype_name(what->wire));
        if (what->has_residual &&
            memcmp(rank->residual, rank->left, what->count * sizeof(float)) != 0)
            fail_msg("rank %d of %d, %zu as %s: the residual differs", r, what->size, what->count,
                     tc_dtype_name(what->wire));
        assert_true(recv[what->count] == -7 && rank->residual[what->count] == -7);
    }
}

static void run(const struct what *what, unsigned seed)
{
    draw(what, seed);
    expect(what);
    start(what, seed);
    wait_all(what->size);
    check(what);
}

static void results_and_residuals_are_those_of_a_plain_loop(void **state)
{
    static const size_t counts[] = {0, 1, 8, 300, 5000};
    unsigned seed = 1;

    (void)state;
    for (int size = 1; size <= RANKS_MAX; size += 1 + 3 * (test_effort() == 0)) {
        world_open(&world, size, NULL);
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            for (size_t t = 0; t < 4; t++)
                for (int bits = 0; bits < 8; bits++)
                    run(&(struct what){.size = size,
                                       .count = counts[c],
                                       .wire = types[t],
                                       .op = bits & 1 ? TC_REDUCE_AVG : TC_REDUCE_SUM,
                                       .in_place = bits & 2,
                                       .has_residual = bits & 4},
                        seed++);
        run(&(struct what){size, COUNT_MAX, types[size % 4], TC_REDUCE_SUM, false, true, NULL},
            seed++);
        world_close(&world);
    }
}

/* Nothing is lost: what went in came out, or stays. */
static void sums_and_residuals_keep_everything(void **state)
{
    (void)state;
    world_open(&world, 4, NULL);
    for (size_t t = 0; t < 4; t++) {
        struct what what = {4, 3000, types[t], TC_REDUCE_SUM, false, true, NULL};
        static double in[3000];

        /* Integers of a few bits, so that f32 holds every residual exactly. */
        for (int r = 0; r < 4; r++)
            for (size_t i = 0; i < what.count; i++) {
                ranks[r].send[i] = (float)((int)((i * 37 + (size_t)r * 101) % 4001) - 2000);
                ranks[r].residual[i] = 0;
            }
        for (size_t i = 0; i < what.count; i++)
            in[i] = 0;
        for (unsigned step = 0; step < 20; step++) {
            double out;

            for (int r = 0; r < 4; r++)
                for (size_t i = 0; i < what.count; i++)
                    in[i] += (double)ranks[r].send[i];
            start(&what, step);
            wait_all(4);
            for (size_t i = 0; i < what.count; i++) {
                in[i] -= (double)ranks[0].recv[i];
                out = in[i];
                for (int r = 0; r < 4; r++)
                    out -= (double)ranks[r].residual[i];
                assert_true(out == 0);
                /* And it does not grow from step to step. */
                assert_true(fabs(in[i]) <= 4 * 8000);
            }
        }
    }
    world_close(&world);
}

static void bytes_that_are_saved_are_counted(void **state)
{
    static const uint64_t parts[] = {2000, 2000 + 4, 1000 + 4, 1000 + 4};

    (void)state;
    world_open(&world, 4, NULL);
    for (size_t t = 0; t < 4; t++) {
        run(&(struct what){4, 4000, types[t], TC_REDUCE_SUM, false, true, NULL}, 1);
        assert_int_equal(ranks[2].stats.bytes_sent, 2 * 3 * parts[t]);
        assert_int_equal(ranks[2].stats.bytes_dense, 2 * 3 * 4000);
    }
    world_close(&world);
}

static void infinity_and_nan_reach_all_and_leave_no_trace(void **state)
{
    (void)state;
    world_open(&world, 3, NULL);
    for (size_t t = 0; t < 4; t++) {
        struct what what = {3, 600, types[t], TC_REDUCE_SUM, false, true, NULL};

        draw(&what, 5);
        ranks[0].send[3] = NAN;
        ranks[1].send[250] = INFINITY;
        ranks[2].send[599] = -INFINITY;
        ranks[1].send[599] = INFINITY;
        for (int r = 0; r < 3; r++)
            ranks[r].send[400] = ranks[r].residual[400] = FLT_MAX / 2;
        expect(&what);
        start(&what, 1);
        wait_all(3);
        check(&what);
        assert_true(isnan(ranks[1].recv[3]) && isnan(ranks[1].recv[599]));
        assert_true(types[t] == TC_DTYPE_F8E4M3 ? isnan(ranks[1].recv[250])
                                                : ranks[1].recv[250] == INFINITY);
        for (int r = 0; r < 3; r++)
            for (size_t i = 0; i < 600; i++)
                assert_true(isfinite(ranks[r].residual[i]));
    }
    world_close(&world);
}

/* ---- arguments, failures --------------------------------------------------------------------- */

static void fails(tc_future *future, tc_status_t status, int rank, const char *says)
{
    tc_status_t got = world_wait(&world, future);
    const tc_error *error = tc_future_error(future);

    if (got != status || error == NULL || error->rank != rank ||
        strstr(error->message, says) == NULL)
        fail_msg("expected %s of rank %d with \"%s\", got %s: rank %d, %s",
                 tc_status_string(status), rank, says, tc_status_string(got),
                 error == NULL ? -9 : error->rank, error == NULL ? "no error" : error->message);
    assert_string_equal(error->operation, "allreduce_compressed");
    tc_future_release(future);
}

static tc_future *call(int r, size_t count, tc_dtype_t wire, tc_reduce_op_t op,
                       const tc_options *options)
{
    return tc_allreduce_compressed_async(world.group[r], 3, ranks[r].send, ranks[r].recv, count,
                                         wire, op, ranks[r].residual, NULL, options);
}

static void bad_arguments_fail_at_once(void **state)
{
    tc_options options;
    float some[1] = {0};

    (void)state;
    world_open(&world, 1, NULL);
    tc_options_default(&options);
    options.algorithm = "wave";
    fails(call(0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, NULL), TC_ERR_UNSUPPORTED_DTYPE, -1,
          "elements do not travel as f32 (2)");
    fails(call(0, 10, TC_DTYPE_BF16, TC_REDUCE_PROD, NULL), TC_ERR_UNSUPPORTED, -1,
          "operator prod");
    fails(call(0, SIZE_MAX, TC_DTYPE_BF16, TC_REDUCE_SUM, NULL), TC_ERR_INVALID_ARG, -1,
          "more than memory can hold");
    fails(call(0, 10, TC_DTYPE_BF16, TC_REDUCE_SUM, &options), TC_ERR_INVALID_ARG, -1,
          "no algorithm \"wave\"");
    fails(tc_allreduce_compressed_async(world.group[0], 3, NULL, some, 1, TC_DTYPE_F16,
                                        TC_REDUCE_SUM, NULL, NULL, NULL),
          TC_ERR_INVALID_ARG, -1, "send is NULL, the count is 1");
    fails(tc_allreduce_compressed_async(world.group[0], 3, some, NULL, 1, TC_DTYPE_F16,
                                        TC_REDUCE_SUM, NULL, NULL, NULL),
          TC_ERR_INVALID_ARG, -1, "recv is NULL");
    world_close(&world);
    assert_int_equal(tc_future_test(tc_allreduce_compressed_async(
                         NULL, 3, some, some, 1, TC_DTYPE_F16, TC_REDUCE_SUM, NULL, NULL, NULL)),
                     TC_ERR_INVALID_ARG);
}

static void meet(void)
{
    for (int r = 0; r < world.size; r++)
        ranks[r].future = tc_barrier_async(world.group[r], 99, NULL);
    wait_all(world.size);
}

/* The residual is as it was; the next call under the tag is a good one. */
static void a_failure_leaves_the_residual_alone(void **state)
{
    struct what what = {3, 3000, TC_DTYPE_F8E5M2, TC_REDUCE_AVG, false, true, NULL};
    static float before[3][3000];
    tc_options options;

    (void)state;
    world_open(&world, 3, NULL);
    draw(&what, 9);
    for (int r = 0; r < 3; r++)
        memcpy(before[r], ranks[r].residual, sizeof(before[r]));
    tc_options_default(&options);
    options.timeout_ms = 300;
    for (int r = 0; r < 2; r++)
        ranks[r].future = call(r, 3000, TC_DTYPE_F8E5M2, TC_REDUCE_AVG, &options);
    for (int r = 0; r < 2; r++)
        fails(ranks[r].future, TC_ERR_TIMEOUT, 2, "tag 3: rank 2 has not entered it");
    meet(); /* what was told before has arrived then */
    fails(call(2, 3000, TC_DTYPE_F8E5M2, TC_REDUCE_AVG, NULL), TC_ERR_TIMEOUT, 2, "rank 2");

    for (int r = 0; r < 3; r++)
        ranks[r].future = call(r, 3000, r == 1 ? TC_DTYPE_BF16 : TC_DTYPE_F16, TC_REDUCE_SUM, NULL);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(world_wait(&world, ranks[r].future), TC_ERR_MISMATCH);
        assert_non_null(strstr(tc_future_error(ranks[r].future)->message,
                               "allreduce_compressed(3000 x bf16, sum"));
        tc_future_release(ranks[r].future);
    }
    for (int r = 0; r < 3; r++)
        ranks[r].future = call(r, 3000, TC_DTYPE_F16, TC_REDUCE_SUM, NULL);
    tc_future_cancel(ranks[1].future);
    for (int r = 0; r < 3; r++) {
        tc_status_t status = world_wait(&world, ranks[r].future);

        assert_true(status == TC_ERR_CANCELLED || status == TC_OK);
        tc_future_release(ranks[r].future);
        if (status != TC_OK)
            assert_memory_equal(ranks[r].residual, before[r], sizeof(before[r]));
    }
    draw(&what, 10);
    expect(&what);
    start(&what, 3);
    wait_all(3);
    check(&what);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_and_residuals_are_those_of_a_plain_loop),
        cmocka_unit_test(sums_and_residuals_keep_everything),
        cmocka_unit_test(bytes_that_are_saved_are_counted),
        cmocka_unit_test(infinity_and_nan_reach_all_and_leave_no_trace),
        cmocka_unit_test(bad_arguments_fail_at_once),
        cmocka_unit_test(a_failure_leaves_the_residual_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
