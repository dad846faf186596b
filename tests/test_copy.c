/* test_copy.c - copies for another processor, and of parts of what is larger than the caches. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base.h"
#include "core/copy.h"

enum { ROOM = 64 * 1024 + 256, EDGE = 100 };
#define LARGE ((size_t)1 << 30)

static uint8_t from[ROOM], to[ROOM];

static void fill(void)
{
    for (size_t i = 0; i < ROOM; i++) {
        from[i] = (uint8_t)(i * 37 + i / 251);
        to[i] = 0xee;
    }
}

/* Exactly `len` bytes are there. */
static void assert_copied(size_t at, size_t len)
{
    assert_memory_equal(to + at, from + EDGE, len);
    for (size_t i = 0; i < ROOM; i++)
        if (i < at || i >= at + len)
            assert_int_equal(to[i], 0xee);
}

static const size_t lens[] = {0, 1, 63, 64, 4095, 4096, 4097, 64 * 1024, 64 * 1024 + 17};

static void every_length_and_place_is_copied_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(lens); i++)
        for (size_t at = 0; at < 66; at += 13) {
            fill();
            tci_copy_away(to + at, from + EDGE, lens[i]);
            assert_copied(at, lens[i]);
            fill();
            tci_copy_over(to + at, from + EDGE, lens[i]);
            assert_copied(at, lens[i]);
            fill();
            tci_copy_part(to + at, from + EDGE, lens[i], lens[i]);
            assert_copied(at, lens[i]);
            fill();
            tci_copy_part(to + at, from + EDGE, lens[i], LARGE);
            assert_copied(at, lens[i]);
        }
}

static void a_part_may_overlap_its_place(void **state)
{
    static const size_t wholes[] = {0, LARGE};
    static uint8_t expected[ROOM];

    (void)state;
    for (size_t w = 0; w < TCI_LEN(wholes); w++)
        for (size_t shift = 1; shift <= EDGE; shift += 33) {
            fill();
            memcpy(expected, from, ROOM);
            memmove(expected + shift, expected, ROOM - EDGE);
            tci_copy_part(from + shift, from, ROOM - EDGE, wholes[w]);
            assert_memory_equal(from, expected, ROOM);
            memmove(expected, expected + shift, ROOM - EDGE);
            tci_copy_part(from, from + shift, ROOM - EDGE, wholes[w]);
            assert_memory_equal(from, expected, ROOM);
        }
}

/* Up to where they end to end: past the caches each line is written when later ones are still to be
 * read. */
static void a_part_may_overlap_its_place_by_little(void **state)
{
    static uint8_t expected[ROOM];
    enum { LEN = 8192 };

    (void)state;
    for (size_t over = 0; over <= 130; over++) {
        fill();
        memcpy(expected, from, ROOM);
        memmove(expected + LEN - over, expected, LEN);
        tci_copy_part(from + LEN - over, from, LEN, LARGE);
        assert_memory_equal(from, expected, ROOM);
        fill();
        memcpy(expected, from, ROOM);
        memmove(expected, expected + LEN - over, LEN);
        tci_copy_part(from, from + LEN - over, LEN, LARGE);
        assert_memory_equal(from, expected, ROOM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_and_place_is_copied_whole),
        cmocka_unit_test(a_part_may_overlap_its_place),
        cmocka_unit_test(a_part_may_overlap_its_place_by_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
