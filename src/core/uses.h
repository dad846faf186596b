/* uses.h - how often tags were used that are not in use: a number for each run of neighbours. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_USES_H
#define TCI_USES_H

#include <stdbool.h>
#include <stdint.h>

/* Runs that are kept, 32 bytes each. */
enum { TCI_USES_RUNS = 4096 };

struct tci_use {
    uint32_t count; /* 0: not known, it may have been used */
    uint32_t dead;  /* uses up to this one have failed; where they are not known, 1: one has */
};

/* Tags `first` to `last` of one sequence (a space and a peer), with the same uses. */
struct tci_use_run {
    uint64_t sequence, first, last;
    struct tci_use use;
};

/* In order, and none meets another.  Where there are too many, runs become one whose tags, and all
 * between them, are of unknown uses: the lower ones first, as numbers mostly go up.  Never those
 * that have failed: these are told from all others. */
struct tci_uses {
    struct tci_use_run *runs; /* owned; NULL: none so far */
    uint32_t count;
    uint32_t last;  /* the run that was found last: mostly the next tag is near it */
    bool is_packed; /* what could become one is one */
};

void tci_uses_init(struct tci_uses *uses);
void tci_uses_fini(struct tci_uses *uses);

/* Keep what is known of a tag, in place of what was.  False: there is no room, or no memory.  What
 * was kept stands then, if the tag has failed, and else nothing is. */
bool tci_uses_keep(struct tci_uses *uses, uint64_t sequence, uint64_t tag, struct tci_use use);
/* What is known of a tag; false: nothing was kept.  It stays. */
bool tci_uses_find(struct tci_uses *uses, uint64_t sequence, uint64_t tag, struct tci_use *use_out);
/* Whether one more can be kept without a loss: a tag in the midst of a run makes three of one. */
static inline bool tci_uses_has_room(const struct tci_uses *uses)
{
    return uses->count + 2 <= TCI_USES_RUNS;
}

#endif
