/* test_heal_ends.c - what heals, and what ends: descriptors, strangers, peers that stay away. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/addr.h"
#include "support/world.h"

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Shut down what is connected over TCP in this process, the n-th and every step-th after it. */
static int shut_down(int n, int step)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int count = 0, done = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        struct sockaddr_storage addr;
        socklen_t len = sizeof(addr);
        int fd = atoi(entry->d_name);

        if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0 || addr.ss_family != AF_INET)
            continue;
        if (count++ % step != n % step)
            continue;
        static const int hows[] = {SHUT_RDWR, SHUT_RD, SHUT_WR};
        done += shutdown(fd, hows[count % 3]) == 0;
    }
    closedir(dir);
    return done;
}

static void descriptors_shut_down_under_the_library(void **state)
{
    enum { COUNT = 200000, ROUNDS = 12, SIZE = 3 };
    static float data[SIZE][COUNT];
    struct world world;
    int done = 0;

    (void)state;
    world_open(&world, SIZE, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        tc_future *futures[SIZE];

        for (int r = 0; r < SIZE; r++) {
            for (int i = 0; i < COUNT; i++)
                data[r][i] = (float)(i % 1000 + r + round);
            futures[r] = tc_allreduce_async(world.group[r], 1, data[r], data[r], COUNT,
                                            TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        }
        done += shut_down(round, 3);
        for (int r = 0; r < SIZE; r++) {
            if (world_wait(&world, futures[r]) != TC_OK)
                fail_msg("round %d, rank %d: %s", round, r, tc_future_error(futures[r])->message);
            tc_future_release(futures[r]);
            for (int i = 0; i < COUNT; i++)
                assert_true(data[r][i] == (float)(SIZE * (i % 1000 + round) + 3));
        }
    }
    assert_true(done >= ROUNDS);
    world_close(&world);
}

/* ---- A rank of another process -------------------------------------------------------------- */

struct pair {
    pid_t child;
    tc_context *context;
    tc_dist_ctx *group;
};

static void form(struct pair *pair, int rank, const char *url, int fd, int heal_ms)
{
    tc_dist_options options;
    tc_config config;

    tc_config_default(&config);
    config.heal_ms = heal_ms;
    config.timeout_ms = 60000;
    tc_dist_options_default(&options);
    options.world_size = 2;
    options.rank = rank;
    options.rendezvous_url = url;
    options.listen_fd = rank == 0 ? fd : -1;
    if (rank != 0)
        close(fd);
    if (tc_init_config(&config, &pair->context) != TC_OK)
        _exit(3);
    tc_future *formed = tc_dist_init_async(pair->context, &options, &pair->group);
    if (tc_future_wait(formed, 60000) != TC_OK)
        _exit(4);
    tc_future_release(formed);
}

/* Rank 1 stands still by its own signal, as soon as both have met in a barrier. */
static void open_pair(struct pair *pair, int heal_ms)
{
    char url[64];
    int fd = world_listen(url, sizeof(url)), status;
    tc_future *future;

    memset(pair, 0, sizeof(*pair));
    fflush(NULL);
    pair->child = fork();
    assert_true(pair->child >= 0);
    if (pair->child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    form(pair, pair->child == 0, url, fd, heal_ms);
    future = tc_barrier_async(pair->group, 1, NULL);
    if (tc_future_wait(future, 60000) != TC_OK)
        _exit(5);
    tc_future_release(future);
    if (pair->child == 0) {
        raise(SIGSTOP);
        future = tc_barrier_async(pair->group, 2, NULL);
        status = tc_future_wait(future, 60000);
        tc_future_release(future);
        if (status == TC_OK && tc_dist_finalize(pair->group) == TC_OK)
            _exit(0);
        _exit(6);
    }
    assert_int_equal(waitpid(pair->child, &status, WUNTRACED), pair->child);
    assert_true(WIFSTOPPED(status));
    assert_true(shut_down(0, 1) > 0);
}

static void close_pair(struct pair *pair, int sig)
{
    int status;

    kill(pair->child, sig);
    assert_int_equal(waitpid(pair->child, &status, 0), pair->child);
    assert_int_equal(tc_shutdown(pair->context), TC_OK);
}

static void who_stays_away_too_long_is_lost(void **state)
{
    struct pair pair;
    double begin = now_ms();

    (void)state;
    open_pair(&pair, 400);
    tc_future *future = tc_barrier_async(pair.group, 2, NULL);
    assert_int_equal(tc_future_wait(future, 30000), TC_ERR_PEER_LOST);
    const tc_error *error = tc_future_error(future);
    print_message("%s\n", error->message);
    assert_int_equal(error->rank, 1);
    assert_int_equal(tc_error_reason(error), TC_REASON_LOOP_STALLED);
    assert_true(now_ms() - begin >= 350);
    tc_future_release(future);
    close_pair(&pair, SIGKILL);
}

static void who_is_killed_while_it_is_waited_for_is_known_at_once(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair, 30000);
    tc_future *future = tc_barrier_async(pair.group, 2, NULL);
    assert_int_equal(tc_future_wait(future, 300), TC_PENDING);
    double begin = now_ms();
    kill(pair.child, SIGKILL);
    assert_int_equal(tc_future_wait(future, 30000), TC_ERR_PEER_LOST);
    const tc_error *error = tc_future_error(future);
    print_message("after %.1f ms: %s\n", now_ms() - begin, error->message);
    assert_int_equal(error->rank, 1);
    assert_int_equal(tc_error_reason(error), TC_REASON_EXITED);
    assert_true(now_ms() - begin < 10000);
    tc_future_release(future);
    close_pair(&pair, SIGKILL);
}

static void who_comes_back_in_time_goes_on(void **state)
{
    struct pair pair;
    int status;

    (void)state;
    open_pair(&pair, 60000);
    tc_future *future = tc_barrier_async(pair.group, 2, NULL);
    assert_int_equal(tc_future_wait(future, 300), TC_PENDING);
    kill(pair.child, SIGCONT);
    assert_int_equal(tc_future_wait(future, 60000), TC_OK);
    tc_future_release(future);
    assert_int_equal(tc_dist_finalize(pair.group), TC_OK);
    assert_int_equal(tc_shutdown(pair.context), TC_OK);
    assert_int_equal(waitpid(pair.child, &status, 0), pair.child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_stays_away_too_long_is_lost),
        cmocka_unit_test(who_is_killed_while_it_is_waited_for_is_known_at_once),
        cmocka_unit_test(who_comes_back_in_time_goes_on),
        cmocka_unit_test(descriptors_shut_down_under_the_library),
    };

    setenv("TCDIST_SHM", "0", 1); /* it is connections that break */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
