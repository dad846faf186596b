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

#include "core/plan.h"
#include "core/reduce.h"
#include "net/frame.h"
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

/* The first word of the next record, and nothing else of it. */
static void put_length(uint32_t bytes)
{
    struct tci_shm_link *link = link_of(1, 0);

    atomic_store((_Atomic uint32_t *)(void *)(link->writer.ring + link->writer.head % TCI_SHM_RING),
                 bytes);
    rank_1_is_lost_alone("a record of an impossible length");
}

static void a_record_beyond_the_ring_is_the_end_of_a_link(void **state)
{
    (void)state;
    put_length(TCI_SHM_RING);
}

static void a_record_of_half_a_line_is_the_end_of_a_link(void **state)
{
    (void)state;
    put_length(TCI_SHM_LINE / 2);
}

static void a_record_of_a_line_and_a_half_is_the_end_of_a_link(void **state)
{
    (void)state;
    put_length(TCI_SHM_LINE * 3 / 2);
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

/* ---- What is lent --------------------------------------------------------------------------- */

enum { LENT = 100000, PIECE = 4096, BEYOND = 1 << 20 };

/* Rank 0 is to wait for what rank 1 lends. */
static void prepare(struct net_message *recv, struct net_message *lent, uint8_t coll)
{
    static uint64_t tag = 9;

    tag++;
    net_prepare(recv, false, 1, tag, LENT);
    net_prepare(lent, true, 0, tag, LENT);
    recv->call.coll = lent->call.coll = coll;
}

/* At an address where it lies. */
static void lend_prepared(struct net_message *recv, const struct net_message *lent,
                          struct tci_shm_lend how)
{
    struct tci_shm_head head = {.kind = TCI_SHM_LEND, .len = sizeof(how)};

    net_post(&net, recv, 0);
    tci_shm_head_of(&head, TCI_SHM_LEND, &lent->xfer.key, &recv->call);
    how.total = LENT;
    how.id = UINT64_C(1) << 40;
    how.addr = (uint64_t)(uintptr_t)lent->bytes;
    how.epoch += atomic_load(&link_of(1, 0)->writer.way->epoch);
    put(&head, &how, sizeof(how));
    for (int i = 0; i < 3; i++)
        (void)tci_shm_poll(&tci_shm_of(net.nodes[0].transport)->source, TCI_SHM_BATCH);
}

static void lend(struct net_message *recv, struct net_message *lent, uint8_t coll,
                 struct tci_shm_lend how)
{
    prepare(recv, lent, coll);
    lend_prepared(recv, lent, how);
}

/* Rank 1 sends a piece of it. */
static void put_piece(const struct net_message *lent, uint64_t offset, uint32_t len)
{
    put(
        &(struct tci_shm_head){
            .kind = TCI_SHM_PIECE, .tag = UINT64_C(1) << 40, .word = offset, .len = len},
        lent->bytes, len);
}

static void wait_for_loss(struct net_message *recv, struct net_message *lent, const char *why)
{
    rank_1_is_lost_alone(why);
    net_finish(&net, recv, TC_ERR_PEER_LOST);
    net_free(lent);
}

/* Of an all-reduce: it is asked to send. */
static void a_piece_that_is_not_the_next_is_the_end_of_a_link(void **state)
{
    struct net_message recv, lent;

    (void)state;
    lend(&recv, &lent, TCI_COLL_ALLREDUCE, (struct tci_shm_lend){0});
    put_piece(&lent, 0, PIECE);
    put_piece(&lent, 2 * PIECE, PIECE);
    wait_for_loss(&recv, &lent, "a piece of a message that does not go on");
}

/* What is folded goes on by whole elements. */
static void a_piece_that_splits_an_element_is_the_end_of_a_link(void **state)
{
    struct net_message recv, lent;
    struct tci_fold fold;

    (void)state;
    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_F32, TC_REDUCE_SUM), TC_OK);
    prepare(&recv, &lent, TCI_COLL_ALLREDUCE);
    recv.xfer.fold = &fold;
    recv.xfer.operand = recv.bytes;
    lend_prepared(&recv, &lent, (struct tci_shm_lend){0});
    put_piece(&lent, 0, PIECE + 2);
    wait_for_loss(&recv, &lent, "a piece of a message that does not go on");
}

static void a_piece_beyond_its_message_is_the_end_of_a_link(void **state)
{
    struct net_message recv, lent;

    (void)state;
    lend(&recv, &lent, TCI_COLL_ALLREDUCE, (struct tci_shm_lend){0});
    for (uint64_t offset = 0; offset + PIECE <= LENT; offset += PIECE) {
        put_piece(&lent, offset, PIECE);
        net_turn(&net);
    }
    put_piece(&lent, LENT / PIECE * PIECE, LENT % PIECE + 1);
    wait_for_loss(&recv, &lent, "a piece of a message that does not go on");
}

/* It was read, and is not known to be good: no piece of nothing makes it so. */
static void a_piece_that_was_not_asked_for_is_the_end_of_a_link(void **state)
{
    struct net_message recv, lent;

    (void)state;
    if (!link_of(0, 1)->may_read)
        skip();
    lend(&recv, &lent, TCI_COLL_P2P, (struct tci_shm_lend){.epoch = 1});
    assert_int_equal(recv.xfer.status, TC_PENDING);
    assert_int_equal(recv.xfer.room[TCI_ROOM_DONE], LENT);
    put_piece(&lent, LENT, 0);
    wait_for_loss(&recv, &lent, "a piece of a message that does not go on");
}

static void what_is_to_be_sent_is_not_read_for_being_good(void **state)
{
    struct net_message recv, lent;

    (void)state;
    lend(&recv, &lent, TCI_COLL_ALLREDUCE, (struct tci_shm_lend){0});
    put(&(struct tci_shm_head){.kind = TCI_SHM_GOOD, .tag = UINT64_C(1) << 40}, NULL, 0);
    net_turns(&net, 20);
    assert_int_equal(recv.xfer.status, TC_PENDING);
    assert_int_equal(recv.xfer.room[TCI_ROOM_DONE], 0);
    net_abort(&net, 0, &recv.xfer.key);
    net_finish(&net, &recv, TC_ERR_CANCELLED);
    net_free(&lent);
}

/* Of what it was said to be, the nearest that there is.  It is not read to its end: it may have
 * been taken back. */
static void check_urgency(int64_t said, int8_t urgency)
{
    const struct tci_shm_pull *pull;
    struct net_message recv, lent;

    lend(&recv, &lent, TCI_COLL_P2P, (struct tci_shm_lend){.epoch = 1, .priority = said});
    pull = (const struct tci_shm_pull *)(uintptr_t)recv.xfer.room[TCI_ROOM_DONE + 1];
    assert_non_null(pull);
    assert_int_equal(pull->priority, urgency);
    net_abort(&net, 0, &recv.xfer.key);
    net_finish(&net, &recv, TC_ERR_CANCELLED);
    net_free(&lent);
}

static void a_loan_is_at_most_as_urgent_as_anything_can_be(void **state)
{
    (void)state;
    check_urgency((int64_t)INT8_MAX + 1, INT8_MAX);
    check_urgency((int64_t)INT8_MIN - 1, INT8_MIN);
    check_urgency(-3, -3);
}

static void a_loan_of_no_possible_length_is_the_end_of_a_link(void **state)
{
    struct tci_shm_lend lend = {.total = (uint64_t)INT64_MAX + 1};

    (void)state;
    put(&(struct tci_shm_head){.kind = TCI_SHM_LEND, .len = sizeof(lend)}, &lend, sizeof(lend));
    rank_1_is_lost_alone("a loan of an impossible length");
}

/* ---- What is asked for ---------------------------------------------------------------------- */

/* Rank 0 lends; rank 1 asks for it from an offset on, so often. */
static void ask_for_what_is_lent(uint64_t offset, int times)
{
    struct net_message send;

    net_send(&net, &send, 0, 1, 9, BEYOND);
    for (int i = 0; i < times; i++)
        put(&(struct tci_shm_head){.kind = TCI_SHM_PULL,
                                   .tag = send.xfer.room[TCI_ROOM_DONE + 1],
                                   .word = offset},
            NULL, 0);
    rank_1_is_lost_alone("a request for what lies behind a message");
    net_finish(&net, &send, TC_ERR_PEER_LOST);
}

static void what_lies_behind_a_message_is_not_asked_for(void **state)
{
    (void)state;
    ask_for_what_is_lent(BEYOND + 1, 1);
}

static void what_is_sent_is_not_asked_for_again(void **state)
{
    (void)state;
    ask_for_what_is_lent(0, 2);
}

/* ---- More than is agreed -------------------------------------------------------------------- */

static void more_early_bytes_than_the_window_are_the_end_of_a_link(void **state)
{
    (void)state;
    link_of(0, 1)->held = 2 * TCI_SHM_WINDOW;
    put(&(struct tci_shm_head){.kind = TCI_SHM_DATA, .tag = 9, .use = 1, .len = 1}, NULL, 0);
    rank_1_is_lost_alone("more early messages than the window allows");
}

static void more_early_loans_than_are_kept_are_the_end_of_a_link(void **state)
{
    struct tci_shm_head head = {.kind = TCI_SHM_LEND, .tag = 9, .use = 1};
    struct tci_shm_lend lend = {.total = 100000};

    (void)state;
    link_of(0, 1)->early_held = TCI_SHM_EARLY_MAX;
    head.len = sizeof(lend);
    put(&head, &lend, sizeof(lend));
    rank_1_is_lost_alone("more early messages than the window allows");
}

static void who_has_used_up_more_than_was_sent_is_lost(void **state)
{
    struct net_message send;

    (void)state;
    atomic_store(&link_of(1, 0)->reader.way->consumed, UINT64_C(1) << 60);
    link_of(0, 1)->framed += TCI_SHM_WINDOW; /* now it is looked at */
    net_send(&net, &send, 0, 1, 9, 8);
    rank_1_is_lost_alone("nonsense about what it has read");
    net_finish(&net, &send, TC_ERR_PEER_LOST);
}

/* ---- Notices, and the end ------------------------------------------------------------------- */

static void put_notice(int32_t culprit, uint32_t len)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_LOST, .culprit = culprit};
    uint8_t payload[TCI_NOTICE_BYTES];
    struct tci_shm_head head = {.kind = TCI_SHM_NOTICE};
    struct tci_frame frame;

    tci_notice_encode(&notice, &frame, payload);
    tci_shm_head_of(&head, TCI_SHM_NOTICE, &notice.key, &notice.call);
    head.len = len;
    put(&head, payload, sizeof(payload));
}

static void a_notice_of_another_length_is_the_end_of_a_link(void **state)
{
    (void)state;
    put_notice(2, TCI_NOTICE_BYTES - 1);
    rank_1_is_lost_alone("a notice that is none");
}

static void a_notice_that_blames_nobody_is_the_end_of_a_link(void **state)
{
    (void)state;
    put_notice(3, TCI_NOTICE_BYTES);
    rank_1_is_lost_alone("a notice that blames no rank there is");
}

static void a_message_behind_a_goodbye_is_the_end_of_a_link(void **state)
{
    (void)state;
    put(&(struct tci_shm_head){.kind = TCI_SHM_BYE}, NULL, 0);
    put(&(struct tci_shm_head){.kind = TCI_SHM_DATA, .tag = 9, .use = 1}, NULL, 0);
    rank_1_is_lost_alone("a record after its goodbye");
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
        TEST(a_record_of_half_a_line_is_the_end_of_a_link),
        TEST(a_record_of_a_line_and_a_half_is_the_end_of_a_link),
        TEST(a_loan_without_its_text_is_the_end_of_a_link),
        TEST(a_message_of_no_collective_is_the_end_of_a_link),
        TEST(a_reader_that_is_ahead_of_the_writer_is_the_end_of_a_link),
        TEST(a_loan_of_memory_that_is_not_there_is_never_complete),
        TEST(a_piece_that_is_not_the_next_is_the_end_of_a_link),
        TEST(a_piece_that_splits_an_element_is_the_end_of_a_link),
        TEST(a_piece_beyond_its_message_is_the_end_of_a_link),
        TEST(a_piece_that_was_not_asked_for_is_the_end_of_a_link),
        TEST(what_is_to_be_sent_is_not_read_for_being_good),
        TEST(a_loan_is_at_most_as_urgent_as_anything_can_be),
        TEST(a_loan_of_no_possible_length_is_the_end_of_a_link),
        TEST(what_lies_behind_a_message_is_not_asked_for),
        TEST(what_is_sent_is_not_asked_for_again),
        TEST(more_early_bytes_than_the_window_are_the_end_of_a_link),
        TEST(more_early_loans_than_are_kept_are_the_end_of_a_link),
        TEST(who_has_used_up_more_than_was_sent_is_lost),
        TEST(a_notice_of_another_length_is_the_end_of_a_link),
        TEST(a_notice_that_blames_nobody_is_the_end_of_a_link),
        TEST(a_message_behind_a_goodbye_is_the_end_of_a_link),
        TEST(any_bytes_do_no_harm),
    };

    net_subject = &subject;
    return cmocka_run_group_tests(tests, NULL, NULL);
#undef TEST
}
