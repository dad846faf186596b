/* test_rdma_failures.c - what goes wrong over RDMA is named, or goes over TCP; nothing is left. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "fake_verbs/fake.h"
#include "loop/state.h"
#include "net/shm.h"
#include "rdma/rdma.h"
#include "support/rdma_pair.h"
#include "support/tcp_net.h"
#include "tcdist/buffer.h"

enum { MIB = 1 << 20 };

/* What fails is not made again, so the first failure is named (test_rdma_heal.c has the rest). */
static struct pair_kind plain = {{"rdma", rdma_net_open}, fake_setup_usual, -1};
static struct pair_kind sealed = {{"sealed rdma", rdma_net_open_sealed}, fake_setup_usual, -1};
static const struct net_subject over_tcp = {"tcp", tcp_net_open};

static const char *way(uint32_t rank, uint32_t peer, const char **why)
{
    return tci_rdma_way(pair.nodes[rank].transport, peer, why);
}

/* ---- It does not come up ---- */

static void where_packets_get_nowhere_both_use_tcp(void **state)
{
    (void)state;
    fake_path(false);
    pair_goes_over_tcp("no acknowledgement came");
}

static void where_there_are_no_queue_pairs_both_use_tcp(void **state)
{
    (void)state;
    fake_refuse(true, false);
    pair_goes_over_tcp("gives no queue pair");
}

static void where_no_memory_can_be_registered_both_use_tcp(void **state)
{
    (void)state;
    fake_limit_regions(0, 1);
    pair_goes_over_tcp("ulimit -l");
}

static void where_completions_have_no_room_both_use_tcp(void **state)
{
    static const struct fake_device narrow = {.name = "fake0",
                                              .ports = 1,
                                              .state = IBV_PORT_ACTIVE,
                                              .address = 0x0a4d0001,
                                              .max_cqe = 90};

    (void)state;
    net_close(&pair);
    fake_setup(&narrow, 1);
    net_open(&pair, 2, PAIR_EAGER);
    pair_goes_over_tcp("no room for the completions");
}

/* What a rank without devices is: the transport over shared memory answers for it. */
static void a_peer_without_a_device_means_tcp(void **state)
{
    struct tci_shm_config config = {.rank = 1, .size = 2, .eager_bytes = PAIR_EAGER};
    struct net_node *node = &pair.nodes[1];
    const char *why;

    (void)state;
    net_close(&pair);
    net_subject = &over_tcp;
    net_open(&pair, 2, PAIR_EAGER);
    for (uint32_t r = 0; r < 2; r++) {
        struct tci_rdma_config with = {.rank = r, .size = 2, .eager_bytes = PAIR_EAGER};

        assert_true(tci_rdma_options_parse("1", &with.options));
        pair.nodes[r].transport =
            r == 0 ? tci_rdma_open(pair.loop, &pair.context, pair.nodes[r].transport, &with)
                   : tci_shm_open(pair.loop, &pair.context, node->transport, &config);
        pair.nodes[r].transport->sink = &pair.nodes[r].sink;
    }
    net_exchange(&pair, 1000, 1);
    net_exchange(&pair, 3 * MIB, 2);
    assert_string_equal(way(0, 1, &why), "tcp");
    assert_non_null(strstr(why, "it has no RDMA device"));
}

/* ---- What cannot be registered is copied ---- */

static void memory_that_is_not_registered_is_copied(void **state)
{
    const char *why;

    (void)state;
    net_exchange(&pair, 3 * MIB, 1);
    assert_int_equal(net_stats(&pair, 0).bytes_copied, 0);
    fake_limit_regions(fake_counts().regions + 4, 0); /* a slab of chunks each, and no more */
    for (uint64_t tag = 2; tag < 6; tag++)
        net_exchange(&pair, 3 * MIB + tag * 1001, tag);
    assert_string_equal(way(0, 1, &why), "RDMA");
    assert_true(fake_counts().regions_most <= TCI_RDMA_REGIONS);
}

static void many_receives_share_few_chunks(void **state)
{
    enum { COUNT = 120 };
    static struct net_message sends[COUNT], recvs[COUNT];

    (void)state;
    net_exchange(&pair, 10, 1);
    for (unsigned i = 0; i < COUNT; i++)
        net_recv(&pair, &recvs[i], 1, 0, 10 + i, MIB / 2 + i);
    assert_true(fake_counts().regions <= 2 * TCI_RDMA_REGIONS);
    for (unsigned i = COUNT; i-- > 0;)
        net_send(&pair, &sends[i], 0, 1, 10 + i, MIB / 2 + i);
    for (unsigned i = 0; i < COUNT; i++) {
        net_finish(&pair, &sends[i], TC_OK);
        net_finish(&pair, &recvs[i], TC_OK);
    }
}

static void memory_of_buffers_stays_registered_until_it_is_freed(void **state)
{
    struct net_message send, recv;
    unsigned before;
    tc_buffer *buffer;
    uint64_t ever;
    void *data;

    (void)state;
    net_exchange(&pair, 3 * MIB, 1);
    before = fake_counts().regions;
    tci_process_get(&pair.context.process);
    assert_int_equal(tc_buffer_alloc(&pair.context, 4 * MIB, &buffer), TC_OK);
    assert_int_equal(tc_buffer_map(buffer, &data), TC_OK);
    for (uint64_t tag = 2; tag < 5; tag++) {
        net_prepare(&send, true, 1, tag, MIB);
        memcpy(data, send.bytes, MIB);
        send.xfer.data = data;
        net_post(&pair, &send, 0);
        net_recv(&pair, &recv, 1, 0, tag, MIB);
        net_finish(&pair, &send, TC_OK);
        net_finish(&pair, &recv, TC_OK);
        if (tag == 2)
            ever = fake_counts().registered;
    }
    assert_int_equal(fake_counts().regions, before + 1);
    assert_int_equal(fake_counts().registered, ever + 2); /* of the two receives alone */
    assert_int_equal(tc_buffer_free(&pair.context, buffer), TC_OK);
    assert_int_equal(fake_counts().regions, before);
}

/* ---- It fails later ---- */

static const struct {
    enum ibv_wc_status status;
    const char *cause;
} causes[] = {
    {IBV_WC_LOC_PROT_ERR, "memory on this side is not registered"},
    {IBV_WC_REM_ACCESS_ERR, "its device refused to write"},
    {IBV_WC_REM_INV_REQ_ERR, "took the request for invalid"},
    {IBV_WC_REM_OP_ERR, "could not carry the request out"},
    {IBV_WC_RETRY_EXC_ERR, "no acknowledgement came"},
    {IBV_WC_RNR_RETRY_EXC_ERR, "it had no receive posted"},
    {IBV_WC_GENERAL_ERR, "the transport has failed"},
    {(enum ibv_wc_status)99, "not known here"},
};

static bool has_ended(const struct net_message *message)
{
    return message->xfer.status != TC_PENDING;
}

/* Messages in both directions, until the link has ended; the error that the failing side saw. */
static const char *break_in_the_middle(void)
{
    struct net_message send[2], recv[2];
    uint64_t end_ns = tci_loop_clock() + 60 * 1000 * TCI_NS_PER_MS;
    bool is_over = false;

    for (uint32_t r = 0; r < 2; r++) {
        net_send(&pair, &send[r], r, 1 - r, 5, 3 * MIB);
        net_recv(&pair, &recv[r], r, 1 - r, 5, 3 * MIB);
    }
    while (!is_over) {
        assert_true(tci_loop_clock() < end_ns);
        net_turn(&pair);
        is_over = pair.nodes[0].losses > 0 && pair.nodes[1].losses > 0;
        for (int r = 0; r < 2; r++)
            is_over = is_over && has_ended(&send[r]) && has_ended(&recv[r]);
    }
    for (int r = 0; r < 2; r++) {
        net_wait(&pair, &send[r].xfer);
        net_wait(&pair, &recv[r].xfer);
        assert_true(send[r].xfer.status == TC_OK || send[r].xfer.status == TC_ERR_PEER_LOST);
        if (recv[r].xfer.status == TC_OK)
            assert_true(net_is_intact(&recv[r]));
        net_free(&send[r]);
        net_free(&recv[r]);
    }
    assert_int_equal(fake_counts().qps, 0);
    assert_int_equal(net_stats(&pair, 0).breaks + net_stats(&pair, 1).breaks, 0);
    return pair.nodes[0].error.pub.message;
}

static void every_status_is_read_and_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(causes); i++)
        for (unsigned nth = 1; nth < (i < 2 ? 7 : 2); nth += 5) {
            net_exchange(&pair, 1000, 1);
            fake_fate(-1, nth, FAKE_FAILS, causes[i].status);
            (void)break_in_the_middle();
            assert_true(pair_is_told(causes[i].cause));
            assert_true(pair_is_told("over RDMA any more (device fake0, port 1)"));
            pair_reopen();
        }
}

static void a_lost_message_is_found_by_the_next(void **state)
{
    static const int opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(opcodes); i++) {
        net_exchange(&pair, 1000, 1);
        fake_fate(opcodes[i], 1, FAKE_IS_LOST, IBV_WC_SUCCESS);
        (void)break_in_the_middle();
        assert_true(pair_is_told("was lost"));
        pair_reopen();
    }
}

static void a_port_that_goes_down_is_named(void **state)
{
    (void)state;
    net_exchange(&pair, 1000, 1);
    fake_port(false);
    (void)break_in_the_middle();
    assert_true(pair_is_told("look at the link, the cable and the switch"));
}

static void a_device_that_is_taken_out_is_named(void **state)
{
    (void)state;
    net_exchange(&pair, 1000, 1);
    fake_remove();
    (void)break_in_the_middle();
    assert_true(pair_is_told("taken out") || pair_is_told("has failed"));
}

/* ---- Late ---- */

/* The peer's device may write as long as it has not been told; then nobody's memory is touched. */
static void a_receive_ends_in_time_though_the_peer_is_silent(void **state)
{
    struct tci_key key = {.tag = 3, .use = 1};
    struct net_message send, recv;

    (void)state;
    net_exchange(&pair, 1000, 1);
    net_recv(&pair, &recv, 1, 0, 3, 6 * MIB);
    net_turns(&pair, 3);
    net_send(&pair, &send, 0, 1, 3, 6 * MIB);
    fake_hold(true);
    net_turns(&pair, 3);
    net_abort(&pair, 1, &key);
    net_wait(&pair, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_ERR_CANCELLED);
    memset(recv.bytes, 0x77, recv.xfer.len);
    fake_hold(false);
    net_wait(&pair, &send.xfer);
    net_turns(&pair, 3);
    for (size_t i = 0; i < recv.xfer.len; i++)
        assert_int_equal(recv.bytes[i], 0x77);
    net_free(&send);
    net_free(&recv);
}

static void an_idle_transport_sleeps(void **state)
{
    (void)state;
    net_exchange(&pair, 1000, 1);
    for (int i = 0; i < 20; i++)
        net_turn(&pair);
    assert_int_equal(tci_loop_pass(pair.loop), 0);
    assert_true(tci_loop_may_sleep(pair.loop));
    tci_wake_rise(pair.loop);
}

static void sleep_tight(void)
{
    net_turns(&pair, 20);
    assert_true(tci_loop_may_sleep(pair.loop));
}

/* Whether a descriptor has ended the sleep, and not its time. */
static bool is_woken(void)
{
    unsigned before = pair.loop->events;

    tci_loop_ask(pair.loop, 10 * 1000 * TCI_NS_PER_MS);
    tci_wake_rise(pair.loop);
    return pair.loop->events != before;
}

static void devices_work(void)
{
    fake_hold(false);
    pthread_mutex_lock(&fake_world.lock);
    fake_progress(UINT32_MAX);
    pthread_mutex_unlock(&fake_world.lock);
}

static void what_comes_while_it_sleeps_wakes_it(void **state)
{
    struct net_message send, recv;

    (void)state;
    net_exchange(&pair, 1000, 1);
    net_recv(&pair, &recv, 1, 0, 3, 1000);
    net_turns(&pair, 20);
    fake_hold(true);
    net_send(&pair, &send, 0, 1, 3, 1000);
    sleep_tight();
    devices_work();
    assert_true(is_woken());
    net_finish(&pair, &send, TC_OK);
    net_finish(&pair, &recv, TC_OK);
    sleep_tight();
    fake_remove();
    assert_true(is_woken());
    assert_int_equal(pair.nodes[0].losses, 1);
}

/* A queue that is armed rings for what comes then, and for nothing that is in it. */
static void what_comes_before_it_sleeps_keeps_it_awake(void **state)
{
    struct net_message send, recv;

    (void)state;
    net_exchange(&pair, 1000, 1);
    net_recv(&pair, &recv, 1, 0, 3, 1000);
    net_turns(&pair, 20);
    fake_hold(true);
    net_send(&pair, &send, 0, 1, 3, 1000);
    net_turns(&pair, 20);
    fake_hold(false);
    assert_false(tci_loop_may_sleep(pair.loop));
    net_finish(&pair, &send, TC_OK);
    net_finish(&pair, &recv, TC_OK);
}

/* ---- Without memory ---- */

static void missing_memory_leaves_nothing_waiting(void **state)
{
    static const size_t lens[] = {1000, MIB};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(lens); i++)
        for (uint64_t n = 1, total = 0; n == 1 || n <= total; n++) {
            total = tci_max(total, net_send_without_memory(&pair, n, lens[i]));
            pair_reopen();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_CASE(where_packets_get_nowhere_both_use_tcp, plain),
        PAIR_CASE(where_there_are_no_queue_pairs_both_use_tcp, plain),
        PAIR_CASE(where_no_memory_can_be_registered_both_use_tcp, plain),
        PAIR_CASE(where_completions_have_no_room_both_use_tcp, plain),
        PAIR_CASE(a_peer_without_a_device_means_tcp, plain),
        PAIR_CASE(memory_that_is_not_registered_is_copied, plain),
        PAIR_CASE(many_receives_share_few_chunks, plain),
        PAIR_CASE(memory_of_buffers_stays_registered_until_it_is_freed, plain),
        PAIR_CASE(every_status_is_read_and_named, plain),
        PAIR_CASE(a_lost_message_is_found_by_the_next, plain),
        PAIR_CASE(a_port_that_goes_down_is_named, plain),
        PAIR_CASE(a_device_that_is_taken_out_is_named, plain),
        PAIR_CASE(a_receive_ends_in_time_though_the_peer_is_silent, plain),
        PAIR_CASE(an_idle_transport_sleeps, plain),
        PAIR_CASE(what_comes_while_it_sleeps_wakes_it, plain),
        PAIR_CASE(what_comes_before_it_sleeps_keeps_it_awake, plain),
        PAIR_CASE(missing_memory_leaves_nothing_waiting, plain),
        PAIR_CASE_OF("sealed", many_receives_share_few_chunks, sealed),
        PAIR_CASE_OF("sealed", every_status_is_read_and_named, sealed),
        PAIR_CASE_OF("sealed", a_device_that_is_taken_out_is_named, sealed),
        PAIR_CASE_OF("sealed", a_receive_ends_in_time_though_the_peer_is_silent, sealed),
        PAIR_CASE_OF("sealed", an_idle_transport_sleeps, sealed),
        PAIR_CASE_OF("sealed", missing_memory_leaves_nothing_waiting, sealed),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma failures", tests, NULL, NULL);
}
