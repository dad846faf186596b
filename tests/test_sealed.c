/* test_sealed.c - records, and links that are sealed: what is seen on the way, and what changes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/auth_proof.h"
#include "net/crypt.h"
#include "support/middle.h"
#include "support/sample.h"
#include "support/world.h"

static const char key[] = "0123456789abcdef0123456789abcdef";
static const char marker[] = "this payload is to be found nowhere";

/* ---- Records --------------------------------------------------------------------------------- */

static const uint8_t secret[32] = {1, 2, 3};

/* Each cipher that this machine has. */
static void each_cipher(void (*body)(uint8_t cipher))
{
    assert_true(sodium_init() >= 0);
    body(TCI_CIPHER_CHACHA20POLY1305);
    if (tci_seal_ciphers() & TCI_CIPHER_AES256GCM)
        body(TCI_CIPHER_AES256GCM);
}

static void check_keys_follow(uint8_t cipher)
{
    static struct tci_seal a, b;
    uint8_t record[TCI_RECORD_OVER + 8], payload[8], first[32];

    tci_seal_init(&a, cipher, secret);
    tci_seal_init(&b, cipher, secret);
    memcpy(first, a.key, sizeof first);
    for (uint64_t k = 0; k < 2 * TCI_RECORDS_A_KEY + 10; k++) {
        assert_int_equal(memcmp(a.key, first, sizeof first) == 0, k <= TCI_RECORDS_A_KEY);
        tci_seal_close(&a, (const uint8_t *)&k, sizeof k, record);
        assert_int_equal(tci_record_bytes(record, 8), sizeof record);
        assert_true(tci_seal_open(&b, record, sizeof record, payload));
        assert_memory_equal(payload, &k, sizeof k);
    }
    tci_seal_fini(&a);
    tci_seal_fini(&b);
}

static void keys_follow_each_other(void **state)
{
    (void)state;
    each_cipher(check_keys_follow);
}

static void check_changes(uint8_t cipher)
{
    static struct tci_seal a, b;
    uint8_t record[TCI_RECORD_OVER + sizeof marker], payload[sizeof marker];

    for (size_t at = 0; at < sizeof record; at++) {
        tci_seal_init(&a, cipher, secret);
        tci_seal_init(&b, cipher, secret);
        tci_seal_close(&a, (const uint8_t *)marker, sizeof marker, record);
        assert_memory_not_equal(record + TCI_RECORD_HEAD, marker, sizeof marker);
        record[at] ^= (uint8_t)(1u << at % 8);
        assert_false(tci_seal_open(&b, record, sizeof record, payload));
    }
}

static void check_order(uint8_t cipher)
{
    static struct tci_seal a, b;
    uint8_t first[TCI_RECORD_OVER + 1], second[TCI_RECORD_OVER + 1], payload[1];

    tci_seal_init(&a, cipher, secret);
    tci_seal_close(&a, (const uint8_t *)"a", 1, first);
    tci_seal_close(&a, (const uint8_t *)"b", 1, second);
    tci_seal_init(&b, cipher, secret);
    assert_false(tci_seal_open(&b, second, sizeof second, payload)); /* one is left out */
    tci_seal_init(&b, cipher, secret);
    assert_true(tci_seal_open(&b, first, sizeof first, payload));
    assert_false(tci_seal_open(&b, first, sizeof first, payload)); /* one comes twice */
}

static void a_record_opens_as_it_was_and_in_its_place_alone(void **state)
{
    (void)state;
    each_cipher(check_changes);
    each_cipher(check_order);
}

static void lengths_are_bounded(void **state)
{
    uint8_t head[TCI_RECORD_HEAD] = {0};

    (void)state;
    assert_int_equal(tci_record_bytes(head, 100), 0);
    head[3] = TCI_RECORD_TAG;
    assert_int_equal(tci_record_bytes(head, 100), 0);
    head[3] = TCI_RECORD_TAG + 1;
    assert_int_equal(tci_record_bytes(head, 100), TCI_RECORD_OVER + 1);
    head[3] = TCI_RECORD_TAG + 100;
    assert_int_equal(tci_record_bytes(head, 100), TCI_RECORD_OVER + 100);
    head[3] = TCI_RECORD_TAG + 101;
    assert_int_equal(tci_record_bytes(head, 100), 0);
    head[0] = 0xff;
    assert_int_equal(tci_record_bytes(head, 100), 0);
}

/* ---- Streams --------------------------------------------------------------------------------- */

enum { STREAM = 3 << 20 };

/* Two ends of a connection, sealed or about to be. */
static void open_pair(struct tci_crypt *ends[2], int fds[2])
{
    struct tci_session sessions[2] = {{.cipher = TCI_CIPHER_CHACHA20POLY1305, .encrypts = true},
                                      {.cipher = TCI_CIPHER_CHACHA20POLY1305, .encrypts = true}};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    memset(sessions[0].send, 1, 32);
    memset(sessions[1].receive, 1, 32);
    for (int k = 0; k < 2; k++) {
        ends[k] = tci_crypt_new(&sessions[k]);
        assert_non_null(ends[k]);
        assert_true(tci_crypt_grow(ends[k]));
    }
}

static void close_pair(struct tci_crypt *ends[2], int fds[2])
{
    for (int k = 0; k < 2; k++) {
        tci_crypt_free(ends[k]);
        close(fds[k]);
    }
}

/* Some of what is left, in up to three pieces. */
static int pieces(struct sample *sample, uint8_t *from, size_t left, struct iovec iov[3])
{
    int count = 0;

    while (count < 3 && left > 0) {
        size_t len = 1 + (size_t)sample_below(sample, count == 0 ? 200 : 100000);

        len = len < left ? len : left;
        iov[count++] = (struct iovec){from, len};
        from += len;
        left -= len;
    }
    return count;
}

/* Whatever pieces it is written and read in, the stream is the same. */
static void a_stream_comes_as_it_went(void **state)
{
    uint8_t *said = malloc(STREAM), *heard = calloc(1, STREAM);
    size_t written = 0, read = 0;
    struct sample sample = sample_begin(1);
    struct tci_crypt *ends[2];
    int fds[2];

    (void)state;
    assert_non_null(said);
    assert_non_null(heard);
    for (size_t k = 0; k < STREAM; k++)
        said[k] = (uint8_t)sample_below(&sample, 256);
    open_pair(ends, fds);
    while (read < STREAM) {
        struct iovec iov[3];
        int count = pieces(&sample, said + written, STREAM - written, iov);
        ssize_t done = count > 0 ? tci_crypt_writev(ends[0], fds[0], iov, count)
                                 : tci_crypt_flush(ends[0], fds[0]);

        assert_true(done >= 0 || errno == EAGAIN);
        written += done > 0 ? (size_t)done : 0;
        count = pieces(&sample, heard + read, STREAM - read, iov);
        done = tci_crypt_readv(ends[1], fds[1], iov, count);
        assert_true(done > 0 || errno == EAGAIN);
        read += done > 0 ? (size_t)done : 0;
    }
    assert_memory_equal(said, heard, STREAM);
    assert_true(tci_crypt_is_flushed(ends[0]) && tci_crypt_is_between(ends[1]));
    close_pair(ends, fds);
    free(said);
    free(heard);
}

static void a_broken_record_is_the_end_of_a_stream(void **state)
{
    const struct iovec says = {(void *)(uintptr_t)marker, sizeof marker};
    char heard[sizeof marker], wire[TCI_RECORD_OVER + sizeof marker];
    const struct iovec hears = {heard, sizeof heard};
    struct tci_crypt *ends[2];
    int fds[2];

    (void)state;
    open_pair(ends, fds);
    assert_int_equal(tci_crypt_writev(ends[0], fds[0], &says, 1), sizeof marker);
    assert_int_equal(tci_crypt_readv(ends[1], fds[1], &hears, 1), sizeof marker);
    assert_int_equal(tci_crypt_writev(ends[0], fds[0], &says, 1), sizeof marker);
    assert_int_equal(recv(fds[1], wire, sizeof wire, 0), sizeof wire);
    wire[20] ^= 1;
    assert_int_equal(send(fds[0], wire, sizeof wire, 0), sizeof wire);
    assert_int_equal(tci_crypt_writev(ends[0], fds[0], &says, 1), sizeof marker);
    for (int k = 0; k < 3; k++) {
        assert_true(k == 0 || tci_crypt_has_input(ends[1]));
        assert_int_equal(tci_crypt_readv(ends[1], fds[1], &hears, 1), -1);
        assert_int_equal(errno, EBADMSG);
    }
    close_pair(ends, fds);
}

/* ---- Links ----------------------------------------------------------------------------------- */

static void open_through(struct world *world, struct middle *middle, int encryption)
{
    struct sockaddr_in target;
    socklen_t len = sizeof target;
    tc_future *futures[2];
    char direct[64], door[64];
    int fd = world_listen(direct, sizeof direct);
    tc_config config;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&target, &len), 0);
    middle_begin(middle, &target);
    (void)snprintf(door, sizeof door, "tcp://127.0.0.1:%u", middle_port(middle));
    setenv("TCDIST_SHM", "0", 1); /* which would go round the middle */
    tc_config_default(&config);
    config.key = key;
    config.key_bytes = sizeof key - 1;
    config.encryption = encryption;
    memset(world, 0, sizeof *world);
    world->size = 2;
    for (int r = 0; r < 2; r++) {
        tc_dist_options options;

        assert_int_equal(tc_init_config(&config, &world->context[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = 2;
        options.rank = r;
        options.rendezvous_url = r == 0 ? direct : door;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(world->context[r], &options, &world->group[r]);
    }
    for (int r = 0; r < 2; r++) {
        if (world_wait(world, futures[r]) != TC_OK)
            fail_msg("rank %d: %s", r, tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
    }
}

enum { LEN = 200000 };
static uint8_t data[2][LEN], got[2][2 * LEN];

/* Each rank gets what the other one has; false: it ends with an error. */
static bool exchange(struct world *world, uint64_t tag, size_t len)
{
    tc_future *futures[2];
    bool are_good = true;

    for (int r = 0; r < 2; r++) {
        memset(got[r], 0, 2 * len);
        futures[r] =
            tc_allgather_async(world->group[r], tag, data[r], got[r], len, TC_DTYPE_U8, NULL);
    }
    for (int r = 0; r < 2; r++) {
        if (world_wait(world, futures[r]) == TC_OK) {
            assert_memory_equal(got[r], data[0], len);
            assert_memory_equal(got[r] + len, data[1], len);
        } else {
            are_good = false;
        }
        tc_future_release(futures[r]);
    }
    return are_good;
}

static void fill_with_marker(void)
{
    for (int r = 0; r < 2; r++)
        for (size_t k = 0; k < LEN; k++)
            data[r][k] = (uint8_t)marker[k % (sizeof marker - 1)];
}

/* With encryption no payload is seen on the way; without, it is, or the test would see nothing. */
static void no_payload_is_seen_on_the_way(void **state)
{
    static const size_t lens[] = {50, 5000, LEN};

    (void)state;
    fill_with_marker();
    for (int encryption = -1; encryption <= 1; encryption += 2) {
        struct middle *middle = middle_new();
        struct world world;

        open_through(&world, middle, encryption);
        for (uint64_t k = 0; k < 3; k++)
            assert_true(exchange(&world, k, lens[k]));
        assert_int_equal(middle_has_seen(middle, marker, sizeof marker - 1), encryption < 0);
        assert_true(middle_count(middle, MIDDLE_UP) > LEN);
        world_close(&world);
        middle_free(middle);
    }
}

/* A byte is changed somewhere on the way: what has ended well is right, and it soon ends. */
static void check_change(struct sample *sample, int way)
{
    struct middle *middle = middle_new();
    struct world world;
    uint64_t tag = 0;

    open_through(&world, middle, 1);
    assert_true(exchange(&world, tag++, 1000));
    middle_flip(middle, way, middle_count(middle, way) + (size_t)sample_below(sample, 3 * LEN),
                (uint8_t)(1u << sample_below(sample, 8)));
    while (exchange(&world, tag, tag % 3 == 0 ? LEN : 1000))
        tag++;
    assert_true(middle_is_done(middle));
    for (int r = 0; r < 2; r++) {
        while (tc_dist_health(world.group[r], NULL) == TC_OK)
            usleep(1000); /* what one rank has found the other one hears a moment later */
        assert_int_equal(tc_dist_close(world.group[r]), TC_OK);
        world.group[r] = NULL;
    }
    world_close(&world);
    middle_free(middle);
}

static void a_changed_byte_ends_the_link_and_is_no_result(void **state)
{
    static const int rounds[] = {4, 12, 200};
    struct sample sample = sample_begin(1);

    (void)state;
    for (int r = 0; r < 2; r++)
        for (size_t k = 0; k < LEN; k++)
            data[r][k] = (uint8_t)(sample_below(&sample, 256) | 1);
    for (int round = 0; round < rounds[test_effort()]; round++)
        check_change(&sample, round % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_follow_each_other),
        cmocka_unit_test(a_record_opens_as_it_was_and_in_its_place_alone),
        cmocka_unit_test(lengths_are_bounded),
        cmocka_unit_test(a_stream_comes_as_it_went),
        cmocka_unit_test(a_broken_record_is_the_end_of_a_stream),
        cmocka_unit_test(no_payload_is_seen_on_the_way),
        cmocka_unit_test(a_changed_byte_ends_the_link_and_is_no_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
