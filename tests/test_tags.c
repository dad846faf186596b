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

/* The memory of uses is full of failed ones, which are kept for good. */
static void from_the_first_use_that_is_forgotten_on_none_is_counted(void **state)
{
    struct tci_use failed = {.count = 1, .dead = 1};
    struct tci_tags tags;

    (void)state;
    tci_tags_init(&tags);
    for (uint64_t tag = 0; tci_uses_has_room(&tags.past); tag += 2)
        assert_true(tci_uses_keep(&tags.past, UINT64_MAX, tag, failed));
    use_tags(&tags, 0, TCI_TAGS_IDLE_MAX + 1, 1);
    use_tags(&tags, TCI_TAGS_IDLE_MAX + 1, TCI_TAGS_IDLE_MAX + 2, 0);
    use_tags(&tags, 0, 1, 0);
    use_tags(&tags, TCI_TAGS_IDLE_MAX, TCI_TAGS_IDLE_MAX + 1, 2); /* that is still known */
    tci_tags_fini(&tags);
}

static struct tci_tag *meet(struct tci_tags *tags, uint64_t tag)
{
    struct tci_tag_name name = {tag, TCI_ALL_PEERS, TCI_SPACE_TAGGED};
    struct tci_tag *entry = tci_tags_get(tags, &name);

    assert_non_null(entry);
    return entry;
}

/* Others have called two, and ended one, that this rank is still to call. */
static void what_others_said_of_a_use_to_come_outlasts_other_tags(void **state)
{
    enum { CALLED = MANY, UNLIKE, ENDED, NEITHER };
    struct tci_error error = {0};
    struct tci_death *death;
    struct tci_tags tags;

    (void)state;
    tci_tags_init(&tags);
    meet(&tags, CALLED)->foreign[0] = (struct tci_foreign){.peer = 2, .use = 1};
    meet(&tags, UNLIKE)->foreign[1] = (struct tci_foreign){.peer = 3, .use = 1};
    tci_error_set(&error, TC_ERR_CANCELLED, 4, ENDED, "test", "ended");
    tci_tag_kill(meet(&tags, ENDED), 1, &error);
    (void)meet(&tags, NEITHER);
    use_tags(&tags, 0, MANY, 1);
    assert_null(tci_tags_find(&tags, &(struct tci_tag_name){NEITHER, TCI_ALL_PEERS, 0}));
    assert_int_equal(meet(&tags, CALLED)->foreign[0].peer, 2);
    assert_int_equal(meet(&tags, UNLIKE)->foreign[1].peer, 3);
    death = tci_tag_take_death(meet(&tags, ENDED), 1);
    assert_non_null(death);
    assert_int_equal(death->error.pub.rank, 4);
    tci_free(death);
    tci_tags_fini(&tags);
}

static void fail_calls(struct tci_tags *tags, uint64_t first, uint64_t end)
{
    static int op; /* only its address counts */

    for (uint64_t number = first; number < end; number++) {
        struct tci_tag_name name = {number, TCI_ALL_PEERS, TCI_SPACE_ORDERED};
        struct tci_tag *entry = tci_tags_take(tags, &name);

        assert_non_null(entry);
        tci_tag_bury(entry, tci_tags_enter(entry, (struct tci_op *)(void *)&op));
        tci_tags_end(tags, entry, true);
    }
}

/* Late messages of the newest ones are dropped; those of the oldest have come long since. */
static void calls_of_sequences_that_fail_take_no_memory_without_end(void **state)
{
    struct tci_tag_name name = {3 * TCI_TAGS_FAILED_MAX - 1, TCI_ALL_PEERS, TCI_SPACE_ORDERED};
    struct tci_tags tags;
    uint64_t live = tci_alloc_live(), held;

    (void)state;
    tci_tags_init(&tags);
    fail_calls(&tags, 0, TCI_TAGS_FAILED_MAX + 16);
    held = tci_alloc_live();
    fail_calls(&tags, TCI_TAGS_FAILED_MAX + 16, 3 * TCI_TAGS_FAILED_MAX);
    assert_int_equal(tci_alloc_live(), held);
    for (int k = 0; k < TCI_TAGS_FAILED_MAX; k++, name.tag--) {
        assert_non_null(tci_tags_find(&tags, &name));
        assert_true(tci_tag_is_dead(tci_tags_find(&tags, &name), 1));
    }
    assert_null(tci_tags_find(&tags, &name));
    tci_tags_fini(&tags);
    assert_int_equal(tci_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_that_count_up_take_no_memory_anew),
        cmocka_unit_test(from_the_first_use_that_is_forgotten_on_none_is_counted),
        cmocka_unit_test(what_others_said_of_a_use_to_come_outlasts_other_tags),
        cmocka_unit_test(calls_of_sequences_are_counted_when_tags_are_not),
        cmocka_unit_test(calls_of_sequences_that_fail_take_no_memory_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
