/* main.c - the matrix of faults and moments, on real processes in networks of their own. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   chaos                            every fault at every moment, with 2, 3, 4 and 8 ranks
 *   chaos --sample                   a few of them, in some seconds
 *   chaos --fault WORD --moment WORD --ranks N --times N --pause MS --seed N
 *
 * Prints a table: of each fault and moment how many runs, and of these in what share everything was
 * as it has to be.  Exit status: 0, 1 when something was not, 77 where it cannot run.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chaos/cell.h"
#include "chaos/lab.h"
#include "core/base.h"

enum { SKIPPED = 77, WHYS_MAX = 60 };

struct options {
    const char *fault, *moment; /* NULL: all */
    int ranks, times, pause_ms; /* ranks 0: 2, 3, 4, 8 */
    uint64_t seed;
    bool is_sample;
};

/* What a row of the table adds up. */
struct row {
    int runs, settled, named, alarms, failed, reasons_right;
    double late_ms;
};

/* Of all rows: those who have failed, and for the right reason. */
static struct {
    int failed, right;
} reasons;

static struct {
    char text[WHYS_MAX][500];
    int count;
} whys;

static uint64_t next(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

static bool read_options(int argc, char **argv, struct options *options)
{
    *options = (struct options){.times = 1, .pause_ms = 10000, .seed = (uint64_t)time(NULL)};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--sample") == 0) {
            options->is_sample = true;
            continue;
        }
        if (value == NULL)
            return false;
        if (strcmp(argv[i], "--fault") == 0)
            options->fault = value;
        else if (strcmp(argv[i], "--moment") == 0)
            options->moment = value;
        else if (strcmp(argv[i], "--ranks") == 0)
            options->ranks = atoi(value);
        else if (strcmp(argv[i], "--times") == 0)
            options->times = atoi(value);
        else if (strcmp(argv[i], "--pause") == 0)
            options->pause_ms = atoi(value);
        else if (strcmp(argv[i], "--seed") == 0)
            options->seed = strtoull(value, NULL, 10);
        else
            return false;
        i++;
    }
    return options->ranks == 0 || (options->ranks >= 2 && options->ranks <= CHAOS_RANKS_MAX);
}

static void keep_why(const struct chaos_cell *cell, const char *why)
{
    if (whys.count < WHYS_MAX)
        (void)snprintf(whys.text[whys.count], sizeof(whys.text[0]), "%s, %s, rank %d of %d: %.400s",
                       chaos_fault_names[cell->fault], chaos_moment_names[cell->moment],
                       cell->victim, cell->size, why);
    whys.count++;
}

/* True: as it has to be. */
static bool run_cell(const struct chaos_cell *cell, struct row *row)
{
    struct chaos_outcome outcome;

    chaos_cell_run(cell, &outcome);
    if (!outcome.is_built) {
        keep_why(cell, outcome.why);
        return false;
    }
    row->runs++;
    row->settled += outcome.is_settled;
    row->named += outcome.is_named;
    row->alarms += outcome.is_alarm;
    row->failed += outcome.failed;
    row->reasons_right += outcome.reasons_right;
    reasons.failed += outcome.failed;
    reasons.right += outcome.reasons_right;
    row->late_ms = outcome.late_ms > row->late_ms ? outcome.late_ms : row->late_ms;
    if (outcome.why[0] != '\0')
        keep_why(cell, outcome.why);
    return outcome.is_settled && outcome.is_named && !outcome.is_alarm;
}

static void print_row(enum chaos_fault fault, enum chaos_moment moment, const struct row *row)
{
    printf("%-8s %-8s %5d %6.0f%% %6.0f%% ", chaos_fault_names[fault], chaos_moment_names[moment],
           row->runs, 100.0 * row->settled / row->runs, 100.0 * row->named / row->runs);
    if (row->failed > 0)
        printf("%6.0f%% ", 100.0 * row->reasons_right / row->failed);
    else
        printf("%6s  ", "-");
    printf("%7d %9.0f\n", row->alarms, row->late_ms);
    fflush(stdout);
}

/* Faults and moments that a sample has: one of each way to end or to be cut off. */
static bool is_in_sample(enum chaos_fault fault, enum chaos_moment moment)
{
    static const struct {
        enum chaos_fault fault;
        enum chaos_moment moment;
    } sample[] = {{FAULT_KILL, MOMENT_BUSY},
                  {FAULT_KILL, MOMENT_FORMING},
                  {FAULT_EXIT, MOMENT_IDLE},
                  {FAULT_PAUSE, MOMENT_BUSY},
                  {FAULT_KILL, MOMENT_CLOSING}};

    for (size_t s = 0; s < TCI_LEN(sample); s++)
        if (sample[s].fault == fault && sample[s].moment == moment)
            return true;
    return false;
}

static bool is_meant(const struct options *options, enum chaos_fault fault,
                     enum chaos_moment moment)
{
    return chaos_is_possible(fault, moment) &&
           (options->fault == NULL || strcmp(options->fault, chaos_fault_names[fault]) == 0) &&
           (options->moment == NULL || strcmp(options->moment, chaos_moment_names[moment]) == 0) &&
           (!options->is_sample || is_in_sample(fault, moment));
}

static bool run_row(const struct options *options, enum chaos_fault fault, enum chaos_moment moment,
                    uint64_t *random)
{
    static const int all[] = {2, 3, 4, 8}, few[] = {3}; /* a machine of two cores is enough */
    const int *sizes = options->is_sample ? few : all;
    size_t count = options->is_sample || options->ranks > 0 ? 1 : TCI_LEN(all);
    struct row row = {0};
    bool is_right = true;

    for (int t = 0; t < options->times; t++)
        for (size_t s = 0; s < count; s++) {
            struct chaos_cell cell = {.fault = fault,
                                      .moment = moment,
                                      .size = options->ranks > 0 ? options->ranks : sizes[s],
                                      .pause_ms = options->is_sample ? 500 : options->pause_ms};

            cell.random = next(random) >> 16;
            cell.victim = (int)(next(random) % (uint64_t)cell.size);
            is_right = run_cell(&cell, &row) && is_right;
        }
    if (row.runs > 0)
        print_row(fault, moment, &row);
    return is_right;
}

int main(int argc, char **argv)
{
    struct options options;
    bool is_right = true;
    const char *why;
    uint64_t random;

    if (!read_options(argc, argv, &options)) {
        fprintf(stderr, "usage: chaos [--sample] [--fault WORD] [--moment WORD] [--ranks 2..8] "
                        "[--times N] [--pause MS] [--seed N]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a rank that has ended takes no orders */
    why = lab_open();
    if (why != NULL) {
        printf("skipped: %s\n", why);
        return SKIPPED;
    }
    random = options.seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    (void)next(&random);
    printf("seed %llu\n%-8s %-8s %5s %7s %7s %7s %8s %9s\n", (unsigned long long)options.seed,
           "fault", "moment", "runs", "settled", "named", "reason", "alarms", "late ms");
    for (int f = 0; f < FAULTS; f++)
        for (int m = 0; m < MOMENTS; m++)
            if (is_meant(&options, (enum chaos_fault)f, (enum chaos_moment)m))
                is_right = run_row(&options, (enum chaos_fault)f, (enum chaos_moment)m, &random) &&
                           is_right;
    for (int w = 0; w < whys.count && w < WHYS_MAX; w++)
        printf("%s\n", whys.text[w]);
    if (reasons.failed > 0)
        printf("the right reason in %.1f %% of %d\n", 100.0 * reasons.right / reasons.failed,
               reasons.failed);
    is_right = is_right && 100 * reasons.right >= 99 * reasons.failed;
    return is_right ? 0 : 1;
}
