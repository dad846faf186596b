/* ruling.c - who keeps an operation waiting, as a pure function of what is known. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ruling.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/waiting.h"

void tci_evidence_drop_dead(struct tci_evidence *evidence, int by, int of)
{
    unsigned kept = 0;

    for (unsigned d = 0; d < evidence->dead_count; d++)
        if (evidence->dead[d].by != by || evidence->dead[d].of != of)
            evidence->dead[kept++] = evidence->dead[d];
    evidence->dead_count = kept;
}

void tci_evidence_add_dead(struct tci_evidence *evidence, int by, int of)
{
    tci_evidence_drop_dead(evidence, by, of);
    if (evidence->dead_count < DEAD_PATHS_MAX)
        evidence->dead[evidence->dead_count++] = (struct tci_path){by, of};
}

__attribute__((format(printf, 4, 5))) static void blame(struct tci_ruling *ruling, int culprit,
                                                        tc_reason_t reason, const char *fmt, ...)
{
    va_list args;

    ruling->culprit = culprit;
    ruling->reason = reason;
    ruling->is_loss = reason == TC_REASON_MACHINE_SILENT || reason == TC_REASON_LINK_DEAD;
    va_start(args, fmt);
    vsnprintf(ruling->text, sizeof(ruling->text), fmt, args);
    va_end(args);
}

/* ---- Hosts that are not heard --------------------------------------------------------------- */

static bool is_heard(const struct tci_evidence *evidence, int rank)
{
    const struct said *said = &evidence->answers->said[rank];

    if (rank == evidence->judge)
        return evidence->hears_others;
    return said->is_heard || said->what != SILENT;
}

static bool is_of(const struct tci_path *path, int rank)
{
    return path->by == rank || path->of == rank;
}

static int other_end(const struct tci_path *path, int rank)
{
    return path->by == rank ? path->of : path->by;
}

/* Dead paths of a rank; one that both ends have told of is one. */
static int paths_of(const struct tci_evidence *evidence, int rank)
{
    const struct tci_path *dead = evidence->dead;
    int count = 0;

    for (unsigned d = 0; d < evidence->dead_count; d++) {
        bool is_new = is_of(&dead[d], rank);

        for (unsigned e = 0; e < d && is_new; e++)
            is_new =
                !is_of(&dead[e], rank) || other_end(&dead[e], rank) != other_end(&dead[d], rank);
        count += is_new;
    }
    return count;
}

/* A host that nobody hears; NULL: each is heard by somebody. */
static const struct tci_path *find_unheard(const struct tci_evidence *evidence, int *rank_out)
{
    const struct tci_path *found = NULL;

    for (unsigned d = 0; d < evidence->dead_count; d++) {
        const struct tci_path *path = &evidence->dead[d];
        int ends[] = {path->by, path->of};

        for (int e = 0; e < 2; e++)
            if (ends[e] != evidence->judge && !is_heard(evidence, ends[e]) &&
                (found == NULL || ends[e] < *rank_out)) {
                found = path;
                *rank_out = ends[e];
            }
    }
    return found;
}

static bool rule_on_silence(const struct tci_evidence *evidence, struct tci_ruling *ruling)
{
    int rank = -1;
    const struct tci_path *path = find_unheard(evidence, &rank);

    if (path == NULL)
        return false;
    if (!is_heard(evidence, evidence->judge) && paths_of(evidence, evidence->judge) > 1)
        blame(ruling, evidence->judge, TC_REASON_MACHINE_SILENT,
              "rank %d hears the hosts of no other rank any more: its own network is down, or "
              "theirs all are",
              evidence->judge);
    else
        blame(ruling, rank, TC_REASON_MACHINE_SILENT,
              "rank %d is silent: its host has acknowledged nothing that rank %d said to it at the "
              "end of %s; it is off, asleep, or cut off",
              rank, rank == path->of ? path->by : path->of, evidence->name);
    return true;
}

static bool rule_on_paths(const struct tci_evidence *evidence, struct tci_ruling *ruling)
{
    const struct tci_path *dead = evidence->dead;
    int most = 0, culprit = -1, other = -1;

    for (unsigned d = 0; d < evidence->dead_count; d++) {
        int ends[] = {dead[d].by, dead[d].of};

        for (int e = 0; e < 2; e++) {
            int paths = paths_of(evidence, ends[e]);

            if (paths < most || (paths == most && ends[e] <= culprit))
                continue;
            most = paths;
            culprit = ends[e];
            other = ends[1 - e];
        }
    }
    if (culprit < 0)
        return false;
    blame(ruling, culprit, TC_REASON_LINK_DEAD,
          "the hosts of rank %d and rank %d do not hear each other, but others hear both: the path "
          "between them is broken; check cables, routes and firewalls",
          culprit < other ? culprit : other, culprit < other ? other : culprit);
    return true;
}

/* ---- Who waits for whom --------------------------------------------------------------------- */

enum end { END_SILENT, END_ABSENT, END_FUTURES, END_LATE, END_KINDS };

/* Where the ways from those that have asked lead to; by and of: the last step of one that leads
 * nowhere.  Late to answer is a rank whose loop stood still until just now: it is what the others
 * wait for, though all have entered. */
struct ways {
    int ends[END_KINDS]; /* the lowest of each kind; -1: none */
    int by, of;
    int late_to_answer; /* the lowest; -1: none */
};

static bool is_party(const struct tci_evidence *evidence, int rank)
{
    return evidence->peer == TCI_ALL_PEERS || rank == evidence->peer || rank == evidence->judge;
}

/* Of a send or receive no third rank is asked: one of the two that waits for such a one, in a call
 * of its own, is as far as can be seen. */
static int end_kind(const struct tci_evidence *evidence, int rank)
{
    const struct said *said = &evidence->answers->said[rank];

    if (said->what == SILENT)
        return END_SILENT;
    if (said->what == NOT_ENTERED && (said->waits[0] < 0 || !is_party(evidence, said->waits[0])))
        return END_ABSENT;
    if (said->what == ENTERED && said->waits[0] == TCI_WAITS_FOR_FUTURES)
        return END_FUTURES;
    return said->what == ENTERED && said->is_late ? END_LATE : END_KINDS;
}

static bool is_late_to_answer(const struct said *said)
{
    return said->was_mute && !said->is_flowing && (said->what == ENTERED || said->what == FINISHED);
}

static void note_end(struct ways *ways, int kind, int rank)
{
    if (ways->ends[kind] < 0 || rank < ways->ends[kind])
        ways->ends[kind] = rank;
}

/* One way, from a rank over the first of those that each waits for. */
static void follow_first(const struct tci_evidence *evidence, int from, struct ways *ways)
{
    const struct said *said = evidence->answers->said;
    int by = from, of = said[from].waits[0];

    for (int hops = 0; hops < evidence->size && of >= 0; hops++) {
        if (of == from || said[of].waits[0] < 0 || !is_party(evidence, said[of].waits[0]))
            break;
        by = of;
        of = said[of].waits[0];
    }
    ways->by = by;
    ways->of = of;
}

/* All ways, from all that have asked; without memory the first of each. */
static void follow(const struct tci_evidence *evidence, struct ways *ways)
{
    const struct said *said = evidence->answers->said;
    int size = evidence->size, head = 0, tail = 0;
    int *queue = tci_alloc_array((size_t)size, sizeof(*queue));
    bool *is_seen = tci_alloc_array((size_t)size, sizeof(*is_seen));

    *ways = (struct ways){.ends = {-1, -1, -1, -1}, .by = -1, .of = -1, .late_to_answer = -1};
    for (int r = 0; r < size; r++) {
        if (said[r].due_ns == 0)
            continue;
        if (ways->by < 0)
            follow_first(evidence, r, ways);
        if (queue != NULL && is_seen != NULL) {
            queue[tail++] = r;
            is_seen[r] = true;
        }
    }
    while (head < tail) {
        int rank = queue[head++], kind = end_kind(evidence, rank);

        if (kind < END_KINDS)
            note_end(ways, kind, rank);
        if (is_late_to_answer(&said[rank]) &&
            (ways->late_to_answer < 0 || rank < ways->late_to_answer))
            ways->late_to_answer = rank;
        for (int w = 0; w < WAITS_MAX; w++) {
            int next = said[rank].waits[w];

            if (next < 0 || is_seen[next] || !is_party(evidence, next))
                continue;
            is_seen[next] = true;
            queue[tail++] = next;
        }
    }
    if (queue == NULL || is_seen == NULL) {
        int last = ways->of >= 0 ? ways->of : ways->by;

        if (last >= 0 && end_kind(evidence, last) < END_KINDS)
            note_end(ways, end_kind(evidence, last), last);
    }
    tci_free(queue);
    tci_free(is_seen);
}

/* Of those in no such way the first that suits: an absent one, be it held up, then a silent one. */
static void look_beside(const struct tci_evidence *evidence, struct ways *ways)
{
    for (int r = evidence->size - 1; r >= 0; r--) {
        const struct said *said = &evidence->answers->said[r];

        if (!is_party(evidence, r))
            continue;
        if (said->what == NOT_ENTERED &&
            (said->waits[0] < 0 || ways->ends[END_ABSENT] < 0 ||
             evidence->answers->said[ways->ends[END_ABSENT]].waits[0] >= 0))
            ways->ends[END_ABSENT] = r;
        if (said->what == SILENT)
            ways->ends[END_SILENT] = r;
    }
    if (ways->ends[END_ABSENT] >= 0)
        ways->ends[END_SILENT] = -1;
}

static bool has_end(const struct ways *ways)
{
    for (int kind = 0; kind < END_KINDS; kind++)
        if (ways->ends[kind] >= 0)
            return true;
    return false;
}

/* The others have failed in it, or were done with it so long ago that they have forgotten that. */
static bool is_left_alone(const struct tci_evidence *evidence, int rank)
{
    int others = 0;

    for (int r = 0; r < evidence->size; r++) {
        if (r == rank || !is_party(evidence, r))
            continue;
        if (evidence->answers->said[r].what != FORGOTTEN)
            return false;
        others++;
    }
    return others > 1;
}

static void rule_on_slowness(const struct tci_evidence *evidence, const struct ways *ways,
                             struct tci_ruling *ruling)
{
    int by = ways->by, of = ways->of, late = ways->late_to_answer;

    if (late >= 0) {
        blame(
            ruling, late, TC_REASON_SLOW,
            "all ranks have entered it, but rank %d has answered only at the end of %llu ms, when "
            "it was asked once more: it is slow; look at its load and its link, or give it a "
            "longer timeout",
            late, evidence->timeout_ms);
        return;
    }
    if (by >= 0 && is_left_alone(evidence, by)) {
        blame(ruling, by, TC_REASON_SLOW,
              "rank %d alone is still at it after %llu ms: all others have failed in it, or were "
              "done long before, and rank %d has not heard of that: look at its links",
              by, evidence->timeout_ms, by);
        return;
    }
    if (of < 0) {
        blame(ruling, by < 0 ? evidence->judge : by, TC_REASON_SLOW,
              "after %llu ms rank %d waits for nobody, and is not done: its computations are slow, "
              "or the timeout is too short",
              evidence->timeout_ms, by < 0 ? evidence->judge : by);
        return;
    }
    blame(ruling, of, TC_REASON_SLOW,
          "all ranks have entered it, but after %llu ms rank %d still waits for rank %d, which is "
          "slow%s%s: look at its load and its link, or give it a longer timeout",
          evidence->timeout_ms, by, of, evidence->answers->said[of].text[0] != 0 ? ": " : "",
          evidence->answers->said[of].text);
}

/* Of a finalization: not those are at fault who have not come to it, or only since they were asked,
 * where they waited for a rank that had. */
static bool rule_on_finalized(const struct tci_evidence *evidence, struct tci_ruling *ruling)
{
    const struct said *said = evidence->answers->said;

    for (int r = 0; r < evidence->size && evidence->is_last; r++) {
        int of = said[r].held_by;

        if (of < 0 || said[of].what != ENTERED || said[of].is_late)
            continue;
        blame(ruling, of, TC_REASON_EXITED,
              "rank %d has finalized the group, but rank %d cannot yet: %s, which rank %d has not "
              "entered",
              of, r, said[r].held, of);
        return true;
    }
    return false;
}

void tci_rule(const struct tci_evidence *evidence, struct tci_ruling *ruling_out)
{
    const struct said *said = evidence->answers->said;
    unsigned long long ms = evidence->timeout_ms;
    struct ways ways;
    int rank;

    memset(ruling_out, 0, sizeof(*ruling_out));
    if (rule_on_silence(evidence, ruling_out) || rule_on_paths(evidence, ruling_out))
        return;
    follow(evidence, &ways);
    if (!has_end(&ways))
        look_beside(evidence, &ways);
    if ((rank = ways.ends[END_SILENT]) >= 0 && said[rank].is_flowing)
        blame(ruling_out, rank, TC_REASON_SLOW,
              "rank %d has not answered after %llu ms, but data still moves on its links: they are "
              "slow, or the timeout is too short",
              rank, ms);
    else if (rank >= 0)
        blame(ruling_out, rank, TC_REASON_LOOP_STALLED,
              "rank %d does not answer, %llu ms after the call, though its host does: its loop "
              "does not turn; see whether it is stopped, stuck in a continuation, or not turned",
              rank, ms);
    else if (rule_on_finalized(evidence, ruling_out))
        return;
    else if ((rank = ways.ends[END_ABSENT]) >= 0)
        blame(ruling_out, rank, TC_REASON_NOT_ENTERED,
              "rank %d has not entered it within %llu ms; %s: see what keeps it", rank, ms,
              said[rank].text);
    else if ((rank = ways.ends[END_FUTURES]) >= 0)
        blame(ruling_out, rank, TC_REASON_NOT_ENTERED,
              "rank %d still waits for the futures to start after, %llu ms after the call", rank,
              ms);
    else if ((rank = ways.ends[END_LATE]) >= 0)
        blame(ruling_out, rank, TC_REASON_NOT_ENTERED,
              "rank %d has entered it only at the end of %llu ms: see what has kept it", rank, ms);
    else
        rule_on_slowness(evidence, &ways, ruling_out);
}

bool tci_ruling_is_clear(const struct tci_evidence *evidence)
{
    struct ways ways;

    for (int r = 0; r < evidence->size; r++)
        if (is_party(evidence, r) && evidence->answers->said[r].what == SILENT)
            return false;
    follow(evidence, &ways);
    return evidence->dead_count == 0 && (ways.ends[END_ABSENT] >= 0 || ways.ends[END_FUTURES] >= 0);
}
