/* test_grid.c - plan x ranks x count x type x operator x in place x lanes x window, simulated. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 14400, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "core/base.h"
#include "sim_batch.h"
#include "support/sample.h"

/* Canonical and exact results are compared with their reference bit for bit on any data, fast ones
 * on data whose sums are exact in every order.  That a plan has one order, the same on all ranks,
 * is in test_order.c. */

enum { RANKS_MAX = 17, COUNT_LONG = 1000 };

/* At once: they overlap, and yet what they touch stays in the processor's cache. */
enum { BATCH = 8 };

static const tc_dtype_t dtypes[] = {TC_DTYPE_F16,    TC_DTYPE_BF16,   TC_DTYPE_F32,  TC_DTYPE_I8,
                                    TC_DTYPE_I32,    TC_DTYPE_F64,    TC_DTYPE_U8,   TC_DTYPE_I16,
                                    TC_DTYPE_U16,    TC_DTYPE_U32,    TC_DTYPE_I64,  TC_DTYPE_U64,
                                    TC_DTYPE_F8E4M3, TC_DTYPE_F8E5M2, TC_DTYPE_BOOL, TC_DTYPE_C64};

/* One lane; some; more than run at once: a long payload has 1, 3 to 5, 5 to 9 of them. */
static const size_t segments[] = {1 << 20, 120, 64};
static const uint32_t windows[] = {2, 7, TCI_WINDOW};

/* One point of the grid. */
typedef void (*point_fn)(const struct tci_plan *plan, const struct coll_case *what, void *arg);

static bool is_float(tc_dtype_t dtype)
{
    return dtype == TC_DTYPE_F16 || dtype == TC_DTYPE_BF16 || dtype == TC_DTYPE_F32 ||
           dtype == TC_DTYPE_F64;
}

/* What select.c lets through. */
static bool may_be(const struct tci_plan *plan, const struct coll_case *what, uint32_t ranks)
{
    bool is_order_free = what->numerics != TC_NUMERICS_CANONICAL || plan->canonical || ranks == 1;
    bool averages_integers = what->op == TC_REDUCE_AVG && !is_float(what->dtype) &&
                             what->dtype != TC_DTYPE_F8E4M3 && what->dtype != TC_DTYPE_F8E5M2 &&
                             what->dtype != TC_DTYPE_C64;

    if (tc_reduce_supported(what->dtype, what->op) != TC_OK)
        return false;
    if (what->numerics == TC_NUMERICS_EXACT)
        return plan->whole && is_float(what->dtype) && what->count <= 2 &&
               (what->op == TC_REDUCE_SUM || what->op == TC_REDUCE_AVG);
    return is_order_free && (plan->canonical || ranks == 1 || !averages_integers);
}

static void each_numerics(const struct tci_plan *plan, struct coll_case what, uint32_t ranks,
                          point_fn each, void *arg)
{
    if (!coll_folds(what.kind)) {
        what.numerics = TC_NUMERICS_CANONICAL;
        each(plan, &what, arg);
        return;
    }
    for (int numerics = TC_NUMERICS_CANONICAL; numerics <= TC_NUMERICS_EXACT; numerics++) {
        what.numerics = numerics;
        if (may_be(plan, &what, ranks))
            each(plan, &what, arg);
    }
}

/* Elements, for all ranks some and not as many, and bytes for more segments than have a lane at
 * once.  A longer one would send the same messages more often: most of the grid's time. */
static size_t long_count(tc_dtype_t dtype)
{
    return tci_max(67, 270 / tc_dtype_size(dtype));
}

static void each_type(const struct tci_plan *plan, struct coll_case what, uint32_t ranks,
                      point_fn each, void *arg)
{
    int op_last = coll_folds(what.kind) ? TC_REDUCE_BXOR : TC_REDUCE_SUM;
    bool is_long = what.count == COUNT_LONG;

    for (size_t t = 0; t < TCI_LEN(dtypes); t++)
        for (int op = TC_REDUCE_SUM; op <= op_last; op++)
            for (int in_place = what.kind == COLL_BROADCAST; in_place < 2; in_place++) {
                what.dtype = dtypes[t];
                what.count = is_long ? long_count(what.dtype) : what.count;
                what.op = (tc_reduce_op_t)op;
                what.in_place = in_place;
                what.root = (int)((what.count + t + (unsigned)op) % ranks);
                if (!in_place || coll_can_be_in_place(what.kind))
                    each_numerics(plan, what, ranks, each, arg);
            }
}

/* All points of one number of ranks, for one number of lanes and one window. */
static void each_point(uint32_t ranks, point_fn each, void *arg)
{
    const size_t counts[] = {0, 1, ranks - 1, ranks + 1, COUNT_LONG};

    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++) {
        enum coll_kind kinds[2];
        int n = sim_kinds_of(*plan, kinds);

        for (int k = 0; k < n; k++)
            for (size_t c = 0; c < TCI_LEN(counts); c++) {
                struct coll_case what = {
                    .kind = kinds[k], .count = counts[c], .algorithm = (*plan)->name};

                each_type(*plan, what, ranks, each, arg);
            }
    }
}

struct grid {
    struct sample sample;
    struct sim_batch batch;
};

static void add_work(const struct tci_plan *plan, const struct coll_case *what, void *arg)
{
    struct grid *grid = arg;

    (void)plan;
    (void)what;
    sample_add(&grid->sample, TCI_LEN(segments) * TCI_LEN(windows));
}

static void take(const struct tci_plan *plan, const struct coll_case *what, void *arg)
{
    struct grid *grid = arg;

    (void)plan;
    if (sample_takes(&grid->sample))
        sim_batch_add(&grid->batch, *what);
}

static void run_world(struct grid *grid, uint32_t ranks, size_t segment, uint32_t window)
{
    struct sim_world_config config;
    char where[128];

    snprintf(where, sizeof(where), ", segments of %zu bytes, window %u, seed %llu", segment, window,
             (unsigned long long)test_seed());
    sim_world_config_default(&config);
    config.segment_bytes = segment;
    config.window = window;
    /* Only messages take time, by chance: two events each instead of five, and other orders. */
    config.net.overhead_ns = config.net.byte_ns = config.net.fold_byte_ns = 0;
    config.net.jitter = 1;
    config.net.seed = grid->batch.random;
    config.net.eager_max = window == 7 ? 128 : config.net.eager_max; /* credits too */
    grid->batch.world = sim_world_new(ranks, &config);
    assert_non_null(grid->batch.world);
    grid->batch.where = where;
    each_point(ranks, take, grid);
    if (grid->batch.count > 0)
        sim_batch_flush(&grid->batch);
    sim_world_free(grid->batch.world);
}

static void the_grid_equals_the_reference(void **state)
{
    static const double budgets[] = {1500, 10000, 0};
    struct grid *grid = calloc(1, sizeof(*grid));

    (void)state;
    assert_non_null(grid);
    grid->sample = sample_begin(budgets[test_effort()]);
    grid->batch.random = test_seed();
    grid->batch.room = BATCH;
    for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++)
        each_point(ranks, add_work, grid);
    for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++)
        for (size_t s = 0; s < TCI_LEN(segments); s++)
            for (size_t w = 0; w < TCI_LEN(windows); w++)
                run_world(grid, ranks, segments[s], windows[w]);
    print_message("%u of %u points\n", grid->sample.taken, grid->sample.taken + grid->sample.left);
    free(grid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_grid_equals_the_reference),
    };

    test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
