/* test_shrink.c - ranks are killed, over and over; the others go on in ever smaller groups. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial */
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

/* The ranks are processes; the test's own process is none of them. */
enum { RANKS_MAX = 6, NEVER = 1000, PATIENCE_MS = 60000 };

struct plan {
    int size, rounds;
    int dies[RANKS_MAX];       /* in which round; NEVER */
    bool in_shrink[RANKS_MAX]; /* not before it has begun to shrink the group */
    bool closes;               /* the old group, before the new one is used; else at the end */
    bool is_split;             /* the group is a sub-group of all, and the first stays open */
    int mode;                  /* tc_loop_mode_t */
};

struct rank {
    const struct plan *plan;
    int rank, out;
    tc_context *context;
    tc_dist_ctx *group, *old[2 * RANKS_MAX];
    int old_count;
};

static void leave_old(struct rank *rank)
{
    while (rank->old_count > 0) {
        tc_dist_ctx *old = rank->old[--rank->old_count];

        if (rank->old_count % 2 == 0)
            CHECK(rank, tc_dist_close(old) == TC_OK);
        else
            CHECK(rank, tc_dist_finalize(old) == TC_ERR_PEER_LOST);
    }
}

static void shrink(struct rank *rank, int round)
{
    tc_dist_ctx *next = NULL;
    tc_future *future = tc_dist_shrink_async(rank->group, &next);
    tc_status_t status;

    if (rank->plan->dies[rank->rank] == round) {
        (void)tc_future_wait(future, (rank->rank * 7 + round) % 3);
        raise(SIGKILL);
    }
    status = tc_future_wait(future, PATIENCE_MS);
    if (status != TC_OK) {
        dprintf(rank->out, "rank %d, round %d: shrink: %s\n", rank->rank, round,
                status == TC_PENDING ? "hangs" : tc_future_error(future)->message);
        _exit(EXIT_SAYS);
    }
    tc_future_release(future);
    CHECK(rank, tc_dist_health(rank->group, NULL) == TC_ERR_PEER_LOST);
    rank->old[rank->old_count++] = rank->group;
    rank->group = next;
    if (rank->plan->closes)
        leave_old(rank);
}

static tc_status_t reduce(struct rank *rank, uint64_t tag, uint64_t mine, tc_reduce_op_t op,
                          uint64_t *out)
{
    tc_future *sum = tc_allreduce_async(rank->group, tag, &mine, out, 1, TC_DTYPE_U64, op, NULL);
    tc_status_t status = tc_future_wait(sum, PATIENCE_MS);

    tc_future_release(sum);
    CHECK(rank, status == TC_OK || status == TC_ERR_PEER_LOST);
    return status;
}

static uint64_t alive_in(const struct plan *plan, int round)
{
    uint64_t bits = 0;

    for (int r = 0; r < plan->size; r++)
        if (plan->dies[r] > round)
            bits |= UINT64_C(1) << r;
    return bits;
}

/* One step of a program that goes on whatever is lost; gives the step to go on with.  A rank may
 * end when some have the result of a step and others have not, so the survivors agree on where they
 * are. */
static int play(struct rank *rank, int round)
{
    const struct plan *plan = rank->plan;
    uint64_t me = UINT64_C(1) << rank->rank, all = 0, next = (uint64_t)round;

    if (plan->dies[rank->rank] == round && !plan->in_shrink[rank->rank])
        raise(SIGKILL);
    if (reduce(rank, (uint64_t)round, me, TC_REDUCE_BOR, &all) == TC_OK) {
        CHECK(rank, (all & me) != 0 && (all & ~alive_in(plan, round - 1)) == 0);
        CHECK(rank, (alive_in(plan, plan->rounds) & ~all) == 0);
        CHECK(rank, tc_dist_world_size(rank->group) == __builtin_popcountll(all));
        CHECK(rank, tc_dist_rank(rank->group) == __builtin_popcountll(all & (me - 1)));
        if (plan->dies[rank->rank] == round)
            raise(SIGKILL); /* the others had met their loss before */
        return round + 1;
    }
    do
        shrink(rank, round);
    while (reduce(rank, UINT64_C(1) << 32, (uint64_t)round, TC_REDUCE_MIN, &next) != TC_OK);
    return (int)next;
}

static void run_rank(struct rank *rank, const char *url, int listen_fd)
{
    const struct plan *plan = rank->plan;
    tc_dist_ctx *all = NULL;
    tc_dist_options options;
    tc_config config;

    CHECK(rank, tc_init(&rank->context) == TC_OK); /* a sanitizer may begin a thread of its own */
    CHECK(rank, tc_shutdown(rank->context) == TC_OK);
    uint64_t live = tci_alloc_live();
    int fds = entries_of("/proc/self/fd");
    unsigned threads = count_threads();
    tc_config_default(&config);
    config.loop_mode = plan->mode;
    CHECK(rank, tc_init_config(&config, &rank->context) == TC_OK);
    tc_dist_options_default(&options);
    options.world_size = plan->size;
    options.rank = rank->rank;
    options.rendezvous_url = url;
    options.listen_fd = rank->rank == 0 ? listen_fd : -1;
    tc_future *formed = tc_dist_init_async(rank->context, &options, &rank->group);
    CHECK(rank, tc_future_wait(formed, PATIENCE_MS) == TC_OK);
    tc_future_release(formed);
    if (plan->is_split) {
        all = rank->group;
        CHECK(rank, tc_dist_split(all, 0, 0, &rank->group) == TC_OK);
    }
    for (int round = 0; round < plan->rounds;)
        round = play(rank, round);
    CHECK(rank,
          tc_dist_world_size(rank->group) == __builtin_popcountll(alive_in(plan, plan->rounds)));
    /* The order counts: who finalizes waits for the others, who are not to wait for it. */
    CHECK(rank, tc_dist_finalize(rank->group) == TC_OK);
    leave_old(rank);
    if (all != NULL)
        CHECK(rank, tc_dist_close(all) == TC_OK);
    CHECK(rank, tc_shutdown(rank->context) == TC_OK);
    CHECK(rank, tci_alloc_live() == live);
    CHECK(rank, entries_of("/proc/self/fd") == fds - (rank->rank == 0));
    CHECK(rank, count_threads() == threads);
    exit(0);
}

static void run(const struct plan *plan)
{
    pid_t pids[RANKS_MAX];
    char url[64], text[2000] = "";
    size_t len = 0;
    ssize_t got;
    int fd = world_listen(url, sizeof(url)), out[2];

    assert_int_equal(pipe(out), 0);
    for (int r = 0; r < plan->size; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0) {
            struct rank rank = {.plan = plan, .rank = r, .out = out[1]};

            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(out[0]);
            if (r != 0)
                close(fd);
            run_rank(&rank, url, fd);
        }
    }
    close(fd);
    close(out[1]);
    while (len < sizeof(text) - 1 && (got = read(out[0], text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)got;
    close(out[0]);
    for (int r = 0; r < plan->size; r++) {
        int how;

        assert_int_equal(waitpid(pids[r], &how, 0), pids[r]);
        if (plan->dies[r] < NEVER)
            assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        else if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
            fail_msg("rank %d of %d: status %x; they say: %s", r, plan->size, how, text);
    }
}

static struct plan plan_of(int size, int rounds)
{
    struct plan plan = {.size = size, .rounds = rounds, .mode = TC_LOOP_THREAD};

    for (int r = 0; r < RANKS_MAX; r++)
        plan.dies[r] = NEVER;
    return plan;
}

static void each_rank_may_be_the_one(void **state)
{
    (void)state;
    for (int victim = 0; victim < 3; victim++)
        for (int variant = 0; variant < 4; variant++) {
            struct plan plan = plan_of(3, 3);

            plan.dies[victim] = 1;
            plan.closes = variant % 2 != 0;
            plan.is_split = variant / 2 != 0;
            plan.mode = (victim + variant) % 2 != 0 ? TC_LOOP_MANUAL : TC_LOOP_THREAD;
            run(&plan);
        }
}

static void down_to_one(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        struct plan plan = plan_of(5, 6);
        int last = variant; /* who remains */

        for (int r = 0, round = 1; r < plan.size; r++)
            if (r != last)
                plan.dies[r] = round++;
        plan.closes = variant % 2 == 0;
        plan.is_split = variant == 3;
        run(&plan);
    }
}

static void several_at_once_also_while_it_is_agreed(void **state)
{
    int times = test_effort() == 2 ? 20 : 2;

    (void)state;
    for (int variant = 0; variant < 3 * times; variant++) {
        struct plan plan = plan_of(6, 4);

        plan.dies[variant % 6] = 1;
        plan.dies[(variant + 1) % 6] = 1; /* the next one leads where the first was rank 0 */
        plan.in_shrink[(variant + 1) % 6] = true;
        plan.dies[(variant + 3) % 6] = 2;
        plan.dies[(variant + 4) % 6] = 2;
        plan.in_shrink[(variant + 4) % 6] = variant % 2 != 0;
        plan.closes = variant % 2 != 0;
        plan.mode = variant % 3 == 2 ? TC_LOOP_MANUAL : TC_LOOP_THREAD;
        run(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_may_be_the_one),
        cmocka_unit_test(down_to_one),
        cmocka_unit_test(several_at_once_also_while_it_is_agreed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
