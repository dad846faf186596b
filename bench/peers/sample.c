/* sample.c - times of single calls, of batches, and of many at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "control.h"

enum { BATCHES = 11, BATCH_MAX = 3000, SAMPLES_MIN = 7 };

static const char *const op_names[HARNESS_OPS] = {"all_reduce", "reduce_scatter", "all_gather",
                                                  "broadcast",  "all_to_all",     "barrier"};
static const char *const dtype_names[HARNESS_DTYPES] = {"f32", "bf16", "f16"};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

int sample_worst(const struct harness *harness, int samples, double *worst_out)
{
    int kept = 0;

    for (int i = 0; i < samples; i++) {
        double worst = 0;

        for (int rank = 0; rank < harness->ranks; rank++) {
            double time = harness->control->times[i][rank];

            worst = isnan(time) || time > worst ? time : worst;
            if (isnan(worst))
                break;
        }
        if (!isnan(worst))
            worst_out[kept++] = worst;
    }
    qsort(worst_out, (size_t)kept, sizeof *worst_out, compare_doubles);
    return kept;
}

void sample_print(const struct harness *harness, const struct harness_call *call,
                  const char *metric, int samples, double median, double best)
{
    if (harness->rank != 0)
        return;
    printf("%s,%s,%s,%s,%s,%d,%zu,%d,%.3f,%.3f\n", harness->library, harness->variant,
           op_names[call->op], dtype_names[call->dtype], metric, harness->ranks, call->bytes,
           samples, median, best);
    fflush(stdout);
}

/* All ranks have left their samples. */
static void print_times(struct harness *harness, const struct harness_call *call,
                        const char *metric, int samples, int calls)
{
    static double worst[SAMPLES_MAX];
    int kept;

    harness_meet(harness);
    kept = sample_worst(harness, samples, worst);
    if (kept > 0)
        sample_print(harness, call, metric, kept * calls, worst[kept / 2], worst[0]);
    harness_meet(harness);
}

/* How many calls fit into so much time, the same on every rank. */
static int plan(struct harness *harness, double call_us, double seconds, int low, int high)
{
    double calls = seconds * 1e6 / (call_us > 0.2 ? call_us : 0.2);

    return (int)harness_agree(harness, calls < low ? low : calls > high ? high : (long)calls);
}

/* ---- Calls one after the other -------------------------------------------------------------- */

typedef void run_fn(struct harness *harness, const struct harness_call *call);

static void run_once(struct harness *harness, const struct harness_call *call)
{
    harness->call(harness->library_arg, call);
}

static double probe(struct harness *harness, const struct harness_call *call, run_fn *run)
{
    enum { PROBES = 4 };
    double begin;

    for (int i = 0; i < 2; i++) {
        harness_meet(harness);
        run(harness, call);
    }
    harness_meet(harness);
    begin = harness_now_us();
    for (int i = 0; i < PROBES; i++) {
        harness_meet(harness);
        run(harness, call);
    }
    harness_meet(harness);
    return (harness_now_us() - begin) / PROBES;
}

/* `runs` runs are a sample. */
static void sample(struct harness *harness, const struct harness_call *call, run_fn *run,
                   const int samples, int runs)
{
    /* A tenth of the work again, so that queues, windows and caches are as they will be. */
    int warm = samples * runs / 10 + 1;

    for (int i = 0; i < (warm < 200 ? warm : 200); i++) {
        harness_meet(harness);
        run(harness, call);
    }
    for (int i = 0; i < samples; i++) {
        double begin;

        harness_meet(harness);
        begin = harness_now_us();
        for (int k = 0; k < runs; k++)
            run(harness, call);
        harness->control->times[i][harness->rank] = (harness_now_us() - begin) / runs;
    }
}

static void sample_runs(struct harness *harness, const struct harness_call *call,
                        const char *metric, run_fn *run)
{
    double run_us = probe(harness, call, run);
    int samples = plan(harness, run_us, harness->budget_s, SAMPLES_MIN, SAMPLES_MAX);

    sample(harness, call, run, samples, 1);
    print_times(harness, call, metric, samples, 1);
}

void sample_synced(struct harness *harness, const struct harness_call *call)
{
    sample_runs(harness, call, "synced", run_once);
}

void sample_batches(struct harness *harness, const struct harness_call *call)
{
    double call_us = probe(harness, call, run_once);
    int calls = plan(harness, call_us, harness->budget_s / BATCHES, 1, BATCH_MAX);

    sample(harness, call, run_once, BATCHES, calls);
    print_times(harness, call, "back_to_back", BATCHES, calls);
}

/* ---- Many at once --------------------------------------------------------------------------- */

static struct harness_call one_of_many(const struct harness_call *call, int slot)
{
    struct harness_call one = *call;

    one.slot = slot;
    one.send = (char *)call->send + (size_t)slot * call->bytes;
    one.recv = (char *)call->recv + (size_t)slot * call->bytes;
    return one;
}

static void run_in_turn(struct harness *harness, const struct harness_call *call)
{
    for (int i = 0; i < HARNESS_SLOTS; i++) {
        struct harness_call one = one_of_many(call, i);

        harness->call(harness->library_arg, &one);
    }
}

static void run_at_once(struct harness *harness, const struct harness_call *call)
{
    for (int i = 0; i < HARNESS_SLOTS; i++) {
        struct harness_call one = one_of_many(call, i);

        harness->start(harness->library_arg, &one);
    }
    for (int i = 0; i < HARNESS_SLOTS; i++)
        harness->wait(harness->library_arg, i);
}

void sample_many(struct harness *harness, const struct harness_call *call)
{
    if (harness->start != NULL)
        sample_runs(harness, call, "many", run_at_once);
    sample_runs(harness, call, "in_turn", run_in_turn);
}

/* ---- What is urgent ------------------------------------------------------------------------- */

/* Carries on with what is in flight for so long; without, it only waits. */
static void let_pass(const struct harness *harness, double us)
{
    double end = harness_now_us() + us;

    while (harness_now_us() < end)
        if (harness->progress != NULL)
            harness->progress(harness->library_arg);
}

/* Gives the next sample: one urgent operation, void when the bulk had ended before it. */
static void time_urgent(struct harness *harness, const struct harness_call *call, bool has_bulk,
                        int sample_at)
{
    double begin, time;

    harness_meet(harness);
    begin = harness_now_us();
    harness->start(harness->library_arg, call);
    harness->wait(harness->library_arg, call->slot);
    time = harness_now_us() - begin;
    if (has_bulk && harness->is_done(harness->library_arg, HARNESS_SLOT_BULK))
        time = NAN;
    harness->control->times[sample_at][harness->rank] = time;
}

void sample_urgent(struct harness *harness, const struct harness_call *call,
                   const struct harness_call *bulk)
{
    enum { GAP_US = 1000, IN_ROW = 8, SAMPLES = 96 };

    for (int i = 0; i < SAMPLES; i++) {
        time_urgent(harness, call, false, i);
        let_pass(harness, GAP_US);
    }
    print_times(harness, call, "urgent_idle", SAMPLES, 1);

    for (int i = 0; i < SAMPLES; i++) {
        if (i % IN_ROW == 0) {
            harness_meet(harness);
            harness->start(harness->library_arg, bulk);
        }
        let_pass(harness, GAP_US);
        time_urgent(harness, call, true, i);
        if (i % IN_ROW == IN_ROW - 1)
            harness->wait(harness->library_arg, HARNESS_SLOT_BULK);
    }
    print_times(harness, call, "urgent", SAMPLES, 1);
}
