/* test_settled.c - memory is its owner's again when the future has settled, and not before. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "support/world.h"

/* Peers may read a rank's memory where it lies.  So each rank spoils all of its own, what it sent
 * and what it has got, at the first moment at which it may: in the continuation of its future. */

enum { RANKS = 4, COUNT_MAX = 200001 };

enum kind { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST, ALLTOALL, SEND };

static const struct way {
    enum kind kind;
    const char *algorithm; /* NULL: the library's choice */
} ways[] = {
    {ALLREDUCE, NULL},          {ALLREDUCE, "oneshot"},
    {ALLREDUCE, "direct"},      {ALLREDUCE, "wide_chain"},
    {ALLREDUCE, "centralized"}, {REDUCE_SCATTER, NULL},
    {ALLGATHER, NULL},          {ALLGATHER, "ring"},
    {ALLGATHER, "bruck"},       {BROADCAST, NULL},
    {BROADCAST, "chain"},       {BROADCAST, "tree"},
    {ALLTOALL, NULL},           {SEND, NULL},
};

struct side {
    tc_buffer *buffer; /* of send, where it can be read in place; NULL: plain memory */
    int32_t *send, *recv, *kept;
    size_t send_count, recv_count;
    tc_future *futures[2]; /* of a send, and of its receive */
    atomic_int to_come;
    int rank;
};

static struct world world;
static struct side sides[RANKS];
static atomic_int left; /* ranks that have not spoilt their memory */

static void spoil(tc_future *future, void *arg)
{
    struct side *side = arg;

    (void)future;
    if (atomic_fetch_sub(&side->to_come, 1) > 1)
        return;
    memcpy(side->kept, side->recv, side->recv_count * sizeof(int32_t));
    memset(side->send, 0xa5, side->send_count * sizeof(int32_t));
    memset(side->recv, 0x5a, side->recv_count * sizeof(int32_t));
    atomic_fetch_sub(&left, 1);
}

static int32_t value(int rank, size_t i)
{
    return (int32_t)((size_t)rank * 100003 + i * 7);
}

static void start(struct side *side, const struct way *way, size_t count)
{
    tc_dist_ctx *group = world.group[side->rank];
    int right = (side->rank + 1) % RANKS, before = (side->rank + RANKS - 1) % RANKS;
    tc_future **f = side->futures;
    tc_options options;

    tc_options_default(&options);
    options.algorithm = way->algorithm;
    f[1] = NULL;
    switch (way->kind) {
    case ALLREDUCE:
        f[0] = tc_allreduce_async(group, 1, side->send, side->recv, count, TC_DTYPE_I32,
                                  TC_REDUCE_SUM, &options);
        break;
    case REDUCE_SCATTER:
        f[0] = tc_reduce_scatter_async(group, 1, side->send, side->recv, count, TC_DTYPE_I32,
                                       TC_REDUCE_SUM, &options);
        break;
    case ALLGATHER:
        f[0] = tc_allgather_async(group, 1, side->send, side->recv, count, TC_DTYPE_I32, &options);
        break;
    case BROADCAST: /* what is got is passed on from where it lies */
        f[0] = tc_broadcast_async(group, 1, side->recv, count, TC_DTYPE_I32, 1, &options);
        break;
    case ALLTOALL:
        f[0] = tc_alltoall_async(group, 1, side->send, side->recv, count, TC_DTYPE_I32, &options);
        break;
    default:
        f[0] = tc_send_async(group, 1, side->send, count, TC_DTYPE_I32, right, NULL);
        f[1] = tc_recv_async(group, 1, side->recv, count, TC_DTYPE_I32, before, NULL);
    }
    atomic_store(&side->to_come, f[1] != NULL ? 2 : 1);
    for (int k = 0; k < 2 && f[k] != NULL; k++)
        assert_int_equal(tc_future_then(f[k], spoil, side), TC_OK);
}

static int32_t expected(enum kind kind, int rank, size_t count, size_t i)
{
    int32_t sum = 0;

    switch (kind) {
    case ALLREDUCE:
    case REDUCE_SCATTER:
        for (int r = 0; r < RANKS; r++)
            sum += value(r, kind == ALLREDUCE ? i : (size_t)rank * count + i);
        return sum;
    case ALLGATHER:
        return value((int)(i / count), i % count);
    case BROADCAST:
        return value(1, i);
    case ALLTOALL:
        return value((int)(i / count), (size_t)rank * count + i % count);
    default:
        return value((rank + RANKS - 1) % RANKS, i);
    }
}

static void prepare(struct side *side, enum kind kind, size_t count)
{
    bool is_many = kind == REDUCE_SCATTER || kind == ALLTOALL;

    side->send_count = is_many ? RANKS * count : count;
    side->recv_count = kind == ALLGATHER || kind == ALLTOALL ? RANKS * count : count;
    for (size_t i = 0; i < side->send_count; i++)
        side->send[i] = value(side->rank, i);
    for (size_t i = 0; i < side->recv_count; i++)
        side->recv[i] = kind == BROADCAST && side->rank == 1 ? value(1, i) : -1;
}

static void finish(const struct way *way, size_t count)
{
    for (int r = 0; r < RANKS; r++)
        for (int k = 0; k < 2 && sides[r].futures[k] != NULL; k++) {
            assert_int_equal(world_wait(&world, sides[r].futures[k]), TC_OK);
            tc_future_release(sides[r].futures[k]);
        }
    while (atomic_load(&left) > 0) /* continuations run on the loops */
        sched_yield();
    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < sides[r].recv_count; i++)
            if (sides[r].kept[i] != expected(way->kind, r, count, i))
                fail_msg("kind %d by %s, %zu elements: rank %d has %d at %zu", (int)way->kind,
                         way->algorithm != NULL ? way->algorithm : "choice", count, r,
                         sides[r].kept[i], i);
    }
}

static void run_all(void)
{
    static const size_t counts[] = {1, 1000, 20000, COUNT_MAX / RANKS, COUNT_MAX};
    size_t some = test_effort() == 0 ? TCI_LEN(counts) - 1 : TCI_LEN(counts);
    int rounds = test_effort() == 0 ? 2 : 6;

    for (size_t w = 0; w < TCI_LEN(ways); w++)
        for (size_t c = 0; c < some; c++)
            for (int round = 0; round < rounds; round++) {
                atomic_store(&left, RANKS);
                for (int r = 0; r < RANKS; r++)
                    prepare(&sides[r], ways[w].kind, counts[c]);
                for (int r = 0; r < RANKS; r++)
                    start(&sides[(r + round) % RANKS], &ways[w], counts[c]);
                finish(&ways[w], counts[c]);
            }
}

/* Whether what is sent lies in memory that all ranks of the host can map. */
static void try_memory(bool is_shared)
{
    size_t bytes = RANKS * COUNT_MAX * sizeof(int32_t);

    world_open(&world, RANKS, NULL);
    for (int r = 0; r < RANKS; r++) {
        void *data = NULL;

        sides[r].rank = r;
        sides[r].buffer = NULL;
        if (is_shared) {
            assert_int_equal(tc_buffer_alloc(world.context[r], bytes, &sides[r].buffer), TC_OK);
            assert_int_equal(tc_buffer_map(sides[r].buffer, &data), TC_OK);
        }
        sides[r].send = is_shared ? data : malloc(bytes);
        sides[r].recv = malloc(bytes);
        sides[r].kept = malloc(bytes);
        assert_true(sides[r].send != NULL && sides[r].recv != NULL && sides[r].kept != NULL);
    }
    run_all();
    for (int r = 0; r < RANKS; r++) {
        free(sides[r].kept);
        free(sides[r].recv);
        if (is_shared)
            assert_int_equal(tc_buffer_free(world.context[r], sides[r].buffer), TC_OK);
        else
            free(sides[r].send);
    }
    world_close(&world);
}

static void of_memory_that_is_read_in_place(void **state)
{
    (void)state;
    try_memory(true);
}

static void of_memory_that_is_read_from_outside(void **state)
{
    (void)state;
    try_memory(false);
}

static void of_memory_that_goes_over_tcp(void **state)
{
    (void)state;
    setenv("TCDIST_SHM", "0", 1);
    try_memory(false);
    unsetenv("TCDIST_SHM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_memory_that_is_read_in_place),
        cmocka_unit_test(of_memory_that_is_read_from_outside),
        cmocka_unit_test(of_memory_that_goes_over_tcp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
