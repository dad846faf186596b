/* shm_ring.c - writing and reading a ring of records in shared memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/shm_ring.h"

#include <assert.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"

static_assert(sizeof(struct tci_shm_head) == TCI_SHM_LINE, "a head is one line");
static_assert(sizeof(struct tci_shm_way) == 3 * TCI_SHM_LINE, "a line for each writer");
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
              "what two processes share can have no lock");

/* Threads of one process may share a ring under two addresses, which the thread sanitizer cannot
 * know: there all that is put happens before all that is read. */
#if defined(__SANITIZE_THREAD__)
#define SHOW_ORDER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHOW_ORDER 1
#endif
#endif
#ifdef SHOW_ORDER
static _Atomic unsigned order;
#define ORDER_PUT() ((void)atomic_fetch_add_explicit(&order, 1, memory_order_release))
#define ORDER_GET() ((void)atomic_fetch_add_explicit(&order, 0, memory_order_acquire))
#else
#define ORDER_PUT() ((void)0)
#define ORDER_GET() ((void)0)
#endif

/* To fetch more ahead takes longer than it saves (64 KiB all-reduced: 7.2 us, and 7.8 with all). */
enum { MASK = TCI_SHM_RING - 1, FETCH_MAX = 16 * 1024 };
static_assert((TCI_SHM_RING & MASK) == 0, "a power of two");
static_assert(TCI_SHM_LINES % 64 == 0, "whole words of bits");

static size_t record_bytes(size_t len)
{
    return TCI_SHM_LINE + (len + TCI_SHM_LINE - 1) / TCI_SHM_LINE * TCI_SHM_LINE;
}

static _Atomic uint32_t *word_at(uint8_t *ring, uint64_t at)
{
    return (_Atomic uint32_t *)(void *)(ring + (at & MASK));
}

/* ---- The writer ---- */

/* The first x86-64 processors have no instruction that fetches a line to write it, and take it for
 * one that does nothing.  Without the attribute the line is fetched to be read: its reader keeps a
 * copy, and the store waits for that all the same. */
#if defined(__x86_64__)
#define MAY_FETCH_TO_WRITE __attribute__((target("prfchw")))
#else
#define MAY_FETCH_TO_WRITE
#endif

/* The lines of the next record, if it is like this one, are in the reader's cache still from the
 * last time round.  Asked for now, they are here, and nowhere else, before it is written: to wait
 * for a line takes as long as a message (all-reduced by two ranks: 64 times 4 KiB at once 53 us,
 * and 72 where they are fetched to be read; 16 KiB 2.5 us, and 3.0).  The head's own line is not
 * asked for: the reader looks at it again and again. */
MAY_FETCH_TO_WRITE static void fetch_ahead(const struct tci_shm_writer *writer, uint32_t bytes)
{
    uint32_t most = tci_min(bytes, FETCH_MAX);

    for (uint32_t at = TCI_SHM_LINE; at < most; at += TCI_SHM_LINE)
        __builtin_prefetch(writer->ring + ((writer->head + at) & MASK), 1);
}

/* Of lines of a record: its head, and whatever follows. */
static void note_lines(struct tci_shm_writer *writer, uint64_t at, uint32_t bytes)
{
    uint32_t line = (uint32_t)(at & MASK) / TCI_SHM_LINE, end = line + bytes / TCI_SHM_LINE;

    writer->heads[line / 64] |= UINT64_C(1) << line % 64;
    for (line++; line < end && line % 64 != 0; line++)
        writer->heads[line / 64] &= ~(UINT64_C(1) << line % 64);
    for (; line + 64 <= end; line += 64)
        writer->heads[line / 64] = 0;
    for (; line < end; line++)
        writer->heads[line / 64] &= ~(UINT64_C(1) << line % 64);
}

static bool was_head(const struct tci_shm_writer *writer, uint64_t at)
{
    uint32_t line = (uint32_t)(at & MASK) / TCI_SHM_LINE;

    return (writer->heads[line / 64] >> line % 64 & 1) != 0;
}

/* A record of so many bytes is to be put; nothing of it is written yet, for the reader looks at its
 * head, and each store to another line in between would give it time to take this one away. */
static void reserve(struct tci_shm_writer *writer, uint32_t bytes)
{
    uint64_t next = writer->head + bytes;

    writer->bytes = bytes;
    if (!was_head(writer, next))
        atomic_store_explicit(word_at(writer->ring, next), 0, memory_order_relaxed);
}

static void put(struct tci_shm_writer *writer)
{
    uint32_t bytes = writer->bytes;

    ORDER_PUT();
    /* release: publishes the record, and what is known of the place behind it, to tci_shm_next.
     * Not more: the writer would stand still until the reader has given up the line, on which it
     * spins, and that takes as long as the message. */
    atomic_store_explicit(word_at(writer->ring, writer->head), bytes | tci_shm_time(writer->head),
                          memory_order_release);
    note_lines(writer, writer->head, bytes);
    writer->head += bytes;
    fetch_ahead(writer, writer->is_past_caches ? TCI_SHM_LINE : bytes);
    writer->is_past_caches = false;
}

void tci_shm_fence(void)
{
#ifdef SHOW_ORDER /* the thread sanitizer knows no fences */
    (void)atomic_fetch_add_explicit(&order, 0, memory_order_seq_cst);
#else
    /* seq_cst: pairs with tci_shm_has_next, after the reader has said that it sleeps */
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

static bool fits(struct tci_shm_writer *writer, size_t bytes)
{
    uint64_t tail;

    if (writer->head - writer->tail_seen + bytes + TCI_SHM_LINE <= TCI_SHM_RING)
        return true;
    /* seq_cst: pairs with tci_shm_tell, the reader is done with what lies there; and a writer that
     * goes to sleep has said before that it wants room */
    tail = atomic_load_explicit(&writer->way->tail, memory_order_seq_cst);
    ORDER_GET();
    if (writer->head - tail > TCI_SHM_RING) {
        writer->is_broken = true;
        return false;
    }
    writer->tail_seen = tail;
    return writer->head - tail + bytes + TCI_SHM_LINE <= TCI_SHM_RING;
}

struct tci_shm_head *tci_shm_room(struct tci_shm_writer *writer, size_t len)
{
    size_t bytes = record_bytes(len), to_end = TCI_SHM_RING - (size_t)(writer->head & MASK);

    TC_ASSERT(len <= TCI_SHM_PAYLOAD_MAX);
    if (writer->is_broken || !fits(writer, bytes > to_end ? to_end + bytes : bytes))
        return NULL;
    if (bytes > to_end) {
        struct tci_shm_head *pad = (void *)(writer->ring + (writer->head & MASK));

        reserve(writer, (uint32_t)to_end);
        pad->kind = TCI_SHM_PAD;
        pad->len = 0;
        put(writer);
    }
    reserve(writer, (uint32_t)bytes);
    return (void *)(writer->ring + (writer->head & MASK));
}

void tci_shm_put(struct tci_shm_writer *writer, struct tci_shm_head *head, size_t len)
{
    TC_ASSERT((uint8_t *)head == writer->ring + (writer->head & MASK));
    TC_ASSERT(len <= sizeof(head->word) || len <= writer->bytes - TCI_SHM_LINE);
    head->len = (uint32_t)len;
    put(writer);
}

/* ---- The reader ---- */

/* Whether a word is that of the last time round, or cleared.  Whatever else it is, is new. */
static bool is_old(const struct tci_shm_reader *reader, uint32_t word)
{
    return word == 0 || word % TCI_SHM_LINE == tci_shm_time(reader->at + TCI_SHM_RING);
}

bool tci_shm_has_next(const struct tci_shm_reader *reader)
{
    /* seq_cst: pairs with tci_shm_fence, after the reader has said that it sleeps */
    return !is_old(reader,
                   atomic_load_explicit(word_at(reader->ring, reader->at), memory_order_seq_cst));
}

/* Of a head that is ours by now. */
static const char *check(const struct tci_shm_head *head, size_t to_end)
{
    size_t room;

    if (head->bytes % TCI_SHM_LINE != 0 || head->bytes == 0 || head->bytes > to_end)
        return "a record of an impossible length";
    if (head->kind < TCI_SHM_PAD || head->kind >= TCI_SHM_KINDS)
        return "a record of an unknown kind";
    room = head->kind == TCI_SHM_DATA && head->len <= sizeof(head->word)
               ? sizeof(head->word)
               : head->bytes - TCI_SHM_LINE;
    if (head->kind != TCI_SHM_PAD && head->len > room)
        return "a record that ends before its payload";
    return NULL;
}

bool tci_shm_next(struct tci_shm_reader *reader, struct tci_shm_head *head_out,
                  const uint8_t **payload_out, const char **wrong_out)
{
    uint8_t *at;

    *wrong_out = NULL;
    for (;;) {
        /* acquire: pairs with put */
        uint32_t word =
            atomic_load_explicit(word_at(reader->ring, reader->at), memory_order_acquire);

        if (is_old(reader, word))
            return false;
        ORDER_GET();
        at = reader->ring + (reader->at & MASK);
        memcpy(head_out, at, sizeof(*head_out));
        head_out->bytes = word - tci_shm_time(reader->at);
        *wrong_out = check(head_out, TCI_SHM_RING - (size_t)(reader->at & MASK));
        if (*wrong_out != NULL)
            return false;
        if (head_out->kind != TCI_SHM_PAD)
            break;
        tci_shm_skip(reader, head_out);
    }
    *payload_out = at + TCI_SHM_LINE;
    return true;
}

void tci_shm_skip(struct tci_shm_reader *reader, const struct tci_shm_head *head)
{
    reader->at += head->bytes;
}

bool tci_shm_tell(struct tci_shm_reader *reader)
{
    if (reader->told == reader->at)
        return false;
    reader->told = reader->at;
    ORDER_PUT();
    /* seq_cst: the writer says that it wants room and then looks at the tail once more */
    atomic_store_explicit(&reader->way->tail, reader->at, memory_order_seq_cst);
    return atomic_load_explicit(&reader->way->wants_room, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(&reader->way->wants_room, 0, memory_order_seq_cst) != 0;
}
