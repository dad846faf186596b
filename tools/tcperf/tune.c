/* tune.c - the fastest algorithm for each collective and size, measured, as a table. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tune.h"

#include <errno.h>
#include <string.h>

#include "algo/algo.h"

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

#ifdef HAS_CJSON

#include <cjson/cJSON.h>

/* What was the fastest goes on to be, unless another one is faster by more than this share: two
 * that are as fast take turns otherwise. */
#define MARGIN 0.05

static const char *const numerics_names[] = {"default", "canonical", "fast", "exact"};

/* One collective in one way of rounding, from size to size. */
struct search {
    struct world *world;
    struct report *report;
    struct line line;
    tc_options call;
    const char *before; /* the fastest of the size before */
    cJSON *choices;     /* borrowed */
};

static tc_status_t time_it(struct search *search, const char *name, double *us_out)
{
    struct result result = {.line = &search->line, .wrong = -1, .algorithm = name};
    tc_status_t status;

    search->call.algorithm = name;
    status = measure_line(search->world, &search->line, &result.times);
    if (status != TC_OK)
        return status;
    result.algorithm_gbs = (double)search->line.bytes / result.times.median_us * 1e-3;
    result.bus_gbs = line_bus_bandwidth(&search->line, search->world->ranks, result.algorithm_gbs);
    report_add(search->report, &result);
    *us_out = result.times.median_us;
    return TC_OK;
}

/* All ranks have the same times before them, so all come to the same. */
static tc_status_t find_fastest(struct search *search, const char **name_out, double *us_out)
{
    tc_status_t status = TC_OK;
    double least = 0, before_us = -1;

    *name_out = NULL;
    for (size_t p = 0; tci_plans[p] != NULL && status == TC_OK; p++) {
        const char *name = tci_plans[p]->name;
        double us = 0;

        if (strcmp(tci_coll_name(tci_plans[p]->coll), search->line.operation->name) != 0 ||
            !tci_plans[p]->is_used || world_algorithm(search->world, &search->line, name) == NULL)
            continue;
        status = time_it(search, name, &us);
        if (search->before != NULL && strcmp(name, search->before) == 0)
            before_us = us;
        if (*name_out == NULL || us < least) {
            *name_out = name;
            least = us;
        }
    }
    if (before_us > 0 && before_us < least * (1 + MARGIN)) {
        *name_out = search->before;
        least = before_us;
    }
    *us_out = least;
    return status;
}

static cJSON *note(struct search *search, const char *name, size_t bytes)
{
    cJSON *choice = cJSON_CreateObject();

    cJSON_AddStringToObject(choice, "collective", search->line.operation->name);
    cJSON_AddStringToObject(choice, "numerics", numerics_names[search->call.numerics]);
    cJSON_AddNumberToObject(choice, "bytes", (double)bytes);
    cJSON_AddStringToObject(choice, "algorithm", name);
    cJSON_AddItemToArray(search->choices, choice);
    return choice;
}

/* Bytes as the library counts a call's payload: a block where each rank has one. */
static size_t payload(const struct line *line)
{
    return line->count * tc_dtype_size(line->dtype);
}

/* Beyond what was measured the model knows better than the last line. */
static tc_status_t search_sizes(struct search *search)
{
    const struct options *options = search->world->options;
    bool has_sizes = search->line.operation->recv != BLOCKS_NONE;
    tc_status_t status = TC_OK;

    for (size_t bytes = options->bytes_min; bytes <= options->bytes_max && status == TC_OK;
         bytes *= options->factor) {
        const char *name = NULL;
        double us = 0;

        if (line_size(&search->line, search->world, bytes))
            status = find_fastest(search, &name, &us);
        if (status == TC_OK && name != NULL &&
            (search->before == NULL || strcmp(name, search->before) != 0)) {
            cJSON_AddNumberToObject(
                note(search, name, search->before == NULL ? 0 : payload(&search->line)), "us", us);
            search->before = name;
        }
        if (!has_sizes)
            break;
    }
    if (status == TC_OK && has_sizes && search->before != NULL)
        note(search, "model", payload(&search->line) + 1);
    return status;
}

static tc_status_t search_operation(struct world *world, struct report *report, cJSON *choices,
                                    const struct operation *operation)
{
    const struct options *options = world->options;
    tc_status_t status = TC_OK;
    int last = operation->has_reduce ? TC_NUMERICS_EXACT : TC_NUMERICS_CANONICAL;

    for (int numerics = TC_NUMERICS_CANONICAL; numerics <= last && status == TC_OK; numerics++) {
        struct search search = {.world = world,
                                .report = report,
                                .choices = choices,
                                .line = {.operation = operation,
                                         .dtype = (tc_dtype_t)options->types.numbers[0],
                                         .reduce = (tc_reduce_op_t)options->reduces.numbers[0],
                                         .is_in_place = operation->places == PLACE_IN,
                                         .root = options->root}};

        tc_options_default(&search.call);
        search.call.numerics = numerics;
        search.line.call = &search.call;
        status = search_sizes(&search);
    }
    return status;
}

static tc_status_t write_table(const struct world *world, const cJSON *table)
{
    const char *path = world->options->tune_path;
    char *text = cJSON_Print(table);
    bool is_stdout = strcmp(path, "-") == 0;
    FILE *file = text == NULL ? NULL : is_stdout ? stdout : fopen(path, "we");
    bool is_written = file != NULL && fprintf(file, "%s\n", text) > 0;

    if (file == stdout)
        is_written = fflush(file) == 0 && is_written;
    else if (file != NULL)
        is_written = fclose(file) == 0 && is_written;
    if (!is_written)
        fprintf(stderr, "tcperf: cannot write '%s': %s\n", path, strerror(errno));
    cJSON_free(text);
    return is_written ? TC_OK : TC_ERR_INVALID_ARG;
}

tc_status_t tune(struct world *world, struct report *report)
{
    cJSON *table = cJSON_CreateObject(), *choices = cJSON_CreateArray();
    tc_status_t status = TC_OK;

    cJSON_AddNumberToObject(table, "tcdist_choices", 1);
    cJSON_AddNumberToObject(table, "ranks", world->ranks);
    cJSON_AddItemToObject(table, "choices", choices);
    for (int i = 0; i < operation_count && status == TC_OK; i++)
        if (operations[i].future_count == 1)
            status = search_operation(world, report, choices, &operations[i]);
    if (status == TC_OK && world->rank == 0)
        status = write_table(world, table);
    cJSON_Delete(table);
    return status;
}

#else

tc_status_t tune(struct world *world, struct report *report)
{
    (void)world, (void)report;
    fprintf(stderr, "tcperf: built without cJSON\n");
    return TC_ERR_UNSUPPORTED;
}

#endif
