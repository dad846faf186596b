/* tcp_log.c - the bytes of a link, in a ring and in its users' memory, until they are acked. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_log.h"

#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

enum { RING_MIN = 4096, SPANS_MIN = 16 };

static uint8_t *ring_at(const struct tci_log *log, uint64_t at)
{
    return log->ring + (at & (log->room - 1));
}

static void free_copy(struct tci_log *log, struct tci_span *span)
{
    if (span->copy == NULL)
        return;
    log->copied -= span->len;
    tci_free(span->copy);
    span->copy = NULL;
}

void tci_log_fini(struct tci_log *log)
{
    for (uint64_t at = log->first; at != log->last; at++)
        free_copy(log, tci_log_span(log, at));
    tci_free(log->ring);
    tci_free(log->spans);
    *log = (struct tci_log){.release = log->release};
}

/* ---- Room ---- */

/* What lies in one piece in the smaller ring does so in the larger one. */
static bool grow_ring(struct tci_log *log, uint64_t end)
{
    size_t room = tci_max(2 * log->room, RING_MIN);
    uint8_t *ring;

    while (end - log->head > room)
        room *= 2;
    ring = tci_alloc_raw(room);
    if (ring == NULL)
        return false;
    for (uint64_t at = log->head; at != log->tail;) {
        size_t part = tci_min((size_t)(log->tail - at), log->room - (at & (log->room - 1)));

        memcpy(ring + (at & (room - 1)), ring_at(log, at), part);
        at += part;
    }
    tci_free(log->ring);
    log->ring = ring;
    log->room = room;
    return true;
}

/* Where `len` bytes are in one piece, at or behind a place; those before are left out. */
static uint64_t whole_piece(const struct tci_log *log, uint64_t at, size_t len)
{
    size_t behind = log->room - (at & (log->room - 1));

    return len <= behind ? at : at + behind;
}

static bool grow_spans(struct tci_log *log)
{
    size_t room = tci_max(2 * log->span_room, SPANS_MIN);
    struct tci_span *spans = tci_alloc_array(room, sizeof(*spans));

    if (spans == NULL)
        return false;
    for (uint64_t at = log->first; at != log->last; at++)
        spans[at & (room - 1)] = *tci_log_span(log, at);
    tci_free(log->spans);
    log->spans = spans;
    log->span_room = room;
    return true;
}

uint8_t *tci_log_room(struct tci_log *log, size_t len, size_t later)
{
    uint64_t at, end;

    if (log->last - log->first + 2 > log->span_room && !grow_spans(log))
        return NULL;
    if (log->head == log->tail)
        log->head = log->tail = 0; /* again from the start, which the cache has */
    for (;;) {
        at = log->room > 0 ? whole_piece(log, log->tail, len) : 0;
        end = log->room > 0 ? whole_piece(log, at + len, later) + later : len + later;
        if (log->room >= tci_max(len, later) && end - log->head <= log->room)
            break;
        if (!grow_ring(log, end + tci_max(len, later)))
            return NULL;
    }
    if (at != log->tail && log->first == log->last)
        log->head = at;
    log->tail = at;
    return ring_at(log, at);
}

static struct tci_span *new_span(struct tci_log *log, size_t len)
{
    struct tci_span *span = tci_log_span(log, log->last++);

    *span = (struct tci_span){.begin = log->end, .len = len};
    log->end += len;
    return span;
}

void tci_log_add(struct tci_log *log, size_t len)
{
    struct tci_span *span = log->first != log->last ? tci_log_span(log, log->last - 1) : NULL;

    if (span != NULL && span->is_in_ring && span->data == NULL && span->xfer == NULL &&
        span->at + span->len == log->tail && (log->tail & (log->room - 1)) != 0) {
        if (log->next == log->last)
            log->next--;
        span->len += len;
        log->end += len;
    } else {
        span = new_span(log, len);
        span->at = log->tail;
        span->is_in_ring = true;
    }
    log->tail += len;
}

void tci_log_add_payload(struct tci_log *log, struct tci_xfer *xfer, const uint8_t *data,
                         size_t len, size_t later)
{
    struct tci_span *span;

    TC_ASSERT(len > 0 && (later == 0 || later == len));
    span = new_span(log, len);
    span->data = data;
    span->xfer = xfer;
    if (later == 0)
        return;
    span->is_in_ring = true;
    span->at = whole_piece(log, log->tail, later);
    log->tail = span->at + later;
}

/* ---- Sending ---- */

int tci_log_parts(const struct tci_log *log, struct iovec *parts, int max, size_t bytes)
{
    uint64_t from = log->sent;
    int count = 0;

    for (uint64_t at = log->next; at != log->last && count < max && bytes > 0; at++) {
        const struct tci_span *span = tci_log_span(log, at);
        const uint8_t *data = span->data != NULL ? span->data : ring_at(log, span->at);
        uint64_t skip = from - span->begin;
        size_t len = tci_min((size_t)(span->len - skip), bytes);

        parts[count++] = (struct iovec){(void *)(uintptr_t)(data + skip), len};
        from = span->begin + span->len;
        bytes -= len;
    }
    return count;
}

/* Into the room that was kept for it; then it is the transfer's own again. */
static void copy_in(struct tci_log *log, struct tci_span *span)
{
    struct tci_xfer *xfer = span->xfer;

    memcpy(ring_at(log, span->at), span->data, (size_t)span->len);
    span->data = NULL;
    span->xfer = NULL;
    log->release(log, xfer, span->len);
}

void tci_log_sent(struct tci_log *log, size_t len)
{
    TC_ASSERT(len <= log->end - log->sent);
    log->sent += len;
    if (log->most < log->sent)
        log->most = log->sent;
    while (log->next != log->last) {
        struct tci_span *span = tci_log_span(log, log->next);

        if (span->begin + span->len > log->sent)
            break;
        log->next++;
        if (span->xfer != NULL && span->is_in_ring)
            copy_in(log, span);
    }
}

/* The front of what lies in the ring is needed no more; all else is freed in one piece. */
static void trim(struct tci_log *log, struct tci_span *span, uint64_t position)
{
    uint64_t len = position - span->begin;

    if (!span->is_in_ring || span->data != NULL)
        return;
    span->at += len;
    span->begin += len;
    span->len -= len;
    log->head = span->at;
}

bool tci_log_ack(struct tci_log *log, uint64_t position)
{
    if (position > log->sent)
        return false;
    if (position <= log->acked)
        return true; /* said before a break, and overtaken by what was said after it */
    log->acked = position;
    while (log->first != log->last) {
        struct tci_span *span = tci_log_span(log, log->first);
        struct tci_xfer *xfer = span->xfer;

        if (span->begin + span->len > position) {
            if (span->begin < position)
                trim(log, span, position);
            break;
        }
        if (log->first == log->next)
            log->next++; /* with what was sent before a break */
        log->first++;
        free_copy(log, span);
        if (span->is_in_ring)
            log->head = span->at + span->len;
        span->xfer = NULL;
        if (xfer != NULL)
            log->release(log, xfer, span->len);
    }
    if (log->first == log->last)
        log->head = log->tail;
    return true;
}

bool tci_log_rewind(struct tci_log *log, uint64_t position)
{
    if (position < log->acked || position > log->most)
        return false;
    log->sent = position;
    (void)tci_log_ack(log, position);
    log->next = log->first;
    return true;
}

void tci_log_drop(struct tci_log *log)
{
    TC_ASSERT(log->first != log->last);
    free_copy(log, tci_log_span(log, log->first));
    if (log->first == log->next)
        log->next++;
    log->first++;
}

bool tci_log_own(struct tci_log *log, struct tci_span *span)
{
    TC_ASSERT(span->xfer != NULL && span->data != NULL);
    span->xfer = NULL;
    if (span->is_in_ring) {
        memcpy(ring_at(log, span->at), span->data, (size_t)span->len);
        span->data = NULL;
        return true;
    }
    span->copy = tci_alloc_raw((size_t)span->len);
    if (span->copy == NULL)
        return false;
    memcpy(span->copy, span->data, (size_t)span->len);
    span->data = span->copy;
    log->copied += span->len;
    return true;
}

uint8_t *tci_log_before(const struct tci_log *log, uint64_t at, size_t len)
{
    const struct tci_span *before = tci_log_span(log, at - 1);

    TC_ASSERT(at != log->first && before->is_in_ring && before->data == NULL);
    TC_ASSERT(before->len >= len);
    return ring_at(log, before->at + before->len - len);
}

void tci_log_cut(struct tci_log *log, uint64_t at)
{
    struct tci_span *span = tci_log_span(log, at);
    uint64_t len = span->len;

    TC_ASSERT(span->begin >= log->most);
    span->xfer = NULL;
    span->data = NULL;
    span->len = 0;
    log->end -= len;
    while (++at != log->last)
        tci_log_span(log, at)->begin -= len;
}
