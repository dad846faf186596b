/* sparse.c - sparse contributions: as they travel, and merged by index in rank order. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   rank 0    2:a   5:b   9:c         tile 0 … 7        tile 8 … 15
 *   rank 1    5:d   9:e               2: a              9: c + e + g
 *   rank 2    2:f   9:g               5: b + d
 *                                     2: … + f
 *
 * Contributions ascend, so one cursor a rank suffices.  A tile is added up rank after rank, which
 * is rank order for each element; empty tiles are passed over.  It fits in the first caches.
 */
#include "algo/sparse.h"

#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/dtype.h"

bool tci_sparse_bytes(size_t k, size_t index_bytes, size_t *bytes_out)
{
    size_t bytes;

    if (!tci_array_bytes(k, index_bytes + sizeof(float), &bytes) ||
        bytes > TCI_MEMORY_MAX - sizeof(struct tci_sparse_head))
        return false;
    *bytes_out = sizeof(struct tci_sparse_head) + bytes;
    return true;
}

static uint64_t index_at(const uint8_t *indices, size_t index_bytes, size_t i)
{
    uint64_t wide;
    uint32_t narrow;

    if (index_bytes == sizeof(wide)) {
        memcpy(&wide, indices + i * sizeof(wide), sizeof(wide));
        return wide;
    }
    memcpy(&narrow, indices + i * sizeof(narrow), sizeof(narrow));
    return narrow;
}

bool tci_sparse_pack(const struct tci_sparse_head *head, const tc_sparse *from, uint8_t *to,
                     size_t *bad_out)
{
    size_t index_bytes = tc_dtype_size(from->index_dtype);
    uint64_t least = 0;

    for (size_t i = 0; i < from->k; i++) {
        uint64_t index = index_at(from->indices, index_bytes, i);

        if (index < least || index >= head->count) {
            *bad_out = i;
            return false;
        }
        least = index + 1;
    }
    memcpy(to, head, sizeof(*head));
    if (from->k == 0)
        return true;
    memcpy(to + sizeof(*head), from->indices, from->k * index_bytes);
    memcpy(to + sizeof(*head) + from->k * index_bytes, from->values,
           from->k * sizeof(*from->values));
    return true;
}

bool tci_merge_init(struct tci_merge *merge, uint32_t ranks, size_t index_bytes, uint64_t count)
{
    merge->parts = tci_alloc_array(ranks, sizeof(*merge->parts));
    merge->ranks = ranks;
    merge->index_bytes = index_bytes;
    merge->count = count;
    merge->divide = 1;
    return merge->parts != NULL;
}

void tci_merge_fini(struct tci_merge *merge)
{
    tci_free(merge->parts);
    merge->parts = NULL;
}

/* The next index; beyond all others when there is none. */
static void look(const struct tci_merge *merge, struct tci_part *part)
{
    part->next =
        part->at < part->k ? index_at(part->indices, merge->index_bytes, part->at) : UINT64_MAX;
}

void tci_merge_add(struct tci_merge *merge, uint32_t rank, const uint8_t *bytes)
{
    struct tci_part *part = &merge->parts[rank];
    struct tci_sparse_head head;

    TC_ASSERT(rank < merge->ranks);
    memcpy(&head, bytes, sizeof(head));
    part->k = head.k;
    part->at = 0;
    part->indices = bytes + sizeof(head);
    part->values = part->indices + part->k * merge->index_bytes;
    look(merge, part);
}

/* What a rank has of the tile; false where its indices do not ascend below the count. */
static bool add_part(struct tci_merge *merge, struct tci_part *part)
{
    while (part->at < part->k && part->next < merge->begin + merge->len) {
        size_t i = (size_t)(part->next - merge->begin);
        uint64_t before = part->next;
        float value;

        memcpy(&value, part->values + part->at * sizeof(value), sizeof(value));
        merge->sums[i] = merge->is_there[i] ? merge->sums[i] + (double)value : (double)value;
        merge->is_there[i] = 1;
        part->at++;
        look(merge, part);
        if (part->at < part->k && (part->next <= before || part->next >= merge->count))
            return false;
    }
    return true;
}

enum tci_merged tci_merge_tile(struct tci_merge *merge, uint32_t *bad_out)
{
    uint64_t first = UINT64_MAX;

    for (uint32_t r = 0; r < merge->ranks; r++) {
        const struct tci_part *part = &merge->parts[r];

        if (part->at == part->k)
            continue;
        if (part->next >= merge->count) {
            *bad_out = r;
            return TCI_MERGED_BAD;
        }
        first = part->next < first ? part->next : first;
    }
    if (first == UINT64_MAX)
        return TCI_MERGED_ALL;
    merge->begin = first / TCI_TILE * TCI_TILE;
    merge->len =
        (size_t)(merge->count - merge->begin < TCI_TILE ? merge->count - merge->begin : TCI_TILE);
    memset(merge->is_there, 0, sizeof(merge->is_there));
    for (uint32_t r = 0; r < merge->ranks; r++) {
        if (!add_part(merge, &merge->parts[r])) {
            *bad_out = r;
            return TCI_MERGED_BAD;
        }
    }
    return TCI_MERGED_TILE;
}

float tci_merge_value(const struct tci_merge *merge, size_t i)
{
    double sum = merge->sums[i];

    if (!merge->is_there[i])
        return 0;
    if (sum != sum)
        return tci_f32_from_bits(TCI_F32_NAN);
    return (float)(sum / merge->divide);
}
