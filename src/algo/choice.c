/* choice.c - which plan is the cheapest for a payload: worked out once, looked up ever after. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row has a place for each half of an octave of bytes, so that a call finds its choice by the
 * position of its highest bit.  Everything in here is whole numbers and comes from what all ranks
 * have agreed on, so all ranks find the same.
 */
#include "algo/choice.h"

#include <pthread.h>
#include <string.h>

#include "algo/algo.h"
#include "algo/cost.h"
#include "algo/figures.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

enum {
    PLACES = 82,    /* to 2^41 bytes, and all that is more */
    VARIANTS = 3,   /* whole segments, and cut in two ways */
    RADIXES = 3,    /* 2, 4, 8 */
    PLANS_MAX = 256 /* of the table; a pick has eight bits for them */
};

/* Pieces of a segment in each variant: lanes of their own, or those of a pipeline. */
static const uint32_t pieces[VARIANTS] = {1, 8, 32};

/* A lane that is cut smaller has to carry this much at least: below, messages are most of it. */
#define LANE_BYTES_LEAST ((uint64_t)64 << 10)

/* plan | variant << 8 | radix << 10; NO_PICK: no plan is possible. */
typedef uint16_t tci_pick;
enum { NO_PICK = 0xffff };

struct row {
    atomic_bool is_done; /* release: pairs with the acquire in tci_choose */
    tci_pick picks[PLACES];
};

/* What makes two groups alike. */
struct key {
    struct tci_figures figures;
    uint64_t segment_bytes;
    uint32_t size;
};

struct tci_choices {
    struct tci_choices *next; /* in `all`, under its lock */
    unsigned refs;            /* likewise */
    struct key key;
    struct tci_told *told; /* owned */
    size_t told_count;
    pthread_mutex_t lock; /* while a row is worked out */
    uint32_t plans;
    struct row rows[]; /* [coll][numerics][fold], then [plan][fold] */
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tci_choices *all; /* those that groups use now and may share */

/* ---- Life ------------------------------------------------------------------------------------ */

static bool is_alike(const struct key *a, const struct key *b)
{
    return a->size == b->size && a->segment_bytes == b->segment_bytes &&
           memcmp(&a->figures, &b->figures, sizeof(a->figures)) == 0;
}

static struct tci_choices *find_alike(const struct key *key)
{
    for (struct tci_choices *choices = all; choices != NULL; choices = choices->next)
        if (choices->told_count == 0 && is_alike(&choices->key, key))
            return choices;
    return NULL;
}

static struct tci_choices *make(const struct key *key, const struct tci_told *told, size_t count)
{
    uint32_t plans = 0;
    size_t rows;
    struct tci_choices *choices;

    while (tci_plans[plans] != NULL)
        plans++;
    TC_ASSERT(plans <= PLANS_MAX);
    rows = (size_t)(TCI_COLL_COUNT * TCI_NUMERICS_COUNT + plans) * TCI_FOLD_CLASSES;
    choices = tci_alloc(sizeof(*choices) + rows * sizeof(choices->rows[0]));
    if (choices == NULL)
        return NULL;
    choices->told = count > 0 ? tci_alloc_array(count, sizeof(*told)) : NULL;
    if (count > 0 && choices->told == NULL) {
        tci_free(choices);
        return NULL;
    }
    if (count > 0)
        memcpy(choices->told, told, count * sizeof(*told));
    choices->told_count = count;
    choices->key = *key;
    choices->plans = plans;
    pthread_mutex_init(&choices->lock, NULL);
    choices->next = all;
    all = choices;
    return choices;
}

struct tci_choices *tci_choices_new(const struct tci_figures *figures, uint32_t size,
                                    uint64_t segment_bytes, const struct tci_told *told,
                                    size_t count)
{
    struct key key = {.figures = *figures, .segment_bytes = segment_bytes, .size = size};
    struct tci_choices *choices;

    TC_ASSERT(size > 0 && segment_bytes > 0);
    tci_figures_clamp(&key.figures);
    pthread_mutex_lock(&all_lock);
    choices = count == 0 ? find_alike(&key) : NULL;
    if (choices == NULL)
        choices = make(&key, told, count);
    if (choices != NULL)
        choices->refs++;
    pthread_mutex_unlock(&all_lock);
    return choices;
}

void tci_choices_unref(struct tci_choices *choices)
{
    struct tci_choices **at = &all;

    if (choices == NULL)
        return;
    pthread_mutex_lock(&all_lock);
    TC_ASSERT(choices->refs > 0);
    if (--choices->refs == 0) {
        while (*at != choices)
            at = &(*at)->next;
        *at = choices->next;
        pthread_mutex_destroy(&choices->lock);
        tci_free(choices->told);
        tci_free(choices);
    }
    pthread_mutex_unlock(&all_lock);
}

const struct tci_figures *tci_choices_figures(const struct tci_choices *choices)
{
    return &choices->key.figures;
}

/* ---- Places ---------------------------------------------------------------------------------- */

static unsigned place_of(uint64_t bytes)
{
    unsigned bit, place;

    if (bytes == 0)
        return 0;
    bit = 63 - (unsigned)__builtin_clzll(bytes);
    place = 2 * bit + (bit > 0 && (bytes >> (bit - 1) & 1));
    return place < PLACES ? place : PLACES - 1;
}

/* The least payload of a place. */
static uint64_t bytes_of(unsigned place)
{
    uint64_t octave = UINT64_C(1) << place / 2;

    return place % 2 == 0 ? octave : octave + octave / 2;
}

/* ---- Working a row out ----------------------------------------------------------------------- */

uint64_t tci_lane_bytes_max(enum tci_layout layout, uint32_t size, uint64_t segment_bytes)
{
    uint64_t bytes = layout == TCI_LAYOUT_CUT || layout == TCI_LAYOUT_NONE ? segment_bytes
                                                                           : segment_bytes / size;

    return bytes > 0 ? bytes : 1;
}

static uint64_t lane_bytes(const struct tci_choices *choices, const struct tci_plan *plan,
                           unsigned variant)
{
    uint64_t bytes =
        tci_lane_bytes_max(plan->layout, choices->key.size, choices->key.segment_bytes);

    return plan->depth != NULL ? bytes : bytes / pieces[variant];
}

/* A plan that was asked for by name gives the same bits whatever the figures are: where its own
 * order counts, it keeps the radix and the lanes of the simplest case, and pieces that only the
 * payload decides. */
static bool has_own_order(const struct tci_ask *ask)
{
    return ask->plan != NULL && !ask->plan->canonical;
}

/* Pipelines cut their lanes themselves; lanes that are cut smaller make one of other plans. */
static bool is_variant(const struct tci_choices *choices, const struct tci_ask *ask,
                       const struct tci_plan *plan, unsigned variant)
{
    if (variant == 0)
        return true;
    if (has_own_order(ask))
        return false;
    return plan->depth != NULL || (plan->layout == TCI_LAYOUT_CUT &&
                                   lane_bytes(choices, plan, variant) >= LANE_BYTES_LEAST);
}

/* A plan that takes as many steps with another radix does not look at it. */
static bool has_radix(const struct tci_plan *plan, const struct tci_shape *shape, uint32_t radix)
{
    struct tci_shape other = *shape;

    other.radix = radix;
    return radix < shape->size && plan->steps(&other) != plan->steps(shape);
}

/* The best so far, in each place. */
struct best {
    int64_t cost[PLACES];
    tci_pick picks[PLACES];
};

/* Something simpler, which comes earlier, is left only for what is better by a sixteenth, and whole
 * segments, which are what the application has asked for, by a third. */
static void offer(struct best *best, unsigned place, int64_t cost, tci_pick pick)
{
    int64_t margin = cost / (pick >> 8 & 3 ? 3 : 16);

    if (best->picks[place] != NO_PICK && cost + margin >= best->cost[place])
        return;
    best->cost[place] = cost;
    best->picks[place] = pick;
}

/* One plan with one radix, in all its variants. */
static bool weigh_shape(const struct tci_choices *choices, const struct tci_ask *ask, uint32_t p,
                        unsigned r, struct best *best)
{
    const struct tci_plan *plan = tci_plans[p];
    struct tci_cost cost;

    for (unsigned v = 0; v < VARIANTS && is_variant(choices, ask, plan, v); v++) {
        struct tci_shape shape = {.size = choices->key.size,
                                  .radix = 2u << r,
                                  .cuts = plan->depth != NULL ? pieces[v] : 1,
                                  .in_place = true};

        if ((v == 0 || plan->depth != NULL) &&
            !tci_cost_walk(plan, &shape, &choices->key.figures, ask->fold,
                           lane_bytes(choices, plan, 0), &cost))
            return false;
        for (unsigned place = 0; place < PLACES; place++)
            offer(best, place,
                  tci_cost_time(&cost, &choices->key.figures, bytes_of(place),
                                lane_bytes(choices, plan, v)),
                  (tci_pick)(p | v << 8 | r << 10));
    }
    return true;
}

static bool weigh_plan(const struct tci_choices *choices, const struct tci_ask *ask, uint32_t p,
                       struct best *best)
{
    const struct tci_shape shape = {
        .size = choices->key.size, .radix = 2, .cuts = 1, .in_place = true};

    for (unsigned r = 0; r < RADIXES; r++) {
        if (r > 0 && (has_own_order(ask) || !has_radix(tci_plans[p], &shape, 2u << r)))
            continue;
        if (!weigh_shape(choices, ask, p, r, best))
            return false;
    }
    return true;
}

/* What was measured counts more than what was computed. */
static void take_told(const struct tci_choices *choices, const struct tci_ask *ask,
                      tci_is_legal is_legal, tci_pick *picks)
{
    tci_pick computed[PLACES];

    memcpy(computed, picks, sizeof(computed));
    for (size_t t = 0; t < choices->told_count && ask->plan == NULL; t++) {
        const struct tci_told *told = &choices->told[t];
        uint32_t p = 0;

        if (told->coll != tci_coll_base(ask->coll) || told->numerics != ask->numerics ||
            (told->is_swift && ask->fold != TCI_FOLD_WIDE && ask->fold != TCI_FOLD_HALF) ||
            (told->plan != NULL && !is_legal(told->plan, ask)))
            continue;
        while (told->plan != NULL && tci_plans[p] != told->plan)
            p++;
        for (unsigned place = 0; place < PLACES; place++)
            if (bytes_of(place) >= told->bytes || place == PLACES - 1)
                picks[place] = told->plan != NULL ? (tci_pick)p : computed[place];
    }
}

static bool work_out(const struct tci_choices *choices, const struct tci_ask *ask,
                     tci_is_legal is_legal, struct row *row)
{
    struct best best;

    for (unsigned place = 0; place < PLACES; place++)
        best.picks[place] = NO_PICK;
    for (uint32_t p = 0; p < choices->plans; p++) {
        const struct tci_plan *plan = tci_plans[p];

        if (ask->plan != NULL
                ? plan != ask->plan
                : plan->coll != tci_coll_base(ask->coll) || !plan->is_used || !is_legal(plan, ask))
            continue;
        if (!weigh_plan(choices, ask, p, &best))
            return false;
    }
    take_told(choices, ask, is_legal, best.picks);
    memcpy(row->picks, best.picks, sizeof(row->picks));
    atomic_store_explicit(&row->is_done, true, memory_order_release);
    return true;
}

/* ---- The choice ------------------------------------------------------------------------------ */

static struct row *row_of(struct tci_choices *choices, const struct tci_ask *ask)
{
    size_t row = (size_t)ask->coll * TCI_NUMERICS_COUNT + (size_t)ask->numerics;

    TC_ASSERT(ask->numerics > 0 && ask->numerics < TCI_NUMERICS_COUNT);
    if (ask->plan != NULL) {
        row = TCI_COLL_COUNT * TCI_NUMERICS_COUNT;
        for (const struct tci_plan *const *plan = tci_plans; *plan != ask->plan; plan++)
            row++;
    }
    return &choices->rows[row * TCI_FOLD_CLASSES + ask->fold];
}

bool tci_choose(struct tci_choices *choices, const struct tci_ask *ask, tci_is_legal is_legal,
                struct tci_choice *choice_out)
{
    struct row *row = row_of(choices, ask);
    bool is_done = atomic_load_explicit(&row->is_done, memory_order_acquire);
    tci_pick pick;

    if (!is_done) {
        pthread_mutex_lock(&choices->lock);
        is_done = atomic_load_explicit(&row->is_done, memory_order_relaxed) ||
                  work_out(choices, ask, is_legal, row);
        pthread_mutex_unlock(&choices->lock);
    }
    if (!is_done)
        return false;
    pick = row->picks[place_of(ask->bytes)];
    *choice_out = (struct tci_choice){.plan = NULL};
    if (pick == NO_PICK)
        return true;
    choice_out->plan = tci_plans[pick & 255];
    choice_out->radix = 2u << (pick >> 10 & 3);
    choice_out->cuts = choice_out->plan->depth == NULL ? 1
                       : has_own_order(ask)            ? 0
                                                       : pieces[pick >> 8 & 3];
    choice_out->lane_bytes = lane_bytes(choices, choice_out->plan, pick >> 8 & 3);
    return true;
}
