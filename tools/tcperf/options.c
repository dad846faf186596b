/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "report.h"
#include "tcdist/context.h"

enum {
    KEY_OP = 256,
    KEY_IN_PLACE,
    KEY_OUT_OF_PLACE,
    KEY_TAGS,
    KEY_BUDGET,
    KEY_SYNC,
    KEY_LOOP,
    KEY_SPIN_US,
    KEY_ALGORITHM,
    KEY_NUMERICS,
    KEY_SPOIL,
    KEY_CSV,
    KEY_JSON,
    KEY_TUNE
};

/* Above these a number is a typing error. */
#define COUNT_MAX 1000000
#define BYTES_MAX ((size_t)1 << 40)

const char *argp_program_version = COMMAND_LINE_VERSION("tcperf");

static const struct argp_option argp_options[] = {
    {NULL, 0, NULL, 0, "What is measured:", 1},
    {"op", KEY_OP, "NAME,...", 0,
     "What to measure: allreduce, broadcast, allgather, reduce_scatter, reduce, gather, scatter, "
     "alltoall, barrier, sendrecv, or all (default: allreduce)",
     1},
    {"min-bytes", 'b', "SIZE", 0, "Smallest size, in bytes or such as 4K, 4KiB or 1G (default: 4)",
     1},
    {"max-bytes", 'e', "SIZE", 0, "Largest size (default: 16M)", 1},
    {"factor", 'f', "N", 0, "Each size is N times the one before (default: 4)", 1},
    {"type", 'd', "NAME,...", 0, "Element types, or all (default: f32)", 1},
    {"reduce", 'o', "NAME,...", 0, "Reduction operators, or all (default: sum)", 1},
    {"in-place", KEY_IN_PLACE, NULL, 0, "Measure in place only (default: both)", 1},
    {"out-of-place", KEY_OUT_OF_PLACE, NULL, 0, "Measure out of place only (default: both)", 1},
    {"root", 'r', "RANK", 0, "Root of operations that have one (default: 0)", 1},
    {"tags", KEY_TAGS, "N", 0, "Operations in flight at once, each with its own tag (default: 1)",
     1},
    {NULL, 0, NULL, 0, "How it is measured:", 2},
    {"warmup", 'w', "N", 0, "Untimed batches before the timed ones (default: 5)", 2},
    {"iters", 'n', "N", 0, "Timed batches; 0: as many as the budget allows (default: 0)", 2},
    {"budget", KEY_BUDGET, "SECONDS", 0,
     "Time for each line of the table, with --iters 0 (default: 0.2)", 2},
    {"sync", KEY_SYNC, NULL, 0, "Align the ranks by a barrier before each batch", 2},
    {"check", 'c', "N", 0, "Batches of which every element is checked; 0: none (default: 1)", 2},
    {"spoil", KEY_SPOIL, "RANK", 0,
     "Flip a bit of RANK's results before they are checked, to see the check find it", 2},
    {NULL, 0, NULL, 0, "What carries it out:", 3},
    {"loop", KEY_LOOP, "MODE", 0,
     "thread: the loop has a thread of its own; manual: the rank turns it (default: thread)", 3},
    {"spin-us", KEY_SPIN_US, "N", 0, "How long a wait polls before it sleeps, in microseconds", 3},
    {"algorithm", KEY_ALGORITHM, "NAME", 0, "Use this algorithm for every collective that has it",
     3},
    {"numerics", KEY_NUMERICS, "NAME", 0,
     "How sums are formed: canonical, fast or exact (default: canonical)", 3},
    {NULL, 0, NULL, 0, "Where it is written:", 4},
    {"csv", KEY_CSV, "FILE", 0,
     "Write comma-separated values too; -: print them instead of the table", 4},
    {"json", KEY_JSON, "FILE", 0, "Write JSON too; -: print it instead of the table", 4},
    {"tune", KEY_TUNE, "FILE", 0,
     "Measure every algorithm of every collective and write a table of the fastest, for "
     "TCDIST_TUNE; -: print it instead of the table of times",
     4},
    {0},
};

static size_t parse_number(const char *arg, size_t low, size_t high, struct argp_state *state)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(arg, &end, 10);
    if (errno != 0 || end == arg || *arg == '-' || *end != '\0' || value < low || value > high)
        argp_error(state, "'%s' is not a number from %zu to %zu", arg, low, high);
    return (size_t)value;
}

/* Bytes: 4096, 4K, 4KB and 4KiB are the same, as nccl-tests have it. */
static size_t parse_bytes(const char *arg, struct argp_state *state)
{
    static const char units[] = "KMG";
    char *end;
    unsigned long long value;
    const char *unit;

    errno = 0;
    value = strtoull(arg, &end, 10);
    if (errno != 0 || end == arg || !isdigit((unsigned char)*arg))
        value = BYTES_MAX + 1;
    unit = *end == '\0' ? NULL : strchr(units, toupper((unsigned char)*end));
    if (unit != NULL) {
        int shift = 10 * (int)(unit - units + 1);

        value = value > BYTES_MAX >> shift ? BYTES_MAX + 1 : value << shift;
        end += end[1] == 'i' && end[2] == 'B' ? 2 : 1;
    }
    if (*end == 'B')
        end++;
    if (*end != '\0' || value < 1 || value > BYTES_MAX)
        argp_error(state, "'%s' is not a size from 1 to 1024G, such as 4096, 4K, 4KiB or 1G", arg);
    return (size_t)value;
}

static double parse_seconds(const char *arg, struct argp_state *state)
{
    char *end;
    double value = strtod(arg, &end);

    if (end == arg || *end != '\0' || !(value > 0 && value < COUNT_MAX))
        argp_error(state, "'%s' is not a number of seconds", arg);
    return value;
}

/* ---- Lists of names ------------------------------------------------------------------------- */

static const char *operation_name(int number)
{
    return number < operation_count ? operations[number].name : NULL;
}

static const char *type_name(int number)
{
    return tc_dtype_size((tc_dtype_t)number) == 0 ? NULL : tc_dtype_name((tc_dtype_t)number);
}

static const char *reduce_name(int number)
{
    return number <= TC_REDUCE_BXOR ? tc_reduce_op_name((tc_reduce_op_t)number) : NULL;
}

typedef const char *(*namer)(int number); /* NULL for a number without a name */

static void choose_one(struct chosen *chosen, const char *name, size_t len, namer name_of)
{
    bool is_all = len == 3 && strncmp(name, "all", len) == 0;

    for (int number = 0; number < NUMBERS_MAX && chosen->count < NUMBERS_MAX; number++) {
        const char *own = name_of(number);

        if (own != NULL && (is_all || (strlen(own) == len && strncmp(own, name, len) == 0)))
            chosen->numbers[chosen->count++] = number;
    }
}

/* "allreduce, broadcast, …": all there are. */
static void list_names(namer name_of, char *text, size_t room)
{
    size_t len = 0;

    text[0] = '\0';
    for (int number = 0; number < NUMBERS_MAX; number++) {
        const char *name = name_of(number);

        if (name != NULL && len < room)
            len += (size_t)snprintf(text + len, room - len, "%s%s", len == 0 ? "" : ", ", name);
    }
}

static void choose(struct chosen *chosen, const char *list, namer name_of, struct argp_state *state)
{
    char names[512];

    chosen->count = 0;
    while (true) {
        size_t len = strcspn(list, ",");
        int before = chosen->count;

        choose_one(chosen, list, len, name_of);
        if (chosen->count == before && before == NUMBERS_MAX)
            argp_error(state, "'%.*s' is one too many: %d are possible", (int)len, list,
                       NUMBERS_MAX);
        if (chosen->count == before) {
            list_names(name_of, names, sizeof names);
            argp_error(state, "'%.*s' is not known here; there are %s, and all", (int)len, list,
                       names);
        }
        if (list[len] == '\0')
            return;
        list += len + 1;
    }
}

static int choose_word(const char *arg, const char *first, const char *second,
                       struct argp_state *state)
{
    if (strcmp(arg, first) != 0 && strcmp(arg, second) != 0)
        argp_error(state, "'%s' is neither %s nor %s", arg, first, second);
    return strcmp(arg, second) == 0;
}

static int parse_numerics(const char *arg, struct argp_state *state)
{
    for (int numerics = TC_NUMERICS_CANONICAL; numerics <= TC_NUMERICS_EXACT; numerics++)
        if (strcmp(arg, options_numerics_name(numerics)) == 0)
            return numerics;
    argp_error(state, "'%s' is not one of canonical, fast and exact", arg);
    return TC_NUMERICS_CANONICAL;
}

const char *options_numerics_name(int numerics)
{
    return numerics == TC_NUMERICS_FAST    ? "fast"
           : numerics == TC_NUMERICS_EXACT ? "exact"
                                           : "canonical";
}

/* ---- argp ----------------------------------------------------------------------------------- */

static error_t parse_what(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case KEY_OP:
        choose(&options->operations, arg, operation_name, state);
        return 0;
    case 'b':
        options->bytes_min = parse_bytes(arg, state);
        return 0;
    case 'e':
        options->bytes_max = parse_bytes(arg, state);
        return 0;
    case 'f':
        options->factor = parse_number(arg, 2, COUNT_MAX, state);
        return 0;
    case 'd':
        choose(&options->types, arg, type_name, state);
        return 0;
    case 'o':
        choose(&options->reduces, arg, reduce_name, state);
        return 0;
    case KEY_IN_PLACE:
        options->is_in_place = true;
        return 0;
    case KEY_OUT_OF_PLACE:
        options->is_out_of_place = true;
        return 0;
    case 'r':
        options->root = (int)parse_number(arg, 0, COUNT_MAX, state);
        return 0;
    case KEY_TAGS:
        options->tags = (int)parse_number(arg, 1, COUNT_MAX, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_how(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'w':
        options->warmup = (int)parse_number(arg, 0, COUNT_MAX, state);
        return 0;
    case 'n':
        options->iterations = (int)parse_number(arg, 0, COUNT_MAX, state);
        return 0;
    case KEY_BUDGET:
        options->budget_s = parse_seconds(arg, state);
        return 0;
    case KEY_SYNC:
        options->is_synced = true;
        return 0;
    case 'c':
        options->checks = (int)parse_number(arg, 0, COUNT_MAX, state);
        return 0;
    case KEY_SPOIL:
        options->spoiled_rank = (int)parse_number(arg, 0, COUNT_MAX, state);
        return 0;
    case KEY_LOOP:
        options->loop_mode =
            choose_word(arg, "thread", "manual", state) ? TC_LOOP_MANUAL : TC_LOOP_THREAD;
        return 0;
    case KEY_SPIN_US:
        options->spin_us = (int)parse_number(arg, 0, INT32_MAX, state);
        return 0;
    case KEY_ALGORITHM:
        options->algorithm = arg;
        return 0;
    case KEY_NUMERICS:
        options->numerics = parse_numerics(arg, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static void finish_options(struct options *options, struct argp_state *state)
{
    if (options->bytes_min > options->bytes_max)
        argp_error(state, "--min-bytes is more than --max-bytes");
    if (!options->is_in_place && !options->is_out_of_place)
        options->is_in_place = options->is_out_of_place = true;
    if (options->json_path != NULL && !report_has_json())
        argp_error(state, "--json is not there: tcperf was built without cJSON");
    if (options->tune_path != NULL && !report_has_json())
        argp_error(state, "--tune is not there: tcperf was built without cJSON");
    if (options->tune_path != NULL && options->algorithm != NULL)
        argp_error(state, "--tune measures every algorithm: leave --algorithm out");
    if (is_stdout(options->csv_path) + is_stdout(options->json_path) +
            is_stdout(options->tune_path) >
        1)
        argp_error(state, "only one of --csv, --json and --tune can be standard output");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case KEY_CSV:
        options->csv_path = arg;
        return 0;
    case KEY_JSON:
        options->json_path = arg;
        return 0;
    case KEY_TUNE:
        options->tune_path = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': operations are named by --op", arg);
        return 0;
    case ARGP_KEY_END:
        finish_options(options, state);
        return 0;
    default:
        if (parse_what(key, arg, state) == 0)
            return 0;
        return parse_how(key, arg, state);
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse_option,
        .doc = "Time and check the collectives of tcdist among the ranks that a launcher started, "
               "or alone.\vThe exit code is 1 when an element was wrong, 2 after a mistake in the "
               "options, 3 when an operation failed, and 0 when all is well.",
    };

    *options = (struct options){
        .operations = {{0}, 1},
        .types = {{TC_DTYPE_F32}, 1},
        .reduces = {{TC_REDUCE_SUM}, 1},
        .bytes_min = 4,
        .bytes_max = (size_t)16 << 20,
        .factor = 4,
        .tags = 1,
        .warmup = 5,
        .budget_s = 0.2,
        .checks = 1,
        .spoiled_rank = -1,
        .loop_mode = TC_LOOP_THREAD,
        .spin_us = -1,
        .numerics = TC_NUMERICS_CANONICAL,
    };
    argp_err_exit_status = EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, options) != 0)
        exit(EXIT_TROUBLE);
}
