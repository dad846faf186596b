/* fuzz_payload.c - feeds payloads to what reads compressed and sparse contributions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/narrow.h"
#include "algo/sparse.h"
#include "algo/topk.h"
#include "core/base.h"
#include "fuzz/fuzz.h"

enum { COUNT_MAX = 3 * TCI_NARROW_BLOCK, RANKS_MAX = 4, DENSE_MAX = 3 * TCI_TILE };

static void want(bool holds)
{
    if (!holds)
        abort();
}

/* ---- Narrow floats -------------------------------------------------------------------------- */

static void decode_all(const struct tci_narrow *narrow, const uint8_t *part, size_t count,
                       float *values)
{
    for (size_t block = 0; block * TCI_NARROW_BLOCK < count; block++)
        tci_narrow_decode(narrow, part, count, block, values + block * TCI_NARROW_BLOCK);
}

/* Every family of loops has the same bits; what is finite stays so. */
static void try_narrow(const uint8_t *data, size_t size, tc_dtype_t dtype)
{
    float values[COUNT_MAX], plain[COUNT_MAX], again[COUNT_MAX];
    uint8_t part[COUNT_MAX * 2 + COUNT_MAX];
    struct tci_narrow narrow;
    size_t count = 1, bytes;

    want(tci_narrow_init(&narrow, dtype));
    while (count < COUNT_MAX && tci_narrow_bytes(&narrow, count + 1) <= size)
        count++;
    bytes = tci_narrow_bytes(&narrow, count);
    memset(part, 0, sizeof(part));
    memcpy(part, data, tci_min(bytes, size));
    decode_all(&narrow, part, count, values);
    narrow.loops = &tci_narrow_loops_plain;
    decode_all(&narrow, part, count, plain);
    want(memcmp(values, plain, count * sizeof(*values)) == 0);
    for (size_t block = 0; block * TCI_NARROW_BLOCK < count; block++)
        tci_narrow_encode(&narrow, values + block * TCI_NARROW_BLOCK, tci_narrow_len(count, block),
                          part, count, block);
    decode_all(&narrow, part, count, again);
    for (size_t i = 0; i < count; i++)
        want(!isfinite(values[i]) || isfinite(again[i]));
}

/* ---- Sparse contributions ------------------------------------------------------------------- */

struct sums {
    double values[DENSE_MAX];
    bool is_there[DENSE_MAX];
};

/* What the ranks have sent, added up by a plain loop; false where indices do not ascend. */
static bool add_plainly(uint8_t *const *parts, uint32_t ranks, size_t index_bytes, uint64_t count,
                        struct sums *sums)
{
    for (uint32_t r = 0; r < ranks; r++) {
        struct tci_sparse_head head;
        uint64_t before = 0;

        memcpy(&head, parts[r], sizeof(head));
        for (size_t i = 0; i < head.k; i++) {
            const uint8_t *at = parts[r] + sizeof(head);
            uint64_t index = 0;
            float value;

            memcpy(&index, at + i * index_bytes, index_bytes);
            memcpy(&value, at + head.k * index_bytes + i * sizeof(value), sizeof(value));
            if (index >= count || (i > 0 && index <= before))
                return false;
            before = index;
            sums->values[index] =
                sums->is_there[index] ? sums->values[index] + (double)value : (double)value;
            sums->is_there[index] = true;
        }
    }
    return true;
}

static bool is_same(float a, float b)
{
    return (a != a && b != b) || memcmp(&a, &b, sizeof(a)) == 0;
}

static void check_merge(struct tci_merge *merge, const struct sums *sums, bool is_good)
{
    uint64_t done = 0;
    enum tci_merged merged;
    uint32_t bad = UINT32_MAX;

    while ((merged = tci_merge_tile(merge, &bad)) == TCI_MERGED_TILE) {
        want(merge->begin >= done && merge->begin + merge->len <= merge->count);
        done = merge->begin + merge->len;
        for (size_t i = 0; is_good && i < merge->len; i++) {
            want(merge->is_there[i] == sums->is_there[merge->begin + i]);
            want(!merge->is_there[i] ||
                 is_same(tci_merge_value(merge, i), (float)sums->values[merge->begin + i]));
        }
    }
    want((merged == TCI_MERGED_ALL) == is_good);
    want(is_good || bad < merge->ranks);
}

/* data[0]: bytes of an index and ranks, data[1]: the count; then for each rank a byte of how many
 * elements, and these. */
static void try_sparse(const uint8_t *data, size_t size)
{
    static struct sums sums;
    size_t index_bytes = data[0] & 1 ? 8 : 4, at = 2;
    uint32_t ranks = 1 + (data[0] >> 1) % RANKS_MAX;
    uint64_t count = 1 + (uint64_t)data[1] * (DENSE_MAX - 1) / 255;
    uint8_t *parts[RANKS_MAX];
    struct tci_merge merge;

    want(tci_merge_init(&merge, ranks, index_bytes, count));
    for (uint32_t r = 0; r < ranks; r++) {
        struct tci_sparse_head head = {.k = at < size ? data[at++] : 0, .count = count};
        size_t bytes;

        head.k = tci_min(head.k, (size - at) / (index_bytes + sizeof(float)));
        want(tci_sparse_bytes(head.k, index_bytes, &bytes));
        parts[r] = malloc(bytes);
        want(parts[r] != NULL);
        memcpy(parts[r], &head, sizeof(head));
        memcpy(parts[r] + sizeof(head), data + at, bytes - sizeof(head));
        at += bytes - sizeof(head);
        tci_merge_add(&merge, r, parts[r]);
    }
    memset(&sums, 0, sizeof(sums));
    check_merge(&merge, &sums, add_plainly(parts, ranks, index_bytes, count, &sums));
    tci_merge_fini(&merge);
    for (uint32_t r = 0; r < ranks; r++)
        free(parts[r]);
}

/* ---- The largest ---------------------------------------------------------------------------- */

static void try_topk(const uint8_t *data, size_t size, size_t k)
{
    static struct tci_topk topk;
    float values[COUNT_MAX];
    size_t count = tci_min(size / sizeof(float), COUNT_MAX), taken = 0;
    uint32_t least = UINT32_MAX, left_out = 0;

    memcpy(values, data, count * sizeof(float));
    k = tci_min(k, count);
    tci_topk_init(&topk, values, count, k);
    while (!tci_topk_step(&topk, 7))
        ;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = tci_magnitude(values[i]);

        if (tci_topk_takes(&topk, values[i])) {
            taken++;
            least = tci_min(least, magnitude);
        } else {
            left_out = tci_max(left_out, magnitude);
        }
    }
    want(taken == k && (k == 0 || k == count || left_out <= least));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tc_dtype_t types[] = {TC_DTYPE_BF16, TC_DTYPE_F16, TC_DTYPE_F8E4M3,
                                       TC_DTYPE_F8E5M2};

    if (size < 4)
        return 0;
    if (data[0] & 0x80)
        try_sparse(data + 1, size - 1);
    else if (data[0] & 0x40)
        try_topk(data + 2, size - 2, data[1]);
    else
        try_narrow(data + 1, size - 1, types[data[0] % TCI_LEN(types)]);
    return 0;
}

/* Two ranks' contributions of three elements each. */
static size_t sparse_seed(uint8_t *data, size_t index_bytes)
{
    size_t at = 0;

    data[at++] = 0x80;
    data[at++] = (uint8_t)(2 | (index_bytes == 8));
    data[at++] = 255;
    for (unsigned r = 0; r < 2; r++) {
        data[at++] = 3;
        for (uint64_t i = 0; i < 3; i++) {
            uint64_t index = i * 2000 + r * i;

            memcpy(data + at, &index, index_bytes);
            at += index_bytes;
        }
        for (unsigned i = 0; i < 3; i++) {
            float value = (float)(i + r) * 0.37F;

            memcpy(data + at, &value, sizeof(value));
            at += sizeof(value);
        }
    }
    return at;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    if (i >= 8 || room < 4096)
        return 0;
    if (i < 2)
        return sparse_seed(data, i == 0 ? 4 : 8);
    for (size_t k = 0; k < 700; k++)
        data[k] = (uint8_t)(k * k * 31 + k * i);
    data[0] = (uint8_t)(i < 6 ? i - 2 : 0x40);
    return i < 6 ? 700 : 120 * (i - 5);
}
