/* sparse.h - sparse contributions: as they travel, and merged by index in rank order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SPARSE_H
#define TCI_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/compress.h"

/* What a rank sends: this, k indices of index_bytes, k values; in the machine's own order of bytes,
 * as all payload.  All but k must be the same on every rank. */
struct tci_sparse_head {
    uint64_t k;
    uint64_t count; /* of the dense array */
    uint64_t room;  /* of a sparse result; else 0 */
    uint64_t threshold;
};

/* Bytes of a contribution; false where that is more than memory can hold. */
bool tci_sparse_bytes(size_t k, size_t index_bytes, size_t *bytes_out);

/* Write a contribution; false where indices do not ascend below the count, with the first wrong
 * one in bad_out. */
bool tci_sparse_pack(const struct tci_sparse_head *head, const tc_sparse *from, uint8_t *to,
                     size_t *bad_out);

/* A stretch of the dense array that is added up at a time. */
enum { TCI_TILE = 2048 };

/* One rank's contribution, read from its front. */
struct tci_part {
    const uint8_t *indices, *values; /* borrowed; at any address */
    size_t k, at;
    uint64_t next; /* index at `at` */
};

struct tci_merge {
    struct tci_part *parts; /* owned; one a rank */
    uint32_t ranks;
    size_t index_bytes;
    uint64_t count;
    double divide;  /* 1, or the ranks of an average */
    uint64_t begin; /* of the tile … */
    size_t len;     /* … and its elements */
    uint8_t is_there[TCI_TILE];
    double sums[TCI_TILE];
};

/* False without memory. */
bool tci_merge_init(struct tci_merge *merge, uint32_t ranks, size_t index_bytes, uint64_t count);
void tci_merge_fini(struct tci_merge *merge);
/* A rank's contribution, whose head has been checked. */
void tci_merge_add(struct tci_merge *merge, uint32_t rank, const uint8_t *bytes);

enum tci_merged { TCI_MERGED_TILE, TCI_MERGED_ALL, TCI_MERGED_BAD };

/* Add the next tile up that is not empty.  BAD: what *bad_out sent does not ascend below count. */
enum tci_merged tci_merge_tile(struct tci_merge *merge, uint32_t *bad_out);
/* Element i of the tile as a result. */
float tci_merge_value(const struct tci_merge *merge, size_t i);

#endif
