/* frame.h - frames of the TCP transport: the 80 bytes before every payload. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_FRAME_H
#define TCI_FRAME_H

#include "core/notice.h"

/* Pure functions between structs and bytes; docs/wire.md has the table.  Encoding asserts,
 * decoding checks: what comes from the network is hostile until it has been decoded. */

enum tci_frame_kind {
    TCI_FRAME_DATA = 1, /* a piece of a message */
    TCI_FRAME_CREDIT,   /* the receive for key is posted: send it */
    TCI_FRAME_WANT,     /* a small message waits because the eager window is used up */
    TCI_FRAME_PROBE,    /* a message has waited long for its credit: compare the calls */
    TCI_FRAME_ACK,      /* nothing but its ack field */
    TCI_FRAME_NOTICE,   /* struct tci_notice */
    TCI_FRAME_BYE,      /* the last frame of a peer that leaves: its end of stream is no loss */
    TCI_FRAME_HELLO,    /* first frame of a new connection */
    TCI_FRAME_WELCOME,  /* its answer: the link stands */
    TCI_FRAME_REFUSE,   /* or: it does not, the other side's own connection is used */
    TCI_FRAME_SIDE,     /* a side connection has ended: tag: which; use: how often it was made;
                         * total: bytes that had come over it */
    TCI_FRAME_TOKEN,    /* tag: what the ends of a link know it by when it is made again */
    TCI_FRAME_CALL, /* offset: who calls whom (tci_way); tag: 0, connect to it, else come to that
                         * pipe */
    TCI_FRAME_PIPE, /* first frame of a connection that is to be carried on */
    TCI_FRAME_END   /* one past the last */
};

enum {
    TCI_HEAD_BYTES = 80,  /* bytes of a header */
    TCI_HELLO_BYTES = 48, /* payload of HELLO and WELCOME */
    TCI_FRAME_VERSION = 1,
    TCI_FRAME_LEN_MAX = 1 << 26 /* payload of one frame: 64 MiB, many times what is sent */
};

struct tci_frame {
    uint8_t kind;
    struct tci_key key;
    struct tci_call call;
    uint64_t offset; /* of this piece in its message */
    uint64_t length; /* of this frame's payload */
    uint64_t total;  /* of the message */
    uint32_t seq;    /* counts the frames of a link and direction, from 0 */
    uint64_t ack;    /* eager bytes that the sender of this frame has consumed so far; of a piece of
                      * a large message: the number of its grant */
};

void tci_frame_encode(const struct tci_frame *frame, uint8_t *wire);
/* Whether a header may begin so: NULL, or what is wrong with the bytes that have come. */
const char *tci_frame_begins(const uint8_t *wire, size_t have);
/* NULL, or what is wrong with it: a static text that continues "the peer sent ". */
const char *tci_frame_decode(const uint8_t *wire, struct tci_frame *frame_out);

/* Where a notice or a call that is passed on comes from and goes to, in the offset of its frame; 0:
 * over the link between the two. */
static inline uint64_t tci_way_encode(uint32_t from, uint32_t to)
{
    return ((uint64_t)from + 1) << 32 | to;
}
static inline void tci_way_decode(uint64_t offset, uint32_t *from_out, uint32_t *to_out)
{
    *from_out = (uint32_t)(offset >> 32) - 1;
    *to_out = (uint32_t)offset;
}

/* A notice's key and call travel in the header. */
void tci_notice_encode(const struct tci_notice *notice, struct tci_frame *frame_out,
                       uint8_t *payload);
const char *tci_notice_decode(const struct tci_frame *frame, const uint8_t *payload,
                              struct tci_notice *notice_out);

/* Who calls whom, by which connection, and, where a link is made again, from where it goes on.
 * WELCOME repeats what it answers, but for `received`. */
struct tci_hello {
    uint8_t group_id[16];
    uint32_t from, to;
    uint64_t token;    /* of the link */
    uint64_t received; /* bytes of the reader's stream that its writer has */
    uint32_t index;    /* 0: the connection that a link begins with; else one at its side */
    uint32_t attempt;  /* 0: a new link; else the tries of `from` to make it again, this one too */
};
void tci_hello_encode(const struct tci_hello *hello, uint8_t *payload);
const char *tci_hello_decode(const uint8_t *payload, struct tci_hello *hello_out);

#endif
