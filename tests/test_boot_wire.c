/* test_boot_wire.c - messages of the rendezvous: what is written is read back, the rest refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "net/boot_text.h"
#include "net/boot_wire.h"

enum { SIZE = 3, TABLE_LEN = TCI_BOOT_TABLE_FIXED + SIZE * TCI_BOOT_TABLE_EACH };

static struct tci_boot_join some_join(void)
{
    struct tci_boot_join join = {
        .size = 8, .rank = 5, .host = 0x0123456789abcdefu, .cpus = {{[0] = 5, [15] = 1ull << 63}}};

    assert_true(tci_addr_from_text("10.0.0.7", 4100, &join.addr));
    return join;
}

/* A table in memory of the caller's. */
struct room {
    int fds[SIZE];
    struct tci_addr addrs[SIZE];
    uint64_t hosts[SIZE], labels[SIZE];
    struct tci_boot_result result;
};

static void init_room(struct room *room)
{
    memset(room, 0, sizeof *room);
    room->result.size = SIZE;
    room->result.fds = room->fds;
    room->result.addrs = room->addrs;
    room->result.hosts = room->hosts;
    room->result.labels = room->labels;
}

static void fill_room(struct room *room)
{
    static const char *const hosts[SIZE] = {"10.0.0.7", "fe80::1%2", "2001:db8::7"};

    init_room(room);
    room->result.agreed = (struct tci_agreed){.segment_bytes = 1 << 20,
                                              .eager_bytes = 4096,
                                              .numerics = 2,
                                              .check = TC_CHECK_FULL,
                                              .algorithm = "ring"};
    for (int k = 0; k < TCI_GROUP_ID; k++)
        room->result.group_id[k] = (uint8_t)(k * 17);
    for (int rank = 0; rank < SIZE; rank++) {
        assert_true(tci_addr_from_text(hosts[rank], (uint16_t)(4100 + rank), &room->addrs[rank]));
        room->hosts[rank] = 7u << rank;
        room->labels[rank] = 9u << 4 * rank;
    }
}

static void heads_are_read_back(void **state)
{
    static const struct {
        enum tci_boot_type type;
        size_t len;
    } rows[] = {
        {TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN},
        {TCI_BOOT_WELCOME, 0},
        {TCI_BOOT_TABLE, TABLE_LEN},
        {TCI_BOOT_READY, 0},
        {TCI_BOOT_GO, 0},
        {TCI_BOOT_REFUSE, TCI_BOOT_REFUSE_FIXED},
        {TCI_BOOT_REFUSE, TCI_BOOT_REFUSE_MAX},
    };
    uint8_t bytes[TCI_BOOT_HEAD];
    struct tci_boot_head head;

    (void)state;
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        tci_boot_head_encode(rows[k].type, rows[k].len, bytes);
        for (size_t len = 0; len <= TCI_BOOT_HEAD; len++)
            assert_true(tci_boot_head_begins(bytes, len));
        assert_int_equal(tci_boot_head_decode(bytes, &head), TC_OK);
        assert_int_equal(head.version, TCI_BOOT_VERSION);
        assert_int_equal(head.type, rows[k].type);
        assert_int_equal(head.len, rows[k].len);
    }
}

static void lengths_that_a_type_cannot_have_are_refused(void **state)
{
    static const struct {
        unsigned type;
        size_t len;
    } rows[] = {
        {TCI_BOOT_JOIN, 0},
        {TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN + 1},
        {TCI_BOOT_WELCOME, 1},
        {TCI_BOOT_READY, UINT32_MAX},
        {TCI_BOOT_GO, 16},
        {TCI_BOOT_TABLE, TCI_BOOT_TABLE_FIXED + TCI_BOOT_TABLE_EACH},
        {TCI_BOOT_TABLE, TABLE_LEN + 1},
        {TCI_BOOT_TABLE, UINT32_MAX},
        {TCI_BOOT_TABLE,
         TCI_BOOT_TABLE_FIXED + (size_t)(TCI_BOOT_SIZE_MAX + 1) * TCI_BOOT_TABLE_EACH},
        {TCI_BOOT_REFUSE, TCI_BOOT_REFUSE_FIXED - 1},
        {TCI_BOOT_REFUSE, TCI_BOOT_REFUSE_MAX + 1},
        {0, 0},
        {7, 0},
        {255, 0},
    };
    uint8_t bytes[TCI_BOOT_HEAD];
    struct tci_boot_head head;

    (void)state;
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        tci_boot_head_encode((enum tci_boot_type)rows[k].type, rows[k].len, bytes);
        assert_int_equal(tci_boot_head_decode(bytes, &head), TC_ERR_TRANSPORT);
    }
}

/* Whatever one flipped bit makes of a head: refused, or exactly what it then says. */
static void flipped_heads_are_refused_or_mean_something_else(void **state)
{
    uint8_t bytes[TCI_BOOT_HEAD], again[TCI_BOOT_HEAD];
    struct tci_boot_head head;

    (void)state;
    for (unsigned type = TCI_BOOT_JOIN; type <= TCI_BOOT_REFUSE; type++) {
        size_t len = type == TCI_BOOT_JOIN     ? TCI_BOOT_JOIN_LEN
                     : type == TCI_BOOT_TABLE  ? TABLE_LEN
                     : type == TCI_BOOT_REFUSE ? 100
                                               : 0;

        for (size_t bit = 0; bit < 8 * (size_t)TCI_BOOT_HEAD; bit++) {
            tci_boot_head_encode((enum tci_boot_type)type, len, bytes);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (bit < 64)
                assert_false(tci_boot_head_begins(bytes, TCI_BOOT_HEAD));
            if (tci_boot_head_decode(bytes, &head) != TC_OK)
                continue;
            assert_true(bit >= 64);
            tci_boot_head_encode((enum tci_boot_type)head.type, head.len, again);
            if (head.version == TCI_BOOT_VERSION)
                assert_memory_equal(again, bytes, TCI_BOOT_HEAD);
            else
                assert_true(head.len <= TCI_BOOT_REFUSE_MAX);
        }
    }
}

static void strangers_are_known_by_their_first_byte(void **state)
{
    (void)state;
    assert_false(tci_boot_head_begins((const uint8_t *)"GET / HTTP/1.1\r\n", 1));
    assert_false(tci_boot_head_begins((const uint8_t *)"SSH-2.0-x\r\n", 4));
    assert_false(tci_boot_head_begins((const uint8_t *)"tcdist\n", 7));
    assert_false(tci_boot_head_begins((const uint8_t *)"\x16\x03\x01", 3));
}

static void a_join_is_read_back_or_refused(void **state)
{
    struct tci_boot_join join = some_join(), back;
    uint8_t bytes[TCI_BOOT_JOIN_LEN], again[TCI_BOOT_JOIN_LEN];

    (void)state;
    tci_boot_join_encode(&join, bytes);
    assert_int_equal(tci_boot_join_decode(bytes, &back), TC_OK);
    assert_int_equal(back.size, 8);
    assert_int_equal(back.rank, 5);
    assert_int_equal(back.host, join.host);
    assert_memory_equal(&back.cpus, &join.cpus, sizeof join.cpus);
    assert_true(tci_addr_is_equal(&back.addr, &join.addr));

    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        tci_boot_join_encode(&join, bytes);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (tci_boot_join_decode(bytes, &back) != TC_OK)
            continue;
        tci_boot_join_encode(&back, again);
        assert_memory_equal(again, bytes, sizeof bytes);
    }
    tci_addr_set_port(&join.addr, 0);
    tci_boot_join_encode(&join, bytes);
    assert_int_equal(tci_boot_join_decode(bytes, &back), TC_ERR_TRANSPORT);
}

static void a_table_is_read_back_or_refused(void **state)
{
    struct room from, to;
    uint8_t bytes[TABLE_LEN], again[TABLE_LEN];

    (void)state;
    fill_room(&from);
    init_room(&to);
    tci_boot_table_encode(&from.result, bytes);
    assert_int_equal(tci_boot_table_decode(bytes, &to.result), TC_OK);
    assert_memory_equal(to.result.group_id, from.result.group_id, TCI_GROUP_ID);
    assert_int_equal(to.result.agreed.segment_bytes, 1 << 20);
    assert_int_equal(to.result.agreed.eager_bytes, 4096);
    assert_int_equal(to.result.agreed.numerics, 2);
    assert_int_equal(to.result.agreed.check, TC_CHECK_FULL);
    assert_string_equal(to.result.agreed.algorithm, "ring");
    for (int rank = 0; rank < SIZE; rank++) {
        assert_true(tci_addr_is_equal(&to.addrs[rank], &from.addrs[rank]));
        assert_int_equal(to.hosts[rank], from.hosts[rank]);
        assert_int_equal(to.labels[rank], from.labels[rank]);
    }

    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        init_room(&to);
        tci_boot_table_encode(&from.result, bytes);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (tci_boot_table_decode(bytes, &to.result) != TC_OK)
            continue;
        tci_boot_table_encode(&to.result, again);
        assert_memory_equal(again, bytes, sizeof bytes);
    }
}

static void a_row_is_read_back_or_refused(void **state)
{
    const struct tci_boot_row from = {.size = 9,
                                      .rank = 4,
                                      .host = 0x1122334455667788,
                                      .group_id = {1, 2, 3},
                                      .agreed = {.segment_bytes = 1 << 20,
                                                 .eager_bytes = 77,
                                                 .numerics = 2,
                                                 .tune = 13,
                                                 .cores = 1027,
                                                 .algorithm = "ring"},
                                      .is_ring = true,
                                      .cpus = {{[1] = 6, [15] = 7}}};
    uint8_t bytes[TCI_BOOT_ROW_LEN], again[TCI_BOOT_ROW_LEN];
    struct tci_boot_row to;

    (void)state;
    tci_boot_row_encode(&from, bytes);
    assert_int_equal(tci_boot_row_decode(bytes, &to), TC_OK);
    assert_int_equal(to.size, 9);
    assert_int_equal(to.rank, 4);
    assert_int_equal(to.host, from.host);
    assert_memory_equal(to.group_id, from.group_id, TCI_GROUP_ID);
    assert_int_equal(to.agreed.eager_bytes, 77);
    assert_int_equal(to.agreed.tune, 13);
    assert_int_equal(to.agreed.cores, 1027);
    assert_string_equal(to.agreed.algorithm, "ring");
    assert_true(to.is_ring);
    assert_memory_equal(&to.cpus, &from.cpus, sizeof to.cpus);

    /* What is accepted says all that its bytes say. */
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        tci_boot_row_encode(&from, bytes);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (tci_boot_row_decode(bytes, &to) != TC_OK)
            continue;
        tci_boot_row_encode(&to, again);
        assert_memory_equal(again, bytes, sizeof bytes);
    }
    memset(bytes, 0xff, sizeof bytes);
    assert_int_not_equal(tci_boot_row_decode(bytes, &to), TC_OK);
}

static void a_name_of_an_algorithm_without_end_is_refused(void **state)
{
    struct room room;
    uint8_t bytes[TABLE_LEN];

    (void)state;
    fill_room(&room);
    tci_boot_table_encode(&room.result, bytes);
    memset(bytes + 41, 'x', 23);
    assert_int_equal(tci_boot_table_decode(bytes, &room.result), TC_ERR_TRANSPORT);
}

static void noise_is_read_without_harm(void **state)
{
    uint64_t seed = 42;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[TABLE_LEN];
        struct tci_boot_head head;
        struct tci_boot_join join;
        struct tci_error error = {.text = ""};
        struct room room;

        for (size_t k = 0; k < sizeof bytes; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = (uint8_t)(seed >> 56);
        }
        init_room(&room);
        (void)tci_boot_head_decode(bytes, &head);
        (void)tci_boot_join_decode(bytes, &join);
        (void)tci_boot_table_decode(bytes, &room.result);
        tci_boot_refuse_decode(bytes, TCI_BOOT_REFUSE_FIXED + (size_t)(round % 150), &error);
        assert_int_not_equal(error.pub.status, TC_OK);
        for (const char *at = error.text; *at != '\0'; at++)
            assert_in_range(*at, 0x20, 0x7e);
    }
}

static void a_refusal_carries_the_error(void **state)
{
    struct tci_error from = {.text = ""}, to = {.text = ""}, empty = {.text = ""};
    uint8_t bytes[TCI_BOOT_REFUSE_MAX];
    size_t len;

    (void)state;
    tci_error_set(&from, TC_ERR_TIMEOUT, 3, 0, "dist_init", "rank 3 has not come%s", "\n\033[31m!");
    len = tci_boot_refuse_encode(&from, bytes);
    tci_boot_refuse_decode(bytes, len, &to);
    assert_int_equal(to.pub.status, TC_ERR_TIMEOUT);
    assert_int_equal(to.pub.rank, 3);
    assert_string_equal(to.pub.message, "rank 3 has not come??[31m!");

    memset(bytes, 0xff, 8);
    tci_boot_refuse_decode(bytes, TCI_BOOT_REFUSE_FIXED, &empty);
    assert_int_equal(empty.pub.status, TC_ERR_RENDEZVOUS);
    assert_int_equal(empty.pub.rank, -1);
    assert_string_equal(empty.pub.message, "rank 0 refuses, and does not say why");
}

static void check_missing(const char *ranks, const char *says)
{
    struct tci_boot_missing missing = {.first = -1};
    char *end;

    for (const char *at = ranks; *at != '\0'; at = end)
        tci_boot_missing_add(&missing, (int)strtol(at, &end, 10));
    tci_boot_missing_end(&missing);
    assert_string_equal(missing.text, says);
}

static void the_missing_are_listed_in_words(void **state)
{
    struct tci_boot_missing missing = {.first = -1};

    (void)state;
    check_missing("3", "rank 3");
    check_missing("1 2", "ranks 1, 2");
    check_missing("3 5", "ranks 3, 5");
    check_missing("1 2 3", "ranks 1-3");
    check_missing("1 3 4 5 9", "ranks 1, 3-5, 9");
    check_missing("1 3 4 5 9 10", "ranks 1, 3-5, 9, 10");

    for (int rank = 1; rank < TCI_BOOT_SIZE_MAX; rank += 2)
        tci_boot_missing_add(&missing, rank);
    tci_boot_missing_end(&missing);
    assert_int_equal(missing.first, 1);
    assert_int_equal(missing.count, TCI_BOOT_SIZE_MAX / 2);
    assert_non_null(strstr(missing.text, "ranks 1, 3, 5, 7, "));
    assert_non_null(strstr(missing.text, " more"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_read_back),
        cmocka_unit_test(lengths_that_a_type_cannot_have_are_refused),
        cmocka_unit_test(flipped_heads_are_refused_or_mean_something_else),
        cmocka_unit_test(strangers_are_known_by_their_first_byte),
        cmocka_unit_test(a_join_is_read_back_or_refused),
        cmocka_unit_test(a_table_is_read_back_or_refused),
        cmocka_unit_test(a_row_is_read_back_or_refused),
        cmocka_unit_test(a_name_of_an_algorithm_without_end_is_refused),
        cmocka_unit_test(noise_is_read_without_harm),
        cmocka_unit_test(a_refusal_carries_the_error),
        cmocka_unit_test(the_missing_are_listed_in_words),
    };

    return cmocka_run_group_tests_name("boot_wire", tests, NULL, NULL);
}
