/* test_cost.c - the cost model beside the simulator, and what can be expected of any cost. */
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

#include "algo/algo.h"
#include "algo/choice.h"
#include "algo/cost.h"
#include "algo/figures.h"
#include "core/base.h"
#include "sim/world_sim.h"
#include "support/world.h"

/* The segment is larger than every payload but the last. */
enum { SEGMENT_BYTES = 1 << 18, WORK_MAX = 3 << 20 };
static const size_t payloads[] = {0, 64, 4096, 65536, SEGMENT_BYTES, 5 * SEGMENT_BYTES};

/* The simulator's figures, but that what a rank does alone costs nothing there. */
static void figures_of(const struct sim_net_config *net, struct tci_figures *figures)
{
    tci_figures_default(figures);
    figures->link[TCI_REACH_LOCAL] =
        (struct tci_link_figures){.latency_ps = (uint64_t)(net->latency_ns * 1000),
                                  .overhead_ps = (uint64_t)(net->overhead_ns * 1000),
                                  .byte_fs = (uint64_t)(net->byte_ns * 1000000)};
    for (int f = 0; f < TCI_FOLD_CLASSES; f++)
        figures->fold_fs[f] = (uint64_t)(net->fold_byte_ns * 1000000);
    figures->copy_fs = figures->fold_fs[0];
    figures->eager_bytes = net->eager_max;
}

/* One operation of all ranks in virtual time, in nanoseconds. */
static uint64_t simulate(const struct tci_plan *plan, uint32_t size, size_t bytes,
                         const struct sim_net_config *net)
{
    struct sim_world_config config;
    struct sim_world *world;
    tc_future **futures = calloc(size, sizeof(*futures));
    char *buffer = calloc(size + 1, bytes + 8);
    uint64_t end_ns;

    assert_non_null(futures);
    assert_non_null(buffer);
    sim_world_config_default(&config);
    config.net = *net;
    config.net.no_data = true;
    world = sim_world_new(size, &config);
    for (uint32_t r = 0; r < size; r++) {
        struct tci_op_args args = {
            .name = "cost",
            .plan = plan,
            .shape = {.rank = r, .size = size, .radix = 2, .cuts = 1, .in_place = true},
            .call = {.count = bytes, .root = -1, .coll = (uint8_t)plan->coll, .op = 255},
            .send = buffer,
            .recv = buffer,
            .count = plan->layout == TCI_LAYOUT_NONE ? 0 : bytes / sizeof(float),
            .elem_bytes = sizeof(float),
            .lane_elems = tci_lane_bytes_max(plan->layout, size, SEGMENT_BYTES) / sizeof(float),
            .tag = 1,
            .peer = TCI_ALL_PEERS,
            .timeout_ms = -1,
            .auto_release = true};

        tci_fold_init(&args.fold, TC_DTYPE_F32, TC_REDUCE_SUM);
        futures[r] = tci_op_start(tci_comm_of(sim_group(world, r)), &args);
    }
    assert_true(sim_world_run(world, futures, size, TCI_NEVER));
    end_ns = world->clock.now_ns;
    for (uint32_t r = 0; r < size; r++) {
        assert_int_equal(tc_future_test(futures[r]), TC_OK);
        tc_future_release(futures[r]);
    }
    sim_world_free(world);
    free(buffer);
    free(futures);
    return end_ns;
}

static double model_ns(const struct tci_plan *plan, uint32_t size, size_t bytes,
                       const struct tci_figures *figures)
{
    const struct tci_shape shape = {.size = size, .radix = 2, .cuts = 1, .in_place = true};
    uint64_t lane = tci_lane_bytes_max(plan->layout, size, SEGMENT_BYTES);
    struct tci_cost cost;

    assert_true(tci_cost_walk(plan, &shape, figures, TCI_FOLD_WIDE, lane, &cost));
    return (double)tci_cost_time(&cost, figures, plan->layout == TCI_LAYOUT_NONE ? 0 : bytes,
                                 lane) *
           1e-3;
}

static bool has_fold(const struct tci_plan *plan, uint32_t size)
{
    struct tci_shape shape = {.size = size, .radix = 2, .cuts = 1, .in_place = true};

    for (uint32_t i = 0; i < plan->steps(&shape); i++) {
        struct tci_step step = {0};

        plan->step(&shape, i, &step);
        if (!tci_step_is_message(step.kind))
            return true;
    }
    return false;
}

struct spread {
    double low, high; /* of model over simulation */
};

static void compare(const struct tci_plan *plan, uint32_t size, struct spread *spread)
{
    struct sim_net_config net;
    struct tci_figures figures;

    sim_net_config_default(&net);
    if (has_fold(plan, size))
        net.fold_byte_ns = 0; /* the simulator has no time for what a rank does alone */
    figures_of(&net, &figures);
    /* Many ranks with much to move take long under sanitizers: only where there is time. */
    for (size_t p = 0; p < TCI_LEN(payloads); p++) {
        if (size * payloads[p] > WORK_MAX && test_effort() < 2)
            break;

        double simulated = (double)simulate(plan, size, payloads[p], &net);
        double ratio = model_ns(plan, size, payloads[p], &figures) / simulated;

        spread->low = ratio < spread->low ? ratio : spread->low;
        spread->high = ratio > spread->high ? ratio : spread->high;
        if (ratio < 0.5 || ratio > 3)
            fail_msg("%s %s, %u ranks, %zu bytes: the model says %.2f of the simulated %.3f us",
                     tci_coll_name(plan->coll), plan->name, size, payloads[p], ratio,
                     simulated * 1e-3);
    }
}

static void the_model_is_near_the_simulator(void **state)
{
    static const uint32_t sizes[] = {2, 3, 4, 8, 13, 21};

    (void)state;
    for (size_t p = 0; tci_plans[p] != NULL; p++) {
        struct spread spread = {1, 1};

        if (tci_plans[p]->coll == TCI_COLL_P2P)
            continue;
        for (size_t s = 0; s < TCI_LEN(sizes); s++)
            compare(tci_plans[p], sizes[s], &spread);
        print_message("%-15s %-20s %.2f - %.2f of the simulation\n",
                      tci_coll_name(tci_plans[p]->coll), tci_plans[p]->name, spread.low,
                      spread.high);
    }
}

/* Groups of which only a part is walked. */
static void large_groups_are_near_the_simulator_too(void **state)
{
    static const struct {
        enum tci_coll coll;
        const char *name;
        uint32_t size;
    } cases[] = {
        {TCI_COLL_ALLREDUCE, "ring", 96},          {TCI_COLL_ALLREDUCE, "direct", 96},
        {TCI_COLL_ALLREDUCE, "oneshot", 100},      {TCI_COLL_ALLREDUCE, "tree", 1024},
        {TCI_COLL_BROADCAST, "tree", 1500},        {TCI_COLL_BROADCAST, "direct", 90},
        {TCI_COLL_BARRIER, "dissemination", 1000},
    };
    struct sim_net_config net;
    struct tci_figures figures;

    (void)state;
    sim_net_config_default(&net);
    net.fold_byte_ns = 0;
    figures_of(&net, &figures);
    for (size_t c = 0; c < TCI_LEN(cases); c++)
        for (size_t p = 0; p < 4; p++) {
            const struct tci_plan *plan = tci_plan_find(cases[c].coll, cases[c].name);
            double simulated = (double)simulate(plan, cases[c].size, payloads[p], &net);
            double ratio = model_ns(plan, cases[c].size, payloads[p], &figures) / simulated;

            if (ratio < 0.5 || ratio > 2)
                fail_msg("%s %s, %u ranks, %zu bytes: the model says %.2f of the simulation",
                         tci_coll_name(cases[c].coll), cases[c].name, cases[c].size, payloads[p],
                         ratio);
        }
}

/* More bytes never cost less, nor do slower links, whatever the plan. */
static void a_cost_grows_with_bytes_and_with_figures(void **state)
{
    struct tci_figures figures, slow;

    (void)state;
    tci_figures_default(&figures);
    slow = figures;
    slow.link[TCI_REACH_LOCAL].latency_ps *= 4;
    slow.link[TCI_REACH_LOCAL].byte_fs *= 4;
    for (size_t p = 0; tci_plans[p] != NULL; p++)
        for (uint32_t size = 2;
             size < (test_effort() < 2 ? 100 : 200) && tci_plans[p]->coll != TCI_COLL_P2P;
             size += 33) {
            double before = 0;

            for (size_t b = 0; b < 5 * SEGMENT_BYTES; b = 2 * b + 16) {
                double ns = model_ns(tci_plans[p], size, b, &figures);

                if (ns < before * 0.999 || model_ns(tci_plans[p], size, b, &slow) < ns * 0.8)
                    fail_msg("%s %s, %u ranks, %zu bytes: %.3f us after %.3f",
                             tci_coll_name(tci_plans[p]->coll), tci_plans[p]->name, size, b,
                             ns * 1e-3, before * 1e-3);
                before = ns;
            }
        }
}

/* For the plots of docs/plans.md: the simulated and the modelled time of every all-reduce and
 * broadcast, as CSV into the file that TCDIST_TEST_CURVES names. */
static void the_curves_are_written_where_asked_for(void **state)
{
    static const uint32_t sizes[] = {4, 16, 64};
    const char *path = getenv("TCDIST_TEST_CURVES");
    struct sim_net_config net;
    struct tci_figures figures;
    FILE *file;

    (void)state;
    if (path == NULL) {
        printf("skipped: TCDIST_TEST_CURVES names no file\n");
        skip();
    }
    file = fopen(path, "w");
    assert_non_null(file);
    sim_net_config_default(&net);
    figures_of(&net, &figures);
    fputs("collective,algorithm,ranks,bytes,simulated_us,modelled_us\n", file);
    for (size_t p = 0; tci_plans[p] != NULL; p++)
        for (size_t s = 0; s < TCI_LEN(sizes) && tci_plans[p]->coll <= TCI_COLL_BROADCAST; s++)
            for (size_t bytes = 64; bytes <= (size_t)1 << 22; bytes *= 4)
                fprintf(file, "%s,%s,%u,%zu,%.3f,%.3f\n", tci_coll_name(tci_plans[p]->coll),
                        tci_plans[p]->name, sizes[s], bytes,
                        (double)simulate(tci_plans[p], sizes[s], bytes, &net) * 1e-3,
                        model_ns(tci_plans[p], sizes[s], bytes, &figures) * 1e-3);
    assert_int_equal(fclose(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_is_near_the_simulator),
        cmocka_unit_test(large_groups_are_near_the_simulator_too),
        cmocka_unit_test(a_cost_grows_with_bytes_and_with_figures),
        cmocka_unit_test(the_curves_are_written_where_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
