/* frame.c - frames to bytes, and bytes to frames after every check. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/frame.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "core/plan.h"

enum { MAGIC = 0x4354 }; /* "TC" */

/* Where the fields of a header are; all little-endian. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 2,
    AT_KIND = 3,
    AT_LENGTH = 4,
    AT_TAG = 8,
    AT_COUNT = 16,
    AT_ROOT = 24,
    AT_COLL = 28, /* low five bits; the three above are the space */
    AT_DTYPE = 29,
    AT_OP = 30,
    AT_PLAN = 31,
    AT_STEP = 32,
    AT_LANE = 36,
    AT_OFFSET = 40,
    AT_GROUP = 48,
    AT_TOTAL = 56,
    AT_SEQ = 64,
    AT_USE = 68,
    AT_ACK = 72,
    AT_END = 80
};

/* And of the payload of a notice. */
enum {
    NOTICE_KIND = 0,
    NOTICE_REASON = 1,
    NOTICE_NUMBER = 4,
    NOTICE_STATUS = 8,
    NOTICE_CULPRIT = 12,
    NOTICE_ARG = 16,
    NOTICE_TEXT = 24
};

enum { SPACE_SHIFT = 5, COLL_MASK = 31 };

static_assert((int)AT_END == (int)TCI_HEAD_BYTES, "the header has the size that docs/wire.md says");
static_assert((int)TCI_COLL_COUNT <= (int)COLL_MASK, "collectives fit beside the space");
static_assert(TCI_SPACE_COUNT <= 8, "spaces fit in three bits");
static_assert(NOTICE_TEXT + sizeof(((struct tci_notice *)0)->text) == TCI_NOTICE_BYTES,
              "a notice has the size that docs/wire.md says");

static void put16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *at, uint32_t value)
{
    put16(at, (uint16_t)value);
    put16(at + 2, (uint16_t)(value >> 16));
}

static void put64(uint8_t *at, uint64_t value)
{
    put32(at, (uint32_t)value);
    put32(at + 4, (uint32_t)(value >> 32));
}

static uint32_t get16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at) | get16(at + 2) << 16;
}

static uint64_t get64(const uint8_t *at)
{
    return get32(at) | (uint64_t)get32(at + 4) << 32;
}

void tci_frame_encode(const struct tci_frame *frame, uint8_t *wire)
{
    TC_ASSERT(frame->kind >= TCI_FRAME_DATA && frame->kind < TCI_FRAME_END);
    TC_ASSERT(frame->call.coll <= COLL_MASK && frame->key.space < TCI_SPACE_COUNT);
    TC_ASSERT(frame->length <= TCI_FRAME_LEN_MAX);

    put16(wire + AT_MAGIC, MAGIC);
    wire[AT_VERSION] = TCI_FRAME_VERSION;
    wire[AT_KIND] = frame->kind;
    put32(wire + AT_LENGTH, (uint32_t)frame->length);
    put64(wire + AT_TAG, frame->key.tag);
    put64(wire + AT_COUNT, frame->call.count);
    put32(wire + AT_ROOT, (uint32_t)frame->call.root);
    wire[AT_COLL] = (uint8_t)(frame->call.coll | frame->key.space << SPACE_SHIFT);
    wire[AT_DTYPE] = frame->call.dtype;
    wire[AT_OP] = frame->call.op;
    wire[AT_PLAN] = frame->call.plan;
    put32(wire + AT_STEP, frame->key.step);
    put32(wire + AT_LANE, frame->key.lane);
    put64(wire + AT_OFFSET, frame->offset);
    put64(wire + AT_GROUP, frame->key.group);
    put64(wire + AT_TOTAL, frame->total);
    put32(wire + AT_SEQ, frame->seq);
    put32(wire + AT_USE, frame->key.use);
    put64(wire + AT_ACK, frame->ack);
}

/* Whether offset, length and total belong together. */
static const char *check_piece(const struct tci_frame *frame)
{
    if (frame->length > TCI_FRAME_LEN_MAX)
        return "a frame that is longer than any frame may be";
    if (frame->total > INT64_MAX)
        return "a message of an impossible length";
    if (frame->kind == TCI_FRAME_DATA) {
        if (frame->offset > frame->total || frame->length > frame->total - frame->offset)
            return "a piece beyond the end of its message";
        if (frame->length == 0 && frame->total != 0)
            return "an empty piece of a message that is not empty";
        return NULL;
    }
    if (frame->offset != 0 && frame->kind != TCI_FRAME_CREDIT &&
        (frame->kind != TCI_FRAME_NOTICE || frame->offset >> 32 == 0))
        return "a frame of control with an offset";
    return NULL;
}

static const char *check_length(const struct tci_frame *frame)
{
    uint64_t length = 0;

    if (frame->kind == TCI_FRAME_DATA)
        return NULL;
    if (frame->kind == TCI_FRAME_NOTICE)
        length = TCI_NOTICE_BYTES;
    if (frame->kind == TCI_FRAME_HELLO || frame->kind == TCI_FRAME_WELCOME)
        length = TCI_HELLO_BYTES;
    return frame->length == length ? NULL : "a frame of control with the wrong length";
}

const char *tci_frame_begins(const uint8_t *wire, size_t have)
{
    static const uint8_t begin[] = {MAGIC & 255, MAGIC >> 8, TCI_FRAME_VERSION};

    for (size_t i = 0; i < have && i < sizeof(begin); i++)
        if (wire[i] != begin[i])
            return i < AT_VERSION ? "bytes that are no frame of tcdist"
                                  : "a frame of another version of tcdist";
    return NULL;
}

const char *tci_frame_decode(const uint8_t *wire, struct tci_frame *frame_out)
{
    struct tci_frame frame = {.kind = wire[AT_KIND]};
    const char *wrong;

    if (get16(wire + AT_MAGIC) != MAGIC)
        return "bytes that are no frame of tcdist";
    if (wire[AT_VERSION] != TCI_FRAME_VERSION)
        return "a frame of another version of tcdist";
    if (frame.kind < TCI_FRAME_DATA || frame.kind >= TCI_FRAME_END)
        return "a frame of an unknown kind";
    frame.key.group = get64(wire + AT_GROUP);
    frame.key.tag = get64(wire + AT_TAG);
    frame.key.step = get32(wire + AT_STEP);
    frame.key.lane = get32(wire + AT_LANE);
    frame.key.use = get32(wire + AT_USE);
    frame.key.space = (uint8_t)(wire[AT_COLL] >> SPACE_SHIFT);
    frame.call.count = get64(wire + AT_COUNT);
    frame.call.root = (int32_t)get32(wire + AT_ROOT);
    frame.call.coll = wire[AT_COLL] & COLL_MASK;
    frame.call.dtype = wire[AT_DTYPE];
    frame.call.op = wire[AT_OP];
    frame.call.plan = wire[AT_PLAN];
    frame.offset = get64(wire + AT_OFFSET);
    frame.length = get32(wire + AT_LENGTH);
    frame.total = get64(wire + AT_TOTAL);
    frame.seq = get32(wire + AT_SEQ);
    frame.ack = get64(wire + AT_ACK);
    if (frame.key.space >= TCI_SPACE_COUNT)
        return "a frame of an unknown space";
    if (frame.call.coll >= TCI_COLL_COUNT)
        return "a frame of an unknown collective";
    wrong = check_piece(&frame);
    if (wrong == NULL)
        wrong = check_length(&frame);
    if (wrong == NULL)
        *frame_out = frame;
    return wrong;
}

void tci_notice_encode(const struct tci_notice *notice, struct tci_frame *frame_out,
                       uint8_t *payload)
{
    size_t len = strnlen(notice->text, sizeof(notice->text) - 1);

    *frame_out = (struct tci_frame){.kind = TCI_FRAME_NOTICE,
                                    .key = notice->key,
                                    .call = notice->call,
                                    .length = TCI_NOTICE_BYTES};
    memset(payload, 0, TCI_NOTICE_BYTES);
    payload[NOTICE_KIND] = notice->kind;
    payload[NOTICE_REASON] = notice->reason;
    put32(payload + NOTICE_NUMBER, (uint32_t)notice->number);
    put32(payload + NOTICE_STATUS, (uint32_t)notice->status);
    put32(payload + NOTICE_CULPRIT, (uint32_t)notice->culprit);
    put64(payload + NOTICE_ARG, notice->arg);
    memcpy(payload + NOTICE_TEXT, notice->text, len);
}

const char *tci_notice_decode(const struct tci_frame *frame, const uint8_t *payload,
                              struct tci_notice *notice_out)
{
    struct tci_notice notice = {.kind = payload[NOTICE_KIND],
                                .reason = payload[NOTICE_REASON],
                                .status = (int32_t)get32(payload + NOTICE_STATUS),
                                .culprit = (int32_t)get32(payload + NOTICE_CULPRIT),
                                .number = (int32_t)get32(payload + NOTICE_NUMBER),
                                .arg = get64(payload + NOTICE_ARG),
                                .key = frame->key,
                                .call = frame->call};

    if (notice.kind >= TCI_NOTICE_KINDS)
        return "a notice of an unknown kind";
    if (notice.status > TC_PENDING || notice.status < TC_ERR_INTERNAL)
        return "a notice with an unknown status";
    if (notice.kind == TCI_NOTICE_END && notice.status >= TC_OK)
        return "a notice of a failure that is none";
    if (notice.reason >= TCI_REASON_COUNT)
        return "a notice with an unknown reason";
    if (notice.culprit < -1)
        return "a notice that blames no rank there is";
    if (memchr(payload + NOTICE_TEXT, 0, sizeof(notice.text)) == NULL)
        return "a notice whose text does not end";
    memcpy(notice.text, payload + NOTICE_TEXT, sizeof(notice.text));
    /* It will be printed: no escape sequences from strangers. */
    for (char *at = notice.text; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    if (notice.text[0] == 0 && notice.kind <= TCI_NOTICE_LOST) /* of an end or a loss */
        (void)snprintf(notice.text, sizeof(notice.text), "a failure that was told without a cause");
    *notice_out = notice;
    return NULL;
}

void tci_hello_encode(const struct tci_hello *hello, uint8_t *payload)
{
    memset(payload, 0, TCI_HELLO_BYTES);
    memcpy(payload, hello->group_id, sizeof(hello->group_id));
    put32(payload + 16, hello->from);
    put32(payload + 20, hello->to);
    put64(payload + 24, hello->token);
    put64(payload + 32, hello->received);
    put32(payload + 40, hello->attempt);
    put32(payload + 44, hello->index);
}

const char *tci_hello_decode(const uint8_t *payload, struct tci_hello *hello_out)
{
    memcpy(hello_out->group_id, payload, sizeof(hello_out->group_id));
    hello_out->from = get32(payload + 16);
    hello_out->to = get32(payload + 20);
    hello_out->token = get64(payload + 24);
    hello_out->received = get64(payload + 32);
    hello_out->attempt = get32(payload + 40);
    hello_out->index = get32(payload + 44);
    if (hello_out->attempt == 0 && (hello_out->received != 0 || hello_out->token == 0))
        return "a first greeting that goes on with a link";
    return NULL;
}
