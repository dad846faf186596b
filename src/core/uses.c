/* uses.c - a sorted list of runs of tags that were used as often as each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/uses.h"

#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"

void tci_uses_init(struct tci_uses *uses)
{
    *uses = (struct tci_uses){.runs = NULL};
}

void tci_uses_fini(struct tci_uses *uses)
{
    tci_free(uses->runs);
    uses->runs = NULL;
}

/* ---- Finding -------------------------------------------------------------------------------- */

static bool begins_behind(const struct tci_use_run *run, uint64_t sequence, uint64_t tag)
{
    return run->sequence > sequence || (run->sequence == sequence && run->first > tag);
}

static uint32_t search(struct tci_uses *uses, uint64_t sequence, uint64_t tag)
{
    uint32_t from = 0, to = uses->count;

    while (from < to) {
        uint32_t half = from + (to - from) / 2;

        if (begins_behind(&uses->runs[half], sequence, tag))
            to = half;
        else
            from = half + 1;
    }
    uses->last = from > 0 ? from - 1 : 0;
    return from;
}

/* How many runs begin before a tag, or with it. */
static inline uint32_t place_of(struct tci_uses *uses, uint64_t sequence, uint64_t tag)
{
    uint32_t next = uses->last + 1;

    if (next <= uses->count && !begins_behind(&uses->runs[next - 1], sequence, tag) &&
        (next == uses->count || begins_behind(&uses->runs[next], sequence, tag)))
        return next;
    return search(uses, sequence, tag);
}

/* Of the run before a place. */
static bool has(const struct tci_uses *uses, uint32_t place, uint64_t sequence, uint64_t tag)
{
    return place > 0 && uses->runs[place - 1].sequence == sequence &&
           uses->runs[place - 1].last >= tag;
}

bool tci_uses_find(struct tci_uses *uses, uint64_t sequence, uint64_t tag, struct tci_use *use_out)
{
    uint32_t place = place_of(uses, sequence, tag);

    if (!has(uses, place, sequence, tag))
        return false;
    *use_out = uses->runs[place - 1].use;
    return true;
}

/* ---- Making room ---------------------------------------------------------------------------- */

/* Runs up to `end` that have not failed become one a sequence, but for those between that have.
 * Whether that was worth it. */
static bool pack(struct tci_uses *uses, uint32_t end)
{
    uint32_t count = 0, before = uses->count;

    for (uint32_t i = 0; i < before; i++) {
        const struct tci_use_run run = uses->runs[i];
        struct tci_use_run *last = count > 0 ? &uses->runs[count - 1] : NULL;

        if (last != NULL && i < end && last->sequence == run.sequence && last->use.dead == 0 &&
            run.use.dead == 0) {
            last->last = run.last;
            last->use.count = 0;
        } else {
            uses->runs[count++] = run;
        }
    }
    uses->count = count;
    uses->last = 0;
    return before - count > TCI_USES_RUNS / 8;
}

static bool make_room(struct tci_uses *uses)
{
    if (uses->runs == NULL) {
        uses->runs = tci_alloc_array(TCI_USES_RUNS, sizeof(*uses->runs));
        return uses->runs != NULL;
    }
    if (tci_uses_has_room(uses))
        return true;
    if (!uses->is_packed && !pack(uses, uses->count / 2))
        uses->is_packed = !pack(uses, uses->count - uses->count / 8);
    return tci_uses_has_room(uses);
}

/* ---- Keeping -------------------------------------------------------------------------------- */

static bool is_same(struct tci_use a, struct tci_use b)
{
    return a.count == b.count && a.dead == b.dead;
}

/* Make a run and the one behind it one, if they are neighbours and alike. */
static void join(struct tci_uses *uses, uint32_t at)
{
    struct tci_use_run *run = &uses->runs[at];

    if (at + 1 >= uses->count || run[1].sequence != run->sequence ||
        run[1].first != run->last + 1 || !is_same(run[1].use, run->use))
        return;
    run->last = run[1].last;
    uses->count--;
    memmove(run + 1, run + 2, (uses->count - at - 1) * sizeof(*run));
}

static void insert(struct tci_uses *uses, uint32_t at, struct tci_use_run run)
{
    TC_ASSERT(uses->count < TCI_USES_RUNS);
    memmove(&uses->runs[at + 1], &uses->runs[at], (uses->count - at) * sizeof(run));
    uses->runs[at] = run;
    uses->count++;
    uses->is_packed = false;
}

/* The run before a place, of several, loses one of its tags; where that tag would begin. */
static uint32_t cut(struct tci_uses *uses, uint32_t place, uint64_t tag)
{
    struct tci_use_run *run = &uses->runs[place - 1], behind = *run;

    TC_ASSERT(run->first < run->last);
    if (tag == run->first) {
        run->first++;
        return place - 1;
    }
    behind.first = tag + 1;
    run->last = tag - 1;
    if (tag != behind.last)
        insert(uses, place, behind);
    return place;
}

static void put(struct tci_uses *uses, uint64_t sequence, uint64_t tag, struct tci_use use)
{
    uint32_t place = place_of(uses, sequence, tag);
    bool is_in = has(uses, place, sequence, tag);

    if (is_in && uses->runs[place - 1].first == uses->runs[place - 1].last) {
        uses->runs[--place].use = use;
    } else {
        if (is_in)
            place = cut(uses, place, tag);
        insert(uses, place, (struct tci_use_run){sequence, tag, tag, use});
    }
    join(uses, place);
    if (place > 0)
        join(uses, place - 1);
}

/* Without room. */
static bool make_unknown(struct tci_uses *uses, uint64_t sequence, uint64_t tag)
{
    uint32_t place = place_of(uses, sequence, tag);

    if (!has(uses, place, sequence, tag) || uses->runs[place - 1].use.dead != 0)
        return false;
    uses->runs[place - 1].use.count = 0;
    return true;
}

bool tci_uses_keep(struct tci_uses *uses, uint64_t sequence, uint64_t tag, struct tci_use use)
{
    uint32_t place = place_of(uses, sequence, tag);
    struct tci_use_run *run = place > 0 ? &uses->runs[place - 1] : NULL;

    if (has(uses, place, sequence, tag)) {
        if (is_same(run->use, use) || (run->use.count == 0 && use.dead == 0))
            return true; /* what is unknown stays so */
    } else if (run != NULL && run->sequence == sequence && run->last + 1 == tag &&
               is_same(run->use, use)) {
        run->last = tag;
        if (place < uses->count)
            join(uses, place - 1);
        return true;
    }
    if (!make_room(uses))
        return use.dead == 0 && make_unknown(uses, sequence, tag);
    put(uses, sequence, tag, use);
    return true;
}
