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
#include "fake_verbs/fake.h"
#include "rdma/link.h"
#include "support/rdma_net.h"
#include "support/sample.h"

enum { EAGER = 65536 };

static struct net net;

static int open_two(void **state)
{
    (void)state;
    fake_setup_usual();
    net_open(&net, 2, EAGER);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    net_close(&net);
    rdma_net_check_clean();
    return 0;
}

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

/* ---- A peer that sends nonsense ---- */

static struct tci_rdma_link *link_of(uint32_t rank)
{
    return tci_rdma_of(net.nodes[rank].transport)->links[1 - rank];
}

static void exchange(void)
{
    struct net_message send, recv;

    net_recv(&net, &recv, 0, 1, 1, 100);
    net_send(&net, &send, 1, 0, 1, 100);
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
}

static const struct {
    struct tci_rdma_head head;
    uint64_t at, len; /* of one range */
    const char *says;
} nonsense[] = {
    {{.kind = TCI_RDMA_PART, .len = 8}, 0, 0, "more than the whole of a message"},
    {{.kind = TCI_RDMA_DATA, .len = 8, .total = 100}, 0, 0, "does not fill its record"},
    {{.kind = TCI_RDMA_DATA, .len = TCI_RDMA_PAYLOAD, .total = 1 << 30}, 0, 0, "without a credit"},
    {{.kind = TCI_RDMA_CREDIT, .len = 32, .total = 100}, 50, 50, "no part of the message"},
    {{.kind = TCI_RDMA_CREDIT, .len = 32, .total = 100}, 0, 200, "no part of the message"},
    {{.kind = TCI_RDMA_CREDIT, .len = 31, .total = 100}, 0, 0, "wrong length"},
    {{.kind = TCI_RDMA_NOTICE, .len = 4}, 0, 0, "a notice of the wrong length"},
    {{.kind = TCI_RDMA_WANT, .total = 1 << 30}, 0, 0, "a request for a large message"},
    {{.kind = TCI_RDMA_ACK, .len = 8}, 0, 0, "a payload that none has"},
};

static void nonsense_ends_the_link_and_nothing_else(void **state)
{
    uint8_t payload[TCI_RDMA_PAYLOAD] = {0};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(nonsense); i++) {
        struct tci_rdma_head head = nonsense[i].head;
        struct tci_rdma_range range = {.at = nonsense[i].at, .len = nonsense[i].len};

        exchange();
        tci_rdma_range_encode(&range, payload);
        tci_rdma_control(link_of(1), &head, payload);
        net_turn_until(&net, &net.nodes[0].losses, 1);
        assert_non_null(strstr(net.nodes[0].error.pub.message, nonsense[i].says));
        net_turn_until(&net, &net.nodes[1].losses, 1);
        net_close(&net);
        net_open(&net, 2, EAGER);
    }
}

/* Each is answered, and the answers wait for slots that the peer does not give back. */
static void a_flood_of_what_is_taken_back_ends_the_link(void **state)
{
    struct tci_rdma_link *link;
    const char *wrong = NULL;

    (void)state;
    exchange();
    link = link_of(0);
    for (uint32_t number = 1; wrong == NULL && number < 1000000; number++)
        wrong = tci_rdma_on_revoke(link, number);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "taken back"));
    assert_int_equal(link->queue.revoked, TCI_RDMA_GRANTS);
    while (link->queue.len > 0)
        net_turn(&net);
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
    tci_rdma_control(link_of(1), &data, payload);
    tci_rdma_control(link_of(1), &part, payload);
    net_turn_until(&net, &net.nodes[0].losses, 1);
    assert_non_null(strstr(net.nodes[0].error.pub.message, "a part that does not fill its record"));
    net_turn_until(&net, &net.nodes[1].losses, 1);
}

static void writes_that_nobody_has_granted_end_the_link(void **state)
{
    struct tci_rdma_range range = {.len = 8, .place = 5};
    struct tci_rdma_push push = {.range_count = 1};
    struct tci_rdma *rdma = tci_rdma_of(net.nodes[0].transport);
    struct tci_xfer xfer = {.len = 8};
    uint64_t data = 0;

    (void)state;
    exchange();
    xfer.data = &data;
    push.xfer = &xfer;
    range.addr = (uintptr_t)link_of(0)->in->data; /* its slots are not open to peers */
    range.rkey = link_of(0)->in->rkey;
    push.ranges[0] = range;
    push.region = tci_rdma_region_get(tci_rdma_of(net.nodes[1].transport), &data, 8, false);
    assert_non_null(push.region);
    assert_int_equal(tci_rdma_post_write(link_of(1), &push, NULL, 8), 0);
    push.flying = 2; /* so that it does not end */
    net_turn_until(&net, &net.nodes[1].losses, 1);
    assert_non_null(strstr(net.nodes[1].error.pub.message, "refused to write to its memory"));
    net_turn_until(&net, &net.nodes[0].losses, 1);
    tci_rdma_region_put(tci_rdma_of(net.nodes[1].transport), push.region);
    assert_int_equal(rdma->region_count, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_two, close_all)

int main(void)
{
    static const struct net_subject subject = {"rdma", rdma_net_open};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_out_as_they_went_in),
        cmocka_unit_test(random_bytes_do_no_harm),
        CASE(nonsense_ends_the_link_and_nothing_else),
        CASE(a_flood_of_what_is_taken_back_ends_the_link),
        CASE(a_part_that_does_not_fill_its_record_ends_the_link),
        CASE(writes_that_nobody_has_granted_end_the_link),
    };

    net_subject = &subject;
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma wire", tests, NULL, NULL);
}
