/* test_auth.c - the proof of a key between two machines: every way in which it does not succeed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "net/auth.h"

static const char key_a[] = "0123456789abcdef0123456789abcdef", key_b[] = "another key of 16+";
static const char *const names[] = {"anna", "bert", "carl"};

/* Two sides, and what lies between them. */
struct duo {
    struct tci_auth_config config[2]; /* who dials, who is dialed */
    struct tci_keyring *keyring[2];   /* owned */
    struct tci_auth auth[2];
    unsigned message, at; /* byte `at` of message number `message` (1 to 4) is changed … */
    uint8_t flip;         /* … by these bits; 0: none is */
    size_t step;          /* bytes that come at a time; 0: all */
    uint8_t recorded[4][TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN];
    size_t recorded_len[4];
};

static void duo_init(struct duo *duo, struct tci_keyring *dialer, struct tci_keyring *dialed)
{
    *duo = (struct duo){.keyring = {dialer, dialed}};
    for (int k = 0; k < 2; k++)
        duo->config[k] = (struct tci_auth_config){.keyring = duo->keyring[k],
                                                  .place = TCI_AUTH_AT_LINK,
                                                  .is_dialer = k == 0,
                                                  .self = k == 0 ? 2 : 1,
                                                  .size = 3,
                                                  .peer = 1,
                                                  .group_id = {7, 7, 7}};
}

static void duo_fini(struct duo *duo)
{
    for (int k = 0; k < 2; k++) {
        tci_auth_fini(&duo->auth[k]);
        tci_keyring_unref(duo->keyring[k]);
    }
}

/* What a side says goes to the other one, changed maybe; nothing may follow its message. */
static void carry(struct duo *duo, int from, unsigned message)
{
    struct tci_auth *to = &duo->auth[1 - from];
    uint8_t wire[TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN];
    size_t len = duo->auth[from].out_len;

    memcpy(wire, duo->auth[from].out, len);
    memcpy(duo->recorded[message - 1], wire, len);
    duo->recorded_len[message - 1] = len;
    if (duo->flip != 0 && message == duo->message)
        wire[duo->at] ^= duo->flip;
    for (size_t done = 0; done < len;) {
        size_t part = tci_min(tci_auth_wants(to), len - done);

        if (duo->step != 0)
            part = tci_min(part, duo->step);
        if (part == 0)
            return;
        tci_auth_feed(to, wire + done, part);
        done += part;
    }
}

static void run(struct duo *duo)
{
    tci_auth_init(&duo->auth[0], &duo->config[0]);
    tci_auth_init(&duo->auth[1], &duo->config[1]);
    assert_null(duo->auth[1].out);
    for (unsigned message = 1; message <= 4; message++) {
        int from = message % 2 == 1 ? 0 : 1;

        if (duo->auth[from].out == NULL)
            return;
        carry(duo, from, message);
        duo->auth[from].out = NULL;
    }
}

static struct tci_keyring *shared(const char *key, const char *older)
{
    struct tci_keyring *keyring =
        tci_keyring_shared(key, strlen(key), older, older != NULL ? strlen(older) : 0);

    assert_non_null(keyring);
    return keyring;
}

/* Of the rank with that name, with its key under a number. */
static struct tci_keyring *personal(int rank, uint64_t active, uint64_t others)
{
    tc_transport_auth_key keys[3];
    const tc_transport_auth_config config = {.abi_version = TC_TRANSPORT_AUTH_ABI_VERSION_CURRENT,
                                             .local_identity = names[rank],
                                             .active_key_id = active,
                                             .keys = keys,
                                             .key_count = 3};
    struct tci_keyring *keyring;

    for (int k = 0; k < 3; k++)
        keys[k] = (tc_transport_auth_key){.identity = names[k],
                                          .key_id = k == rank ? active : others,
                                          .secret = &key_a[k],
                                          .secret_bytes = sizeof key_a - 3};
    keyring = tci_keyring_new(&config, names, 3);
    assert_non_null(keyring);
    return keyring;
}

static void check_proven(const struct duo *duo)
{
    const struct tci_session *a = &duo->auth[0].session, *b = &duo->auth[1].session;

    assert_int_equal(duo->auth[0].state, TCI_AUTH_PROVEN);
    assert_int_equal(duo->auth[1].state, TCI_AUTH_PROVEN);
    assert_memory_equal(a->send, b->receive, sizeof a->send);
    assert_memory_equal(a->receive, b->send, sizeof a->send);
    assert_memory_not_equal(a->send, a->receive, sizeof a->send);
    assert_int_equal(a->cipher, b->cipher);
    assert_true(a->cipher == TCI_CIPHER_AES256GCM || a->cipher == TCI_CIPHER_CHACHA20POLY1305);
    assert_int_equal(duo->auth[1].peer, 2);
    assert_memory_equal(duo->auth[0].group_id, duo->auth[1].group_id, TCI_GROUP_ID);
}

/* Both know the same, and each says who it was and shows no key. */
static void check_failed(const struct duo *duo, enum tci_auth_reason reason, bool dialer_denies,
                         const char *says)
{
    char text[300];

    for (int k = 0; k < 2; k++) {
        assert_int_equal(duo->auth[k].state, TCI_AUTH_FAILED);
        assert_int_equal(duo->auth[k].reason, reason);
        assert_int_equal(duo->auth[k].by_peer, dialer_denies == (k == 1));
        tci_auth_explain(&duo->auth[k], text, sizeof text);
        if (strstr(text, says) == NULL || strstr(text, "0123456789abc") != NULL)
            fail_msg("side %d says \"%s\", not \"%s\"", k, text, says);
    }
}

/* ---- It succeeds ----------------------------------------------------------------------------- */

static void who_has_the_key_is_believed(void **state)
{
    static const size_t steps[] = {0, 1, 7};
    struct duo duo;

    (void)state;
    for (size_t k = 0; k < TCI_LEN(steps); k++) {
        duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
        duo.step = steps[k];

        run(&duo);

        check_proven(&duo);
        duo_fini(&duo);
    }
}

static void who_dials_the_rendezvous_learns_the_group(void **state)
{
    struct duo duo;

    (void)state;
    duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
    duo.config[0].place = duo.config[1].place = TCI_AUTH_AT_RENDEZVOUS;
    duo.config[1].self = duo.config[0].peer = 0;
    memset(duo.config[0].group_id, 0, TCI_GROUP_ID);

    run(&duo);

    check_proven(&duo);
    assert_memory_equal(duo.auth[0].group_id, duo.config[1].group_id, TCI_GROUP_ID);
    duo_fini(&duo);
}

static void each_run_has_keys_of_its_own(void **state)
{
    struct tci_session before;
    struct duo duo;

    (void)state;
    duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
    run(&duo);
    before = duo.auth[0].session;

    run(&duo);

    check_proven(&duo);
    assert_memory_not_equal(before.send, duo.auth[0].session.send, sizeof before.send);
    duo_fini(&duo);
}

static void a_key_and_its_successor_hold_at_the_same_time(void **state)
{
    static const struct {
        const char *dialer[2], *dialed[2];
        bool are_good;
    } rows[] = {
        {{key_a, NULL}, {key_a, key_b}, true},  {{key_b, NULL}, {key_a, key_b}, true},
        {{key_a, key_b}, {key_a, NULL}, true},  {{key_a, key_b}, {key_b, NULL}, true},
        {{key_a, key_b}, {key_b, key_a}, true}, {{key_a, key_b}, {key_a, key_b}, true},
        {{key_a, NULL}, {key_b, NULL}, false},
    };
    struct duo duo;

    (void)state;
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        duo_init(&duo, shared(rows[k].dialer[0], rows[k].dialer[1]),
                 shared(rows[k].dialed[0], rows[k].dialed[1]));

        run(&duo);

        if (rows[k].are_good)
            check_proven(&duo);
        else
            check_failed(&duo, TCI_AUTH_PROOF_WRONG, true,
                         "have different keys, or what they said was changed");
        duo_fini(&duo);
    }
}

static void identities_prove_themselves_by_keys_of_their_own(void **state)
{
    struct duo duo;

    (void)state;
    duo_init(&duo, personal(2, 5, 5), personal(1, 5, 5));

    run(&duo);

    check_proven(&duo);
    duo_fini(&duo);
}

/* ---- It does not ----------------------------------------------------------------------------- */

static void a_key_on_one_side_alone_is_said_to_be_so(void **state)
{
    struct duo duo;

    (void)state;
    duo_init(&duo, shared(key_a, NULL), NULL);

    run(&duo);

    check_failed(&duo, TCI_AUTH_NO_KEY, false, "rank 2 has a key, rank 1 has none");
    duo_fini(&duo);
}

static void unlike_settings_are_refused(void **state)
{
    struct duo duo;

    (void)state;
    duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
    duo.keyring[0]->encrypts = true;
    run(&duo);
    check_failed(&duo, TCI_AUTH_ENCRYPTION, false, "set to encrypt, the other is not");
    duo_fini(&duo);

    duo_init(&duo, personal(2, 5, 5), shared(key_a, NULL));
    run(&duo);
    check_failed(&duo, TCI_AUTH_KIND, false, "in different ways");
    duo_fini(&duo);
}

static void another_identity_or_key_number_is_refused(void **state)
{
    struct duo duo;

    (void)state;
    duo_init(&duo, personal(2, 5, 5), personal(1, 5, 5));
    memcpy(duo.keyring[0]->identities[2], "bert", 5);
    run(&duo);
    check_failed(&duo, TCI_AUTH_IDENTITY, false, "rank 2 gives an identity that is not");
    duo_fini(&duo);

    duo_init(&duo, personal(2, 6, 5), personal(1, 5, 5));
    run(&duo);
    check_failed(&duo, TCI_AUTH_KEY_ID, false, "rank 2 proves itself by a key number");
    duo_fini(&duo);
}

/* Who knows the key of one rank is not taken for another. */
static void a_rank_cannot_be_another(void **state)
{
    struct duo duo;

    (void)state;
    duo_init(&duo, personal(0, 5, 5), personal(1, 5, 5));
    duo.config[0].self = 2;
    run(&duo);
    check_proven(&duo); /* who holds the keys of all can be anyone */
    duo_fini(&duo);

    duo_init(&duo, personal(2, 5, 5), personal(1, 5, 5));
    for (size_t k = 0; k < 3; k++) /* but not who holds its own alone */
        if (strcmp(duo.keyring[0]->secrets[k].identity, names[2]) == 0)
            duo.keyring[0]->secrets[k].bytes = (const uint8_t *)key_b;
    run(&duo);
    check_failed(&duo, TCI_AUTH_PROOF_WRONG, false, "have different keys");
    duo_fini(&duo);
}

static void what_is_meant_for_others_is_refused(void **state)
{
    struct duo duo;

    (void)state;
    for (int what = 0; what < 4; what++) {
        duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
        if (what == 0)
            duo.config[1].self = 0;
        else if (what == 1)
            duo.config[1].group_id[15] = 1;
        else if (what == 2)
            duo.config[0].place = TCI_AUTH_AT_RENDEZVOUS;
        else
            duo.config[0].self = 1;

        run(&duo);

        check_failed(&duo, TCI_AUTH_ELSEWHERE, false, "what was meant for another");
        duo_fini(&duo);
    }
}

static void another_version_is_refused(void **state)
{
    struct duo duo;

    (void)state;
    duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
    duo.message = 1;
    duo.at = 8;
    duo.flip = 1;

    run(&duo);

    assert_int_equal(duo.auth[0].reason, TCI_AUTH_VERSION);
    assert_int_equal(duo.auth[1].reason, TCI_AUTH_VERSION);
    assert_int_equal(duo.auth[1].peer_version, 256 + TCI_BOOT_VERSION);
    duo_fini(&duo);
}

/* ---- Someone in the middle ------------------------------------------------------------------- */

/* Whatever byte of whatever message changes, who is told of it believes nothing, and what was to
 * come before one believes is missing. */
static void not_a_byte_can_be_changed(void **state)
{
    static const size_t lens[] = {
        TCI_BOOT_HEAD + TCI_BOOT_OFFER_LEN, TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN,
        TCI_BOOT_HEAD + TCI_BOOT_PROOF_LEN, TCI_BOOT_HEAD + TCI_BOOT_FINISH_LEN};
    struct duo duo;

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        if (kind == 0)
            duo_init(&duo, shared(key_a, NULL), shared(key_a, key_b));
        else
            duo_init(&duo, personal(2, 5, 5), personal(1, 5, 5));
        for (duo.message = 1; duo.message <= 4; duo.message++)
            for (duo.at = 0; duo.at < lens[duo.message - 1]; duo.at++) {
                duo.flip = (uint8_t)(1u << duo.at % 8);
                run(&duo);
                assert_int_not_equal(duo.auth[0].state, TCI_AUTH_PROVEN);
                if (duo.message < 4)
                    assert_int_not_equal(duo.auth[1].state, TCI_AUTH_PROVEN);
            }
        duo_fini(&duo);
    }
}

/* Messages of a run that went well are of no use in another. */
static void a_recording_is_not_believed(void **state)
{
    struct duo duo, before;

    (void)state;
    duo_init(&before, shared(key_a, NULL), shared(key_a, NULL));
    run(&before);
    duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
    run(&duo);

    /* to who is dialed */
    tci_auth_init(&duo.auth[1], &duo.config[1]);
    for (int message = 0; message < 3; message += 2)
        for (size_t k = 0; k < before.recorded_len[message]; k++)
            tci_auth_feed(&duo.auth[1], &before.recorded[message][k], 1);
    assert_int_equal(duo.auth[1].state, TCI_AUTH_FAILED);
    assert_int_equal(duo.auth[1].reason, TCI_AUTH_PROOF_WRONG);

    /* to who dials */
    tci_auth_init(&duo.auth[0], &duo.config[0]);
    for (size_t k = 0; k < before.recorded_len[1]; k++)
        tci_auth_feed(&duo.auth[0], &before.recorded[1][k], 1);
    assert_int_equal(duo.auth[0].state, TCI_AUTH_FAILED);
    assert_int_equal(duo.auth[0].reason, TCI_AUTH_PROOF_WRONG);
    duo_fini(&duo);
    duo_fini(&before);
}

/* Whoever is told its own words believes nothing. */
static void an_echo_is_not_believed(void **state)
{
    uint8_t echo[TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN] = {0};
    struct duo duo;

    (void)state;
    duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
    tci_auth_init(&duo.auth[0], &duo.config[0]);
    tci_auth_init(&duo.auth[1], &duo.config[1]);
    memcpy(echo, duo.auth[0].out, duo.auth[0].out_len);
    tci_boot_head_encode(TCI_BOOT_ANSWER, TCI_BOOT_ANSWER_LEN, echo);

    for (size_t k = 0; k < sizeof echo; k++)
        tci_auth_feed(&duo.auth[0], &echo[k], 1);

    assert_int_equal(duo.auth[0].state, TCI_AUTH_FAILED);
    duo_fini(&duo);
}

/* A point of low order would make the secret of the exchange known to all. */
static void a_point_that_is_none_is_refused(void **state)
{
    struct duo duo;
    uint8_t wire[TCI_BOOT_HEAD + TCI_BOOT_OFFER_LEN];

    (void)state;
    duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
    tci_auth_init(&duo.auth[0], &duo.config[0]);
    tci_auth_init(&duo.auth[1], &duo.config[1]);
    memcpy(wire, duo.auth[0].out, sizeof wire);
    memset(wire + TCI_BOOT_HEAD + 72, 0, TCI_AUTH_POINT);

    for (size_t k = 0; k < sizeof wire; k++)
        tci_auth_feed(&duo.auth[1], &wire[k], 1);

    assert_int_equal(duo.auth[1].reason, TCI_AUTH_GARBLED);
    duo_fini(&duo);
}

static void what_is_not_of_the_proof_is_handed_back(void **state)
{
    uint8_t join[TCI_BOOT_HEAD];
    struct duo duo;

    (void)state;
    duo_init(&duo, shared(key_a, NULL), shared(key_a, NULL));
    tci_auth_init(&duo.auth[1], &duo.config[1]);
    tci_boot_head_encode(TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN, join);
    tci_auth_feed(&duo.auth[1], join, sizeof join);
    assert_int_equal(duo.auth[1].state, TCI_AUTH_FOREIGN);
    assert_memory_equal(duo.auth[1].in, join, sizeof join);

    /* A stranger's first byte is enough, and gets no answer. */
    tci_auth_init(&duo.auth[1], &duo.config[1]);
    tci_auth_feed(&duo.auth[1], (const uint8_t *)"G", 1);
    assert_int_equal(duo.auth[1].state, TCI_AUTH_FAILED);
    assert_null(duo.auth[1].out);
    duo_fini(&duo);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void keys_are_copied_and_counted(void **state)
{
    char key[] = "0123456789abcdef", older[] = "fedcba9876543210";
    struct tci_keyring *keyring = tci_keyring_shared(key, 16, older, 16);

    (void)state;
    assert_non_null(keyring);
    memset(key, 0, sizeof key);
    assert_ptr_equal(tci_keyring_ref(keyring), keyring);
    tci_keyring_unref(keyring);
    assert_memory_equal(keyring->secrets[0].bytes, "0123456789abcdef", 16);
    assert_memory_equal(keyring->secrets[1].bytes, "fedcba9876543210", 16);
    assert_null(tci_keyring_find(keyring, "anna", 1));
    tci_keyring_unref(keyring);
    tci_keyring_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_the_key_is_believed),
        cmocka_unit_test(who_dials_the_rendezvous_learns_the_group),
        cmocka_unit_test(each_run_has_keys_of_its_own),
        cmocka_unit_test(a_key_and_its_successor_hold_at_the_same_time),
        cmocka_unit_test(identities_prove_themselves_by_keys_of_their_own),
        cmocka_unit_test(a_key_on_one_side_alone_is_said_to_be_so),
        cmocka_unit_test(unlike_settings_are_refused),
        cmocka_unit_test(another_identity_or_key_number_is_refused),
        cmocka_unit_test(a_rank_cannot_be_another),
        cmocka_unit_test(what_is_meant_for_others_is_refused),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(not_a_byte_can_be_changed),
        cmocka_unit_test(a_recording_is_not_believed),
        cmocka_unit_test(an_echo_is_not_believed),
        cmocka_unit_test(a_point_that_is_none_is_refused),
        cmocka_unit_test(what_is_not_of_the_proof_is_handed_back),
        cmocka_unit_test(keys_are_copied_and_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
