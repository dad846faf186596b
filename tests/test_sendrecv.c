/* test_sendrecv.c - send and receive between any two ranks: tagged, ordered, early and late. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/world.h"

enum { RANKS = 3 };

static struct world world;

static int open_world(void **state)
{
    (void)state;
    world_open(&world, RANKS, NULL);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

static void finish(tc_future *future)
{
    if (world_wait(&world, future) != TC_OK)
        fail_msg("%s", tc_future_error(future)->message);
    tc_future_release(future);
}

static tc_future *send_to(int from, int to, uint64_t tag, const int64_t *data, size_t count)
{
    return tc_send_async(world.group[from], tag, data, count, TC_DTYPE_I64, to, NULL);
}

static tc_future *recv_from(int at, int from, uint64_t tag, int64_t *data, size_t count)
{
    return tc_recv_async(world.group[at], tag, data, count, TC_DTYPE_I64, from, NULL);
}

static void fill(int64_t *data, size_t count, int64_t seed)
{
    for (size_t i = 0; i < count; i++)
        data[i] = seed * 1000003 + (int64_t)i;
}

static void expect(const int64_t *data, size_t count, int64_t seed)
{
    for (size_t i = 0; i < count; i++)
        if (data[i] != seed * 1000003 + (int64_t)i)
            fail_msg("element %zu of %zu is wrong", i, count);
}

/* ---- Pairs ---------------------------------------------------------------------------------- */

static void every_pair_both_ways_under_one_tag_at_once(void **state)
{
    enum { COUNT = 1000 };
    static int64_t sent[RANKS][RANKS][COUNT], got[RANKS][RANKS][COUNT];
    const uint64_t tags[] = {0, 7, UINT64_MAX, TC_TAG_ORDERED};
    tc_future *futures[2 * RANKS * RANKS];

    (void)state;
    for (size_t t = 0; t < sizeof(tags) / sizeof(tags[0]); t++) {
        int n = 0;
        memset(got, 0, sizeof(got));
        for (int a = 0; a < RANKS; a++)
            for (int b = 0; b < RANKS; b++) { /* to itself too */
                fill(sent[a][b], COUNT, a * 10 + b);
                futures[n++] = send_to(a, b, tags[t], sent[a][b], COUNT);
                futures[n++] = recv_from(a, b, tags[t], got[a][b], COUNT);
            }
        while (n > 0)
            finish(futures[--n]);
        for (int a = 0; a < RANKS; a++)
            for (int b = 0; b < RANKS; b++)
                expect(got[a][b], COUNT, b * 10 + a);
    }
}

static void a_collective_and_a_pair_may_use_one_tag_at_once(void **state)
{
    int64_t value = 5, got = 0, sums[RANKS] = {1, 2, 3};
    tc_future *futures[RANKS + 2];

    (void)state;
    for (int r = 0; r < RANKS; r++)
        futures[r] = tc_allreduce_async(world.group[r], 9, &sums[r], &sums[r], 1, TC_DTYPE_I64,
                                        TC_REDUCE_SUM, NULL);
    futures[RANKS] = send_to(0, 1, 9, &value, 1);
    futures[RANKS + 1] = recv_from(1, 0, 9, &got, 1);
    for (int i = 0; i < RANKS + 2; i++)
        finish(futures[i]);
    assert_int_equal(got, 5);
    assert_int_equal(sums[2], 6);
}

static void ordered_calls_match_in_their_order(void **state)
{
    enum { CALLS = 200 };
    int64_t sent[CALLS], got[CALLS] = {0};
    tc_future *sends[CALLS], *recvs[CALLS];

    (void)state;
    for (int i = 0; i < CALLS; i++) {
        sent[i] = i * 3;
        sends[i] = send_to(2, 0, TC_TAG_ORDERED, &sent[i], 1);
    }
    for (int i = 0; i < CALLS; i++)
        recvs[i] = recv_from(0, 2, TC_TAG_ORDERED, &got[i], 1);
    for (int i = 0; i < CALLS; i++) {
        finish(sends[i]);
        finish(recvs[i]);
        assert_int_equal(got[i], i * 3);
    }
}

/* ---- Early and late ------------------------------------------------------------------------- */

enum { LONG = 1 << 20 }; /* 8 MiB of i64: far beyond what is sent without a receive */

static void late(size_t count, int is_recv_late, int to)
{
    int64_t *sent = malloc((count + 1) * sizeof(*sent));
    int64_t *got = calloc(count + 1, sizeof(*got));
    int64_t note = 1, noted = 0;
    tc_future *first, *second;

    assert_non_null(sent);
    assert_non_null(got);
    fill(sent, count, 4);
    got[count] = 77;
    first = is_recv_late ? send_to(0, to, 1, sent, count) : recv_from(to, 0, 1, got, count);

    /* A message of another tag is through: the first call has long begun. */
    second = recv_from(to, 0, 2, &noted, 1);
    finish(send_to(0, to, 2, &note, 1));
    finish(second);
    if (!is_recv_late)
        assert_int_equal(tc_future_test(first), TC_PENDING);
    second = is_recv_late ? recv_from(to, 0, 1, got, count) : send_to(0, to, 1, sent, count);
    finish(first);
    finish(second);

    expect(got, count, 4);
    assert_int_equal(got[count], 77);
    free(sent);
    free(got);
}

static void late_receivers_and_late_senders(void **state)
{
    const size_t counts[] = {0, 1, 1000, 8192, 8193, LONG};

    (void)state;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (int is_recv_late = 0; is_recv_late < 2; is_recv_late++)
            for (int to = 0; to < RANKS; to++)
                late(counts[c], is_recv_late, to);
}

static void nothing_is_sent_and_received_from_nowhere(void **state)
{
    tc_future *got = recv_from(1, 0, 3, NULL, 0);

    (void)state;
    finish(send_to(0, 1, 3, NULL, 0));
    finish(got);
}

/* ---- Many ----------------------------------------------------------------------------------- */

static void many_tags_in_flight_in_different_orders(void **state)
{
    enum { TAGS = 300 };
    int64_t *sent[TAGS], *got[TAGS];
    tc_future *sends[TAGS], *recvs[TAGS];
    size_t counts[TAGS];

    (void)state;
    for (int t = 0; t < TAGS; t++) {
        counts[t] = t % 10 == 0 ? 20000 + (size_t)t : (size_t)t;
        sent[t] = malloc((counts[t] + 1) * sizeof(int64_t));
        got[t] = calloc(counts[t] + 1, sizeof(int64_t));
        assert_non_null(sent[t]);
        assert_non_null(got[t]);
        fill(sent[t], counts[t], t);
        sends[t] = send_to(1, 2, (uint64_t)t, sent[t], counts[t]);
    }
    for (int i = 0; i < TAGS; i++) {
        int t = (i * 77 + 13) % TAGS; /* 77 and 300 have no common factor */
        recvs[t] = recv_from(2, 1, (uint64_t)t, got[t], counts[t]);
    }
    for (int t = TAGS - 1; t >= 0; t--) {
        finish(recvs[t]);
        finish(sends[t]);
        expect(got[t], counts[t], t);
        free(sent[t]);
        free(got[t]);
    }
}

static void a_tag_is_used_again_and_again(void **state)
{
    int64_t value, got;

    (void)state;
    for (int i = 0; i < 500; i++) {
        value = i;
        tc_future *recv = recv_from(1, 0, 5, &got, 1);
        finish(send_to(0, 1, 5, &value, 1));
        finish(recv);
        assert_int_equal(got, i);
    }
}

static void a_ring_of_three_passes_everything_on(void **state)
{
    enum { COUNT = 100000 };
    static int64_t block[RANKS][2][COUNT];
    tc_future *futures[2 * RANKS];

    (void)state;
    for (int r = 0; r < RANKS; r++)
        fill(block[r][0], COUNT, r);
    for (int round = 0; round < RANKS; round++) {
        int now = round % 2;
        for (int r = 0; r < RANKS; r++) {
            int right = (r + 1) % RANKS, left = (r + RANKS - 1) % RANKS;
            futures[2 * r] = send_to(r, right, TC_TAG_ORDERED, block[r][now], COUNT);
            futures[2 * r + 1] = recv_from(r, left, TC_TAG_ORDERED, block[r][!now], COUNT);
        }
        for (int i = 0; i < 2 * RANKS; i++)
            finish(futures[i]);
        for (int r = 0; r < RANKS; r++)
            expect(block[r][!now], COUNT, (r + 2 * RANKS - 1 - round) % RANKS);
    }
}

/* ---- Refused -------------------------------------------------------------------------------- */

static void refuse(tc_future *future, tc_status_t status, const char *operation, const char *word)
{
    assert_int_equal(tc_future_test(future), status);
    assert_string_equal(tc_future_error(future)->operation, operation);
    assert_non_null(strstr(tc_future_error(future)->message, word));
    tc_future_release(future);
}

static void bad_calls_are_refused_at_once(void **state)
{
    int64_t value = 0;

    (void)state;
    refuse(send_to(0, RANKS, 1, &value, 1), TC_ERR_INVALID_ARG, "send", "peer 3 is not in 0 … 2");
    refuse(recv_from(0, -1, 1, &value, 1), TC_ERR_INVALID_ARG, "recv", "peer -1 is not in 0 … 2");
    refuse(send_to(0, 1, 1, NULL, 4), TC_ERR_INVALID_ARG, "send", "NULL");
    refuse(send_to(0, 1, 1, &value, SIZE_MAX), TC_ERR_INVALID_ARG, "send", "count");
    refuse(tc_send_async(world.group[0], 1, &value, 1, (tc_dtype_t)7, 1, NULL),
           TC_ERR_UNSUPPORTED_DTYPE, "send", "7");
    refuse(tc_recv_async(NULL, 1, &value, 1, TC_DTYPE_I64, 1, NULL), TC_ERR_INVALID_ARG, "",
           "the group"); /* no group, no memory of its own: one future for all such calls */
    assert_int_equal(tc_dist_health(world.group[0], NULL), TC_OK);
}

static void who_waits_for_itself_is_told_what_to_do(void **state)
{
    int64_t value = 0;
    tc_options options;

    (void)state;
    tc_options_default(&options);
    options.timeout_ms = 50;
    for (int is_recv = 0; is_recv < 2; is_recv++) {
        tc_future *future =
            is_recv ? tc_recv_async(world.group[1], 77, &value, 1, TC_DTYPE_I64, 1, &options)
                    : tc_send_async(world.group[1], 76, &value, 1, TC_DTYPE_I64, 1, &options);
        const char *says = is_recv ? "rank 1 still waits for its own send: start that first, by "
                                     "tc_send_async or on another thread"
                                   : "rank 1 still waits for its own recv: start that first, by "
                                     "tc_recv_async or on another thread";

        assert_int_equal(world_wait(&world, future), TC_ERR_TIMEOUT);
        assert_int_equal(tc_future_error(future)->rank, 1);
        assert_non_null(strstr(tc_future_error(future)->message, says));
        tc_future_release(future);
    }
    assert_int_equal(tc_dist_health(world.group[1], NULL), TC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_both_ways_under_one_tag_at_once),
        cmocka_unit_test(a_collective_and_a_pair_may_use_one_tag_at_once),
        cmocka_unit_test(ordered_calls_match_in_their_order),
        cmocka_unit_test(late_receivers_and_late_senders),
        cmocka_unit_test(nothing_is_sent_and_received_from_nowhere),
        cmocka_unit_test(many_tags_in_flight_in_different_orders),
        cmocka_unit_test(a_tag_is_used_again_and_again),
        cmocka_unit_test(a_ring_of_three_passes_everything_on),
        cmocka_unit_test(bad_calls_are_refused_at_once),
        cmocka_unit_test(who_waits_for_itself_is_told_what_to_do),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
