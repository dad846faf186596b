/* test_rdma_mixed.c - groups where some ranks have RDMA, and peers that never answer. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "support/manual_world.h"

enum { SIZE = 4, COUNT = 30000 };

/* ---- Which way each pair has gone, by what the log says ---- */

static pthread_mutex_t ways_lock = PTHREAD_MUTEX_INITIALIZER;
static char ways[SIZE][SIZE]; /* 'r' RDMA, 't' TCP */

static void on_line(tc_log_level_t level, const char *line, void *arg)
{
    unsigned rank, peer;
    int at = 0;

    (void)level, (void)arg;
    if (sscanf(line, "rank %u: rank %u is reached over %n", &rank, &peer, &at) != 2 || at == 0 ||
        rank >= SIZE || peer >= SIZE)
        return;
    pthread_mutex_lock(&ways_lock);
    if (strncmp(line + at, "RDMA, device fake0", 18) == 0)
        ways[rank][peer] = 'r';
    else if (strncmp(line + at, "tcp and not over RDMA", 21) == 0)
        ways[rank][peer] = 't';
    pthread_mutex_unlock(&ways_lock);
}

/* ---- Groups ---- */

/* Each rank with settings of its own. */
static void open_each(const char *const settings[SIZE])
{
    tc_future *futures[SIZE];
    tc_dist_options options;
    tc_config config;
    char url[64];
    int fd = world_listen(url, sizeof(url));

    memset(&manual_world, 0, sizeof(manual_world));
    manual_world.size = SIZE;
    manual_world.mode = TC_LOOP_MANUAL;
    for (int r = 0; r < SIZE; r++) {
        tc_config_default(&config);
        config.loop_mode = TC_LOOP_MANUAL;
        config.log_level = "debug";
        config.rdma = settings[r];
        assert_int_equal(tc_init_config(&config, &manual_world.context[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = SIZE;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(manual_world.context[r], &options, &manual_world.group[r]);
    }
    for (int r = 0; r < SIZE; r++)
        manual_settles(futures[r], TC_OK, -1, NULL);
}

/* Every pair has something for each other. */
static void exchange_all(void)
{
    static float send[SIZE][SIZE * COUNT], recv[SIZE][SIZE * COUNT];
    tc_future *futures[SIZE];

    for (int r = 0; r < SIZE; r++) {
        for (int i = 0; i < SIZE * COUNT; i++)
            send[r][i] = (float)(r * 10 + i / COUNT) + (float)(i % 7) / 8;
        futures[r] = tc_alltoall_async(manual_world.group[r], 3, send[r], recv[r], COUNT,
                                       TC_DTYPE_F32, NULL);
    }
    for (int r = 0; r < SIZE; r++)
        manual_settles(futures[r], TC_OK, -1, NULL);
    for (int r = 0; r < SIZE; r++)
        for (int p = 0; p < SIZE; p++)
            assert_memory_equal(recv[r] + (size_t)p * COUNT, send[p] + (size_t)r * COUNT,
                                COUNT * sizeof(float));
}

static void check_clean(void)
{
    struct fake_counts counts = fake_counts();

    assert_int_equal(counts.contexts + counts.pds + counts.regions, 0);
    assert_int_equal(counts.channels + counts.cqs + counts.qps, 0);
    assert_int_equal(counts.mistakes + counts.overruns + counts.waits_for_receive, 0);
}

/* One has none, and one asks for a device that is not there. */
static void pairs_take_rdma_where_both_have_it(void **state)
{
    static const char *const settings[SIZE] = {"1", "0", "1", "1,device=fake7"};

    (void)state;
    fake_setup_usual();
    memset(ways, 0, sizeof(ways));
    tc_log_set_sink(on_line, NULL);
    open_each(settings);
    exchange_all();
    world_close(&manual_world);
    tc_log_set_sink(NULL, NULL);
    tc_log_set_level(TC_LOG_WARN);
    for (int r = 0; r < SIZE; r++)
        for (int p = 0; p < SIZE; p++) {
            bool has_own = r == 0 || r == 2, has_peer = p == 0 || p == 2;
            char expected = 0;

            if (has_own && r != p)
                expected = has_peer ? 'r' : 't';
            if (ways[r][p] != expected)
                fail_msg("rank %d goes to rank %d by '%c'", r, p, ways[r][p]);
        }
    check_clean();
}

/* ---- Peers that never answer ---- */

/* Its host has stopped as the two were to meet.  It is named when the time is over; what was made
 * for it goes with the group, and nothing else. */
static void a_peer_that_never_connects_is_named(void **state)
{
    static float data[2][COUNT];
    unsigned descriptors;
    tc_future *future;

    (void)state;
    fake_setup_usual();
    manual_open(2, 400);
    descriptors = count_descriptors();
    future = tc_allreduce_async(manual_world.group[0], 1, data[0], data[1], COUNT, TC_DTYPE_F32,
                                TC_REDUCE_SUM, NULL);
    while (tc_future_test(future) == TC_PENDING)
        assert_int_equal(tc_poll(manual_world.context[0], 10), TC_OK);
    assert_int_equal(fake_counts().qps, 1);
    assert_int_equal(count_descriptors(), descriptors);
    manual_settles(future, TC_ERR_TIMEOUT, 1, "rank 1");
    assert_int_equal(tc_dist_close(manual_world.group[0]), TC_OK);
    manual_world.group[0] = NULL;
    assert_int_equal(fake_counts().qps, 0);
    assert_int_equal(fake_counts().regions, 0);
    assert_int_equal(fake_counts().contexts, 1); /* of the other one */
    manual_close();
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_take_rdma_where_both_have_it),
        cmocka_unit_test(a_peer_that_never_connects_is_named),
    };

    if (sodium_init() < 0)
        return 1;
    setenv("TCDIST_SHM", "0", 1);
    setenv("TCDIST_RDMA", "1", 1);
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma mixed", tests, NULL, NULL);
}
