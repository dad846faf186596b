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
#include "rdma/link.h"
#include "rdma/rdma.h"
#include "support/rdma_net.h"
#include "support/tcp_net.h"
#include "tcdist/buffer.h"

enum { EAGER = 65536, MIB = 1 << 20 };

/* What fails is not made again, so the first failure is named (test_rdma_heal.c has the rest). */
static void open_plain(struct net *net, size_t eager_bytes)
{
    net->context.config.heal_ms = -1;
    rdma_net_open(net, eager_bytes);
}

static void open_sealed(struct net *net, size_t eager_bytes)
{
    net->context.config.heal_ms = -1;
    rdma_net_open_sealed(net, eager_bytes);
}

static const struct net_subject over_rdma = {"rdma", open_plain};
static const struct net_subject sealed = {"sealed rdma", open_sealed};
static const struct net_subject over_tcp = {"tcp", tcp_net_open};

static struct net net;

static int open_two(void **state)
{
    (void)state;
    net_subject = &over_rdma;
    fake_setup_usual();
    net_open(&net, 2, EAGER);
    return 0;
}

static int open_two_sealed(void **state)
{
    (void)state;
    net_subject = &sealed;
    fake_setup_usual();
    net_open(&net, 2, EAGER);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fake_hold(false);
    net_close(&net);
    rdma_net_check_clean();
    return 0;
}

static const char *way(uint32_t rank, uint32_t peer, const char **why)
{
    return tci_rdma_way(net.nodes[rank].transport, peer, why);
}

static void all_goes_over_tcp(const char *reason)
{
    const char *why;

    net_exchange(&net, 1000, 1);
    net_exchange(&net, 3 * MIB, 2);
    for (uint32_t r = 0; r < 2; r++)
        assert_string_equal(way(r, 1 - r, &why), "tcp");
    assert_true((way(0, 1, &why), strstr(why, reason) != NULL) ||
                (way(1, 0, &why), strstr(why, reason) != NULL));
    assert_int_equal(net.nodes[0].losses + net.nodes[1].losses, 0);
    assert_int_equal(fake_counts().qps, 0);
}

/* ---- It does not come up ---- */

static void where_packets_get_nowhere_both_use_tcp(void **state)
{
    (void)state;
    fake_path(false);
    all_goes_over_tcp("no acknowledgement came");
}

static void where_there_are_no_queue_pairs_both_use_tcp(void **state)
{
    (void)state;
    fake_refuse(true, false);
    all_goes_over_tcp("gives no queue pair");
}

static void where_no_memory_can_be_registered_both_use_tcp(void **state)
{
    (void)state;
    fake_limit_regions(0, 1);
    all_goes_over_tcp("ulimit -l");
}

static void where_completions_have_no_room_both_use_tcp(void **state)
{
    static const struct fake_device narrow = {.name = "fake0",
                                              .ports = 1,
                                              .state = IBV_PORT_ACTIVE,
                                              .address = 0x0a4d0001,
                                              .max_cqe = 90};

    (void)state;
    net_close(&net);
    fake_setup(&narrow, 1);
    net_open(&net, 2, EAGER);
    all_goes_over_tcp("no room for the completions");
}

/* What a rank without devices is: the transport over shared memory answers for it. */
static void a_peer_without_a_device_means_tcp(void **state)
{
    struct tci_shm_config config = {.rank = 1, .size = 2, .eager_bytes = EAGER};
    struct net_node *node = &net.nodes[1];
    const char *why;

    (void)state;
    net_close(&net);
    net_subject = &over_tcp;
    net_open(&net, 2, EAGER);
    for (uint32_t r = 0; r < 2; r++) {
        struct tci_rdma_config with = {.rank = r, .size = 2, .eager_bytes = EAGER};

        assert_true(tci_rdma_options_parse("1", &with.options));
        net.nodes[r].transport =
            r == 0 ? tci_rdma_open(net.loop, &net.context, net.nodes[r].transport, &with)
                   : tci_shm_open(net.loop, &net.context, node->transport, &config);
        net.nodes[r].transport->sink = &net.nodes[r].sink;
    }
    net_exchange(&net, 1000, 1);
    net_exchange(&net, 3 * MIB, 2);
    assert_string_equal(way(0, 1, &why), "tcp");
    assert_non_null(strstr(why, "it has no RDMA device"));
}

/* ---- What cannot be registered is copied ---- */

static void memory_that_is_not_registered_is_copied(void **state)
{
    const char *why;

    (void)state;
    net_exchange(&net, 3 * MIB, 1);
    assert_int_equal(net_stats(&net, 0).bytes_copied, 0);
    fake_limit_regions(fake_counts().regions + 4, 0); /* a slab of chunks each, and no more */
    for (uint64_t tag = 2; tag < 6; tag++)
        net_exchange(&net, 3 * MIB + tag * 1001, tag);
    assert_string_equal(way(0, 1, &why), "RDMA");
    assert_true(fake_counts().regions_most <= TCI_RDMA_REGIONS);
}

static void many_receives_share_few_chunks(void **state)
{
    enum { COUNT = 120 };
    static struct net_message sends[COUNT], recvs[COUNT];

    (void)state;
    net_exchange(&net, 10, 1);
    for (unsigned i = 0; i < COUNT; i++)
        net_recv(&net, &recvs[i], 1, 0, 10 + i, MIB / 2 + i);
    assert_true(fake_counts().regions <= 2 * TCI_RDMA_REGIONS);
    for (unsigned i = COUNT; i-- > 0;)
        net_send(&net, &sends[i], 0, 1, 10 + i, MIB / 2 + i);
    for (unsigned i = 0; i < COUNT; i++) {
        net_finish(&net, &sends[i], TC_OK);
        net_finish(&net, &recvs[i], TC_OK);
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
    net_exchange(&net, 3 * MIB, 1);
    before = fake_counts().regions;
    tci_process_get(&net.context.process);
    assert_int_equal(tc_buffer_alloc(&net.context, 4 * MIB, &buffer), TC_OK);
    assert_int_equal(tc_buffer_map(buffer, &data), TC_OK);
    for (uint64_t tag = 2; tag < 5; tag++) {
        net_prepare(&send, true, 1, tag, MIB);
        memcpy(data, send.bytes, MIB);
        send.xfer.data = data;
        net_post(&net, &send, 0);
        net_recv(&net, &recv, 1, 0, tag, MIB);
        net_finish(&net, &send, TC_OK);
        net_finish(&net, &recv, TC_OK);
        if (tag == 2)
            ever = fake_counts().registered;
    }
    assert_int_equal(fake_counts().regions, before + 1);
    assert_int_equal(fake_counts().registered, ever + 2); /* of the two receives alone */
    assert_int_equal(tc_buffer_free(&net.context, buffer), TC_OK);
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
        net_send(&net, &send[r], r, 1 - r, 5, 3 * MIB);
        net_recv(&net, &recv[r], r, 1 - r, 5, 3 * MIB);
    }
    while (!is_over) {
        assert_true(tci_loop_clock() < end_ns);
        net_turn(&net);
        is_over = net.nodes[0].losses > 0 && net.nodes[1].losses > 0;
        for (int r = 0; r < 2; r++)
            is_over = is_over && has_ended(&send[r]) && has_ended(&recv[r]);
    }
    for (int r = 0; r < 2; r++) {
        net_wait(&net, &send[r].xfer);
        net_wait(&net, &recv[r].xfer);
        assert_true(send[r].xfer.status == TC_OK || send[r].xfer.status == TC_ERR_PEER_LOST);
        if (recv[r].xfer.status == TC_OK)
            assert_true(net_is_intact(&recv[r]));
        net_free(&send[r]);
        net_free(&recv[r]);
    }
    assert_int_equal(fake_counts().qps, 0);
    assert_int_equal(net_stats(&net, 0).breaks + net_stats(&net, 1).breaks, 0);
    return net.nodes[0].error.pub.message;
}

static bool is_told(const char *text)
{
    return strstr(net.nodes[0].error.pub.message, text) != NULL ||
           strstr(net.nodes[1].error.pub.message, text) != NULL;
}

static void every_status_is_read_and_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(causes); i++)
        for (unsigned nth = 1; nth < (i < 2 ? 7 : 2); nth += 5) {
            net_exchange(&net, 1000, 1);
            fake_fate(-1, nth, FAKE_FAILS, causes[i].status);
            (void)break_in_the_middle();
            assert_true(is_told(causes[i].cause));
            assert_true(is_told("over RDMA any more (device fake0, port 1)"));
            net_close(&net);
            fake_setup_usual();
            net_open(&net, 2, EAGER);
        }
}

static void a_lost_message_is_found_by_the_next(void **state)
{
    static const int opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(opcodes); i++) {
        net_exchange(&net, 1000, 1);
        fake_fate(opcodes[i], 1, FAKE_IS_LOST, IBV_WC_SUCCESS);
        (void)break_in_the_middle();
        assert_true(is_told("was lost"));
        net_close(&net);
        fake_setup_usual();
        net_open(&net, 2, EAGER);
    }
}

static void a_port_that_goes_down_is_named(void **state)
{
    (void)state;
    net_exchange(&net, 1000, 1);
    fake_port(false);
    (void)break_in_the_middle();
    assert_true(is_told("look at the link, the cable and the switch"));
}

static void a_device_that_is_taken_out_is_named(void **state)
{
    (void)state;
    net_exchange(&net, 1000, 1);
    fake_remove();
    (void)break_in_the_middle();
    assert_true(is_told("taken out") || is_told("has failed"));
}

/* ---- Late ---- */

/* The peer's device may write as long as it has not been told; then nobody's memory is touched. */
static void a_receive_ends_in_time_though_the_peer_is_silent(void **state)
{
    struct tci_key key = {.tag = 3, .use = 1};
    struct net_message send, recv;

    (void)state;
    net_exchange(&net, 1000, 1);
    net_recv(&net, &recv, 1, 0, 3, 6 * MIB);
    net_turns(&net, 3);
    net_send(&net, &send, 0, 1, 3, 6 * MIB);
    fake_hold(true);
    net_turns(&net, 3);
    net_abort(&net, 1, &key);
    net_wait(&net, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_ERR_CANCELLED);
    memset(recv.bytes, 0x77, recv.xfer.len);
    fake_hold(false);
    net_wait(&net, &send.xfer);
    net_turns(&net, 3);
    for (size_t i = 0; i < recv.xfer.len; i++)
        assert_int_equal(recv.bytes[i], 0x77);
    net_free(&send);
    net_free(&recv);
}

static void an_idle_transport_sleeps(void **state)
{
    (void)state;
    net_exchange(&net, 1000, 1);
    for (int i = 0; i < 20; i++)
        net_turn(&net);
    assert_int_equal(tci_loop_pass(net.loop), 0);
    assert_true(tci_loop_may_sleep(net.loop));
    tci_wake_rise(net.loop);
}

static void sleep_tight(void)
{
    net_turns(&net, 20);
    assert_true(tci_loop_may_sleep(net.loop));
}

/* Whether a descriptor has ended the sleep, and not its time. */
static bool is_woken(void)
{
    unsigned before = net.loop->events;

    tci_loop_ask(net.loop, 10 * 1000 * TCI_NS_PER_MS);
    tci_wake_rise(net.loop);
    return net.loop->events != before;
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
    net_exchange(&net, 1000, 1);
    net_recv(&net, &recv, 1, 0, 3, 1000);
    net_turns(&net, 20);
    fake_hold(true);
    net_send(&net, &send, 0, 1, 3, 1000);
    sleep_tight();
    devices_work();
    assert_true(is_woken());
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
    sleep_tight();
    fake_remove();
    assert_true(is_woken());
    assert_int_equal(net.nodes[0].losses, 1);
}

/* A queue that is armed rings for what comes then, and for nothing that is in it. */
static void what_comes_before_it_sleeps_keeps_it_awake(void **state)
{
    struct net_message send, recv;

    (void)state;
    net_exchange(&net, 1000, 1);
    net_recv(&net, &recv, 1, 0, 3, 1000);
    net_turns(&net, 20);
    fake_hold(true);
    net_send(&net, &send, 0, 1, 3, 1000);
    net_turns(&net, 20);
    fake_hold(false);
    assert_false(tci_loop_may_sleep(net.loop));
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
}

/* ---- Without memory ---- */

static void wait_for_both(struct net_message *send, struct net_message *recv)
{
    uint64_t end_ns = tci_loop_clock() + 60 * 1000 * TCI_NS_PER_MS;

    while ((send->xfer.status == TC_OK || send->xfer.status == TC_PENDING) &&
           (recv->xfer.status == TC_OK || recv->xfer.status == TC_PENDING) &&
           (send->xfer.status != TC_OK || recv->xfer.status != TC_OK)) {
        assert_true(tci_loop_clock() < end_ns);
        net_turn(&net);
    }
    for (int r = 0; r < 2; r++)
        net_abort(&net, r, &recv->xfer.key);
    net_wait(&net, &send->xfer);
    net_wait(&net, &recv->xfer);
}

static void missing_memory_leaves_nothing_waiting(void **state)
{
    static const size_t lens[] = {1000, MIB};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(lens); i++)
        for (uint64_t n = 1, total = 0; n == 1 || n <= total; n++) {
            struct net_message send, recv;
            uint64_t before;

            before = tci_alloc_total();
            tci_alloc_fail_at(n, 0);
            net_send(&net, &send, 0, 1, 1, lens[i]);
            net_turns(&net, 3);
            net_recv(&net, &recv, 1, 0, 1, lens[i]);
            wait_for_both(&send, &recv);
            tci_alloc_fail_at(0, 0);
            total = tci_max(total, tci_alloc_total() - before);
            if (recv.xfer.status == TC_OK)
                assert_true(net_is_intact(&recv));
            net_free(&send);
            net_free(&recv);
            net_close(&net);
            fake_setup_usual();
            net_open(&net, 2, EAGER);
        }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_two, close_all)
#define SEALED(test)                                                                               \
    {                                                                                              \
        "sealed: " #test, test, open_two_sealed, close_all, NULL                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(where_packets_get_nowhere_both_use_tcp),
        CASE(where_there_are_no_queue_pairs_both_use_tcp),
        CASE(where_no_memory_can_be_registered_both_use_tcp),
        CASE(where_completions_have_no_room_both_use_tcp),
        CASE(a_peer_without_a_device_means_tcp),
        CASE(memory_that_is_not_registered_is_copied),
        CASE(many_receives_share_few_chunks),
        CASE(memory_of_buffers_stays_registered_until_it_is_freed),
        CASE(every_status_is_read_and_named),
        CASE(a_lost_message_is_found_by_the_next),
        CASE(a_port_that_goes_down_is_named),
        CASE(a_device_that_is_taken_out_is_named),
        CASE(a_receive_ends_in_time_though_the_peer_is_silent),
        CASE(an_idle_transport_sleeps),
        CASE(what_comes_while_it_sleeps_wakes_it),
        CASE(what_comes_before_it_sleeps_keeps_it_awake),
        CASE(missing_memory_leaves_nothing_waiting),
        SEALED(many_receives_share_few_chunks),
        SEALED(every_status_is_read_and_named),
        SEALED(a_device_that_is_taken_out_is_named),
        SEALED(a_receive_ends_in_time_though_the_peer_is_silent),
        SEALED(an_idle_transport_sleeps),
        SEALED(missing_memory_leaves_nothing_waiting),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma failures", tests, NULL, NULL);
}
