/* frame.c - frames to bytes, and bytes to frames after every check. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/frame.h"

#include <assert.h>
#include <string.h>

#include "core/assert.h"
#include "core/bytes.h"
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

enum { SPACE_SHIFT = 5, COLL_MASK = 31 };

static_assert((int)AT_END == (int)TCI_HEAD_BYTES, "the header has the size that docs/wire.md says");
static_assert((int)TCI_COLL_COUNT <= (int)COLL_MASK, "collectives fit beside the space");
static_assert(TCI_SPACE_COUNT <= 8, "spaces fit in three bits");
void tci_frame_encode(const struct tci_frame *frame, uint8_t *wire)
{
    TC_ASSERT(frame->kind >= TCI_FRAME_DATA && frame->kind < TCI_FRAME_END);
    TC_ASSERT(frame->call.coll <= COLL_MASK && frame->key.space < TCI_SPACE_COUNT);
    TC_ASSERT(frame->length <= TCI_FRAME_LEN_MAX);

    tci_put16(wire + AT_MAGIC, MAGIC);
    wire[AT_VERSION] = TCI_FRAME_VERSION;
    wire[AT_KIND] = frame->kind;
    tci_put32(wire + AT_LENGTH, (uint32_t)frame->length);
    tci_put64(wire + AT_TAG, frame->key.tag);
    tci_put64(wire + AT_COUNT, frame->call.count);
    tci_put32(wire + AT_ROOT, (uint32_t)frame->call.root);
    wire[AT_COLL] = (uint8_t)(frame->call.coll | frame->key.space << SPACE_SHIFT);
    wire[AT_DTYPE] = frame->call.dtype;
    wire[AT_OP] = frame->call.op;
    wire[AT_PLAN] = frame->call.plan;
    tci_put32(wire + AT_STEP, frame->key.step);
    tci_put32(wire + AT_LANE, frame->key.lane);
    tci_put64(wire + AT_OFFSET, frame->offset);
    tci_put64(wire + AT_GROUP, frame->key.group);
    tci_put64(wire + AT_TOTAL, frame->total);
    tci_put32(wire + AT_SEQ, frame->seq);
    tci_put32(wire + AT_USE, frame->key.use);
    tci_put64(wire + AT_ACK, frame->ack);
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
        ((frame->kind != TCI_FRAME_NOTICE && frame->kind != TCI_FRAME_CALL) ||
         frame->offset >> 32 == 0))
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
    if (frame->kind == TCI_FRAME_HELLO || frame->kind == TCI_FRAME_WELCOME ||
        frame->kind == TCI_FRAME_PIPE)
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

    if (tci_get16(wire + AT_MAGIC) != MAGIC)
        return "bytes that are no frame of tcdist";
    if (wire[AT_VERSION] != TCI_FRAME_VERSION)
        return "a frame of another version of tcdist";
    if (frame.kind < TCI_FRAME_DATA || frame.kind >= TCI_FRAME_END)
        return "a frame of an unknown kind";
    frame.key.group = tci_get64(wire + AT_GROUP);
    frame.key.tag = tci_get64(wire + AT_TAG);
    frame.key.step = tci_get32(wire + AT_STEP);
    frame.key.lane = tci_get32(wire + AT_LANE);
    frame.key.use = tci_get32(wire + AT_USE);
    frame.key.space = (uint8_t)(wire[AT_COLL] >> SPACE_SHIFT);
    frame.call.count = tci_get64(wire + AT_COUNT);
    frame.call.root = (int32_t)tci_get32(wire + AT_ROOT);
    frame.call.coll = wire[AT_COLL] & COLL_MASK;
    frame.call.dtype = wire[AT_DTYPE];
    frame.call.op = wire[AT_OP];
    frame.call.plan = wire[AT_PLAN];
    frame.offset = tci_get64(wire + AT_OFFSET);
    frame.length = tci_get32(wire + AT_LENGTH);
    frame.total = tci_get64(wire + AT_TOTAL);
    frame.seq = tci_get32(wire + AT_SEQ);
    frame.ack = tci_get64(wire + AT_ACK);
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
    *frame_out = (struct tci_frame){.kind = TCI_FRAME_NOTICE,
                                    .key = notice->key,
                                    .call = notice->call,
                                    .length = TCI_NOTICE_BYTES};
    tci_notice_pack(notice, payload);
}

const char *tci_notice_decode(const struct tci_frame *frame, const uint8_t *payload,
                              struct tci_notice *notice_out)
{
    struct tci_notice notice = {.key = frame->key, .call = frame->call};
    const char *wrong = tci_notice_unpack(payload, &notice);

    if (wrong == NULL)
        *notice_out = notice;
    return wrong;
}

void tci_hello_encode(const struct tci_hello *hello, uint8_t *payload)
{
    memset(payload, 0, TCI_HELLO_BYTES);
    memcpy(payload, hello->group_id, sizeof(hello->group_id));
    tci_put32(payload + 16, hello->from);
    tci_put32(payload + 20, hello->to);
    tci_put64(payload + 24, hello->token);
    tci_put64(payload + 32, hello->received);
    tci_put32(payload + 40, hello->attempt);
    tci_put32(payload + 44, hello->index);
}

const char *tci_hello_decode(const uint8_t *payload, struct tci_hello *hello_out)
{
    memcpy(hello_out->group_id, payload, sizeof(hello_out->group_id));
    hello_out->from = tci_get32(payload + 16);
    hello_out->to = tci_get32(payload + 20);
    hello_out->token = tci_get64(payload + 24);
    hello_out->received = tci_get64(payload + 32);
    hello_out->attempt = tci_get32(payload + 40);
    hello_out->index = tci_get32(payload + 44);
    if (hello_out->attempt == 0 && (hello_out->received != 0 || hello_out->token == 0))
        return "a first greeting that goes on with a link";
    return NULL;
}
