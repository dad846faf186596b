/* main.c - tcperf times and checks the collectives of a group. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "measure.h"
#include "options.h"
#include "report.h"
#include "tune.h"
#include "world.h"

static tc_status_t run_line(struct world *world, struct report *report, const struct line *line)
{
    struct result result = {.line = line, .wrong = -1};
    tc_status_t status = TC_OK;

    result.algorithm = world_algorithm(world, line, NULL);
    if (result.algorithm == NULL)
        result.algorithm = "?"; /* the call will be refused, and say why */
    if (world->options->checks > 0)
        status = check_line(world, line, &result.wrong);
    if (status == TC_OK)
        status = measure_line(world, line, &result.times);
    if (status != TC_OK)
        return status;
    result.algorithm_gbs = (double)line->bytes / result.times.median_us * 1e-3;
    result.bus_gbs = line_bus_bandwidth(line, world->ranks, result.algorithm_gbs);
    report_add(report, &result);
    return TC_OK;
}

static tc_status_t run_places(struct world *world, struct report *report, struct line *line)
{
    const struct options *options = world->options;
    int places = line->operation->places;
    tc_status_t status = TC_OK;

    /* An operation with one way is measured whatever was asked for. */
    bool is_out = (places & PLACE_OUT) != 0 && (options->is_out_of_place || places == PLACE_OUT);
    bool is_in = (places & PLACE_IN) != 0 && (options->is_in_place || places == PLACE_IN);

    if (is_out) {
        line->is_in_place = false;
        status = run_line(world, report, line);
    }
    if (is_in && status == TC_OK) {
        line->is_in_place = true;
        status = run_line(world, report, line);
    }
    return status;
}

/* With no elements a reference does nothing but say whether it is defined. */
static bool is_defined(const struct options *options, const struct line *line)
{
    if (!line->operation->has_reduce)
        return true;
    if (options->numerics == TC_NUMERICS_EXACT)
        return tc_reduce_reference_exact(NULL, NULL, 1, 0, line->dtype, line->reduce) == TC_OK;
    return tc_reduce_supported(line->dtype, line->reduce) == TC_OK;
}

static tc_status_t run_sizes(struct world *world, struct report *report, struct line *line)
{
    const struct options *options = world->options;
    tc_status_t status = TC_OK;

    if (!is_defined(options, line)) {
        report_skip(report, line, "not defined");
        return TC_OK;
    }
    line->count = 0;
    for (size_t bytes = options->bytes_min; bytes <= options->bytes_max && status == TC_OK;
         bytes *= options->factor) {
        if (line_size(line, world, bytes))
            status = run_places(world, report, line);
        if (line->operation->recv == BLOCKS_NONE)
            break;
    }
    return status;
}

/* Whether the algorithm that was asked for can carry an operation out; if not, the table says why,
 * and the library chooses. */
static bool can_be_as_asked(const struct world *world, struct report *report,
                            const struct operation *operation)
{
    const struct options *options = world->options;
    const struct line line = {.operation = operation,
                              .dtype = (tc_dtype_t)options->types.numbers[0],
                              .reduce = (tc_reduce_op_t)options->reduces.numbers[0],
                              .count = 1};
    const char *name = world_algorithm(world, &line, options->algorithm);

    if (name != NULL && strcmp(name, options->algorithm) == 0)
        return true;
    report_other_algorithm(report, &line,
                           name == NULL ? tc_last_error()->message : "it has no algorithms");
    return false;
}

/* An algorithm that carries out nothing of what is measured is a mistake. */
static bool check_algorithm(const struct world *world, struct report *report)
{
    const struct options *options = world->options;
    int possible = 0;

    for (int i = 0; options->algorithm != NULL && i < options->operations.count; i++)
        possible += can_be_as_asked(world, report, &operations[options->operations.numbers[i]]);
    if (options->algorithm == NULL || possible > 0)
        return true;
    if (world->rank == 0)
        fprintf(stderr, "tcperf: --algorithm %s carries out nothing of this: %s\n",
                options->algorithm,
                tc_last_error() != NULL ? tc_last_error()->message : "there is nothing to choose");
    return false;
}

/* Types of a barrier and operators of a broadcast make no difference: one round of each. */
static tc_status_t run_operation(struct world *world, struct report *report,
                                 const struct operation *operation)
{
    const struct options *options = world->options;
    int types = operation->recv == BLOCKS_NONE ? 1 : options->types.count;
    int reduces = operation->has_reduce ? options->reduces.count : 1;
    tc_status_t status = TC_OK;

    for (int t = 0; t < types; t++)
        for (int r = 0; r < reduces && status == TC_OK; r++) {
            struct line line = {.operation = operation,
                                .dtype = (tc_dtype_t)options->types.numbers[t],
                                .reduce = (tc_reduce_op_t)options->reduces.numbers[r],
                                .root = options->root};

            status = run_sizes(world, report, &line);
        }
    return status;
}

/* Room for the largest line: a size is rounded up to one element in each rank's block. */
static size_t largest_bytes(const struct world *world)
{
    size_t least = 16 * (size_t)world->ranks;

    return world->options->bytes_max > least ? world->options->bytes_max : least;
}

static int run(struct world *world)
{
    struct report report;
    double wrong;
    tc_status_t status;

    if (world->options->root >= world->ranks) {
        fprintf(stderr, "tcperf: root %d is no rank of %d\n", world->options->root, world->ranks);
        return EXIT_USAGE;
    }
    if (!report_open(&report, world))
        return EXIT_TROUBLE;
    if (!check_algorithm(world, &report)) {
        report_close(&report);
        return EXIT_USAGE;
    }
    status = world_alloc(world, largest_bytes(world));
    if (status == TC_OK && world->options->tune_path != NULL)
        status = tune(world, &report);
    for (int i = 0; i < world->options->operations.count && status == TC_OK &&
                    world->options->tune_path == NULL;
         i++)
        status = run_operation(world, &report, &operations[world->options->operations.numbers[i]]);
    wrong = report.wrong;
    if (!report_close(&report) || status != TC_OK)
        return EXIT_TROUBLE;
    return wrong > 0 ? EXIT_WRONG : 0;
}

int main(int argc, char **argv)
{
    struct options options;
    struct world world;
    int exit_code = EXIT_TROUBLE;

    options_parse(&options, argc, argv);
    if (world_open(&world, &options) == TC_OK)
        exit_code = run(&world);
    world_close(&world, exit_code == 0 || exit_code == EXIT_WRONG);
    return exit_code;
}
