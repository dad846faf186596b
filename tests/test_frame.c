/* test_frame.c - frames: every field comes back, and everything that is wrong is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base.h"
#include "core/plan.h"
#include "net/frame.h"
#include "support/reduce_oracle.h"

static const struct tci_frame full = {.kind = TCI_FRAME_DATA,
                                      .key = {.tag = UINT64_C(0x1112131415161718),
                                              .group = UINT64_C(0x2122232425262728),
                                              .lane = 0x31323334,
                                              .step = 0x41424344,
                                              .use = 0x51525354,
                                              .space = TCI_SPACE_P2P_ORDERED_DOWN},
                                      .call = {.count = UINT64_C(0x6162636465666768),
                                               .root = -1,
                                               .coll = TCI_COLL_P2P,
                                               .dtype = 0x71,
                                               .op = 0xff,
                                               .plan = 0x81},
                                      .offset = UINT64_C(0x100000000),
                                      .length = 0x1000,
                                      .total = UINT64_C(0x200000000),
                                      .seq = 0x91929394,
                                      .ack = UINT64_C(0xa1a2a3a4a5a6a7a8)};

static void all_fields_come_back(void **state)
{
    uint8_t wire[TCI_HEAD_BYTES], again[TCI_HEAD_BYTES];
    struct tci_frame frame;

    (void)state;
    tci_frame_encode(&full, wire);
    assert_null(tci_frame_decode(wire, &frame));
    tci_frame_encode(&frame, again);

    assert_memory_equal(wire, again, sizeof(wire));
    assert_int_equal(frame.key.tag, full.key.tag);
    assert_int_equal(frame.key.group, full.key.group);
    assert_int_equal(frame.key.space, full.key.space);
    assert_int_equal(frame.key.use, full.key.use);
    assert_memory_equal(&frame.call, &full.call, sizeof(full.call));
    assert_int_equal(frame.offset, full.offset);
    assert_int_equal(frame.total, full.total);
    assert_int_equal(frame.ack, full.ack);
}

/* The bytes of docs/wire.md, written out. */
static void bytes_are_those_of_the_document(void **state)
{
    static const uint8_t expected[TCI_HEAD_BYTES] = {
        0x54, 0x43, 0x01, 0x01, 0x00, 0x10, 0x00, 0x00, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
        0x12, 0x11, 0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61, 0xff, 0xff, 0xff, 0xff,
        0xc5, 0x71, 0xff, 0x81, 0x44, 0x43, 0x42, 0x41, 0x34, 0x33, 0x32, 0x31, 0x00, 0x00,
        0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
        0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x94, 0x93, 0x92, 0x91, 0x54, 0x53,
        0x52, 0x51, 0xa8, 0xa7, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1};
    uint8_t wire[TCI_HEAD_BYTES];

    (void)state;
    tci_frame_encode(&full, wire);

    assert_memory_equal(wire, expected, sizeof(wire));
}

static void refuse(size_t at, uint64_t value, unsigned bytes)
{
    uint8_t wire[TCI_HEAD_BYTES];
    struct tci_frame frame = {.kind = 99};

    tci_frame_encode(&full, wire);
    for (unsigned i = 0; i < bytes; i++)
        wire[at + i] = (uint8_t)(value >> (8 * i));
    assert_non_null(tci_frame_decode(wire, &frame));
    assert_int_equal(frame.kind, 99); /* untouched */
}

static void wrong_headers_are_refused(void **state)
{
    (void)state;
    refuse(0, 0x4353, 2); /* magic */
    refuse(2, 2, 1);      /* version */
    refuse(3, 0, 1);      /* kind */
    refuse(3, TCI_FRAME_END, 1);
    refuse(28, TCI_COLL_COUNT, 1);        /* collective */
    refuse(28, TCI_SPACE_COUNT << 5, 1);  /* space */
    refuse(40, UINT64_C(0x1fffff001), 8); /* offset + length beyond total */
    refuse(40, UINT64_MAX, 8);            /* the same, overflowing */
    refuse(4, TCI_FRAME_LEN_MAX + 1, 4);  /* length */
    refuse(4, UINT32_MAX, 4);
    refuse(4, 0, 4);                  /* an empty piece */
    refuse(56, UINT64_C(1) << 63, 8); /* total */
    for (uint8_t kind = TCI_FRAME_CREDIT; kind < TCI_FRAME_END; kind++)
        refuse(3, kind, 1); /* control with this offset and length */
}

static void notices_come_back(void **state)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_ANSWER,
                                .reason = TC_REASON_SLOW,
                                .number = -7,
                                .status = TC_ERR_INTERNAL,
                                .culprit = -1,
                                .arg = UINT64_MAX,
                                .key = full.key,
                                .call = full.call,
                                .text = "all\nis \x1b[31mwell"};
    uint8_t payload[TCI_NOTICE_BYTES];
    struct tci_notice got;
    struct tci_frame frame;

    (void)state;
    tci_notice_encode(&notice, &frame, payload);
    assert_null(tci_notice_decode(&frame, payload, &got));

    assert_int_equal(got.kind, notice.kind);
    assert_int_equal(got.reason, TC_REASON_SLOW);
    assert_int_equal(got.number, -7);
    assert_int_equal(got.status, notice.status);
    assert_int_equal(got.culprit, -1);
    assert_int_equal(got.arg, UINT64_MAX);
    assert_string_equal(got.text, "all?is ?[31mwell");
}

static void wrong_notices_are_refused(void **state)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_END, .status = TC_ERR_TIMEOUT}, got;
    uint8_t payload[TCI_NOTICE_BYTES];
    struct tci_frame frame;

    (void)state;
    tci_notice_encode(&notice, &frame, payload);
    assert_null(tci_notice_decode(&frame, payload, &got));
    assert_string_equal(got.text, "a failure that was told without a cause");
    memset(payload + 8, 0, 4); /* an end that is no failure: TC_OK, or TC_PENDING */
    assert_non_null(tci_notice_decode(&frame, payload, &got));
    payload[8] = TC_PENDING;
    assert_non_null(tci_notice_decode(&frame, payload, &got));
    tci_notice_encode(&notice, &frame, payload);
    payload[0] = TCI_NOTICE_KINDS;
    assert_non_null(tci_notice_decode(&frame, payload, &got));
    tci_notice_encode(&notice, &frame, payload);
    payload[1] = TCI_REASON_COUNT;
    assert_non_null(tci_notice_decode(&frame, payload, &got));
    tci_notice_encode(&notice, &frame, payload);
    payload[8] = 2; /* status */
    assert_non_null(tci_notice_decode(&frame, payload, &got));
    tci_notice_encode(&notice, &frame, payload);
    memset(payload + 12, 0xfe, 4); /* culprit */
    assert_non_null(tci_notice_decode(&frame, payload, &got));
    tci_notice_encode(&notice, &frame, payload);
    memset(payload + 24, 'x', 256); /* text */
    assert_non_null(tci_notice_decode(&frame, payload, &got));
}

static void random_bytes_do_no_harm(void **state)
{
    uint8_t wire[TCI_HEAD_BYTES], again[TCI_HEAD_BYTES];
    struct tci_frame frame;
    uint64_t seed = 1;
    unsigned good = 0;

    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        tci_frame_encode(&full, wire);
        for (unsigned k = (unsigned)(oracle_random(&seed) % 6); k-- > 0;)
            wire[oracle_random(&seed) % sizeof(wire)] = (uint8_t)oracle_random(&seed);
        if (tci_frame_decode(wire, &frame) != NULL)
            continue;
        good++;
        tci_frame_encode(&frame, again);
        assert_memory_equal(wire, again, sizeof(wire));
    }
    assert_true(good > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_fields_come_back),
        cmocka_unit_test(bytes_are_those_of_the_document),
        cmocka_unit_test(wrong_headers_are_refused),
        cmocka_unit_test(notices_come_back),
        cmocka_unit_test(wrong_notices_are_refused),
        cmocka_unit_test(random_bytes_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
