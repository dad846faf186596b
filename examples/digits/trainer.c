/* trainer.c - trains the net on all ranks: the batch is shared, the gradients are added up.
 *
 *   compute   forward 0 1 2 3   backward 3   backward 2   backward 1   backward 0   forward 0 …
 *                                       \            \            \            \  /
 *   network                              3 >>>>>>>    2 >>>>>>>>   1 >>>>>>>    0 >    all-reduces
 *
 * A layer's gradient sets out under the layer's own tag as soon as it is complete, and travels
 * while the layers below are still computed.  It is waited for when the next step wants to use the
 * layer, and not before; as that begins with layer 0, whose gradient sets out last, gradients of
 * low layers go first on every link.
 *
 * A rank's share of a batch is divided by the size of the whole batch: the sum over the ranks is
 * the gradient that one rank alone would have found.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The timeline of one rank shows so many steps; several ranks share them, down to the least. */
enum { WATCHED_MAX = 12, WATCHED_MIN = 2, WATCHED_RANKS = 48 };

/* What the ranks add up at the end of an epoch. */
struct tally {
    double loss;
    size_t train_right;
    size_t test_right;
};

/* ---- One step ------------------------------------------------------------------------------- */

/* Of `count` samples, where a rank's share begins; that of rank + 1 is where it ends. */
static size_t share_begin(size_t count, int rank, int size)
{
    return count * (size_t)rank / (size_t)size;
}

static void load_row(struct trainer *trainer, size_t row, const struct digit *digit)
{
    digit_load(digit, trainer->net.input + row * DIGIT_PIXELS);
    trainer->labels[row] = digit->label;
}

/* Waits for a layer's gradient, if one is on its way, and takes the step. */
static bool update(struct trainer *trainer, size_t index)
{
    struct world *world = trainer->world;
    tc_future *future = trainer->sums[index];
    uint64_t begin_ns = tc_trace_now_ns();
    bool is_waiting;

    if (future == NULL)
        return true;
    trainer->sums[index] = NULL;
    is_waiting = tc_future_test(future) == TC_PENDING;
    if (!world_wait(world, future))
        return false;
    if (is_waiting)
        tc_trace_span(world->context, "wait", index, begin_ns);

    begin_ns = tc_trace_now_ns();
    net_update(&trainer->net, index, trainer->options->rate,
               gradients_momentum(&trainer->gradients));
    tc_trace_span(world->context, "update", index, begin_ns);
    return true;
}

static bool forward(struct trainer *trainer, size_t rows)
{
    for (size_t i = 0; i < NET_LAYERS; i++) {
        uint64_t begin_ns;

        if (!update(trainer, i))
            return false;
        begin_ns = tc_trace_now_ns();
        net_forward(&trainer->net, i, rows);
        tc_trace_span(trainer->world->context, "forward", i, begin_ns);
        world_turn(trainer->world);
    }
    return true;
}

/* The gradient of a layer, which sets out to the other ranks. */
static void backward(struct trainer *trainer, size_t index, size_t rows)
{
    struct world *world = trainer->world;
    uint64_t begin_ns = tc_trace_now_ns();

    net_backward(&trainer->net, index, rows);
    tc_trace_span(world->context, "backward", index, begin_ns);

    overlap_start(&world->overlap);
    trainer->sums[index] = gradients_start(&trainer->gradients, &trainer->net, index);
    overlap_watch(&world->overlap, trainer->sums[index]);
    world_turn(world);
}

/* `batch` lists the samples of all ranks. */
static bool take_step(struct trainer *trainer, const size_t *batch, size_t count,
                      struct tally *tally)
{
    const struct world *world = trainer->world;
    size_t begin = share_begin(count, world->rank, world->size);
    size_t rows = share_begin(count, world->rank + 1, world->size) - begin;
    uint64_t begin_ns = tc_trace_now_ns();

    for (size_t i = 0; i < rows; i++)
        load_row(trainer, i, &trainer->train.items[batch[begin + i]]);
    if (!forward(trainer, rows))
        return false;
    tally->loss += net_loss(&trainer->net, trainer->labels, rows, count, &tally->train_right);
    for (size_t i = NET_LAYERS; i-- > 0;)
        backward(trainer, i, rows);
    tc_trace_span(world->context, "step", trainer->step++, begin_ns);
    return true;
}

/* ---- One epoch ------------------------------------------------------------------------------ */

static bool train(struct trainer *trainer, size_t epoch, struct tally *tally)
{
    size_t count = trainer->train.count;
    size_t batch = trainer->options->batch;

    order_shuffle(trainer->order, count, trainer->options->seed, epoch);
    for (size_t at = 0; at < count; at += batch) {
        if (trainer->step + trainer->watched == trainer->steps)
            trainer->window_begin_ns = tc_trace_now_ns();
        if (!take_step(trainer, trainer->order + at, count - at < batch ? count - at : batch,
                       tally))
            return false;
    }
    for (size_t i = 0; i < NET_LAYERS; i++) {
        if (!update(trainer, i))
            return false;
    }
    trainer->window_end_ns = tc_trace_now_ns();
    return true;
}

/* Each rank looks at its share of the test digits, as many at once as the net takes. */
static void test(struct trainer *trainer, struct tally *tally)
{
    const struct world *world = trainer->world;
    size_t begin = share_begin(trainer->test.count, world->rank, world->size);
    size_t end = share_begin(trainer->test.count, world->rank + 1, world->size);
    size_t rows_max = trainer->net.rows_max;

    for (size_t rows; begin < end; begin += rows) {
        rows = end - begin < rows_max ? end - begin : rows_max;
        for (size_t i = 0; i < rows; i++)
            load_row(trainer, i, &trainer->test.items[begin + i]);
        for (size_t i = 0; i < NET_LAYERS; i++)
            net_forward(&trainer->net, i, rows);
        (void)net_loss(&trainer->net, trainer->labels, rows, rows, &tally->test_right);
    }
}

/* Adds the ranks' tallies up; rank 0 reports. */
static bool report(struct trainer *trainer, size_t epoch, const struct tally *tally, double seconds)
{
    double numbers[] = {tally->loss, (double)tally->train_right, (double)tally->test_right};
    double count = (double)trainer->train.count;

    if (!world_sum(trainer->world, numbers, 3))
        return false;
    if (!isfinite(numbers[0])) {
        if (trainer->world->rank == 0)
            fprintf(stderr, "digits: the loss is no number any more: take smaller steps, "
                            "--learning-rate\n");
        (void)world_leave(trainer->world);
        return false;
    }
    if (trainer->world->rank == 0 && !trainer->options->is_quiet)
        printf("epoch %3zu   loss %.5f   train %6.2f %%   test %6.2f %%   %6.0f samples/s\n", epoch,
               numbers[0] / count, 100 * numbers[1] / count,
               100 * numbers[2] / (double)trainer->test.count, count / seconds);
    return true;
}

bool trainer_run(struct trainer *trainer)
{
    overlap_reset(&trainer->world->overlap);
    for (size_t epoch = 1; epoch <= trainer->options->epochs; epoch++) {
        struct tally tally = {0};
        uint64_t begin_ns = tc_trace_now_ns();
        double seconds;

        if (!train(trainer, epoch, &tally))
            return false;
        seconds = (double)(trainer->window_end_ns - begin_ns) / 1e9;
        trainer->busy_seconds += seconds;
        test(trainer, &tally);
        if (!report(trainer, epoch, &tally, seconds))
            return false;
    }
    return true;
}

/* ---- Begin and end -------------------------------------------------------------------------- */

static void count_steps(struct trainer *trainer)
{
    size_t batch = trainer->options->batch;
    size_t watched = WATCHED_RANKS / (size_t)trainer->world->size;

    trainer->steps = trainer->options->epochs * ((trainer->train.count + batch - 1) / batch);
    watched = watched > WATCHED_MAX ? WATCHED_MAX : watched < WATCHED_MIN ? WATCHED_MIN : watched;
    trainer->watched = watched < trainer->steps ? watched : trainer->steps;
}

bool trainer_init(struct trainer *trainer, const struct options *options, struct world *world,
                  struct data *data)
{
    size_t size = (size_t)world->size;
    size_t rows_max = (options->batch + size - 1) / size;

    *trainer = (struct trainer){.options = options, .world = world};
    data_split(data, options->seed, &trainer->train, &trainer->test);
    count_steps(trainer);
    trainer->order = calloc(trainer->train.count, sizeof *trainer->order);
    trainer->labels = calloc(rows_max, 1);
    if (trainer->order == NULL || trainer->labels == NULL ||
        !net_init(&trainer->net, options->hidden, rows_max, options->seed) ||
        !gradients_init(&trainer->gradients, options, world, &trainer->net)) {
        fprintf(stderr, "digits: rank %d: no memory for the net\n", world->rank);
        return false;
    }
    for (size_t i = 0; i < trainer->train.count; i++)
        trainer->order[i] = i;

    /* The seed gives all ranks the same weights where all have the same logarithm and cosine;
     * those of rank 0 count. */
    return world_wait(world, tc_broadcast_async(world->group, TC_TAG_ORDERED, trainer->net.params,
                                                trainer->net.count, TC_DTYPE_F32, 0, NULL));
}

void trainer_fini(struct trainer *trainer)
{
    for (size_t i = 0; i < NET_LAYERS; i++)
        tc_future_release(trainer->sums[i]);
    gradients_fini(&trainer->gradients);
    net_fini(&trainer->net);
    free(trainer->labels);
    free(trainer->order);
}
