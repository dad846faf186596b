/* test_tags.c - the table of tags by itself: numbers that count up take no more memory. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/tags.h"

static void use_tags(struct tci_tags *tags, uint64_t first, uint64_t end, uint32_t expected)
{
    static int op; /* only its address counts */

    for (uint64_t tag = first; tag < end; tag++) {
        struct tci_tag_name name = {tag, TCI_ALL_PEERS, TCI_SPACE_TAGGED};
        struct tci_call call = {.count = 1};
        struct tci_tag *entry = NULL;

        assert_int_equal(tci_tags_reserve(tags, &name, &entry), TC_OK);
        assert_int_equal(tci_tags_enter(entry, (struct tci_op *)(void *)&op), expected);
        tci_tags_note_done(tags, entry, &call, expected);
        tci_tags_end(tags, entry, true);
    }
}

enum { MANY = 4 * TCI_TAGS_IDLE_NEAR };

static void tags_that_count_up_take_no_memory_anew(void **state)
{
    struct tci_tags tags;
    uint64_t live = tci_alloc_live(), total, held;

    (void)state;
    tci_tags_init(&tags);
    use_tags(&tags, 0, TCI_TAGS_IDLE_NEAR + 16, 1);
    total = tci_alloc_total();
    held = tci_alloc_live();
    use_tags(&tags, TCI_TAGS_IDLE_NEAR + 16, MANY, 1);
    use_tags(&tags, 0, MANY, 2);
    use_tags(&tags, 0, MANY, 3);
    assert_int_equal(tci_alloc_total(), total);
    assert_int_equal(tci_alloc_live(), held);
    tci_tags_fini(&tags);
    assert_int_equal(tci_alloc_live(), live);
}

/* Its number comes but once, so there is nothing to lose count of: late messages of one that has
 * failed are told from all others. */
static void calls_of_sequences_are_counted_when_tags_are_not(void **state)
{
    static int op; /* only its address counts */
    struct tci_tag_name name = {7, TCI_ALL_PEERS, TCI_SPACE_ORDERED};
    struct tci_tags tags;
    struct tci_tag *entry;

    (void)state;
    tci_tags_init(&tags);
    tags.has_forgotten = true;
    use_tags(&tags, 0, 1, 0);
    entry = tci_tags_take(&tags, &name);
    assert_non_null(entry);
    assert_int_equal(tci_tags_enter(entry, (struct tci_op *)(void *)&op), 1);
    tci_tag_bury(entry, 1);
    tci_tags_end(&tags, entry, true);
    entry = tci_tags_find(&tags, &name);
    assert_non_null(entry);
    assert_true(tci_tag_is_dead(entry, 1));
    tci_tags_fini(&tags);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_that_count_up_take_no_memory_anew),
        cmocka_unit_test(calls_of_sequences_are_counted_when_tags_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
