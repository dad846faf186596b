/* fuzz_frame.c - feeds bytes to the decoders of frames, notices and greetings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "net/frame.h"

/* What decodes must encode to the same bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t wire[TCI_HEAD_BYTES + TCI_NOTICE_BYTES] = {0}, again[TCI_HEAD_BYTES];
    struct tci_frame frame;
    struct tci_notice notice;
    struct tci_hello hello;

    memcpy(wire, data, size < sizeof(wire) ? size : sizeof(wire));
    (void)tci_hello_decode(wire, &hello);
    if (tci_frame_decode(wire, &frame) != NULL)
        return 0;
    for (size_t have = 0; have <= TCI_HEAD_BYTES; have++)
        if (tci_frame_begins(wire, have) != NULL)
            abort();
    tci_frame_encode(&frame, again);
    if (memcmp(wire, again, sizeof(again)) != 0)
        abort();
    if (tci_notice_decode(&frame, wire + TCI_HEAD_BYTES, &notice) == NULL &&
        (notice.kind >= TCI_NOTICE_KINDS || memchr(notice.text, 0, sizeof(notice.text)) == NULL))
        abort();
    return 0;
}

/* A frame of each kind. */
size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    struct tci_frame frame = {.kind = (uint8_t)(TCI_FRAME_DATA + i),
                              .key = {.tag = 7, .group = 1, .lane = 2, .step = 3, .use = 4},
                              .call = {.count = 9, .root = -1, .dtype = 2, .op = 255, .plan = 1},
                              .seq = 5,
                              .ack = 6};
    struct tci_notice notice = {
        .kind = TCI_NOTICE_ANSWER, .culprit = 1, .key = frame.key, .text = "it has not entered"};
    struct tci_hello hello = {.group_id = {1, 2, 3}, .from = 1, .to = 2};
    uint8_t *payload = data + TCI_HEAD_BYTES;

    if (frame.kind >= TCI_FRAME_END || room < TCI_HEAD_BYTES + TCI_NOTICE_BYTES)
        return 0;
    memset(payload, 0, TCI_NOTICE_BYTES);
    if (frame.kind == TCI_FRAME_DATA)
        frame.length = frame.total = 36;
    if (frame.kind == TCI_FRAME_NOTICE)
        tci_notice_encode(&notice, &frame, payload);
    if (frame.kind == TCI_FRAME_HELLO || frame.kind == TCI_FRAME_WELCOME ||
        frame.kind == TCI_FRAME_PIPE) {
        frame.length = TCI_HELLO_BYTES;
        tci_hello_encode(&hello, payload);
    }
    tci_frame_encode(&frame, data);
    return TCI_HEAD_BYTES + (size_t)frame.length;
}
