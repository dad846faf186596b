/* test_kill.c - ranks are killed, stopped and leave without a word; the others say who it was. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial, also tcp */
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
#include "support/child.h"
#include "support/threads.h"
#include "support/world.h"

/* The ranks are processes.  Each says over a pipe when it stands in the middle of its work, and
 * what became of it; the test's own process is none of them. */

enum { RANKS_MAX = 4, TAGS = 60, LARGE = 300000, BOUND_MS = 5000 };

/* How a rank ends. */
enum end { KILLED, EXITS, CLOSES, STOPS };

struct plan {
    int size, victim;
    enum end end;
    bool is_idle;  /* no operation is running */
    bool is_hasty; /* the others exit as soon as one of their calls has failed */
};

struct rank {
    struct plan plan;
    int rank;
    int out; /* reports, a line each */
    int go;  /* closed when the victim is about to end */
    tc_context *context;
    tc_dist_ctx *group;
    tc_future *futures[TAGS];
    float *data;
};

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void start_work(struct rank *rank)
{
    for (int t = 0; t < TAGS; t++) {
        size_t count = t % 4 == 0 ? LARGE : (size_t)(t * 40 + 1);
        float *data = rank->data + (size_t)t * LARGE;
        if (t % 5 == 4 && rank->rank == rank->plan.victim)
            continue; /* some wait for the victim for good */
        if (t % 3 == 0)
            rank->futures[t] = tc_allgather_async(rank->group, (uint64_t)t,
                                                  data + (size_t)rank->rank * (count / 4), data,
                                                  count / 4, TC_DTYPE_F32, NULL);
        else
            rank->futures[t] = tc_allreduce_async(rank->group, (uint64_t)t, data, data, count,
                                                  TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    }
}

/* Wait until the loss is known here, in the way an application does that has no call pending. */
static void wait_until_unhealthy(struct rank *rank, double begin)
{
    while (tc_dist_health(rank->group, NULL) == TC_OK) {
        struct timespec nap = {.tv_nsec = 1000000};
        CHECK(rank, now_ms() - begin < BOUND_MS);
        nanosleep(&nap, NULL);
    }
}

/* What every survivor must find. */
static void survive(struct rank *rank, double begin)
{
    int victim = rank->plan.victim, lost = -2, failed = 0;

    for (int t = 0; t < TAGS; t++) {
        if (rank->futures[t] == NULL)
            continue;
        tc_status_t status = tc_future_wait(rank->futures[t], BOUND_MS);
        const tc_error *error = tc_future_error(rank->futures[t]);
        CHECK(rank, status == TC_OK || status == TC_ERR_PEER_LOST);
        CHECK(rank, status == TC_OK ? t % 5 != 4 : error->rank == victim);
        failed += status != TC_OK;
        tc_future_release(rank->futures[t]);
    }
    CHECK(rank, rank->plan.is_idle || failed >= TAGS / 5);
    if (rank->plan.is_idle)
        wait_until_unhealthy(rank, begin);
    double took = now_ms() - begin;
    CHECK(rank, took < BOUND_MS);
    CHECK(rank, tc_dist_health(rank->group, &lost) == TC_ERR_PEER_LOST);
    CHECK(rank, lost == victim);
    double again = now_ms();
    tc_future *more = tc_barrier_async(rank->group, 999, NULL);
    CHECK(rank, tc_future_wait(more, BOUND_MS) == TC_ERR_PEER_LOST);
    CHECK(rank, tc_future_error(more)->rank == victim && now_ms() - again < 1000);
    tc_future_release(more);
    CHECK(rank, tc_dist_finalize(rank->group) == TC_ERR_PEER_LOST);
    CHECK(rank, tc_last_error()->rank == victim);
    rank->group = NULL;
    dprintf(rank->out, "%.1f\n", took);
}

/* Whoever ends because of a loss, without another word, is not taken for its cause. */
static void exit_in_haste(struct rank *rank, double begin)
{
    int t = 4; /* the first that waits for the victim for good */

    tc_status_t status = tc_future_wait(rank->futures[t], BOUND_MS);
    const tc_error *error = tc_future_error(rank->futures[t]);

    CHECK(rank, status == TC_ERR_PEER_LOST);
    if (error->rank != rank->plan.victim)
        dprintf(rank->out, "rank %d blames %d: %s\n", rank->rank, error->rank, error->message);
    else
        dprintf(rank->out, "%.1f\n", now_ms() - begin);
    _exit(0);
}

/* The victim stops, is named, comes back, and all goes on. */
static void miss_a_stopped_one(struct rank *rank)
{
    int victim = rank->plan.victim;
    tc_options options;
    tc_future *future;

    tc_options_default(&options);
    options.timeout_ms = 600;
    if (rank->rank == victim)
        raise(SIGSTOP);
    future = tc_barrier_async(rank->group, 7, &options);
    tc_status_t status = tc_future_wait(future, BOUND_MS);
    /* The stopped one may find all that it needs in its sockets, before the news of the end. */
    CHECK(rank, status == TC_ERR_TIMEOUT || (status == TC_OK && rank->rank == victim));
    CHECK(rank, status == TC_OK || tc_future_error(future)->rank == victim);
    if (rank->rank != victim) {
        CHECK(rank, strstr(tc_future_error(future)->message, "does not answer") != NULL);
        dprintf(rank->out, "0\n");
    }
    tc_future_release(future);
    for (uint64_t tag = 7; tag < 9; tag++) {
        future = tc_barrier_async(rank->group, tag, NULL);
        CHECK(rank, tc_future_wait(future, 4 * BOUND_MS) == TC_OK);
        tc_future_release(future);
    }
    CHECK(rank, tc_dist_finalize(rank->group) == TC_OK);
    CHECK(rank, tc_shutdown(rank->context) == TC_OK);
    free(rank->data);
    exit(0);
}

static void run_rank(struct rank *rank, const char *url, int listen_fd)
{
    tc_dist_options options;
    char byte;

    CHECK(rank, tc_init(&rank->context) == TC_OK); /* a sanitizer may begin a thread of its own */
    CHECK(rank, tc_shutdown(rank->context) == TC_OK);
    uint64_t live = tci_alloc_live();
    int fds = entries_of("/proc/self/fd");
    unsigned threads = count_threads();
    rank->data = calloc((size_t)TAGS * LARGE, sizeof(float));
    CHECK(rank, rank->data != NULL && tc_init(&rank->context) == TC_OK);
    tc_dist_options_default(&options);
    options.world_size = rank->plan.size;
    options.rank = rank->rank;
    options.rendezvous_url = url;
    options.listen_fd = rank->rank == 0 ? listen_fd : -1;
    tc_future *formed = tc_dist_init_async(rank->context, &options, &rank->group);
    CHECK(rank, tc_future_wait(formed, 60000) == TC_OK);
    tc_future_release(formed);
    if (!rank->plan.is_idle)
        start_work(rank);
    dprintf(rank->out, "ready\n");
    while (read(rank->go, &byte, 1) > 0)
        ;
    double begin = now_ms();
    if (rank->plan.end == STOPS)
        miss_a_stopped_one(rank);
    if (rank->rank == rank->plan.victim) {
        if (rank->plan.end == KILLED)
            raise(SIGKILL);
        if (rank->plan.end == CLOSES)
            CHECK(rank, tc_dist_close(rank->group) == TC_OK);
        _exit(0);
    }
    if (rank->plan.is_hasty)
        exit_in_haste(rank, begin);
    survive(rank, begin);
    CHECK(rank, tc_shutdown(rank->context) == TC_OK);
    CHECK(rank, tci_alloc_live() == live);
    CHECK(rank, entries_of("/proc/self/fd") <= fds); /* the listener was taken over */
    CHECK(rank, count_threads() == threads);
    free(rank->data);
    exit(0);
}

/* ---- the parent ---------------------------------------------------------------------------- */

struct crowd {
    pid_t pids[RANKS_MAX];
    FILE *reports[RANKS_MAX];
    int go; /* close to let them go on */
};

static void start_crowd(struct crowd *crowd, const struct plan *plan)
{
    int gate[2], fd;
    char url[64];

    fd = world_listen(url, sizeof(url));
    assert_int_equal(pipe(gate), 0);
    for (int r = 0; r < plan->size; r++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        fflush(NULL);
        crowd->pids[r] = fork();
        assert_true(crowd->pids[r] >= 0);
        if (crowd->pids[r] == 0) {
            struct rank rank = {.plan = *plan, .rank = r, .out = pipes[1], .go = gate[0]};
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(gate[1]);
            close(pipes[0]);
            for (int other = 0; other < r; other++)
                close(fileno(crowd->reports[other]));
            if (r != 0)
                close(fd);
            run_rank(&rank, url, fd);
        }
        close(pipes[1]);
        crowd->reports[r] = fdopen(pipes[0], "r");
        assert_non_null(crowd->reports[r]);
    }
    close(fd);
    close(gate[0]);
    crowd->go = gate[1];
}

static void hear_ready(struct crowd *crowd, int size)
{
    char line[600];

    for (int r = 0; r < size; r++) {
        if (fgets(line, sizeof(line), crowd->reports[r]) == NULL)
            fail_msg("rank %d ended before it was ready", r);
        if (strcmp(line, "ready\n") != 0)
            fail_msg("%s", line);
    }
}

/* Let them go, and collect what the survivors say: the longest time until all had failed. */
static double hear_the_end(struct crowd *crowd, const struct plan *plan)
{
    char line[600];
    double longest = 0;
    int status;

    close(crowd->go);
    for (int r = 0; r < plan->size; r++) {
        if (r != plan->victim && fgets(line, sizeof(line), crowd->reports[r]) != NULL) {
            char *end;
            double took = strtod(line, &end);
            if (*end != '\n')
                fail_msg("victim %d: %s", plan->victim, line);
            longest = took > longest ? took : longest;
        }
    }
    if (plan->end == STOPS)
        kill(crowd->pids[plan->victim], SIGCONT);
    for (int r = 0; r < plan->size; r++) {
        while (fgets(line, sizeof(line), crowd->reports[r]) != NULL)
            fail_msg("victim %d: %s", plan->victim, line);
        fclose(crowd->reports[r]);
        assert_int_equal(waitpid(crowd->pids[r], &status, 0), crowd->pids[r]);
        if (r != plan->victim || plan->end != KILLED)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return longest;
}

static void lose_each(int size, enum end end, bool is_idle)
{
    double longest = 0;

    for (int victim = 0; victim < size; victim++) {
        struct plan plan = {.size = size, .victim = victim, .end = end, .is_idle = is_idle};
        struct crowd crowd = {0};
        start_crowd(&crowd, &plan);
        hear_ready(&crowd, size);
        double took = hear_the_end(&crowd, &plan);
        longest = took > longest ? took : longest;
    }
    print_message("%d ranks: all others knew after %.1f ms at most\n", size, longest);
}

static void a_killed_rank_fails_every_future_within_a_second(void **state)
{
    (void)state;
    lose_each(4, KILLED, false);
    lose_each(2, KILLED, false);
}

static void a_rank_killed_while_all_are_idle_is_known_by_health(void **state)
{
    (void)state;
    lose_each(4, KILLED, true);
    lose_each(2, KILLED, true);
}

static void a_rank_that_exits_without_finalizing_is_lost(void **state)
{
    (void)state;
    lose_each(4, EXITS, false);
    lose_each(2, EXITS, true);
}

static void who_exits_because_of_a_loss_is_not_its_cause(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int victim = 0; victim < 4; victim++) {
            struct plan plan = {.size = 4, .victim = victim, .end = KILLED, .is_hasty = true};
            struct crowd crowd = {0};

            start_crowd(&crowd, &plan);
            hear_ready(&crowd, 4);
            (void)hear_the_end(&crowd, &plan);
        }
}

static void a_rank_that_closes_its_group_is_lost(void **state)
{
    (void)state;
    lose_each(4, CLOSES, false);
    lose_each(2, CLOSES, true);
}

static void a_stopped_rank_does_not_answer_and_may_come_back(void **state)
{
    (void)state;
    for (int victim = 0; victim < 3; victim++) {
        struct plan plan = {.size = 3, .victim = victim, .end = STOPS, .is_idle = true};
        struct crowd crowd = {0};
        start_crowd(&crowd, &plan);
        hear_ready(&crowd, plan.size);
        hear_the_end(&crowd, &plan);
    }
}

/* ---- the rendezvous ------------------------------------------------------------------------ */

/* Rank `missing` of three is killed while it waits for the last one, which never comes. */
static void a_rank_killed_during_the_rendezvous_ends_it_within_the_timeout(void **state)
{
    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        tc_dist_options options;
        tc_context *context;
        tc_dist_ctx *group = NULL;
        char url[64];
        int fd = world_listen(url, sizeof(url)), status;
        fflush(NULL);
        pid_t pid = fork();
        tc_dist_options_default(&options);
        options.world_size = 3;
        options.rendezvous_url = url;
        options.timeout_ms = 1500;
        options.rank = pid == 0 ? missing : 1 - missing;
        options.listen_fd = options.rank == 0 ? fd : -1;
        if (options.rank != 0)
            close(fd);
        if (tc_init(&context) != TC_OK)
            _exit(EXIT_SAYS);
        tc_future *formed = tc_dist_init_async(context, &options, &group);
        if (pid == 0) {
            tc_future_wait(formed, 60000);
            _exit(EXIT_SAYS);
        }
        assert_int_equal(tc_future_wait(formed, 300), TC_PENDING);
        kill(pid, SIGKILL);
        double begin = now_ms();
        tc_status_t got = tc_future_wait(formed, 10000);
        print_message("without rank %d: %s: %s\n", missing, tc_status_string(got),
                      tc_future_error(formed)->message);
        assert_true(got == TC_ERR_TIMEOUT || got == TC_ERR_RENDEZVOUS || got == TC_ERR_PEER_LOST);
        assert_true(now_ms() - begin < 3000);
        tc_future_release(formed);
        assert_int_equal(tc_shutdown(context), TC_OK);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_fails_every_future_within_a_second),
        cmocka_unit_test(a_rank_killed_while_all_are_idle_is_known_by_health),
        cmocka_unit_test(a_rank_that_exits_without_finalizing_is_lost),
        cmocka_unit_test(who_exits_because_of_a_loss_is_not_its_cause),
        cmocka_unit_test(a_rank_that_closes_its_group_is_lost),
        cmocka_unit_test(a_stopped_rank_does_not_answer_and_may_come_back),
        cmocka_unit_test(a_rank_killed_during_the_rendezvous_ends_it_within_the_timeout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
