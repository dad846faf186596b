/* test_close.c - groups are left at once, in order within their time, and asked how they are. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 200, serial */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "support/subgroups.h"
#include "support/threads.h"
#include "support/world.h"

enum { PEERS_MAX = 3, COUNT = 3000000, EXIT_SAYS = 3 };

/* Other ranks are processes of their own that form the group, and then wait to be ended. */
struct peers {
    int size;
    pid_t pids[PEERS_MAX];
    uint64_t live;
    unsigned descriptors;
    tc_context *context;
    tc_dist_ctx *group;
    float *data;
};

static tc_status_t join(tc_context *context, int size, int rank, const char *url, int fd,
                        tc_dist_ctx **out)
{
    tc_dist_options options;
    tc_future *formed;
    tc_status_t status;

    tc_dist_options_default(&options);
    options.world_size = size;
    options.rank = rank;
    options.rendezvous_url = url;
    options.listen_fd = fd;
    formed = tc_dist_init_async(context, &options, out);
    status = tc_future_wait(formed, 60000);
    tc_future_release(formed);
    return status;
}

/* Does its part of a large sum, where asked to, and never ends on its own. */
static void be_a_peer(int size, int rank, const char *url, int mode)
{
    tc_config config;
    tc_context *context;
    tc_dist_ctx *group;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tc_config_default(&config);
    config.loop_mode = mode;
    if (tc_init_config(&config, &context) != TC_OK ||
        join(context, size, rank, url, -1, &group) != TC_OK)
        _exit(EXIT_SAYS);
    for (;;)
        pause();
}

static void open_peers(struct peers *peers, int size, int mode, int timeout_ms)
{
    tc_config config;
    char url[64];
    int fd = world_listen(url, sizeof(url));

    memset(peers, 0, sizeof(*peers));
    peers->size = size;
    for (int p = 0; p + 1 < size; p++) {
        peers->pids[p] = fork();
        assert_true(peers->pids[p] >= 0);
        if (peers->pids[p] == 0) {
            close(fd);
            be_a_peer(size, p + 1, url, mode);
        }
    }
    peers->live = tci_alloc_live();
    peers->descriptors = count_descriptors();
    peers->data = calloc(COUNT, sizeof(float));
    assert_non_null(peers->data);
    tc_config_default(&config);
    config.loop_mode = mode;
    config.timeout_ms = timeout_ms;
    assert_int_equal(tc_init_config(&config, &peers->context), TC_OK);
    assert_int_equal(join(peers->context, size, 0, url, fd, &peers->group), TC_OK);
}

static void end_peer(struct peers *peers, int p)
{
    int how;

    if (peers->pids[p] == 0)
        return;
    kill(peers->pids[p], SIGKILL);
    assert_int_equal(waitpid(peers->pids[p], &how, 0), peers->pids[p]);
    peers->pids[p] = 0;
}

static void close_peers(struct peers *peers)
{
    assert_int_equal(tc_shutdown(peers->context), TC_OK);
    for (int p = 0; p + 1 < peers->size; p++)
        end_peer(peers, p);
    free(peers->data);
    assert_int_equal(tci_alloc_live(), peers->live);
    assert_int_equal(count_descriptors(), peers->descriptors - 1); /* the listener was given away */
}

/* ---- At once --------------------------------------------------------------------------------- */

enum peer_state { WAITS, STOPPED, KILLED, PEER_STATES };

static void close_beside(enum peer_state state, int mode, bool is_working)
{
    struct peers peers;
    tc_future *sum = NULL, *received = NULL;

    open_peers(&peers, 3, mode, 60000);
    if (is_working) {
        sum = tc_allreduce_async(peers.group, 1, peers.data, peers.data, COUNT, TC_DTYPE_F32,
                                 TC_REDUCE_SUM, NULL);
        received = tc_recv_async(peers.group, 2, peers.data, 1, TC_DTYPE_F32, 2, NULL);
        (void)tc_future_wait(sum, 20);
    }
    if (state == STOPPED)
        for (int p = 0; p < 2; p++)
            kill(peers.pids[p], SIGSTOP);
    if (state == KILLED)
        end_peer(&peers, 1);
    assert_int_equal(tc_dist_close(peers.group), TC_OK);
    if (is_working) {
        assert_int_not_equal(tc_future_wait(sum, 60000), TC_PENDING);
        assert_int_not_equal(tc_future_test(sum), TC_OK);
        assert_int_not_equal(tc_future_wait(received, 60000), TC_PENDING);
        tc_future_release(sum);
        tc_future_release(received);
    }
    close_peers(&peers);
}

static void whatever_the_peers_do(void **state)
{
    (void)state;
    for (int s = 0; s < PEER_STATES; s++)
        for (int working = 0; working < 2; working++) {
            close_beside((enum peer_state)s, TC_LOOP_THREAD, working != 0);
            close_beside((enum peer_state)s, TC_LOOP_MANUAL, working != 0);
        }
}

/* User code that holds the loop until it is told to go on. */
struct holder {
    tc_context *context;
    sem_t is_in, may_go;
    pthread_t thread;
    tc_future *promise;
};

static void hold(tc_future *future, void *arg)
{
    struct holder *holder = arg;

    (void)future;
    sem_post(&holder->is_in);
    while (sem_wait(&holder->may_go) != 0)
        ;
}

static void *turn(void *arg)
{
    struct holder *holder = arg;

    (void)tc_future_wait(holder->promise, -1);
    (void)tc_poll(holder->context, 0);
    return NULL;
}

static void hold_loop(struct holder *holder, tc_context *context, int mode)
{
    holder->context = context;
    sem_init(&holder->is_in, 0, 0);
    sem_init(&holder->may_go, 0, 0);
    holder->promise = tc_promise_create(context);
    assert_int_equal(tc_future_then(holder->promise, hold, holder), TC_OK);
    assert_int_equal(tc_promise_settle(holder->promise, TC_OK), TC_OK);
    if (mode == TC_LOOP_MANUAL)
        assert_int_equal(pthread_create(&holder->thread, NULL, turn, holder), 0);
    while (sem_wait(&holder->is_in) != 0)
        ;
}

static void let_loop(struct holder *holder, int mode)
{
    sem_post(&holder->may_go);
    if (mode == TC_LOOP_MANUAL)
        pthread_join(holder->thread, NULL);
    tc_future_release(holder->promise);
    sem_destroy(&holder->is_in);
    sem_destroy(&holder->may_go);
}

static void while_user_code_holds_the_loop(void **state)
{
    static const int modes[] = {TC_LOOP_THREAD, TC_LOOP_MANUAL};

    (void)state;
    for (size_t m = 0; m < 2; m++) {
        struct holder holder;
        struct peers peers;
        tc_future *received;

        open_peers(&peers, 2, modes[m], 60000);
        received = tc_recv_async(peers.group, 2, peers.data, 1, TC_DTYPE_F32, 1, NULL);
        hold_loop(&holder, peers.context, modes[m]);
        assert_int_equal(tc_dist_health(peers.group, NULL), TC_OK);
        /* It returns, though the loop stands still until after that. */
        assert_int_equal(tc_dist_close(peers.group), TC_OK);
        assert_int_equal(tc_future_test(received), TC_PENDING);
        let_loop(&holder, modes[m]);
        assert_int_equal(tc_future_wait(received, 60000), TC_ERR_CLOSED);
        tc_future_release(received);
        close_peers(&peers);
    }
}

static void while_survivors_are_waited_for(void **state)
{
    struct peers peers;
    tc_dist_ctx *next = NULL;
    tc_future *shrunk;

    (void)state;
    open_peers(&peers, 3, TC_LOOP_THREAD, 60000);
    end_peer(&peers, 0);
    shrunk = tc_dist_shrink_async(peers.group, &next); /* the other peer never comes */
    assert_int_equal(tc_future_wait(shrunk, 30), TC_PENDING);
    assert_int_equal(tc_dist_close(peers.group), TC_OK);
    assert_int_equal(tc_future_wait(shrunk, 60000), TC_ERR_CLOSED);
    tc_future_release(shrunk);
    close_peers(&peers);
}

/* ---- In order, within its time --------------------------------------------------------------- */

struct rank {
    tc_dist_ctx *group;
    tc_status_t status;
    pthread_t thread;
};

static void *finalize(void *arg)
{
    struct rank *rank = arg;

    rank->status = tc_dist_finalize(rank->group);
    return NULL;
}

static void an_operation_without_end_does_not_hold_it(void **state)
{
    struct world world;
    struct rank ranks[2];
    tc_options options;
    tc_config config;
    tc_future *received;
    float value = 0;

    (void)state;
    tc_config_default(&config);
    config.timeout_ms = 500;
    world_open(&world, 2, &config);
    tc_options_default(&options);
    options.timeout_ms = -1;
    received = tc_recv_async(world.group[0], 7, &value, 1, TC_DTYPE_F32, 1, &options);
    for (int r = 0; r < 2; r++) {
        ranks[r].group = world.group[r];
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, finalize, &ranks[r]), 0);
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(ranks[r].thread, NULL);
        assert_int_not_equal(ranks[r].status, TC_OK);
        world.group[r] = NULL;
    }
    assert_int_not_equal(tc_future_wait(received, 0), TC_OK);
    assert_int_not_equal(tc_future_test(received), TC_PENDING);
    tc_future_release(received);
    world_close(&world);
}

static void an_operation_with_more_time_is_waited_for(void **state)
{
    struct timespec nap = {.tv_nsec = 600000000};
    struct world world;
    struct rank rank;
    tc_options options;
    tc_config config;
    tc_future *received, *sent;
    float value = 0, given = 3;

    (void)state;
    tc_config_default(&config);
    config.timeout_ms = 300;
    world_open(&world, 2, &config);
    tc_options_default(&options);
    options.timeout_ms = 60000;
    received = tc_recv_async(world.group[0], 7, &value, 1, TC_DTYPE_F32, 1, &options);
    rank.group = world.group[0];
    assert_int_equal(pthread_create(&rank.thread, NULL, finalize, &rank), 0);
    nanosleep(&nap, NULL);
    assert_int_equal(tc_future_test(received), TC_PENDING);
    sent = tc_send_async(world.group[1], 7, &given, 1, TC_DTYPE_F32, 0, &options);
    assert_int_equal(tc_future_wait(sent, 60000), TC_OK);
    assert_int_equal(tc_future_wait(received, 60000), TC_OK);
    (void)tc_dist_finalize(world.group[1]);
    pthread_join(rank.thread, NULL);
    assert_true(value == given);
    tc_future_release(sent);
    tc_future_release(received);
    world.group[0] = world.group[1] = NULL;
    world_close(&world);
}

/* ---- Asked ----------------------------------------------------------------------------------- */

/* On a machine that is slow the first question may come too early. */
static tc_status_t ask(tc_dist_ctx *group, int *lost)
{
    time_t end = time(NULL) + 60;
    tc_status_t status;

    do
        status = tc_dist_health(group, lost);
    while (status == TC_OK && time(NULL) < end);
    return status;
}

static void health_sees_an_end_that_nobody_has_read(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++) {
        struct peers peers;
        int lost = 77;

        open_peers(&peers, 3, TC_LOOP_MANUAL, 60000);
        assert_int_equal(tc_dist_health(peers.group, &lost), TC_OK);
        assert_int_equal(lost, -1);
        end_peer(&peers, victim);
        /* Nobody turns the loop, nothing is going on. */
        assert_int_equal(ask(peers.group, &lost), TC_ERR_PEER_LOST);
        assert_int_equal(lost, victim + 1);
        assert_int_equal(tc_last_error()->rank, victim + 1);
        assert_int_equal(tc_dist_close(peers.group), TC_OK);
        close_peers(&peers);
    }
}

static void ask_inside(tc_future *future, void *arg)
{
    struct peers *peers = arg;
    int lost = 77;

    (void)future;
    assert_int_equal(tc_dist_health(peers->group, &lost), TC_ERR_PEER_LOST);
    assert_int_equal(lost, 1);
}

static void health_is_asked_with_a_thread_and_inside_of_it(void **state)
{
    struct peers peers;
    tc_future *promise;
    int lost = 77;

    (void)state;
    open_peers(&peers, 2, TC_LOOP_THREAD, 60000);
    assert_int_equal(tc_dist_health(peers.group, &lost), TC_OK);
    end_peer(&peers, 0);
    assert_int_equal(ask(peers.group, &lost), TC_ERR_PEER_LOST);
    assert_int_equal(lost, 1);
    promise = tc_promise_create(peers.context);
    assert_int_equal(tc_future_then(promise, ask_inside, &peers), TC_OK);
    assert_int_equal(tc_promise_settle(promise, TC_OK), TC_OK);
    assert_int_equal(tc_future_wait(promise, 60000), TC_OK);
    tc_future_release(promise);
    assert_int_equal(tc_dist_finalize(peers.group), TC_ERR_PEER_LOST);
    close_peers(&peers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_the_peers_do),
        cmocka_unit_test(while_user_code_holds_the_loop),
        cmocka_unit_test(while_survivors_are_waited_for),
        cmocka_unit_test(an_operation_without_end_does_not_hold_it),
        cmocka_unit_test(an_operation_with_more_time_is_waited_for),
        cmocka_unit_test(health_sees_an_end_that_nobody_has_read),
        cmocka_unit_test(health_is_asked_with_a_thread_and_inside_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
