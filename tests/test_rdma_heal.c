/* test_rdma_heal.c - a queue pair that fails while its peer lives is made again, and goes on. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs libibverbs, long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "support/rdma_flow.h"
#include "support/rdma_pair.h"
#include "support/world.h"
#include "tcdist/log.h"

enum { MIB = 1 << 20, TURNS = 8, ROUNDS = 6, SMALL = 40, BRIEFLY_MS = 100, RANKS = 3 };

static struct pair_kind kinds[] = {{{"rdma", rdma_net_open}, NULL, 0},
                                   {{"sealed rdma", rdma_net_open_sealed}, NULL, 0},
                                   {{"2 cables", rdma_net_open_cables}, NULL, 0},
                                   {{"4 cables, sealed", rdma_net_open_sealed_cables}, NULL, 0}};
static struct pair_kind briefly = {{"rdma, briefly", rdma_net_open}, NULL, BRIEFLY_MS};

/* Both went on over queue pairs made since, and stand. */
static void check_healed(unsigned least)
{
    struct tci_transport_stats stats[2];

    net_exchange(&pair, 3 * MIB, 90);
    for (uint32_t r = 0; r < 2; r++) {
        stats[r] = net_stats(&pair, r);
        assert_true(stats[r].heals >= least);
        assert_true(stats[r].heals <= stats[r].breaks);
    }
    assert_int_equal(pair_losses(), 0);
}

/* ---- Cuts ---- */

static void a_path_that_is_away_for_a_moment_is_not_missed(void **state)
{
    int step = test_effort() == 0 ? 3 : 1;

    (void)state;
    for (size_t i = 0; i < TCI_LEN(kinds); i++)
        for (int turns = (int)i % step; turns < TURNS; turns += step) {
            struct rdma_flow flow;

            pair_open(&kinds[i]);
            net_exchange(&pair, MIB, 1);
            rdma_flow_start(&pair, &flow, 2);
            net_turns(&pair, turns);
            fake_port(false);
            net_turns(&pair, 1 + 5 * (turns % 5));
            fake_port(true);
            rdma_flow_finish(&pair, &flow);
            check_healed(0);
            pair_close();
        }
}

static int told_away, told_back;

static void count_line(tc_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    told_away += strstr(line, "has failed") != NULL;
    told_back += strstr(line, "stands again") != NULL;
}

/* However many queue pairs were made in vain. */
static void a_path_that_is_away_for_long_is_told_once_and_once_that_it_is_back(void **state)
{
    struct rdma_flow flow;

    (void)state;
    tc_log_set_sink(count_line, NULL);
    tc_log_set_level(TC_LOG_INFO);
    pair_open(&kinds[0]);
    net_exchange(&pair, MIB, 1);
    rdma_flow_start(&pair, &flow, 2);
    fake_path(false);
    while (net_stats(&pair, 0).breaks < 4 || net_stats(&pair, 1).breaks < 4)
        net_turn(&pair);
    assert_int_equal(told_back, 0);
    fake_path(true);
    rdma_flow_finish(&pair, &flow);
    check_healed(1);
    assert_int_equal(told_away, 2);
    assert_int_equal(told_back, 2);
    pair_close();
    tc_log_set_level(TC_LOG_ERROR);
    tc_log_set_sink(NULL, NULL);
}

/* A work request of either end fails: the device may have carried it out before, or not. */
static void a_work_request_that_fails_is_neither_lost_nor_doubled(void **state)
{
    static const enum ibv_wc_status statuses[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR,
                                                  IBV_WC_GENERAL_ERR, (enum ibv_wc_status)99};

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (unsigned n = 1 + (unsigned)i; n < 40; n += test_effort() == 0 ? 5 : 1 + n / 12) {
            struct rdma_flow flow;

            pair_open(&kinds[i]);
            net_exchange(&pair, 1000, 1);
            rdma_flow_start(&pair, &flow, 2);
            fake_fate(-1, n / 2 + 1, n % 2 == 0 ? FAKE_FAILS : FAKE_IS_UNSURE,
                      statuses[n / 2 % TCI_LEN(statuses)]);
            rdma_flow_finish(&pair, &flow);
            check_healed(1);
            pair_close();
        }
}

/* The first request over each new queue pair fails, too, at whichever end it is. */
static void a_queue_pair_may_fail_as_soon_as_it_is_made_again(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct rdma_flow flow;

        net_exchange(&pair, 1000, 1);
        rdma_flow_start(&pair, &flow, 2);
        for (unsigned i = 0; i < 5; i++) {
            uint64_t heals = net_stats(&pair, 0).heals;

            fake_fate(-1, 1 + (round + i) % 3, round % 2 == 0 ? FAKE_FAILS : FAKE_IS_UNSURE,
                      IBV_WC_RETRY_EXC_ERR);
            for (int turns = 0; net_stats(&pair, 0).heals == heals && turns < 100; turns++)
                net_turn(&pair);
        }
        rdma_flow_finish(&pair, &flow);
        check_healed(2);
    }
}

static void cuts_go_on_and_on(void **state)
{
    (void)state;
    net_exchange(&pair, 1000, 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct rdma_flow flow;

        rdma_flow_start(&pair, &flow, 2);
        for (int turns = 1; turns < 7; turns++) {
            net_turns(&pair, 2 * turns);
            fake_path(false);
            net_turns(&pair, 3);
            fake_path(true);
        }
        rdma_flow_finish(&pair, &flow);
    }
    check_healed(2);
}

/* Of several parts each, early or awaited, and in order: none twice, none missed. */
static void small_messages_go_on_where_they_were(void **state)
{
    static struct net_message sends[2][SMALL], recvs[2][SMALL];

    (void)state;
    net_exchange(&pair, 1000, 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SMALL; i++)
            for (uint32_t r = 0; r < 2; r++) {
                size_t len = i % 3 == 0 ? PAIR_EAGER - i : 100 * i;

                net_send(&pair, &sends[r][i], r, 1 - r, i % 5, len);
                if (i % 2 == round % 2)
                    net_turn(&pair);
                net_recv(&pair, &recvs[r][i], r, 1 - r, i % 5, len);
                if (i % 7 == round % 7)
                    fake_path(false);
                else if (i % 7 == (round + 1) % 7)
                    fake_path(true);
            }
        fake_path(true);
        for (unsigned i = 0; i < SMALL; i++)
            for (uint32_t r = 0; r < 2; r++) {
                net_finish(&pair, &sends[r][i], TC_OK);
                net_finish(&pair, &recvs[r][i], TC_OK);
            }
    }
    check_healed(1);
}

static void notices_come_once_and_all(void **state)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_CALL, .culprit = 0};

    (void)state;
    net_exchange(&pair, 1000, 1);
    fake_path(false);
    for (unsigned i = 0; i < SMALL; i++) {
        pair.nodes[0].transport->ops->notify(pair.nodes[0].transport, 1, &notice, true);
        net_turns(&pair, 2);
    }
    assert_int_equal(pair.nodes[1].notices, 0);
    fake_path(true);
    net_turn_until(&pair, &pair.nodes[1].notices, SMALL);
    check_healed(1);
    assert_int_equal(pair.nodes[1].notices, SMALL);
}

/* ---- Collectives ---- */

static uint64_t world_heals(const struct world *world)
{
    uint64_t heals = 0;

    for (int r = 0; r < world->size; r++) {
        tc_stats stats;

        assert_int_equal(tc_context_stats(world->context[r], TC_STATS_ABI_VERSION, &stats), TC_OK);
        heals += stats.heals;
    }
    return heals;
}

/* The sum of all ranks, while the path comes and goes. */
static void sum(struct world *world, int32_t *const *data, size_t count, uint64_t tag)
{
    const struct timespec moment = {.tv_nsec = 1000 * 1000};
    tc_future *futures[RANKS];

    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < count; i++)
            data[r][i] = (int32_t)(i * (size_t)(r + 1) + tag);
        futures[r] = tc_allreduce_async(world->group[r], tag, data[r], data[r], count, TC_DTYPE_I32,
                                        TC_REDUCE_SUM, NULL);
    }
    for (unsigned i = 0; i < 4; i++) {
        nanosleep(&moment, NULL);
        fake_path(i % 2 != 0);
    }
    for (int r = 0; r < RANKS; r++) {
        size_t wrong = 0;

        assert_int_equal(world_wait(world, futures[r]), TC_OK);
        tc_future_release(futures[r]);
        for (size_t i = 0; i < count; i++)
            wrong += data[r][i] != (int32_t)(i * 6 + 3 * tag);
        assert_int_equal(wrong, 0);
    }
}

static void an_allreduce_that_is_cut_again_and_again_is_right(void **state)
{
    tc_config config;
    struct world world;
    int32_t *data[RANKS];

    (void)state;
    fake_setup_usual();
    tc_config_default(&config);
    config.rdma = "1";
    assert_int_equal(setenv("TCDIST_SHM", "0", 1), 0);
    world_open(&world, RANKS, &config);
    for (int r = 0; r < RANKS; r++)
        assert_non_null(data[r] = malloc(2 * MIB * sizeof(**data)));
    sum(&world, data, 1, 1);
    for (uint64_t tag = 2; tag < 40 && (tag < 8 || world_heals(&world) == 0); tag++)
        sum(&world, data, 2 * MIB - tag, tag);
    assert_true(world_heals(&world) > 0);
    world_close(&world);
    assert_int_equal(unsetenv("TCDIST_SHM"), 0);
    for (int r = 0; r < RANKS; r++)
        free(data[r]);
    rdma_net_check_clean();
}

/* ---- What ends meanwhile ---- */

static void turn_until_away(void)
{
    while (pair_link(0, 0)->state != TCI_RDMA_HEALING || pair_link(1, 0)->state != TCI_RDMA_HEALING)
        net_turn(&pair);
}

/* Memory that is the user's again is neither read nor written by a queue pair made later. */
static void what_is_aborted_meanwhile_is_not_touched(void **state)
{
    (void)state;
    for (int turns = 0; turns < TURNS; turns++) {
        struct net_message send, recv;
        size_t wrong = 0;

        net_exchange(&pair, MIB, 1);
        net_send(&pair, &send, 0, 1, 2, 6 * MIB);
        net_recv(&pair, &recv, 1, 0, 2, 6 * MIB);
        net_turns(&pair, turns);
        fake_path(false);
        for (int i = 0; i < 50 && pair_link(1, 0)->state != TCI_RDMA_HEALING; i++)
            net_turn(&pair);
        net_abort(&pair, 0, &send.xfer.key);
        net_wait(&pair, &send.xfer);
        memset(send.bytes, 0x66, send.xfer.len);
        net_abort(&pair, 1, &recv.xfer.key);
        if (turns % 2 == 0)
            fake_path(true);
        net_wait(&pair, &recv.xfer);
        memset(recv.bytes, 0x77, recv.xfer.len);
        fake_path(true);
        net_exchange(&pair, MIB, 1);
        for (size_t i = 0; i < recv.xfer.len; i++)
            wrong += recv.bytes[i] != 0x77;
        assert_int_equal(wrong, 0);
        assert_int_equal(pair_losses(), 0);
        net_free(&send);
        net_free(&recv);
        pair_reopen();
    }
}

static void a_goodbye_waits_for_the_queue_pair(void **state)
{
    (void)state;
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        net_exchange(&pair, MIB, 1);
        rdma_flow_start(&pair, &flow, 2);
        net_turns(&pair, turns);
        fake_path(false);
        net_turns(&pair, 4);
        for (int r = 0; r < 2; r++)
            pair.nodes[r].transport->ops->leave(pair.nodes[r].transport);
        net_turns(&pair, 4);
        fake_path(true);
        rdma_flow_finish(&pair, &flow);
        for (int r = 0; r < 2; r++)
            net_turn_until(&pair, &pair.nodes[r].lefts, 1);
        assert_int_equal(pair_losses(), 0);
        pair_reopen();
    }
}

static void a_close_meanwhile_leaves_nothing(void **state)
{
    (void)state;
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        net_exchange(&pair, MIB, 1);
        rdma_flow_start(&pair, &flow, 2);
        net_turns(&pair, 3);
        fake_port(false);
        net_turns(&pair, turns);
        net_close_transports(&pair);
        rdma_flow_drop(&pair, &flow);
        pair_reopen();
    }
}

/* ---- What cannot be healed ---- */

static void drop_lost(struct rdma_flow *flow)
{
    rdma_flow_drop(&pair, flow);
    net_turn_until(&pair, &pair.nodes[0].losses, 1);
    net_turn_until(&pair, &pair.nodes[1].losses, 1);
    assert_int_equal(fake_counts().qps, 0);
}

static void a_path_that_stays_dead_is_named(void **state)
{
    struct rdma_flow flow;

    (void)state;
    net_exchange(&pair, MIB, 1);
    rdma_flow_start(&pair, &flow, 2);
    fake_port(false);
    drop_lost(&flow);
    assert_true(pair_is_told("over RDMA any more (device fake0, port 1): no acknowledgement came"));
}

/* All else passes, again and again; what is posted again and again does not. */
static void a_work_request_that_always_fails_is_named(void **state)
{
    static struct net_message send, recv;

    (void)state;
    net_exchange(&pair, MIB, 1);
    net_send(&pair, &send, 0, 1, 2, 3 * MIB);
    net_recv(&pair, &recv, 1, 0, 2, 3 * MIB);
    while (pair.nodes[0].losses == 0) {
        fake_fate(IBV_WR_RDMA_WRITE_WITH_IMM, 1, FAKE_FAILS, IBV_WC_RNR_RETRY_EXC_ERR);
        net_turn(&pair);
    }
    net_finish(&pair, &send, TC_ERR_PEER_LOST);
    net_finish(&pair, &recv, TC_ERR_PEER_LOST);
    assert_true(
        pair_is_told("over RDMA any more (device fake0, port 1): it had no receive posted"));
}

/* Nobody uses it in between: the word that each end says first has shown that the way was free. */
static void one_that_fails_again_later_has_the_whole_time(void **state)
{
    (void)state;
    net_exchange(&pair, 1000, 1);
    for (unsigned heals = 1; heals <= 3; heals++) {
        uint64_t end_ns;

        tci_rdma_link_break(pair_link(0, 0), tci_rdma_flushed);
        while (net_stats(&pair, 0).heals < heals || net_stats(&pair, 1).heals < heals) {
            net_turn(&pair);
            assert_int_equal(pair_losses(), 0);
        }
        end_ns = tci_loop_clock() + 2 * BRIEFLY_MS * TCI_NS_PER_MS;
        while (tci_loop_clock() < end_ns)
            net_turn(&pair);
    }
    check_healed(3);
}

static const struct tci_exec_ops *usual;
static const struct tci_timer *refused;

static int refuse_timer(struct tci_exec *self, struct tci_timer *timer, uint64_t deadline_ns)
{
    return timer == refused ? -1 : usual->timer_set(self, timer, deadline_ns);
}

static void without_memory_to_wait_the_peer_is_lost(void **state)
{
    struct tci_exec_ops poor;
    struct tci_exec *exec;

    (void)state;
    net_exchange(&pair, MIB, 1);
    exec = pair_link(0, 0)->rdma->exec;
    refused = &pair_link(0, 0)->heal.timer;
    usual = exec->ops;
    poor = *usual;
    poor.timer_set = refuse_timer;
    exec->ops = &poor;
    tci_rdma_link_break(pair_link(0, 0), tci_rdma_flushed);
    for (int turns = 0; pair_losses() == 0 && turns < 100000; turns++)
        net_turn(&pair);
    exec->ops = usual;
    assert_true(pair_is_told("no memory was left to wait for it"));
}

/* Its connection tells, long before the time to heal is over. */
static void a_peer_that_has_ended_is_not_waited_for(void **state)
{
    struct rdma_flow flow;

    (void)state;
    net_exchange(&pair, MIB, 1);
    rdma_flow_start(&pair, &flow, 2);
    fake_port(false);
    turn_until_away();
    pair.nodes[1].transport->ops->close(pair.nodes[1].transport);
    pair.nodes[1].transport = NULL;
    rdma_flow_drop(&pair, &flow);
    assert_int_equal(pair.nodes[0].losses, 1);
    assert_true(pair_is_told("has closed"));
    assert_int_equal(fake_counts().qps, 0);
}

static void without_another_queue_pair_the_peer_is_lost(void **state)
{
    struct rdma_flow flow;

    (void)state;
    net_exchange(&pair, MIB, 1);
    rdma_flow_start(&pair, &flow, 2);
    fake_refuse(true, false);
    fake_fate(-1, 1, FAKE_FAILS, IBV_WC_RETRY_EXC_ERR);
    drop_lost(&flow);
    assert_true(pair_is_told("gives no queue pair"));
}

/* Another queue pair would meet the same, or what the device has acknowledged is not there. */
static void what_would_only_fail_again_is_not_tried(void **state)
{
    struct rdma_flow flow;

    (void)state;
    net_exchange(&pair, MIB, 1);
    rdma_flow_start(&pair, &flow, 2);
    fake_fate(IBV_WR_RDMA_WRITE_WITH_IMM, 1, FAKE_FAILS, IBV_WC_REM_ACCESS_ERR);
    drop_lost(&flow);
    assert_true(pair_is_told("its device refused to write"));
    assert_int_equal(net_stats(&pair, 0).heals, 0);
    pair_reopen();

    net_exchange(&pair, MIB, 1);
    rdma_flow_start(&pair, &flow, 2);
    net_turns(&pair, 4);
    pair_link(0, 0)->had = pair_link(0, 0)->works_done - 1;
    tci_rdma_on_failed(pair_link(0, 0), pair_link(0, 0)->works_done - 1, "a test says so");
    drop_lost(&flow);
    assert_true(pair_is_told("lost what it had acknowledged"));
}

static void say(uint32_t from, enum tci_rdma_meeting what, const char *text)
{
    struct tci_notice notice = {
        .kind = TCI_NOTICE_RDMA, .culprit = (int32_t)from, .arg = (uint64_t)what};
    struct tci_transport *tcp = tci_rdma_below(pair.nodes[from].transport);

    memcpy(notice.text, text, strlen(text) + 1);
    tcp->ops->notify(tcp, 1 - from, &notice, true);
}

/* Words that nobody waits for are passed over, those that no end says lose the peer; by name. */
static void words_out_of_turn_do_no_harm(void **state)
{
    static const char *const texts[] = {"", "no card", "4 32 8192 65536 4096 0 2 99 1 1 0 0 00",
                                        "4294967295 it says"};

    (void)state;
    for (int what = TCI_RDMA_OFFER; what <= TCI_RDMA_FAILED; what++)
        for (size_t i = 0; i < TCI_LEN(texts); i++) {
            uint32_t from = ((size_t)what + i) % 2;
            struct rdma_flow flow;

            net_exchange(&pair, MIB, 1);
            rdma_flow_start(&pair, &flow, 2);
            net_turns(&pair, 3);
            fake_path(false);
            turn_until_away();
            say(from, (enum tci_rdma_meeting)what, texts[i]);
            net_turns(&pair, 10);
            fake_path(true);
            rdma_flow_drop(&pair, &flow);
            pair_reopen();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_that_is_away_for_a_moment_is_not_missed),
        cmocka_unit_test(a_path_that_is_away_for_long_is_told_once_and_once_that_it_is_back),
        cmocka_unit_test(a_work_request_that_fails_is_neither_lost_nor_doubled),
        PAIR_CASE(a_queue_pair_may_fail_as_soon_as_it_is_made_again, kinds[0]),
        PAIR_CASE(a_queue_pair_may_fail_as_soon_as_it_is_made_again, kinds[1]),
        PAIR_CASE(cuts_go_on_and_on, kinds[0]),
        PAIR_CASE(cuts_go_on_and_on, kinds[1]),
        PAIR_CASE(small_messages_go_on_where_they_were, kinds[0]),
        PAIR_CASE(small_messages_go_on_where_they_were, kinds[1]),
        PAIR_CASE(notices_come_once_and_all, kinds[0]),
        cmocka_unit_test(an_allreduce_that_is_cut_again_and_again_is_right),
        PAIR_CASE(what_is_aborted_meanwhile_is_not_touched, kinds[0]),
        PAIR_CASE(what_is_aborted_meanwhile_is_not_touched, kinds[1]),
        PAIR_CASE(a_goodbye_waits_for_the_queue_pair, kinds[0]),
        PAIR_CASE(a_close_meanwhile_leaves_nothing, kinds[0]),
        PAIR_CASE(a_path_that_stays_dead_is_named, briefly),
        PAIR_CASE(a_work_request_that_always_fails_is_named, briefly),
        PAIR_CASE(one_that_fails_again_later_has_the_whole_time, briefly),
        PAIR_CASE(without_memory_to_wait_the_peer_is_lost, kinds[0]),
        PAIR_CASE(a_peer_that_has_ended_is_not_waited_for, kinds[0]),
        PAIR_CASE(without_another_queue_pair_the_peer_is_lost, briefly),
        PAIR_CASE(what_would_only_fail_again_is_not_tried, kinds[0]),
        PAIR_CASE(words_out_of_turn_do_no_harm, kinds[0]),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    tc_log_set_level(TC_LOG_ERROR);
    return cmocka_run_group_tests_name("rdma heal", tests, NULL, NULL);
}
