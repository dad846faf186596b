/* test_facts.c - what other ranks say of themselves is made harmless before anybody looks at it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "facts.h"

enum { RANK = 3, SIZE = 5 };

static void check_text(const char *text, size_t room)
{
    size_t len = strnlen(text, room);

    assert_true(len < room);
    for (size_t i = 0; i < len; i++)
        assert_true(text[i] >= ' ' && text[i] <= '~');
}

/* Good numbers, and texts without an end that move the cursor. */
static void texts_end_and_are_printable_wherever_they_stand(void **state)
{
    static struct facts facts;

    (void)state;
    facts_gather(&facts, RANK, SIZE, "nobody");
    memset(facts.host, '\033', sizeof facts.host);
    memset(facts.addresses, '\033', sizeof facts.addresses);
    memset(facts.links, '\033', sizeof facts.links);
    memset(facts.devices, '\033', sizeof facts.devices);
    facts.address_count = facts.link_count = facts.device_count = 1;
    facts.addresses[0].link = 0;
    facts.probe_port = 1;
    assert_true(facts_check(&facts, RANK, SIZE));
    check_text(facts.host, sizeof facts.host);
    for (int i = 0; i < ADDRESSES_MAX; i++)
        check_text(facts.addresses[i].text, ADDRESS_ROOM);
    for (int i = 0; i < LINKS_MAX; i++) {
        check_text(facts.links[i].name, LINK_ROOM);
        check_text(facts.links[i].master, LINK_ROOM);
    }
    for (int i = 0; i < DEVICES_MAX; i++) {
        check_text(facts.devices[i].name, NAME_ROOM);
        check_text(facts.devices[i].link, LINK_ROOM);
    }
}

static void numbers_beyond_their_ranges_are_refused(void **state)
{
    static struct facts good, facts;

    (void)state;
    facts_gather(&good, RANK, SIZE, "nobody");
    good.probe_port = 1;
    facts = good;
    assert_true(facts_check(&facts, RANK, SIZE));
    assert_false(facts_check(&facts, RANK, SIZE + 1));
    assert_false(facts_check(&facts, RANK - 1, SIZE));
    facts.link_count = LINKS_MAX + 1;
    assert_false(facts_check(&facts, RANK, SIZE));
    facts = good;
    facts.address_count = ADDRESSES_MAX + 1;
    assert_false(facts_check(&facts, RANK, SIZE));
    facts = good;
    facts.address_count = 1;
    facts.addresses[0].link = (uint8_t)facts.link_count;
    assert_false(facts_check(&facts, RANK, SIZE));
}

static void what_was_tried_names_places_that_are_there(void **state)
{
    struct tried tried[2] = {{.best = -1, .is_large = 1, .has_stuck = 1},
                             {.best = ADDRESSES_MAX, .is_large = 1, .has_stuck = 1}};
    struct worked worked;

    (void)state;
    tried[0].attempts[1].via = LINKS_MAX;
    tried[1].attempts[2].via = -2;
    facts_check_tried(tried, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tried[i].best, -1);
        assert_int_equal(tried[i].is_large + tried[i].has_stuck, 0);
    }
    assert_int_equal(tried[0].attempts[1].via, -1);
    assert_int_equal(tried[1].attempts[2].via, -1);
    memset(&worked, '\033', sizeof worked);
    facts_check_worked(&worked, 1);
    check_text(worked.error, sizeof worked.error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_end_and_are_printable_wherever_they_stand),
        cmocka_unit_test(numbers_beyond_their_ranges_are_refused),
        cmocka_unit_test(what_was_tried_names_places_that_are_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
