/* test_algorithm.c - what tc_algorithm says is what is done, and the same on every rank. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/coll_case.h"

enum { RANKS = 4 };

static const char *const names[COLL_KINDS] = {
    "allreduce", "reduce_scatter", "broadcast",  "allgather",       "reduce",   "gather",
    "scatter",   "alltoall",       "allgatherv", "reduce_scatterv", "alltoallv"};

static const size_t counts[] = {0, 1, 100, 5000, 100000};

static int open_world(void **state)
{
    static struct world world;

    world_open(&world, RANKS, NULL);
    *state = &world;
    return 0;
}

static int close_world(void **state)
{
    world_close(*state);
    return 0;
}

/* The operation that a rank's trace has of a tag. */
struct seen {
    uint64_t tag;
    int rank;
    const char *algorithm;
};

static void see(const tc_trace_event *event, void *arg)
{
    struct seen *seen = arg;

    if (strcmp(event->category, "collective") == 0 && event->tag == seen->tag &&
        event->rank == seen->rank)
        seen->algorithm = event->algorithm;
}

static void carry_out(struct world *world, const struct coll_case *what)
{
    struct coll_run run;

    coll_prepare(&run, what, RANKS);
    for (int r = 0; r < RANKS; r++)
        coll_start(&run, world->group[r], r);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(world_wait(world, run.future[r]), TC_OK);
    coll_check(&run);
}

static void check(struct world *world, const struct coll_case *what)
{
    const char *first = NULL;
    tc_options options;

    tc_options_default(&options);
    options.numerics = what->numerics;
    options.algorithm = what->algorithm;
    carry_out(world, what);
    for (int r = 0; r < RANKS; r++) {
        struct seen seen = {.tag = what->tag, .rank = r};
        const char *said = tc_algorithm(world->group[r], names[what->kind], what->count,
                                        what->dtype, what->op, &options);

        assert_non_null(said);
        first = r == 0 ? said : first;
        assert_string_equal(said, first);
        tc_trace_visit(world->context[r], see, &seen);
        /* What the largest block is, only the call knows. */
        if (what->kind < COLL_ALLGATHERV && strcmp(said, seen.algorithm) != 0)
            fail_msg("%s of %zu: rank %d says %s and did %s", names[what->kind], what->count, r,
                     said, seen.algorithm);
    }
}

static void what_is_said_is_what_is_done(void **state)
{
    uint64_t tag = 1000;

    for (int kind = 0; kind < COLL_KINDS; kind++)
        for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++)
            for (int numerics = TC_NUMERICS_CANONICAL; numerics <= TC_NUMERICS_EXACT; numerics++)
                check(*state, &(struct coll_case){.kind = (enum coll_kind)kind,
                                                  .count = counts[c],
                                                  .dtype = TC_DTYPE_F32,
                                                  .op = TC_REDUCE_SUM,
                                                  .numerics = numerics,
                                                  .tag = tag++});
}

static void a_name_is_said_as_it_was_given(void **state)
{
    check(*state, &(struct coll_case){.kind = COLL_ALLREDUCE,
                                      .count = 10,
                                      .dtype = TC_DTYPE_F32,
                                      .op = TC_REDUCE_SUM,
                                      .numerics = TC_NUMERICS_FAST,
                                      .algorithm = "ring",
                                      .tag = 1});
}

/* Fast mode may choose what cannot average integers; that gives way to what can. */
static void an_operator_that_a_plan_lacks_is_carried_out_by_another(void **state)
{
    struct coll_case what = {.kind = COLL_ALLREDUCE,
                             .dtype = TC_DTYPE_I32,
                             .op = TC_REDUCE_AVG,
                             .numerics = TC_NUMERICS_FAST,
                             .tag = 10};

    for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++, what.tag++) {
        what.count = counts[c];
        check(*state, &what);
    }
}

static void refused(const char *name, const char *algorithm, int numerics, tc_status_t status,
                    const char *says, tc_dist_ctx *group)
{
    tc_options options;

    tc_options_default(&options);
    options.algorithm = algorithm;
    options.numerics = numerics;
    assert_null(tc_algorithm(group, name, 1, TC_DTYPE_F32, TC_REDUCE_SUM, &options));
    assert_int_equal(tc_last_error()->status, status);
    if (strstr(tc_last_error()->message, says) == NULL)
        fail_msg("says: %s; not: %s", tc_last_error()->message, says);
}

static void what_would_be_refused_is_said(void **state)
{
    struct world *world = *state;
    tc_dist_ctx *group = world->group[0];

    refused("allreduce", "rings", 0, TC_ERR_INVALID_ARG, "it has: oneshot, direct", group);
    refused("allreduce", "ring", TC_NUMERICS_CANONICAL, TC_ERR_UNSUPPORTED, "rank order", group);
    refused("send", NULL, 0, TC_ERR_INVALID_ARG, "\"send\" is no collective", group);
    refused("allreduce", NULL, 77, TC_ERR_INVALID_ARG, "numerics", group);
    refused("allreduce", NULL, 0, TC_ERR_INVALID_ARG, "NULL", NULL);
    refused(NULL, NULL, 0, TC_ERR_INVALID_ARG, "NULL", group);
    assert_null(tc_algorithm(group, "allreduce", 1, (tc_dtype_t)9, TC_REDUCE_SUM, NULL));
    assert_null(tc_algorithm(group, "reduce", 1, TC_DTYPE_F32, TC_REDUCE_BXOR, NULL));
    assert_null(tc_algorithm(group, "allgather", SIZE_MAX / 8, TC_DTYPE_F32, TC_REDUCE_SUM, NULL));
    assert_non_null(strstr(tc_last_error()->message, "more than memory can hold"));
    assert_string_equal(tc_algorithm(group, "barrier", 1, (tc_dtype_t)9, TC_REDUCE_SUM, NULL),
                        "dissemination");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_is_what_is_done),
        cmocka_unit_test(a_name_is_said_as_it_was_given),
        cmocka_unit_test(an_operator_that_a_plan_lacks_is_carried_out_by_another),
        cmocka_unit_test(what_would_be_refused_is_said),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
