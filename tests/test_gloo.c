/* test_gloo.c - the gloo backend: its variables, and the route that all ranks agree on. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base.h"
#include "support/world.h"

enum { RANKS_MAX = 5, COUNT = 1000, TEXT_MAX = 1 << 16 };

/* ---- Ranks as threads ----------------------------------------------------------------------- */

struct rank {
    pthread_t thread;
    tc_context *context;
    tc_dist_options options;
    int numerics;
    tc_status_t status;
    char why[400];
    float x[COUNT];
};

static void *live(void *arg)
{
    struct rank *rank = arg;
    tc_dist_ctx *group = NULL;
    tc_future *future;
    tc_options options;

    tc_options_default(&options);
    options.numerics = rank->numerics;
    future = tc_dist_init_async(rank->context, &rank->options, &group);
    rank->status = tc_future_wait(future, -1);
    tc_future_release(future);
    for (int round = 0; rank->status == TC_OK && round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            rank->x[i] = (float)(i + rank->options.rank) / 3.0f;
        future = tc_allreduce_async(group, TC_TAG_ORDERED, rank->x, rank->x, COUNT, TC_DTYPE_F32,
                                    TC_REDUCE_SUM, &options);
        rank->status = tc_future_wait(future, -1);
        tc_future_release(future);
    }
    if (rank->status != TC_OK)
        snprintf(rank->why, sizeof rank->why, "%s", tc_last_error()->message);
    if (group != NULL && rank->status == TC_OK) {
        rank->status = tc_dist_finalize(group);
        if (rank->status != TC_OK)
            snprintf(rank->why, sizeof rank->why, "%s", tc_last_error()->message);
    } else if (group != NULL) {
        tc_dist_close(group);
    }
    return NULL;
}

static void begin(struct rank *ranks, int size, const char *url, int fd)
{
    for (int r = 0; r < size; r++) {
        assert_int_equal(tc_init(&ranks[r].context), TC_OK);
        tc_dist_options_default(&ranks[r].options);
        ranks[r].options.backend = TC_DIST_GLOO;
        ranks[r].options.world_size = size;
        ranks[r].options.rank = r;
        ranks[r].options.rendezvous_url = url;
        ranks[r].options.listen_fd = r == 0 ? fd : -1;
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, live, &ranks[r]), 0);
    }
}

/* Runs three all-reduces on each of `size` ranks, and gives what they have traced. */
static const char *run(int size, int numerics, struct rank *ranks)
{
    static char text[TEXT_MAX];
    char url[64];
    int fd = world_listen(url, sizeof url);
    int saved = dup(STDERR_FILENO), file = memfd_create("stderr", MFD_CLOEXEC);
    ssize_t len;

    assert_true(saved >= 0 && file >= 0);
    /* Two writes at one time to a memory file may both land at its old end unless each appends. */
    assert_int_equal(fcntl(file, F_SETFL, O_APPEND), 0);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    for (int r = 0; r < size; r++)
        ranks[r] = (struct rank){.numerics = numerics};
    begin(ranks, size, url, fd);
    for (int r = 0; r < size; r++)
        pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < size; r++)
        tc_shutdown(ranks[r].context);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    len = pread(file, text, sizeof text - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    close(file);
    return text;
}

static int count_of(const char *text, const char *word)
{
    int count = 0;

    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        count++;
    return count;
}

/* All have the same bits, and about the right ones. */
static void check_sums(const struct rank *ranks, int size)
{
    for (int r = 0; r < size; r++) {
        if (ranks[r].status != TC_OK)
            fail_msg("rank %d: %s", r, ranks[r].why);
        assert_memory_equal(ranks[r].x, ranks[0].x, sizeof ranks[0].x);
    }
    for (int i = 0; i < COUNT; i++) {
        float sum = (float)(size * i) / 3.0f + (float)(size * (size - 1) / 2) / 3.0f;

        assert_true(ranks[0].x[i] <= sum * 1.00001f && ranks[0].x[i] >= sum * 0.99999f);
    }
}

static int clear(void **state)
{
    static const char *const names[] = {"TC_GLOO_RING",           "TC_GLOO_NO_RING",
                                        "TC_GLOO_TRACE",          "TC_GLOO_RING_CONNECT_TIMEOUT_MS",
                                        "TC_GLOO_ADVERTISE_HOST", "TC_GLOO_ADVERTISE_HOSTS"};

    (void)state;
    for (size_t k = 0; k < TCI_LEN(names); k++)
        unsetenv(names[k]);
    return 0;
}

/* ---- Routes --------------------------------------------------------------------------------- */

static struct rank ranks[RANKS_MAX];

static void the_broker_route_is_the_default_and_each_call_says_so(void **state)
{
    const char *text;

    (void)state;
    setenv("TC_GLOO_TRACE", "1", 1);

    text = run(4, TC_NUMERICS_DEFAULT, ranks);

    check_sums(ranks, 4);
    assert_int_equal(count_of(text, "allreduce_f32_sum route=broker\n"), 4 * 3);
    assert_int_equal(count_of(text, "[tcdist:gloo rank 2] "), 3);
    assert_int_equal(count_of(text, "route=ring"), 0);
}

static void without_a_trace_nothing_is_printed(void **state)
{
    (void)state;
    setenv("TC_GLOO_RING", "1", 1);

    assert_string_equal(run(3, TC_NUMERICS_DEFAULT, ranks), "");

    check_sums(ranks, 3);
}

static void the_ring_route_is_taken_where_it_is_asked_for(void **state)
{
    (void)state;
    setenv("TC_GLOO_TRACE", "1", 1);
    setenv("TC_GLOO_RING", "1", 1);
    for (int size = 3; size <= RANKS_MAX; size++) {
        const char *text = run(size, TC_NUMERICS_FAST, ranks);

        check_sums(ranks, size);
        assert_int_equal(count_of(text, "direct_ring=enabled\n"), size);
        assert_int_equal(count_of(text, "allreduce_f32_sum route=ring\n"), size * 3);
        assert_int_equal(count_of(text, "route=broker"), 0);
    }
}

static void the_ring_route_keeps_canonical_bits(void **state)
{
    const char *text;

    (void)state;
    setenv("TC_GLOO_TRACE", "1", 1);
    setenv("TC_GLOO_RING", "1", 1);

    text = run(4, TC_NUMERICS_DEFAULT, ranks);

    check_sums(ranks, 4);
    assert_int_equal(count_of(text, "route=ring\n"), 4 * 3);
    for (int i = 0; i < COUNT; i++) {
        float in[4], out;
        const void *inputs[4] = {&in[0], &in[1], &in[2], &in[3]};

        for (int r = 0; r < 4; r++)
            in[r] = (float)(i + r) / 3.0f;
        tc_reduce_reference(&out, inputs, 4, 1, TC_DTYPE_F32, TC_REDUCE_SUM);
        assert_true(out == ranks[0].x[i]);
    }
}

static void two_ranks_have_no_ring(void **state)
{
    const char *text;

    (void)state;
    setenv("TC_GLOO_TRACE", "1", 1);
    setenv("TC_GLOO_RING", "1", 1);

    text = run(2, TC_NUMERICS_FAST, ranks);

    check_sums(ranks, 2);
    assert_int_equal(count_of(text, "route=broker\n"), 2 * 3);
}

static void the_ring_can_be_switched_off_call_by_call(void **state)
{
    const char *text;

    (void)state;
    setenv("TC_GLOO_TRACE", "1", 1);
    setenv("TC_GLOO_RING", "1", 1);
    setenv("TC_GLOO_NO_RING", "1", 1);

    text = run(3, TC_NUMERICS_FAST, ranks);

    check_sums(ranks, 3);
    assert_int_equal(count_of(text, "direct_ring=enabled\n"), 3);
    assert_int_equal(count_of(text, "route=broker\n"), 3 * 3);
}

/* No connection can be made to a multicast address: ranks 1 and 2 do not reach each other. */
static void a_blocked_edge_makes_all_fall_back(void **state)
{
    const char *text;

    (void)state;
    setenv("TC_GLOO_TRACE", "1", 1);
    setenv("TC_GLOO_RING", "1", 1);
    setenv("TC_GLOO_RING_CONNECT_TIMEOUT_MS", "50", 1);
    setenv("TC_GLOO_ADVERTISE_HOSTS", " 127.0.0.1 , 224.0.0.1 ,224.0.0.1", 1);

    text = run(3, TC_NUMERICS_FAST, ranks);

    check_sums(ranks, 3);
    assert_int_equal(count_of(text, "direct_ring=fallback\n"), 3);
    assert_int_equal(count_of(text, "route=broker\n"), 3 * 3);
    assert_int_equal(count_of(text, "route=ring"), 0);
}

static void one_direction_of_an_edge_is_enough(void **state)
{
    const char *text;

    (void)state;
    setenv("TC_GLOO_TRACE", "1", 1);
    setenv("TC_GLOO_RING", "1", 1);
    setenv("TC_GLOO_ADVERTISE_HOSTS", ",,224.0.0.1,", 1);

    text = run(4, TC_NUMERICS_FAST, ranks);

    check_sums(ranks, 4);
    assert_int_equal(count_of(text, "direct_ring=enabled\n"), 4);
    assert_int_equal(count_of(text, "route=ring\n"), 4 * 3);
}

/* ---- Variables ------------------------------------------------------------------------------ */

static void what_does_not_parse_is_refused(void **state)
{
    static const struct {
        const char *name, *text, *says;
    } cases[] = {
        {"TC_GLOO_RING", "yes", "1 or 0"},
        {"TC_GLOO_TRACE", "2", "1 or 0"},
        {"TC_GLOO_RING_CONNECT_TIMEOUT_MS", "9", "10 to 60000"},
        {"TC_GLOO_RING_CONNECT_TIMEOUT_MS", "60001", "10 to 60000"},
        {"TC_GLOO_RING_CONNECT_TIMEOUT_MS", "3s", "10 to 60000"},
        {"TC_GLOO_RING_CONNECT_TIMEOUT_MS", " 30", "10 to 60000"},
        {"TC_GLOO_ADVERTISE_HOSTS", "a,b", "2 entries for 3 ranks"},
        {"TC_GLOO_ADVERTISE_HOSTS", "a,b,c,d", "4 entries for 3 ranks"},
        {"TC_GLOO_ADVERTISE_HOST", "no host", "advertised host"},
    };
    tc_context *context;

    (void)state;
    assert_int_equal(tc_init(&context), TC_OK);
    for (size_t k = 0; k < TCI_LEN(cases); k++) {
        tc_dist_ctx *group = NULL;

        setenv(cases[k].name, cases[k].text, 1);
        assert_int_equal(tc_dist_init(context, TC_DIST_GLOO, 3, 1, "tcp://127.0.0.1:4100", &group),
                         TC_ERR_INVALID_ARG);
        if (strstr(tc_last_error()->message, cases[k].says) == NULL)
            fail_msg("%s=%s says \"%s\"", cases[k].name, cases[k].text, tc_last_error()->message);
        clear(NULL);
    }
    tc_shutdown(context);
}

static void other_backends_do_not_read_them(void **state)
{
    struct world world;

    (void)state;
    setenv("TC_GLOO_RING", "nonsense", 1);

    world_open(&world, 3, NULL);

    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_broker_route_is_the_default_and_each_call_says_so, clear),
        cmocka_unit_test_teardown(without_a_trace_nothing_is_printed, clear),
        cmocka_unit_test_teardown(the_ring_route_is_taken_where_it_is_asked_for, clear),
        cmocka_unit_test_teardown(the_ring_route_keeps_canonical_bits, clear),
        cmocka_unit_test_teardown(two_ranks_have_no_ring, clear),
        cmocka_unit_test_teardown(the_ring_can_be_switched_off_call_by_call, clear),
        cmocka_unit_test_teardown(a_blocked_edge_makes_all_fall_back, clear),
        cmocka_unit_test_teardown(one_direction_of_an_edge_is_enough, clear),
        cmocka_unit_test_teardown(what_does_not_parse_is_refused, clear),
        cmocka_unit_test_teardown(other_backends_do_not_read_them, clear),
    };

    return cmocka_run_group_tests(tests, clear, NULL);
}
