/* test_sim_start.c - the rendezvous of many ranks in virtual time: what it costs each of them. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "net/boot.h"
#include "net/boot_wire.h"
#include "support/tcp_sim.h"

enum { SIZES = 3, SIZE_MAX_TRIED = 256, STARTS_S = 30 };
static const int sizes[SIZES] = {64, 128, SIZE_MAX_TRIED};

/* The rendezvous itself, as src/net has it, over sockets and a clock of the simulator. */
static const struct sim_tcp_how usual = {.hop_ns = 100 * TCI_NS_PER_US,
                                         .call_ns = 2 * TCI_NS_PER_US,
                                         .bytes_per_us = 1250, /* 10 Gbit/s */
                                         .room = 65536,
                                         .backlog = 4096};

struct start {
    struct sim_event begin; /* first */
    int rank, size;
    struct tci_keyring *keyring;
    struct tci_boot *boot;
    bool is_done;
    tc_status_t status;
    uint64_t begun_ns, done_ns;
    struct tci_error error;
    struct tci_boot_result result;
};

/* What a start has come to. */
struct figures {
    uint64_t stands_ns;          /* the last of all does, after rank 0's beginning */
    struct sim_tcp_rank root;    /* counts alone */
    struct sim_tcp_rank members; /* the most of any */
    uint64_t members_least_sends;
};

static struct start starts[SIZE_MAX_TRIED];

static void on_done(void *arg, tc_status_t status, const struct tci_error *error,
                    struct tci_boot_result *result)
{
    struct start *start = arg;

    assert_false(start->is_done);
    start->is_done = true;
    start->status = status;
    start->done_ns = sim_tcp_clock()->now_ns;
    if (status == TC_OK)
        start->result = *result;
    else
        tci_error_copy(&start->error, error);
}

static void begin(struct sim_event *event)
{
    struct start *start = tci_container_of(event, struct start, begin);
    const struct tci_boot_config config = {
        .rank = start->rank,
        .size = start->size,
        .url = "tcp://10.77.0.1:29500",
        .listen_fd = -1,
        .deadline_ns = sim_tcp_clock()->now_ns + STARTS_S * 1000 * TCI_NS_PER_MS,
        .keyring = start->keyring,
    };

    start->begun_ns = sim_tcp_clock()->now_ns;
    start->boot = tci_boot_start(sim_tcp_loop((size_t)start->rank), &config, on_done, start);
    assert_non_null(start->boot);
}

static void add_most(struct sim_tcp_rank *most, const struct sim_tcp_rank *rank)
{
    most->calls = tci_max(most->calls, rank->calls);
    most->sends = tci_max(most->sends, rank->sends);
    most->bytes_out = tci_max(most->bytes_out, rank->bytes_out);
    most->bytes_in = tci_max(most->bytes_in, rank->bytes_in);
    most->dials = tci_max(most->dials, rank->dials);
    most->open_most = tci_max(most->open_most, rank->open_most);
}

static void collect(int size, struct figures *figures)
{
    *figures = (struct figures){.root = *sim_tcp_rank(0), .members_least_sends = UINT64_MAX};
    for (int rank = 0; rank < size; rank++) {
        const struct sim_tcp_rank *at = sim_tcp_rank((size_t)rank);

        figures->stands_ns = tci_max(figures->stands_ns, starts[rank].done_ns - starts[0].begun_ns);
        if (rank == 0)
            continue;
        add_most(&figures->members, at);
        figures->members_least_sends = tci_min(figures->members_least_sends, at->sends);
    }
}

/* All ranks stand, and know the same; rank r begins at times[r] (NULL: all at 0). */
static void meet(const struct sim_tcp_how *how, int size, const uint64_t *times,
                 struct tci_keyring *keyring, struct figures *figures)
{
    memset(starts, 0, sizeof(starts));
    sim_tcp_open(how, (size_t)size);
    for (int rank = 0; rank < size; rank++) {
        starts[rank] =
            (struct start){.begin = {.exec = &sim_tcp_rank((size_t)rank)->exec, .fn = begin},
                           .rank = rank,
                           .size = size,
                           .keyring = keyring};
        sim_clock_add(sim_tcp_clock(), times == NULL ? 0 : times[rank], &starts[rank].begin);
    }
    while (sim_clock_step(sim_tcp_clock(), TCI_NEVER - 1))
        continue;
    for (int rank = 0; rank < size; rank++) {
        if (!starts[rank].is_done || starts[rank].status != TC_OK)
            fail_msg("rank %d of %d: %s", rank, size,
                     starts[rank].is_done ? starts[rank].error.text : "it waits for ever");
        assert_memory_equal(starts[rank].result.group_id, starts[0].result.group_id, TCI_GROUP_ID);
        for (int peer = 1; peer < size; peer++)
            assert_true(
                tci_addr_is_equal(&starts[rank].result.addrs[peer], &starts[0].result.addrs[peer]));
    }
    collect(size, figures);
    for (int rank = 0; rank < size; rank++)
        tci_boot_result_fini(&starts[rank].result);
    sim_tcp_close();
}

static void report(const char *what, int size, const struct figures *figures)
{
    print_message(
        "%s, %d ranks: all stand after %.2f ms; rank 0 makes %llu calls, sends %llu "
        "messages, %.1f KiB, has %u descriptors; another makes %llu calls, sends %llu "
        "messages, %llu bytes, hears %.1f KiB, dials %u times, has %u descriptors\n",
        what, size, (double)figures->stands_ns / 1e6, (unsigned long long)figures->root.calls,
        (unsigned long long)figures->root.sends, (double)figures->root.bytes_out / 1024,
        figures->root.open_most, (unsigned long long)figures->members.calls,
        (unsigned long long)figures->members.sends, (unsigned long long)figures->members.bytes_out,
        (double)figures->members.bytes_in / 1024, figures->members.dials,
        figures->members.open_most);
}

/* ---- Together -------------------------------------------------------------------------------- */

/* JOIN and READY; WELCOME, TABLE and GO. */
enum { MEMBER_SENDS = 2, ROOT_SENDS = 3 };
/* Of rank 0: accept, set options, JOIN and READY in three reads, and as many sends; and accepts
 * that find nobody, one in 64. */
enum { CALLS_A_GUEST = 8, CALLS_MORE = 8 };

/* To there and back to connect, JOIN and WELCOME or TABLE, READY and GO. */
enum { HOPS = 6 };

/* Nobody waits for anything but hops, and rank 0 and one more for what they do themselves. */
static uint64_t busy_ns(const struct sim_tcp_how *how, const struct figures *figures)
{
    return HOPS * how->hop_ns + (figures->root.calls + figures->members.calls) * how->call_ns +
           figures->root.bytes_out * 1000 / how->bytes_per_us;
}

static void nobody_sends_more_where_there_are_more(void **state)
{
    struct figures figures[SIZES];

    (void)state;
    for (int k = 0; k < SIZES; k++) {
        size_t table = TCI_BOOT_HEAD + tci_boot_table_len(sizes[k]);
        uint64_t others = (uint64_t)sizes[k] - 1;

        meet(&usual, sizes[k], NULL, NULL, &figures[k]);
        report("together", sizes[k], &figures[k]);
        assert_int_equal(figures[k].members.dials, 1);
        assert_int_equal(figures[k].members.sends, MEMBER_SENDS);
        assert_int_equal(figures[k].members_least_sends, MEMBER_SENDS);
        assert_int_equal(figures[k].members.bytes_out, 2 * TCI_BOOT_HEAD + TCI_BOOT_JOIN_LEN);
        assert_int_equal(figures[k].members.bytes_in, 2 * TCI_BOOT_HEAD + table);
        assert_int_equal(figures[k].members.open_most, 2);
        assert_int_equal(figures[k].members.calls, figures[0].members.calls);
        assert_int_equal(figures[k].root.dials, 0);
        assert_int_equal(figures[k].root.sends, ROOT_SENDS * others);
        assert_int_equal(figures[k].root.bytes_out, others * (2 * TCI_BOOT_HEAD + table));
        assert_int_equal(figures[k].root.open_most, sizes[k]);
        assert_true(figures[k].root.calls <= CALLS_A_GUEST * others + CALLS_MORE);
        assert_true(figures[k].stands_ns <= busy_ns(&usual, &figures[k]));
    }
}

/* A proof goes each way besides, whatever the size. */
static void a_key_costs_each_the_same(void **state)
{
    static const char key[] = "0123456789abcdef0123456789abcdef";
    struct tci_keyring *keyring = tci_keyring_shared(key, sizeof(key) - 1, NULL, 0);
    struct figures figures[SIZES];

    (void)state;
    assert_non_null(keyring);
    for (int k = 0; k < SIZES; k++) {
        meet(&usual, sizes[k], NULL, keyring, &figures[k]);
        report("with a key", sizes[k], &figures[k]);
        assert_int_equal(figures[k].members.dials, 1);
        assert_int_equal(figures[k].members.sends, MEMBER_SENDS + 2);
        assert_int_equal(figures[k].members.bytes_out, figures[0].members.bytes_out);
        assert_int_equal(figures[k].members.open_most, 2);
    }
    tci_keyring_unref(keyring);
}

/* ---- Not together ---------------------------------------------------------------------------- */

/* Rank 0 comes last: who is refused asks again, after ever longer pauses. */
static void a_late_rank_0_is_not_stormed(void **state)
{
    enum { PAUSE_MAX_MS = 500, LATE_MS = 2500, DIALS_MAX = 10 };
    static uint64_t times[SIZE_MAX_TRIED] = {LATE_MS * TCI_NS_PER_MS};
    struct figures figures[SIZES];

    (void)state;
    for (int k = 0; k < SIZES; k++) {
        meet(&usual, sizes[k], times, NULL, &figures[k]);
        report("rank 0 2.5 s late", sizes[k], &figures[k]);
        assert_in_range(figures[k].members.dials, 2, DIALS_MAX);
        assert_int_equal(figures[k].members.dials, figures[0].members.dials);
        assert_int_equal(figures[k].members.sends, MEMBER_SENDS);
        assert_int_equal(figures[k].root.sends, (uint64_t)ROOT_SENDS * (uint64_t)(sizes[k] - 1));
        assert_true(figures[k].stands_ns <=
                    PAUSE_MAX_MS * TCI_NS_PER_MS + busy_ns(&usual, &figures[k]));
    }
}

/* Ranks come one by one over two seconds: nobody says a word more for it. */
static void ranks_that_come_one_by_one_cost_no_more(void **state)
{
    static uint64_t times[SIZE_MAX_TRIED];
    uint64_t seed = 7, last_ns = 0;
    struct figures figures;

    (void)state;
    for (int rank = 1; rank < SIZE_MAX_TRIED; rank++) {
        times[rank] = sim_random(&seed) % (2000 * TCI_NS_PER_MS);
        last_ns = tci_max(last_ns, times[rank]);
    }
    meet(&usual, SIZE_MAX_TRIED, times, NULL, &figures);
    report("one by one over 2 s", SIZE_MAX_TRIED, &figures);
    assert_int_equal(figures.members.dials, 1);
    assert_int_equal(figures.members.sends, MEMBER_SENDS);
    assert_int_equal(figures.root.sends, ROOT_SENDS * (SIZE_MAX_TRIED - 1));
    assert_true(figures.stands_ns <= last_ns + busy_ns(&usual, &figures));
}

/* A system that keeps 128 connections waiting, as Linux did before 5.4, and sends a table in
 * pieces.  Whoever is not heard is so a second later. */
static void a_narrow_system_is_enough(void **state)
{
    enum { AGAIN_MS = 1000 };
    struct sim_tcp_how narrow = usual;
    struct figures figures;

    (void)state;
    narrow.backlog = 128;
    narrow.room = 1000;
    meet(&narrow, SIZE_MAX_TRIED, NULL, NULL, &figures);
    report("narrow", SIZE_MAX_TRIED, &figures);
    assert_true(figures.root.waiting_most <= narrow.backlog);
    assert_true(figures.stands_ns <= AGAIN_MS * TCI_NS_PER_MS + busy_ns(&narrow, &figures));
    assert_int_equal(figures.members.sends, MEMBER_SENDS);
    assert_int_equal(figures.members.bytes_out, 2 * TCI_BOOT_HEAD + TCI_BOOT_JOIN_LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_sends_more_where_there_are_more),
        cmocka_unit_test(a_key_costs_each_the_same),
        cmocka_unit_test(a_late_rank_0_is_not_stormed),
        cmocka_unit_test(ranks_that_come_one_by_one_cost_no_more),
        cmocka_unit_test(a_narrow_system_is_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
