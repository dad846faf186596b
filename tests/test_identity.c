/* test_identity.c - who is who, when numbers have changed; groups formed anew, over and over. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 200 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "support/subgroups.h"
#include "support/world.h"

enum { RANKS = 4 };

struct meeting {
    tc_context *contexts[RANKS];
    tc_dist_ctx *groups[RANKS];
    tc_future *formed[RANKS];
    uint64_t live;
    unsigned descriptors;
};

static void open_contexts(struct meeting *meeting)
{
    memset(meeting, 0, sizeof(*meeting));
    meeting->live = tci_alloc_live();
    meeting->descriptors = count_descriptors();
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(tc_init(&meeting->contexts[r]), TC_OK);
}

static void close_contexts(struct meeting *meeting)
{
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(tc_shutdown(meeting->contexts[r]), TC_OK);
    assert_int_equal(tci_alloc_live(), meeting->live);
    assert_int_equal(count_descriptors(), meeting->descriptors);
}

/* Ranks first … are `size` of one group; those without a name are given none. */
static void meet(struct meeting *meeting, int size, const char *const *names)
{
    char url[64];
    int fd = world_listen(url, sizeof(url));

    for (int r = 0; r < size; r++) {
        tc_dist_options options;

        tc_dist_options_default(&options);
        options.world_size = size;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        options.identity = names[r];
        meeting->formed[r] =
            tc_dist_init_async(meeting->contexts[r], &options, &meeting->groups[r]);
    }
    for (int r = 0; r < size; r++)
        assert_int_not_equal(tc_future_wait(meeting->formed[r], 60000), TC_PENDING);
}

static void have_met(struct meeting *meeting, int size, const char *const *names)
{
    for (int r = 0; r < size; r++) {
        if (tc_future_test(meeting->formed[r]) != TC_OK)
            fail_msg("rank %d: %s", r, tc_future_error(meeting->formed[r])->message);
        tc_future_release(meeting->formed[r]);
        for (int other = 0; other < size; other++)
            assert_string_equal(tc_dist_identity(meeting->groups[r], other), names[other]);
        assert_null(tc_dist_identity(meeting->groups[r], size));
        assert_null(tc_dist_identity(meeting->groups[r], -1));
    }
}

/* At most one rank's call says something else: whoever was alone with its trouble. */
static void have_not_met(struct meeting *meeting, int size, const char *says)
{
    int others = 0;

    for (int r = 0; r < size; r++) {
        assert_int_not_equal(tc_future_test(meeting->formed[r]), TC_OK);
        if (strstr(tc_future_error(meeting->formed[r])->message, says) == NULL)
            others++;
        tc_future_release(meeting->formed[r]);
    }
    assert_true(others < size);
}

static void names_are_known_to_all_and_kept(void **state)
{
    static const char *const names[] = {"anna", "bert", "c@host-3.example", "dora"};
    tc_dist_ctx *subs[RANKS], *shrunk[RANKS];
    tc_future *futures[RANKS];
    struct meeting meeting;

    (void)state;
    open_contexts(&meeting);
    meet(&meeting, RANKS, names);
    have_met(&meeting, RANKS, names);
    for (int r = 0; r < RANKS; r++) /* turned round */
        futures[r] = tc_dist_split_async(meeting.groups[r], 0, -r, &subs[r]);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(tc_future_wait(futures[r], 60000), TC_OK);
        tc_future_release(futures[r]);
        for (int other = 0; other < RANKS; other++)
            assert_string_equal(tc_dist_identity(subs[r], other), names[RANKS - 1 - other]);
    }
    assert_int_equal(tc_dist_close(subs[2]), TC_OK);
    for (int r = 0; r < RANKS; r++)
        if (r != 2)
            futures[r] = tc_dist_shrink_async(subs[r], &shrunk[r]);
    for (int r = 0; r < RANKS; r++) {
        if (r == 2)
            continue;
        assert_int_equal(tc_future_wait(futures[r], 60000), TC_OK);
        tc_future_release(futures[r]);
        assert_int_equal(tc_dist_world_size(shrunk[r]), 3);
        assert_string_equal(tc_dist_identity(shrunk[r], 0), "dora");
        assert_string_equal(tc_dist_identity(shrunk[r], 1), "bert");
        assert_string_equal(tc_dist_identity(shrunk[r], 2), "anna");
        assert_string_equal(tc_dist_identity(shrunk[r], tc_dist_rank(shrunk[r])), names[r]);
    }
    close_contexts(&meeting); /* and with them all groups */
}

static void one_alone_has_one_and_without_there_is_none(void **state)
{
    static const char *const none[RANKS] = {NULL}, *const empty[] = {"", "", "", ""};
    tc_dist_options options;
    struct meeting meeting;
    tc_dist_ctx *alone;
    tc_future *formed;

    (void)state;
    open_contexts(&meeting);
    tc_dist_options_default(&options);
    options.identity = "alone";
    formed = tc_dist_init_async(meeting.contexts[0], &options, &alone);
    assert_int_equal(tc_future_wait(formed, 60000), TC_OK);
    assert_string_equal(tc_dist_identity(alone, 0), "alone");
    tc_future_release(formed);
    meet(&meeting, RANKS, none);
    have_met(&meeting, RANKS, empty);
    assert_null(tc_dist_identity(NULL, 0));
    close_contexts(&meeting);
}

static void what_is_no_name_is_refused(void **state)
{
    char longest[129];
    tc_dist_options options;
    struct meeting meeting;
    const char *bad[] = {"", "a\tb", "\xc3\xa4", longest};
    tc_dist_ctx *group;

    (void)state;
    memset(longest, 'x', sizeof(longest));
    longest[128] = 0;
    open_contexts(&meeting);
    for (size_t b = 0; b < 4; b++) {
        tc_future *formed;

        tc_dist_options_default(&options);
        options.identity = bad[b];
        formed = tc_dist_init_async(meeting.contexts[0], &options, &group);
        assert_int_equal(tc_future_wait(formed, 60000), TC_ERR_INVALID_ARG);
        assert_non_null(strstr(tc_future_error(formed)->message, "printable"));
        tc_future_release(formed);
    }
    meet(&meeting, 3, (const char *const[]){"a", "b", "a"});
    have_not_met(&meeting, 3, "ranks 0 and 2 have one identity, \"a\"");
    meet(&meeting, 3, (const char *const[]){"a", "b", NULL});
    have_not_met(&meeting, 3, "rank 2 has no identity");
    meet(&meeting, 2, (const char *const[]){NULL, "b"});
    assert_int_equal(tc_future_test(meeting.formed[0]), TC_OK); /* it has not asked for any */
    assert_int_equal(tc_future_test(meeting.formed[1]), TC_ERR_INVALID_ARG);
    for (int r = 0; r < 2; r++)
        tc_future_release(meeting.formed[r]);
    close_contexts(&meeting);
}

/* A group lives while the next is formed, and is left then: nothing piles up. */
static void a_group_is_formed_anew_over_and_over(void **state)
{
    static const char *const names[] = {"anna", "bert", "carl", "dora"};
    int times = test_effort() == 2 ? 2000 : test_effort() == 1 ? 60 : 20;
    tc_dist_ctx *before[RANKS] = {NULL};
    struct meeting meeting;
    uint64_t live = 0;
    unsigned descriptors = 0;

    (void)state;
    open_contexts(&meeting);
    for (int t = 0; t < times; t++) {
        int size = 2 + t % 3;
        tc_future *sums[RANKS];
        uint64_t bits[RANKS], all[RANKS];

        meet(&meeting, size, names);
        have_met(&meeting, size, names);
        for (int r = 0; r < size; r++) {
            bits[r] = UINT64_C(1) << r;
            sums[r] = tc_allreduce_async(meeting.groups[r], 1, &bits[r], &all[r], 1, TC_DTYPE_U64,
                                         TC_REDUCE_BOR, NULL);
        }
        for (int r = 0; r < size; r++) {
            assert_int_equal(tc_future_wait(sums[r], 60000), TC_OK);
            assert_int_equal(all[r], (UINT64_C(1) << size) - 1);
            tc_future_release(sums[r]);
        }
        for (int r = 0; r < RANKS; r++)
            sums[r] = before[r] != NULL ? tc_dist_finalize_async(before[r]) : NULL;
        for (int r = 0; r < RANKS; r++) {
            if (sums[r] != NULL)
                assert_int_equal(tc_future_wait(sums[r], 60000), TC_OK);
            tc_future_release(sums[r]);
            before[r] = r < size ? meeting.groups[r] : NULL;
        }
        if (t == 14) {
            live = tci_alloc_live();
            descriptors = count_descriptors();
        }
        if (t > 14 && t % 3 == 14 % 3) {
            assert_true(tci_alloc_live() <= live + 8); /* a buffer that is kept, at most */
            assert_true(count_descriptors() <= descriptors);
        }
    }
    close_contexts(&meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_known_to_all_and_kept),
        cmocka_unit_test(one_alone_has_one_and_without_there_is_none),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(a_group_is_formed_anew_over_and_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
