/* test_uses.c - runs of tags say of each what was kept, or that it is unknown. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/uses.h"
#include "sim/exec_sim.h"

enum { MANY = 1 << 17 };

static const struct tci_use once = {.count = 1}, twice = {.count = 2}, failed = {1, 1};

static void expect_order(const struct tci_uses *uses)
{
    assert_true(uses->count <= TCI_USES_RUNS);
    for (uint32_t i = 0; i < uses->count; i++)
        assert_true(uses->runs[i].first <= uses->runs[i].last);
    for (uint32_t i = 1; i < uses->count; i++) {
        const struct tci_use_run *a = &uses->runs[i - 1], *b = &uses->runs[i];
        bool is_alike = a->use.count == b->use.count && a->use.dead == b->use.dead;

        if (a->sequence == b->sequence)
            assert_true(a->last < b->first && !(is_alike && a->last + 1 == b->first));
        else
            assert_true(a->sequence < b->sequence);
    }
}

/* Whether it is known; what is known is right. */
static bool is_known(struct tci_uses *uses, uint64_t tag, struct tci_use expected)
{
    struct tci_use use = {99, 99};

    assert_true(tci_uses_find(uses, 0, tag, &use));
    assert_int_equal(use.dead, expected.dead);
    assert_true(use.count == expected.count || use.count == 0);
    return use.count != 0;
}

static void neighbours_are_one_run(void **state)
{
    struct tci_uses uses;
    struct tci_use use;

    (void)state;
    tci_uses_init(&uses);
    assert_false(tci_uses_find(&uses, 0, 7, &use));
    for (uint64_t tag = 0; tag < MANY; tag++)
        assert_true(tci_uses_keep(&uses, 0, tag ^ 37, once)); /* not quite in order */
    assert_int_equal(uses.count, 1);
    for (uint64_t tag = 0; tag < MANY; tag++)
        assert_true(tci_uses_keep(&uses, 0, tag, twice));
    assert_int_equal(uses.count, 1);
    assert_true(is_known(&uses, MANY - 1, twice));
    assert_true(tci_uses_keep(&uses, 0, UINT64_MAX, once));
    assert_true(tci_uses_keep(&uses, 1, 0, once));
    assert_int_equal(uses.count, 3);
    assert_false(tci_uses_find(&uses, 0, UINT64_MAX - 1, &use));
    assert_false(tci_uses_find(&uses, 1, UINT64_MAX, &use));
    tci_uses_fini(&uses);
}

enum { SEQUENCES = 3, TAGS = 120 };

static void it_says_what_was_kept(void **state)
{
    struct tci_use model[SEQUENCES][TAGS] = {{{0, 0}}}, use;
    uint64_t random = 20261130;
    struct tci_uses uses;

    (void)state;
    tci_uses_init(&uses);
    for (int step = 0; step < 40000; step++) {
        uint64_t sequence = sim_random(&random) % SEQUENCES, tag = sim_random(&random) % TAGS;

        use =
            (struct tci_use){1 + (uint32_t)(sim_random(&random) % 2), sim_random(&random) % 8 == 7};
        model[sequence][tag] = use;
        assert_true(tci_uses_keep(&uses, sequence << 40, tag + UINT64_MAX - TAGS + 1, use));
        if (step % 100 != 0)
            continue;
        expect_order(&uses);
        for (uint64_t s = 0; s < SEQUENCES; s++)
            for (uint64_t t = 0; t < TAGS; t++) {
                use = (struct tci_use){0, 0};
                assert_int_equal(tci_uses_find(&uses, s << 40, t + UINT64_MAX - TAGS + 1, &use),
                                 model[s][t].count != 0);
                assert_int_equal(use.count, model[s][t].count);
                assert_int_equal(use.dead, model[s][t].dead);
            }
    }
    tci_uses_fini(&uses);
}

/* Of 128 tags one fails. */
static void the_newest_of_a_stride_are_known(void **state)
{
    struct tci_uses uses;

    (void)state;
    tci_uses_init(&uses);
    for (uint64_t i = 0; i < MANY; i++)
        assert_true(tci_uses_keep(&uses, 0, i << 32, i % 128 == 0 ? failed : once));
    expect_order(&uses);
    for (uint64_t i = 0; i < MANY; i++) {
        bool is_told = is_known(&uses, i << 32, i % 128 == 0 ? failed : once);

        assert_true(is_told || (i % 128 != 0 && i < MANY - 300));
    }
    tci_uses_fini(&uses);
}

/* The failed ones take most of the room, so that packing is never worth much. */
static void beside_many_that_failed_there_is_room_for_a_stride(void **state)
{
    enum { FAILED = TCI_USES_RUNS / 6 * 5, AT = 1 << 20 };
    struct tci_uses uses;

    (void)state;
    tci_uses_init(&uses);
    for (uint64_t i = 0; i < FAILED; i++)
        assert_true(tci_uses_keep(&uses, 0, 2 * i, failed));
    for (uint64_t i = 0; i < MANY; i++)
        assert_true(tci_uses_keep(&uses, 0, AT + 2 * i, once));
    expect_order(&uses);
    for (uint64_t i = 0; i < FAILED; i++)
        assert_true(is_known(&uses, 2 * i, failed));
    for (uint64_t i = 0; i < 100; i++)
        assert_true(is_known(&uses, AT + 2 * (MANY - 1 - i), once));
    tci_uses_fini(&uses);
}

static void of_any_tags_nothing_wrong_is_said(void **state)
{
    uint64_t random = 7;
    struct tci_uses uses;
    uint64_t known = 0;

    (void)state;
    tci_uses_init(&uses);
    for (int i = 0; i < MANY; i++)
        assert_true(tci_uses_keep(&uses, 0, sim_random(&random), i % 2 == 0 ? once : twice));
    expect_order(&uses);
    random = 7;
    for (int i = 0; i < MANY; i++)
        known += is_known(&uses, sim_random(&random), i % 2 == 0 ? once : twice);
    assert_true(known <= TCI_USES_RUNS);
    tci_uses_fini(&uses);
}

static void failed_ones_beyond_the_room_are_refused(void **state)
{
    struct tci_uses uses;
    uint64_t kept = 0;

    (void)state;
    tci_uses_init(&uses);
    while (kept < MANY && tci_uses_keep(&uses, 0, 2 * kept, failed))
        kept++;
    assert_true(kept > TCI_USES_RUNS / 2 && kept <= TCI_USES_RUNS);
    assert_false(tci_uses_keep(&uses, 0, 2 * MANY, once));
    assert_true(tci_uses_keep(&uses, 0, 2 * kept - 1, failed)); /* a neighbour needs none */
    for (uint64_t i = 0; i < kept; i++)
        assert_true(is_known(&uses, 2 * i, failed));
    expect_order(&uses);
    tci_uses_fini(&uses);
}

/* One that was used anew, and finds no room, may not be said to have been used once. */
static void without_room_a_run_becomes_unknown(void **state)
{
    struct tci_uses uses;
    struct tci_use use;
    uint64_t tag = 100;

    (void)state;
    tci_uses_init(&uses);
    for (uint64_t i = 0; i < 100; i++)
        assert_true(tci_uses_keep(&uses, 0, i, once));
    while (tci_uses_keep(&uses, 0, tag + 1, failed))
        tag += 2;
    assert_true(tci_uses_keep(&uses, 0, 50, twice));
    assert_true(tci_uses_find(&uses, 0, 50, &use));
    assert_true(use.count == 0 && use.dead == 0);
    assert_false(tci_uses_keep(&uses, 0, 50, failed));
    tci_uses_fini(&uses);
}

static void without_memory_nothing_is_kept(void **state)
{
    struct tci_uses uses;
    struct tci_use use;

    (void)state;
    tci_uses_init(&uses);
    tci_alloc_fail_at(1, 0);
    assert_false(tci_uses_keep(&uses, 0, 1, once));
    tci_alloc_fail_at(0, 0);
    assert_false(tci_uses_find(&uses, 0, 1, &use));
    assert_true(tci_uses_keep(&uses, 0, 1, once));
    assert_true(is_known(&uses, 1, once));
    tci_uses_fini(&uses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_one_run),
        cmocka_unit_test(it_says_what_was_kept),
        cmocka_unit_test(the_newest_of_a_stride_are_known),
        cmocka_unit_test(beside_many_that_failed_there_is_room_for_a_stride),
        cmocka_unit_test(of_any_tags_nothing_wrong_is_said),
        cmocka_unit_test(failed_ones_beyond_the_room_are_refused),
        cmocka_unit_test(without_room_a_run_becomes_unknown),
        cmocka_unit_test(without_memory_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
