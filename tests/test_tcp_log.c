/* test_tcp_log.c - what was sent over a link is sent again from where its peer says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "net/tcp_log.h"
#include "sim/exec_sim.h"

enum { PARTS = 4, LEN = 100 };

static void add_and_send(struct tci_log *log, int count)
{
    for (int i = 0; i < count; i++) {
        uint8_t *at = tci_log_room(log, LEN, 0);

        assert_non_null(at);
        for (int k = 0; k < LEN; k++)
            at[k] = (uint8_t)(i * LEN + k);
        tci_log_add(log, LEN);
    }
    tci_log_sent(log, (size_t)count * LEN);
}

/* All from a position on is to be sent, and nothing else. */
static void goes_on_from(const struct tci_log *log, uint64_t position)
{
    struct iovec parts[PARTS];
    int count = tci_log_parts(log, parts, PARTS, SIZE_MAX);

    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < parts[i].iov_len; k++)
            assert_int_equal(((const uint8_t *)parts[i].iov_base)[k], (uint8_t)position++);
    assert_int_equal(position, log->end);
}

static void what_the_peer_has_not_got_is_sent_again(void **state)
{
    struct tci_log log = {.ring = NULL};

    (void)state;
    add_and_send(&log, 3);
    assert_true(tci_log_rewind(&log, 120));
    goes_on_from(&log, 120);
    tci_log_sent(&log, 180);
    goes_on_from(&log, 300);
    tci_log_fini(&log);
}

/* A greeting that was on its way for long says less than the one after it. */
static void a_later_word_may_say_more_than_an_older_one(void **state)
{
    struct tci_log log = {.ring = NULL};

    (void)state;
    add_and_send(&log, 3);
    assert_true(tci_log_rewind(&log, 50));
    assert_true(tci_log_rewind(&log, 250));
    goes_on_from(&log, 250);
    assert_false(tci_log_rewind(&log, 301)); /* never sent */
    assert_false(tci_log_rewind(&log, 249)); /* acknowledged */
    goes_on_from(&log, 250);
    assert_true(tci_log_rewind(&log, 300));
    goes_on_from(&log, 300);
    assert_false(tci_log_ack(&log, 301)); /* never sent */
    assert_true(tci_log_ack(&log, 300));
    tci_log_fini(&log);
}

/* ---- Payloads that are cut out ---- */

enum { HEAD = 80, FRAMES = 400, PAYLOAD_MAX = 3000, STREAM_MAX = FRAMES * (HEAD + PAYLOAD_MAX) };

/* What is to come out of the log. */
struct model {
    uint8_t bytes[STREAM_MAX];
    uint64_t end, cuts;
    struct tci_xfer xfers[FRAMES]; /* one a frame, not all are used */
    uint64_t released;
};
static struct model model;

static void note_release(struct tci_log *log, struct tci_xfer *xfer, uint64_t len)
{
    (void)log;
    assert_in_range(xfer - model.xfers, 0, FRAMES - 1);
    model.released += len;
}

/* A header, and a payload that is copied at once, copied once it has left, or borrowed. */
static uint64_t add_frame(struct tci_log *log, int frame, uint64_t *random)
{
    size_t len = 1 + sim_random(random) % PAYLOAD_MAX;
    unsigned how = sim_random(random) % 3;
    size_t now = how == 0 ? len : 0, later = how == 1 ? len : 0;
    uint8_t *at = tci_log_room(log, HEAD + now, later), *bytes = model.bytes + model.end;

    assert_non_null(at);
    for (size_t i = 0; i < HEAD + len; i++)
        bytes[i] = (uint8_t)sim_random(random);
    memcpy(at, bytes, HEAD + now);
    tci_log_add(log, HEAD + now);
    model.end += HEAD + len;
    if (how == 0)
        return 0;
    model.xfers[frame].data = malloc(len);
    assert_non_null(model.xfers[frame].data);
    memcpy(model.xfers[frame].data, bytes + HEAD, len);
    tci_log_add_payload(log, &model.xfers[frame], model.xfers[frame].data, len, later);
    return len;
}

/* Any one of which nothing has left, with its header; the bytes that are gone. */
static uint64_t cut_one(struct tci_log *log, uint64_t *random)
{
    uint64_t count = log->last - log->first;

    for (uint64_t i = 0, start = sim_random(random); i < count; i++) {
        uint64_t at = log->first + (start + i) % count;
        struct tci_span *span = tci_log_span(log, at);
        uint64_t begin = span->begin, len = span->len;

        if (span->xfer == NULL || at == log->first || begin < log->most + HEAD)
            continue;
        assert_memory_equal(tci_log_before(log, at, HEAD), model.bytes + begin - HEAD, HEAD);
        tci_log_cut(log, at);
        memmove(model.bytes + begin, model.bytes + begin + len, model.end - begin - len);
        model.end -= len;
        model.cuts++;
        return len;
    }
    return 0;
}

static void send_some(struct tci_log *log, uint64_t *random)
{
    struct iovec parts[8];
    int count = tci_log_parts(log, parts, 8, 1 + sim_random(random) % 8000);
    uint64_t at = log->sent;

    for (int i = 0; i < count; i++) {
        assert_memory_equal(parts[i].iov_base, model.bytes + at, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    assert_true(count > 0 || log->sent == log->end);
    if (at > log->sent)
        tci_log_sent(log, 1 + sim_random(random) % (at - log->sent));
}

static void what_is_cut_out_leaves_the_rest_as_it_was(void **state)
{
    struct tci_log log = {.release = note_release};
    uint64_t random = 20261130, lent = 0, left;

    (void)state;
    for (int frame = 0; frame < FRAMES;) {
        switch (sim_random(&random) % 8) {
        case 0:
            left = log.sent - log.acked;
            assert_true(tci_log_ack(&log, log.acked + (left > 0 ? sim_random(&random) % left : 0)));
            break;
        case 1: /* a break, now and then */
            if (sim_random(&random) % 4 == 0)
                assert_true(tci_log_rewind(&log, log.acked + sim_random(&random) %
                                                                 (log.most - log.acked + 1)));
            break;
        case 2:
            lent -= cut_one(&log, &random);
            break;
        case 3:
        case 4:
            lent += add_frame(&log, frame++, &random);
            break;
        default:
            send_some(&log, &random);
        }
        assert_int_equal(log.end, model.end);
    }
    while (log.sent < log.end)
        send_some(&log, &random);
    assert_true(tci_log_ack(&log, log.end));
    assert_int_equal(model.released, lent);
    assert_int_equal(tci_log_kept(&log), 0);
    assert_true(model.cuts > 10);
    for (int i = 0; i < FRAMES; i++)
        free(model.xfers[i].data);
    tci_log_fini(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_peer_has_not_got_is_sent_again),
        cmocka_unit_test(a_later_word_may_say_more_than_an_older_one),
        cmocka_unit_test(what_is_cut_out_leaves_the_rest_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
