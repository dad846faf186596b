/* test_crossings.c - what goes between hosts when ranks of a host follow on one another. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "core/base.h"

/* The sums in rank order of a chain: each part of the payload goes over each border between two
 * hosts once on its way up, as an accumulator, and once on its way down. */

enum { SIZE_MAX_HERE = 33, HOSTS_MAX = SIZE_MAX_HERE };

struct crossings {
    uint64_t up[HOSTS_MAX], down[HOSTS_MAX]; /* messages over the border behind a host */
    uint64_t wide, far;                      /* accumulators; messages over more than one border */
};

/* Hosts of `first` ranks, then of `each`. */
static uint32_t host_of(uint32_t rank, uint32_t first, uint32_t each)
{
    return rank < first ? 0 : 1 + (rank - first) / each;
}

static void count(const struct tci_plan *plan, struct tci_shape shape, uint32_t first,
                  uint32_t each, struct crossings *out)
{
    *out = (struct crossings){.wide = 0};
    for (shape.rank = 0; shape.rank < shape.size; shape.rank++)
        for (uint32_t i = 0; i < plan->steps(&shape); i++) {
            uint32_t from = host_of(shape.rank, first, each), to;
            struct tci_step step = {0};

            plan->step(&shape, i, &step);
            to = step.kind == TCI_STEP_SEND ? host_of(step.peer, first, each) : from;
            if (to == from)
                continue;
            out->far += to > from + 1 || from > to + 1;
            out->wide += step.wide;
            if (to > from)
                out->up[from]++;
            else
                out->down[to]++;
        }
}

static void check(uint32_t size, uint32_t first, uint32_t each, uint32_t cuts)
{
    const struct tci_plan *plan = &tci_wide_chain_allreduce;
    struct tci_shape shape = {.size = size, .radix = 2, .cuts = cuts};
    uint32_t borders = host_of(size - 1, first, each), blocks = plan->blocks(&shape);
    struct crossings crossings;

    count(plan, shape, first, each, &crossings);
    assert_int_equal(crossings.far, 0);
    assert_int_equal(crossings.wide, borders * blocks);
    for (uint32_t b = 0; b < borders; b++) {
        assert_int_equal(crossings.up[b], blocks);
        assert_int_equal(crossings.down[b], blocks);
    }
}

static void the_wide_chain_goes_over_each_border_once_each_way(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= SIZE_MAX_HERE; size++)
        for (uint32_t first = 1; first <= size; first++)
            for (uint32_t each = 1; each <= size; each++)
                for (uint32_t cuts = 1; cuts <= 12; cuts += 3)
                    check(size, first, each, cuts);
}

/* The accumulators of a reduce go up like that; what the last rank has goes on to the root. */
static void so_does_a_reduce_and_then_to_its_root(void **state)
{
    const struct tci_plan *plan = &tci_wide_chain_reduce;

    (void)state;
    for (uint32_t size = 2; size <= SIZE_MAX_HERE; size++)
        for (uint32_t each = 1; each <= size; each++)
            for (uint32_t root = 0; root < size; root++) {
                struct tci_shape shape = {.size = size, .root = root, .radix = 2, .cuts = 4};
                uint32_t borders = host_of(size - 1, each, each), blocks = plan->blocks(&shape);
                uint64_t messages = 0;
                struct crossings crossings;

                count(plan, shape, each, each, &crossings);
                for (uint32_t b = 0; b < borders; b++) {
                    assert_true(crossings.up[b] >= blocks);
                    messages += crossings.up[b] + crossings.down[b];
                }
                assert_true(messages <= (uint64_t)(borders + 1) * blocks);
            }
}

/* What others that keep rank order send over one border; it says what the chain is for. */
static void the_others_in_rank_order_cross_more_often(void **state)
{
    static const struct tci_plan *const plans[] = {&tci_oneshot_allreduce, &tci_direct_allreduce,
                                                   &tci_centralized_allreduce};
    struct tci_shape shape = {.size = 16, .radix = 2, .cuts = 1};

    (void)state;
    for (size_t p = 0; p < TCI_LEN(plans); p++) {
        struct crossings crossings;

        count(plans[p], shape, 8, 8, &crossings);
        assert_true(crossings.up[0] + crossings.down[0] >= 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wide_chain_goes_over_each_border_once_each_way),
        cmocka_unit_test(so_does_a_reduce_and_then_to_its_root),
        cmocka_unit_test(the_others_in_rank_order_cross_more_often),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
