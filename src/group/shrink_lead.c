/* shrink_lead.c - the lowest survivor gathers the others, proposes, and decides. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base.h"
#include "core/log.h"
#include "core/mux.h"
#include "group/shrink.h"

static const char late[] = "it had not taken part when its time was up";

static uint32_t rank_of(const struct tci_shrink *shrink)
{
    return (uint32_t)shrink->group->comm.rank;
}

/* Such news is rare, and what there is no memory for shows again. */
void tci_shrink_note_rift(struct tci_shrink *shrink, uint32_t rank, uint32_t word, uint64_t bits)
{
    struct tci_rift *rifts;

    if (word >= tci_set_words(&shrink->gone) || (bits & ~shrink->gone.words[word]) == 0)
        return;
    for (uint32_t i = 0; i < shrink->rift_count; i++)
        if (shrink->rifts[i].rank == rank && shrink->rifts[i].word == word) {
            shrink->rifts[i].bits |= bits;
            return;
        }
    rifts = tci_realloc_array(shrink->rifts, shrink->rift_count + 1, sizeof(*rifts));
    if (rifts == NULL)
        return;
    shrink->rifts = rifts;
    rifts[shrink->rift_count++] = (struct tci_rift){.rank = rank, .word = word, .bits = bits};
}

static bool is_gone_for(const struct tci_shrink *shrink, uint32_t rank, uint32_t other)
{
    for (uint32_t i = 0; i < shrink->rift_count; i++)
        if (shrink->rifts[i].rank == rank && shrink->rifts[i].word == other / 64 &&
            (shrink->rifts[i].bits >> other % 64 & 1) != 0)
            return true;
    return false;
}

/* Who is left when of any two that cannot meet the higher one goes. */
static void choose(const struct tci_shrink *shrink, struct tci_set *out)
{
    tci_set_copy(out, &shrink->gone);
    for (uint32_t r = 0; shrink->rift_count > 0 && r < out->size; r++)
        for (uint32_t lower = 0; lower < r && !tci_set_has(out, r); lower++)
            if (!tci_set_has(out, lower) &&
                (is_gone_for(shrink, r, lower) || is_gone_for(shrink, lower, r)))
                (void)tci_set_add(out, r);
}

/* To everyone who can still be asked and is not a member. */
static void refuse_others(struct tci_shrink *shrink, const struct tci_set *out)
{
    for (uint32_t r = 0; r < out->size; r++)
        if (r != rank_of(shrink) && tci_set_has(out, r) && tci_set_has(&shrink->joined, r))
            tci_shrink_say(shrink, r, TCI_SHRINK_EXCLUDED,
                           "a link between it and another member is gone");
}

static void decide(struct tci_shrink *shrink, struct tci_members *members)
{
    refuse_others(shrink, &members->out);
    for (uint32_t r = 0; r < members->out.size; r++)
        if (r != rank_of(shrink) && !tci_set_has(&members->out, r))
            tci_shrink_send_members(shrink, r, TCI_SHRINK_DONE, members);
    tci_shrink_settle(shrink, members);
}

/* Gone, but not known to have ended: it may stand in a new group. */
static bool may_live(const struct tci_shrink *shrink, uint32_t rank)
{
    struct tci_transport *transport = shrink->group->comm.transport;

    return tci_set_has(&shrink->gone, rank) && tci_transport_bond(transport, rank) < TCI_BOND_LEFT;
}

/* Whether someone that this rank cannot ask may have heard that what another leader proposed is
 * decided.  What this one has proposed is decided by nobody else. */
static bool may_be_decided(const struct tci_shrink *shrink)
{
    for (uint32_t r = 0; shrink->kept.is_whole && !shrink->is_own && r < shrink->gone.size; r++)
        if (!tci_set_has(&shrink->kept.out, r) && may_live(shrink, r))
            return true;
    return false;
}

static bool is_passed_over(const struct tci_shrink *shrink)
{
    for (uint32_t r = 0; shrink->is_behind && !shrink->is_own && r < shrink->gone.size; r++)
        if (may_live(shrink, r))
            return true;
    return false;
}

/* False: that was the end. */
static bool propose(struct tci_shrink *shrink)
{
    struct tci_members *kept = &shrink->kept;
    struct tci_transport *transport = shrink->group->comm.transport;
    uint32_t size;

    choose(shrink, &kept->out);
    kept->is_whole = true;
    size = kept->out.size - tci_set_count(&kept->out);
    if (shrink->suspected_by > size) {
        tci_shrink_exclude(shrink, "more ranks take it for gone than would go on with it");
        return false;
    }
    kept->number = 0;
    if (size > 1)
        kept->number = tci_mux_number(tci_view_below(transport, rank_of(shrink)),
                                      tci_mux_count(tci_mux_of(transport)));
    tci_set_clear(&shrink->acked);
    (void)tci_set_add(&shrink->acked, rank_of(shrink));
    shrink->is_proposing = shrink->is_own = true;
    tci_shrink_begin_phase(shrink);
    tci_shrink_tell(shrink);
    return true;
}

static bool is_awaited(const struct tci_shrink *shrink, uint32_t rank)
{
    if (shrink->is_proposing)
        return !tci_set_has(&shrink->acked, rank) && !tci_set_has(&shrink->kept.out, rank);
    return !tci_set_has(&shrink->joined, rank) && !tci_set_has(&shrink->gone, rank);
}

static bool has_all(const struct tci_shrink *shrink)
{
    for (uint32_t r = 0; r < shrink->gone.size; r++)
        if (is_awaited(shrink, r))
            return false;
    return true;
}

static void miss_late_ones(struct tci_shrink *shrink)
{
    for (uint32_t r = 0; r < shrink->gone.size; r++) {
        if (!is_awaited(shrink, r))
            continue;
        tci_log(TC_LOG_WARN, "rank %d leaves rank %d out of the new group: %s",
                (int)rank_of(shrink), (int)r, late);
        tci_shrink_say(shrink, r, TCI_SHRINK_EXCLUDED, late);
        tci_shrink_miss(shrink, r);
    }
    tci_shrink_begin_phase(shrink);
}

static bool has_lost_a_member(const struct tci_shrink *shrink)
{
    for (uint32_t w = 0; w < tci_set_words(&shrink->gone); w++)
        if ((shrink->gone.words[w] & ~shrink->kept.out.words[w]) != 0)
            return true;
    return false;
}

void tci_shrink_lead(struct tci_shrink *shrink)
{
    (void)tci_set_add(&shrink->joined, rank_of(shrink));
    if (tci_shrink_is_overdue(shrink, 0))
        miss_late_ones(shrink);
    if (shrink->is_proposing && has_lost_a_member(shrink))
        shrink->is_proposing = false;
    if (!has_all(shrink))
        return;
    if (shrink->is_proposing || may_be_decided(shrink))
        decide(shrink, &shrink->kept);
    else if (is_passed_over(shrink))
        tci_shrink_leave_behind(shrink, "others have agreed without it");
    else if (propose(shrink) && has_all(shrink))
        decide(shrink, &shrink->kept);
}
