/* narrow.h - f32 as 16- or 8-bit floats, in blocks that share a power of two. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_NARROW_H
#define TCI_NARROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/dtype.h"

/* Elements that share a scale, which are also dealt with at a time. */
enum { TCI_NARROW_BLOCK = 256 };

struct tci_narrow;

/* The loops over a whole block; all families have the same bits. */
struct tci_narrow_loops {
    void (*to_codes)(const struct tci_narrow *narrow, const float *values, float factor,
                     uint16_t *codes);
    void (*from_codes)(const struct tci_narrow *narrow, const uint16_t *codes, float scale,
                       float *values);
    float (*largest)(const float *values);
    double (*largest_wide)(const double *values);
    void (*narrow_wide)(const double *values, double factor, double max, float *out);
};
extern const struct tci_narrow_loops tci_narrow_loops_plain, tci_narrow_loops_avx2;

/* One type as it travels.  A part of `count` elements is its codes, then a byte a block: the
 * exponent of the block's scale plus 127; bf16, which has the range of f32, needs none. */
struct tci_narrow {
    tc_dtype_t dtype;
    size_t size; /* bytes of a code */
    bool is_scaled;
    int top;                              /* exponent of the largest finite value … */
    float max;                            /* … and the value */
    const struct tci_narrow_loops *loops; /* the fastest that this processor has */
};

/* BF16, F16, F8E4M3, F8E5M2; false for others. */
bool tci_narrow_init(struct tci_narrow *narrow, tc_dtype_t dtype);

/* Bytes of a part. */
size_t tci_narrow_bytes(const struct tci_narrow *narrow, size_t count);

/* Round block `block` of a part of `count` elements: its `len` values, with zeros behind them to
 * the block's end.  Finite values stay finite. */
void tci_narrow_encode(const struct tci_narrow *narrow, const float *values, size_t len,
                       uint8_t *part, size_t count, size_t block);
/* The same from f64, rounded once too; what f32 would round to infinity is infinity. */
void tci_narrow_encode_wide(const struct tci_narrow *narrow, const double *values, size_t len,
                            uint8_t *part, size_t count, size_t block);

/* The values of a block, all of its elements; each is an f32. */
void tci_narrow_decode(const struct tci_narrow *narrow, const uint8_t *part, size_t count,
                       size_t block, float *values);

/* Elements of a block: TCI_NARROW_BLOCK, but in the last. */
size_t tci_narrow_len(size_t count, size_t block);

#endif
