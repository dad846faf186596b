/* tcp_log.h - what a link sends, in order, kept until its peer has it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TCP_LOG_H
#define TCI_TCP_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/transport.h"

/*          acked            sent              end         positions in the stream of bytes
 *   ---------+----------------+----------------+
 *    the peer | may have to be | is to be sent  |
 *    has it   | sent again     |                |
 *
 *   spans:   [ring][payload][ring][payload][ring ......]
 *
 * Headers, control and small payloads lie in a ring of bytes.  A longer payload stays where it is:
 * up to TCI_LOG_COPY_MAX it is copied to room that the ring has kept for it, once it has been
 * sent; what is longer is borrowed until the peer has it.  So no memory of a user's is touched
 * after its transfer has ended, and what is kept is bounded. */
enum { TCI_LOG_COPY_MAX = 64 * 1024 };

struct tci_span {
    uint64_t begin, len;   /* in the stream */
    const uint8_t *data;   /* borrowed, or `copy`; NULL: in the ring */
    uint64_t at;           /* in the ring: the bytes, or room for them */
    bool is_in_ring;       /* has bytes or room there */
    struct tci_xfer *xfer; /* whose memory it is; NULL: nobody's, or the transfer was aborted */
    uint8_t *copy;         /* owned: of an aborted transfer */
};

struct tci_log {
    uint8_t *ring; /* owned; `room` is a power of two, or 0 */
    size_t room;
    uint64_t head, tail;    /* counted without end; place in the ring: modulo room */
    struct tci_span *spans; /* owned; `span_room` is a power of two, or 0 */
    size_t span_room;
    uint64_t first, next, last; /* likewise; next: where `sent` lies, or last */
    uint64_t acked, sent, end;
    uint64_t most;   /* `sent` before it was set back */
    uint64_t copied; /* bytes in `copy` of spans */
    /* So much of a transfer's memory is needed no more. */
    void (*release)(struct tci_log *log, struct tci_xfer *xfer, uint64_t len);
};

void tci_log_fini(struct tci_log *log);

static inline uint64_t tci_log_unsent(const struct tci_log *log)
{
    return log->end - log->sent;
}
/* From `first` to before `last`. */
static inline struct tci_span *tci_log_span(const struct tci_log *log, uint64_t at)
{
    return &log->spans[at & (log->span_room - 1)];
}
/* Bytes that are kept here, and not in a user's memory. */
static inline uint64_t tci_log_kept(const struct tci_log *log)
{
    return log->tail - log->head + log->copied;
}

/* Room for `len` bytes behind all others, and for a payload of `later` bytes behind these; to be
 * filled and then added.  NULL: no memory, nothing has changed. */
uint8_t *tci_log_room(struct tci_log *log, size_t len, size_t later);
void tci_log_add(struct tci_log *log, size_t len);
/* A payload in the memory of a transfer; `later` of the room that was asked for is kept for it,
 * or, with 0, it is borrowed until the peer has it. */
void tci_log_add_payload(struct tci_log *log, struct tci_xfer *xfer, const uint8_t *data,
                         size_t len, size_t later);

/* What is to be sent next, in up to `max` parts, and up to `bytes` of it; how many parts. */
int tci_log_parts(const struct tci_log *log, struct iovec *parts, int max, size_t bytes);
/* So many bytes of it were sent; may release. */
void tci_log_sent(struct tci_log *log, size_t len);
/* The peer has everything up to here; may release.  False: it cannot have. */
bool tci_log_ack(struct tci_log *log, uint64_t position);
/* The peer has that and nothing more: the rest will be sent again.  It may have what was sent
 * before an earlier call, too: the word that led to that one may have been an old one. */
bool tci_log_rewind(struct tci_log *log, uint64_t position);

/* The first span is not this log's any more. */
void tci_log_drop(struct tci_log *log);

/* A payload of which nothing was sent is none any more; its transfer is not waited for. */
void tci_log_cut(struct tci_log *log, uint64_t at);
/* What lies before a payload in the ring, so many bytes of it. */
uint8_t *tci_log_before(const struct tci_log *log, uint64_t at, size_t len);

/* A transfer ends whose memory is borrowed: what the peer may still need is copied.  False: no
 * memory; the log is of no use any more. */
bool tci_log_own(struct tci_log *log, struct tci_span *span);

#endif
