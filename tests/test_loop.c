/* test_loop.c - turns of the loop: their order, their sleep and what ends it. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, serial */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base.h"
#include "loop/loop.h"
#include "support/loop_room.h"

#define FOREVER_NS ((uint64_t)60 * 1000000000u)

static const int both_modes[] = {TC_LOOP_THREAD, TC_LOOP_MANUAL};

/* ---- What happened -------------------------------------------------------------------------- */

static char story[256]; /* written on the loop */
static size_t story_len;

static void tell(char what)
{
    assert_true(story_len + 1 < sizeof(story));
    story[story_len++] = what;
    story[story_len] = '\0';
}

static void forget(void)
{
    story_len = 0;
    story[0] = '\0';
}

struct letter {
    struct tci_task task;
    char what;
};

static void tell_letter(struct tci_task *task)
{
    tell(tci_container_of(task, struct letter, task)->what);
}

static bool has_told(void *arg)
{
    return story_len >= *(size_t *)arg;
}

static void await_story(struct tci_loop *loop, size_t len)
{
    tci_loop_await(loop, has_told, &len);
}

/* ---- A source that does as it is told ------------------------------------------------------- */

struct fake_source {
    struct tci_source source;
    struct tci_exec *exec;
    unsigned polls, arms;
    unsigned work;     /* given by each poll */
    unsigned refusals; /* of arm, from now on */
    bool is_expecting;
    struct letter engine; /* posted by the first poll, unless 0 */
};

static unsigned poll_fake(struct tci_source *self, unsigned budget)
{
    struct fake_source *fake = tci_container_of(self, struct fake_source, source);

    assert_true(budget > 0);
    if (fake->polls++ == 0 && fake->engine.what != 0) {
        tell('p');
        fake->engine.task.fn = tell_letter;
        fake->exec->ops->post(fake->exec, &fake->engine.task);
        return 1;
    }
    return fake->work;
}

static bool arm_fake(struct tci_source *self)
{
    struct fake_source *fake = tci_container_of(self, struct fake_source, source);

    fake->arms++;
    if (fake->refusals == 0)
        return true;
    fake->refusals--;
    return false;
}

static bool expects_fake(struct tci_source *self)
{
    return tci_container_of(self, struct fake_source, source)->is_expecting;
}

static void add_fake(void *arg)
{
    struct fake_source *fake = arg;

    fake->source.poll = poll_fake;
    fake->source.arm = arm_fake;
    fake->source.expects = expects_fake;
    fake->exec->ops->source_add(fake->exec, &fake->source);
}

static void del_fake(void *arg)
{
    struct fake_source *fake = arg;

    fake->exec->ops->source_del(fake->exec, &fake->source);
}

/* ---- Order ---------------------------------------------------------------------------------- */

static void tasks_run_in_the_order_in_which_they_were_posted(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(both_modes); i++) {
        struct tci_loop *loop = loop_open(both_modes[i], -1);
        struct tci_exec *exec = tci_loop_exec(loop);
        struct letter letters[3] = {
            {{NULL, tell_letter}, 'a'}, {{NULL, tell_letter}, 'b'}, {{NULL, tell_letter}, 'c'}};

        forget();
        for (size_t k = 0; k < TCI_LEN(letters); k++)
            exec->ops->post_remote(exec, &letters[k].task);
        await_story(loop, TCI_LEN(letters));

        assert_string_equal(story, "abc");
        tci_loop_free(loop);
    }
}

struct whole_turn {
    struct tci_exec *exec;
    struct fake_source fake;
    struct letter task, user;
    struct tci_timer timer;
};

static void tell_timer(struct tci_timer *timer)
{
    (void)timer;
    tell('t');
}

static void prepare_turn(void *arg)
{
    struct whole_turn *turn = arg;
    struct tci_exec *exec = turn->exec;

    add_fake(&turn->fake);
    turn->timer.fn = tell_timer;
    turn->task = (struct letter){{NULL, tell_letter}, 'a'};
    turn->user = (struct letter){{NULL, tell_letter}, 'u'};
    exec->ops->timer_set(exec, &turn->timer, exec->ops->now_ns(exec));
    exec->ops->post_user(exec, &turn->user.task);
    exec->ops->post(exec, &turn->task.task);
}

static void end_turn(void *arg)
{
    struct whole_turn *turn = arg;

    del_fake(&turn->fake);
}

static void a_turn_runs_tasks_sources_the_engine_user_code_and_timers(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(both_modes); i++) {
        struct tci_loop *loop = loop_open(both_modes[i], -1);
        struct tci_exec *exec = tci_loop_exec(loop);
        struct whole_turn turn = {.exec = exec, .fake = {.exec = exec, .engine = {.what = 'e'}}};

        forget();
        tci_loop_call(loop, prepare_turn, &turn);
        await_story(loop, 5);
        tci_loop_call(loop, end_turn, &turn);

        assert_string_equal(story, "apeut");
        tci_loop_free(loop);
    }
}

/* ---- Timers --------------------------------------------------------------------------------- */

struct alarm {
    struct tci_timer timer;
    struct tci_exec *exec;
    uint64_t after_ns, rang_ns;
    char what;
};

static void ring(struct tci_timer *timer)
{
    struct alarm *self = tci_container_of(timer, struct alarm, timer);

    self->rang_ns = clock_now_ns();
    tell(self->what);
}

static void set_alarm(void *arg)
{
    struct alarm *self = arg;

    self->timer.fn = ring;
    assert_int_equal(
        self->exec->ops->timer_set(self->exec, &self->timer, clock_now_ns() + self->after_ns), 0);
}

static void clear_alarm(void *arg)
{
    struct alarm *self = arg;

    self->exec->ops->timer_clear(self->exec, &self->timer);
}

static void timers_are_called_when_due_and_never_early(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(both_modes); i++) {
        struct tci_loop *loop = loop_open(both_modes[i], -1);
        struct tci_exec *exec = tci_loop_exec(loop);
        struct alarm late = {.exec = exec, .after_ns = 30 * TCI_NS_PER_MS, .what = 'l'};
        struct alarm soon = {.exec = exec, .after_ns = 10 * TCI_NS_PER_MS, .what = 's'};
        struct alarm never = {.exec = exec, .after_ns = 20 * TCI_NS_PER_MS, .what = 'n'};
        uint64_t begin_ns = clock_now_ns();

        forget();
        tci_loop_call(loop, set_alarm, &late);
        tci_loop_call(loop, set_alarm, &soon);
        tci_loop_call(loop, set_alarm, &never);
        tci_loop_call(loop, clear_alarm, &never);
        await_story(loop, 2);

        assert_string_equal(story, "sl");
        assert_true(soon.rang_ns - begin_ns >= soon.after_ns);
        assert_true(late.rang_ns - begin_ns >= late.after_ns);
        tci_loop_free(loop);
    }
}

/* ---- Sleeping ------------------------------------------------------------------------------- */

static void sources_are_armed_before_a_sleep_and_polled_when_they_refuse(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, -1);
    struct fake_source fake = {.exec = tci_loop_exec(loop), .refusals = 3};
    uint64_t begin_ns = clock_now_ns();

    (void)state;
    tci_loop_call(loop, add_fake, &fake);
    fake.polls = fake.arms = 0;
    tci_loop_turn(loop, 5);
    tci_loop_call(loop, del_fake, &fake);

    assert_true(clock_now_ns() - begin_ns >= 5 * TCI_NS_PER_MS);
    assert_true(fake.arms == 4 || fake.arms == 5); /* three refusals; a sleep may end early */
    assert_true(fake.polls >= fake.arms);
    tci_loop_free(loop);
}

static void a_loop_that_expects_work_spins_before_it_sleeps(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, 500);
    struct fake_source fake = {.exec = tci_loop_exec(loop), .is_expecting = true};
    unsigned polls_before_sleep;

    (void)state;
    tci_loop_call(loop, add_fake, &fake);
    fake.polls = 0;
    tci_loop_turn(loop, 5);
    polls_before_sleep = fake.polls;
    tci_loop_call(loop, del_fake, &fake);

    assert_true(polls_before_sleep > 20);
    assert_true(fake.arms >= 1);
    tci_loop_free(loop);
}

static void a_loop_told_not_to_spin_sleeps_at_once(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, 0);
    struct fake_source fake = {.exec = tci_loop_exec(loop), .is_expecting = true};

    (void)state;
    tci_loop_call(loop, add_fake, &fake);
    fake.polls = 0;
    tci_loop_turn(loop, 5);
    tci_loop_call(loop, del_fake, &fake);

    assert_true(fake.polls < 6);
    tci_loop_free(loop);
}

static void ranks_that_share_cores_yield_and_sleep_soon(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, -1);
    struct fake_source fake = {.exec = tci_loop_exec(loop), .is_expecting = true};

    (void)state;
    tci_loop_set_local_ranks(loop, 100000);
    tci_loop_call(loop, add_fake, &fake);
    do { /* where others are busy a yield may take as long as the turn */
        fake.polls = 0;
        tci_loop_turn(loop, 5);
    } while (fake.arms == 0);
    tci_loop_call(loop, del_fake, &fake);

    assert_true(fake.polls < 1000); /* a turn without a sleep has ten times as many */
    tci_loop_free(loop);
}

static void an_idle_context_uses_no_processor_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(both_modes); i++) {
        struct tci_loop *loop = loop_open(both_modes[i], -1);
        struct fake_source fake = {.exec = tci_loop_exec(loop)};
        struct alarm far = {.exec = fake.exec, .after_ns = FOREVER_NS, .what = 'f'};
        uint64_t begin_ns;

        tci_loop_call(loop, add_fake, &fake);
        tci_loop_call(loop, set_alarm, &far);
        begin_ns = clock_cpu_ns();
        if (both_modes[i] == TC_LOOP_MANUAL)
            tci_loop_turn(loop, 1000);
        else
            clock_pass_ms(1000);

        assert_true(clock_cpu_ns() - begin_ns < 10 * TCI_NS_PER_MS);
        tci_loop_call(loop, del_fake, &fake);
        tci_loop_call(loop, clear_alarm, &far);
        tci_loop_free(loop);
    }
}

/* ---- Waking --------------------------------------------------------------------------------- */

struct post_round {
    struct tci_task task;
    struct tci_exec *exec;
    atomic_uint runs;
};

static void count_run(struct tci_task *task)
{
    struct post_round *round = tci_container_of(task, struct post_round, task);

    atomic_fetch_add(&round->runs, 1);
}

/* Post, and wait until it was run, over and over; a wake-up that gets lost hangs the test.  Every
 * other time the loop gets time to fall asleep. */
static void *post_often(void *arg)
{
    struct post_round *round = arg;

    for (unsigned i = 0; i < 5000; i++) {
        uint64_t begin_ns = clock_now_ns();

        while (i % 2 == 0 && clock_now_ns() - begin_ns < i % 64 * 1000u)
            sched_yield();
        round->task.fn = count_run;
        round->exec->ops->post_remote(round->exec, &round->task);
        while (atomic_load(&round->runs) == i) {
            if (clock_now_ns() - begin_ns > FOREVER_NS / 3)
                return round; /* lost */
            sched_yield();
        }
    }
    return NULL;
}

static void no_post_of_several_threads_is_lost(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_THREAD, -1);
    struct post_round rounds[3];
    pthread_t threads[TCI_LEN(rounds)];

    (void)state;
    for (size_t i = 0; i < TCI_LEN(rounds); i++) {
        rounds[i] = (struct post_round){.exec = tci_loop_exec(loop)};
        assert_int_equal(pthread_create(&threads[i], NULL, post_often, &rounds[i]), 0);
    }

    for (size_t i = 0; i < TCI_LEN(rounds); i++) {
        void *lost;

        pthread_join(threads[i], &lost);
        assert_null(lost);
    }
    tci_loop_free(loop);
}

static void *post_one(void *arg)
{
    struct post_round *round = arg;

    clock_pass_ms(20);
    round->exec->ops->post_remote(round->exec, &round->task);
    return NULL;
}

static void a_post_ends_the_sleep_of_a_manual_loop(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, -1);
    struct post_round round = {.exec = tci_loop_exec(loop), .task = {.fn = count_run}};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, post_one, &round), 0);
    while (atomic_load(&round.runs) == 0)
        assert_int_equal(tci_loop_turn(loop, -1), TC_OK);
    pthread_join(thread, NULL);

    assert_int_equal(atomic_load(&round.runs), 1);
    tci_loop_free(loop);
}

/* ---- Descriptors ---------------------------------------------------------------------------- */

struct pipe_watch {
    struct tci_watch watch;
    struct pipe_watch *other; /* deleted by the first call */
    struct tci_loop *loop;
    int fds[2];
    atomic_uint calls;
};

static void on_byte(struct tci_watch *watch, uint32_t ready)
{
    struct pipe_watch *self = tci_container_of(watch, struct pipe_watch, watch);

    assert_true((ready & TC_READABLE) != 0);
    atomic_fetch_add(&self->calls, 1);
    if (self->other != NULL)
        tci_watch_del(&self->other->watch);
    tci_watch_del(watch);
}

static void add_pipe(void *arg)
{
    struct pipe_watch *self = arg;

    self->watch.fn = on_byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, self->fds), 0);
    assert_int_equal(tci_watch_add(self->loop, &self->watch, self->fds[0], TC_READABLE), 0);
    assert_int_equal(tci_watch_change(&self->watch, 0), 0);
    assert_int_equal(tci_watch_change(&self->watch, TC_READABLE), 0);
    assert_int_equal(write(self->fds[1], "x", 1), 1);
}

static void del_pipe(void *arg)
{
    struct pipe_watch *self = arg;

    tci_watch_del(&self->watch);
    close(self->fds[0]);
    close(self->fds[1]);
}

struct pipe_pair {
    struct pipe_watch a, b;
};

static void add_pipes(void *arg)
{
    struct pipe_pair *pair = arg;

    add_pipe(&pair->a);
    add_pipe(&pair->b);
}

static bool is_pipe_called(void *arg)
{
    struct pipe_pair *pair = arg;

    return atomic_load(&pair->a.calls) + atomic_load(&pair->b.calls) > 0;
}

static void nothing(void *arg)
{
    (void)arg;
}

static void a_watch_deleted_by_another_ones_call_is_not_called(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(both_modes); i++) {
        struct tci_loop *loop = loop_open(both_modes[i], -1);
        struct pipe_pair pair = {.a = {.loop = loop, .other = &pair.b},
                                 .b = {.loop = loop, .other = &pair.a}};

        tci_loop_call(loop, add_pipes, &pair);
        tci_loop_await(loop, is_pipe_called, &pair);
        for (int k = 0; k < 3; k++)
            tci_loop_call(loop, nothing, NULL);

        assert_int_equal(atomic_load(&pair.a.calls) + atomic_load(&pair.b.calls), 1);
        tci_loop_call(loop, del_pipe, &pair.a);
        tci_loop_call(loop, del_pipe, &pair.b);
        tci_loop_free(loop);
    }
}

static void a_busy_source_does_not_starve_descriptors(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(both_modes); i++) {
        struct tci_loop *loop = loop_open(both_modes[i], -1);
        struct fake_source fake = {.exec = tci_loop_exec(loop), .work = 1};
        struct pipe_pair pair = {.a = {.loop = loop}};

        tci_loop_call(loop, add_fake, &fake);
        tci_loop_call(loop, add_pipe, &pair.a);
        tci_loop_await(loop, is_pipe_called, &pair);
        tci_loop_call(loop, del_fake, &fake);

        assert_int_equal(atomic_load(&pair.a.calls), 1);
        assert_int_equal(fake.arms, 0);
        tci_loop_call(loop, del_pipe, &pair.a);
        tci_loop_free(loop);
    }
}

static void an_invalid_descriptor_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(both_modes); i++) {
        struct tci_loop *loop = loop_open(both_modes[i], -1);
        struct tci_watch watch = {.fn = on_byte};

        assert_int_equal(tci_watch_add(loop, &watch, -1, TC_READABLE), -1);
        assert_int_equal(errno, EBADF);
        tci_watch_del(&watch);
        tci_loop_free(loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_in_the_order_in_which_they_were_posted),
        cmocka_unit_test(a_turn_runs_tasks_sources_the_engine_user_code_and_timers),
        cmocka_unit_test(timers_are_called_when_due_and_never_early),
        cmocka_unit_test(sources_are_armed_before_a_sleep_and_polled_when_they_refuse),
        cmocka_unit_test(a_loop_that_expects_work_spins_before_it_sleeps),
        cmocka_unit_test(a_loop_told_not_to_spin_sleeps_at_once),
        cmocka_unit_test(ranks_that_share_cores_yield_and_sleep_soon),
        cmocka_unit_test(an_idle_context_uses_no_processor_time),
        cmocka_unit_test(no_post_of_several_threads_is_lost),
        cmocka_unit_test(a_post_ends_the_sleep_of_a_manual_loop),
        cmocka_unit_test(a_watch_deleted_by_another_ones_call_is_not_called),
        cmocka_unit_test(a_busy_source_does_not_starve_descriptors),
        cmocka_unit_test(an_invalid_descriptor_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
