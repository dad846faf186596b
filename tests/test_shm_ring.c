/* test_shm_ring.c - records go through a ring time after time, whatever lies in it from before. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base.h"
#include "net/shm_ring.h"
#include "support/sample.h"

enum { TIMES = 9 };

static _Alignas(TCI_SHM_LINE) uint8_t memory[TCI_SHM_RING];
static struct tci_shm_way way;
static struct tci_shm_writer writer;
static struct tci_shm_reader reader;

static int open_ring(void **state)
{
    (void)state;
    memset(memory, 0, sizeof(memory));
    memset(&way, 0, sizeof(way));
    writer = (struct tci_shm_writer){.way = &way, .ring = memory};
    reader = (struct tci_shm_reader){.way = &way, .ring = memory};
    return 0;
}

/* Each word of it is what the head of a record looks like in one time round or another. */
static uint32_t word_of(uint64_t number, size_t at)
{
    return TCI_SHM_LINE | (uint32_t)((number + at / TCI_SHM_LINE) % 3);
}

static void put(uint64_t number, size_t len)
{
    struct tci_shm_head *head = tci_shm_room(&writer, len);
    uint32_t *words;

    assert_non_null(head);
    head->kind = TCI_SHM_LEND; /* of which nothing lies in the head */
    head->tag = number;
    words = tci_shm_payload(head);
    for (size_t i = 0; i < len / sizeof(*words); i++)
        words[i] = word_of(number, i * sizeof(*words));
    tci_shm_put(&writer, head, len);
}

static void take(uint64_t number, size_t len)
{
    struct tci_shm_head head;
    const uint8_t *payload;
    const char *wrong;
    uint32_t word;

    assert_true(tci_shm_has_next(&reader));
    assert_true(tci_shm_next(&reader, &head, &payload, &wrong));
    assert_int_equal(head.tag, number);
    assert_int_equal(head.len, len);
    for (size_t at = 0; at < len; at += TCI_SHM_LINE) {
        memcpy(&word, payload + at, sizeof(word));
        assert_int_equal(word, word_of(number, at));
    }
    tci_shm_skip(&reader, &head);
}

static void expect_nothing(void)
{
    struct tci_shm_head head;
    const uint8_t *payload;
    const char *wrong;

    assert_false(tci_shm_next(&reader, &head, &payload, &wrong));
    assert_null(wrong);
    assert_false(tci_shm_has_next(&reader)); /* nor a record that means nothing */
}

/* One after the other, of a length that next_len gives. */
static void go_round(size_t (*next_len)(struct sample *sample))
{
    struct sample sample = sample_begin(1);

    for (uint64_t number = 1; writer.head < (uint64_t)TIMES * TCI_SHM_RING; number++) {
        size_t len = next_len(&sample);

        expect_nothing();
        put(number, len);
        take(number, len);
        (void)tci_shm_tell(&reader);
    }
    expect_nothing();
}

static size_t nothing(struct sample *sample)
{
    (void)sample;
    return 0;
}

static size_t one_line(struct sample *sample)
{
    (void)sample;
    return TCI_SHM_LINE;
}

static size_t few_lines(struct sample *sample)
{
    return sample_below(sample, 5) * TCI_SHM_LINE;
}

static size_t mostly_nothing(struct sample *sample)
{
    return sample_below(sample, 50) == 0 ? TCI_SHM_PAYLOAD_MAX : 0;
}

static size_t anything(struct sample *sample)
{
    return sample_below(sample, TCI_SHM_PAYLOAD_MAX / TCI_SHM_LINE + 1) * TCI_SHM_LINE;
}

static void nothing_is_read_twice_and_nothing_else_is_taken_for_a_record(void **state)
{
    size_t (*const lens[])(struct sample *) = {nothing, one_line, few_lines, mostly_nothing,
                                               anything};

    for (size_t i = 0; i < TCI_LEN(lens); i++) {
        (void)open_ring(state);
        go_round(lens[i]);
    }
}

static void a_full_ring_takes_no_more_until_its_reader_has_told(void **state)
{
    uint64_t count = 0;

    (void)state;
    while (tci_shm_room(&writer, 0) != NULL)
        put(++count, 0);
    assert_int_equal(count, TCI_SHM_LINES - 1); /* the reader looks behind the last one */
    for (uint64_t number = 1; number <= count; number++)
        take(number, 0);
    expect_nothing();
    assert_null(tci_shm_room(&writer, 0));
    (void)tci_shm_tell(&reader);
    put(++count, TCI_SHM_PAYLOAD_MAX);
    take(count, TCI_SHM_PAYLOAD_MAX);
    expect_nothing();
}

/* Of room that was given and not used. */
static void room_may_be_asked_for_again_with_another_length(void **state)
{
    (void)state;
    for (uint64_t number = 1; writer.head < 3 * (uint64_t)TCI_SHM_RING; number++) {
        size_t len = number % 4 * TCI_SHM_LINE;

        assert_non_null(tci_shm_room(&writer, TCI_SHM_PAYLOAD_MAX));
        assert_non_null(tci_shm_room(&writer, 0));
        expect_nothing();
        put(number, len);
        take(number, len);
        (void)tci_shm_tell(&reader);
    }
}

/* The first word of a head that is behind another one. */
static void expect_wrong(uint32_t word)
{
    struct tci_shm_head head;
    const uint8_t *payload;
    const char *wrong;

    (void)open_ring(NULL);
    put(1, 0);
    take(1, 0);
    memcpy(memory + TCI_SHM_LINE, &word, sizeof(word));
    assert_true(tci_shm_has_next(&reader));
    assert_false(tci_shm_next(&reader, &head, &payload, &wrong));
    assert_string_equal(wrong, "a record of an impossible length");
}

static void a_word_that_no_head_has_is_wrong(void **state)
{
    uint32_t now = tci_shm_time(0);

    (void)state;
    expect_wrong(now);
    expect_wrong(TCI_SHM_RING | now); /* one line beyond its end */
    expect_wrong(UINT32_MAX / TCI_SHM_LINE * TCI_SHM_LINE | now);
    for (uint32_t time = 0; time < TCI_SHM_LINE; time++)
        if (time != tci_shm_time(0) && time != tci_shm_time(TCI_SHM_RING))
            expect_wrong(TCI_SHM_LINE | time);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_read_twice_and_nothing_else_is_taken_for_a_record,
                               open_ring),
        cmocka_unit_test_setup(a_full_ring_takes_no_more_until_its_reader_has_told, open_ring),
        cmocka_unit_test_setup(room_may_be_asked_for_again_with_another_length, open_ring),
        cmocka_unit_test(a_word_that_no_head_has_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
