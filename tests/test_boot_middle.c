/* test_boot_middle.c - one between two ranks with a key, who changes what they say at first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/seal.h"
#include "net/auth_wire.h"
#include "support/boot_world.h"
#include "support/middle.h"
#include "support/world.h"

/* What each side says until rank 0 says GO, with which it believes in the group. */
enum {
    PROOF_UP = 2 * TCI_BOOT_HEAD + TCI_BOOT_OFFER_LEN + TCI_BOOT_PROOF_LEN,
    PROOF_DOWN = 2 * TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN + TCI_BOOT_FINISH_LEN,
    RECORD = TCI_RECORD_OVER + TCI_BOOT_HEAD,
    BOOT_UP = PROOF_UP + RECORD + TCI_BOOT_JOIN_LEN + RECORD,
    TABLE = TCI_BOOT_TABLE_FIXED + 2 * TCI_BOOT_TABLE_EACH,
    BOOT_DOWN = PROOF_DOWN + RECORD + RECORD + TABLE
};

static const char key[] = "0123456789abcdef0123456789abcdef";
static struct middle *middle;

/* Two ranks, and the second reaches the first through the one in the middle. */
static void start(void)
{
    struct sockaddr_in target;
    int fd = boot_world_listen("127.0.0.1");

    memcpy(&target, &boot_meeting.sa, sizeof target);
    middle_begin(middle, &target);
    for (int rank = 0; rank < 2; rank++) {
        boot_places[rank].keyring = tci_keyring_shared(key, sizeof key - 1, NULL, 0);
        assert_non_null(boot_places[rank].keyring);
    }
    boot_world_start(0, 2, fd);
    (void)snprintf(boot_url, sizeof boot_url, "tcp://127.0.0.1:%u", middle_port(middle));
    boot_world_start(1, 2, -1);
}

/* Until the connection is over, one way or the other: neither side believes in a group.  False: it
 * was over before that byte came, since so slow a rank is not waited for. */
static bool nothing_comes_of_it(int way, size_t at)
{
    while (!middle_has_ended(middle)) {
        assert_int_equal(tci_loop_turn(boot_loop, 1), TC_OK);
        for (int rank = 0; rank < 2; rank++)
            if (boot_places[rank].is_done && boot_places[rank].status == TC_OK)
                fail_msg("rank %d believes what was changed, way %d, byte %zu", rank, way, at);
    }
    return middle_is_done(middle);
}

static void begin_anew(void **state)
{
    boot_world_teardown(state);
    assert_int_equal(boot_world_setup(state), 0);
}

/* The proof byte by byte, what follows by samples; all of it with much effort, little with
 * little. */
static size_t step(int way, size_t at)
{
    static const size_t steps[] = {31, 7, 1};
    bool is_proof = at < (way == MIDDLE_UP ? PROOF_UP : PROOF_DOWN);

    return is_proof && test_effort() > 0 ? 1 : steps[test_effort()];
}

/* A byte is changed, or the connection ends at it; on a machine that stood still, once more. */
static void harm(void **state, int way, size_t at, bool is_cut)
{
    bool is_done = false;

    for (int tries = 0; tries < 5 && !is_done; tries++) {
        start();
        if (is_cut)
            middle_cut(middle, way, at);
        else
            middle_flip(middle, way, at, (uint8_t)(1u << at % 8));
        is_done = nothing_comes_of_it(way, at);
        begin_anew(state);
    }
    assert_true(is_done);
}

static void no_byte_can_be_changed(void **state)
{
    static const size_t lens[] = {BOOT_UP, BOOT_DOWN};

    for (int way = MIDDLE_UP; way <= MIDDLE_DOWN; way++)
        for (size_t at = 0; at < lens[way]; at += step(way, at))
            harm(state, way, at, false);
}

static void nothing_can_be_left_out(void **state)
{
    static const size_t lens[] = {BOOT_UP, BOOT_DOWN};

    for (int way = MIDDLE_UP; way <= MIDDLE_DOWN; way++)
        for (size_t at = 0; at < lens[way]; at += 16 * step(way, at))
            harm(state, way, at, true);
}

/* A group that has formed, recorded. */
static void record(void **state, uint8_t *up, uint8_t *down)
{
    start();
    boot_world_run(0, 1);
    assert_int_equal(boot_places[0].status, TC_OK);
    assert_int_equal(boot_places[1].status, TC_OK);
    while (middle_count(middle, MIDDLE_DOWN) < BOOT_DOWN + RECORD)
        usleep(1000);
    assert_int_equal(middle_count(middle, MIDDLE_UP), BOOT_UP);
    assert_int_equal(middle_count(middle, MIDDLE_DOWN), BOOT_DOWN + RECORD);
    (void)middle_copy(middle, MIDDLE_UP, up, BOOT_UP);
    (void)middle_copy(middle, MIDDLE_DOWN, down, BOOT_DOWN);
    begin_anew(state);
}

static void a_recording_opens_no_door(void **state)
{
    uint8_t up[BOOT_UP], down[BOOT_DOWN];
    char answer[64];
    int fd;

    record(state, up, down);
    boot_places[0].keyring = tci_keyring_shared(key, sizeof key - 1, NULL, 0);
    boot_world_start(0, 2, boot_world_listen("127.0.0.1"));

    fd = boot_world_knock((const char *)up, sizeof up);
    for (int k = 0; k < 10000 && recv(fd, answer, sizeof answer, MSG_DONTWAIT) != 0; k++)
        boot_world_turn(1);

    assert_int_equal(recv(fd, answer, sizeof answer, MSG_DONTWAIT), 0);
    assert_false(boot_places[0].is_done);
    close(fd);
}

static void a_recording_is_no_rank_0(void **state)
{
    uint8_t up[BOOT_UP], down[BOOT_DOWN];
    int listener, fd;

    record(state, up, down);
    listener = boot_world_listen("127.0.0.1");
    boot_places[1].keyring = tci_keyring_shared(key, sizeof key - 1, NULL, 0);
    boot_world_start(1, 2, -1);
    while ((fd = accept(listener, NULL, NULL)) < 0)
        boot_world_turn(1);
    assert_int_equal(send(fd, down, sizeof down, MSG_NOSIGNAL), sizeof down);

    boot_places[0].is_done = true;
    boot_world_run(1, 1);

    boot_world_check_text(1, TC_ERR_AUTH, 1, "different keys, or what they said was changed");
    close(fd);
    close(listener);
}

static int begin(void **state)
{
    middle = middle_new();
    return boot_world_setup(state);
}

static int end(void **state)
{
    int result = boot_world_teardown(state);

    middle_free(middle);
    return result;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_byte_can_be_changed, begin, end),
        cmocka_unit_test_setup_teardown(nothing_can_be_left_out, begin, end),
        cmocka_unit_test_setup_teardown(a_recording_opens_no_door, begin, end),
        cmocka_unit_test_setup_teardown(a_recording_is_no_rank_0, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
