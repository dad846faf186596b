/* pairs.h - who meets whom when ranks are paired 1, 2, 4, … places apart, for any rank count. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_PAIRS_H
#define TCI_PAIRS_H

#include "algo/steps.h"

/* The largest power of two, 2^rounds, of the ranks are paired; the others are folded: of the first
 * 2 (n - 2^rounds) ranks, each odd one into the even one before it.  Those that are paired have the
 * places 0 … 2^rounds - 1 in the order of their ranks. */
struct tci_pairs {
    uint32_t rounds;
    uint32_t folded; /* ranks that are not paired */
    uint32_t place;  /* of the rank; where it is folded, of the one before it */
    uint32_t folds;  /* 1 where the next rank is folded into this one, else 0 */
    bool is_folded;
};

static inline struct tci_pairs tci_pairs_of(uint32_t rank, uint32_t size)
{
    struct tci_pairs pairs = {0};

    TC_ASSERT(size >= 2 && rank < size);
    while (size >> (pairs.rounds + 1) != 0)
        pairs.rounds++;
    pairs.folded = size - (UINT32_C(1) << pairs.rounds);
    if (rank < 2 * pairs.folded) {
        pairs.place = rank / 2;
        pairs.is_folded = rank % 2 == 1;
        pairs.folds = pairs.is_folded ? 0 : 1;
    } else {
        pairs.place = rank - pairs.folded;
    }
    return pairs;
}

/* The rank at a place. */
static inline uint32_t tci_pairs_rank(const struct tci_pairs *pairs, uint32_t place)
{
    TC_ASSERT(place >> pairs->rounds == 0);
    return place < pairs->folded ? 2 * place : place + pairs->folded;
}

/* The rank that is met at a distance of 2^k places. */
static inline uint32_t tci_pairs_met(const struct tci_pairs *pairs, uint32_t k)
{
    return tci_pairs_rank(pairs, pairs->place ^ UINT32_C(1) << k);
}

#endif
