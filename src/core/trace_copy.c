/* trace_copy.c - copies a trace piece by piece while it is written, without memory and locks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/trace.h"

/* ---- Pieces --------------------------------------------------------------------------------- */

/* A piece ends where an entry of a table does. */
static const struct tci_trace_table_place *table_at(const struct tci_trace_head *head, size_t from)
{
    for (size_t t = 0; t < TCI_TRACE_TABLES; t++) {
        const struct tci_trace_table_place *table = &head->tables[t];

        if (from >= table->offset && from < table->offset + (uint64_t)table->count * table->each)
            return table;
    }
    return NULL;
}

size_t tci_trace_piece(const struct tci_trace *trace, size_t from, size_t room)
{
    const struct tci_trace_table_place *table = table_at(trace->head, from);
    size_t left;

    if (from >= trace->head->file_bytes)
        return 0;
    if (table == NULL) {
        TC_ASSERT(from < TCI_TRACE_HEAD_BYTES);
        return tci_min(TCI_TRACE_HEAD_BYTES - from, room & ~(size_t)7);
    }
    left = (size_t)(table->offset + (uint64_t)table->count * table->each - from);
    return tci_min(left, room / table->each * table->each);
}

/* ---- Copies --------------------------------------------------------------------------------- */

/* Word by word, since others write; the head's text does not change any more. */
static void copy_words(const void *from, size_t len, void *out)
{
    const tci_word *words = from;

    for (size_t w = 0; w < len / sizeof(uint64_t); w++) {
        /* acquire: pairs with the release of whoever has written it; see tci_trace_add */
        tci_word *at = (tci_word *)(uintptr_t)&words[w];
        uint64_t word = atomic_load_explicit(at, memory_order_acquire);

        memcpy((char *)out + w * sizeof(word), &word, sizeof(word));
    }
}

/* An entry that begins with its turn: whole, or with an odd turn. */
static void copy_turned(const tci_word *entry, size_t each, char *out)
{
    uint64_t turn, after;

    copy_words(entry, each, out);
    memcpy(&turn, out, sizeof(turn));
    /* relaxed: the acquires above keep it behind them */
    after = tci_word_get(entry);
    if (turn == after)
        return;
    turn |= 1;
    memcpy(out, &turn, sizeof(turn));
}

void tci_trace_copy(const struct tci_trace *trace, size_t from, size_t len, void *out)
{
    const struct tci_trace_table_place *table = table_at(trace->head, from);
    const char *at = (const char *)trace->head + from;

    if (table != &trace->head->tables[TCI_TRACE_LIVE] &&
        table != &trace->head->tables[TCI_TRACE_SLOTS]) {
        copy_words(at, len, out);
        return;
    }
    for (size_t done = 0; done < len; done += table->each)
        copy_turned((const tci_word *)(const void *)(at + done), table->each, (char *)out + done);
}
