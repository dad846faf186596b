/* test_sim_compress.c - compressed all-reduces on simulated ranks: late, cut up, cancelled. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single */
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
#include "support/world.h"

enum { RANKS_MAX = 9, CALLS = 12, COUNT = 200, KINDS = 4 };
enum kind { SPARSE, SPARSE_MAX, TOPK, COMPRESSED };

/* A call as one rank makes it.  All numbers are small integers, which bf16 and f32 hold exactly, so
 * that the plain sum is the result. */
struct call {
    uint32_t indices[COUNT], out_indices[COUNT];
    float values[COUNT], recv[COUNT], residual[COUNT];
    tc_sparse send, out;
    tc_future *future;
};

static struct call calls[CALLS][RANKS_MAX];
static float sums[CALLS][COUNT];

static enum kind kind_of(int c)
{
    return (enum kind)(c % KINDS);
}

/* Every third index or so; in SPARSE as many on every rank. */
static void prepare(int c, uint32_t size, uint64_t *random)
{
    memset(sums[c], 0, sizeof(sums[c]));
    for (uint32_t r = 0; r < size; r++) {
        struct call *call = &calls[c][r];
        size_t shift = sim_random(random) % 3;

        call->send = (tc_sparse){
            .indices = call->indices, .values = call->values, .index_dtype = TC_DTYPE_U32};
        for (size_t i = 0; i < COUNT; i++) {
            float value = (float)((int)(sim_random(random) % 7) - 3);
            bool is_given = kind_of(c) == COMPRESSED ||
                            (kind_of(c) == SPARSE ? i % 3 == shift && i < COUNT - COUNT % 3
                                                  : sim_random(random) % 3 == 0);

            call->residual[i] = 0;
            if (!is_given)
                continue;
            call->indices[call->send.k] = (uint32_t)i;
            call->values[call->send.k++] = value;
            sums[c][i] += value;
        }
        call->out = (tc_sparse){.indices = call->out_indices,
                                .values = call->recv,
                                .room = COUNT,
                                .index_dtype = TC_DTYPE_U32};
        memset(call->recv, 0xff, sizeof(call->recv));
    }
}

/* Each algorithm that the exchanges have, in turn. */
static const char *algorithm_of(int c, uint64_t seed)
{
    static const char *const gathers[] = {NULL,    "direct", "ring",
                                          "bruck", "biring", "dissemination"};
    static const char *const exchanges[] = {NULL, "direct", "pairwise", "bruck"};

    return kind_of(c) == COMPRESSED ? exchanges[(seed + (uint64_t)c) % 4]
                                    : gathers[(seed + (uint64_t)c) % 6];
}

static void start(tc_dist_ctx *group, int c, uint32_t rank, uint64_t seed)
{
    struct call *call = &calls[c][rank];
    uint64_t tag = c % 5 == 4 ? TC_TAG_ORDERED : (uint64_t)c;
    tc_options options;

    tc_options_default(&options);
    options.algorithm = algorithm_of(c, seed);
    switch (kind_of(c)) {
    case SPARSE:
    case SPARSE_MAX:
        call->future =
            tc_allreduce_sparse_async(group, tag, &call->send, kind_of(c) == SPARSE ? 0 : COUNT,
                                      call->recv, COUNT, TC_REDUCE_SUM, NULL, &options);
        break;
    case TOPK:
        call->future = tc_allreduce_topk_async(group, tag, &call->send, COUNT, &call->out, 0, COUNT,
                                               TC_REDUCE_SUM, call->residual, NULL, &options);
        break;
    case COMPRESSED:
        call->future = tc_allreduce_compressed_async(group, tag, call->values, call->recv, COUNT,
                                                     TC_DTYPE_BF16, TC_REDUCE_SUM, call->residual,
                                                     NULL, &options);
        break;
    }
}

static void check(int c, uint32_t rank)
{
    const struct call *call = &calls[c][rank];
    float got[COUNT] = {0};

    if (kind_of(c) == TOPK)
        for (size_t i = 0; i < call->out.k; i++)
            got[call->out_indices[i]] = call->recv[i];
    else
        memcpy(got, call->recv, sizeof(got));
    for (size_t i = 0; i < COUNT; i++)
        if (got[i] != sums[c][i])
            fail_msg("call %d, rank %u: element %zu is %g, not %g", c, rank, i, (double)got[i],
                     (double)sums[c][i]);
}

static struct sim_world *new_world(uint32_t size, uint64_t seed)
{
    struct sim_world_config config;
    struct sim_world *world;

    sim_world_config_default(&config);
    config.net.seed = seed;
    config.net.jitter = seed % 2 == 0 ? 20 : 1;
    config.net.eager_max = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 500 : 1 << 20;
    config.segment_bytes = seed % 4 == 0 ? 200 : seed % 4 == 1 ? 1000 : 1 << 20;
    world = sim_world_new(size, &config);
    assert_non_null(world);
    return world;
}

/* Ordered calls in one order everywhere, the others before or after them as it comes. */
static void start_all(struct sim_world *world, uint64_t *random, uint64_t seed)
{
    for (uint32_t r = 0; r < world->size; r++) {
        bool backward = sim_random(random) % 2 == 0;

        for (int i = 0; i < CALLS; i++) {
            int c = backward ? CALLS - 1 - i : i;

            if (c % 5 != 4)
                start(sim_group(world, r), c, r, seed);
        }
        for (int c = 4; c < CALLS; c += 5)
            start(sim_group(world, r), c, r, seed);
    }
}

static void settle_all(struct sim_world *world)
{
    for (int c = 0; c < CALLS; c++)
        for (uint32_t r = 0; r < world->size; r++)
            if (!sim_world_run(world, &calls[c][r].future, 1, TCI_NEVER))
                fail_msg("call %d hangs on rank %u", c, r);
}

static void results_are_right_however_messages_come(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 9};
    uint64_t live = tci_alloc_live(), random = 1;

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (uint64_t seed = 0; seed < (test_effort() == 0 ? 4 : 12); seed++) {
            struct sim_world *world = new_world(sizes[s], seed);

            /* Twice under the same tags: a rank may be one use ahead of another. */
            for (int use = 0; use < 2; use++) {
                for (int c = 0; c < CALLS; c++)
                    prepare(c, world->size, &random);
                start_all(world, &random, seed);
                settle_all(world);
                for (int c = 0; c < CALLS; c++)
                    for (uint32_t r = 0; r < world->size; r++) {
                        if (tc_future_test(calls[c][r].future) != TC_OK)
                            fail_msg("call %d, rank %u: %s", c, r,
                                     tc_future_error(calls[c][r].future)->message);
                        tc_future_release(calls[c][r].future);
                        check(c, r);
                    }
            }
            assert_int_equal(sim_net_early(world->net), 0);
            sim_world_free(world);
        }
    assert_int_equal(tci_alloc_live(), live);
}

static void cancel(void *arg)
{
    tc_future_cancel(arg);
}

/* A cancel at any moment: a rank has the whole result, or an error that names the one, and then its
 * residual is as it was. */
static void a_cancel_at_any_moment_harms_nothing(void **state)
{
    uint64_t live = tci_alloc_live(), random = 7, failed = 0, done = 0;

    (void)state;
    for (uint64_t seed = 0; seed < (test_effort() == 0 ? 24 : 150); seed++) {
        struct sim_world *world = new_world(4, seed);
        tc_future *held[CALLS];

        for (int c = 0; c < CALLS; c++)
            prepare(c, world->size, &random);
        start_all(world, &random, seed);
        for (int c = 0; c < CALLS; c++) {
            uint32_t rank = (uint32_t)(sim_random(&random) % 4);

            held[c] = tc_future_ref(calls[c][rank].future);
            sim_world_at(world, rank, 1 + sim_random(&random) % 400000, cancel, held[c]);
        }
        settle_all(world);
        sim_world_idle(world);
        for (int c = 0; c < CALLS; c++) {
            for (uint32_t r = 0; r < world->size; r++) {
                tc_status_t status = tc_future_test(calls[c][r].future);

                assert_true(status == TC_OK || status == TC_ERR_CANCELLED);
                if (status == TC_OK)
                    check(c, r);
                for (size_t i = 0; i < COUNT && status != TC_OK; i++)
                    assert_true(calls[c][r].residual[i] == 0);
                failed += status != TC_OK;
                done += status == TC_OK;
                tc_future_release(calls[c][r].future);
            }
            tc_future_release(held[c]);
        }
        sim_world_free(world);
    }
    print_message("%llu calls were cancelled, %llu were done before\n", (unsigned long long)failed,
                  (unsigned long long)done);
    assert_true(failed > 0 && done > 0);
    assert_int_equal(tci_alloc_live(), live);
}

/* A group that is closed at any moment: every call ends, and gives everything back. */
static void a_close_at_any_moment_ends_all(void **state)
{
    uint64_t live = tci_alloc_live(), random = 11, failed = 0, done = 0;

    (void)state;
    for (uint64_t seed = 0; seed < (test_effort() == 0 ? 24 : 150); seed++) {
        struct sim_world *world = new_world(3, seed);

        for (int c = 0; c < CALLS; c++)
            prepare(c, world->size, &random);
        start_all(world, &random, seed);
        (void)sim_world_run(world, &calls[0][0].future, 1, sim_random(&random) % 300000);
        for (int c = 1; c < CALLS; c++)
            (void)sim_world_run(world, &calls[c][0].future, 1, sim_random(&random) % 300000);
        sim_world_free(world);
        for (int c = 0; c < CALLS; c++)
            for (uint32_t r = 0; r < 3; r++) {
                tc_status_t status = tc_future_test(calls[c][r].future);

                assert_true(status == TC_OK || status == TC_ERR_CLOSED);
                if (status == TC_OK)
                    check(c, r);
                failed += status != TC_OK;
                done += status == TC_OK;
                tc_future_release(calls[c][r].future);
            }
    }
    print_message("%llu calls were closed, %llu were done before\n", (unsigned long long)failed,
                  (unsigned long long)done);
    assert_true(failed > 0 && done > 0);
    assert_int_equal(tci_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right_however_messages_come),
        cmocka_unit_test(a_close_at_any_moment_ends_all),
        cmocka_unit_test(a_cancel_at_any_moment_harms_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
