/* world.c - the group, its buffers, and batches of operations in flight. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory.h"

/* Data of different collectives share no cache line. */
#define LINE_BYTES 64

static tc_status_t say(const struct world *world, tc_status_t status, const tc_error *error,
                       const char *what)
{
    if (status != TC_OK)
        fprintf(stderr, "tcperf: rank %d: %s: %s: %s\n", world->rank, what,
                tc_status_string(status), error == NULL ? "no reason given" : error->message);
    return status;
}

/* Takes the future over. */
static tc_status_t finish(const struct world *world, tc_future *future, const char *what)
{
    tc_status_t status = tc_future_wait(future, -1);

    say(world, status, tc_future_error(future), what);
    tc_future_release(future);
    return status;
}

tc_status_t world_open(struct world *world, const struct options *options)
{
    const char *rank = getenv("TCDIST_RANK");
    tc_config config;
    tc_status_t status;

    *world = (struct world){.options = options, .rank = rank == NULL ? 0 : atoi(rank)};
    tc_config_default(&config);
    config.loop_mode = options->loop_mode;
    config.spin_us = options->spin_us;
    config.algorithm = options->algorithm;
    config.numerics = options->numerics;
    status = tc_init_config(&config, &world->context);
    if (status != TC_OK)
        return say(world, status, tc_last_error(), "start the library");
    status = tc_dist_init_env(world->context, &world->group);
    if (status != TC_OK)
        return say(world, status, tc_last_error(), "form the group");
    world->rank = tc_dist_rank(world->group);
    world->ranks = tc_dist_world_size(world->group);

    world->futures = calloc(2 * (size_t)options->tags, sizeof(tc_future *));
    return world->futures == NULL ? TC_ERR_ALLOC : TC_OK;
}

static tc_status_t alloc_one(struct world *world, size_t bytes, tc_buffer **buffer,
                             unsigned char **memory)
{
    void *map = NULL;
    tc_status_t status = tc_buffer_alloc(world->context, bytes, buffer);

    if (status == TC_OK)
        status = tc_buffer_map(*buffer, &map);
    *memory = map;
    return say(world, status, tc_last_error(), "allocate the buffers");
}

/* Ranks on this host, as far as the launcher says. */
static size_t local_ranks(void)
{
    const char *text = getenv("TCDIST_LOCAL_SIZE");
    long count = text == NULL ? 1 : strtol(text, NULL, 10);

    return count > 1 ? (size_t)count : 1;
}

/* Memory is given out before it is there: whoever takes too much is killed when it is written. */
static tc_status_t check_memory(const struct world *world, size_t bytes)
{
    const double gib = 1 << 30;
    size_t ranks = local_ranks(), need, available = memory_available();

    if (!__builtin_mul_overflow(bytes, 2 * ranks, &need) && need <= available)
        return TC_OK;
    fprintf(
        stderr,
        "tcperf: rank %d: the buffers of %zu ranks on this host take %.3g GiB, but it has %.3g: "
        "choose a smaller --max-bytes, fewer --tags or fewer ranks\n",
        world->rank, ranks, 2.0 * (double)ranks * (double)bytes / gib, (double)available / gib);
    return TC_ERR_ALLOC;
}

tc_status_t world_alloc(struct world *world, size_t bytes)
{
    size_t each = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    size_t all;
    tc_status_t status;

    if (__builtin_mul_overflow(each, (size_t)world->options->tags, &all))
        return say(world, TC_ERR_ALLOC, NULL, "the buffers of all tags");
    status = check_memory(world, all);
    if (status != TC_OK)
        return status;
    status = alloc_one(world, all, &world->send, &world->send_memory);
    return status != TC_OK ? status : alloc_one(world, all, &world->recv, &world->recv_memory);
}

void world_close(struct world *world, bool is_in_order)
{
    tc_status_t status;

    status = is_in_order ? tc_dist_finalize(world->group) : tc_dist_close(world->group);
    say(world, status, tc_last_error(), "leave the group");
    tc_buffer_free(world->context, world->send);
    tc_buffer_free(world->context, world->recv);
    if (world->context != NULL)
        tc_shutdown(world->context);
    free(world->futures);
    *world = (struct world){0};
}

size_t world_stride(const struct world *world, const struct line *line)
{
    size_t send = line_send_count(line, world->ranks);
    size_t recv = line_recv_count(line, world->ranks);
    size_t bytes = (send > recv ? send : recv) * tc_dtype_size(line->dtype);

    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

const char *world_algorithm(const struct world *world, const struct line *line, const char *asked)
{
    tc_options options;

    if (line->operation->future_count != 1)
        return "-"; /* sends and receives have nothing to choose */
    tc_options_default(&options);
    options.algorithm = asked;
    if (line->call != NULL)
        options.numerics = line->call->numerics;
    return tc_algorithm(world->group, line->operation->name, line->count, line->dtype, line->reduce,
                        &options);
}

bool line_size(struct line *line, const struct world *world, size_t bytes)
{
    const struct operation *operation = line->operation;
    size_t size = tc_dtype_size(line->dtype);
    size_t blocks = operation->send == BLOCKS_RANKS || operation->recv == BLOCKS_RANKS
                        ? (size_t)world->ranks
                        : 1;
    size_t before = line->count;

    line->count = operation->recv == BLOCKS_NONE ? 0 : bytes / (size * blocks);
    if (line->count == 0 && operation->recv != BLOCKS_NONE)
        line->count = 1;
    line->bytes = line->count * size * blocks;
    return before != line->count || operation->recv == BLOCKS_NONE;
}

/* In place an all-gather's own block lies where the result has it; all others begin alike. */
void world_place(const struct world *world, struct line *line, int tag_index)
{
    size_t at = (size_t)tag_index * world_stride(world, line);
    size_t block = line->count * tc_dtype_size(line->dtype);
    bool is_gather = line->operation->send == BLOCKS_ONE && line->operation->recv == BLOCKS_RANKS;

    line->recv = world->recv_memory + at;
    if (!line->is_in_place)
        line->send = world->send_memory + at;
    else
        line->send = world->recv_memory + at + (is_gather ? (size_t)world->rank * block : 0);
}

/* Every batch has tags of its own: one that is still in use by a slower rank is not met again. */
tc_status_t world_run_batch(struct world *world, const struct line *line)
{
    struct line placed = *line;
    int count = line->operation->future_count;
    int total = count * world->options->tags;
    tc_status_t first = TC_OK;

    for (int i = 0; i < world->options->tags; i++) {
        world_place(world, &placed, i);
        line->operation->start(world->group, &placed, world->next_tag++,
                               &world->futures[i * count]);
    }
    for (int i = 0; i < total; i++) {
        tc_status_t status = tc_future_wait(world->futures[i], -1);

        if (first == TC_OK && status != TC_OK)
            first = say(world, status, tc_future_error(world->futures[i]), line->operation->name);
        tc_future_release(world->futures[i]);
    }
    return first;
}

tc_status_t world_meet(struct world *world)
{
    return finish(world, tc_barrier_async(world->group, TC_TAG_ORDERED, NULL), "align the ranks");
}

tc_status_t world_gather(struct world *world, const double *own, double *all, size_t count)
{
    return finish(
        world,
        tc_allgather_async(world->group, TC_TAG_ORDERED, own, all, count, TC_DTYPE_F64, NULL),
        "collect what was measured");
}
