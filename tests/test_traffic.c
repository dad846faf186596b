/* test_traffic.c - what a ring and the plans that equal it send: no rank more than 2(n-1)/n. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "core/base.h"

enum { SIZE_MAX_HERE = 33 };

/* What one rank sends: messages, blocks of the payload in them, and to how many others. */
struct traffic {
    uint32_t messages, blocks, neighbours;
};

static struct traffic count(const struct tci_plan *plan, const struct tci_shape *shape)
{
    bool is_known[SIZE_MAX_HERE] = {false};
    struct traffic traffic = {0};

    for (uint32_t i = 0; i < plan->steps(shape); i++) {
        struct tci_step step = {0};

        plan->step(shape, i, &step);
        if (step.kind != TCI_STEP_SEND)
            continue;
        traffic.messages++;
        traffic.blocks += 1 + (step.src.buf == TCI_BUF_TMP ? step.dst.more : step.src.more);
        traffic.neighbours += !is_known[step.peer];
        is_known[step.peer] = true;
    }
    return traffic;
}

/* n - 1 steps scatter sums, n - 1 gather them; each sends one of n blocks, to the next rank. */
static void a_ring_sends_a_block_in_each_of_2_n_1_steps(void **state)
{
    struct tci_shape shape = {.radix = 2, .cuts = 1};

    (void)state;
    for (shape.size = 2; shape.size <= SIZE_MAX_HERE; shape.size++) {
        assert_int_equal(tci_ring_allreduce.blocks(&shape), shape.size);
        for (shape.rank = 0; shape.rank < shape.size; shape.rank++) {
            struct traffic all = count(&tci_ring_allreduce, &shape);
            struct traffic scatter = count(&tci_ring_reduce_scatter, &shape);
            struct traffic gather = count(&tci_ring_allgather, &shape);

            assert_int_equal(all.messages, 2 * (shape.size - 1));
            assert_int_equal(all.blocks, 2 * (shape.size - 1));
            assert_int_equal(all.neighbours, 1);
            assert_int_equal(scatter.blocks, shape.size - 1);
            assert_int_equal(gather.blocks, shape.size - 1);
        }
    }
}

/* In rank order, too: where all pairs are linked the default sends no more than a ring. */
static void sums_in_rank_order_need_no_more(void **state)
{
    struct tci_shape shape = {.radix = 2, .cuts = 1};

    (void)state;
    for (shape.size = 2; shape.size <= SIZE_MAX_HERE; shape.size++) {
        assert_true(tci_direct_allreduce.canonical);
        assert_int_equal(tci_direct_allreduce.blocks(&shape), shape.size);
        for (shape.rank = 0; shape.rank < shape.size; shape.rank++)
            assert_int_equal(count(&tci_direct_allreduce, &shape).blocks, 2 * (shape.size - 1));
    }
}

/* Two ranks that send each other all at once have one hop, not the two of a ring. */
static void two_ranks_exchange_at_one_hop(void **state)
{
    struct tci_shape shape = {.size = 2, .radix = 2, .cuts = 1};

    (void)state;
    for (shape.rank = 0; shape.rank < 2; shape.rank++) {
        assert_int_equal(count(&tci_oneshot_allreduce, &shape).messages, 1);
        assert_int_equal(count(&tci_ring_allreduce, &shape).messages, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_sends_a_block_in_each_of_2_n_1_steps),
        cmocka_unit_test(sums_in_rank_order_need_no_more),
        cmocka_unit_test(two_ranks_exchange_at_one_hop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
