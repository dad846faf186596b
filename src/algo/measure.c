/* measure.c - a group measures itself, or reads a table, and all ranks change their choices. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   PROBING    with the next rank, and with one half a group away: a barrier, a probe; the least
 *              of some times counts, for whatever else runs can only make it longer; of more where
 *              the group goes on calling
 *   AGREEING   the greatest of all ranks: a collective goes as fast as its slowest link
 *   READING    the lines of rank 0's table, if it has one
 *   CHANGING   as soon as no thread looks at the old choices any more
 */
#include "algo/measure.h"

#include <string.h>

#include "algo/algo.h"
#include "algo/figures.h"
#include "algo/probe.h"
#include "algo/refine.h"
#include "algo/tuning.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"

enum { REPEATS = 3, REPEATS_BESIDE = 8, PARTNERS = 2 };

/* Tags of the internal collectives, each used once: the number of the measurement in this group,
 * and of the operation in it. */
#define FIRST_TAG (UINT64_C(1) << 63)
enum { OPS_BITS = 16 };

/* What is agreed on: the greatest counts. */
enum {
    WORD_LINKS, /* latency, overhead, byte of each reach */
    WORD_FOLDS = WORD_LINKS + 3 * TCI_REACH_COUNT,
    WORD_COPY = WORD_FOLDS + TCI_FOLD_CLASSES,
    WORD_LINES,
    WORD_EVERY, /* milliseconds between refinements; 0: none */
    WORDS
};

enum { WIRE_MODEL = 255 }; /* in the place of a plan: the model decides */

/* A line on its way. */
struct wire_line {
    uint64_t bytes;
    uint8_t coll, plan, numerics, zero[5];
};

struct measure {
    struct tci_comm *comm; /* kept alive by its count of operations */
    struct tci_task task;
    struct tci_future_hook hook;
    tc_future *future;
    void (*next)(struct measure *self); /* what follows on the operation under way */
    uint64_t tag;                       /* of the next operation */
    int partner, probe, repeat;         /* where the probing is */
    uint64_t begin_ns;
    uint64_t least_ns[TCI_PROBES];
    uint64_t words[WORDS];
    struct wire_line *lines; /* owned, or NULL */
    char *memory;            /* owned; what probes send and receive */
    bool is_asked_for;
    tci_measure_fn done;
    tci_measured_fn measured; /* instead of done, and nothing changes */
    struct tci_figures from;  /* what is not measured stays so */
    void *arg;
};

/* ---- The end -------------------------------------------------------------------------------- */

static void end(struct measure *self, tc_status_t status, const struct tci_error *error)
{
    struct tci_comm *comm = self->comm;
    tci_measure_fn done = self->done;
    tci_measured_fn measured = self->measured;
    struct tci_figures figures = self->from;
    void *arg = self->arg;

    if (measured == NULL)
        atomic_store(&comm->tuning.is_changing, false);
    tci_free(self->memory);
    tci_free(self->lines);
    tci_free(self);
    if (measured == NULL)
        done(arg, status, error);
    else
        measured(arg, error, &figures);
    tci_comm_release(comm);
}

static void fail(struct measure *self, tc_status_t status, const char *why)
{
    struct tci_error error = {0};

    tci_error_set(&error, status, self->comm->rank, 0, "tune", "tune: %s", why);
    end(self, status, &error);
}

/* ---- Operations ----------------------------------------------------------------------------- */

static void has_ended(tc_future *future, void *arg)
{
    struct measure *self = arg;
    const tc_error *failure = tc_future_error(future);
    struct tci_error error = {0};

    if (failure != NULL)
        tci_error_blame(&error, failure->status, failure->rank, tc_error_reason(failure), "tune",
                        "%s", failure->message);
    tc_future_release(future);
    if (failure != NULL)
        end(self, error.pub.status, &error);
    else
        self->next(self);
}

tc_future *tci_measure_op(struct tci_comm *comm, struct tci_op_args *args, uint64_t tag,
                          int timeout_ms)
{
    args->name = "tune";
    args->shape.rank = (uint32_t)comm->rank;
    args->shape.size = (uint32_t)comm->size;
    args->shape.radix = comm->advise == NULL ? 2 : (uint32_t)tci_max((size_t)comm->size, 2);
    args->shape.cuts = 1;
    args->shape.in_place = true;
    args->lane_elems = tci_max(args->count, 1);
    args->tag = tag;
    args->space = TCI_SPACE_INTERNAL;
    args->peer = TCI_ALL_PEERS;
    args->timeout_ms = timeout_ms;
    args->auto_release = true;
    return tci_op_start(comm, args);
}

/* Beside other things there is no deadline: ranks begin where their calls are, and whoever waits
 * for that has its own. */
static void start(struct measure *self, struct tci_op_args *args, void (*next)(struct measure *))
{
    struct tci_comm *comm = self->comm;
    int timeout_ms = self->measured == NULL ? comm->context->config.timeout_ms : -1;

    self->next = next;
    self->begin_ns = tci_exec_clock(comm->exec);
    self->future = tci_measure_op(comm, args, self->tag++, timeout_ms);
    self->hook = (struct tci_future_hook){.fn = has_ended, .arg = self};
    tci_future_hook(self->future, &self->hook);
}

/* ---- Changing ------------------------------------------------------------------------------- */

static bool read_line(const struct wire_line *line, struct tci_told *told_out)
{
    if (line->coll >= TCI_COLL_COUNT || line->numerics == 0 || line->numerics >= TCI_NUMERICS_COUNT)
        return false;
    *told_out = (struct tci_told){.plan = tci_plan_by_id((enum tci_coll)line->coll, line->plan),
                                  .coll = (enum tci_coll)line->coll,
                                  .bytes = line->bytes,
                                  .numerics = line->numerics};
    return told_out->plan != NULL || line->plan == WIRE_MODEL;
}

static void set_figures(const struct measure *self, struct tci_figures *figures)
{
    const uint64_t *words = self->words;

    *figures = self->from;
    for (int r = 0; r < TCI_REACH_COUNT; r++, words += 3) {
        if (words[0] == 0 && words[1] == 0 && words[2] == 0)
            continue; /* no such link */
        figures->link[r] = (struct tci_link_figures){words[0], words[1], words[2]};
        figures->load = 16; /* the times were those of ranks that share cores */
    }
    for (int f = 0; f < TCI_FOLD_CLASSES; f++)
        if (self->words[WORD_FOLDS + f] != 0)
            figures->fold_fs[f] = self->words[WORD_FOLDS + f];
    if (self->words[WORD_COPY] != 0)
        figures->copy_fs = self->words[WORD_COPY];
}

static void hand_over(struct measure *self)
{
    struct tci_figures figures;

    set_figures(self, &figures);
    tci_figures_clamp(&figures);
    self->from = figures;
    end(self, TC_OK, NULL);
}

static void change(struct measure *self)
{
    uint64_t count = self->words[WORD_LINES];
    struct tci_told *told = count > 0 ? tci_alloc_array(count, sizeof(*told)) : NULL;
    struct tci_choices *choices = NULL;
    struct tci_figures figures;
    bool is_whole = count == 0 || told != NULL;

    for (uint64_t l = 0; l < count && is_whole; l++)
        is_whole = read_line(&self->lines[l], &told[l]);
    if (told != NULL && !is_whole) {
        tci_free(told);
        fail(self, TC_ERR_TRANSPORT, "rank 0's table has a line that is none");
        return;
    }
    set_figures(self, &figures);
    if (is_whole)
        choices = tci_choices_new(&figures, (uint32_t)self->comm->size, self->comm->segment_bytes,
                                  told, count);
    tci_free(told);
    if (choices == NULL) {
        fail(self, TC_ERR_ALLOC, "no memory left");
        return;
    }
    tci_tuning_change(self->comm, choices, self->is_asked_for);
    if (!tci_refine_open(self->comm, self->words[WORD_EVERY])) {
        fail(self, TC_ERR_ALLOC, "no memory left");
        return;
    }
    tci_log(TC_LOG_INFO,
            "rank %d has new choices: within hosts %llu ns, %llu ns a message, %llu ps a byte; "
            "between hosts %llu ns, %llu ns, %llu ps; %llu lines of a table",
            self->comm->rank, (unsigned long long)figures.link[0].latency_ps / 1000,
            (unsigned long long)figures.link[0].overhead_ps / 1000,
            (unsigned long long)figures.link[0].byte_fs / 1000,
            (unsigned long long)figures.link[1].latency_ps / 1000,
            (unsigned long long)figures.link[1].overhead_ps / 1000,
            (unsigned long long)figures.link[1].byte_fs / 1000, (unsigned long long)count);
    end(self, TC_OK, NULL);
}

/* ---- Agreeing ------------------------------------------------------------------------------- */

static void read_lines(struct measure *self)
{
    uint64_t count = self->words[WORD_LINES];
    struct tci_op_args args = {.plan = &tci_tree_broadcast,
                               .call = {.root = 0,
                                        .coll = TCI_COLL_BROADCAST,
                                        .dtype = TC_DTYPE_U8,
                                        .op = 255,
                                        .plan = tci_tree_broadcast.id},
                               .is_canonical = true,
                               .elem_bytes = 1};

    if (count == 0) {
        change(self);
        return;
    }
    if (self->lines == NULL && count <= TCI_TOLD_MAX)
        self->lines = tci_alloc_array(count, sizeof(*self->lines));
    if (self->lines == NULL) {
        fail(self, count > TCI_TOLD_MAX ? TC_ERR_TRANSPORT : TC_ERR_ALLOC,
             "rank 0's table is too long for this rank");
        return;
    }
    args.count = args.call.count = count * sizeof(*self->lines);
    args.send = args.recv = self->lines;
    start(self, &args, change);
}

static void agree(struct measure *self)
{
    struct tci_op_args args = {.plan = &tci_tree_allreduce,
                               .call = {.count = WORDS,
                                        .root = -1,
                                        .coll = TCI_COLL_ALLREDUCE,
                                        .dtype = TC_DTYPE_U64,
                                        .op = TC_REDUCE_MAX,
                                        .plan = tci_tree_allreduce.id | TCI_CALL_FAST},
                               .send = self->words,
                               .recv = self->words,
                               .count = WORDS,
                               .elem_bytes = sizeof(*self->words)};

    tci_fold_init(&args.fold, TC_DTYPE_U64, TC_REDUCE_MAX);
    start(self, &args, self->measured == NULL ? read_lines : hand_over);
}

/* ---- Probing -------------------------------------------------------------------------------- */

static bool is_near(const struct measure *self, uint32_t a, uint32_t b)
{
    const struct tci_hosts *hosts = self->comm->hosts;

    return hosts == NULL || hosts->host[a] == hosts->host[b];
}

/* The other rank of a pair; a rank that is left over is its own. */
static uint32_t partner_of(const struct measure *self)
{
    uint32_t rank = (uint32_t)self->comm->rank, size = (uint32_t)self->comm->size, half = size / 2;
    uint32_t partner = rank ^ 1;

    if (self->partner == 1)
        partner = rank < half ? rank + half : rank < 2 * half ? rank - half : rank;
    return partner < size ? partner : rank;
}

static void meet(struct measure *self);

static void note(struct measure *self, uint32_t partner)
{
    uint32_t rank = (uint32_t)self->comm->rank;
    enum tci_reach reach = is_near(self, rank, partner) ? TCI_REACH_LOCAL : TCI_REACH_REMOTE;
    uint64_t *words = &self->words[WORD_LINKS + 3 * reach];
    struct tci_link_figures link;

    tci_probe_read(self->least_ns, &link);
    words[0] = tci_max(words[0], link.latency_ps);
    words[1] = tci_max(words[1], link.overhead_ps);
    words[2] = tci_max(words[2], link.byte_fs);
}

/* The lower rank of the pair has the whole of each probe in its time. */
static void has_probed(struct measure *self)
{
    uint64_t ns = tci_exec_clock(self->comm->exec) - self->begin_ns;
    uint32_t partner = partner_of(self);
    bool is_one_host = tci_hosts_most(self->comm->hosts) == 0;

    if (self->repeat == 0 || ns < self->least_ns[self->probe])
        self->least_ns[self->probe] = ns;
    if (++self->repeat == (self->measured == NULL ? REPEATS : REPEATS_BESIDE)) {
        self->repeat = 0;
        self->probe++;
    }
    if (self->probe == TCI_PROBES) {
        if ((uint32_t)self->comm->rank < partner)
            note(self, partner);
        self->probe = 0;
        self->partner++;
    }
    if (self->partner == (is_one_host || self->comm->size == 2 ? 1 : PARTNERS))
        agree(self);
    else
        meet(self);
}

static void probe(struct measure *self)
{
    enum tci_probe what = (enum tci_probe)self->probe;
    struct tci_op_args args = {
        .plan = &tci_probe_plans[what],
        .call = {.count = tci_probe_bytes(what), .root = -1, .coll = TCI_COLL_P2P, .op = 255},
        .shape = {.root = partner_of(self)},
        .is_canonical = true,
        .send = self->memory,
        .recv = self->memory + TCI_PROBE_BYTES_MAX,
        .count = tci_probe_bytes(what),
        .elem_bytes = 1};

    args.call.dtype = TC_DTYPE_U8;
    start(self, &args, has_probed);
}

static void meet(struct measure *self)
{
    struct tci_op_args args = {.plan = &tci_dissemination_barrier,
                               .call = {.root = -1,
                                        .coll = TCI_COLL_BARRIER,
                                        .dtype = 255,
                                        .op = 255,
                                        .plan = tci_dissemination_barrier.id},
                               .is_canonical = true};

    start(self, &args, probe);
}

/* ---- The beginning -------------------------------------------------------------------------- */

/* A table's figures and lines, as far as it has them; they are rank 0's alone. */
static bool take_table(struct measure *self, const struct tci_table *table)
{
    const struct tci_figures *figures = &table->figures;

    if (self->comm->rank != 0)
        return true;
    for (int r = 0; r < TCI_REACH_COUNT; r++) {
        self->words[WORD_LINKS + 3 * r] = figures->link[r].latency_ps;
        self->words[WORD_LINKS + 3 * r + 1] = figures->link[r].overhead_ps;
        self->words[WORD_LINKS + 3 * r + 2] = figures->link[r].byte_fs;
    }
    for (int f = 0; f < TCI_FOLD_CLASSES; f++)
        self->words[WORD_FOLDS + f] = figures->fold_fs[f];
    self->words[WORD_COPY] = figures->copy_fs;
    if (table->count == 0 || table->ranks != (uint32_t)self->comm->size) {
        if (table->count > 0)
            tci_log(TC_LOG_WARN,
                    "the table of choices was measured with %u ranks, this group has %d: only its "
                    "figures count",
                    table->ranks, self->comm->size);
        return true;
    }
    TC_ASSERT(table->count <= TCI_TOLD_MAX);
    self->lines = tci_alloc_array(table->count, sizeof(*self->lines));
    if (self->lines == NULL)
        return false;
    self->words[WORD_LINES] = table->count;
    for (uint32_t l = 0; l < table->count; l++) {
        const struct tci_told *told = &table->told[l];

        self->lines[l] =
            (struct wire_line){.bytes = told->bytes,
                               .coll = (uint8_t)told->coll,
                               .plan = told->plan != NULL ? told->plan->id : WIRE_MODEL,
                               .numerics = (uint8_t)told->numerics};
    }
    return true;
}

static void begin(struct tci_comm *comm, const struct tci_table *table, uint64_t every_ms,
                  struct measure start)
{
    struct measure *self = tci_alloc(sizeof(*self));
    struct tci_error error = {0};

    atomic_store(&comm->tuning.is_changing, true);
    if (self != NULL) {
        *self = start;
        self->comm = comm;
        self->memory = tci_alloc(2 * TCI_PROBE_BYTES_MAX);
    }
    if (self == NULL || self->memory == NULL || tci_tuning_figures(comm) == NULL ||
        (table != NULL && !take_table(self, table))) {
        if (self != NULL) {
            tci_free(self->memory);
            tci_free(self->lines);
        }
        tci_free(self);
        atomic_store(&comm->tuning.is_changing, false);
        tci_error_set(&error, TC_ERR_ALLOC, comm->rank, 0, "tune", "tune: no memory left");
        start.done(start.arg, TC_ERR_ALLOC, &error);
        return;
    }
    self->from = *tci_tuning_figures(comm);
    self->tag = FIRST_TAG | comm->tuning.rounds++ << OPS_BITS;
    self->words[WORD_EVERY] = comm->rank == 0 ? every_ms : 0;
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    if (table != NULL) {
        agree(self);
        return;
    }
    tci_probe_kernels(self->memory, &self->words[WORD_FOLDS], &self->words[WORD_COPY]);
    if (comm->size == 1)
        change(self);
    else
        meet(self);
}

void tci_measure_start(struct tci_comm *comm, const struct tci_table *table, bool is_asked_for,
                       tci_measure_fn done, void *arg)
{
    begin(comm, table, 0, (struct measure){.is_asked_for = is_asked_for, .done = done, .arg = arg});
}

void tci_measure_open(struct tci_comm *comm, bool is_asked_for, uint64_t every_ms,
                      tci_measure_fn done, void *arg)
{
    begin(comm, NULL, every_ms,
          (struct measure){.is_asked_for = is_asked_for, .done = done, .arg = arg});
}

void tci_measure_beside(struct tci_comm *comm, uint64_t first_tag, const struct tci_figures *from,
                        tci_measured_fn fn, void *arg)
{
    struct measure *self = tci_alloc(sizeof(*self));
    struct tci_error error = {0};

    TC_ASSERT(comm->size > 1);
    if (self != NULL) {
        *self = (struct measure){
            .comm = comm, .tag = first_tag, .from = *from, .measured = fn, .arg = arg};
        self->memory = tci_alloc(2 * TCI_PROBE_BYTES_MAX);
    }
    if (self == NULL || self->memory == NULL) {
        tci_free(self);
        tci_error_set(&error, TC_ERR_ALLOC, comm->rank, 0, "tune", "no memory left");
        fn(arg, &error, NULL);
        return;
    }
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    meet(self);
}
