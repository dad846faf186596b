/* test_sparse.c - sparse all-reduces against a plain loop, and what makes them fail. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/reduce_oracle.h"
#include "support/world.h"

/* Larger than what a turn of the loop merges, and some tiles that stay empty. */
enum { RANKS_MAX = 9, COUNT_MAX = 200000 };

static struct world world;

/* What a rank gives, and gets. */
static struct rank {
    uint32_t narrow[COUNT_MAX];
    uint64_t wide[COUNT_MAX];
    float values[COUNT_MAX], recv[COUNT_MAX], residual[COUNT_MAX];
    uint64_t out_wide[COUNT_MAX];
    float out_values[COUNT_MAX];
    tc_sparse send, out;
    tc_compress_stats stats;
    tc_future *future;
} ranks[RANKS_MAX];

static float expected[COUNT_MAX];
static bool is_given[COUNT_MAX];

/* ---- what is given, and what has to come out ------------------------------------------------ */

static float drawn(uint64_t *random)
{
    uint64_t bits = oracle_random(random);
    float value = ldexpf((float)(bits % 1000) - 500, (int)(bits >> 40) % 40 - 20);

    return bits % 97 == 0 ? -0.0f : value;
}

/* k different indices, ascending: each that is left is taken with the chance that it needs. */
static void draw(struct rank *rank, uint64_t *random, size_t count, size_t k)
{
    size_t at = 0;

    for (size_t i = 0; i < count && at < k; i++) {
        if (oracle_random(random) % (count - i) >= k - at)
            continue;
        rank->narrow[at] = (uint32_t)i;
        rank->wide[at] = i;
        rank->values[at++] = drawn(random);
    }
    assert_int_equal(at, k);
    rank->send = (tc_sparse){.values = rank->values, .k = k};
}

static void use_indices(struct rank *rank, tc_dtype_t dtype)
{
    rank->send.index_dtype = dtype;
    rank->send.indices = dtype == TC_DTYPE_U32 ? (void *)rank->narrow : (void *)rank->wide;
}

static void expect(int size, size_t count, tc_reduce_op_t op)
{
    size_t at[RANKS_MAX] = {0};

    for (size_t i = 0; i < count; i++) {
        double sum = 0;

        is_given[i] = false;
        for (int r = 0; r < size; r++) {
            const struct rank *rank = &ranks[r];

            if (at[r] == rank->send.k || rank->wide[at[r]] != i)
                continue;
            sum = is_given[i] ? sum + (double)rank->values[at[r]] : (double)rank->values[at[r]];
            is_given[i] = true;
            at[r]++;
        }
        expected[i] = (float)(op == TC_REDUCE_AVG ? sum / size : sum);
        if (isnan(expected[i]))
            expected[i] = NAN;
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

/* ---- dense results ------------------------------------------------------------------------- */

static void dense_case(int size, size_t count, size_t k, bool differs, unsigned seed)
{
    tc_dtype_t dtype = seed % 2 == 0 ? TC_DTYPE_U32 : TC_DTYPE_U64;
    tc_reduce_op_t op = seed % 3 == 0 ? TC_REDUCE_AVG : TC_REDUCE_SUM;
    uint64_t random;

    random = seed;
    for (int r = 0; r < size; r++) {
        draw(&ranks[r], &random, count, differs ? oracle_random(&random) % (k + 1) : k);
        use_indices(&ranks[r], dtype);
    }
    for (int r = 0; r < size; r++) {
        memset(ranks[r].recv, 0xff, (count + 1) * sizeof(float));
        ranks[r].stats = (tc_compress_stats){0};
        ranks[r].future =
            tc_allreduce_sparse_async(world.group[r], seed, &ranks[r].send, differs ? k : 0,
                                      ranks[r].recv, count, op, &ranks[r].stats, NULL);
    }
    expect(size, count, op);
    wait_all(size);
    for (int r = 0; r < size; r++) {
        uint64_t bytes = (uint64_t)(size - 1) * (32 + ranks[r].send.k * (4 + tc_dtype_size(dtype)));
        uint64_t untouched;

        if (memcmp(ranks[r].recv, expected, count * sizeof(float)) != 0)
            fail_msg("rank %d of %d, %zu of %zu, seed %u differs", r, size, k, count, seed);
        memset(&untouched, 0xff, sizeof(untouched));
        assert_memory_equal(&ranks[r].recv[count], &untouched, sizeof(float));
        assert_int_equal(ranks[r].stats.bytes_sent,
                         bytes + (differs && k > 0 ? 32 * (uint64_t)(size - 1) : 0));
    }
}

static void dense_sums_are_those_of_a_plain_loop(void **state)
{
    static const size_t counts[] = {0, 1, 5, 2048, 2049, 30000};
    unsigned seed = 1;

    (void)state;
    for (int size = 1; size <= RANKS_MAX; size += 1 + 3 * (test_effort() == 0)) {
        world_open(&world, size, NULL);
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            for (int part = 0; part < 4; part++) {
                size_t k = part == 0 ? 0 : part == 1 ? counts[c] / 100 : counts[c] / (4 - part);
                dense_case(size, counts[c], k, false, seed++);
                dense_case(size, counts[c], k, true, seed++);
            }
        if (size <= 3)
            dense_case(size, COUNT_MAX, COUNT_MAX / 10, size % 2 == 0, seed++);
        world_close(&world);
    }
}

/* ---- sparse results ------------------------------------------------------------------------ */

struct chosen {
    size_t room;
    float threshold;
};

static int larger(const void *a, const void *b)
{
    uint64_t i = *(const uint64_t *)a, j = *(const uint64_t *)b;
    float left = fabsf(expected[i]), right = fabsf(expected[j]);

    if (left != right)
        return left < right ? 1 : -1;
    return i < j ? -1 : 1;
}

static int ascending(const void *a, const void *b)
{
    uint64_t i = *(const uint64_t *)a, j = *(const uint64_t *)b;

    return i < j ? -1 : i > j;
}

/* The indices that have to be chosen, by sorting. */
static size_t choose(size_t count, struct chosen how, uint64_t *chosen)
{
    size_t given = 0, k;

    for (size_t i = 0; i < count; i++)
        if (is_given[i])
            chosen[given++] = i;
    qsort(chosen, given, sizeof(*chosen), larger);
    for (k = 0; k < given && k < how.room; k++)
        if (!(fabsf(expected[chosen[k]]) >= how.threshold))
            break;
    qsort(chosen, k, sizeof(*chosen), ascending);
    return k;
}

static void check_chosen(const struct rank *rank, const uint64_t *chosen, size_t k, size_t count)
{
    size_t at = 0, own = 0;

    assert_int_equal(rank->out.k, k);
    for (size_t i = 0; i < count; i++) {
        bool is_chosen = at < k && chosen[at] == i;
        bool is_own = own < rank->send.k && rank->wide[own] == i;

        if (is_chosen) {
            assert_int_equal(rank->out_wide[at], i);
            assert_memory_equal(&rank->out_values[at], &expected[i], sizeof(float));
        }
        assert_true(rank->residual[i] == (is_own && !is_chosen ? 1 + rank->values[own] : 1));
        at += is_chosen;
        own += is_own;
    }
}

static void topk_case(int size, size_t count, size_t k, struct chosen how, unsigned seed)
{
    static uint64_t chosen[COUNT_MAX];
    tc_reduce_op_t op = seed % 3 == 0 ? TC_REDUCE_AVG : TC_REDUCE_SUM;
    uint64_t random;
    size_t k_out;

    random = seed;
    for (int r = 0; r < size; r++) {
        struct rank *rank = &ranks[r];

        draw(rank, &random, count, seed % 2 == 0 ? k : oracle_random(&random) % (k + 1));
        use_indices(rank, seed % 5 == 0 ? TC_DTYPE_U64 : TC_DTYPE_U32);
        rank->out = (tc_sparse){.indices = rank->out_wide,
                                .values = rank->out_values,
                                .room = how.room,
                                .index_dtype = TC_DTYPE_U64};
        for (size_t i = 0; i < count; i++)
            rank->residual[i] = 1;
    }
    for (int r = 0; r < size; r++)
        ranks[r].future = tc_allreduce_topk_async(
            world.group[r], seed, &ranks[r].send, seed % 2 == 0 ? 0 : k, &ranks[r].out,
            how.threshold, count, op, ranks[r].residual, NULL, NULL);
    expect(size, count, op);
    k_out = choose(count, how, chosen);
    wait_all(size);
    for (int r = 0; r < size; r++)
        check_chosen(&ranks[r], chosen, k_out, count);
}

static void sparse_sums_are_chosen_again_and_the_rest_is_put_back(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int size = 1; size <= RANKS_MAX; size += 1 + 3 * (test_effort() == 0)) {
        world_open(&world, size, NULL);
        for (size_t room = 0; room <= 3000; room = room * 6 + 1) {
            topk_case(size, 5000, 400, (struct chosen){room, 0}, seed++);
            topk_case(size, 5000, 400, (struct chosen){room, 20}, seed++);
            topk_case(size, 1, 1, (struct chosen){room, 0}, seed++);
        }
        topk_case(size, 50, 0, (struct chosen){5, 0}, seed++);
        world_close(&world);
    }
}

/* ---- numbers that are none ------------------------------------------------------------------ */

static void nan_infinity_and_signs_are_defined(void **state)
{
    static const float given[3][5] = {{NAN, INFINITY, INFINITY, -0.0f, 3e38f},
                                      {1, 1, -INFINITY, -0.0f, 3e38f},
                                      {-NAN, 2, 0, -0.0f, -3e38f}};
    const uint32_t nan_bits = UINT32_C(0x7fc00000);

    (void)state;
    world_open(&world, 3, NULL);
    for (int r = 0; r < 3; r++) {
        for (uint32_t i = 0; i < 5; i++) {
            ranks[r].narrow[i] = 2 * i;
            ranks[r].values[i] = given[r][i];
        }
        ranks[r].send = (tc_sparse){ranks[r].narrow, ranks[r].values, 5, 0, TC_DTYPE_U32};
        ranks[r].future =
            tc_allreduce_sparse_async(world.group[r], TC_TAG_ORDERED, &ranks[r].send, 0,
                                      ranks[r].recv, 10, TC_REDUCE_SUM, NULL, NULL);
    }
    wait_all(3);
    for (int r = 0; r < 3; r++) {
        assert_memory_equal(&ranks[r].recv[0], &nan_bits, 4);
        assert_true(ranks[r].recv[2] == INFINITY);
        assert_memory_equal(&ranks[r].recv[4], &nan_bits, 4);
        assert_true(ranks[r].recv[6] == 0 && signbit(ranks[r].recv[6]));
        assert_true(ranks[r].recv[8] == 3e38f);
        assert_true(ranks[r].recv[1] == 0 && !signbit(ranks[r].recv[1]));
    }
    world_close(&world);
}

/* ---- failures ------------------------------------------------------------------------------- */

static void fails(tc_future *future, tc_status_t status, int rank, const char *says)
{
    tc_status_t got = world_wait(&world, future);
    const tc_error *error = tc_future_error(future);

    if (got != status || error == NULL || error->rank != rank ||
        strstr(error->message, says) == NULL)
        fail_msg("expected %s of rank %d with \"%s\", got %s: rank %d, %s",
                 tc_status_string(status), rank, says, tc_status_string(got),
                 error == NULL ? -9 : error->rank, error == NULL ? "no error" : error->message);
    assert_string_equal(error->operation, "allreduce_sparse");
    tc_future_release(future);
}

static tc_future *sum(int r, uint64_t tag, size_t k_max, size_t count, const tc_options *options)
{
    return tc_allreduce_sparse_async(world.group[r], tag, &ranks[r].send, k_max, ranks[r].recv,
                                     count, TC_REDUCE_SUM, NULL, options);
}

static void prepare(size_t count, size_t k)
{
    uint64_t random;

    random = 7;
    for (int r = 0; r < world.size; r++) {
        draw(&ranks[r], &random, count, k);
        use_indices(&ranks[r], TC_DTYPE_U32);
    }
}

/* The group, and the tag, go on. */
static void all_sum(uint64_t tag)
{
    prepare(100, 10);
    for (int r = 0; r < world.size; r++)
        ranks[r].future = sum(r, tag, 0, 100, NULL);
    expect(world.size, 100, TC_REDUCE_SUM);
    wait_all(world.size);
    for (int r = 0; r < world.size; r++)
        assert_memory_equal(ranks[r].recv, expected, 100 * sizeof(float));
}

static void bad_arguments_fail_at_once(void **state)
{
    tc_dist_ctx *group;
    tc_sparse list;
    float recv[10];

    (void)state;
    world_open(&world, 1, NULL);
    group = world.group[0];
    prepare(10, 4);
#define BAD(change, says)                                                                          \
    do {                                                                                           \
        list = ranks[0].send;                                                                      \
        change;                                                                                    \
        fails(tc_allreduce_sparse_async(group, 1, &list, 0, recv, 10, TC_REDUCE_SUM, NULL, NULL),  \
              TC_ERR_INVALID_ARG, -1, says);                                                       \
    } while (0)
    BAD(list.k = 11, "k 11 or k_max 0 is more than the 10 elements");
    BAD(list.index_dtype = TC_DTYPE_I32, "indices are TC_DTYPE_U32 or TC_DTYPE_U64, not 4");
    BAD(list.indices = NULL, "indices or values are NULL");
    BAD(list.values = NULL, "indices or values are NULL");
#undef BAD
    fails(tc_allreduce_sparse_async(group, 1, NULL, 0, recv, 10, TC_REDUCE_SUM, NULL, NULL),
          TC_ERR_INVALID_ARG, -1, "send is NULL");
    fails(sum(0, 1, 3, 10, NULL), TC_ERR_INVALID_ARG, -1, "k 4 is more than k_max 3");
    fails(
        tc_allreduce_sparse_async(group, 1, &ranks[0].send, 0, NULL, 10, TC_REDUCE_SUM, NULL, NULL),
        TC_ERR_INVALID_ARG, -1, "recv is NULL, the count is 10");
    fails(
        tc_allreduce_sparse_async(group, 1, &ranks[0].send, 0, recv, 10, TC_REDUCE_MAX, NULL, NULL),
        TC_ERR_UNSUPPORTED, -1, "operator max");
    fails(tc_allreduce_sparse_async(group, 1, &ranks[0].send, 0, recv, SIZE_MAX, TC_REDUCE_SUM,
                                    NULL, NULL),
          TC_ERR_INVALID_ARG, -1, "allreduce_sparse: ");
    world_close(&world);
    assert_int_equal(tc_future_test(tc_allreduce_sparse_async(NULL, 1, &ranks[0].send, 0, recv, 10,
                                                              TC_REDUCE_SUM, NULL, NULL)),
                     TC_ERR_INVALID_ARG);
}

static void wrong_indices_fail_it_on_every_rank(void **state)
{
    (void)state;
    world_open(&world, 3, NULL);
    for (int kind = 0; kind < 3; kind++) {
        prepare(100, 10);
        if (kind == 0)
            ranks[1].narrow[9] = 100;
        else
            ranks[1].narrow[5] = ranks[1].narrow[4] - (kind == 2);
        for (int r = 0; r < 3; r++)
            ranks[r].future = sum(r, 4, 0, 100, NULL);
        for (int r = 0; r < 3; r++)
            fails(ranks[r].future, TC_ERR_INVALID_ARG, 1,
                  kind == 0 ? "tag 4: indices[9] of rank 1" : "indices[5] of rank 1");
        all_sum(4);
    }
    world_close(&world);
}

static void calls_that_differ_are_told(void **state)
{
    (void)state;
    world_open(&world, 2, NULL);
    prepare(100, 10);
    ranks[1].send.k = 9;
    ranks[0].future = sum(0, 5, 0, 100, NULL);
    ranks[1].future = sum(1, 5, 0, 100, NULL);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(world_wait(&world, ranks[r].future), TC_ERR_MISMATCH);
        assert_non_null(
            strstr(tc_future_error(ranks[r].future)->message, "allreduce_sparse(10 x u32, sum"));
        tc_future_release(ranks[r].future);
    }
    ranks[1].send.k = 10;
    ranks[0].future = sum(0, 5, 0, 100, NULL);
    ranks[1].future = sum(1, 5, 10, 100, NULL);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(world_wait(&world, ranks[r].future), TC_ERR_MISMATCH);
        tc_future_release(ranks[r].future);
    }
    ranks[0].future = sum(0, 5, 10, 100, NULL);
    ranks[1].future = sum(1, 5, 10, 101, NULL);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(world_wait(&world, ranks[r].future), TC_ERR_MISMATCH);
        assert_non_null(strstr(tc_future_error(ranks[r].future)->message, "count 101"));
        tc_future_release(ranks[r].future);
    }
    all_sum(5);
    world_close(&world);
}

static void a_cancel_and_a_deadline_end_it_everywhere(void **state)
{
    tc_options options;

    (void)state;
    world_open(&world, 3, NULL);
    prepare(100, 10);
    ranks[0].future = sum(0, 6, 10, 100, NULL);
    ranks[1].future = sum(1, 6, 10, 100, NULL);
    tc_future_cancel(ranks[1].future);
    fails(ranks[0].future, TC_ERR_CANCELLED, 1, "allreduce_sparse, tag 6: rank 1 has cancelled it");
    fails(ranks[1].future, TC_ERR_CANCELLED, 1, "rank 1 has cancelled it");
    all_sum(60); /* what was told before has arrived by now */
    fails(sum(2, 6, 10, 100, NULL), TC_ERR_CANCELLED, 1, "rank 1 has cancelled it");
    all_sum(6);

    tc_options_default(&options);
    options.timeout_ms = 300;
    ranks[0].future = sum(0, 7, 0, 100, &options);
    ranks[1].future = sum(1, 7, 0, 100, &options);
    fails(ranks[0].future, TC_ERR_TIMEOUT, 2, "rank 2 has not entered it within 300 ms");
    fails(ranks[1].future, TC_ERR_TIMEOUT, 2, "rank 2 has not entered it");
    all_sum(70);
    fails(sum(2, 7, 0, 100, NULL), TC_ERR_TIMEOUT, 2, "rank 2 has not entered it");
    all_sum(7);
    world_close(&world);
}

/* ---- tags, order, chains -------------------------------------------------------------------- */

static void a_tag_is_reserved_to_the_end_of_the_whole(void **state)
{
    tc_options options;

    (void)state;
    world_open(&world, 2, NULL);
    tc_options_default(&options);
    options.auto_release = false;
    prepare(100, 10);
    ranks[0].future = sum(0, 8, 10, 100, &options);
    fails(sum(0, 8, 10, 100, &options), TC_ERR_BUSY, -1, "tag 8 is still reserved");
    assert_int_equal(tc_tag_release(world.group[0], 8), TC_ERR_BUSY);
    ranks[1].future = sum(1, 8, 10, 100, NULL);
    wait_all(2);
    assert_int_equal(tc_tag_release(world.group[0], 8), TC_OK);
    all_sum(8);
    world_close(&world);
}

/* The contributions are read after the futures that they wait for. */
static void it_starts_after_other_futures(void **state)
{
    tc_future *promises[2];

    (void)state;
    world_open(&world, 2, NULL);
    prepare(100, 10);
    for (int r = 0; r < 2; r++) {
        tc_options options;

        promises[r] = tc_promise_create(world.context[r]);
        tc_options_default(&options);
        options.after = &promises[r];
        options.n_after = 1;
        ranks[r].future = sum(r, 9, 0, 100, &options);
    }
    for (int r = 0; r < 2; r++) {
        ranks[r].values[3] = 77;
        assert_int_equal(tc_promise_settle(promises[r], TC_OK), TC_OK);
        tc_future_release(promises[r]);
    }
    expect(2, 100, TC_REDUCE_SUM);
    wait_all(2);
    assert_memory_equal(ranks[1].recv, expected, 100 * sizeof(float));
    world_close(&world);
}

/* Many at once, tagged and ordered, mixed with all-reduces; the ranks start in other orders. */
static void many_run_at_once(void **state)
{
    enum { CALLS = 40 };
    static float recv[4][CALLS][100], dense[4][CALLS][100];
    tc_future *futures[4][2 * CALLS];

    (void)state;
    world_open(&world, 4, NULL);
    prepare(100, 10);
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < CALLS; i++) {
            int c = r % 2 == 0 ? i : CALLS - 1 - i;

            futures[r][c] = tc_allreduce_sparse_async(
                world.group[r], c % 4 == 3 ? TC_TAG_ORDERED : (uint64_t)c, &ranks[r].send,
                c % 2 == 0 ? 10 : 0, recv[r][c], 100, TC_REDUCE_SUM, NULL, NULL);
            dense[r][c][0] = 1;
            futures[r][CALLS + c] =
                tc_allreduce_async(world.group[r], (uint64_t)(CALLS + c), dense[r][c], dense[r][c],
                                   100, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        }
    expect(4, 100, TC_REDUCE_SUM);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 2 * CALLS; c++) {
            if (world_wait(&world, futures[r][c]) != TC_OK)
                fail_msg("rank %d, call %d: %s", r, c, tc_future_error(futures[r][c])->message);
            tc_future_release(futures[r][c]);
            if (c < CALLS)
                assert_memory_equal(recv[r][c], expected, sizeof(recv[r][c]));
            else
                assert_true(dense[r][c - CALLS][0] == 4);
        }
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_sums_are_those_of_a_plain_loop),
        cmocka_unit_test(sparse_sums_are_chosen_again_and_the_rest_is_put_back),
        cmocka_unit_test(nan_infinity_and_signs_are_defined),
        cmocka_unit_test(bad_arguments_fail_at_once),
        cmocka_unit_test(wrong_indices_fail_it_on_every_rank),
        cmocka_unit_test(calls_that_differ_are_told),
        cmocka_unit_test(a_cancel_and_a_deadline_end_it_everywhere),
        cmocka_unit_test(a_tag_is_reserved_to_the_end_of_the_whole),
        cmocka_unit_test(it_starts_after_other_futures),
        cmocka_unit_test(many_run_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
