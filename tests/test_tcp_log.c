/* test_tcp_log.c - what was sent over a link is sent again from where its peer says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "net/tcp_log.h"

enum { PARTS = 4, LEN = 100 };

static void add_and_send(struct tci_log *log, int count)
{
    for (int i = 0; i < count; i++) {
        uint8_t *at = tci_log_room(log, LEN, 0);

        assert_non_null(at);
        for (int k = 0; k < LEN; k++)
            at[k] = (uint8_t)(i * LEN + k);
        tci_log_add(log, LEN);
    }
    tci_log_sent(log, (size_t)count * LEN);
}

/* All from a position on is to be sent, and nothing else. */
static void goes_on_from(const struct tci_log *log, uint64_t position)
{
    struct iovec parts[PARTS];
    int count = tci_log_parts(log, parts, PARTS, SIZE_MAX);

    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < parts[i].iov_len; k++)
            assert_int_equal(((const uint8_t *)parts[i].iov_base)[k], (uint8_t)position++);
    assert_int_equal(position, log->end);
}

static void what_the_peer_has_not_got_is_sent_again(void **state)
{
    struct tci_log log = {.ring = NULL};

    (void)state;
    add_and_send(&log, 3);
    assert_true(tci_log_rewind(&log, 120));
    goes_on_from(&log, 120);
    tci_log_sent(&log, 180);
    goes_on_from(&log, 300);
    tci_log_fini(&log);
}

/* A greeting that was on its way for long says less than the one after it. */
static void a_later_word_may_say_more_than_an_older_one(void **state)
{
    struct tci_log log = {.ring = NULL};

    (void)state;
    add_and_send(&log, 3);
    assert_true(tci_log_rewind(&log, 50));
    assert_true(tci_log_rewind(&log, 250));
    goes_on_from(&log, 250);
    assert_false(tci_log_rewind(&log, 301)); /* never sent */
    assert_false(tci_log_rewind(&log, 249)); /* acknowledged */
    goes_on_from(&log, 250);
    assert_true(tci_log_rewind(&log, 300));
    goes_on_from(&log, 300);
    assert_false(tci_log_ack(&log, 301)); /* never sent */
    assert_true(tci_log_ack(&log, 300));
    tci_log_fini(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_peer_has_not_got_is_sent_again),
        cmocka_unit_test(a_later_word_may_say_more_than_an_older_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
