/* cost_walk.c - all ranks of a group walk a plan together, and the time of each step is kept. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As the engine does, a rank walks through a window: a step opens when it lies in the window and
 * what it waits for has ended.  What happens is taken in the order of time, so that messages take
 * processors and adapters in their turn:
 *
 *   a send opens      its processor, and its adapter if it needs no credit
 *   both ends open    the sender's adapter if it does; the send has ended
 *   ARRIVE            the receiver's adapter, its processor, the fold; the receive has ended
 *   END               what waits for a step may open
 *
 * The sizes are walked together, in the order of time of one of them.
 */
#include "algo/cost_walk.h"

#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

enum { SIZES = TCI_COST_SIZES, ALL_SIZES = (1 << SIZES) - 1, KEPT = 2 * TCI_WINDOW };

/* The size whose times order the walk: a middling one. */
enum { ORDER = SIZES / 2 };

typedef int64_t times[SIZES];

/* What can do one thing at a time.  Of other sizes than ORDER something earlier may come up after
 * something later: the idle time before the latest work is kept, from `idle` to `until`. */
struct device {
    times free, busy, idle, until;
};

enum event_kind { ARRIVE, END };

struct event {
    int64_t at;
    uint32_t rank, step;
    enum event_kind kind;
};

struct walker {
    uint32_t steps, base;  /* base: the first step that has not ended */
    uint64_t open, ended;  /* bit k speaks of step base + k */
    times before;          /* when all steps before base had ended */
    times begin;           /* its first message; meaningful where it has one */
    times *at;             /* of step i at i % KEPT: when it may open, opened, ended */
    times *came;           /* likewise: when the message of a receive reached this rank */
    struct tci_step *step; /* of step i at i % TCI_WINDOW */
    struct device processor, out, in;
    bool has_begun;
    uint64_t *sender; /* a step: the send that waits for it, rank << 32 | step; NONE */
};

#define NONE UINT64_MAX

struct walk {
    const struct tci_plan *plan;
    const struct tci_figures *figures;
    const uint64_t *bytes; /* SIZES of them */
    struct tci_shape shape;
    uint64_t fold_fs;
    uint32_t wide_times; /* an accumulator is so many times as long as an element */
    uint32_t blocks;
    struct walker *walkers;
    struct device *hosts; /* adapters of each host: out, in */
    uint64_t *senders;    /* of all walkers, as all below */
    times *at;
    struct tci_step *step;
    struct event *heap; /* the earliest first */
    size_t heap_len;
};

static void latest(times to, const times from)
{
    for (int s = 0; s < SIZES; s++)
        to[s] = to[s] > from[s] ? to[s] : from[s];
}

/* The device works for `cost` from `since` on at the earliest; since becomes the end of that.  Only
 * for the sizes whose bits are set. */
static void use(struct device *device, times since, const times cost, unsigned sizes)
{
    for (int s = 0; s < SIZES; s++) {
        int64_t early = device->idle[s] > since[s] ? device->idle[s] : since[s];
        int64_t late = device->free[s] > since[s] ? device->free[s] : since[s];

        if (!(sizes >> s & 1))
            continue;
        device->busy[s] += cost[s];
        if (early + cost[s] <= device->until[s]) {
            since[s] = device->idle[s] = early + cost[s];
            continue;
        }
        if (late > device->free[s]) {
            device->idle[s] = device->free[s];
            device->until[s] = late;
        }
        since[s] = device->free[s] = late + cost[s];
    }
}

/* ---- Lengths and places ---------------------------------------------------------------------- */

static void add_block(const struct walk *walk, uint32_t block, times len)
{
    for (int s = 0; s < SIZES; s++) {
        uint64_t bytes = walk->bytes[s];

        if (walk->plan->layout == TCI_LAYOUT_CUT)
            bytes = bytes / walk->blocks + (block < bytes % walk->blocks);
        len[s] += (int64_t)bytes;
    }
}

static void step_len(const struct walk *walk, const struct tci_step *step, times len)
{
    bool by_src =
        step->kind == TCI_STEP_SEND ? step->src.buf != TCI_BUF_TMP : step->dst.buf == TCI_BUF_TMP;
    struct tci_slice slice = by_src ? step->src : step->dst;

    if (step->src.buf == TCI_BUF_TMP && step->dst.buf == TCI_BUF_TMP)
        slice = step->as;
    memset(len, 0, sizeof(times));
    for (uint32_t b = 0; walk->plan->layout != TCI_LAYOUT_NONE && b <= slice.more; b++)
        add_block(walk, slice.block + b, len);
    for (int s = 0; step->wide && s < SIZES; s++)
        len[s] *= walk->wide_times;
}

/* len * each femtoseconds, in picoseconds. */
static void scale(const times len, uint64_t each_fs, times cost)
{
    for (int s = 0; s < SIZES; s++)
        cost[s] = len[s] * (int64_t)each_fs / 1000;
}

/* Those in which a message of `len` needs no credit. */
static unsigned eager_sizes(const struct walk *walk, const times len)
{
    unsigned sizes = 0;

    for (int s = 0; s < SIZES; s++)
        sizes |= (unsigned)((uint64_t)len[s] <= walk->figures->eager_bytes) << s;
    return sizes;
}

static uint32_t host_of(const struct walk *walk, uint32_t rank)
{
    return walk->figures->per_host == 0 ? 0 : rank / walk->figures->per_host;
}

/* A link of two ranks, and the adapters it uses; out and in may be NULL. */
static const struct tci_link_figures *link_of(struct walk *walk, uint32_t from, uint32_t to,
                                              struct device **out, struct device **in)
{
    uint32_t home = host_of(walk, from), away = host_of(walk, to);
    bool is_local = home == away;

    if (out != NULL)
        *out = is_local ? &walk->walkers[from].out : &walk->hosts[2 * home];
    if (in != NULL)
        *in = is_local ? &walk->walkers[to].in : &walk->hosts[2 * away + 1];
    return &walk->figures->link[is_local ? TCI_REACH_LOCAL : TCI_REACH_REMOTE];
}

/* The first message of a rank, in or out, is where its part begins. */
static void begin(struct walker *walker, const times since)
{
    for (int s = 0; s < SIZES; s++)
        if (!walker->has_begun || since[s] < walker->begin[s])
            walker->begin[s] = since[s];
    walker->has_begun = true;
}

static int64_t *time_of(struct walker *walker, uint32_t i)
{
    return walker->at[i % KEPT];
}

static struct tci_step *step_of(struct walker *walker, uint32_t i)
{
    return &walker->step[i % TCI_WINDOW];
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void push(struct walk *walk, enum event_kind kind, int64_t at, uint32_t rank, uint32_t step)
{
    size_t i = walk->heap_len++;

    for (; i > 0 && walk->heap[(i - 1) / 2].at > at; i = (i - 1) / 2)
        walk->heap[i] = walk->heap[(i - 1) / 2];
    walk->heap[i] = (struct event){at, rank, step, kind};
}

static struct event pop(struct walk *walk)
{
    struct event first = walk->heap[0], last = walk->heap[--walk->heap_len];
    size_t i = 0, child;

    for (; (child = 2 * i + 1) < walk->heap_len; i = child) {
        if (child + 1 < walk->heap_len && walk->heap[child + 1].at < walk->heap[child].at)
            child++;
        if (walk->heap[child].at >= last.at)
            break;
        walk->heap[i] = walk->heap[child];
    }
    walk->heap[i] = last;
    return first;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* A message takes its sender's processor when it is posted, and goes if it needs no credit. */
static void post(struct walk *walk, uint32_t rank, uint32_t i)
{
    struct walker *walker = &walk->walkers[rank];
    struct device *out;
    const struct tci_link_figures *link = link_of(walk, rank, step_of(walker, i)->peer, &out, NULL);
    times len, cost;

    for (int s = 0; s < SIZES; s++)
        cost[s] = (int64_t)link->overhead_ps;
    begin(walker, time_of(walker, i));
    use(&walker->processor, time_of(walker, i), cost, ALL_SIZES);
    step_len(walk, step_of(walker, i), len);
    scale(len, link->byte_fs, cost);
    use(out, time_of(walker, i), cost, eager_sizes(walk, len));
}

/* Both ends of a message are open. */
static void match(struct walk *walk, uint32_t from, uint32_t send, uint32_t to, uint32_t recv)
{
    struct walker *sender = &walk->walkers[from], *receiver = &walk->walkers[to];
    int64_t *sent = time_of(sender, send), *opened = time_of(receiver, recv);
    int64_t *came = receiver->came[recv % KEPT];
    struct device *out;
    const struct tci_link_figures *link = link_of(walk, from, to, &out, NULL);
    int64_t latency = (int64_t)link->latency_ps, overhead = (int64_t)link->overhead_ps;
    times len, gap;
    unsigned eager;

    step_len(walk, step_of(sender, send), len);
    scale(len, link->byte_fs, gap);
    eager = eager_sizes(walk, len);
    for (int s = 0; s < SIZES; s++)
        if (!(eager >> s & 1) && opened[s] + 2 * overhead + latency > sent[s])
            sent[s] = opened[s] + 2 * overhead + latency; /* a credit costs as a message does */
    use(out, sent, gap, ~eager);
    for (int s = 0; s < SIZES; s++)
        came[s] = sent[s] - gap[s] + latency;
    push(walk, END, sent[ORDER], from, send);
    push(walk, ARRIVE, came[ORDER] > opened[ORDER] ? came[ORDER] : opened[ORDER], to, recv);
}

static void arrive(struct walk *walk, uint32_t rank, uint32_t i)
{
    struct walker *walker = &walk->walkers[rank];
    const struct tci_step *step = step_of(walker, i);
    int64_t *opened = time_of(walker, i), *came = walker->came[i % KEPT];
    struct device *in;
    const struct tci_link_figures *link = link_of(walk, step->peer, rank, NULL, &in);
    times len, cost;

    begin(walker, came);
    step_len(walk, step, len);
    scale(len, link->byte_fs, cost);
    use(in, came, cost, ALL_SIZES);
    for (int s = 0; s < SIZES; s++) {
        bool is_late = opened[s] > came[s];
        uint64_t each_fs = (is_late ? walk->figures->copy_fs : 0) +
                           (step->kind == TCI_STEP_RECV_REDUCE ? walk->fold_fs : 0);

        cost[s] = (int64_t)link->overhead_ps + len[s] * (int64_t)each_fs / 1000;
    }
    latest(opened, came);
    use(&walker->processor, opened, cost, ALL_SIZES);
    push(walk, END, opened[ORDER], rank, i);
}

static void work_alone(struct walk *walk, uint32_t rank, uint32_t i, uint64_t each_fs)
{
    struct walker *walker = &walk->walkers[rank];
    times len, cost;

    step_len(walk, step_of(walker, i), len);
    scale(len, each_fs, cost);
    use(&walker->processor, time_of(walker, i), cost, ALL_SIZES);
    push(walk, END, time_of(walker, i)[ORDER], rank, i);
}

/* ---- Windows --------------------------------------------------------------------------------- */

static void open_step(struct walk *walk, uint32_t rank, uint32_t i)
{
    struct walker *walker = &walk->walkers[rank];
    const struct tci_step *step = step_of(walker, i);
    struct walker *peer = &walk->walkers[step->peer];
    uint32_t at;

    switch (step->kind) {
    case TCI_STEP_COPY:
        work_alone(walk, rank, i, walk->figures->copy_fs);
        break;
    case TCI_STEP_FOLD:
        work_alone(walk, rank, i, walk->fold_fs * walk->shape.size);
        break;
    case TCI_STEP_WIDEN:
    case TCI_STEP_ADD:
    case TCI_STEP_ROUND:
        work_alone(walk, rank, i, walk->fold_fs);
        break;
    case TCI_STEP_SEND:
        TC_ASSERT(step->match < peer->steps && step->match >= peer->base);
        at = step->match - peer->base;
        post(walk, rank, i);
        if (at < TCI_WINDOW && (peer->open >> at & 1))
            match(walk, rank, i, step->peer, step->match);
        else
            peer->sender[step->match] = (uint64_t)rank << 32 | i;
        break;
    default:
        if (walker->sender[i] != NONE)
            match(walk, (uint32_t)(walker->sender[i] >> 32), (uint32_t)walker->sender[i], rank, i);
    }
}

/* Whether everything that step base + k waits for has ended; then its time is that of the last. */
static bool is_ready(struct walker *walker, uint32_t k)
{
    uint64_t before = (UINT64_C(1) << k) - 1;
    uint32_t i = walker->base + k;
    const struct tci_step *step = step_of(walker, i);
    const uint8_t back[] = {step->wait[0], step->wait[1]}; /* `pace` holds up nothing that counts */

    if (step->fence && (walker->ended & before) != before)
        return false;
    for (size_t w = 0; w < TCI_LEN(back); w++)
        if (back[w] != 0 && back[w] <= k && !(walker->ended >> (k - back[w]) & 1))
            return false;
    for (size_t w = 0; w < TCI_LEN(back); w++)
        if (back[w] != 0 && back[w] <= i)
            latest(time_of(walker, i), time_of(walker, i - back[w]));
    if (step->fence)
        latest(time_of(walker, i), walker->before);
    for (uint32_t j = walker->base; step->fence && j < i; j++)
        latest(time_of(walker, i), time_of(walker, j));
    return true;
}

static void enter(struct walk *walk, uint32_t rank, uint32_t i)
{
    struct walker *walker = &walk->walkers[rank];
    struct tci_step *step = step_of(walker, i);

    if (i >= walker->steps)
        return;
    memset(step, 0, sizeof(*step));
    walk->shape.rank = rank;
    walk->plan->step(&walk->shape, i, step);
    memcpy(time_of(walker, i), walker->before, sizeof(times));
}

static void advance(struct walk *walk, uint32_t rank)
{
    struct walker *walker = &walk->walkers[rank];

    for (; walker->ended & 1; walker->base++) {
        latest(walker->before, time_of(walker, walker->base));
        walker->open >>= 1;
        walker->ended >>= 1;
        enter(walk, rank, walker->base + TCI_WINDOW);
    }
}

static void go_on(struct walk *walk, uint32_t rank)
{
    struct walker *walker = &walk->walkers[rank];
    uint32_t left;

    advance(walk, rank);
    left = walker->steps - walker->base;
    for (uint32_t k = 0; k < left && k < TCI_WINDOW; k++) {
        uint64_t bit = UINT64_C(1) << k;

        if ((walker->open & bit) || !is_ready(walker, k))
            continue;
        walker->open |= bit;
        open_step(walk, rank, walker->base + k);
    }
}

static void happen(struct walk *walk, const struct event *event)
{
    struct walker *walker = &walk->walkers[event->rank];

    if (event->kind == ARRIVE) {
        arrive(walk, event->rank, event->step);
        return;
    }
    TC_ASSERT(event->step - walker->base < TCI_WINDOW);
    walker->ended |= UINT64_C(1) << (event->step - walker->base);
    go_on(walk, event->rank);
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* Room for what the walkers keep of their steps, in three pieces for all. */
static bool alloc_steps(struct walk *walk)
{
    uint32_t size = walk->shape.size;
    size_t steps = 0, kept = 0, open = 0;

    for (uint32_t r = 0; r < size; r++) {
        walk->shape.rank = r;
        walk->walkers[r].steps = walk->plan->steps(&walk->shape);
        steps += walk->walkers[r].steps;
        kept += tci_min(walk->walkers[r].steps, KEPT);
        open += tci_min(walk->walkers[r].steps, TCI_WINDOW);
    }
    walk->senders = tci_alloc_array(steps + 1, sizeof(*walk->senders));
    walk->at = tci_alloc_array(2 * kept + 1, sizeof(*walk->at));
    walk->step = tci_alloc_array(open + 1, sizeof(*walk->step));
    walk->heap = tci_alloc_array(2 * steps + 1, sizeof(*walk->heap));
    if (walk->heap == NULL || walk->senders == NULL || walk->at == NULL || walk->step == NULL)
        return false;
    memset(walk->senders, 0xff, steps * sizeof(*walk->senders));
    steps = kept = open = 0;
    for (uint32_t r = 0; r < size; r++) {
        struct walker *walker = &walk->walkers[r];

        walker->sender = walk->senders + steps;
        walker->at = walk->at + 2 * kept;
        walker->came = walker->at + tci_min(walker->steps, KEPT);
        walker->step = walk->step + open;
        steps += walker->steps;
        kept += tci_min(walker->steps, KEPT);
        open += tci_min(walker->steps, TCI_WINDOW);
    }
    return true;
}

static bool init(struct walk *walk)
{
    uint32_t size = walk->shape.size;

    walk->walkers = tci_alloc_array(size, sizeof(*walk->walkers));
    walk->hosts = tci_alloc_array(2 * (size_t)size, sizeof(*walk->hosts));
    if (walk->walkers == NULL || walk->hosts == NULL || !alloc_steps(walk))
        return false;
    for (uint32_t r = 0; r < size; r++) {
        for (uint32_t i = 0; i < TCI_WINDOW; i++)
            enter(walk, r, i);
    }
    return true;
}

static void fini(struct walk *walk)
{
    tci_free(walk->walkers);
    tci_free(walk->hosts);
    tci_free(walk->heap);
    tci_free(walk->senders);
    tci_free(walk->at);
    tci_free(walk->step);
}

/* On the loopback device each end's processor moves the bytes. */
static void sum_up(const struct walk *walk, struct tci_cost *cost)
{
    uint32_t size = walk->shape.size;
    times stay;

    for (uint32_t r = 0; r < size; r++) {
        const struct walker *walker = &walk->walkers[r];
        const struct device *devices[] = {&walker->processor, &walker->out, &walker->in,
                                          &walk->hosts[2 * r], &walk->hosts[2 * r + 1]};

        TC_ASSERT(walker->base == walker->steps);
        latest(cost->end, walker->before);
        for (int s = 0; s < SIZES; s++)
            stay[s] = walker->before[s] - walker->begin[s];
        latest(cost->stay, stay);
        for (size_t d = 0; d < TCI_LEN(devices); d++)
            latest(cost->busy, devices[d]->busy);
        for (int s = 0; s < SIZES; s++)
            cost->work[s] +=
                walker->processor.busy[s] + (walker->out.busy[s] + walker->in.busy[s]) / 2;
    }
    for (int s = 0; s < SIZES; s++)
        cost->work[s] /= size;
}

bool tci_cost_walk_all(const struct tci_plan *plan, const struct tci_shape *shape,
                       const struct tci_figures *figures, enum tci_fold_class fold,
                       struct tci_cost *cost)
{
    struct walk walk = {.plan = plan,
                        .figures = figures,
                        .bytes = cost->bytes,
                        .shape = *shape,
                        .fold_fs = figures->fold_fs[fold],
                        .wide_times = fold == TCI_FOLD_BYTE ? 4 : 2};
    bool has_memory;

    walk.blocks = plan->layout == TCI_LAYOUT_CUT ? plan->blocks(&walk.shape) : 1;
    memset(cost->end, 0, sizeof(cost->end));
    memset(cost->stay, 0, sizeof(cost->stay));
    memset(cost->busy, 0, sizeof(cost->busy));
    memset(cost->work, 0, sizeof(cost->work));
    has_memory = init(&walk);
    for (uint32_t r = 0; has_memory && r < shape->size; r++)
        go_on(&walk, r);
    while (has_memory && walk.heap_len > 0) {
        struct event event = pop(&walk);

        happen(&walk, &event);
    }
    if (has_memory)
        sum_up(&walk, cost);
    fini(&walk);
    return has_memory;
}
