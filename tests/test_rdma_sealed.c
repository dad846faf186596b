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
#include "rdma/link.h"
#include "support/rdma_net.h"
#include "support/sample.h"
#include "support/tcp_net.h"
#include "support/world.h"

enum { EAGER = 65536, MIB = 1 << 20 };

static const char marker[] = "this payload is to be found nowhere";
static const struct net_subject plain = {"rdma", rdma_net_open};
static const struct net_subject sealed = {"sealed rdma", rdma_net_open_sealed};

static struct net net;

static void open_two(const struct net_subject *subject)
{
    net_subject = subject;
    fake_setup_usual();
    net_open(&net, 2, EAGER);
}

static int open_sealed(void **state)
{
    (void)state;
    open_two(&sealed);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    net_close(&net);
    rdma_net_check_clean();
    return 0;
}

static struct tci_rdma_link *link_of(uint32_t rank)
{
    return tci_rdma_of(net.nodes[rank].transport)->links[1 - rank];
}

static const char *way(uint32_t rank, const char **why)
{
    return tci_rdma_way(net.nodes[rank].transport, 1 - rank, why);
}

/* ---- What is seen ---- */

static void send_marker(size_t len, uint64_t tag)
{
    struct net_message send, recv;

    net_prepare(&send, true, 1, tag, len);
    for (size_t i = 0; i < len; i++)
        send.bytes[i] = (uint8_t)marker[i % (sizeof(marker) - 1)];
    net_post(&net, &send, 0);
    net_recv(&net, &recv, 1, 0, tag, len);
    net_wait(&net, &send.xfer);
    net_wait(&net, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_OK);
    assert_memory_equal(send.bytes, recv.bytes, len);
    net_free(&send);
    net_free(&recv);
}

/* Sealed, no payload is seen on the way; plain, it is, or the test would see nothing. */
static void no_payload_is_seen_on_the_way(void **state)
{
    static const size_t lens[] = {50, 5000, EAGER, EAGER + 1, 3 * MIB + 77};
    const char *why;

    (void)state;
    for (int is_sealed = 0; is_sealed < 2; is_sealed++) {
        open_two(is_sealed ? &sealed : &plain);
        for (size_t i = 0; i < TCI_LEN(lens); i++) {
            fake_look_for(marker, sizeof(marker) - 1);
            send_marker(lens[i], i + 1);
            assert_int_equal(fake_counts().marked > 0, !is_sealed);
        }
        assert_true(fake_counts().writes >= 3 && fake_counts().sends > 10);
        assert_string_equal(way(0, &why), "RDMA");
        assert_string_equal(way(1, &why), "RDMA");
        (void)close_all(NULL);
    }
}

static void memory_of_the_user_is_not_registered(void **state)
{
    uint64_t registered;

    (void)state;
    net_exchange(&net, 3 * MIB, 1);
    registered = fake_counts().registered;
    for (uint64_t tag = 2; tag < 6; tag++)
        net_exchange(&net, 3 * MIB + (size_t)tag, tag);
    assert_int_equal(fake_counts().registered, registered);
    assert_int_equal(tci_rdma_of(net.nodes[0].transport)->region_count, 0);
}

static void keys_follow_each_other(void **state)
{
    uint8_t first[32];

    (void)state;
    net_exchange(&net, 1000, 1);
    memcpy(first, link_of(0)->crypt->send.key, sizeof(first));
    for (uint32_t r = 0; r < 2; r++) {
        link_of(r)->crypt->send.count = TCI_RECORDS_A_KEY - 5 - 3 * r;
        link_of(1 - r)->crypt->receive.count = TCI_RECORDS_A_KEY - 5 - 3 * r;
    }
    for (uint64_t tag = 2; tag < 12; tag++)
        net_exchange(&net, tag % 2 == 0 ? 1000 : MIB, tag);
    assert_memory_not_equal(link_of(0)->crypt->send.key, first, sizeof(first));
    assert_memory_equal(link_of(0)->crypt->send.key, link_of(1)->crypt->receive.key, 32);
    assert_memory_not_equal(link_of(0)->crypt->send.key, link_of(1)->crypt->send.key, 32);
}

/* ---- What changes ---- */

static bool is_told(const char *text)
{
    return strstr(net.nodes[0].error.pub.message, text) != NULL ||
           strstr(net.nodes[1].error.pub.message, text) != NULL;
}

/* Messages in both directions until the link has ended, of which none has come otherwise than it
 * was sent. */
static void break_in_the_middle(void)
{
    struct net_message send[2], recv[2];
    bool is_over = false;

    for (uint32_t r = 0; r < 2; r++) {
        net_send(&net, &send[r], r, 1 - r, 5, MIB);
        net_recv(&net, &recv[r], r, 1 - r, 5, MIB);
    }
    net_turn_until(&net, &net.nodes[0].losses, 1);
    net_turn_until(&net, &net.nodes[1].losses, 1);
    for (int r = 0; r < 2; r++) {
        net_wait(&net, &send[r].xfer);
        net_wait(&net, &recv[r].xfer);
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
        net_exchange(&net, 1000, 1);
        fake_change(opcodes[round % 2], 1 + (unsigned)sample_below(&sample, 2),
                    (size_t)sample_below(&sample, MIB));
        break_in_the_middle();
        assert_true(is_told("sent what does not open with the keys of this link: it was changed"));
        net_close(&net);
        open_two(&sealed);
    }
}

static void what_is_left_out_ends_the_link(void **state)
{
    static const int opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(opcodes); i++) {
        net_exchange(&net, 1000, 1);
        fake_fate(opcodes[i], 1, FAKE_IS_LOST, IBV_WC_SUCCESS);
        break_in_the_middle();
        assert_true(is_told("does not open") || is_told("out of turn"));
        net_close(&net);
        open_two(&sealed);
    }
}

/* A record that was there already is none of those that follow. */
static void what_is_said_twice_ends_the_link(void **state)
{
    uint8_t *slot;

    (void)state;
    net_exchange(&net, 1000, 1);
    slot = tci_rdma_slot_out(link_of(0));
    memcpy(slot, link_of(0)->out->data, TCI_RDMA_SLOT); /* the first that it has sent */
    assert_int_equal(tci_rdma_post_record(link_of(0), TCI_RDMA_HEAD + TCI_RECORD_TAG, TCI_RDMA_ACK),
                     0);
    net_turn_until(&net, &net.nodes[1].losses, 1);
    assert_non_null(strstr(net.nodes[1].error.pub.message, "does not open"));
}

/* ---- It does not come up: what goes over TCP is sealed, too ---- */

static void all_goes_over_tcp(const char *reason)
{
    const char *why;

    net_exchange(&net, 1000, 1);
    net_exchange(&net, 3 * MIB, 2);
    for (uint32_t r = 0; r < 2; r++)
        assert_string_equal(way(r, &why), "tcp");
    assert_true((way(0, &why), strstr(why, reason) != NULL) ||
                (way(1, &why), strstr(why, reason) != NULL));
    assert_int_equal(net.nodes[0].losses + net.nodes[1].losses, 0);
    assert_int_equal(fake_counts().qps, 0);
}

static void a_changed_hello_leaves_both_to_tcp(void **state)
{
    (void)state;
    fake_change(IBV_WR_SEND, 1, 20);
    all_goes_over_tcp("does not open");
}

static void a_rank_that_does_not_encrypt_is_not_spoken_to(void **state)
{
    (void)state;
    tci_rdma_of(net.nodes[1].transport)->encrypts = false;
    all_goes_over_tcp("one of both encrypts, and the other does not");
}

static void a_device_of_short_messages_is_not_used(void **state)
{
    (void)state;
    tci_rdma_of(net.nodes[1].transport)->choice.port.max_msg_sz = TCI_RDMA_CHUNK - 1;
    all_goes_over_tcp("takes no messages as long as");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_sealed, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_payload_is_seen_on_the_way),
        CASE(memory_of_the_user_is_not_registered),
        CASE(keys_follow_each_other),
        CASE(a_changed_bit_ends_the_link_and_is_no_result),
        CASE(what_is_left_out_ends_the_link),
        CASE(what_is_said_twice_ends_the_link),
        CASE(a_changed_hello_leaves_both_to_tcp),
        CASE(a_rank_that_does_not_encrypt_is_not_spoken_to),
        CASE(a_device_of_short_messages_is_not_used),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma sealed", tests, NULL, NULL);
}
