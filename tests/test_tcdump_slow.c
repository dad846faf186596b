/* test_tcdump_slow.c - tcdump tells slow links from busy hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "find.h"

enum { RANKS = 4, MESSAGES = 16, QUICK_US = 50, SLOW_US = 20000 };

static struct trace_file files[RANKS];
static struct process processes[RANKS];
static struct transfer transfers[2 * RANKS * RANKS * MESSAGES];
static struct job job;
static struct found found;

/* What a message takes, in microseconds. */
typedef unsigned time_of(uint32_t from, uint32_t to, uint32_t message);

static void find_again(void)
{
    found = (struct found){.job = &job, .limits = {.slow_ratio = 4, .slow_ns = 1000000}};
    find_slow(&found);
    assert_false(found.lacks_memory);
}

/* Each rank has sent to each other one, all of it ready at once. */
static void look(time_of *time, uint32_t ranks, uint32_t messages)
{
    job = (struct job){.processes = processes, .process_count = ranks, .transfers = transfers};
    for (uint32_t p = 0; p < ranks; p++) {
        processes[p] = (struct process){.file = &files[p], .rank = p};
        snprintf(files[p].view.host, sizeof(files[p].view.host), "host%u", (unsigned)p);
        snprintf(files[p].view.boot_id, sizeof(files[p].view.boot_id), "boot%u", (unsigned)p);
    }
    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++)
            for (uint32_t m = 0; m < messages && from != to; m++) {
                struct transfer *end = &transfers[job.transfer_count];

                end[0] = (struct transfer){.tag = m,
                                           .from = (int32_t)from,
                                           .to = (int32_t)to,
                                           .is_send = true,
                                           .process = from,
                                           .bytes = 1024};
                end[1] = end[0];
                end[1].is_send = false;
                end[1].process = to;
                end[1].end_ns = (int64_t)time(from, to, m) * 1000;
                job.transfer_count += 2;
            }
    find_again();
}

static void forget(void)
{
    free(found.paths);
    free(found.findings);
}

/* ---- Links ----------------------------------------------------------------------------------- */

static unsigned one_link(uint32_t from, uint32_t to, uint32_t message)
{
    return from == 1 && to == 2 ? SLOW_US + message : QUICK_US;
}

static void one_link_is_named_with_its_ends(void **state)
{
    (void)state;
    look(one_link, RANKS, MESSAGES);
    assert_int_equal(found.finding_count, 1);
    assert_int_equal(found.findings[0].process, 1);
    assert_int_equal(found.findings[0].peer, 2);
    assert_non_null(strstr(found.findings[0].text, "the link from rank 1 to rank 2 is slow"));
    assert_null(strstr(found.findings[0].text, "busy"));
    forget();

    look(one_link, RANKS, 4); /* too few to tell */
    assert_int_equal(found.finding_count, 0);
    forget();
}

static void on_one_host_its_processors_may_be_it(void **state)
{
    (void)state;
    look(one_link, RANKS, MESSAGES);
    forget();
    memcpy(files[2].view.boot_id, files[1].view.boot_id, sizeof(files[1].view.boot_id));
    find_again();
    assert_int_equal(found.finding_count, 1);
    assert_non_null(
        strstr(found.findings[0].text, "both are on host2, whose processors may be busy"));
    forget();
}

/* ---- Busy hosts ------------------------------------------------------------------------------ */

/* Most messages wait until the receiver has a processor again; some find it running. */
static unsigned busy_receiver(uint32_t from, uint32_t to, uint32_t message)
{
    (void)from;
    return to == 1 && message % 3 != 0 ? SLOW_US : QUICK_US;
}

static void a_processor_that_comes_and_goes_is_no_link(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= RANKS; ranks++) {
        look(busy_receiver, ranks, MESSAGES);
        assert_int_equal(found.finding_count, 0);
        forget();
    }
}

static unsigned all_of_rank_3(uint32_t from, uint32_t to, uint32_t message)
{
    return from == 3 || to == 3 ? SLOW_US + message : QUICK_US;
}

static void a_rank_with_which_all_are_slow_is_named_once(void **state)
{
    (void)state;
    look(all_of_rank_3, RANKS, MESSAGES);
    assert_int_equal(found.finding_count, 1);
    assert_int_equal(found.findings[0].process, 3);
    assert_int_equal(found.findings[0].peer, -1);
    assert_non_null(strstr(found.findings[0].text, "all links of rank 3 are slow"));
    assert_non_null(
        strstr(found.findings[0].text, "its host host3 is busy, or has a slow network"));
    forget();
}

/* What had been under way before its receiver came says little of the link. */
static void only_messages_that_were_awaited_are_quick(void **state)
{
    (void)state;
    look(one_link, RANKS, MESSAGES);
    forget();
    for (size_t i = 0; i < job.transfer_count; i += 2)
        if (transfers[i].process == 1 && transfers[i].tag % 2 == 0)
            transfers[i + 1].begin_ns = transfers[i + 1].end_ns;
    find_again();
    assert_int_equal(found.finding_count, 1);
    assert_int_equal(found.findings[0].process, 1);
    assert_int_equal(found.findings[0].peer, 2);
    forget();
}

static unsigned all_alike(uint32_t from, uint32_t to, uint32_t message)
{
    return SLOW_US + from + to + message;
}

static void where_all_are_slow_none_is(void **state)
{
    (void)state;
    look(all_alike, RANKS, MESSAGES);
    assert_int_equal(found.finding_count, 0);
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_link_is_named_with_its_ends),
        cmocka_unit_test(on_one_host_its_processors_may_be_it),
        cmocka_unit_test(a_processor_that_comes_and_goes_is_no_link),
        cmocka_unit_test(a_rank_with_which_all_are_slow_is_named_once),
        cmocka_unit_test(only_messages_that_were_awaited_are_quick),
        cmocka_unit_test(where_all_are_slow_none_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
