/* test_again.c - a call like the one before takes a short way, and is a call of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "core/comm.h"
#include "support/world.h"

enum { RANKS = 2, COUNT_MAX = 3000, FLIGHT = 3 };

static void open_world(struct world *world, int mode)
{
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = mode;
    world_open(world, RANKS, &config);
}

/* ---- Calls of a few kinds in a random order ------------------------------------------------- */

struct call {
    size_t count;
    tc_reduce_op_t op;
    bool in_place, is_ordered;
    tc_future *futures[RANKS];
    int64_t in[RANKS][COUNT_MAX], out[RANKS][COUNT_MAX];
};

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1103515245u + 12345u;
    return (*state >> 16) % below;
}

static void start(struct world *world, struct call *call, uint64_t tag, unsigned *state)
{
    static const size_t counts[] = {1, 1, 1, 7, COUNT_MAX};
    static const tc_reduce_op_t ops[] = {TC_REDUCE_SUM, TC_REDUCE_SUM, TC_REDUCE_MAX};

    call->count = counts[draw(state, 5)];
    call->op = ops[draw(state, 3)];
    call->in_place = draw(state, 4) != 0;
    call->is_ordered = draw(state, 3) != 0;
    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < call->count; i++)
            call->in[r][i] = (int64_t)(tag * 10 + i) + r;
        memset(call->out[r], 0, sizeof(call->out[r]));
        call->futures[r] = tc_allreduce_async(
            world->group[r], call->is_ordered ? TC_TAG_ORDERED : tag, call->in[r],
            call->in_place ? call->in[r] : call->out[r], call->count, TC_DTYPE_I64, call->op, NULL);
    }
}

static void finish(struct world *world, struct call *call, uint64_t tag)
{
    for (int r = 0; r < RANKS; r++) {
        const int64_t *got = call->in_place ? call->in[r] : call->out[r];

        assert_int_equal(world_wait(world, call->futures[r]), TC_OK);
        tc_future_release(call->futures[r]);
        for (size_t i = 0; i < call->count; i++) {
            int64_t own = (int64_t)(tag * 10 + i);

            assert_int_equal(got[i], call->op == TC_REDUCE_MAX ? own + 1 : 2 * own + 1);
        }
    }
}

static void mix(int mode)
{
    static struct call calls[FLIGHT];
    struct world world;
    unsigned state = 1;

    open_world(&world, mode);
    for (uint64_t tag = 0; tag < 2000; tag++) {
        unsigned flight = draw(&state, 2) == 0 ? 1 : FLIGHT;

        for (unsigned c = 0; c < flight; c++)
            start(&world, &calls[c], tag + c, &state);
        for (unsigned c = 0; c < flight; c++)
            finish(&world, &calls[c], tag + c);
    }
    world_close(&world);
}

static void calls_of_a_few_kinds_are_not_mixed_up(void **state)
{
    (void)state;
    mix(TC_LOOP_MANUAL);
    mix(TC_LOOP_THREAD);
}

/* ---- Whatever else changes ------------------------------------------------------------------- */

static tc_future *sum(struct world *world, int rank, uint64_t tag, float *value)
{
    return tc_allreduce_async(world->group[rank], tag, value, value, 1, TC_DTYPE_F32, TC_REDUCE_SUM,
                              NULL);
}

/* 1 + 2, on both ranks. */
static void sum_on_all(struct world *world, uint64_t tag)
{
    float values[RANKS] = {1, 2};
    tc_future *futures[RANKS];

    for (int r = 0; r < RANKS; r++)
        futures[r] = sum(world, r, tag, &values[r]);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(world_wait(world, futures[r]), TC_OK);
        assert_true(values[r] == 3);
        tc_future_release(futures[r]);
    }
}

static void a_call_that_was_cancelled_is_made_again_from_the_beginning(void **state)
{
    struct world world;

    (void)state;
    open_world(&world, TC_LOOP_MANUAL);
    for (uint64_t i = 0; i < 20; i++) {
        float values[RANKS] = {1, 2};
        tc_future *futures[RANKS];
        tc_status_t status;

        sum_on_all(&world, TC_TAG_ORDERED);
        futures[0] = sum(&world, 0, i, &values[0]);
        tc_future_cancel(futures[0]);
        assert_int_equal(world_wait(&world, futures[0]), TC_ERR_CANCELLED);
        futures[1] = sum(&world, 1, i, &values[1]);
        status = world_wait(&world, futures[1]); /* it may have had all that it needs */
        assert_true(status == TC_ERR_CANCELLED || (status == TC_OK && values[1] == 3));
        for (int r = 0; r < RANKS; r++)
            tc_future_release(futures[r]);
        sum_on_all(&world, TC_TAG_ORDERED);
    }
    world_close(&world);
}

static void a_group_that_was_tuned_chooses_anew(void **state)
{
    struct world world;
    tc_future *futures[RANKS];
    unsigned versions[RANKS];

    (void)state;
    open_world(&world, TC_LOOP_THREAD);
    for (int r = 0; r < RANKS; r++)
        versions[r] = atomic_load(&tci_comm_of(world.group[r])->tuning.version);
    sum_on_all(&world, 1);
    for (int r = 0; r < RANKS; r++)
        futures[r] = tc_dist_tune_async(world.group[r]);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(world_wait(&world, futures[r]), TC_OK);
        tc_future_release(futures[r]);
    }
    for (int i = 0; i < 2; i++)
        sum_on_all(&world, 1);
    for (int r = 0; r < RANKS; r++) {
        struct tci_comm *comm = tci_comm_of(world.group[r]);
        struct tci_op *op = tci_op_take_recent(comm);

        assert_true(atomic_load(&comm->tuning.version) != versions[r]);
        assert_true(op == NULL || op->args.version == atomic_load(&comm->tuning.version));
        tci_op_drop_recent(comm, op);
    }
    world_close(&world);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

enum { THREADS = 3, THREAD_CALLS = 300 };

struct caller {
    struct world *world;
    int rank, thread;
    unsigned failures;
};

/* Tagged and ordered ones cannot be mixed here: threads are in no common order. */
static void *call_often(void *arg)
{
    struct caller *self = arg;

    for (int i = 0; i < THREAD_CALLS; i++) {
        uint64_t tag = (uint64_t)(self->thread * THREAD_CALLS + i);
        float value = (float)(tag + (unsigned)self->rank);
        tc_future *future = sum(self->world, self->rank, tag, &value);

        if (tc_future_wait(future, 60000) != TC_OK || value != (float)(2 * tag + 1))
            self->failures++;
        tc_future_release(future);
    }
    return NULL;
}

/* One of them has the operation of the last call, the others make one of their own. */
static void threads_that_call_at_once_do_not_share_an_operation(void **state)
{
    static const int modes[] = {TC_LOOP_MANUAL, TC_LOOP_THREAD};

    (void)state;
    for (size_t m = 0; m < TCI_LEN(modes); m++) {
        struct caller callers[RANKS * THREADS];
        pthread_t threads[RANKS * THREADS];
        struct world world;

        open_world(&world, modes[m]);
        for (int k = 0; k < RANKS * THREADS; k++) {
            callers[k] = (struct caller){.world = &world, .rank = k % RANKS, .thread = k / RANKS};
            assert_int_equal(pthread_create(&threads[k], NULL, call_often, &callers[k]), 0);
        }
        for (int k = 0; k < RANKS * THREADS; k++)
            pthread_join(threads[k], NULL);
        for (int k = 0; k < RANKS * THREADS; k++)
            assert_int_equal(callers[k].failures, 0);
        world_close(&world);
    }
}

/* More than have a place of their own in tags.c: the others are in its table. */
static void hundreds_of_ordered_calls_are_told_apart(void **state)
{
    enum { MANY = 300 };
    static float values[RANKS][MANY];
    static tc_future *futures[RANKS][MANY];
    struct world world;

    (void)state;
    open_world(&world, TC_LOOP_MANUAL);
    for (int round = 0; round < 3; round++) {
        for (int r = 0; r < RANKS; r++)
            for (int i = 0; i < MANY; i++) {
                values[r][i] = (float)(i + r);
                futures[r][i] = sum(&world, r, TC_TAG_ORDERED, &values[r][i]);
            }
        for (int i = MANY - 1; i >= 0; i--)
            for (int r = 0; r < RANKS; r++) {
                assert_int_equal(world_wait(&world, futures[r][i]), TC_OK);
                assert_true(values[r][i] == (float)(2 * i + 1));
                tc_future_release(futures[r][i]);
            }
    }
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_a_few_kinds_are_not_mixed_up),
        cmocka_unit_test(a_call_that_was_cancelled_is_made_again_from_the_beginning),
        cmocka_unit_test(a_group_that_was_tuned_chooses_anew),
        cmocka_unit_test(threads_that_call_at_once_do_not_share_an_operation),
        cmocka_unit_test(hundreds_of_ordered_calls_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
