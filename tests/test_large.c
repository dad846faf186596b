/* test_large.c - payloads beyond 2 GiB, where a count no longer fits in 31 bits. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 900, serial */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/world.h"

/* Neither a power of two nor a multiple of a segment. */
static const size_t count = ((size_t)2 << 30) + 4097;

static struct world world;
static uint8_t *data[2];

/* Fresh pages in huge ones: a fault for each 4 KiB would cost a minute. */
static uint8_t *map_memory(void)
{
    void *memory = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, count, MADV_HUGEPAGE);
    return memory;
}

static const char *why_not; /* nothing of this runs; NULL: it does */

static int open_large(void **state)
{
    uint64_t free_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    tc_config config;

    (void)state;
    if (test_effort() < 2) {
        why_not = "takes 4 GiB of memory; TCDIST_TEST_EFFORT=full runs it";
        return 0;
    }
    if (free_bytes < 3 * (uint64_t)count) {
        why_not = "less than 6 GiB of memory are free";
        return 0;
    }
    for (int r = 0; r < 2; r++) {
        data[r] = map_memory();
        if (data[r] == NULL) {
            why_not = "the system gives no 2 GiB of memory";
            return 0;
        }
    }
    tc_config_default(&config);
    config.timeout_ms = 300000;
    world_open(&world, 2, &config);
    return 0;
}

static int close_large(void **state)
{
    (void)state;
    if (world.size > 0)
        world_close(&world);
    for (int r = 0; r < 2; r++)
        if (data[r] != NULL)
            munmap(data[r], count);
    return 0;
}

/* Depends on every byte of the index, so that no piece may lie in another's place. */
static uint8_t pattern(size_t i, int seed)
{
    return (uint8_t)(i ^ i >> 8 ^ i >> 16 ^ i >> 24 ^ i >> 32) + (uint8_t)seed;
}

static void fill(int rank, int seed)
{
    uint8_t *at = data[rank];

    for (size_t i = 0; i < count; i++)
        at[i] = pattern(i, seed);
}

static void expect(int rank, int factor, int seed)
{
    const uint8_t *at = data[rank];
    size_t bad = 0;

    for (size_t i = 0; i < count; i++)
        bad += at[i] != (uint8_t)(factor * pattern(i, 0) + seed);
    assert_int_equal(bad, 0);
}

static void finish(tc_future **futures)
{
    for (int r = 0; r < 2; r++) {
        if (tc_future_wait(futures[r], 600000) != TC_OK)
            fail_msg("rank %d: %s", r,
                     tc_future_test(futures[r]) == TC_PENDING
                         ? "it does not end"
                         : tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
    }
}

static void skip_unless_open(void)
{
    if (why_not != NULL) {
        printf("skipped: %s\n", why_not);
        skip();
    }
}

static void an_allreduce_of_more_than_2_gib(void **state)
{
    tc_future *futures[2];

    (void)state;
    skip_unless_open();
    for (int r = 0; r < 2; r++)
        fill(r, 3 * r);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_allreduce_async(world.group[r], 1, data[r], data[r], count, TC_DTYPE_U8,
                                        TC_REDUCE_SUM, NULL);
    finish(futures);
    for (int r = 0; r < 2; r++)
        expect(r, 2, 3);
}

static void a_broadcast_of_more_than_2_gib(void **state)
{
    tc_future *futures[2];

    (void)state;
    skip_unless_open();
    fill(1, 9);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_broadcast_async(world.group[r], 2, data[r], count, TC_DTYPE_U8, 1, NULL);
    finish(futures);
    expect(0, 1, 9);
}

static void a_send_of_more_than_2_gib(void **state)
{
    tc_future *futures[2];

    (void)state;
    skip_unless_open();
    fill(0, 77);
    futures[1] = tc_recv_async(world.group[1], 3, data[1], count, TC_DTYPE_U8, 0, NULL);
    futures[0] = tc_send_async(world.group[0], 3, data[0], count, TC_DTYPE_U8, 1, NULL);
    finish(futures);
    expect(1, 1, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allreduce_of_more_than_2_gib),
        cmocka_unit_test(a_broadcast_of_more_than_2_gib),
        cmocka_unit_test(a_send_of_more_than_2_gib),
    };

    return cmocka_run_group_tests(tests, open_large, close_large);
}
