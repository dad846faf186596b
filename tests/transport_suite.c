/* transport_suite.c - messages in every order and length, folds, floods, disagreements. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "core/plan.h"
#include "core/reduce.h"
#include "support/reduce_oracle.h"
#include "transport_suite.h"

enum { EAGER = 65536, MIB = 1 << 20 };

static const size_t lens[] = {0, 1, 79, 80, 81, 4095, 4096, 65535, 65536, 65537, MIB + 3, 5 * MIB};

static struct net net;

static int open_two(void **state)
{
    (void)state;
    net_open(&net, 2, EAGER);
    return 0;
}

static int open_four(void **state)
{
    (void)state;
    net_open(&net, 4, EAGER);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    net_close(&net);
    return 0;
}

static void turn(int times)
{
    net_turns(&net, times);
}

static void finish(struct net_message *message, tc_status_t status)
{
    net_finish(&net, message, status);
}

/* ---- Order and length ---- */

static void receives_posted_first_get_every_length(void **state)
{
    struct net_message send, recv;

    (void)state;
    for (size_t i = 0; i < TCI_LEN(lens); i++) {
        net_recv(&net, &recv, 1, 0, i, lens[i]);
        turn(3);
        net_send(&net, &send, 0, 1, i, lens[i]);
        finish(&send, TC_OK);
        finish(&recv, TC_OK);
    }
}

static void receives_posted_last_get_every_length(void **state)
{
    struct net_message send, recv;

    (void)state;
    for (size_t i = 0; i < TCI_LEN(lens); i++) {
        net_send(&net, &send, 1, 0, i, lens[i]);
        turn(3);
        net_recv(&net, &recv, 0, 1, i, lens[i]);
        finish(&send, TC_OK);
        finish(&recv, TC_OK);
    }
}

/* Whether rank 0's message to rank 1 is out, so that its memory, which is overwritten, is free. */
static bool put(struct net_message *send, uint64_t tag, size_t len)
{
    struct tci_transport *from = net.nodes[0].transport;
    bool is_out;

    net_prepare(send, true, 1, tag, len);
    send->xfer.call = &send->call;
    send->xfer.cq = &net.nodes[0].cq;
    is_out = tci_transport_put(from, &send->xfer);
    tci_transport_ring(from);
    if (is_out)
        memset(send->bytes, 0xee, len);
    return is_out;
}

/* What is out completes nothing; the rest ends as what is posted does. */
static void what_is_put_is_out_or_posted(void **state)
{
    struct net_message send, recv;
    bool may_put = net.nodes[0].transport->ops->put != NULL, is_out, was_out = false;

    (void)state;
    for (unsigned i = 0; i < 2 * TCI_LEN(lens); i++) { /* the first without a link */
        bool is_late = i % 2 != 0;

        if (!is_late)
            net_recv(&net, &recv, 1, 0, i, lens[i / 2]);
        is_out = put(&send, i, lens[i / 2]);
        if (is_late)
            net_recv(&net, &recv, 1, 0, i, lens[i / 2]);
        if (!is_out)
            finish(&send, TC_OK);
        finish(&recv, TC_OK);
        if (is_out) {
            assert_int_equal(send.xfer.status, TC_PENDING);
            net_free(&send);
        }
        was_out = was_out || is_out;
    }
    assert_int_equal(was_out, may_put);
}

static void all_pairs_exchange_at_once(void **state)
{
    static struct net_message sends[4][4][3], recvs[4][4][3];
    static const size_t some[3] = {0, 1000, 300000};

    (void)state;
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 0; b < 4; b++)
            for (uint32_t k = 0; k < 3; k++) {
                net_send(&net, &sends[a][b][k], a, b, a * 16 + b * 4 + k, some[k]);
                net_recv(&net, &recvs[a][b][k], a, b, b * 16 + a * 4 + k, some[k]);
            }
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 0; b < 4; b++)
            for (uint32_t k = 0; k < 3; k++) {
                finish(&sends[a][b][k], TC_OK);
                finish(&recvs[a][b][k], TC_OK);
            }
    for (uint32_t a = 0; a < 4; a++) {
        assert_int_equal(net.nodes[a].losses, 0);
        assert_int_equal(net_stats(&net, a).links_open, 3);
    }
}

static void tags_in_opposite_order_do_not_block(void **state)
{
    enum { COUNT = 40 };
    struct net_message sends[COUNT], recvs[COUNT];

    (void)state;
    for (unsigned i = 0; i < COUNT; i++)
        net_send(&net, &sends[i], 0, 1, i, lens[i % TCI_LEN(lens)] / 4);
    for (unsigned i = COUNT; i-- > 0;) {
        net_recv(&net, &recvs[i], 1, 0, i, lens[i % TCI_LEN(lens)] / 4);
        turn(1);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        finish(&sends[i], TC_OK);
        finish(&recvs[i], TC_OK);
    }
}

/* Equal keys: lengths tell whether they were confused. */
static void equal_keys_match_in_order(void **state)
{
    enum { COUNT = 60 };
    struct net_message sends[COUNT], recvs[COUNT];

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        net_prepare(&sends[i], true, 1, 7, lens[(i * 5) % TCI_LEN(lens)] / 3 + i);
        sends[i].xfer.key.use = i + 1;
        net_post(&net, &sends[i], 0);
        if (i % 7 == 0)
            turn(1);
        net_prepare(&recvs[i], false, 0, 7, lens[(i * 5) % TCI_LEN(lens)] / 3 + i);
        recvs[i].xfer.key.use = i + 1;
        if (i % 2 == 0)
            net_post(&net, &recvs[i], 1);
        if (i % 2 == 1) {
            turn(2);
            net_post(&net, &recvs[i], 1);
        }
    }
    for (unsigned i = 0; i < COUNT; i++) {
        finish(&sends[i], TC_OK);
        finish(&recvs[i], TC_OK);
    }
}

static void large_payload_is_never_copied(void **state)
{
    struct net_message sends[8], recvs[8], small, got;
    size_t least = EAGER + 1;

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        net_prepare(&sends[i], true, 1 - i % 2, i, least + i * 100001);
        net_prepare(&recvs[i], false, i % 2, i, least + i * 100001);
        sends[i].call.coll = recvs[i].call.coll = TCI_COLL_P2P;
        net_post(&net, &sends[i], i % 2);
        if (i % 3 == 0)
            turn(2);
        net_post(&net, &recvs[i], 1 - i % 2);
    }
    for (unsigned i = 0; i < 8; i++) {
        finish(&sends[i], TC_OK);
        finish(&recvs[i], TC_OK);
    }
    assert_int_equal(net_stats(&net, 0).bytes_copied, 0);
    assert_int_equal(net_stats(&net, 1).bytes_copied, 0);

    net_send(&net, &small, 0, 1, 9, 100);
    net_turn_until_held(&net, 1, 100);
    assert_int_equal(net_stats(&net, 1).eager_bytes, 100);
    net_recv(&net, &got, 1, 0, 9, 100);
    finish(&small, TC_OK);
    finish(&got, TC_OK);
    assert_int_equal(net_stats(&net, 1).eager_bytes, 0);
    assert_true(net_stats(&net, 1).bytes_copied >= 100);
}

/* ---- Folds ---- */

struct fold_case {
    tc_dtype_t dtype;
    tc_reduce_op_t op;
    size_t count;
    bool in_place, incoming_first, use_many;
    unsigned divide;
};

static void check_fold(const struct fold_case *c, uint64_t tag, bool is_late)
{
    size_t len = c->count * oracle_size(c->dtype);
    uint8_t *operand = malloc(len + 1), *expected = malloc(len + 1);
    struct net_message send, recv;
    struct tci_fold fold;
    const void *pair[2];

    assert_int_equal(tci_fold_init(&fold, c->dtype, c->op), TC_OK);
    net_prepare(&send, true, 1, tag, len);
    net_prepare(&recv, false, 0, tag, len);
    for (size_t i = 0; i < len; i++) {
        send.bytes[i] = (uint8_t)((i * 37 + i / 251) % 120);
        operand[i] = (uint8_t)((i * 11 + i / 17) % 120);
    }
    pair[0] = c->incoming_first ? send.bytes : operand;
    pair[1] = c->incoming_first ? operand : send.bytes;
    if (c->use_many)
        fold.many(expected, pair, 2, c->count);
    else
        fold.pair(expected, pair[0], pair[1], c->count);
    if (c->divide != 0)
        fold.divide(expected, c->divide, c->count);
    if (c->in_place)
        memcpy(recv.bytes, operand, len);
    recv.xfer.fold = &fold;
    recv.xfer.operand = c->in_place ? recv.bytes : operand;
    recv.xfer.incoming_first = c->incoming_first;
    recv.xfer.use_many = c->use_many;
    recv.xfer.divide = c->divide;
    if (!is_late)
        net_post(&net, &recv, 1);
    net_post(&net, &send, 0);
    turn(3);
    if (is_late)
        net_post(&net, &recv, 1);
    net_wait(&net, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_OK);
    assert_memory_equal(recv.bytes, expected, len);
    finish(&send, TC_OK);
    finish(&recv, TC_OK);
    free(operand);
    free(expected);
}

static void messages_are_folded_as_they_arrive(void **state)
{
    static const struct fold_case cases[] = {
        {TC_DTYPE_F32, TC_REDUCE_SUM, 0, true, false, false, 0},
        {TC_DTYPE_F32, TC_REDUCE_SUM, 3, true, false, false, 0},
        {TC_DTYPE_F32, TC_REDUCE_SUM, 300001, false, true, false, 0},
        {TC_DTYPE_BF16, TC_REDUCE_SUM, 1000003, true, true, true, 0},
        {TC_DTYPE_F64, TC_REDUCE_AVG, 200000, false, false, true, 0},
        {TC_DTYPE_F32, TC_REDUCE_AVG, 500000, true, false, false, 5},
        {TC_DTYPE_C64, TC_REDUCE_SUM, 77777, true, false, false, 0},
        {TC_DTYPE_F16, TC_REDUCE_MIN, 999, false, true, false, 0},
        {TC_DTYPE_I8, TC_REDUCE_MAX, 200000, true, false, false, 0},
    };

    (void)state;
    for (unsigned i = 0; i < TCI_LEN(cases); i++) {
        check_fold(&cases[i], 2 * i, false);
        check_fold(&cases[i], 2 * i + 1, true);
    }
}

/* ---- Priority ---- */

static void an_urgent_message_overtakes(void **state)
{
    struct net_message bulk, bulk_in, urgent, urgent_in;

    (void)state;
    net_recv(&net, &bulk_in, 1, 0, 1, 128 * MIB);
    net_recv(&net, &urgent_in, 1, 0, 2, 2 * MIB);
    net_send(&net, &bulk, 0, 1, 1, 128 * MIB);
    while (net_stats(&net, 1).bytes_received < MIB)
        turn(1);
    net_prepare(&urgent, true, 1, 2, 2 * MIB);
    urgent.xfer.priority = 5;
    net_post(&net, &urgent, 0);
    net_wait(&net, &urgent_in.xfer);
    assert_int_equal(bulk_in.xfer.status, TC_PENDING);
    assert_true(net_stats(&net, 1).bytes_received < 64 * MIB);
    finish(&urgent, TC_OK);
    finish(&urgent_in, TC_OK);
    finish(&bulk, TC_OK);
    finish(&bulk_in, TC_OK);
}

/* ---- Floods ---- */

static void a_flood_of_early_messages_is_bounded(void **state)
{
    enum { COUNT = 400 };
    static struct net_message sends[COUNT], recvs[COUNT];
    struct net_message other, other_in;

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        net_prepare(&sends[i], true, 1, 1, EAGER);
        sends[i].xfer.key.step = i / 2;
        net_post(&net, &sends[i], 0);
    }
    net_turn_until_held(&net, 1, MIB);
    turn(100);
    assert_true(net_stats(&net, 1).eager_bytes <= 8 * MIB);
    assert_int_equal(sends[COUNT - 1].xfer.status, TC_PENDING);
    net_recv(&net, &other_in, 1, 0, 2, 500);
    net_send(&net, &other, 0, 1, 2, 500);
    finish(&other, TC_OK);
    finish(&other_in, TC_OK);
    for (unsigned i = COUNT; i-- > 0;) {
        net_prepare(&recvs[i], false, 0, 1, EAGER);
        recvs[i].xfer.key.step = i / 2;
        net_post(&net, &recvs[i], 1);
        turn(i % 10 == 0);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        finish(&sends[i], TC_OK);
        finish(&recvs[i], TC_OK);
    }
    assert_int_equal(net_stats(&net, 1).eager_bytes, 0);
}

static void many_small_messages_pass(void **state)
{
    enum { COUNT = 20000 };
    static struct tci_xfer sends[COUNT], recvs[COUNT];
    static uint64_t values[COUNT];
    struct tci_call call = {.count = 1};
    struct tci_transport *from = net.nodes[0].transport, *to = net.nodes[1].transport;

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        values[i] = i;
        sends[i] = (struct tci_xfer){.key = {.tag = i},
                                     .call = &call,
                                     .cq = &net.nodes[0].cq,
                                     .data = &values[i],
                                     .len = 8,
                                     .peer = 1,
                                     .is_send = true,
                                     .status = TC_PENDING};
        recvs[i] = sends[i];
        recvs[i].cq = &net.nodes[1].cq;
        recvs[i].peer = 0;
        recvs[i].is_send = false;
        from->ops->post_send(from, &sends[i]);
    }
    net_turn_until(&net, &net.nodes[0].completions, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        to->ops->post_recv(to, &recvs[i]);
    net_turn_until(&net, &net.nodes[1].completions, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(recvs[i].status, TC_OK);
}

/* ---- Disagreement ---- */

static void other_lengths_are_a_mismatch(void **state)
{
    static const size_t pairs[][2] = {{8, 16}, {16, 8}, {8, MIB}, {MIB, 8}, {MIB, 2 * MIB}};
    struct net_message send, recv;

    (void)state;
    for (unsigned i = 0; i < TCI_LEN(pairs); i++)
        for (int late = 0; late < 2; late++) {
            unsigned admits = net.nodes[0].admits + net.nodes[1].admits;
            uint64_t tag = 10 + 2 * i + (unsigned)late;
            struct tci_key key = {.tag = tag, .use = 1};

            if (!late)
                net_recv(&net, &recv, 1, 0, tag, pairs[i][1]);
            net_send(&net, &send, 0, 1, tag, pairs[i][0]);
            turn(3);
            if (late)
                net_recv(&net, &recv, 1, 0, tag, pairs[i][1]);
            while (recv.xfer.status != TC_ERR_MISMATCH && send.xfer.status != TC_ERR_MISMATCH)
                turn(1);
            assert_true(net.nodes[0].admits + net.nodes[1].admits > admits);
            for (int r = 0; r < 2; r++)
                net_abort(&net, r, &key);
            turn(5);
            net_wait(&net, &send.xfer);
            net_free(&send);
            net_free(&recv);
        }
    assert_int_equal(net.nodes[0].losses + net.nodes[1].losses, 0);
}

static void refused_messages_are_dropped(void **state)
{
    struct net_message send, recv;

    (void)state;
    net.nodes[1].refuses = true;
    net_send(&net, &send, 0, 1, 1, 1000);
    finish(&send, TC_OK);
    while (net_stats(&net, 1).strays == 0)
        turn(1);
    assert_int_equal(net_stats(&net, 1).eager_bytes, 0);
    assert_int_equal(net_stats(&net, 1).strays, 1);
    net.nodes[1].refuses = false;
    net_recv(&net, &recv, 1, 0, 1, 1000);
    net_send(&net, &send, 0, 1, 1, 1000);
    finish(&send, TC_OK);
    finish(&recv, TC_OK);
}

/* ---- Everything at once ---- */

static void a_storm_passes(void **state)
{
    enum { COUNT = 600 };
    static struct net_message sends[COUNT], recvs[COUNT];
    uint64_t seed = 20261129;
    unsigned order[COUNT];

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t a = (uint32_t)(oracle_random(&seed) % 4), b = (uint32_t)(oracle_random(&seed) % 4);
        size_t len = lens[oracle_random(&seed) % (TCI_LEN(lens) - 1)] + oracle_random(&seed) % 100;

        net_prepare(&sends[i], true, b, i, len);
        net_prepare(&recvs[i], false, a, i, len);
        sends[i].xfer.priority = (int8_t)(oracle_random(&seed) % 5);
        order[i] = i;
    }
    for (unsigned i = COUNT; i-- > 1;) {
        unsigned k = (unsigned)(oracle_random(&seed) % (i + 1)), was = order[i];

        order[i] = order[k];
        order[k] = was;
    }
    turn(1); /* making them may have taken long: deadlines begin now */
    for (unsigned i = 0; i < COUNT; i++) {
        net_post(&net, &sends[i], recvs[i].xfer.peer);
        net_post(&net, &recvs[order[i]], sends[order[i]].xfer.peer);
        turn(oracle_random(&seed) % 4 == 0);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        finish(&sends[i], TC_OK);
        finish(&recvs[i], TC_OK);
    }
}

#define WITH_TWO(test)  cmocka_unit_test_setup_teardown(test, open_two, close_all)
#define WITH_FOUR(test) cmocka_unit_test_setup_teardown(test, open_four, close_all)

const struct CMUnitTest transport_suite[] = {
    WITH_TWO(receives_posted_first_get_every_length),
    WITH_TWO(receives_posted_last_get_every_length),
    WITH_TWO(what_is_put_is_out_or_posted),
    WITH_FOUR(all_pairs_exchange_at_once),
    WITH_TWO(tags_in_opposite_order_do_not_block),
    WITH_TWO(equal_keys_match_in_order),
    WITH_TWO(large_payload_is_never_copied),
    WITH_TWO(messages_are_folded_as_they_arrive),
    WITH_TWO(an_urgent_message_overtakes),
    WITH_TWO(a_flood_of_early_messages_is_bounded),
    WITH_TWO(many_small_messages_pass),
    WITH_TWO(other_lengths_are_a_mismatch),
    WITH_TWO(refused_messages_are_dropped),
    WITH_FOUR(a_storm_passes),
};
const size_t transport_suite_count = TCI_LEN(transport_suite);
