/* test_boot.c - the rendezvous: groups that form, whoever else comes, and what is given up. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: waits */
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "support/boot_world.h"
#include "tcdist/log.h"

/* A byte goes over the link of each rank with rank 0: nothing is unread or lost there. */
static void check_links(int size)
{
    for (int rank = 1; rank < size; rank++) {
        int up = boot_places[rank].result.fds[0], down = boot_places[0].result.fds[rank];
        struct pollfd wait = {.fd = down, .events = POLLIN};
        uint8_t byte = (uint8_t)rank;

        assert_true((fcntl(up, F_GETFL) & O_NONBLOCK) != 0);
        assert_true((fcntl(down, F_GETFL) & O_NONBLOCK) != 0);
        assert_int_equal(recv(up, &byte, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
        assert_int_equal(send(up, &byte, 1, 0), 1);
        byte = 0;
        assert_int_equal(poll(&wait, 1, 10000), 1);
        assert_int_equal(recv(down, &byte, 1, 0), 1);
        assert_int_equal(byte, rank);
        assert_int_equal(recv(down, &byte, 1, 0), -1);
    }
}

static void check_group(int size)
{
    const struct tci_boot_result *root = &boot_places[0].result;

    for (int rank = 0; rank < size; rank++) {
        const struct tci_boot_result *result = &boot_places[rank].result;
        struct tci_addr bound;

        if (boot_places[rank].status != TC_OK)
            fail_msg("rank %d: %s", rank, boot_places[rank].error.text);
        assert_int_equal(result->rank, rank);
        assert_int_equal(result->size, size);
        assert_memory_equal(result->group_id, root->group_id, TCI_GROUP_ID);
        assert_int_equal(result->agreed.segment_bytes, 1000);
        assert_int_equal(result->agreed.eager_bytes, 7);
        assert_int_equal(result->agreed.numerics, 1);
        assert_int_equal(result->agreed.cores, size + 1); /* each has two, one with the next */
        assert_string_equal(result->agreed.algorithm, "ring-0");
        assert_int_equal(result->local_ranks, size);
        tci_sock_local(result->listener, &bound);
        assert_true(tci_addr_is_equal(&bound, &result->addrs[rank]));
        for (int other = 0; other < size; other++) {
            assert_true(tci_addr_is_equal(&result->addrs[other], &root->addrs[other]));
            assert_int_equal(result->hosts[other], root->hosts[0]);
            assert_int_equal(result->fds[other] >= 0, (rank == 0) != (other == 0));
        }
    }
    check_links(size);
}

/* ---- Groups that form ------------------------------------------------------------------------ */

static void groups_of_any_size_form(void **state)
{
    static const int sizes[] = {2, 3, 9, 64};

    for (size_t k = 0; k < TCI_LEN(sizes); k++) {
        int fd = boot_world_listen("127.0.0.1");

        for (int rank = 0; rank < sizes[k]; rank++)
            boot_world_start(rank, sizes[k], rank == 0 ? fd : -1);

        boot_world_run(0, sizes[k] - 1);

        check_group(sizes[k]);
        boot_world_teardown(state);
        assert_int_equal(boot_world_setup(state), 0);
    }
}

static void a_group_forms_over_ipv6(void **state)
{
    int fd = boot_world_listen("::1");

    (void)state;
    if (fd < 0) {
        printf("skipped: no IPv6 here\n");
        skip();
    }
    for (int rank = 0; rank < 3; rank++)
        boot_world_start(rank, 3, rank == 0 ? fd : -1);
    boot_world_run(0, 2);
    check_group(3);
}

/* The listener has one address of the name; members find it among all. */
static void a_group_forms_by_name(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    (void)snprintf(boot_url, sizeof boot_url, "tcp://localhost:%u",
                   (unsigned)tci_addr_port(&boot_meeting));
    for (int rank = 0; rank < 3; rank++)
        boot_world_start(rank, 3, rank == 0 ? fd : -1);
    boot_world_run(0, 2);
    check_group(3);
}

/* Rank 0 binds the URL itself, after the others have tried for a while. */
static void rank_0_may_come_late(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};

    for (size_t k = 0; k < TCI_LEN(hosts); k++) {
        close(boot_world_listen("127.0.0.1"));
        (void)snprintf(boot_url, sizeof boot_url, "tcp://%s:%u", hosts[k],
                       (unsigned)tci_addr_port(&boot_meeting));
        for (int rank = 1; rank < 4; rank++)
            boot_world_start(rank, 4, -1);
        boot_world_turn(100);
        assert_false(boot_world_is_at(1, 1));
        boot_world_start(0, 4, -1);
        boot_world_run(0, 3);
        check_group(4);
        boot_world_teardown(state);
        assert_int_equal(boot_world_setup(state), 0);
    }
}

static void note_absence(tc_log_level_t level, const char *line, void *arg)
{
    if (level == TC_LOG_WARN && strstr(line, "rank 1 has not reached rank 0") != NULL)
        *(bool *)arg = true;
}

/* A rank 0 that has not listened yet may be started by hand. */
static void who_has_said_that_rank_0_is_missing_waits_on(void **state)
{
    bool has_said = false;

    (void)state;
    close(boot_world_listen("127.0.0.9"));
    tc_log_set_sink(note_absence, &has_said);
    boot_world_start(1, 2, -1);
    while (!has_said && !boot_places[1].is_done)
        boot_world_turn(100);
    tc_log_set_sink(NULL, NULL);
    if (boot_places[1].is_done)
        fail_msg("%s", boot_places[1].error.text);
    boot_world_start(0, 2, -1);
    boot_world_run(0, 1);
    check_group(2);
}

static void a_listener_on_any_address_will_do(void **state)
{
    int fd = boot_world_listen("0.0.0.0");

    (void)state;
    (void)snprintf(boot_url, sizeof boot_url, "tcp://127.0.0.1:%u",
                   (unsigned)tci_addr_port(&boot_meeting));
    for (int rank = 0; rank < 2; rank++)
        boot_world_start(rank, 2, rank == 0 ? fd : -1);
    boot_world_run(0, 1);
    assert_int_equal(boot_places[0].status, TC_OK);
    assert_int_equal(boot_places[1].status, TC_OK);
    assert_true(tci_addr_is_loopback(&boot_places[1].result.addrs[0]));
    check_links(2);
}

/* ---- Strangers ------------------------------------------------------------------------------- */

static void strangers_do_not_disturb(void **state)
{
    uint8_t head[TCI_BOOT_HEAD];
    int fd = boot_world_listen("127.0.0.1"), strangers[80 + 6];
    size_t count = 0;

    (void)state;
    tci_boot_head_encode(TCI_BOOT_GO, 0, head);
    boot_world_start(0, 3, fd);
    strangers[count++] = boot_world_knock_text("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    strangers[count++] = boot_world_knock_text("x");
    strangers[count++] = boot_world_knock_text("tcdist");
    strangers[count++] = boot_world_knock((const char *)head, sizeof head);
    tci_boot_head_encode(TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN, head);
    strangers[count++] = boot_world_knock((const char *)head, sizeof head);
    close(boot_world_knock((const char *)head, 7));
    while (count < TCI_LEN(strangers))
        strangers[count++] = boot_world_knock("", 0);
    boot_world_turn(20);
    boot_world_start(1, 3, -1);
    boot_world_turn(20);
    boot_world_start(2, 3, -1);

    boot_world_run(0, 2);

    check_group(3);
    while (count > 0)
        close(strangers[--count]);
}

/* From here on the process can open nothing more; gives the limit as it was. */
static struct rlimit use_up_descriptors(void)
{
    struct rlimit limit, low;
    int next = dup(0);

    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    return limit;
}

/* A stranger that was admitted makes room, and without one rank 0 waits until others have. */
static void descriptors_may_run_out_for_a_while(void **state)
{
    for (int admitted = 0; admitted < 2; admitted++) {
        int strangers[4];
        struct rlimit limit;

        boot_world_start(0, 3, boot_world_listen("127.0.0.1"));
        boot_world_turn(2);
        for (int k = 0; k < 4; k++) {
            strangers[k] = boot_world_knock("", 0);
            if (k < admitted)
                boot_world_turn(2);
        }
        limit = use_up_descriptors();
        boot_world_turn(20);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);

        boot_world_start(1, 3, -1);
        boot_world_start(2, 3, -1);
        boot_world_run(0, 2);

        check_group(3);
        for (int k = 0; k < 4; k++)
            close(strangers[k]);
        boot_world_teardown(state);
        assert_int_equal(boot_world_setup(state), 0);
    }
}

static void a_rank_0_that_is_a_stranger_is_left(void **state)
{
    struct tci_addr from;
    int fd = boot_world_listen("127.0.0.1"), stranger = -1;

    (void)state;
    boot_world_start(1, 2, -1);
    for (int turn = 0; turn < 1000 && stranger < 0; turn++) {
        boot_world_turn(1);
        stranger = tci_sock_accept(fd, &from);
    }
    assert_true(stranger >= 0);
    assert_int_equal(send(stranger, "220 mail here\r\n", 15, 0), 15);
    boot_world_turn(5);
    close(stranger);
    boot_world_start(0, 2, fd);
    boot_world_run(0, 1);
    check_group(2);
}

/* ---- Cancelled, and out of memory ------------------------------------------------------------ */

static void cancelled_after_any_number_of_turns_it_frees_all(void **state)
{
    uint64_t live;

    boot_world_teardown(state);
    live = tci_alloc_live();
    for (int turns = 0; turns < 40; turns++) {
        int fd = boot_world_listen("127.0.0.1");

        assert_int_equal(boot_world_setup(state), 0);
        for (int rank = 0; rank < 3; rank++)
            boot_world_start(rank, 3, rank == 0 ? fd : -1);
        for (int turn = 0; turn < turns; turn++)
            (void)tci_loop_turn(boot_loop, 0);
        boot_world_teardown(state);
        memset(boot_places, 0, sizeof boot_places);
        assert_true(tci_alloc_live() <= live);
    }
    assert_int_equal(boot_world_setup(state), 0);
}

/* The thread that asks for the name goes its own way. */
static void a_name_that_is_looked_up_does_not_hold_the_cancelled(void **state)
{
    for (int turns = 0; turns < 8; turns++) {
        (void)snprintf(boot_url, sizeof boot_url, "tcp://nonesuch.invalid:4100");
        for (int rank = 0; rank < 3; rank++)
            boot_world_start(rank, 3, -1);
        for (int turn = 0; turn < turns; turn++)
            (void)tci_loop_turn(boot_loop, 0);
        boot_world_teardown(state);
        assert_int_equal(boot_world_setup(state), 0);
    }
}

static bool forms_with_failure_at(uint64_t n)
{
    int fd = boot_world_listen("127.0.0.1");
    bool has_started = true, has_formed = true;

    tci_alloc_fail_at(n, 0);
    for (int rank = 0; rank < 3 && has_started; rank++)
        has_started = boot_world_start_at(rank, rank, 3, rank == 0 ? fd : -1, 30000);
    while (has_started && has_formed && !boot_world_is_at(0, 2)) {
        assert_int_equal(tci_loop_turn(boot_loop, 1000), TC_OK);
        for (int rank = 0; rank < 3; rank++)
            has_formed = has_formed && boot_places[rank].status == TC_OK;
    }
    tci_alloc_fail_at(0, 0);
    for (int rank = 0; rank < 3; rank++)
        if (boot_places[rank].status != TC_OK)
            assert_true(boot_places[rank].error.text[0] != '\0');
    return has_started && has_formed;
}

static void without_memory_it_ends_with_an_error(void **state)
{
    bool has_formed = false;
    uint64_t n;

    for (n = 1; n < 200 && !has_formed; n++) {
        has_formed = forms_with_failure_at(n);
        boot_world_teardown(state);
        assert_int_equal(boot_world_setup(state), 0);
    }
    assert_true(has_formed);
    assert_true(n > 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, boot_world_setup, boot_world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(groups_of_any_size_form),
        TEST(a_group_forms_over_ipv6),
        TEST(a_group_forms_by_name),
        TEST(rank_0_may_come_late),
        TEST(who_has_said_that_rank_0_is_missing_waits_on),
        TEST(a_listener_on_any_address_will_do),
        TEST(strangers_do_not_disturb),
        TEST(descriptors_may_run_out_for_a_while),
        TEST(a_rank_0_that_is_a_stranger_is_left),
        TEST(cancelled_after_any_number_of_turns_it_frees_all),
        TEST(a_name_that_is_looked_up_does_not_hold_the_cancelled),
        TEST(without_memory_it_ends_with_an_error),
    };

    return cmocka_run_group_tests_name("boot", tests, NULL, NULL);
}
