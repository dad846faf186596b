/* topk.h - the k largest magnitudes of an array, found in steps of bounded work. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TOPK_H
#define TCI_TOPK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TCI_TOPK_BINS = 2048 };

/* A radix selection over the 31 bits of a magnitude: three passes, each of which counts the
 * elements that agree in the bits found so far by their next 11 or 10 bits.  cut is the magnitude
 * of the k-th largest element in the end, above how many are larger. */
struct tci_topk {
    const float *values; /* borrowed */
    size_t count, k, above, at;
    uint32_t cut;
    unsigned pass;
    size_t bins[TCI_TOPK_BINS];
};

/* What is compared: the bits of the magnitude, which are ordered as numbers are; all NaNs are
 * equal, and larger than infinity. */
static inline uint32_t tci_magnitude(float value)
{
    union {
        float value;
        uint32_t bits;
    } as = {value};
    uint32_t magnitude = as.bits & UINT32_C(0x7fffffff);

    return magnitude > UINT32_C(0x7f800000) ? UINT32_C(0x7fc00000) : magnitude;
}

/* k from 0 to count. */
void tci_topk_init(struct tci_topk *topk, const float *values, size_t count, size_t k);
/* Look at up to `budget` elements; true when the cut has been found. */
bool tci_topk_step(struct tci_topk *topk, size_t budget);
/* For every element in the order of indices, once the cut is found: whether it is one of the k. */
static inline bool tci_topk_takes(struct tci_topk *topk, float value)
{
    uint32_t magnitude = tci_magnitude(value);

    if (topk->k == 0 || magnitude < topk->cut)
        return false;
    if (magnitude > topk->cut)
        return true;
    /* Of the equal ones as many as are left, lower indices first. */
    if (topk->above == topk->k)
        return false;
    topk->above++;
    return true;
}

#endif
