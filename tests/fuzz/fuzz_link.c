/* fuzz_link.c - a hostile peer, before and after a valid handshake, against a whole group. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 of two is real, with several operations begun; rank 1 is the input, which comes over a
 * socket pair.  The first byte says how it begins and in what portions it comes.  After a handshake
 * the rest is frames: a byte of how, a header, its payload.  Magic, version and sequence number are
 * put in unless `how` says that they are raw, since none of those would be met by chance.
 */
#include <string.h>
#include <sys/socket.h>

#include "core/alloc.h"
#include "core/base.h"
#include "fuzz/fuzz.h"
#include "fuzz/link_scene.h"
#include "net/boot_wire.h"
#include "net/frame.h"

enum { NO_HANDSHAKE = 1, IN_PIECES = 2, ENDS = 0xa4 }; /* of the first byte */
enum { RAW = 1, TURN = 2, PAUSE = 4 };                 /* of a frame's */
enum { HANDSHAKE_BYTES = TCI_BOOT_HEAD + TCI_BOOT_ROW_LEN, HEARD_BYTES = 1 << 14 };

struct input {
    struct link_scene scene;
    bool is_in_pieces;
    uint32_t seq;
};

/* What rank 0 says is read, and means nothing. */
static void turn(struct input *input)
{
    static uint8_t heard[1 << 16];

    (void)tc_dispatch(input->scene.context);
    while (recv(input->scene.peer, heard, sizeof(heard), MSG_DONTWAIT) > 0)
        ;
}

/* What does not fit any more is not sent. */
static void put(struct input *input, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        size_t piece = input->is_in_pieces ? tci_min(len, 7) : len;
        ssize_t sent = send(input->scene.peer, bytes, piece, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent <= 0)
            return;
        bytes += sent;
        len -= (size_t)sent;
        if (input->is_in_pieces)
            turn(input);
    }
}

static void make_handshake(uint8_t *bytes)
{
    struct tci_boot_row row = {.size = 2, .rank = 1, .host = 7};

    tci_boot_head_encode(TCI_BOOT_ROW, TCI_BOOT_ROW_LEN, bytes);
    tci_boot_row_encode(&row, bytes + TCI_BOOT_HEAD);
}

/* ---- Frames out of the input ----------------------------------------------------------------- */

/* What a frame cannot be met by chance: where it lies is found by encoding, so that only frame.c
 * knows. */
static void patch(uint8_t *wire, uint32_t seq)
{
    struct tci_frame none = {.kind = TCI_FRAME_ACK}, all = {.kind = TCI_FRAME_ACK},
                     now = {.kind = TCI_FRAME_ACK, .seq = seq};
    uint8_t first[TCI_HEAD_BYTES], second[TCI_HEAD_BYTES], mine[TCI_HEAD_BYTES];

    all.seq = UINT32_MAX;
    tci_frame_encode(&none, first);
    tci_frame_encode(&all, second);
    tci_frame_encode(&now, mine);
    for (size_t i = 0; i < TCI_HEAD_BYTES; i++)
        if (i < 3 || first[i] != second[i]) /* magic and version; the number */
            wire[i] = mine[i];
}

static void put_frames(struct input *input, const uint8_t *data, size_t size)
{
    while (size > 0) {
        uint8_t how = data[0], wire[TCI_HEAD_BYTES] = {0};
        size_t have = tci_min(size - 1, TCI_HEAD_BYTES), payload;
        struct tci_frame frame;

        memcpy(wire, data + 1, have);
        data += 1 + have;
        size -= 1 + have;
        if ((how & RAW) == 0)
            patch(wire, input->seq++);
        payload = tci_frame_decode(wire, &frame) == NULL ? tci_min(frame.length, size) : 0;
        put(input, wire, sizeof(wire));
        put(input, data, payload);
        data += payload;
        size -= payload;
        if (how & PAUSE)
            (void)tc_poll(input->scene.context, 50);
        if (how & TURN)
            turn(input);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t live = tci_alloc_live();
    uint8_t hello[HANDSHAKE_BYTES];
    struct input input = {.seq = 0};
    uint8_t how;

    if (size == 0)
        return 0;
    how = data[0];
    link_scene_open(&input.scene, 0);
    input.is_in_pieces = (how & IN_PIECES) != 0;
    if (how & NO_HANDSHAKE) {
        put(&input, data + 1, size - 1);
        turn(&input);
    } else {
        make_handshake(hello);
        put(&input, hello, sizeof(hello));
        link_want(tc_future_wait(input.scene.formed, 60000) == TC_OK);
        link_scene_start(&input.scene);
        put_frames(&input, data + 1, size - 1);
        if ((how & ~IN_PIECES) == ENDS)
            (void)shutdown(input.scene.peer, SHUT_WR);
        for (int i = 0; i < 8; i++)
            turn(&input);
    }
    link_scene_close(&input.scene);
    link_want(tci_alloc_live() == live);
    return 0;
}

/* ---- What to begin with ---------------------------------------------------------------------- */

/* One way of a conversation, as much of it as is there. */
static size_t pass(int from, int to, uint8_t *heard, size_t room)
{
    ssize_t got = recv(from, heard, room, MSG_DONTWAIT);

    if (got > 0)
        link_want(send(to, heard, (size_t)got, MSG_NOSIGNAL) == got);
    return got > 0 ? (size_t)got : 0;
}

/* Two real ranks talk; what rank 1 says, without its handshake. */
static size_t listen_in(uint8_t *heard)
{
    static uint8_t other[HEARD_BYTES];
    struct link_scene ranks[2];
    bool is_started = false;
    size_t len = 0;

    for (int r = 0; r < 2; r++)
        link_scene_open(&ranks[r], r);
    for (int i = 0; i < 1000; i++) {
        len += pass(ranks[1].peer, ranks[0].peer, heard + len, HEARD_BYTES - len);
        (void)pass(ranks[0].peer, ranks[1].peer, other, sizeof(other));
        for (int r = 0; r < 2; r++)
            (void)tc_dispatch(ranks[r].context);
        if (!is_started && tc_future_test(ranks[0].formed) == TC_OK &&
            tc_future_test(ranks[1].formed) == TC_OK) {
            is_started = true;
            for (int r = 0; r < 2; r++)
                link_scene_start(&ranks[r]);
        }
    }
    for (int r = 0; r < 2; r++) {
        link_want(is_started && link_scene_is_settled(&ranks[r]));
        link_scene_close(&ranks[r]);
    }
    link_want(len > HANDSHAKE_BYTES && len < HEARD_BYTES);
    memmove(heard, heard + HANDSHAKE_BYTES, len - HANDSHAKE_BYTES);
    return len - HANDSHAKE_BYTES;
}

/* The conversation, from its frame number `first` on: then it is out of order. */
static size_t dialogue_seed(uint8_t *data, unsigned first)
{
    static uint8_t heard[HEARD_BYTES];
    static size_t len;
    struct tci_frame frame;
    size_t at = 0, out = 1;

    if (len == 0)
        len = listen_in(heard);
    data[0] = 0;
    for (unsigned i = 0; at < len; i++) {
        size_t whole;

        link_want(tci_frame_decode(heard + at, &frame) == NULL);
        whole = TCI_HEAD_BYTES + (size_t)frame.length;
        if (i >= first) {
            data[out] = TURN;
            memcpy(data + out + 1, heard + at, whole);
            out += 1 + whole;
        }
        at += whole;
    }
    return out > 1 ? out : 0;
}

static size_t notice_seed(uint8_t *data, enum tci_notice_kind kind)
{
    struct tci_notice notice = {.kind = (uint8_t)kind,
                                .status = TC_ERR_TIMEOUT,
                                .culprit = 1,
                                .key = {.tag = 2, .use = 1},
                                .text = "so it is told"};
    uint8_t payload[TCI_NOTICE_BYTES];
    struct tci_frame frame = {0};

    (void)dialogue_seed(data, 0);
    link_want(tci_frame_decode(data + 2, &frame) == NULL);
    notice.key.group = frame.key.group;
    notice.call = frame.call;
    if (kind == TCI_NOTICE_ASK)
        notice.status = TC_ERR_MISMATCH;
    if (kind == TCI_NOTICE_ANSWER)
        notice.status = TC_PENDING;
    tci_notice_encode(&notice, &frame, payload);
    data[0] = kind == TCI_NOTICE_LOST ? ENDS : IN_PIECES;
    data[1] = TURN;
    tci_frame_encode(&frame, data + 2);
    memcpy(data + 2 + TCI_HEAD_BYTES, payload, (size_t)frame.length);
    return 2 + TCI_HEAD_BYTES + (size_t)frame.length;
}

static size_t control_seed(uint8_t *data, enum tci_frame_kind kind)
{
    struct tci_frame frame = {.kind = (uint8_t)kind, .key = {.tag = 2, .use = 1}};

    if (kind == TCI_FRAME_CREDIT || kind == TCI_FRAME_WANT || kind == TCI_FRAME_PROBE)
        frame.total = LINK_LARGE * sizeof(float);
    if (kind == TCI_FRAME_HELLO || kind == TCI_FRAME_WELCOME || kind == TCI_FRAME_PIPE)
        frame.length = TCI_HELLO_BYTES;
    memset(data, 0, 2 + TCI_HEAD_BYTES + TCI_HELLO_BYTES);
    data[1] = TURN;
    tci_frame_encode(&frame, data + 2);
    return 2 + TCI_HEAD_BYTES + (size_t)frame.length;
}

static size_t handshake_seed(uint8_t *data)
{
    data[0] = NO_HANDSHAKE;
    make_handshake(data + 1);
    return 1 + HANDSHAKE_BYTES;
}

static size_t refusal_seed(uint8_t *data)
{
    struct tci_error error = {0};
    size_t len;

    tci_error_set(&error, TC_ERR_TIMEOUT, 1, 0, "dist_init", "rank 1 does not want to");
    data[0] = NO_HANDSHAKE | IN_PIECES;
    len = tci_boot_refuse_encode(&error, data + 1 + TCI_BOOT_HEAD);
    tci_boot_head_encode(TCI_BOOT_REFUSE, len, data + 1);
    return 1 + TCI_BOOT_HEAD + len;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    enum { DIALOGUES = 4 };

    if (room < 2 * HEARD_BYTES)
        return 0;
    if (i < DIALOGUES)
        return dialogue_seed(data, 2 * i);
    i -= DIALOGUES;
    if (i < TCI_NOTICE_KINDS)
        return notice_seed(data, (enum tci_notice_kind)i);
    i -= TCI_NOTICE_KINDS;
    if (i + TCI_FRAME_CREDIT < TCI_FRAME_END)
        return control_seed(data, (enum tci_frame_kind)(i + TCI_FRAME_CREDIT));
    i -= TCI_FRAME_END - TCI_FRAME_CREDIT;
    return i == 0 ? handshake_seed(data) : i == 1 ? refusal_seed(data) : 0;
}
