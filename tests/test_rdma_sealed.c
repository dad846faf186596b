/* test_rdma_sealed.c - links over RDMA that are sealed: what is seen on the way, what changes. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <string.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "support/rdma_pair.h"
#include "support/sample.h"
#include "support/tcp_net.h"
#include "support/world.h"

enum { MIB = 1 << 20 };

static const char marker[] = "this payload is to be found nowhere";
static struct pair_kind plain = {{"rdma", rdma_net_open}, fake_setup_usual, 0};
static struct pair_kind sealed = {{"sealed rdma", rdma_net_open_sealed}, fake_setup_usual, 0};

static const char *way(uint32_t rank, const char **why)
{
    return tci_rdma_way(pair.nodes[rank].transport, 1 - rank, why);
}

/* ---- What is seen ---- */

static void send_marker(size_t len, uint64_t tag)
{
    struct net_message send, recv;

    net_prepare(&send, true, 1, tag, len);
    for (size_t i = 0; i < len; i++)
        send.bytes[i] = (uint8_t)marker[i % (sizeof(marker) - 1)];
    net_post(&pair, &send, 0);
    net_recv(&pair, &recv, 1, 0, tag, len);
    net_wait(&pair, &send.xfer);
    net_wait(&pair, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_OK);
    assert_memory_equal(send.bytes, recv.bytes, len);
    net_free(&send);
    net_free(&recv);
}

/* Sealed, no payload is seen on the way; plain, it is, or the test would see nothing. */
static void no_payload_is_seen_on_the_way(void **state)
{
    static const size_t lens[] = {50, 5000, PAIR_EAGER, PAIR_EAGER + 1, 3 * MIB + 77};
    const char *why;

    (void)state;
    for (int is_sealed = 0; is_sealed < 2; is_sealed++) {
        pair_open(is_sealed ? &sealed : &plain);
        for (size_t i = 0; i < TCI_LEN(lens); i++) {
            fake_look_for(marker, sizeof(marker) - 1);
            send_marker(lens[i], i + 1);
            assert_int_equal(fake_counts().marked > 0, !is_sealed);
        }
        assert_true(fake_counts().writes >= 3 && fake_counts().sends > 10);
        assert_string_equal(way(0, &why), "RDMA");
        assert_string_equal(way(1, &why), "RDMA");
        pair_close();
    }
}

static void memory_of_the_user_is_not_registered(void **state)
{
    uint64_t registered;

    (void)state;
    net_exchange(&pair, 3 * MIB, 1);
    registered = fake_counts().registered;
    for (uint64_t tag = 2; tag < 6; tag++)
        net_exchange(&pair, 3 * MIB + (size_t)tag, tag);
    assert_int_equal(fake_counts().registered, registered);
    assert_int_equal(tci_rdma_of(pair.nodes[0].transport)->region_count, 0);
}

static void keys_follow_each_other(void **state)
{
    uint8_t first[32];

    (void)state;
    net_exchange(&pair, 1000, 1);
    memcpy(first, pair_link(0, 0)->crypt->send.key, sizeof(first));
    for (uint32_t r = 0; r < 2; r++) {
        pair_link(r, 0)->crypt->send.count = TCI_RECORDS_A_KEY - 5 - 3 * r;
        pair_link(1 - r, 0)->crypt->receive.count = TCI_RECORDS_A_KEY - 5 - 3 * r;
    }
    for (uint64_t tag = 2; tag < 12; tag++)
        net_exchange(&pair, tag % 2 == 0 ? 1000 : MIB, tag);
    assert_memory_not_equal(pair_link(0, 0)->crypt->send.key, first, sizeof(first));
    assert_memory_equal(pair_link(0, 0)->crypt->send.key, pair_link(1, 0)->crypt->receive.key, 32);
    assert_memory_not_equal(pair_link(0, 0)->crypt->send.key, pair_link(1, 0)->crypt->send.key, 32);
}

/* ---- What changes ---- */

/* Messages in both directions until the link has ended, of which none has come otherwise than it
 * was sent. */
static void break_in_the_middle(void)
{
    struct net_message send[2], recv[2];
    bool is_over = false;

    for (uint32_t r = 0; r < 2; r++) {
        net_send(&pair, &send[r], r, 1 - r, 5, MIB);
        net_recv(&pair, &recv[r], r, 1 - r, 5, MIB);
    }
    net_turn_until(&pair, &pair.nodes[0].losses, 1);
    net_turn_until(&pair, &pair.nodes[1].losses, 1);
    for (int r = 0; r < 2; r++) {
        net_wait(&pair, &send[r].xfer);
        net_wait(&pair, &recv[r].xfer);
        is_over = is_over || recv[r].xfer.status == TC_ERR_PEER_LOST ||
                  send[r].xfer.status == TC_ERR_PEER_LOST;
        if (recv[r].xfer.status == TC_OK)
            assert_true(net_is_intact(&recv[r]));
        net_free(&send[r]);
        net_free(&recv[r]);
    }
    assert_true(is_over);
    assert_int_equal(fake_counts().qps, 0);
}

static void a_changed_bit_ends_the_link_and_is_no_result(void **state)
{
    static const int rounds[] = {6, 24, 400};
    static const int opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};
    struct sample sample = sample_begin(1);

    (void)state;
    for (int round = 0; round < rounds[test_effort()]; round++) {
        net_exchange(&pair, 1000, 1);
        fake_change(opcodes[round % 2], 1 + (unsigned)sample_below(&sample, 2),
                    (size_t)sample_below(&sample, MIB));
        break_in_the_middle();
        assert_true(
            pair_is_told("sent what does not open with the keys of this link: it was changed"));
        pair_reopen();
    }
}

static void what_is_left_out_ends_the_link(void **state)
{
    static const int opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(opcodes); i++) {
        net_exchange(&pair, 1000, 1);
        fake_fate(opcodes[i], 1, FAKE_IS_LOST, IBV_WC_SUCCESS);
        break_in_the_middle();
        assert_true(pair_is_told("does not open") || pair_is_told("out of turn"));
        pair_reopen();
    }
}

/* A record that was there already is none of those that follow. */
static void what_is_said_twice_ends_the_link(void **state)
{
    uint8_t *slot;

    (void)state;
    net_exchange(&pair, 1000, 1);
    slot = tci_rdma_slot_out(pair_link(0, 0));
    memcpy(slot, pair_link(0, 0)->out->data, TCI_RDMA_SLOT); /* the first that it has sent */
    assert_int_equal(
        tci_rdma_post_record(pair_link(0, 0), TCI_RDMA_HEAD + TCI_RECORD_TAG, TCI_RDMA_ACK), 0);
    net_turn_until(&pair, &pair.nodes[1].losses, 1);
    assert_non_null(strstr(pair.nodes[1].error.pub.message, "does not open"));
}

/* ---- It does not come up: what goes over TCP is sealed, too ---- */

static void a_changed_hello_leaves_both_to_tcp(void **state)
{
    (void)state;
    fake_change(IBV_WR_SEND, 1, 20);
    pair_goes_over_tcp("does not open");
}

static void a_rank_that_does_not_encrypt_is_not_spoken_to(void **state)
{
    (void)state;
    tci_rdma_of(pair.nodes[1].transport)->encrypts = false;
    pair_goes_over_tcp("one of both encrypts, and the other does not");
}

static void a_device_of_short_messages_is_not_used(void **state)
{
    (void)state;
    tci_rdma_of(pair.nodes[1].transport)->choice.port.max_msg_sz = TCI_RDMA_CHUNK - 1;
    pair_goes_over_tcp("takes no messages as long as");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_payload_is_seen_on_the_way),
        PAIR_CASE(memory_of_the_user_is_not_registered, sealed),
        PAIR_CASE(keys_follow_each_other, sealed),
        PAIR_CASE(a_changed_bit_ends_the_link_and_is_no_result, sealed),
        PAIR_CASE(what_is_left_out_ends_the_link, sealed),
        PAIR_CASE(what_is_said_twice_ends_the_link, sealed),
        PAIR_CASE(a_changed_hello_leaves_both_to_tcp, sealed),
        PAIR_CASE(a_rank_that_does_not_encrypt_is_not_spoken_to, sealed),
        PAIR_CASE(a_device_of_short_messages_is_not_used, sealed),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma sealed", tests, NULL, NULL);
}
