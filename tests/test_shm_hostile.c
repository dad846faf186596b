/* test_shm_hostile.c - a peer writes nonsense into what it shares: it is lost, and nobody else. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>

#include "net/shm_link.h"
#include "support/sample.h"
#include "support/shm_net.h"

static struct net net;

static struct tci_shm_link *link_of(uint32_t rank, uint32_t peer)
{
    return tci_shm_of(net.nodes[rank].transport)->links[peer];
}

static void exchange(uint32_t from, uint32_t to, uint64_t tag, size_t len)
{
    struct net_message send, recv;

    net_recv(&net, &recv, to, from, tag, len);
    net_send(&net, &send, from, to, tag, len);
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
}

static int open_net(void **state)
{
    (void)state;
    net_open(&net, 3, 65536);
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t b = 0; b < 3; b++)
            if (a != b)
                exchange(a, b, 1, 100);
    return 0;
}

static int close_net(void **state)
{
    (void)state;
    net_close(&net);
    return 0;
}

/* Rank 1 puts a record as it likes. */
static void put(const struct tci_shm_head *head, const void *payload, size_t len)
{
    struct tci_shm_link *link = link_of(1, 0);
    struct tci_shm_head *at = tci_shm_room(&link->writer, len);

    assert_non_null(at);
    *at = *head;
    at->bytes = 0;
    if (len > 0)
        memcpy(at + 1, payload, len);
    tci_shm_put(&link->writer, at, len);
    at->len = head->len; /* what it says may be another length */
    tci_shm_ring(link);
}

static void rank_1_is_lost_alone(const char *why)
{
    net_turn_until(&net, &net.nodes[0].losses, 1);
    assert_int_equal(net.nodes[0].lost_peer, 1);
    if (strstr(net.nodes[0].error.pub.message, why) == NULL)
        fail_msg("%s, not: %s", net.nodes[0].error.pub.message, why);
    exchange(0, 2, 2, 100000);
    exchange(2, 1, 3, 100000);
    assert_int_equal(net.nodes[2].losses, 0);
}

static void an_unknown_kind_is_the_end_of_a_link(void **state)
{
    (void)state;
    put(&(struct tci_shm_head){.kind = 77}, NULL, 0);
    rank_1_is_lost_alone("a record of an unknown kind");
}

static void a_refusal_of_what_was_accepted_is_the_end_of_a_link(void **state)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_NEAR, .culprit = 1, .arg = 3};
    struct tci_transport *below = tci_shm_below(net.nodes[1].transport);

    (void)state;
    below->ops->notify(below, 0, &notice, true);
    rank_1_is_lost_alone("sent a refusal of the memory");
}

static void a_payload_beyond_its_record_is_the_end_of_a_link(void **state)
{
    (void)state;
    put(&(struct tci_shm_head){.kind = TCI_SHM_DATA, .len = 1 << 20}, NULL, 0);
    rank_1_is_lost_alone("a record that ends before its payload");
}

static void a_record_beyond_the_ring_is_the_end_of_a_link(void **state)
{
    struct tci_shm_link *link = link_of(1, 0);

    (void)state;
    atomic_store((_Atomic uint32_t *)(void *)(link->writer.ring + link->writer.head % TCI_SHM_RING),
                 TCI_SHM_RING);
    rank_1_is_lost_alone("a record of an impossible length");
}

static void a_loan_without_its_text_is_the_end_of_a_link(void **state)
{
    (void)state;
    put(&(struct tci_shm_head){.kind = TCI_SHM_LEND, .len = 8}, "12345678", 8);
    rank_1_is_lost_alone("a loan of the wrong length");
}

static void a_message_of_no_collective_is_the_end_of_a_link(void **state)
{
    (void)state;
    put(&(struct tci_shm_head){.kind = TCI_SHM_DATA, .coll = 99}, NULL, 0);
    rank_1_is_lost_alone("a message of an unknown collective");
}

static void a_reader_that_is_ahead_of_the_writer_is_the_end_of_a_link(void **state)
{
    struct net_message sends[40];

    (void)state;
    atomic_store(&link_of(1, 0)->reader.way->tail, UINT64_C(1) << 60);
    for (int i = 0; i < 40; i++) {
        net_prepare(&sends[i], true, 1, 100, 60000);
        sends[i].xfer.key.step = (uint32_t)i;
        net_post(&net, &sends[i], 0);
    }
    rank_1_is_lost_alone("nonsense about what it has read");
    for (int i = 0; i < 40; i++) {
        net_wait(&net, &sends[i].xfer);
        net_free(&sends[i]);
    }
}

/* A loan whose memory is not there fails its sender, and reads nothing. */
static void a_loan_of_memory_that_is_not_there_is_never_complete(void **state)
{
    struct tci_shm_lend lend = {.total = 100000, .id = UINT64_C(1) << 40, .addr = 4096};
    struct tci_shm_head head = {.kind = TCI_SHM_LEND, .tag = 9, .use = 1, .len = sizeof(lend)};
    struct tci_key key = {.tag = 9, .use = 1};
    struct net_message recv;

    (void)state;
    net_prepare(&recv, false, 1, 9, 100000);
    head.count = recv.call.count;
    head.root = recv.call.root;
    net_post(&net, &recv, 0);
    put(&head, &lend, sizeof(lend));
    net_turns(&net, 20);
    assert_int_equal(recv.xfer.status, TC_PENDING);
    net_abort(&net, 0, &key);
    net_finish(&net, &recv, TC_ERR_CANCELLED);
    exchange(1, 0, 10, 100000);
}

/* Whatever lies in a ring: the reader ends the link or goes on, and touches nothing else. */
static void any_bytes_do_no_harm(void **state)
{
    struct sample sample;
    int rounds = 200;

    (void)state;
    sample = sample_begin(1);
    for (int round = 0; round < rounds; round++) {
        struct tci_shm_head head;
        uint8_t payload[400], *bytes = (uint8_t *)&head;

        if (link_of(0, 1)->state != TCI_SHM_NEAR) {
            net_close(&net);
            (void)open_net(NULL);
        }
        for (size_t i = 0; i < sizeof(head); i++)
            bytes[i] = (uint8_t)sample_below(&sample, 256);
        for (size_t i = 0; i < sizeof(payload); i++)
            payload[i] = (uint8_t)sample_below(&sample, 256);
        head.kind = (uint8_t)(1 + sample_below(&sample, TCI_SHM_KINDS));
        head.space = (uint8_t)sample_below(&sample, TCI_SPACE_COUNT + 1);
        head.coll = (uint8_t)sample_below(&sample, 4);
        head.len = (uint32_t)sample_below(&sample, sizeof(payload));
        put(&head, payload, head.len);
        net_turns(&net, 3);
    }
    exchange(0, 2, 2, 100000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_net, close_net)
    static const struct net_subject subject = {"shm", shm_net_open};
    const struct CMUnitTest tests[] = {
        TEST(an_unknown_kind_is_the_end_of_a_link),
        TEST(a_refusal_of_what_was_accepted_is_the_end_of_a_link),
        TEST(a_payload_beyond_its_record_is_the_end_of_a_link),
        TEST(a_record_beyond_the_ring_is_the_end_of_a_link),
        TEST(a_loan_without_its_text_is_the_end_of_a_link),
        TEST(a_message_of_no_collective_is_the_end_of_a_link),
        TEST(a_reader_that_is_ahead_of_the_writer_is_the_end_of_a_link),
        TEST(a_loan_of_memory_that_is_not_there_is_never_complete),
        TEST(any_bytes_do_no_harm),
    };

    net_subject = &subject;
    return cmocka_run_group_tests(tests, NULL, NULL);
#undef TEST
}
