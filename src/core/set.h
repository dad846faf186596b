/* set.h - a set of ranks: a bit each. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SET_H
#define TCI_SET_H

#include <stdbool.h>
#include <string.h>

#include "core/alloc.h"

struct tci_set {
    uint64_t *words; /* owned */
    uint32_t size;   /* ranks are below */
};

static inline uint32_t tci_set_words(const struct tci_set *set)
{
    return (set->size + 63) / 64;
}

/* Empty; false without memory. */
static inline bool tci_set_init(struct tci_set *set, uint32_t size)
{
    set->size = size;
    set->words = tci_alloc_array(tci_set_words(set), sizeof(*set->words));
    return set->words != NULL;
}

static inline void tci_set_fini(struct tci_set *set)
{
    tci_free(set->words);
    set->words = NULL;
}

static inline bool tci_set_has(const struct tci_set *set, uint32_t rank)
{
    return (set->words[rank / 64] >> rank % 64 & 1) != 0;
}

/* Whether it was not in it before. */
static inline bool tci_set_add(struct tci_set *set, uint32_t rank)
{
    bool is_new = !tci_set_has(set, rank);

    set->words[rank / 64] |= UINT64_C(1) << rank % 64;
    return is_new;
}

/* Add the ranks 64 * word … of these bits; those that cannot be are left out. */
static inline void tci_set_add_word(struct tci_set *set, uint32_t word, uint64_t bits)
{
    if (word >= tci_set_words(set))
        return;
    if (word == tci_set_words(set) - 1 && set->size % 64 != 0)
        bits &= (UINT64_C(1) << set->size % 64) - 1;
    set->words[word] |= bits;
}

static inline void tci_set_clear(struct tci_set *set)
{
    memset(set->words, 0, tci_set_words(set) * sizeof(*set->words));
}

/* Of two sets of one size. */
static inline void tci_set_copy(struct tci_set *to, const struct tci_set *from)
{
    memcpy(to->words, from->words, tci_set_words(to) * sizeof(*to->words));
}

static inline uint32_t tci_set_count(const struct tci_set *set)
{
    uint32_t count = 0;

    for (uint32_t w = 0; w < tci_set_words(set); w++)
        count += (uint32_t)__builtin_popcountll(set->words[w]);
    return count;
}

/* The lowest rank that is not in it; `size`: all are. */
static inline uint32_t tci_set_first_missing(const struct tci_set *set)
{
    uint32_t rank = 0;

    while (rank < set->size && tci_set_has(set, rank))
        rank++;
    return rank;
}

#endif
