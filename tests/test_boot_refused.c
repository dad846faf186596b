/* test_boot_refused.c - the rendezvous: every way in which a group does not form, and its words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "support/boot_world.h"

/* ---- Groups that do not form ----------------------------------------------------------------- */

static void a_rank_that_joins_twice_is_refused(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    boot_world_start(0, 4, fd);
    boot_world_start(2, 4, -1);
    boot_world_turn(30);
    assert_true(boot_world_start_at(3, 2, 4, -1, 30000));
    boot_places[1].is_done = true;
    boot_places[1].status = TC_ERR_INTERNAL;
    boot_world_run(0, 3);
    for (int place = 0; place < 4; place++) {
        if (place != 1)
            boot_world_check_text(place, TC_ERR_RENDEZVOUS, 2,
                                  "rank 2 has joined twice: from 127.0.0.1:");
    }
}

static void another_world_size_is_refused(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    boot_world_start(0, 3, fd);
    boot_world_start(1, 4, -1);
    boot_world_run(0, 1);
    boot_world_check_text(0, TC_ERR_RENDEZVOUS, 1,
                          "rank 0 was started with 3, rank 1 at 127.0.0.1:");
    boot_world_check_text(1, TC_ERR_RENDEZVOUS, 1, "with 4; start all with the same");
}

/* What a program that is not this library's may send. */
static void send_join(const struct tci_boot_join *join, unsigned version, char *answer, size_t room)
{
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_JOIN_LEN];
    ssize_t got;
    int fd;

    tci_boot_head_encode(TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN, bytes);
    tci_boot_join_encode(join, bytes + TCI_BOOT_HEAD);
    bytes[9] = (uint8_t)version;
    fd = boot_world_knock((const char *)bytes, sizeof bytes);
    boot_world_run(0, 0);
    got = recv(fd, answer, room - 1, MSG_WAITALL);
    assert_true(got > TCI_BOOT_HEAD + TCI_BOOT_REFUSE_FIXED);
    answer[got] = '\0';
    close(fd);
}

static void ranks_out_of_range_and_other_versions_are_refused(void **state)
{
    static const struct {
        uint32_t size, rank, release;
        unsigned version;
        int guilty;
        const char *says;
    } rows[] = {
        {3, 3, TCI_RELEASE, TCI_BOOT_VERSION, -1, "claims to be rank 3, but the ranks are 0 to 2"},
        {3, UINT32_MAX, TCI_RELEASE, TCI_BOOT_VERSION, -1, "claims to be rank 4294967295"},
        {3, 0, TCI_RELEASE, TCI_BOOT_VERSION, 0, "rank 0 is there twice: here, at 127.0.0.1:"},
        {3, 1, 7u << 24 | 8u << 16 | 9, TCI_BOOT_VERSION, -1, "runs tcdist 7.8.9; install the"},
        {3, 1, 7u << 24 | 8u << 16 | 9, 77, -1, "runs tcdist 7.8.9; install the same release"},
        {3, 1, 0, 1, -1, "runs a tcdist of version 1 of the rendezvous; install"},
    };
    char answer[TCI_BOOT_HEAD + TCI_BOOT_REFUSE_MAX + 1];

    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        struct tci_boot_join join = {
            .size = rows[k].size, .rank = rows[k].rank, .release = rows[k].release};

        boot_world_start(0, 3, boot_world_listen("127.0.0.1"));
        join.addr = boot_meeting;
        send_join(&join, rows[k].version, answer, sizeof answer);
        boot_world_check_text(0, TC_ERR_RENDEZVOUS, rows[k].guilty, rows[k].says);
        assert_int_equal(answer[10], TCI_BOOT_REFUSE);
        assert_non_null(strstr(answer + TCI_BOOT_HEAD + TCI_BOOT_REFUSE_FIXED, rows[k].says));
        boot_world_teardown(state);
        assert_int_equal(boot_world_setup(state), 0);
    }
}

static void the_missing_are_named_to_all(void **state)
{
    int fd = boot_world_listen("127.0.0.1");
    char says[400];

    (void)state;
    assert_true(boot_world_start_at(0, 0, 8, fd, 300));
    for (int rank = 1; rank < 8; rank++) {
        if (rank != 3 && rank != 5)
            assert_true(boot_world_start_at(rank, rank, 8, -1, 300));
        else
            boot_places[rank].is_done = true;
    }
    boot_places[3].status = boot_places[5].status = TC_ERR_INTERNAL;

    boot_world_run(0, 7);

    (void)snprintf(says, sizeof says, "ranks 3, 5 of 8 have not come to %s within 300 ms: start",
                   boot_url);
    for (int rank = 0; rank < 8; rank++) {
        if (rank != 3 && rank != 5)
            boot_world_check_text(rank, TC_ERR_TIMEOUT, 3, says);
    }
}

static void a_member_says_where_it_tried(void **state)
{
    char says[400];

    (void)state;
    close(boot_world_listen("127.0.0.1"));
    assert_true(boot_world_start_at(1, 1, 2, -1, 60));
    boot_world_run(1, 1);
    (void)snprintf(says, sizeof says, "rank 0 at %s within 60 ms (", boot_url);
    boot_world_check_text(1, TC_ERR_TIMEOUT, 0, says);
    (void)snprintf(says, sizeof says, " attempts, the last: %s: Connection refused)",
                   boot_url + strlen("tcp://"));
    boot_world_check_text(1, TC_ERR_TIMEOUT, 0, says);
}

static void a_silent_rank_0_is_told_from_a_missing_one(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    assert_true(boot_world_start_at(1, 1, 2, -1, 60));
    boot_world_run(1, 1);
    boot_world_check_text(1, TC_ERR_TIMEOUT, 0, "but rank 0 has not answered there within 60 ms");
    close(fd);
}

static void a_name_without_address_is_named(void **state)
{
    (void)state;
    (void)snprintf(boot_url, sizeof boot_url, "tcp://nonesuch.invalid:4100");
    assert_true(boot_world_start_at(0, 0, 2, -1, 300));
    assert_true(boot_world_start_at(1, 1, 2, -1, 300));
    boot_world_run(0, 1);
    boot_world_check_text(0, TC_ERR_TIMEOUT, 0,
                          "no address of its own for tcp://nonesuch.invalid:4100");
    boot_world_check_text(1, TC_ERR_TIMEOUT, 0,
                          "rank 0 at tcp://nonesuch.invalid:4100 within 300 ms");
}

static void a_member_that_dies_is_named(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    for (int rank = 0; rank < 3; rank++)
        boot_world_start(rank, 4, rank == 0 ? fd : -1);
    boot_world_turn(50);
    boot_world_cancel(&boot_places[1]);
    boot_places[1] = (struct boot_place){.is_done = true, .status = TC_ERR_CANCELLED};
    boot_world_run(0, 2);
    boot_world_check_text(0, TC_ERR_PEER_LOST, 1, "rank 1 at 127.0.0.1:");
    boot_world_check_text(2, TC_ERR_PEER_LOST, 1, "went away before the group stood");
}

static void a_rank_0_that_dies_is_named(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    for (int rank = 0; rank < 2; rank++)
        boot_world_start(rank, 3, rank == 0 ? fd : -1);
    boot_world_turn(50);
    boot_world_cancel(&boot_places[0]);
    boot_world_run(1, 1);
    boot_world_check_text(1, TC_ERR_PEER_LOST, 0, "rank 0 at 127.0.0.1:");
}

/* ---- Ranks that misbehave -------------------------------------------------------------------- */

/* A connection to the boot_meeting that says JOIN as this rank would. */
static int join_as(uint32_t size, uint32_t rank)
{
    struct tci_boot_join join = {
        .size = size, .rank = rank, .addr = boot_meeting, .release = TCI_RELEASE};
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_JOIN_LEN];

    tci_boot_head_encode(TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN, bytes);
    tci_boot_join_encode(&join, bytes + TCI_BOOT_HEAD);
    return boot_world_knock((const char *)bytes, sizeof bytes);
}

static void say(int fd, enum tci_boot_type type)
{
    uint8_t head[TCI_BOOT_HEAD];

    tci_boot_head_encode(type, 0, head);
    assert_int_equal(send(fd, head, sizeof head, MSG_NOSIGNAL), (ssize_t)sizeof head);
}

static void a_member_that_breaks_the_rules_is_named(void **state)
{
    static const struct {
        enum tci_boot_type type; /* 0: garbage */
        const char *says;
    } rows[] = {
        {(enum tci_boot_type)0, "does not speak as a rank does"},
        {TCI_BOOT_READY, "says things out of turn"},
        {TCI_BOOT_GO, "says things out of turn"},
    };

    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        int member;

        boot_world_start(0, 3, boot_world_listen("127.0.0.1"));
        member = join_as(3, 2);
        boot_world_turn(20);
        if (rows[k].type == 0)
            assert_int_equal(send(member, "?", 1, MSG_NOSIGNAL), 1);
        else
            say(member, rows[k].type);
        boot_world_run(0, 0);
        boot_world_check_text(0, TC_ERR_PEER_LOST, 2, rows[k].says);
        close(member);
        boot_world_teardown(state);
        assert_int_equal(boot_world_setup(state), 0);
    }
}

static void a_member_that_falls_silent_is_named(void **state)
{
    int fd = boot_world_listen("127.0.0.1"), member;

    (void)state;
    assert_true(boot_world_start_at(0, 0, 3, fd, 300));
    assert_true(boot_world_start_at(1, 1, 3, -1, 300));
    member = join_as(3, 2);
    boot_world_run(0, 1);
    boot_world_check_text(0, TC_ERR_TIMEOUT, 2, "rank 2 of 3 joined at tcp://");
    boot_world_check_text(1, TC_ERR_TIMEOUT, 2, "has fallen silent since; waited 300 ms");
    close(member);
}

/* What a member makes of a rank 0 that says these after its JOIN. */
static void hear(enum tci_boot_type first, enum tci_boot_type second, const char *says)
{
    struct tci_addr from;
    int listener = boot_world_listen("127.0.0.1"), root = -1;

    boot_world_start(1, 2, -1);
    for (int turn = 0; turn < 1000 && root < 0; turn++) {
        boot_world_turn(1);
        root = tci_sock_accept(listener, &from);
    }
    say(root, first);
    say(root, second);
    boot_world_run(1, 1);
    boot_world_check_text(1, TC_ERR_PEER_LOST, 0, says);
    close(root);
    close(listener);
}

static void a_rank_0_that_breaks_the_rules_is_named(void **state)
{
    static const struct {
        enum tci_boot_type second;
        const char *says;
    } rows[] = {
        {TCI_BOOT_GO, "it says things out of turn"},
        {TCI_BOOT_WELCOME, "it says things out of turn"},
        {TCI_BOOT_TABLE, "it does not speak as rank 0 of a group does"},
    };

    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        hear(TCI_BOOT_WELCOME, rows[k].second, rows[k].says);
        boot_world_teardown(state);
        assert_int_equal(boot_world_setup(state), 0);
    }
}

/* A rank's first bytes for the transport may come before rank 0 has sent the last GO. */
static void what_follows_ready_is_left_for_the_transport(void **state)
{
    int fd = boot_world_listen("127.0.0.1"), member;
    uint8_t ready[TCI_BOOT_HEAD + 3] = {0}, got[8];

    (void)state;
    boot_world_start(0, 2, fd);
    member = join_as(2, 1);
    boot_world_turn(20);
    tci_boot_head_encode(TCI_BOOT_READY, 0, ready);
    memcpy(ready + TCI_BOOT_HEAD, "abc", 3);
    assert_int_equal(send(member, ready, sizeof ready, 0), (ssize_t)sizeof ready);
    boot_world_run(0, 0);
    assert_int_equal(boot_places[0].status, TC_OK);
    assert_int_equal(recv(boot_places[0].result.fds[1], got, sizeof got, 0), 3);
    assert_memory_equal(got, "abc", 3);
    close(member);
}

static void what_cannot_be_listened_on_is_refused(void **state)
{
    int fd;

    (void)state;
    (void)snprintf(boot_url, sizeof boot_url, "tcp://127.0.0.1:4100");
    boot_world_start(0, 2, open("/dev/null", O_RDONLY | O_CLOEXEC));
    boot_world_start(1, 2, -1);
    boot_world_run(0, 0);
    boot_world_check_text(0, TC_ERR_INVALID_ARG, -1, "is no socket that could be listened on");

    boot_places[0] = (struct boot_place){.boot = NULL};
    boot_world_start(0, 2, socket(AF_INET, SOCK_STREAM, 0));
    boot_world_run(0, 0);
    boot_world_check_text(0, TC_ERR_INVALID_ARG, -1, "is no listening TCP socket");

    boot_places[0] = (struct boot_place){.boot = NULL};
    fd = boot_world_listen("127.0.0.1");
    boot_world_start(0, 2, -1);
    boot_world_run(0, 0);
    boot_world_check_text(0, TC_ERR_RENDEZVOUS, 0, "Address already in use");
    close(fd);

    boot_places[0] = (struct boot_place){.boot = NULL};
    (void)snprintf(boot_url, sizeof boot_url, "single://");
    boot_world_start(0, 2, -1);
    boot_world_run(0, 0);
    boot_world_check_text(0, TC_ERR_INVALID_ARG, -1, "it is for a group of one, this has 2 ranks");

    boot_places[0] = (struct boot_place){.boot = NULL};
    (void)snprintf(boot_url, sizeof boot_url, "tcp://127.0.0.1:4100");
    boot_world_start(0, TCI_BOOT_SIZE_MAX + 1, -1);
    boot_world_run(0, 0);
    boot_world_check_text(0, TC_ERR_INVALID_ARG, -1, "at most 65536 can meet");

    assert_true(boot_world_start_at(2, 1, 2, boot_world_listen("127.0.0.1"), 30000));
    boot_world_run(2, 2);
    boot_world_check_text(2, TC_ERR_INVALID_ARG, 1, "rank 1 was given a listening descriptor");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, boot_world_setup, boot_world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_rank_that_joins_twice_is_refused),
        TEST(another_world_size_is_refused),
        TEST(ranks_out_of_range_and_other_versions_are_refused),
        TEST(the_missing_are_named_to_all),
        TEST(a_member_says_where_it_tried),
        TEST(a_silent_rank_0_is_told_from_a_missing_one),
        TEST(a_name_without_address_is_named),
        TEST(a_member_that_dies_is_named),
        TEST(a_rank_0_that_dies_is_named),
        TEST(a_member_that_breaks_the_rules_is_named),
        TEST(a_member_that_falls_silent_is_named),
        TEST(a_rank_0_that_breaks_the_rules_is_named),
        TEST(what_follows_ready_is_left_for_the_transport),
        TEST(what_cannot_be_listened_on_is_refused),
    };

    return cmocka_run_group_tests_name("boot_refused", tests, NULL, NULL);
}
