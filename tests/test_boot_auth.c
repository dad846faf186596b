/* test_boot_auth.c - the rendezvous of ranks with keys: who gets in, who does not, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "net/crypt.h"
#include "support/boot_world.h"
#include "tcdist/log.h"

static const char key_a[] = "0123456789abcdef0123456789abcdef", key_b[] = "another key of 16+";
enum { SHORT_MS = 1000, LINE_ROOM = 512 };

static void give_key(int place, const char *key, const char *older)
{
    boot_places[place].keyring =
        tci_keyring_shared(key, strlen(key), older, older != NULL ? strlen(older) : 0);
    assert_non_null(boot_places[place].keyring);
}

static void check_stands(int size)
{
    for (int rank = 0; rank < size; rank++) {
        if (boot_places[rank].status != TC_OK)
            fail_msg("rank %d: %s", rank, boot_places[rank].error.text);
        assert_memory_equal(boot_places[rank].result.group_id, boot_places[0].result.group_id,
                            TCI_GROUP_ID);
    }
}

static bool is_sealed(int rank, int peer)
{
    const struct tci_boot_result *result = &boot_places[rank].result;

    return result->crypts != NULL && result->crypts[peer] != NULL;
}

static void ranks_with_one_key_meet(void **state)
{
    (void)state;
    for (int rank = 0; rank < 4; rank++)
        give_key(rank, rank == 1 ? key_b : key_a, rank < 2 ? rank == 0 ? key_b : key_a : NULL);
    boot_world_start(0, 4, boot_world_listen("127.0.0.1"));
    for (int rank = 1; rank < 4; rank++)
        boot_world_start(rank, 4, -1);

    boot_world_run(0, 3);

    check_stands(4);
    for (int rank = 1; rank < 4; rank++) {
        assert_false(is_sealed(rank, 0));
        assert_false(is_sealed(0, rank));
        assert_ptr_equal(boot_places[rank].result.keyring, boot_places[rank].keyring);
    }
}

/* The connections go on sealed: what is said at one end opens at the other, and not else. */
static void ranks_that_encrypt_go_on_sealed(void **state)
{
    static const struct iovec said = {(void *)(uintptr_t) "hello", 5};
    char heard[6] = "";
    const struct iovec place = {heard, 5};

    (void)state;
    for (int rank = 0; rank < 3; rank++) {
        give_key(rank, key_a, NULL);
        boot_places[rank].keyring->encrypts = true;
    }
    boot_world_start(0, 3, boot_world_listen("127.0.0.1"));
    boot_world_start(1, 3, -1);
    boot_world_start(2, 3, -1);

    boot_world_run(0, 2);

    check_stands(3);
    for (int rank = 1; rank < 3; rank++) {
        struct tci_boot_result *root = &boot_places[0].result, *own = &boot_places[rank].result;
        ssize_t got = -1;

        assert_true(is_sealed(rank, 0) && is_sealed(0, rank));
        assert_true(tci_crypt_grow(root->crypts[rank]) && tci_crypt_grow(own->crypts[0]));
        assert_int_equal(tci_crypt_writev(own->crypts[0], own->fds[0], &said, 1), 5);
        for (int k = 0; k < 1000 && got < 0; k++) {
            got = tci_crypt_readv(root->crypts[rank], root->fds[rank], &place, 1);
            if (got < 0) {
                assert_int_equal(errno, EAGAIN);
                usleep(1000);
            }
        }
        assert_int_equal(got, 5);
        assert_string_equal(heard, "hello");
    }
}

/* The one without the key is told at once; who has it hears of it from rank 0, at the deadline. */
static void check_denied(const char *root_key, const char *member_key, const char *says)
{
    int fd = boot_world_listen("127.0.0.1");

    give_key(0, root_key, NULL);
    give_key(2, root_key, NULL);
    if (member_key != NULL)
        give_key(1, member_key, NULL);
    assert_true(boot_world_start_at(0, 0, 3, fd, SHORT_MS));
    assert_true(boot_world_start_at(2, 2, 3, -1, SHORT_MS));
    assert_true(boot_world_start_at(1, 1, 3, -1, 60000));

    boot_world_run(0, 2);

    for (int place = 0; place < 3; place++) {
        boot_world_check_text(place, TC_ERR_AUTH, 1, says);
        if (strstr(boot_places[place].error.text, "0123456789") != NULL ||
            strstr(boot_places[place].error.text, key_b) != NULL)
            fail_msg("place %d shows a key: %s", place, boot_places[place].error.text);
    }
}

static void another_key_is_refused(void **state)
{
    (void)state;
    check_denied(key_a, key_b, "have different keys, or what they said");
}

static void note_absence(tc_log_level_t level, const char *line, void *arg)
{
    if (level == TC_LOG_WARN && strstr(line, "rank 1 of 2 has not come") != NULL)
        (void)snprintf(arg, LINE_ROOM, "%s", line);
}

/* After 3 s, long before the deadline. */
static void what_rank_0_says_meanwhile_names_the_key(void **state)
{
    char said[LINE_ROOM] = "";

    (void)state;
    give_key(0, key_a, NULL);
    give_key(1, key_b, NULL);
    tc_log_set_sink(note_absence, said);
    assert_true(boot_world_start_at(0, 0, 2, boot_world_listen("127.0.0.1"), 60000));
    assert_true(boot_world_start_at(1, 1, 2, -1, 60000));
    boot_world_run(1, 1);
    while (said[0] == '\0' && !boot_places[0].is_done)
        boot_world_turn(100);
    tc_log_set_sink(NULL, NULL);
    boot_world_cancel(&boot_places[0]);
    if (strstr(said, "have different keys") == NULL || strstr(said, "start it") != NULL ||
        strstr(said, "strangers") != NULL)
        fail_msg("rank 0 says \"%s\"", said);
}

static void a_rank_without_a_key_is_refused(void **state)
{
    (void)state;
    check_denied(key_a, NULL, "rank 1 has no key, rank 0 has one: give every rank the same key");
}

static void a_key_that_rank_0_lacks_is_refused(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    give_key(1, key_a, NULL);
    boot_world_start(0, 3, fd);
    boot_world_start(2, 3, -1);
    boot_world_turn(30);
    boot_world_start(1, 3, -1);

    boot_world_run(0, 2);

    for (int place = 0; place < 3; place++)
        boot_world_check_text(place, TC_ERR_AUTH, 1, "rank 1 has");
}

static void encryption_on_one_side_alone_is_refused(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    for (int rank = 0; rank < 2; rank++)
        give_key(rank, key_a, NULL);
    boot_places[1].keyring->encrypts = true;
    assert_true(boot_world_start_at(0, 0, 2, fd, SHORT_MS));
    assert_true(boot_world_start_at(1, 1, 2, -1, 60000));

    boot_world_run(0, 1);

    boot_world_check_text(0, TC_ERR_AUTH, 1, "is set to encrypt, the other is not");
    boot_world_check_text(1, TC_ERR_AUTH, 1, "is set to encrypt, the other is not");
}

static void settings_of_sizes_still_differ_in_words(void **state)
{
    int fd = boot_world_listen("127.0.0.1");

    (void)state;
    give_key(0, key_a, NULL);
    give_key(1, key_a, NULL);
    boot_world_start(0, 3, fd);
    boot_world_start(1, 4, -1);

    boot_world_run(0, 1);

    boot_world_check_text(0, TC_ERR_RENDEZVOUS, 1, "rank 0 was started with 3");
    boot_world_check_text(1, TC_ERR_RENDEZVOUS, 1, "with 4; start all with the same");
}

/* Whoever comes without the key, whatever it says, disturbs nobody that has it. */
static void strangers_do_not_disturb(void **state)
{
    uint8_t join[TCI_BOOT_HEAD + TCI_BOOT_JOIN_LEN], offer[TCI_BOOT_HEAD + TCI_BOOT_OFFER_LEN];
    struct tci_boot_join claims = {.size = 2, .rank = 1};
    int fds[6], count = 0;

    (void)state;
    give_key(0, key_a, NULL);
    give_key(1, key_a, NULL);
    boot_world_start(0, 2, boot_world_listen("127.0.0.1"));
    boot_world_turn(5);
    claims.addr = boot_meeting;
    tci_boot_head_encode(TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN, join);
    tci_boot_join_encode(&claims, join + TCI_BOOT_HEAD);
    memset(offer, 0xff, sizeof offer);
    tci_boot_head_encode(TCI_BOOT_OFFER, TCI_BOOT_OFFER_LEN, offer);

    fds[count++] = boot_world_knock((const char *)join, sizeof join);
    fds[count++] = boot_world_knock((const char *)offer, sizeof offer);
    fds[count++] = boot_world_knock((const char *)offer, 40);
    fds[count++] = boot_world_knock_text("GET / HTTP/1.1\r\n\r\n");
    fds[count++] = boot_world_knock(NULL, 0);
    boot_world_turn(20);
    assert_false(boot_places[0].is_done);
    boot_world_start(1, 2, -1);
    boot_world_run(0, 1);

    check_stands(2);
    while (count > 0)
        close(fds[--count]);
}

static bool forms_with_failure_at(uint64_t n)
{
    int fd = boot_world_listen("127.0.0.1");
    bool has_started = true, has_formed = true;

    for (int rank = 0; rank < 3; rank++) {
        give_key(rank, key_a, NULL);
        boot_places[rank].keyring->encrypts = true;
    }
    tci_alloc_fail_at(n, 0);
    for (int rank = 0; rank < 3 && has_started; rank++)
        has_started = boot_world_start_at(rank, rank, 3, rank == 0 ? fd : -1, 30000);
    while (has_started && has_formed && !boot_world_is_at(0, 2)) {
        assert_int_equal(tci_loop_turn(boot_loop, 1000), TC_OK);
        for (int rank = 0; rank < 3; rank++)
            has_formed = has_formed && boot_places[rank].status == TC_OK;
    }
    tci_alloc_fail_at(0, 0);
    return has_started && has_formed;
}

static void without_memory_it_ends_with_an_error(void **state)
{
    uint64_t live = tci_alloc_live();
    bool has_formed = false;
    uint64_t n;

    for (n = 1; n < 300 && !has_formed; n++) {
        has_formed = forms_with_failure_at(n);
        boot_world_teardown(state);
        assert_true(tci_alloc_live() <= live);
        assert_int_equal(boot_world_setup(state), 0);
    }
    assert_true(has_formed);
    assert_true(n > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranks_with_one_key_meet, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(ranks_that_encrypt_go_on_sealed, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(another_key_is_refused, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(what_rank_0_says_meanwhile_names_the_key, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(a_rank_without_a_key_is_refused, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(a_key_that_rank_0_lacks_is_refused, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(encryption_on_one_side_alone_is_refused, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(settings_of_sizes_still_differ_in_words, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(strangers_do_not_disturb, boot_world_setup,
                                        boot_world_teardown),
        cmocka_unit_test_setup_teardown(without_memory_it_ends_with_an_error, boot_world_setup,
                                        boot_world_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
