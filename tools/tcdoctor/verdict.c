/* verdict.c - what is wrong, in sentences. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

/* Clocks apart so far make logs and traces of two hosts hard to read together. */
#define CLOCK_NS INT64_C(500000000)

/* A link that takes so much longer than is usual here is worth a word; it may just have been busy,
 * so that it is no fault. */
#define SLOW_RATIO 4.0F

enum { TOLD_MAX = 40 }; /* of one kind: a thousand ranks behind one firewall need no more */

struct teller {
    FILE *file;
    const struct known *known;
    int count;
};

static const struct tried *tried_of(const struct known *known, int from, int to)
{
    return &known->tried[(size_t)from * (size_t)known->size + (size_t)to];
}

/* ---- Who is there ---------------------------------------------------------------------------- */

static void tell_missing(struct teller *teller)
{
    const struct known *known = teller->known;

    for (int i = 0; i < known->size; i++) {
        if (known->is_here[i] != 0)
            continue;
        fprintf(teller->file,
                "rank %d has not come to %s, where rank 0 waited %d s for it: see what it says "
                "itself; has it been started, and does its host reach that address?\n",
                i, known->url, known->timeout_ms / 1000);
        teller->count++;
    }
}

static void tell_versions(struct teller *teller)
{
    const struct known *known = teller->known;

    for (int i = 1; i < known->size; i++) {
        if (known->is_here[i] == 0 || strcmp(known->facts[i].version, known->facts[0].version) == 0)
            continue;
        fprintf(teller->file,
                "rank %d on %s has tcdist %s, rank 0 on %s has %s: install one version on all "
                "hosts\n",
                i, known->facts[i].host, known->facts[i].version, known->facts[0].host,
                known->facts[0].version);
        teller->count++;
    }
}

static void tell_clocks(struct teller *teller)
{
    const struct known *known = teller->known;

    for (int i = 1; i < known->size; i++) {
        int64_t ahead = known->ahead_ns[i];

        if (known->is_here[i] == 0 || (ahead < CLOCK_NS && ahead > -CLOCK_NS))
            continue;
        fprintf(teller->file,
                "the clock of rank %d on %s is %.1f s %s that of rank 0 on %s: run a time service, "
                "or logs of the two do not line up\n",
                i, known->facts[i].host, (double)llabs(ahead) / 1e9,
                ahead > 0 ? "before" : "behind", known->facts[0].host);
        teller->count++;
    }
}

/* ---- Who reaches whom ------------------------------------------------------------------------ */

/* The address whose failure says most: one that was tried and is no loopback. */
static int telling_address(const struct facts *peer, const struct tried *tried)
{
    int found = -1;

    for (uint32_t i = 0; i < peer->address_count; i++)
        if (tried->attempts[i].outcome > REACHED && peer->addresses[i].is_scoped == 0 &&
            (found < 0 || tried->attempts[i].outcome == STRANGER))
            found = (int)i;
    return found;
}

static void tell_one_way(struct teller *teller, int from, int to)
{
    const struct known *known = teller->known;
    const struct tried *good = tried_of(known, from, to), *bad = tried_of(known, to, from);
    int at = telling_address(&known->facts[from], bad);

    fprintf(teller->file, "rank %d reaches rank %d on %s but not back%s%s%s%s: firewall%s?\n", from,
            to, known->facts[to].addresses[good->best].text, at >= 0 ? ", on " : "",
            at >= 0 ? known->facts[from].addresses[at].text : "", at >= 0 ? " " : "",
            at >= 0 ? probe_outcome(&bad->attempts[at]) : "",
            at >= 0 && bad->attempts[at].outcome == REFUSED ? "" : " or NAT");
    teller->count++;
}

static void tell_neither(struct teller *teller, int a, int b)
{
    const struct known *known = teller->known;
    const struct tried *there = tried_of(known, a, b), *back = tried_of(known, b, a);
    int to = telling_address(&known->facts[b], there),
        from = telling_address(&known->facts[a], back);

    fprintf(teller->file, "ranks %d and %d do not reach each other", a, b);
    if (to >= 0)
        fprintf(teller->file, "; %d tried %s: %s", a, known->facts[b].addresses[to].text,
                probe_outcome(&there->attempts[to]));
    if (from >= 0)
        fprintf(teller->file, "; %d tried %s: %s", b, known->facts[a].addresses[from].text,
                probe_outcome(&back->attempts[from]));
    if (to < 0 && from < 0)
        fprintf(teller->file, "; neither has an address that the other could try");
    fprintf(teller->file, ": no route, or a firewall?\n");
    teller->count++;
}

static bool has_address(const struct facts *facts, const char *text)
{
    for (uint32_t i = 0; i < facts->address_count; i++)
        if (facts->addresses[i].is_loopback == 0 && strcmp(facts->addresses[i].text, text) == 0)
            return true;
    return false;
}

/* An address that two hosts have, as docker0's, leads each to itself.  Where the ranks reach each
 * other by others it is no fault. */
static void note_shared(const struct teller *teller, int a, int b)
{
    const struct facts *one = &teller->known->facts[a], *other = &teller->known->facts[b];

    for (uint32_t i = 0; i < one->address_count; i++)
        if (one->addresses[i].is_loopback == 0 && one->addresses[i].is_scoped == 0 &&
            has_address(other, one->addresses[i].text))
            fprintf(teller->file,
                    "note: %s (%s) is an address of %s, with rank %d, and of %s, with rank %d: "
                    "TCDIST_INTERFACE=^%s leaves it out\n",
                    one->addresses[i].text, one->links[one->addresses[i].link].name, one->host, a,
                    other->host, b, one->links[one->addresses[i].link].name);
}

static void note_all_shared(const struct teller *teller)
{
    const struct known *known = teller->known;

    for (int b = 1; b < known->size; b++)
        for (int a = 0; a < b; a++)
            if (known->is_here[a] != 0 && known->is_here[b] != 0 &&
                known->facts[a].machine != known->facts[b].machine) {
                note_shared(teller, a, b);
                break; /* one neighbour says enough */
            }
}

static void tell_strangers(struct teller *teller)
{
    const struct known *known = teller->known;

    for (int a = 0; a < known->size; a++) {
        for (int b = 0; b < known->size; b++) {
            const struct tried *tried = tried_of(known, a, b);

            for (uint32_t i = 0; known->is_here[b] != 0 && i < known->facts[b].address_count; i++) {
                if (tried->attempts[i].outcome != STRANGER ||
                    known->facts[b].addresses[i].is_scoped != 0)
                    continue;
                fprintf(teller->file,
                        "%s (%s) of rank %d on %s leads rank %d on %s to somebody else\n",
                        known->facts[b].addresses[i].text,
                        known->facts[b].links[known->facts[b].addresses[i].link].name, b,
                        known->facts[b].host, a, known->facts[a].host);
                teller->count++;
            }
        }
    }
}

static void tell_pairs(struct teller *teller)
{
    const struct known *known = teller->known;
    int told = 0, more = 0;

    for (int a = 0; a < known->size; a++) {
        for (int b = a + 1; b < known->size; b++) {
            bool there = tried_of(known, a, b)->best >= 0, back = tried_of(known, b, a)->best >= 0;

            if (known->is_here[a] == 0 || known->is_here[b] == 0 || (there && back))
                continue;
            if (told++ >= TOLD_MAX)
                more++;
            else if (there)
                tell_one_way(teller, a, b);
            else if (back)
                tell_one_way(teller, b, a);
            else
                tell_neither(teller, a, b);
        }
    }
    if (more > 0)
        fprintf(teller->file, "so it is with %d more pairs\n", more);
}

/* ---- How fast -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    float left = *(const float *)a, right = *(const float *)b;

    return (left > right) - (left < right);
}

/* Of links between hosts, or within one. */
static float usual_speed(const struct known *known, bool is_local)
{
    float *speeds = calloc((size_t)known->size * (size_t)known->size, sizeof *speeds), usual = 0;
    size_t count = 0;

    for (int a = 0; speeds != NULL && a < known->size; a++)
        for (int b = 0; b < known->size; b++) {
            const struct tried *tried = tried_of(known, a, b);

            if (tried->is_large != 0 && tried->has_stuck == 0 &&
                (known->facts[a].machine == known->facts[b].machine) == is_local)
                speeds[count++] = tried->mb_per_s;
        }
    if (count > 3) {
        qsort(speeds, count, sizeof *speeds, compare);
        usual = speeds[count / 2];
    }
    free(speeds);
    return usual;
}

static void tell_large(struct teller *teller)
{
    const struct known *known = teller->known;
    float usual[2] = {usual_speed(known, false), usual_speed(known, true)};

    for (int a = 0; a < known->size; a++) {
        for (int b = 0; b < known->size; b++) {
            const struct tried *tried = tried_of(known, a, b);
            bool is_local = known->facts[a].machine == known->facts[b].machine;

            if (tried->is_large == 0)
                continue;
            if (tried->has_stuck != 0) {
                fprintf(
                    teller->file,
                    "small messages from rank %d reach rank %d on %s, large ones do not: does "
                    "a device on the way pass smaller packets than the interfaces send (MTU)?\n",
                    a, b, known->facts[b].addresses[tried->best].text);
                teller->count++;
            } else if (!is_local && tried->mb_per_s * SLOW_RATIO < usual[is_local]) {
                fprintf(
                    teller->file,
                    "note: rank %d sends %.0f MB/s to rank %d on %s, where %.0f is usual here\n", a,
                    (double)tried->mb_per_s, b, known->facts[b].addresses[tried->best].text,
                    (double)usual[is_local]);
            }
        }
    }
}

/* ---- Whether it works ------------------------------------------------------------------------ */

/* One error told by many is one. */
static void tell_work(struct teller *teller)
{
    const struct known *known = teller->known;
    const char *told = "";

    for (int i = 0; i < known->size; i++) {
        const struct worked *worked = &known->worked[i];

        if (known->is_here[i] == 0 || worked->is_right != 0)
            continue;
        teller->count++;
        if (strcmp(worked->error, told) == 0 && *told != '\0')
            continue;
        told = worked->error;
        if (*told == '\0')
            fprintf(teller->file,
                    "rank %d has a wrong result of an all-reduce with a known one: is its memory "
                    "or processor sound?\n",
                    i);
        else
            fprintf(teller->file, "rank %d: %s: %s\n", i,
                    worked->has_formed != 0 ? "the collective failed" : "the group does not form",
                    told);
    }
}

int verdict_write(FILE *file, const struct known *known)
{
    struct teller teller = {.file = file, .known = known};

    tell_missing(&teller);
    tell_versions(&teller);
    tell_strangers(&teller);
    tell_pairs(&teller);
    tell_large(&teller);
    tell_work(&teller);
    tell_clocks(&teller);
    note_all_shared(&teller);
    return teller.count;
}
