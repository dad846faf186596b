/* test_guest.c - the library is a good guest: signals, threads, forks, processor time. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/coll_case.h"
#include "support/threads.h"

enum { LARGE = 1 << 20 };

static double clock_s(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void all_sum(struct world *world, uint64_t tag, size_t count)
{
    struct coll_case what = {.kind = COLL_ALLREDUCE,
                             .count = count,
                             .dtype = TC_DTYPE_F32,
                             .op = TC_REDUCE_SUM,
                             .in_place = true,
                             .tag = tag};
    struct coll_run run;

    coll_prepare(&run, &what, world->size);
    for (int r = 0; r < world->size; r++)
        coll_start(&run, world->group[r], r);
    for (int r = 0; r < world->size; r++)
        if (world_wait(world, run.future[r]) != TC_OK)
            fail_msg("%s", tc_future_error(run.future[r])->message);
    coll_check(&run);
}

static void an_idle_group_takes_no_processor_time(void **state)
{
    struct world world;
    struct timespec nap = {.tv_sec = 2};

    (void)state;
    world_open(&world, 2, NULL);
    all_sum(&world, 1, 1000);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    double before = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&nap, NULL);
    double took = clock_s(CLOCK_PROCESS_CPUTIME_ID) - before;
    print_message("%.3f ms of processor time in 2 s\n", took * 1e3);
    assert_true(took < 0.02);
    world_close(&world);
}

static void modes_without_a_thread_have_none(void **state)
{
    unsigned before = count_threads();
    tc_config config;

    (void)state;
    for (int mode = TC_LOOP_MANUAL; mode <= TC_LOOP_HOST; mode++) {
        struct world world;
        tc_config_default(&config);
        config.loop_mode = mode;
        world_open(&world, 2, &config);
        all_sum(&world, 1, 1000);
        assert_int_equal(count_threads(), before);
        world_close(&world);
        assert_int_equal(count_threads(), before);
    }
}

static void signals_and_affinity_stay_as_they_were(void **state)
{
    struct sigaction before[65], after;
    sigset_t mask_before, mask_after;
    cpu_set_t cpus_before, cpus_after;
    struct world world;

    (void)state;
    memset(before, 0, sizeof(before));
    memset(&mask_before, 0, sizeof(mask_before)); /* only a part of a set is written */
    memset(&mask_after, 0, sizeof(mask_after));
    for (int s = 1; s < 65; s++)
        sigaction(s, NULL, &before[s]);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    sched_getaffinity(0, sizeof(cpus_before), &cpus_before);
    world_open(&world, 2, NULL);
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            all_sum(&world, 1, 1000);
        else
            world_close(&world);
        for (int s = 1; s < 65; s++) {
            memset(&after, 0, sizeof(after));
            if (sigaction(s, NULL, &after) == 0)
                assert_true(after.sa_handler == before[s].sa_handler);
        }
        pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
        assert_memory_equal(&mask_before, &mask_after, sizeof(mask_before));
        sched_getaffinity(0, sizeof(cpus_after), &cpus_after);
        assert_true(CPU_EQUAL(&cpus_before, &cpus_after));
    }
}

static void a_fork_of_the_application_harms_nobody(void **state)
{
    struct world world;

    (void)state;
    world_open(&world, 3, NULL);
    for (int i = 0; i < 10; i++) {
        int status;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        all_sum(&world, (uint64_t)i, i % 2 == 0 ? 100 : LARGE);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    world_close(&world);
}

/* Descriptors that a program started by this one finds open. */
static int inherited(void)
{
    FILE *pipe = popen("ls /proc/self/fd | wc -l", "r");
    int count = -1;

    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

static void descriptors_do_not_pass_exec(void **state)
{
    int before = inherited();
    struct world world;

    (void)state;
    world_open(&world, 3, NULL);
    all_sum(&world, 1, LARGE);
    assert_int_equal(inherited(), before);
    world_close(&world);
}

static atomic_int beats;

static void on_beat(int signal)
{
    (void)signal;
    atomic_fetch_add(&beats, 1);
}

/* Each thread of the process is interrupted again and again. */
static void *hammer(void *arg)
{
    atomic_bool *stop = arg;

    while (!atomic_load(stop)) {
        DIR *dir = opendir("/proc/self/task");
        struct dirent *entry;
        while (dir != NULL && (entry = readdir(dir)) != NULL)
            if (entry->d_name[0] != '.')
                (void)tgkill(getpid(), atoi(entry->d_name), SIGUSR1);
        closedir(dir);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return NULL;
}

static void interrupted_calls_are_harmless(void **state)
{
    struct sigaction action = {.sa_handler = on_beat}, before; /* no SA_RESTART */
    atomic_bool stop = false;
    struct world world;
    pthread_t thread;

    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    assert_int_equal(pthread_create(&thread, NULL, hammer, &stop), 0);
    for (int round = 0; round < 3; round++) {
        world_open(&world, 3, NULL);
        for (int i = 0; i < 60; i++)
            all_sum(&world, (uint64_t)i, i % 3 == 0 ? LARGE : 500);
        world_close(&world);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    print_message("%d interruptions\n", atomic_load(&beats));
    assert_true(atomic_load(&beats) > 100);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* With the default action a broken pipe would kill the process. */
static void a_lost_peer_raises_no_sigpipe(void **state)
{
    char url[64];
    float *data = calloc(8 * (size_t)LARGE, sizeof(float));
    int gate[2], fd = world_listen(url, sizeof(url)), status;
    char byte = 0;

    (void)state;
    assert_non_null(data);
    assert_ptr_equal(signal(SIGPIPE, SIG_DFL), SIG_DFL);
    assert_int_equal(pipe(gate), 0);
    fflush(NULL);
    pid_t pid = fork();
    tc_context *context;
    tc_dist_ctx *group;
    tc_dist_options options;
    tc_dist_options_default(&options);
    options.world_size = 2;
    options.rendezvous_url = url;
    options.rank = pid == 0;
    options.listen_fd = pid == 0 ? -1 : fd;
    if (pid == 0)
        close(fd);
    assert_int_equal(tc_init(&context), TC_OK);
    tc_future *formed = tc_dist_init_async(context, &options, &group);
    assert_int_equal(tc_future_wait(formed, 60000), TC_OK);
    tc_future_release(formed);
    tc_future *sent[8];
    for (int i = 0; i < 8; i++)
        sent[i] = pid == 0 ? tc_recv_async(group, (uint64_t)i, data + (size_t)i * LARGE, LARGE,
                                           TC_DTYPE_F32, 0, NULL)
                           : tc_send_async(group, (uint64_t)i, data + (size_t)i * LARGE, LARGE,
                                           TC_DTYPE_F32, 1, NULL);
    if (pid == 0) {
        (void)tc_future_wait(sent[0], 60000);
        (void)!write(gate[1], &byte, 1);
        pause();
    }
    assert_int_equal(read(gate[0], &byte, 1), 1);
    kill(pid, SIGKILL);
    for (int i = 0; i < 8; i++) {
        tc_status_t got = tc_future_wait(sent[i], 5000);
        assert_true(got == TC_OK || got == TC_ERR_PEER_LOST);
        tc_future_release(sent[i]);
    }
    for (int i = 0; i < 50; i++) {
        tc_future *more = tc_send_async(group, 99, data, LARGE, TC_DTYPE_F32, 1, NULL);
        assert_int_equal(tc_future_wait(more, 5000), TC_ERR_PEER_LOST);
        tc_future_release(more);
    }
    assert_int_equal(tc_dist_finalize(group), TC_ERR_PEER_LOST);
    assert_int_equal(tc_shutdown(context), TC_OK);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(gate[0]);
    close(gate[1]);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_group_takes_no_processor_time),
        cmocka_unit_test(modes_without_a_thread_have_none),
        cmocka_unit_test(signals_and_affinity_stay_as_they_were),
        cmocka_unit_test(a_fork_of_the_application_harms_nobody),
        cmocka_unit_test(descriptors_do_not_pass_exec),
        cmocka_unit_test(interrupted_calls_are_harmless),
        cmocka_unit_test(a_lost_peer_raises_no_sigpipe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
