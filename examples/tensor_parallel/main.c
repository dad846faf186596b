/* main.c - tensor_parallel: a network of two layers split over the ranks, in two ways. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "data.h"
#include "matrix.h"
#include "network.h"
#include "options.h"
#include "share.h"
#include "world.h"

struct program {
    struct options options;
    struct world world;
    struct data data;
    struct digits train;
    struct digits test;
    struct network networks[WAY_COUNT];
    size_t *order;    /* owned, as the rest: the epoch's order of the training digits */
    uint8_t *labels;  /* of the rows in the network */
    float *begun;     /* parameters of the whole network that all ways begin with */
    float *learnt;    /* those that the unsplit network has learnt */
    float *out;       /* its outputs for the test digits */
    float *out_split; /* those of a split one */
};

static bool is_told(const struct program *program)
{
    return program->world.rank == 0 && !program->options.is_quiet;
}

/* ---- Learning and testing ------------------------------------------------------------------- */

/* Every rank takes all samples: the features are split, not the batch. */
static void load(struct program *program, struct network *network, const struct digits *digits,
                 const size_t *order, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        const struct digit *digit = &digits->items[order != NULL ? order[i] : i];

        digit_load(digit, network->samples + i * DIGIT_PIXELS);
        program->labels[i] = digit->label;
    }
}

static bool learn(struct program *program, struct network *network, double *loss, size_t *right)
{
    const struct options *options = &program->options;
    size_t count = program->train.count;

    for (size_t i = 0; i < count; i++)
        program->order[i] = i;
    for (size_t epoch = 1; epoch <= options->epochs; epoch++) {
        *loss = 0;
        *right = 0;
        order_shuffle(program->order, count, options->seed, epoch);
        for (size_t at = 0, rows; at < count; at += rows) {
            rows = count - at < options->batch ? count - at : options->batch;
            load(program, network, &program->train, program->order + at, rows);
            if (!network_forward(network, rows) ||
                !network_learn(network, program->labels, rows, options->rate, loss, right))
                return false;
            world_turn(&program->world);
        }
    }
    return true;
}

/* The outputs for all test digits, row after row. */
static bool test(struct program *program, struct network *network, float *out)
{
    size_t outputs = program->options.outputs;

    for (size_t at = 0, rows; at < program->test.count; at += rows) {
        struct digits digits = {program->test.items + at, program->test.count - at};

        rows = digits.count < network->rows_max ? digits.count : network->rows_max;
        load(program, network, &digits, NULL, rows);
        if (!network_forward(network, rows))
            return false;
        memcpy(out + at * outputs, network->out_rows, rows * outputs * sizeof *out);
    }
    return true;
}

static size_t count_right(const struct program *program, const float *out)
{
    size_t outputs = program->options.outputs;
    size_t right = 0;

    for (size_t i = 0; i < program->test.count; i++, out += outputs) {
        size_t guess = 0;

        for (size_t j = 1; j < outputs; j++)
            guess = out[j] > out[guess] ? j : guess;
        right += guess == program->test.items[i].label;
    }
    return right;
}

/* One network from the common beginning on: learns, is tested, and rank 0 reports. */
static bool run(struct program *program, enum way way, float *out)
{
    struct network *network = &program->networks[way];
    double count = (double)program->train.count;
    uint64_t begin_ns = tc_trace_now_ns();
    double loss = 0, seconds;
    size_t right = 0;

    network_take(network, program->begun);
    if (!learn(program, network, &loss, &right))
        return false;
    seconds = (double)(tc_trace_now_ns() - begin_ns) / 1e9;
    if (!isfinite(loss)) {
        if (program->world.rank == 0)
            fprintf(stderr,
                    "tensor_parallel: %s: the loss is no number any more: take smaller "
                    "steps, --learning-rate\n",
                    way_name(way));
        (void)world_leave(&program->world);
        return false;
    }
    if (!test(program, network, out))
        return false;
    if (is_told(program))
        printf("%-8s loss %.5f   train %6.2f %%   test %6.2f %%   %6.0f samples/s, "
               "%6zu parameters a rank\n",
               way_name(way), loss / count, 100 * (double)right / count,
               100 * (double)count_right(program, out) / (double)program->test.count,
               count * (double)program->options.epochs / seconds,
               network->layers[0].count + network->layers[1].count);
    return true;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

/* Adds up what the ranks found; rank 0 tells. */
static bool compare_bits(struct program *program)
{
    const struct network *network = &program->networks[WAY_GATHER];
    size_t out_count = program->test.count * program->options.outputs;
    size_t others = 0;
    double numbers[2];

    for (size_t i = 0; i < out_count; i++)
        others += memcmp(&program->out[i], &program->out_split[i], sizeof(float)) != 0;
    numbers[0] = (double)network_count_others(network, program->learnt);
    numbers[1] = (double)others;
    if (!world_sum(&program->world, numbers, 2))
        return false;
    if (numbers[0] + numbers[1] > 0) {
        if (program->world.rank == 0)
            fprintf(stderr,
                    "tensor_parallel: gather: %.0f parameters and %.0f outputs differ from the "
                    "unsplit network's\n",
                    numbers[0], numbers[1]);
        (void)world_leave(&program->world);
        return false;
    }
    if (is_told(program))
        printf("gather   after training, all parameters and all outputs have the unsplit network's "
               "bits (hash %016" PRIx64 ")\n",
               matrix_hash(program->learnt, network->whole_count));
    return true;
}

/* The largest difference, and the largest part that it is of what rounding allows: a sum of k
 * products, each rounded, is off by at most k u / (1 - k u) of the sum of their magnitudes (N. J.
 * Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1).  Both sums are. */
static void find_error(struct program *program, double *largest, double *part)
{
    struct network *unsplit = &program->networks[WAY_UNSPLIT];
    const struct layer *layer = &unsplit->layers[1];
    double ku = (double)(layer->inputs + 2) * FLT_EPSILON / 2;

    for (size_t i = 0; i < program->test.count; i++) {
        struct digits one = {program->test.items + i, 1};

        load(program, unsplit, &one, NULL, 1);
        (void)network_forward(unsplit, 1); /* for the hidden features */
        for (size_t j = 0; j < layer->outputs; j++) {
            size_t at = i * layer->outputs + j;
            double error = fabs((double)program->out_split[at] - (double)program->out[at]);
            double sum = fabs((double)layer->params[layer->inputs * layer->outputs + j]);

            for (size_t k = 0; k < layer->inputs; k++)
                sum +=
                    fabs((double)layer->params[j * layer->inputs + k] * (double)unsplit->hidden[k]);
            *largest = fmax(*largest, error);
            if (error > 0)
                *part = fmax(*part, error / (2 * ku / (1 - ku) * sum));
        }
    }
}

/* With the unsplit network's parameters, so that only the order of additions differs. */
static bool compare_sums(struct program *program)
{
    double largest = 0, part = 0;

    network_take(&program->networks[WAY_REDUCE], program->learnt);
    if (!test(program, &program->networks[WAY_REDUCE], program->out_split))
        return false;
    find_error(program, &largest, &part);
    if (!(part <= 1)) {
        if (program->world.rank == 0)
            fprintf(stderr,
                    "tensor_parallel: reduce: an output is off by %g, %.1f times what rounding "
                    "allows\n",
                    largest, part);
        (void)world_leave(&program->world);
        return false;
    }
    if (is_told(program))
        printf("reduce   with the unsplit network's parameters, no output is off by more than "
               "%.2g, %.1f %% of what rounding allows\n",
               largest, 100 * part);
    return true;
}

static bool run_all(struct program *program)
{
    struct network *unsplit = &program->networks[WAY_UNSPLIT];

    if (!run(program, WAY_UNSPLIT, program->out))
        return false;
    for (size_t i = 0, at = 0; i < LAYERS; at += unsplit->layers[i++].count)
        memcpy(program->learnt + at, unsplit->layers[i].params,
               unsplit->layers[i].count * sizeof(float));
    for (int way = 0; way < WAY_COUNT; way++) {
        if (way == WAY_UNSPLIT || !program->options.is_wanted[way])
            continue;
        if (!run(program, (enum way)way, program->out_split) ||
            !(way == WAY_GATHER ? compare_bits(program) : compare_sums(program)))
            return false;
    }
    return world_leave(&program->world);
}

/* ---- Begin and end -------------------------------------------------------------------------- */

static bool make_room(struct program *program)
{
    const struct options *options = &program->options;
    size_t out_count, whole_count;

    data_split(&program->data, options->seed, &program->train, &program->test);
    for (int way = 0; way < WAY_COUNT; way++) {
        if (options->is_wanted[way] &&
            !network_init(&program->networks[way], &program->world, (enum way)way, options->hidden,
                          options->outputs, options->batch))
            return false;
    }
    whole_count = program->networks[WAY_UNSPLIT].whole_count;
    out_count = program->test.count * options->outputs;
    program->order = calloc(program->train.count, sizeof *program->order);
    program->labels = calloc(options->batch, 1);
    program->begun = calloc(2 * (whole_count + out_count), sizeof *program->begun);
    if (program->order == NULL || program->labels == NULL || program->begun == NULL) {
        fprintf(stderr, "tensor_parallel: rank %d: no memory for the parameters\n",
                program->world.rank);
        return false;
    }
    program->learnt = program->begun + whole_count;
    program->out = program->learnt + whole_count;
    program->out_split = program->out + out_count;
    return true;
}

/* The seed gives all ranks the same weights where all have the same logarithm and cosine; those of
 * rank 0 count. */
static bool begin(struct program *program)
{
    const struct network *unsplit = &program->networks[WAY_UNSPLIT];
    const struct options *options = &program->options;
    int size = program->world.size;

    network_draw(unsplit, options->seed, program->begun);
    if (is_told(program))
        printf("%zu digits to learn, %zu to test; %d rank%s, layers %d-%zu-%zu, %zu parameters\n",
               program->train.count, program->test.count, size, size == 1 ? "" : "s", DIGIT_PIXELS,
               options->hidden, options->outputs, unsplit->whole_count);
    return world_wait(&program->world,
                      tc_broadcast_async(program->world.group, TC_TAG_ORDERED, program->begun,
                                         unsplit->whole_count, TC_DTYPE_F32, 0, NULL));
}

static bool is_even(const struct program *program)
{
    const struct options *options = &program->options;

    for (int way = 0; way < WAY_COUNT; way++) {
        if (options->is_wanted[way] &&
            !network_is_even(&program->world, (enum way)way, options->hidden, options->outputs))
            return false;
    }
    return true;
}

static void end(struct program *program)
{
    /* The world first: what still runs may use the memory of the rest. */
    world_close(&program->world);
    for (int way = 0; way < WAY_COUNT; way++)
        network_fini(&program->networks[way]);
    free(program->begun);
    free(program->labels);
    free(program->order);
    data_fini(&program->data);
}

int main(int argc, char **argv)
{
    static struct program program;
    int code = EXIT_FAILURE;

    options_parse(&program.options, argc, argv);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (world_open(&program.world)) {
        if (!is_even(&program)) {
            (void)world_leave(&program.world);
            code = EXIT_USAGE;
        } else if (share_data(&program.world, program.options.data, &program.data) &&
                   make_room(&program) && begin(&program) && run_all(&program)) {
            code = EXIT_SUCCESS;
        }
    }
    end(&program);
    return code;
}
