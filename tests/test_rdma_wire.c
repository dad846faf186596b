/* test_rdma_wire.c - records over RDMA come out as they went in; what makes no sense is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, needs libibverbs, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base.h"
#include "core/bytes.h"
#include "core/notice.h"
#include "core/plan.h"
#include "fake_verbs/fake.h"
#include "support/rdma_pair.h"
#include "support/sample.h"

static struct pair_kind plain = {{"rdma", rdma_net_open}, fake_setup_usual, 0};

static struct tci_rdma_head some_head(void)
{
    return (struct tci_rdma_head){
        .kind = TCI_RDMA_CREDIT,
        .priority = -3,
        .key = {.tag = UINT64_C(0x0102030405060708),
                .group = UINT64_C(0xf1f2f3f4f5f6f7f8),
                .lane = 9,
                .step = 10,
                .use = 11,
                .space = TCI_SPACE_P2P_DOWN},
        .call =
            {.count = UINT64_C(1) << 40, .root = -7, .coll = 2, .dtype = 3, .op = 4, .plan = 133},
        .len = 2 * TCI_RDMA_RANGE_BYTES,
        .seq = 77,
        .ack = 78,
        .number = 79,
        .total = UINT64_C(1) << 50,
        .consumed = UINT64_C(1) << 51};
}

static void records_come_out_as_they_went_in(void **state)
{
    struct tci_rdma_head head = some_head(), got;
    uint8_t wire[TCI_RDMA_SLOT] = {0}, again[TCI_RDMA_HEAD];

    (void)state;
    tci_rdma_head_encode(&head, wire);
    assert_null(tci_rdma_head_decode(wire, TCI_RDMA_HEAD + head.len, &got));
    assert_int_equal(got.priority, -3);
    assert_int_equal(got.call.root, -7);
    assert_int_equal(got.key.space, TCI_SPACE_P2P_DOWN);
    assert_int_equal(got.number, 79);
    tci_rdma_head_encode(&got, again);
    assert_memory_equal(again, wire, TCI_RDMA_HEAD);
    /* As docs/rdma.md says. */
    assert_int_equal(tci_get64(wire + 8), head.key.tag);
    assert_int_equal(tci_get32(wire + 52), 77);
    assert_int_equal(tci_get32(wire + 60), 79);
    assert_int_equal(tci_get64(wire + 72), head.consumed);
}

static void random_bytes_do_no_harm(void **state)
{
    struct sample sample = {.random = 20261130};
    struct tci_rdma_head head = some_head(), got;
    uint8_t wire[TCI_RDMA_SLOT] = {0};
    unsigned good = 0;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        size_t bytes = TCI_RDMA_HEAD + head.len;

        tci_rdma_head_encode(&head, wire);
        wire[sample_below(&sample, TCI_RDMA_HEAD)] = (uint8_t)sample_below(&sample, 256);
        if (i % 3 == 0)
            bytes = sample_below(&sample, TCI_RDMA_SLOT + 2);
        if (tci_rdma_head_decode(wire, bytes, &got) != NULL)
            continue;
        good++;
        assert_true(got.kind < TCI_RDMA_KINDS && got.len <= TCI_RDMA_PAYLOAD);
        assert_true(got.total <= INT64_MAX);
    }
    assert_true(good > 1000);
}

/* ---- Records that make no sense ---- */

/* `bytes` more come than the header says; the byte at `at` is changed, unless that is 0. */
static const struct {
    struct tci_rdma_head head;
    int bytes;
    size_t at;
    uint8_t byte;
    const char *says;
} senseless[] = {
    {{.kind = TCI_RDMA_DATA, .len = 8, .total = 100}, 0, 0, 0, "does not fill its record"},
    {{.kind = TCI_RDMA_DATA, .len = 100, .total = 8}, 0, 0, 0, "does not fill its record"},
    {{.kind = TCI_RDMA_DATA, .len = TCI_RDMA_PAYLOAD, .total = 8}, 0, 0, 0, "does not fill"},
    {{.kind = TCI_RDMA_PART}, 0, 0, 0, "an empty part"},
    {{.kind = TCI_RDMA_CREDIT, .len = 5 * 32, .total = 9}, 0, 0, 0, "a credit of the wrong"},
    {{.kind = TCI_RDMA_CREDIT, .len = 31, .total = 9}, 0, 0, 0, "a credit of the wrong length"},
    {{.kind = TCI_RDMA_FURTHER, .total = 9}, 0, 0, 0, "a credit of the wrong length"},
    {{.kind = TCI_RDMA_FURTHER, .len = 64, .total = 9}, 0, 0, 0, "a credit of the wrong length"},
    {{.kind = TCI_RDMA_NOTICE, .len = TCI_NOTICE_BYTES - 1}, 0, 0, 0, "a notice of the wrong"},
    {{.kind = TCI_RDMA_BYE, .len = 1}, 0, 0, 0, "with a payload that none has"},
    {{.kind = TCI_RDMA_WANT, .total = UINT64_C(1) << 63}, 0, 0, 0, "an impossible length"},
    {{.kind = TCI_RDMA_BYE}, -1, 0, 0, "a record of the wrong length"},
    {{.kind = TCI_RDMA_PART, .len = TCI_RDMA_PAYLOAD}, 1, 0, 0, "a record of the wrong length"},
    {{.kind = TCI_RDMA_BYE}, 1, 0, 0, "of another length than it says"},
    {{.kind = TCI_RDMA_PART, .len = 8}, -1, 0, 0, "of another length than it says"},
    {{.kind = TCI_RDMA_BYE}, 0, 3, TCI_COLL_COUNT, "an unknown collective or space"},
    {{.kind = TCI_RDMA_BYE}, 0, 1, TCI_SPACE_COUNT, "an unknown collective or space"},
};

static void records_that_make_no_sense_are_refused(void **state)
{
    uint8_t wire[TCI_RDMA_SLOT + 1] = {0};
    struct tci_rdma_head got;

    (void)state;
    for (size_t i = 0; i < TCI_LEN(senseless); i++) {
        size_t bytes = (size_t)(TCI_RDMA_HEAD + (int)senseless[i].head.len + senseless[i].bytes);
        const char *wrong;

        tci_rdma_head_encode(&senseless[i].head, wire);
        if (senseless[i].at != 0)
            wire[senseless[i].at] = senseless[i].byte;
        wrong = tci_rdma_head_decode(wire, bytes, &got);
        if (wrong == NULL || strstr(wrong, senseless[i].says) == NULL)
            fail_msg("row %zu: %s", i, wrong != NULL ? wrong : "it is taken");
    }
    for (int kind = 0; kind <= TCI_RDMA_KINDS; kind += TCI_RDMA_KINDS) {
        tci_rdma_head_encode(&(struct tci_rdma_head){.kind = TCI_RDMA_BYE}, wire);
        wire[0] = (uint8_t)kind;
        assert_string_equal(tci_rdma_head_decode(wire, TCI_RDMA_HEAD, &got),
                            "a record of an unknown kind");
    }
}

/* ---- A peer that sends nonsense ---- */

static void exchange(void)
{
    struct net_message send, recv;

    net_recv(&pair, &recv, 0, 1, 1, 100);
    net_send(&pair, &send, 1, 0, 1, 100);
    net_finish(&pair, &send, TC_OK);
    net_finish(&pair, &recv, TC_OK);
}

/* What rank 1 does before it sends what ends the link; it may write the payload, too. */
typedef void before_fn(uint8_t *payload);

static void say(uint8_t *payload, uint8_t kind, uint32_t len, uint64_t total)
{
    struct tci_rdma_head head = {.kind = kind, .len = len, .total = total};

    tci_rdma_control(pair_link(1, 0), &head, payload);
}

static void begin_message(uint8_t *payload)
{
    say(payload, TCI_RDMA_DATA, TCI_RDMA_PAYLOAD, TCI_RDMA_PAYLOAD + 8);
}

static void say_goodbye(uint8_t *payload)
{
    say(payload, TCI_RDMA_BYE, 0, 0);
}

static void take_more_records_than_came(uint8_t *payload)
{
    (void)payload;
    pair_link(1, 0)->taken += 3;
}

static void use_more_than_came(uint8_t *payload)
{
    (void)payload;
    pair_link(1, 0)->consumed += 300;
}

/* First it has used a message, and then none. */
static void use_less_than_before(uint8_t *payload)
{
    struct net_message send, recv;

    net_recv(&pair, &recv, 1, 0, 2, 100);
    net_send(&pair, &send, 0, 1, 2, 100);
    net_finish(&pair, &send, TC_OK);
    net_finish(&pair, &recv, TC_OK);
    say(payload, TCI_RDMA_ACK, 0, 0);
    net_turns(&pair, 5);
    assert_int_not_equal(pair_link(0, 0)->window_acked, 0);
    pair_link(1, 0)->consumed = 0;
}

static void lose_a_record(uint8_t *payload)
{
    (void)payload;
    pair_link(1, 0)->sent++;
}

static void blame_rank_2(uint8_t *payload)
{
    tci_notice_pack(&(struct tci_notice){.kind = TCI_NOTICE_LOST, .culprit = 2}, payload);
}

static void tell_of_a_device(uint8_t *payload)
{
    tci_notice_pack(&(struct tci_notice){.kind = TCI_NOTICE_RDMA, .culprit = 1}, payload);
}

/* All early, and more than any window. */
static void send_and_send(uint8_t *payload)
{
    for (unsigned i = 0; i < 4 * TCI_RDMA_WINDOW / TCI_RDMA_PAYLOAD; i++)
        say(payload, TCI_RDMA_DATA, TCI_RDMA_PAYLOAD, TCI_RDMA_PAYLOAD);
}

static void have_asked_for_much(uint8_t *payload)
{
    (void)payload;
    pair_link(0, 0)->early_held = TCI_RDMA_EARLY_MAX;
}

static const struct {
    struct tci_rdma_head head;
    uint64_t at, len; /* of one range */
    before_fn *before;
    const char *says;
} nonsense[] = {
    {{.kind = TCI_RDMA_PART, .len = 8}, 0, 0, NULL, "more than the whole of a message"},
    {{.kind = TCI_RDMA_PART, .len = 16}, 0, 0, begin_message, "more than the whole of a message"},
    {{.kind = TCI_RDMA_DATA, .len = 8, .total = 8}, 0, 0, begin_message, "the middle of another"},
    {{.kind = TCI_RDMA_DATA, .len = 8, .total = 100}, 0, 0, NULL, "does not fill its record"},
    {{.kind = TCI_RDMA_DATA, .len = TCI_RDMA_PAYLOAD, .total = 1 << 30},
     0,
     0,
     NULL,
     "without a credit"},
    {{.kind = TCI_RDMA_CREDIT, .len = 32, .total = 100}, 50, 50, NULL, "no part of the message"},
    {{.kind = TCI_RDMA_CREDIT, .len = 32, .total = 100}, 0, 200, NULL, "no part of the message"},
    {{.kind = TCI_RDMA_CREDIT, .len = 32, .total = 100}, 0, 0, NULL, "no part of the message"},
    {{.kind = TCI_RDMA_CREDIT, .len = 31, .total = 100}, 0, 0, NULL, "wrong length"},
    {{.kind = TCI_RDMA_NOTICE, .len = 4}, 0, 0, NULL, "a notice of the wrong length"},
    {{.kind = TCI_RDMA_NOTICE, .len = TCI_NOTICE_BYTES}, 0, 0, blame_rank_2, "blames no rank"},
    {{.kind = TCI_RDMA_NOTICE, .len = TCI_NOTICE_BYTES},
     0,
     0,
     tell_of_a_device,
     "belongs on the connection"},
    {{.kind = TCI_RDMA_WANT, .total = 1 << 30}, 0, 0, NULL, "a request for a large message"},
    {{.kind = TCI_RDMA_WANT, .total = 8}, 0, 0, have_asked_for_much, "than can be remembered"},
    {{.kind = TCI_RDMA_CREDIT, .len = 32, .total = 1 << 30},
     0,
     9,
     have_asked_for_much,
     "than can be remembered"},
    {{.kind = TCI_RDMA_DATA, .len = TCI_RDMA_PAYLOAD, .total = TCI_RDMA_PAYLOAD},
     0,
     0,
     send_and_send,
     "more early messages than the window allows"},
    {{.kind = TCI_RDMA_ACK, .len = 8}, 0, 0, NULL, "a payload that none has"},
    {{.kind = TCI_RDMA_ACK}, 0, 0, take_more_records_than_came, "of what was never sent"},
    {{.kind = TCI_RDMA_ACK}, 0, 0, use_more_than_came, "of what was never sent"},
    {{.kind = TCI_RDMA_ACK}, 0, 0, use_less_than_before, "of what was never sent"},
    {{.kind = TCI_RDMA_ACK}, 0, 0, lose_a_record, "out of turn"},
};

static void send_nonsense(size_t i)
{
    uint8_t payload[TCI_RDMA_PAYLOAD] = {0};
    struct tci_rdma_head head = nonsense[i].head;
    struct tci_rdma_range range = {.at = nonsense[i].at, .len = nonsense[i].len};

    if (head.kind == TCI_RDMA_CREDIT)
        tci_rdma_range_encode(&range, payload);
    if (nonsense[i].before != NULL)
        nonsense[i].before(payload);
    tci_rdma_control(pair_link(1, 0), &head, payload);
}

static void nonsense_ends_the_link_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(nonsense); i++) {
        exchange();
        send_nonsense(i);
        for (int turns = 0; turns < 20000 && pair.nodes[0].losses == 0; turns++)
            net_turn(&pair);
        if (pair.nodes[0].losses == 0)
            fail_msg("row %zu is taken", i);
        if (strstr(pair.nodes[0].error.pub.message, nonsense[i].says) == NULL)
            fail_msg("row %zu: %s", i, pair.nodes[0].error.pub.message);
        net_turn_until(&pair, &pair.nodes[1].losses, 1);
        pair_reopen();
    }
}

static void a_record_after_a_goodbye_ends_the_link(void **state)
{
    uint8_t payload[TCI_RDMA_PAYLOAD] = {0};

    (void)state;
    exchange();
    say_goodbye(payload);
    say(payload, TCI_RDMA_DATA, 8, 8);
    net_turn_until(&pair, &pair.nodes[0].losses, 1);
    assert_non_null(strstr(pair.nodes[0].error.pub.message, "a record after its goodbye"));
    net_turn_until(&pair, &pair.nodes[1].losses, 1);
}

/* Of a message of a MiB 64 KiB are granted, and then what the row says. */
static void a_further_credit_for_no_part_of_the_message_ends_the_link(void **state)
{
    static const uint64_t rows[][2] = {{0, 8}, {65544, 8}, {65536, 0}, {65536, (1 << 20) - 65535}};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(rows); i++) {
        struct tci_rdma *receiver = tci_rdma_of(pair.nodes[1].transport);
        struct tci_rdma_chunk *chunk;
        struct net_message send;
        struct tci_rdma_head head = {.kind = TCI_RDMA_CREDIT, .number = 33, .len = 32};
        struct tci_rdma_range range = {.len = 65536, .place = 3};
        uint8_t payload[TCI_RDMA_RANGE_BYTES];

        exchange();
        chunk = tci_rdma_chunk_get(receiver, true);
        assert_non_null(chunk);
        net_send(&pair, &send, 0, 1, 9, 1 << 20);
        range.addr = (uintptr_t)chunk->data;
        range.rkey = chunk->rkey;
        head.key = send.xfer.key;
        head.call = send.call;
        head.total = 1 << 20;
        tci_rdma_range_encode(&range, payload);
        tci_rdma_control(pair_link(1, 0), &head, payload);
        head.kind = TCI_RDMA_FURTHER;
        range.at = rows[i][0];
        range.len = rows[i][1];
        tci_rdma_range_encode(&range, payload);
        tci_rdma_control(pair_link(1, 0), &head, payload);
        net_turn_until(&pair, &pair.nodes[0].losses, 1);
        if (strstr(pair.nodes[0].error.pub.message, "a further credit for what is no part") == NULL)
            fail_msg("row %zu: %s", i, pair.nodes[0].error.pub.message);
        net_turn_until(&pair, &pair.nodes[1].losses, 1);
        net_finish(&pair, &send, TC_ERR_PEER_LOST);
        tci_rdma_chunk_put(receiver, chunk);
        pair_reopen();
    }
}

/* Each is answered, and the answers wait for slots that the peer does not give back. */
static void a_flood_of_what_is_taken_back_ends_the_link(void **state)
{
    struct tci_rdma_link *link;
    const char *wrong = NULL;

    (void)state;
    exchange();
    link = pair_link(0, 0);
    for (uint32_t number = 1; wrong == NULL && number < 1000000; number++)
        wrong = tci_rdma_on_revoke(link, number);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "taken back"));
    assert_int_equal(link->queue.revoked, TCI_RDMA_GRANTS);
    while (link->queue.len > 0)
        net_turn(&pair);
    assert_int_equal(link->queue.revoked, 0);
    assert_null(tci_rdma_on_revoke(link, 1));
    exchange();
}

/* Elements would not lie where they belong for whoever folds them later. */
static void a_part_that_does_not_fill_its_record_ends_the_link(void **state)
{
    struct tci_rdma_head data = {
        .kind = TCI_RDMA_DATA, .len = TCI_RDMA_PAYLOAD, .total = (uint64_t)3 * TCI_RDMA_PAYLOAD};
    struct tci_rdma_head part = {.kind = TCI_RDMA_PART, .len = 3};
    uint8_t payload[TCI_RDMA_PAYLOAD] = {0};

    (void)state;
    exchange();
    tci_rdma_control(pair_link(1, 0), &data, payload);
    tci_rdma_control(pair_link(1, 0), &part, payload);
    net_turn_until(&pair, &pair.nodes[0].losses, 1);
    assert_non_null(
        strstr(pair.nodes[0].error.pub.message, "a part that does not fill its record"));
    net_turn_until(&pair, &pair.nodes[1].losses, 1);
}

static void writes_that_nobody_has_granted_end_the_link(void **state)
{
    struct tci_rdma_range range = {.len = 8, .place = 5};
    struct tci_rdma_push push = {.range_count = 1};
    struct tci_rdma *rdma = tci_rdma_of(pair.nodes[0].transport);
    struct tci_xfer xfer = {.len = 8};
    uint64_t data = 0;

    (void)state;
    exchange();
    xfer.data = &data;
    push.xfer = &xfer;
    range.addr = (uintptr_t)pair_link(0, 0)->in->data; /* its slots are not open to peers */
    range.rkey = pair_link(0, 0)->in->rkey;
    push.ranges[0] = range;
    push.region = tci_rdma_region_get(tci_rdma_of(pair.nodes[1].transport), &data, 8, false);
    assert_non_null(push.region);
    assert_int_equal(tci_rdma_post_write(pair_link(1, 0), &push, NULL, 8), 0);
    push.flying = 2; /* so that it does not end */
    net_turn_until(&pair, &pair.nodes[1].losses, 1);
    assert_non_null(strstr(pair.nodes[1].error.pub.message, "refused to write to its memory"));
    net_turn_until(&pair, &pair.nodes[0].losses, 1);
    tci_rdma_region_put(tci_rdma_of(pair.nodes[1].transport), push.region);
    assert_int_equal(rdma->region_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_out_as_they_went_in),
        cmocka_unit_test(random_bytes_do_no_harm),
        cmocka_unit_test(records_that_make_no_sense_are_refused),
        PAIR_CASE(nonsense_ends_the_link_and_nothing_else, plain),
        PAIR_CASE(a_flood_of_what_is_taken_back_ends_the_link, plain),
        PAIR_CASE(a_record_after_a_goodbye_ends_the_link, plain),
        PAIR_CASE(a_further_credit_for_no_part_of_the_message_ends_the_link, plain),
        PAIR_CASE(a_part_that_does_not_fill_its_record_ends_the_link, plain),
        PAIR_CASE(writes_that_nobody_has_granted_end_the_link, plain),
    };

    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma wire", tests, NULL, NULL);
}
