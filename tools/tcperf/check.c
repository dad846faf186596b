/* check.c - whether every element of every rank is what the definition says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"

/* Elements that are compared at a time: the inputs of some ranks stay in the cache. */
enum { CHUNK = 4096, ELEMENT_MAX = 8 };

/* What a check needs beside the buffers of the world. */
struct check {
    const struct world *world;
    const struct line *line;
    unsigned char *inputs;   /* owned: a chunk of each rank */
    const void **pointers;   /* owned: to them */
    unsigned char *expected; /* owned: a chunk */
    int number;              /* of the batch */
    double wrong;
};

static uint64_t key_of(const struct check *check, int rank, int tag_index)
{
    return pattern_key(check->number, rank, tag_index);
}

/* In place the input goes where the result comes; elsewhere what the rank only receives is
 * overwritten with something that is no result. */
static void fill(const struct check *check)
{
    const struct world *world = check->world;
    struct line line = *check->line;
    size_t given = line_send_count(&line, world->ranks);
    size_t size = tc_dtype_size(line.dtype);

    for (int i = 0; i < world->options->tags; i++) {
        world_place(world, &line, i);
        memset(line.recv, 0x5a, line_recv_count(&line, world->ranks) * size);
        if (line.operation->send != BLOCKS_NONE)
            pattern_fill(line.send, line.dtype, key_of(check, world->rank, i), 0, given);
        else if (world->rank == line.root)
            pattern_fill(line.recv, line.dtype, key_of(check, line.root, i), 0, line.count);
    }
}

/* Folds elements first to first + count - 1 of all ranks. */
static tc_status_t expect_fold(struct check *check, int tag_index, size_t first, size_t count)
{
    const struct line *line = check->line;
    size_t size = tc_dtype_size(line->dtype);

    for (int rank = 0; rank < check->world->ranks; rank++) {
        unsigned char *input = check->inputs + (size_t)rank * CHUNK * size;

        pattern_fill(input, line->dtype, key_of(check, rank, tag_index), first, count);
        check->pointers[rank] = input;
    }
    if (check->world->options->numerics == TC_NUMERICS_EXACT)
        return tc_reduce_reference_exact(check->expected, check->pointers, check->world->ranks,
                                         count, line->dtype, line->reduce);
    return tc_reduce_reference(check->expected, check->pointers, check->world->ranks, count,
                               line->dtype, line->reduce);
}

/* What elements first to first + count - 1 of this rank's result are; they lie in one block. */
static tc_status_t expect(struct check *check, int tag_index, size_t first, size_t count)
{
    const struct line *line = check->line;
    const struct operation *operation = line->operation;
    int ranks = check->world->ranks;
    size_t rank = (size_t)check->world->rank;
    int source = line->root;

    if (operation->has_reduce)
        return expect_fold(check, tag_index,
                           operation->send == BLOCKS_RANKS ? rank * line->count + first : first,
                           count);
    if (operation->recv == BLOCKS_RANKS) {
        source = (int)(first / line->count);
        first %= line->count;
        if (operation->send == BLOCKS_RANKS)
            first += rank * line->count;
    } else if (operation->send == BLOCKS_RANKS) {
        first += rank * line->count;
    } else if (operation->send == BLOCKS_ONE) {
        source = (int)(rank + (size_t)ranks - 1) % ranks;
    }
    pattern_fill(check->expected, line->dtype, key_of(check, source, tag_index), first, count);
    return TC_OK;
}

static void print_bytes(char *out, const unsigned char *element, size_t size)
{
    for (size_t i = 0; i < size; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", element[size - 1 - i]);
}

static void tell_first(const struct check *check, int tag_index, size_t index,
                       const unsigned char *got, const unsigned char *expected)
{
    const struct line *line = check->line;
    size_t size = tc_dtype_size(line->dtype);
    char bytes[2][2 * ELEMENT_MAX + 1];

    print_bytes(bytes[0], got, size);
    print_bytes(bytes[1], expected, size);
    fprintf(stderr,
            "tcperf: rank %d: %s of %zu %s: element %zu of collective %d is 0x%s instead of 0x%s\n",
            check->world->rank, line->operation->name, line->count, tc_dtype_name(line->dtype),
            index, tag_index, bytes[0], bytes[1]);
}

static void compare(struct check *check, int tag_index, size_t first, size_t count)
{
    struct line line = *check->line;
    size_t size = tc_dtype_size(line.dtype);
    bool is_exact =
        check->world->options->numerics != TC_NUMERICS_FAST || !line.operation->has_reduce;
    const unsigned char *got;

    world_place(check->world, &line, tag_index);
    got = (const unsigned char *)line.recv + first * size;
    if (memcmp(got, check->expected, count * size) == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *x = got + i * size;
        const unsigned char *y = check->expected + i * size;

        if (memcmp(x, y, size) == 0 ||
            (!is_exact && pattern_is_near(x, y, line.dtype, line.reduce, check->world->ranks)))
            continue;
        if (check->wrong++ == 0)
            tell_first(check, tag_index, first + i, x, y);
    }
}

/* The highest bit: it is the sign, which is never a matter of rounding. */
static void spoil(const struct check *check)
{
    struct line line = *check->line;
    size_t size = tc_dtype_size(line.dtype);

    world_place(check->world, &line, 0);
    if (line_recv_count(&line, check->world->ranks) > 0)
        ((unsigned char *)line.recv)[size - 1] ^= 0x80;
}

static tc_status_t compare_all(struct check *check)
{
    bool is_idle = check->line->operation->is_at_root && check->world->rank != check->line->root;
    size_t total = is_idle ? 0 : line_recv_count(check->line, check->world->ranks);
    tc_status_t status = TC_OK;

    for (int i = 0; i < check->world->options->tags; i++)
        for (size_t first = 0; first < total && status == TC_OK;) {
            size_t in_block = check->line->count - first % check->line->count;
            size_t count = in_block < CHUNK ? in_block : CHUNK;

            status = expect(check, i, first, count);
            compare(check, i, first, count);
            first += count;
        }
    return status;
}

static bool init(struct check *check, const struct world *world, const struct line *line)
{
    size_t chunk = CHUNK * tc_dtype_size(line->dtype);
    size_t ranks = (size_t)world->ranks;

    *check = (struct check){.world = world, .line = line};
    check->inputs = calloc(ranks, chunk);
    check->pointers = calloc(ranks, sizeof *check->pointers);
    check->expected = calloc(1, chunk);
    return check->inputs != NULL && check->pointers != NULL && check->expected != NULL;
}

static void fini(struct check *check)
{
    free(check->inputs);
    free(check->pointers);
    free(check->expected);
}

static tc_status_t sum_wrong(struct world *world, double own, double *wrong_out)
{
    double *all = calloc((size_t)world->ranks, sizeof *all);
    tc_status_t status = all == NULL ? TC_ERR_ALLOC : world_gather(world, &own, all, 1);

    if (status == TC_OK) {
        *wrong_out = 0;
        for (int rank = 0; rank < world->ranks; rank++)
            *wrong_out += all[rank];
    }
    free(all);
    return status;
}

tc_status_t check_line(struct world *world, const struct line *line, double *wrong_out)
{
    struct check check;
    tc_status_t status = init(&check, world, line) ? TC_OK : TC_ERR_ALLOC;

    for (; status == TC_OK && check.number < world->options->checks; check.number++) {
        fill(&check);
        status = world_run_batch(world, line);
        if (status != TC_OK)
            break;
        if (world->rank == world->options->spoiled_rank)
            spoil(&check);
        status = compare_all(&check);
    }
    fini(&check);
    return status != TC_OK ? status : sum_wrong(world, check.wrong, wrong_out);
}
