/* test_merge.c - sparse contributions merged in rank order; damaged ones are noticed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/sparse.h"
#include "support/reduce_oracle.h"

enum { COUNT = 10000, K_MAX = 64 };

static struct tci_merge merge;
static uint8_t parts[3][4096];

/* A contribution as it travels, whatever is in it. */
static void put(uint32_t rank, const uint32_t *indices, const float *values, size_t k)
{
    struct tci_sparse_head head = {.k = k, .count = COUNT};

    /* At an odd address, as parts of any length have. */
    memcpy(parts[rank] + 1, &head, sizeof(head));
    memcpy(parts[rank] + 1 + sizeof(head), indices, k * sizeof(*indices));
    memcpy(parts[rank] + 1 + sizeof(head) + k * sizeof(*indices), values, k * sizeof(*values));
    tci_merge_add(&merge, rank, parts[rank] + 1);
}

static int open_merge(void **state)
{
    (void)state;
    return tci_merge_init(&merge, 3, sizeof(uint32_t), COUNT) ? 0 : -1;
}

static int close_merge(void **state)
{
    (void)state;
    tci_merge_fini(&merge);
    return 0;
}

static void tiles_are_added_in_rank_order(void **state)
{
    static const float values[] = {1e30f, 1, -1e30f, 5};
    uint32_t bad = 9;

    (void)state;
    put(0, (const uint32_t[]){2, 4999, 9999}, values, 3);
    put(1, (const uint32_t[]){2, 5000, 9999}, values + 1, 3);
    put(2, (const uint32_t[]){2}, values + 2, 1);

    assert_int_equal(tci_merge_tile(&merge, &bad), TCI_MERGED_TILE);
    assert_int_equal(merge.begin, 0);
    assert_true(tci_merge_value(&merge, 2) == 0); /* 1e30 + 1 - 1e30, in f64 */
    assert_true(tci_merge_value(&merge, 3) == 0 && !merge.is_there[3]);
    assert_int_equal(tci_merge_tile(&merge, &bad), TCI_MERGED_TILE);
    assert_int_equal(merge.begin, 2 * TCI_TILE);
    assert_true(tci_merge_value(&merge, 4999 - 2 * TCI_TILE) == 1);
    assert_true(tci_merge_value(&merge, 5000 - 2 * TCI_TILE) == -1e30f);
    assert_int_equal(tci_merge_tile(&merge, &bad), TCI_MERGED_TILE);
    assert_int_equal(merge.len, COUNT - 4 * TCI_TILE);
    assert_true(tci_merge_value(&merge, 9999 - 4 * TCI_TILE) == -1e30f);
    assert_int_equal(tci_merge_tile(&merge, &bad), TCI_MERGED_ALL);
    assert_int_equal(tci_merge_tile(&merge, &bad), TCI_MERGED_ALL);
    assert_int_equal(bad, 9);
}

static void damaged_indices_are_noticed(void **state)
{
    static const uint32_t cases[][3] = {{COUNT, COUNT + 1, COUNT + 2},
                                        {1, 2, COUNT},
                                        {1, 2, UINT32_MAX},
                                        {5, 5, 6},
                                        {5, 4, 6},
                                        {7000, 3, 8000},
                                        {7000, 8000, 7999}};
    const float values[3] = {1, 2, 3};

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        enum tci_merged merged = TCI_MERGED_TILE;
        uint32_t bad = 9;

        put(0, (const uint32_t[]){1, 2, 9000}, values, 3);
        put(1, cases[c], values, 3);
        put(2, (const uint32_t[]){0}, values, 1);
        for (int tiles = 0; merged == TCI_MERGED_TILE; tiles++) {
            assert_true(tiles < 10);
            merged = tci_merge_tile(&merge, &bad);
        }
        assert_int_equal(merged, TCI_MERGED_BAD);
        assert_int_equal(bad, 1);
    }
}

/* Random bytes never reach beyond the tile, and end. */
static void any_indices_end(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        enum tci_merged merged = TCI_MERGED_TILE;
        uint32_t bad;

        for (uint32_t r = 0; r < 3; r++) {
            uint32_t indices[K_MAX];
            float values[K_MAX];
            size_t k = oracle_random(&random) % K_MAX;

            for (size_t i = 0; i < k; i++) {
                indices[i] = (uint32_t)(oracle_random(&random) % (COUNT * 2));
                values[i] = 1;
            }
            if (round % 2 == 0) /* nearly right */
                for (size_t i = 0; i < k; i++)
                    indices[i] = (uint32_t)(i * 150 + indices[i] % 151);
            put(r, indices, values, k);
        }
        for (int tiles = 0; merged == TCI_MERGED_TILE; tiles++) {
            assert_true(tiles <= COUNT / TCI_TILE + 1);
            merged = tci_merge_tile(&merge, &bad);
        }
    }
}

static void wrong_indices_are_not_packed(void **state)
{
    uint32_t indices[] = {1, 2, COUNT};
    uint64_t wide[] = {0, UINT64_C(1) << 40};
    float values[3] = {0};
    struct tci_sparse_head head = {.k = 3, .count = COUNT};
    tc_sparse from = {indices, values, 3, 0, TC_DTYPE_U32};
    size_t bad = 99;

    (void)state;
    assert_false(tci_sparse_pack(&head, &from, parts[0], &bad));
    assert_int_equal(bad, 2);
    indices[1] = 1;
    assert_false(tci_sparse_pack(&head, &from, parts[0], &bad));
    assert_int_equal(bad, 1);
    from = (tc_sparse){wide, values, 2, 0, TC_DTYPE_U64};
    assert_false(tci_sparse_pack(&head, &from, parts[0], &bad));
    assert_int_equal(bad, 1);
    wide[1] = COUNT - 1;
    assert_true(tci_sparse_pack(&head, &from, parts[0], &bad));
}

static void sizes_that_overflow_are_refused(void **state)
{
    size_t bytes = 7;

    (void)state;
    assert_false(tci_sparse_bytes(SIZE_MAX / 4, 8, &bytes));
    assert_false(tci_sparse_bytes(PTRDIFF_MAX / 12, 8, &bytes));
    assert_int_equal(bytes, 7);
    assert_true(tci_sparse_bytes(0, 8, &bytes));
    assert_int_equal(bytes, sizeof(struct tci_sparse_head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_are_added_in_rank_order),
        cmocka_unit_test(damaged_indices_are_noticed),
        cmocka_unit_test(any_indices_end),
        cmocka_unit_test(wrong_indices_are_not_packed),
        cmocka_unit_test(sizes_that_overflow_are_refused),
    };

    return cmocka_run_group_tests(tests, open_merge, close_merge);
}
