/* cost.c - what a plan costs, for any number of ranks and any payload, from a few walks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/cost.h"

#include "algo/cost_walk.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/op.h"

enum { LEVELS = 4, ONE = 1024 /* fractions are counted in 1,024ths */ };

/* Larger lanes cost in proportion. */
#define LANE_BYTES_MAX ((uint64_t)1 << 26)

/* Sums of costs stay below what an int64_t holds. */
#define COST_MAX ((int64_t)1 << 60)

/* A group of `ranks` that are on hosts as those of the whole group are: one host after the other.
 * False without memory. */
static bool shrink(const struct tci_shape *shape, uint32_t ranks, const struct tci_figures *figures,
                   struct tci_shape *less)
{
    uint64_t *labels;
    struct tci_hosts *hosts;

    *less = *shape;
    less->size = ranks;
    less->root = shape->root % ranks;
    less->hosts = NULL;
    if (figures->per_host == 0 || ranks <= figures->per_host)
        return true;
    labels = tci_alloc_array(ranks, sizeof(*labels));
    if (labels == NULL)
        return false;
    for (uint32_t r = 0; r < ranks; r++)
        labels[r] = r / figures->per_host;
    less->hosts = hosts = tci_hosts_new(labels, ranks);
    tci_free(labels);
    return hosts != NULL;
}

static void grown(struct tci_shape *less)
{
    tci_hosts_unref((struct tci_hosts *)(uintptr_t)less->hosts);
    less->hosts = NULL;
}

/* Whether so many ranks can be walked: always a few hosts, and more where they take few steps. */
static bool is_walked(const struct tci_plan *plan, const struct tci_shape *shape, uint32_t ranks,
                      const struct tci_figures *figures)
{
    struct tci_shape less;
    size_t steps = 0;

    if (ranks <= TCI_COST_RANKS_MIN || ranks <= tci_min(8 * (size_t)figures->per_host, 64))
        return true;
    if (ranks > TCI_COST_RANKS_MAX || !shrink(shape, ranks, figures, &less))
        return false;
    for (less.rank = 0; less.rank < ranks; less.rank++)
        steps += plan->steps(&less);
    grown(&less);
    return steps <= TCI_COST_STEPS_MAX;
}

/* What follows on v[0], where v[l] is the value of ranks halved l times.  Two doublings at a time
 * are looked at, since trees do not grow evenly: with a ratio of r from each to the next, of which
 * the last is d, they are d + d / r. */
static int64_t grow(const int64_t v[LEVELS], uint32_t doublings)
{
    int64_t value = v[0], last = v[0] - v[2], before = v[1] - v[3];
    int64_t ratio = before <= 0 ? ONE : last < 2 * before ? last * ONE / before : 2 * ONE;

    if (last <= 0)
        return value;
    last = last / (ONE + ratio) * ratio + last % (ONE + ratio) * ratio / (ONE + ratio);
    for (uint32_t d = 0; d < doublings; d++) {
        last = last / ONE * ratio + last % ONE * ratio / ONE;
        value += last;
        if (value > COST_MAX || last > COST_MAX)
            return COST_MAX;
    }
    return value;
}

/* What messages cost grows in another way than what bytes cost. */
static void grow_all(int64_t *value[LEVELS], uint32_t doublings)
{
    int64_t empty[LEVELS], more[LEVELS], base;

    for (int l = 0; l < LEVELS; l++)
        empty[l] = value[l][0];
    base = grow(empty, doublings);
    for (int s = 0; s < TCI_COST_SIZES; s++) {
        for (int l = 0; l < LEVELS; l++)
            more[l] = value[l][s] - empty[l];
        value[0][s] = base + grow(more, doublings);
    }
}

bool tci_cost_walk(const struct tci_plan *plan, const struct tci_shape *shape,
                   const struct tci_figures *figures, enum tci_fold_class fold, uint64_t lane_bytes,
                   struct tci_cost *cost_out)
{
    struct tci_cost level[LEVELS];
    uint32_t ranks = shape->size, doublings = 0, levels;

    TC_ASSERT(ranks > 0 && shape->root < ranks);
    if (lane_bytes > LANE_BYTES_MAX)
        lane_bytes = LANE_BYTES_MAX;
    for (; !is_walked(plan, shape, ranks, figures); ranks = (ranks + 1) / 2)
        doublings++;
    levels = doublings > 0 ? LEVELS : 1;
    for (uint32_t l = 0; l < levels; l++) {
        struct tci_shape less;
        bool is_done;

        for (int s = 0; s < TCI_COST_SIZES; s++)
            level[l].bytes[s] = s == 0 ? 0 : lane_bytes >> (2 * (TCI_COST_SIZES - 1 - s));
        is_done = shrink(shape, ranks, figures, &less) &&
                  tci_cost_walk_all(plan, &less, figures, fold, &level[l]);
        grown(&less);
        if (!is_done)
            return false;
        ranks = (ranks + 1) / 2;
    }
    if (doublings > 0) {
        int64_t *end[LEVELS], *stay[LEVELS], *busy[LEVELS], *work[LEVELS];

        for (uint32_t l = 0; l < levels; l++) {
            end[l] = level[l].end;
            stay[l] = level[l].stay;
            busy[l] = level[l].busy;
            work[l] = level[l].work;
        }
        grow_all(end, doublings);
        grow_all(stay, doublings);
        grow_all(busy, doublings);
        grow_all(work, doublings);
    }
    *cost_out = level[0];
    return true;
}

/* ---- Any payload ----------------------------------------------------------------------------- */

/* value * part / whole; part and whole are payloads. */
static int64_t share(int64_t value, uint64_t part, uint64_t whole)
{
    uint64_t times = part / whole, rest = (part % whole) * ONE / whole;
    int64_t product;

    if (__builtin_mul_overflow(value, (int64_t)times, &product) || product > COST_MAX)
        return COST_MAX;
    return product + value / ONE * (int64_t)rest + value % ONE * (int64_t)rest / ONE;
}

/* Between two sizes that were walked a cost is a straight line. */
static int64_t at(const struct tci_cost *cost, const int64_t *value, uint64_t bytes)
{
    int s = 1;

    while (s < TCI_COST_SIZES - 1 && bytes > cost->bytes[s])
        s++;

    uint64_t low = cost->bytes[s - 1], high = cost->bytes[s];

    if (bytes <= low || high <= low)
        return value[bytes <= low ? s - 1 : s];
    if (bytes > high)
        return share(value[s], bytes, high);
    return value[s - 1] + share(value[s] - value[s - 1], bytes - low, high - low);
}

/* The first lane takes its time; each further one follows as soon as the busiest device is free
 * again, and a rank has one of its four lanes free.  Ranks that share cores take turns. */
int64_t tci_cost_time(const struct tci_cost *cost, const struct tci_figures *figures,
                      uint64_t bytes, uint64_t lane_bytes)
{
    uint64_t first = bytes < lane_bytes ? bytes : lane_bytes;
    int64_t end = at(cost, cost->end, first), work = at(cost, cost->work, first);

    TC_ASSERT(lane_bytes > 0);
    if (bytes > first) {
        int64_t next = at(cost, cost->busy, first);
        int64_t turn = at(cost, cost->stay, first) / TCI_LANES_MAX;

        next = next > turn ? next : turn;
        end += share(next, bytes - first, first);
        work = share(work, bytes, first);
    }
    work = share(work, figures->load, 16);
    end = end > work ? end : work;
    return end < COST_MAX ? end : COST_MAX;
}
