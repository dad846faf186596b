/* test_reach.c - a buffer that is not there is its own rank's fault, and told so to all. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, also tcp, also rdma */
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

#include "core/reach.h"
#include "support/world.h"

/* ROOM holds three blocks of the longer messages.  Calls of SOME bytes are too short to be looked
 * at before they begin; SHORT ones are copied, but over TCP only when they have left. */
enum { ROOMS = 8, ROOM = 16 << 20, LONG = 4 << 20, SOME = 1000000, SHORT = 20000, EAGER = 65536 };

static struct world world;
static char *nowhere, *there[ROOMS];

static int map_all(void **state)
{
    (void)state;
    nowhere = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(nowhere != MAP_FAILED);
    for (int r = 0; r < ROOMS; r++) {
        there[r] = calloc(1, ROOM);
        assert_non_null(there[r]);
    }
    return 0;
}

static int unmap_all(void **state)
{
    (void)state;
    munmap(nowhere, ROOM);
    for (int r = 0; r < ROOMS; r++)
        free(there[r]);
    return 0;
}

/* Whatever the environment says of how long a message is that a store keeps. */
static void open_world(int size)
{
    tc_config config;

    tc_config_default(&config);
    config.eager_bytes = EAGER;
    world_open(&world, size, &config);
}

static bool is_variable(const char *name)
{
    return getenv(name) != NULL;
}

/* It fails by the buffer of a rank. */
static void fails(tc_future *future, const char *name, int rank)
{
    tc_status_t status = world_wait(&world, future);
    const tc_error *error = tc_future_error(future);
    char words[100];

    snprintf(words, sizeof(words), "the buffer given to %s on rank %d lies outside its memory",
             name, rank);
    if (status != TC_ERR_INVALID_ARG || error->rank != rank ||
        strstr(error->message, words) == NULL)
        fail_msg("rank %d, %s, %s: expected rank %d, %s", error != NULL ? error->rank : -9,
                 tc_status_string(status), error != NULL ? error->message : "", rank, words);
    tc_future_release(future);
}

/* It had all that it needed, or fails so. */
static void ends(tc_future *future, const char *name, int rank)
{
    if (world_wait(&world, future) == TC_OK)
        tc_future_release(future);
    else
        fails(future, name, rank);
}

/* The links are as good as before. */
static void check_group(void)
{
    float values[ROOMS][2] = {{0}};
    tc_future *futures[ROOMS];

    for (int r = 0; r < world.size; r++)
        futures[r] = tc_allreduce_async(world.group[r], 1000, values[r], values[r], 2, TC_DTYPE_F32,
                                        TC_REDUCE_SUM, NULL);
    for (int r = 0; r < world.size; r++) {
        assert_int_equal(world_wait(&world, futures[r]), TC_OK);
        tc_future_release(futures[r]);
        assert_int_equal(tc_dist_health(world.group[r], NULL), TC_OK);
    }
}

static void send_from_nowhere(size_t bytes)
{
    tc_future *recv = tc_recv_async(world.group[1], 5, there[1], bytes, TC_DTYPE_U8, 0, NULL);

    fails(tc_send_async(world.group[0], 5, nowhere, bytes, TC_DTYPE_U8, 1, NULL), "send", 0);
    fails(recv, "send", 0);
}

static void receive_to_nowhere(size_t bytes)
{
    tc_future *recv = tc_recv_async(world.group[1], 6, nowhere, bytes, TC_DTYPE_U8, 0, NULL);

    ends(tc_send_async(world.group[0], 6, there[0], bytes, TC_DTYPE_U8, 1, NULL), "recv", 1);
    fails(recv, "recv", 1);
}

/* One rank gives another buffer than the rest. */
static void broadcast_at(int rank, char *buffer, size_t bytes)
{
    tc_future *futures[ROOMS];

    for (int r = 0; r < world.size; r++)
        futures[r] = tc_broadcast_async(world.group[r], 7, r == rank ? buffer : there[r], bytes,
                                        TC_DTYPE_U8, 0, NULL);
    for (int r = 0; r < world.size; r++)
        if (rank == 0 || r == rank)
            fails(futures[r], "broadcast", rank);
        else
            ends(futures[r], "broadcast", rank);
}

static void reduce_from_nowhere(size_t bytes)
{
    tc_future *futures[ROOMS];
    int last = world.size - 1;

    for (int r = 0; r < world.size; r++)
        futures[r] = tc_reduce_async(world.group[r], 8, r == last ? nowhere : there[r], there[r],
                                     bytes / 4, TC_DTYPE_F32, TC_REDUCE_SUM, 0, NULL);
    fails(futures[0], "reduce", last);
    for (int r = 1; r < world.size; r++)
        if (r == last)
            fails(futures[r], "reduce", last);
        else
            ends(futures[r], "reduce", last);
}

/* All look at it before they begin, whatever they would do with it. */
static void all_reduce_beyond_the_end(char *buffer)
{
    tc_future *futures[ROOMS];

    for (int r = 0; r < world.size; r++)
        futures[r] = tc_allreduce_async(world.group[r], 9, r == 1 ? buffer : there[r],
                                        r == 1 ? buffer : there[r], LONG / 4, TC_DTYPE_F32,
                                        TC_REDUCE_SUM, NULL);
    for (int r = 0; r < world.size; r++)
        fails(futures[r], "allreduce", 1);
}

static void try_all(int size)
{
    char *half = mmap(NULL, LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(half != MAP_FAILED);
    assert_int_equal(mprotect(half + LONG / 2, LONG / 2, PROT_NONE), 0);
    open_world(size);
    check_group();
    for (size_t bytes = SOME; bytes <= LONG; bytes += LONG - SOME) {
        send_from_nowhere(bytes);
        receive_to_nowhere(bytes);
        if (bytes == LONG || !is_variable("TCDIST_SHM")) { /* else in messages that are copied */
            broadcast_at(0, nowhere, bytes);
            broadcast_at(1, nowhere, bytes);
            reduce_from_nowhere(bytes);
        }
        check_group();
    }
    broadcast_at(0, half, LONG);
    all_reduce_beyond_the_end(half);
    all_reduce_beyond_the_end(nowhere);
    check_group();
    world_close(&world);
    munmap(half, LONG);
}

static void of_two_ranks_its_own_is_named(void **state)
{
    (void)state;
    try_all(2);
}

static void of_three_ranks_its_own_is_named_by_all(void **state)
{
    (void)state;
    try_all(3);
}

/* What only the root gives may be anything on other ranks, and blocks of nothing lie nowhere. */
static void what_a_call_does_not_touch_is_not_asked_for(void **state)
{
    const size_t counts[] = {LONG, 0, LONG}, starts[] = {0, (size_t)1 << 40, LONG};
    const size_t none[] = {0, 0, 0};
    tc_future *futures[3][3];

    (void)state;
    open_world(3);
    for (int r = 0; r < 3; r++) {
        futures[0][r] = tc_gather_async(world.group[r], 1, there[r], r == 0 ? there[3] : nowhere,
                                        LONG, TC_DTYPE_U8, 0, NULL);
        futures[1][r] =
            tc_allgatherv_async(world.group[r], 2, r == 1 ? nowhere : there[r], counts[r],
                                there[4 + r], counts, starts, TC_DTYPE_U8, NULL);
        futures[2][r] = tc_alltoallv_async(world.group[r], 3, nowhere, none, NULL, nowhere + 1,
                                           none, NULL, TC_DTYPE_U8, NULL);
    }
    for (int f = 0; f < 3; f++)
        for (int r = 0; r < 3; r++) {
            if (world_wait(&world, futures[f][r]) != TC_OK)
                fail_msg("%s", tc_future_error(futures[f][r])->message);
            tc_future_release(futures[f][r]);
        }
    world_close(&world);
}

/* What has not begun leaves the stream; what is copied before is out of reach of that. */
static void what_is_short_leaves_a_stream_that_goes_on(void **state)
{
    (void)state;
    if (!is_variable("TCDIST_SHM") || is_variable("TCDIST_RDMA")) {
        printf("skipped: what is short is copied before it leaves, which ends the process\n");
        skip();
    }
    for (int size = 2; size <= 3; size++) {
        open_world(size);
        for (int round = 0; round < 3; round++) {
            send_from_nowhere(SHORT);
            send_from_nowhere(SHORT * 4);
            broadcast_at(0, nowhere, SHORT);
            broadcast_at(0, nowhere, SOME);
            reduce_from_nowhere(SHORT);
            reduce_from_nowhere(SOME);
            check_group();
        }
        world_close(&world);
    }
}

/* The first of two that gather in one system call, and the last. */
static void beside_others_it_leaves_alone(void **state)
{
    tc_future *sends[3], *recvs[3];

    (void)state;
    if (!is_variable("TCDIST_SHM") || is_variable("TCDIST_RDMA"))
        skip();
    open_world(2);
    for (int bad = 0; bad < 3; bad++) {
        for (int i = 0; i < 3; i++)
            recvs[i] =
                tc_recv_async(world.group[1], 10 + i, there[1 + i], SHORT, TC_DTYPE_U8, 0, NULL);
        for (int i = 0; i < 3; i++) {
            memset(there[5 + i], 'a' + i, SHORT);
            sends[i] = tc_send_async(world.group[0], 10 + i, i == bad ? nowhere : there[5 + i],
                                     SHORT, TC_DTYPE_U8, 1, NULL);
        }
        for (int i = 0; i < 3; i++)
            if (i == bad) {
                fails(sends[i], "send", 0);
                fails(recvs[i], "send", 0);
            } else {
                assert_int_equal(world_wait(&world, sends[i]), TC_OK);
                assert_int_equal(world_wait(&world, recvs[i]), TC_OK);
                assert_memory_equal(there[1 + i], there[5 + i], SHORT);
                tc_future_release(sends[i]);
                tc_future_release(recvs[i]);
            }
    }
    check_group();
    world_close(&world);
}

static void a_hole_is_found_page_by_page(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 200;
    char *data = mmap(NULL, pages * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(data != MAP_FAILED);
    assert_true(tci_reach_all(data, pages * page));
    assert_true(tci_reach_all(data + 1, pages * page - 1));
    assert_true(tci_reach_all(NULL, 0));
    assert_int_equal(mprotect(data + 150 * page, page, PROT_NONE), 0);
    assert_true(tci_reach_ends(data, pages * page));
    assert_false(tci_reach_all(data, pages * page));
    assert_true(tci_reach_all(data, 150 * page));
    assert_false(tci_reach_all(data, 150 * page + 1));
    assert_false(tci_reach_ends(data, 150 * page + 1));
    assert_true(tci_reach_all(data + 151 * page, page));
    munmap(data, pages * page);
}

/* Pages that are mapped without memory of the process's behind them, as those of devices are. */
static void what_the_system_reads_only_itself_is_there(void **state)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long begin = 0, end = 0;
    char line[512];

    (void)state;
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        if (strstr(line, "[vvar]") != NULL)
            assert_int_equal(sscanf(line, "%lx-%lx", &begin, &end), 2);
    if (maps != NULL)
        fclose(maps);
    if (begin == 0) {
        printf("skipped: no such page\n");
        skip();
    }
    assert_true(tci_reach_ends((const void *)(uintptr_t)begin, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_ranks_its_own_is_named),
        cmocka_unit_test(of_three_ranks_its_own_is_named_by_all),
        cmocka_unit_test(what_a_call_does_not_touch_is_not_asked_for),
        cmocka_unit_test(what_is_short_leaves_a_stream_that_goes_on),
        cmocka_unit_test(beside_others_it_leaves_alone),
        cmocka_unit_test(a_hole_is_found_page_by_page),
        cmocka_unit_test(what_the_system_reads_only_itself_is_there),
    };

    return cmocka_run_group_tests(tests, map_all, unmap_all);
}
