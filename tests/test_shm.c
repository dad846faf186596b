/* test_shm.c - the transport over shared memory does what every transport must do. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/copy.h"
#include "core/plan.h"
#include "loop/state.h"
#include "net/shm_link.h"
#include "support/shm_net.h"

static void missing_memory_leaves_nothing_waiting(void **state)
{
    static const size_t lens[] = {1000, 1 << 20};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(lens); i++)
        for (uint64_t n = 1, total = 0; n == 1 || n <= total; n++) {
            struct net net;

            net_open(&net, 2, 65536);
            total = tci_max(total, net_send_without_memory(&net, n, lens[i]));
            net_close(&net);
        }
}

/* ---- One copy ---- */

/* What rank 0 copies into the ring for one message. */
static uint64_t copied_for(struct net *net, uint8_t coll, size_t len)
{
    static uint64_t tag;
    struct net_message send, recv;
    uint64_t before = net_stats(net, 0).bytes_copied;

    tag++;
    net_prepare(&recv, false, 0, tag, len);
    net_prepare(&send, true, 1, tag, len);
    recv.call.coll = send.call.coll = coll;
    net_post(net, &recv, 1);
    net_post(net, &send, 0);
    net_finish(net, &send, TC_OK);
    net_finish(net, &recv, TC_OK);
    return net_stats(net, 0).bytes_copied - before;
}

static void what_only_moves_is_lent_where_a_copy_is_dearer(void **state)
{
    static const uint8_t moves[] = {TCI_COLL_BROADCAST, TCI_COLL_ALLGATHER, TCI_COLL_ALLGATHERV,
                                    TCI_COLL_ALLTOALL,  TCI_COLL_ALLTOALLV, TCI_COLL_GATHER,
                                    TCI_COLL_SCATTER};
    struct net net;

    (void)state;
    net_open(&net, 2, TCI_SHM_EAGER_MAX);
    net_exchange(&net, 8, 1000); /* they have met */
    for (size_t i = 0; i < TCI_LEN(moves); i++) {
        assert_int_equal(copied_for(&net, moves[i], TCI_SHM_MOVED_MIN), 0);
        assert_int_equal(copied_for(&net, moves[i], TCI_SHM_MOVED_MIN - 1), TCI_SHM_MOVED_MIN - 1);
    }
    assert_int_equal(copied_for(&net, TCI_COLL_ALLREDUCE, TCI_SHM_EAGER_MAX), TCI_SHM_EAGER_MAX);
    assert_int_equal(copied_for(&net, TCI_COLL_P2P, TCI_SHM_EAGER_MAX), TCI_SHM_EAGER_MAX);
    net_close(&net);
}

static void parts_of_an_all_reduce_come_through_the_ring_while_they_are_short(void **state)
{
    enum { SHORT = TCI_SHM_STREAM_MAX - 1 };
    struct net net;

    (void)state;
    net_open(&net, 2, TCI_SHM_EAGER_MAX);
    net_exchange(&net, 8, 1000);
    assert_int_equal(copied_for(&net, TCI_COLL_ALLREDUCE, TCI_SHM_EAGER_MAX + 1),
                     TCI_SHM_EAGER_MAX + 1);
    assert_int_equal(copied_for(&net, TCI_COLL_ALLREDUCE, SHORT), SHORT);
    assert_int_equal(copied_for(&net, TCI_COLL_ALLREDUCE, TCI_SHM_STREAM_MAX), 0);
    assert_int_equal(copied_for(&net, TCI_COLL_REDUCE_SCATTER, SHORT), 0);
    net_close(&net);
}

/* ---- Urgent beside bulk ---- */

enum { BULK = 16 << 20, URGENT = 4096 };

static uint64_t received(const struct net *net)
{
    return net_stats(net, 1).bytes_received;
}

/* Turns until some of the bulk has been read, and counts how much. */
static uint64_t read_a_piece(struct net *net)
{
    uint64_t before = received(net), end_ns = tci_loop_clock() + 60 * 1000 * TCI_NS_PER_MS;

    while (received(net) == before) {
        assert_true(tci_loop_clock() < end_ns);
        (void)tci_loop_pass(net->loop);
    }
    return received(net) - before;
}

/* Until the two have met and the bulk is under way. */
static void begin_bulk(struct net *net)
{
    while (received(net) < TCI_SHM_MOVE_MAX)
        (void)read_a_piece(net);
}

static void post_urgent(struct net *net, struct net_message *message, bool is_send, uint64_t tag)
{
    net_prepare(message, is_send, is_send ? 1 : 0, tag, URGENT);
    message->xfer.priority = 100;
    net_post(net, message, is_send ? 0 : 1);
}

static void bulk_stands_back_for_what_is_urgent(void **state)
{
    struct net_message bulk, bulk_in, urgent, urgent_in;
    uint64_t before;
    struct net net;

    (void)state;
    net_open(&net, 2, 65536);
    net_recv(&net, &bulk_in, 1, 0, 1, BULK);
    net_send(&net, &bulk, 0, 1, 1, BULK);
    begin_bulk(&net);
    assert_int_equal(read_a_piece(&net), TCI_SHM_MOVE_MAX);

    /* Awaited for long, it keeps pieces short, one in a turn; then it goes before the next. */
    post_urgent(&net, &urgent_in, false, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(read_a_piece(&net), TCI_SHM_READ_BESIDE);
    before = received(&net);
    post_urgent(&net, &urgent, true, 2);
    (void)tci_loop_pass(net.loop);
    assert_int_equal(urgent_in.xfer.status, TC_OK);
    assert_int_equal(received(&net) - before, URGENT);
    assert_int_equal(bulk_in.xfer.status, TC_PENDING);
    net_finish(&net, &urgent, TC_OK);
    net_finish(&net, &urgent_in, TC_OK);

    /* Afterwards they are long again. */
    assert_int_equal(read_a_piece(&net), TCI_SHM_MOVE_MAX);
    net_finish(&net, &bulk, TC_OK);
    net_finish(&net, &bulk_in, TC_OK);
    net_close(&net);
}

/* Bulk that is as urgent or more stands back for nothing. */
static void bulk_stands_back_for_nothing_else(void **state)
{
    struct net_message bulk, bulk_in, other_in;
    struct net net;

    (void)state;
    net_open(&net, 2, 65536);
    net_prepare(&bulk_in, false, 0, 1, BULK);
    net_prepare(&bulk, true, 1, 1, BULK);
    bulk.xfer.priority = bulk_in.xfer.priority = 100;
    net_post(&net, &bulk_in, 1);
    net_post(&net, &bulk, 0);
    begin_bulk(&net);
    post_urgent(&net, &other_in, false, 2);
    assert_int_equal(read_a_piece(&net), TCI_SHM_MOVE_MAX);
    net_finish(&net, &bulk, TC_OK);
    net_finish(&net, &bulk_in, TC_OK);
    net_abort(&net, 1, &other_in.xfer.key);
    net_finish(&net, &other_in, TC_ERR_CANCELLED);
    net_close(&net);
}

/* A loan that has come is read in a later turn, for what has come with it may have to be answered
 * first; however busy the turn before was. */
static void a_loan_is_not_read_in_the_turn_that_it_comes_in(void **state)
{
    struct net_message small, small_in, bulk, bulk_in;
    struct tci_source *source;
    struct net net;

    (void)state;
    net_open(&net, 2, 65536);
    net_exchange(&net, 8, 1000); /* they have met */
    source = &tci_shm_of(net.nodes[1].transport)->source;
    net_recv(&net, &small_in, 1, 0, 50, 1000);
    net_recv(&net, &bulk_in, 1, 0, 51, BULK);
    net_send(&net, &small, 0, 1, 50, 1000);
    assert_true(tci_shm_poll(source, 64) > 0);
    assert_int_equal(small_in.xfer.status, TC_OK);
    net_send(&net, &bulk, 0, 1, 51, BULK);
    assert_true(tci_shm_poll(source, 64) > 0);
    assert_int_equal(bulk_in.xfer.room[TCI_ROOM_DONE], 0);
    assert_false(tci_shm_arm(source)); /* there is something to do */
    assert_true(tci_shm_poll(source, 64) > 0);
    assert_int_not_equal(bulk_in.xfer.room[TCI_ROOM_DONE], 0);
    net_finish(&net, &small, TC_OK);
    net_finish(&net, &bulk, TC_OK);
    net_finish(&net, &bulk_in, TC_OK);
    net_finish(&net, &small_in, TC_OK);
    net_close(&net);
}

static unsigned poll_of(struct net *net, int rank)
{
    return tci_shm_poll(&tci_shm_of(net->nodes[rank].transport)->source, TCI_SHM_BATCH);
}

/* Who lends does not go to sleep while it is read: each piece but the last, which ends the loan, is
 * something that has happened. */
static void a_lender_sees_that_it_is_read(void **state)
{
    struct net_message bulk, bulk_in;
    struct net net;

    (void)state;
    net_open(&net, 2, 65536);
    net_exchange(&net, 8, 1000); /* they have met */
    net_recv(&net, &bulk_in, 1, 0, 51, BULK);
    net_send(&net, &bulk, 0, 1, 51, BULK);
    while (poll_of(&net, 1) > 0 && bulk_in.xfer.status == TC_PENDING) {
        uint64_t done = bulk_in.xfer.room[TCI_ROOM_DONE];

        assert_int_equal(poll_of(&net, 0), done > 0 && done < BULK);
        assert_int_equal(poll_of(&net, 0), 0);
    }
    assert_int_equal(bulk_in.xfer.status, TC_OK);
    net_finish(&net, &bulk, TC_OK);
    net_finish(&net, &bulk_in, TC_OK);
    net_close(&net);
}

/* A peer that has as much to say as a turn takes in, turn by turn, keeps nothing of another's
 * waiting, whichever of the two is the first in a turn. */
static void read_beside_a_peer_that_never_pauses(int turns_before)
{
    enum { TURNS = 8, EACH = TCI_SHM_BATCH };
    static struct net_message sends[TURNS][EACH], recvs[TURNS][EACH];
    struct net_message met[2], met_in[2], bulk, bulk_in;
    struct net net;

    net_open(&net, 3, 65536);
    for (uint32_t r = 0; r < 2; r++) {
        net_recv(&net, &met_in[r], 0, r + 1, 8, 1000);
        net_send(&net, &met[r], r + 1, 0, 8, 1000);
        net_finish(&net, &met[r], TC_OK);
        net_finish(&net, &met_in[r], TC_OK);
    }
    net_recv(&net, &bulk_in, 0, 2, 9, BULK);
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn == turns_before)
            net_send(&net, &bulk, 2, 0, 9, BULK);
        for (int i = 0; i < EACH; i++) {
            net_recv(&net, &recvs[turn][i], 0, 1, 100 + (uint64_t)i, 8);
            net_send(&net, &sends[turn][i], 1, 0, 100 + (uint64_t)i, 8);
        }
        assert_true(poll_of(&net, 0) > 0);
    }
    assert_int_not_equal(bulk_in.xfer.room[TCI_ROOM_DONE], 0);
    for (int i = 0; i < TURNS * EACH; i++) {
        net_finish(&net, &sends[i / EACH][i % EACH], TC_OK);
        net_finish(&net, &recvs[i / EACH][i % EACH], TC_OK);
    }
    net_finish(&net, &bulk, TC_OK);
    net_finish(&net, &bulk_in, TC_OK);
    net_close(&net);
}

static void a_loan_is_read_beside_a_peer_that_never_pauses(void **state)
{
    (void)state;
    for (int turns_before = 0; turns_before < 4; turns_before++)
        read_beside_a_peer_that_never_pauses(turns_before);
}

/* ---- How what is copied is stored ---- */

static void send_and_look(struct net *net, unsigned count, size_t len)
{
    for (unsigned i = 0; i < count; i++) {
        struct net_message send, recv;

        net_recv(net, &recv, 1, 0, 100 + i, len);
        net_send(net, &send, 0, 1, 100 + i, len);
        net_wait(net, &send.xfer);
        net_wait(net, &recv.xfer);
        assert_true(net_is_intact(&recv));
        net_free(&send);
        net_free(&recv);
    }
}

static void both_ways_to_store_are_tried(void **state)
{
    struct tci_shm_link *writer, *reader;
    struct net net;

    (void)state;
    net_open(&net, 2, 65536);
    net_exchange(&net, 8, 1000);
    writer = tci_shm_of(net.nodes[0].transport)->links[1];
    reader = tci_shm_of(net.nodes[1].transport)->links[0];
    send_and_look(&net, 1000, TCI_COPY_AWAY_MIN - 1);
    assert_int_equal(reader->reader.read_bytes[0] + reader->reader.read_bytes[1], 0);
    send_and_look(&net, 200, 16384);
    assert_true(reader->reader.read_bytes[0] >= TCI_SHM_RING);
    assert_true(reader->reader.read_bytes[1] >= TCI_SHM_RING);
    assert_int_not_equal(writer->store.rest, 0);

    /* Whatever the reader says. */
    for (int i = 0; i < 2; i++) {
        reader->reader.read_ns[i] = i == 0 ? UINT64_MAX : 0;
        reader->reader.read_bytes[i] = i == 0 ? 0 : UINT64_MAX;
    }
    send_and_look(&net, 1000, 16384);
    net_close(&net);
}

/* ---- Who is woken ---- */

/* What has been put is rung for later; by then the link may be gone. */
static void a_link_that_ends_wakes_who_sleeps_for_what_was_put(void **state)
{
    struct net_message send, recv;
    struct tci_transport *from;
    struct tci_shm_link *link;
    struct tci_shm *to;
    struct net net;

    (void)state;
    net_open(&net, 2, 65536);
    net_exchange(&net, 8, 1000);
    from = net.nodes[0].transport;
    link = tci_shm_of(from)->links[1];
    to = tci_shm_of(net.nodes[1].transport);
    net_recv(&net, &recv, 1, 0, 1, 8);
    net_prepare(&send, true, 1, 1, 8);
    send.xfer.call = &send.call;
    net_turns(&net, 3);
    assert_true(tci_shm_arm(&to->source));

    assert_true(from->ops->put(from, &send.xfer));
    assert_int_equal(atomic_load(&to->links[0]->reader.way->is_asleep), 1);
    tci_shm_link_end(link, TC_ERR_CLOSED);

    assert_int_equal(atomic_load(&to->links[0]->reader.way->is_asleep), 0);
    tci_transport_ring(from); /* for nobody by now */
    net_finish(&net, &recv, TC_OK);
    net_free(&send);
    net_close(&net);
}

/* What nobody awaits would only be copied: it can lie where it is. */
static void of_what_nobody_awaits_one_message_a_turn_is_taken_in(void **state)
{
    struct net_message sends[3], recv;
    struct tci_shm *to;
    struct net net;

    (void)state;
    net_open(&net, 2, 65536);
    net_exchange(&net, 8, 1000);
    to = tci_shm_of(net.nodes[1].transport);
    for (uint64_t i = 0; i < 3; i++)
        net_send(&net, &sends[i], 0, 1, i, 8);
    assert_int_equal(tci_shm_poll(&to->source, 64), 1);
    assert_int_equal(to->match->early_count, 1);
    for (uint64_t i = 0; i < 3; i++) {
        net_recv(&net, &recv, 1, 0, i, 8);
        net_finish(&net, &recv, TC_OK);
        net_finish(&net, &sends[i], TC_OK);
    }
    net_close(&net);
}

/* A writer that goes to sleep while something of its own waits for room hears of the first. */
static void who_sleeps_for_room_is_told_of_it_at_once(void **state)
{
    enum { LEN = 4096, COUNT = 2 * TCI_SHM_RING / LEN };
    static struct net_message sends[COUNT], recvs[COUNT];
    struct tci_shm *from, *to;
    struct tci_shm_way *way;
    struct net net;

    (void)state;
    net_open(&net, 2, 65536);
    net_exchange(&net, 8, 1000);
    net_turns(&net, 3);
    from = tci_shm_of(net.nodes[0].transport);
    to = tci_shm_of(net.nodes[1].transport);
    way = from->links[1]->writer.way;
    for (uint64_t i = 0; i < COUNT; i++)
        net_recv(&net, &recvs[i], 1, 0, i, LEN);
    for (uint64_t i = 0; i < COUNT; i++)
        net_send(&net, &sends[i], 0, 1, i, LEN);
    assert_int_equal(sends[COUNT - 1].xfer.status, TC_PENDING);

    assert_true(tci_shm_arm(&from->source));
    assert_int_equal(atomic_load(&way->wants_room), 1);
    assert_int_equal(tci_shm_poll(&to->source, 1), 1);

    assert_int_equal(atomic_load(&way->wants_room), 0);
    for (uint64_t i = 0; i < COUNT; i++) {
        net_finish(&net, &sends[i], TC_OK);
        net_finish(&net, &recvs[i], TC_OK);
    }
    net_close(&net);
}

/* Whoever reads another's memory makes sure first that it is still there; valgrind has no such
 * call, and ranks under it send all through the ring. */
static bool can_watch_processes(void)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (fd < 0)
        return false;
    close(fd);
    return true;
}

static int run_reading(void)
{
    const struct CMUnitTest memory[] = {
        cmocka_unit_test(missing_memory_leaves_nothing_waiting),
        cmocka_unit_test(what_only_moves_is_lent_where_a_copy_is_dearer),
        cmocka_unit_test(parts_of_an_all_reduce_come_through_the_ring_while_they_are_short),
    };
    const struct CMUnitTest urgent[] = {
        cmocka_unit_test(bulk_stands_back_for_what_is_urgent),
        cmocka_unit_test(bulk_stands_back_for_nothing_else),
        cmocka_unit_test(a_loan_is_not_read_in_the_turn_that_it_comes_in),
        cmocka_unit_test(a_lender_sees_that_it_is_read),
        cmocka_unit_test(a_loan_is_read_beside_a_peer_that_never_pauses)};
    const struct CMUnitTest stores[] = {cmocka_unit_test(both_ways_to_store_are_tried)};
    const struct CMUnitTest wakes[] = {
        cmocka_unit_test(a_link_that_ends_wakes_who_sleeps_for_what_was_put),
        cmocka_unit_test(who_sleeps_for_room_is_told_of_it_at_once),
        cmocka_unit_test(of_what_nobody_awaits_one_message_a_turn_is_taken_in)};
    int failed;

    failed =
        _cmocka_run_group_tests("messages", transport_suite, transport_suite_count, NULL, NULL);
    failed += _cmocka_run_group_tests("ends", transport_ends, transport_ends_count, NULL, NULL);
    failed += _cmocka_run_group_tests("memory", memory, TCI_LEN(memory), NULL, NULL);
    failed += _cmocka_run_group_tests("stores", stores, TCI_LEN(stores), NULL, NULL);
    failed += _cmocka_run_group_tests("wakes", wakes, TCI_LEN(wakes), NULL, NULL);
    return failed + _cmocka_run_group_tests("urgent", urgent, TCI_LEN(urgent), NULL, NULL);
}

int main(void)
{
    static const struct net_subject reading = {"shm", shm_net_open},
                                    mapping = {"shm, mapping", shm_net_open_mapping};
    int failed = 0;

    net_subject = &reading;
    if (can_watch_processes())
        failed = run_reading();
    else
        puts("the system has no pidfd_open: what is read from a peer's memory is not tried");
    /* What the peer's memory cannot be read for is sent through the ring, which is a copy more. */
    net_subject = &mapping;
    cmocka_set_skip_filter("large_payload_is_never_copied");
    failed += _cmocka_run_group_tests("sent messages", transport_suite, transport_suite_count, NULL,
                                      NULL);
    failed +=
        _cmocka_run_group_tests("sent ends", transport_ends, transport_ends_count, NULL, NULL);
    return failed;
}
