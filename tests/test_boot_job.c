/* test_boot_job.c - jobs that meet at the same ports, and do not mix. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "support/boot_world.h"
#include "support/world.h"

enum { PORTS = 8, SIZE = 3 };

static void name_job(int place, const char *job)
{
    struct tci_meeting *meeting = &boot_places[place].meeting;

    *meeting = (struct tci_meeting){.ports = PORTS};
    memcpy(meeting->job, job, strlen(job));
}

/* Somebody else has the port, and sends everybody away; or says nothing at all. */
static void run_beside(int holder, bool is_silent, int last)
{
    while (!boot_world_is_at(0, last)) {
        struct tci_addr from;
        int fd = is_silent ? -1 : tci_sock_accept(holder, &from);

        if (fd >= 0)
            close(fd);
        assert_int_equal(tci_loop_turn(boot_loop, 10), TC_OK);
    }
}

static void find_own(bool is_silent)
{
    static const char *const jobs[] = {"first", "second", "third"};
    int holder = boot_world_listen("127.0.0.1");
    uint16_t ports[TCI_LEN(jobs)];

    for (int rank = SIZE - 1; rank >= 0; rank--)
        for (int k = 0; k < (int)TCI_LEN(jobs); k++) {
            int place = k * SIZE + rank;

            name_job(place, jobs[k]);
            assert_true(boot_world_start_at(place, rank, SIZE, -1, 60000));
        }
    run_beside(holder, is_silent, (int)TCI_LEN(jobs) * SIZE - 1);
    for (int place = 0; place < (int)TCI_LEN(jobs) * SIZE; place++) {
        const struct boot_place *root = &boot_places[place / SIZE * SIZE];

        if (boot_places[place].status != TC_OK)
            fail_msg("place %d: %s", place, boot_places[place].error.text);
        assert_memory_equal(boot_places[place].result.group_id, root->result.group_id,
                            TCI_GROUP_ID);
    }
    for (int k = 0; k < (int)TCI_LEN(jobs); k++) {
        ports[k] = tci_addr_port(&boot_places[k * SIZE].result.addrs[0]);
        assert_true(ports[k] > tci_addr_port(&boot_meeting));
        assert_true(k == 0 || ports[k] != ports[k - 1]);
    }
    close(holder);
}

static void jobs_with_the_same_ports_find_their_own(void **state)
{
    (void)state;
    find_own(false);
}

/* The process makes the name its own. */
static void clusters_find_their_own_by_name(void **state)
{
    (void)state;
    snprintf(boot_url, sizeof(boot_url), "tb5://127.0.0.1/test_boot_job-%d", (int)getpid());
    for (int place = 0; place < 2; place++)
        assert_true(boot_world_start_at(place, place, 2, -1, 60000));
    boot_world_run(0, 1);
    for (int place = 0; place < 2; place++)
        if (boot_places[place].status != TC_OK)
            fail_msg("place %d: %s", place, boot_places[place].error.text);
    assert_memory_equal(boot_places[0].result.group_id, boot_places[1].result.group_id,
                        TCI_GROUP_ID);
}

static void who_answers_and_says_nothing_is_left(void **state)
{
    (void)state;
    if (test_effort() < 2) {
        print_message("skipped: it takes 8 s; with TCDIST_TEST_EFFORT=full\n");
        skip();
    }
    find_own(true);
}

static void who_is_of_another_job_is_sent_away(void **state)
{
    (void)state;
    name_job(0, "first");
    name_job(1, "second");
    assert_true(boot_world_start_at(0, 0, 2, boot_world_listen("127.0.0.1"), 400));
    assert_true(boot_world_start_at(1, 1, 2, -1, 400));
    boot_world_run(0, 1);
    boot_world_check_text(0, TC_ERR_TIMEOUT, 1, "strangers have, and were dropped");
    boot_world_check_text(1, TC_ERR_TIMEOUT, 0, "rank 1 has not reached rank 0");
}

static void ports_that_are_all_taken_are_an_error(void **state)
{
    int holder = boot_world_listen("127.0.0.1");

    (void)state;
    assert_true(boot_world_start_at(0, 0, 2, -1, 60000));
    boot_world_run(0, 0);
    boot_world_check_text(0, TC_ERR_RENDEZVOUS, 0, "Address already in use");
    close(holder);
}

static void without_an_own_address_rank_0_listens_on_all(void **state)
{
    (void)state;
    strcpy(boot_url, "tcp://192.0.2.200:4100"); /* of nobody: for examples */
    boot_places[0].meeting = (struct tci_meeting){.ports = 64, .is_loose = true};
    assert_true(boot_world_start_at(0, 0, 2, -1, 300));
    boot_world_run(0, 0);
    boot_world_check_text(0, TC_ERR_TIMEOUT, 1, "rank 1 of 2 has not come");

    boot_world_teardown(state);
    assert_int_equal(boot_world_setup(state), 0);
    assert_true(boot_world_start_at(0, 0, 2, -1, 300));
    boot_world_run(0, 0);
    boot_world_check_text(0, TC_ERR_RENDEZVOUS, 0, "Cannot assign requested address");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jobs_with_the_same_ports_find_their_own, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(clusters_find_their_own_by_name, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(who_answers_and_says_nothing_is_left, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(who_is_of_another_job_is_sent_away, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(ports_that_are_all_taken_are_an_error, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(without_an_own_address_rank_0_listens_on_all,
                                        boot_world_setup, boot_world_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
