/* test_boot_silent.c - a rendezvous that does not end: rank 0 is stuck, or waits itself. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/boot_world.h"

enum { TIMEOUT_MS = 400, LONG_MS = 60000 };

/* Somebody who takes what a rank 0 is told, and says WELCOME, or not even that. */
static int pretend(bool welcomes)
{
    struct pollfd polled = {.fd = boot_world_listen("127.0.0.1"), .events = POLLIN};
    uint8_t join[TCI_BOOT_HEAD + TCI_BOOT_JOIN_LEN], welcome[TCI_BOOT_HEAD];
    int fd;

    assert_true(boot_world_start_at(1, 1, 3, -1, TIMEOUT_MS));
    while (poll(&polled, 1, 0) == 0)
        boot_world_turn(1);
    fd = accept4(polled.fd, NULL, NULL, SOCK_CLOEXEC);
    close(polled.fd);
    assert_true(fd >= 0);
    while (recv(fd, join, sizeof(join), MSG_PEEK | MSG_DONTWAIT) < (ssize_t)sizeof(join))
        boot_world_turn(1);
    tci_boot_head_encode(TCI_BOOT_WELCOME, 0, welcome);
    if (welcomes)
        assert_int_equal(send(fd, welcome, sizeof(welcome), MSG_NOSIGNAL), sizeof(welcome));
    boot_world_run(1, 1);
    return fd;
}

/* It says once or twice that it is there; who says it without end keeps a loop from all else. */
static void a_rank_0_that_says_it_without_end_is_left(void **state)
{
    enum { PINGS = 1000 };
    static uint8_t words[(1 + PINGS) * TCI_BOOT_HEAD];
    struct pollfd polled = {.fd = boot_world_listen("127.0.0.1"), .events = POLLIN};
    int fd;

    (void)state;
    tci_boot_head_encode(TCI_BOOT_WELCOME, 0, words);
    for (size_t k = 1; k <= PINGS; k++)
        tci_boot_head_encode(TCI_BOOT_PING, 0, words + k * TCI_BOOT_HEAD);
    assert_true(boot_world_start_at(1, 1, 3, -1, LONG_MS));
    while (poll(&polled, 1, 0) == 0)
        boot_world_turn(1);
    fd = accept4(polled.fd, NULL, NULL, SOCK_CLOEXEC);
    close(polled.fd);
    assert_int_equal(send(fd, words, sizeof(words), MSG_NOSIGNAL), sizeof(words));
    boot_world_run(1, 1);
    boot_world_check_text(1, TC_ERR_PEER_LOST, 0, "it says without end that it is there");
    close(fd);
}

static void a_rank_0_that_takes_all_and_says_nothing_is_stuck(void **state)
{
    (void)state;
    for (int welcomes = 0; welcomes < 2; welcomes++) {
        close(pretend(welcomes));
        boot_world_check_text(1, TC_ERR_TIMEOUT, 0,
                              welcomes ? "says nothing any more" : "has not answered");
        assert_int_equal(boot_places[1].error.reason, TC_REASON_LOOP_STALLED);
        boot_world_teardown(state);
        assert_int_equal(boot_world_setup(state), 0);
    }
}

/* It has more time, and says so: that others are missing is no fault of its own. */
static void a_rank_0_that_still_waits_is_not_at_fault(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    assert_true(boot_world_start_at(0, 0, 3, fd, LONG_MS));
    assert_true(boot_world_start_at(1, 1, 3, -1, TIMEOUT_MS));
    boot_world_run(1, 1);
    boot_world_check_text(1, TC_ERR_TIMEOUT, 0, "other ranks are missing");
    assert_int_equal(boot_places[1].error.reason, TC_REASON_NONE);
}

/* It names the one that is missing, whatever those say that have come. */
static void pings_change_nothing_for_those_who_are_there(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    assert_true(boot_world_start_at(0, 0, 3, fd, TIMEOUT_MS));
    assert_true(boot_world_start_at(1, 1, 3, -1, TIMEOUT_MS));
    boot_world_run(0, 1);
    for (int rank = 0; rank < 2; rank++) {
        boot_world_check_text(rank, TC_ERR_TIMEOUT, 2, "rank 2 of 3 has not come");
        assert_int_equal(boot_places[rank].error.reason, TC_REASON_NEVER_STARTED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_rank_0_that_takes_all_and_says_nothing_is_stuck,
                                        boot_world_setup, boot_world_teardown),
        cmocka_unit_test_setup_teardown(a_rank_0_that_says_it_without_end_is_left, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(a_rank_0_that_still_waits_is_not_at_fault, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(pings_change_nothing_for_those_who_are_there,
                                        boot_world_setup, boot_world_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
