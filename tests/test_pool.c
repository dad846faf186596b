/* test_pool.c - pools of objects and blocks of scratch memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/pool.h"

static void an_object_put_is_the_next_one_got(void **state)
{
    struct tci_pool pool;
    void *first, *second;
    (void)state;

    assert_int_equal(tci_pool_init(&pool, 100, 4), 0);
    first = tci_pool_get(&pool);
    tci_pool_put(&pool, first);
    tci_pool_put(&pool, NULL);
    second = tci_pool_get(&pool);

    assert_ptr_equal(first, second);
    tci_pool_put(&pool, second);
    tci_pool_fini(&pool);
}

static void a_pool_keeps_no_more_than_its_bound(void **state)
{
    uint64_t live = tci_alloc_live();
    struct tci_pool pool;
    void *objects[5];
    (void)state;

    assert_int_equal(tci_pool_init(&pool, 1, 2), 0);
    for (size_t i = 0; i < TCI_LEN(objects); i++)
        objects[i] = tci_pool_get(&pool);
    for (size_t i = 0; i < TCI_LEN(objects); i++)
        tci_pool_put(&pool, objects[i]);

    assert_int_equal(tci_alloc_live(), live + 2);
    tci_pool_fini(&pool);
    assert_int_equal(tci_alloc_live(), live);
}

static void a_pool_without_memory_gives_null(void **state)
{
    struct tci_pool pool;
    (void)state;

    assert_int_equal(tci_pool_init(&pool, 16, 2), 0);
    tci_alloc_fail_at(1, 0);

    assert_null(tci_pool_get(&pool));
    tci_pool_fini(&pool);
}

#define ROUNDS 20000

static void *get_and_put(void *arg)
{
    struct tci_pool *pool = arg;

    for (int i = 0; i < ROUNDS; i++) {
        int *a = tci_pool_get(pool), *b = tci_pool_get(pool);

        *a = i;
        *b = -i;
        if (*a != i)
            return arg;
        tci_pool_put(pool, a);
        tci_pool_put(pool, b);
    }
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    uint64_t live = tci_alloc_live();
    struct tci_pool pool;
    pthread_t threads[4];
    (void)state;

    assert_int_equal(tci_pool_init(&pool, 32, 3), 0);
    for (size_t i = 0; i < TCI_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_and_put, &pool), 0);

    for (size_t i = 0; i < TCI_LEN(threads); i++) {
        void *fault;

        pthread_join(threads[i], &fault);
        assert_null(fault);
    }
    tci_pool_fini(&pool);
    assert_int_equal(tci_alloc_live(), live);
}

static void scratch_of_every_size_is_aligned_and_reused(void **state)
{
    static const size_t sizes[] = {0, 1, 64, 65, 4096, 100000, 1 << 20, (1 << 20) + 1, 5 << 20};
    uint64_t live = tci_alloc_live();
    struct tci_scratch scratch;
    (void)state;

    tci_scratch_init(&scratch, (size_t)64 << 20);
    for (size_t i = 0; i < TCI_LEN(sizes); i++) {
        char *block = tci_scratch_get(&scratch, sizes[i]);

        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        memset(block, 0xa5, sizes[i]);
        tci_scratch_put(&scratch, block);
        assert_ptr_equal(tci_scratch_get(&scratch, sizes[i]), block);
        tci_scratch_put(&scratch, block);
    }

    tci_scratch_put(&scratch, NULL);
    tci_scratch_fini(&scratch);
    assert_int_equal(tci_alloc_live(), live);
}

static void scratch_from_two_megabytes_on_is_huge_page_aligned(void **state)
{
    struct tci_scratch scratch;
    void *block;
    (void)state;

    tci_scratch_init(&scratch, 0);
    block = tci_scratch_get(&scratch, (size_t)2 << 20);

    assert_int_equal((uintptr_t)block % ((size_t)2 << 20), 0);
    tci_scratch_put(&scratch, block);
    tci_scratch_fini(&scratch);
}

static void scratch_keeps_no_more_bytes_than_its_bound(void **state)
{
    uint64_t live = tci_alloc_live();
    struct tci_scratch scratch;
    void *blocks[3];
    (void)state;

    tci_scratch_init(&scratch, 2048);
    for (size_t i = 0; i < TCI_LEN(blocks); i++)
        blocks[i] = tci_scratch_get(&scratch, 1000);
    for (size_t i = 0; i < TCI_LEN(blocks); i++)
        tci_scratch_put(&scratch, blocks[i]);

    assert_int_equal(scratch.kept_bytes, 2048);
    assert_int_equal(tci_alloc_live(), live + 2);
    tci_scratch_fini(&scratch);
    assert_int_equal(tci_alloc_live(), live);
}

static void scratch_that_is_not_to_be_had_is_null(void **state)
{
    struct tci_scratch scratch;
    (void)state;

    tci_scratch_init(&scratch, 2048);

    assert_null(tci_scratch_get(&scratch, SIZE_MAX));
    tci_alloc_fail_at(1, 1);
    assert_null(tci_scratch_get(&scratch, 64));
    assert_null(tci_scratch_get(&scratch, (size_t)4 << 20));
    tci_alloc_fail_at(0, 0);
    tci_scratch_fini(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_put_is_the_next_one_got),
        cmocka_unit_test(a_pool_keeps_no_more_than_its_bound),
        cmocka_unit_test(a_pool_without_memory_gives_null),
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(scratch_of_every_size_is_aligned_and_reused),
        cmocka_unit_test(scratch_from_two_megabytes_on_is_huge_page_aligned),
        cmocka_unit_test(scratch_keeps_no_more_bytes_than_its_bound),
        cmocka_unit_test(scratch_that_is_not_to_be_had_is_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
