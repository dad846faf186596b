/* sets.c - which operations, types and sizes are measured, and how. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "control.h"

/* Beyond this size the start of a call is a small part of it: back to back tells nothing new. */
#define BACK_TO_BACK_BYTES_MAX ((size_t)1 << 20)
#define BULK_BYTES             ((size_t)256 << 20)

static const size_t sizes[] = {4,       1 << 10, 16 << 10, 64 << 10, 256 << 10,
                               1 << 20, 4 << 20, 16 << 20, 64 << 20};

enum {
    SIZES = sizeof sizes / sizeof *sizes,
    LIMIT_S = 120 /* a rank that takes longer for a set is stuck and ends itself */
};

static size_t dtype_size(enum harness_dtype dtype)
{
    return dtype == HARNESS_F32 ? 4 : 2;
}

static struct harness_call describe(const struct harness *harness, enum harness_op op,
                                    enum harness_dtype dtype, size_t count)
{
    bool is_in_place = op == HARNESS_ALL_REDUCE || op == HARNESS_BROADCAST;

    return (struct harness_call){
        .op = op,
        .dtype = dtype,
        .count = count,
        .bytes = count * dtype_size(dtype),
        .block = count / (size_t)harness->ranks,
        .recv = harness->memory[0],
        .send = harness->memory[is_in_place ? 0 : 1],
    };
}

/* A size of f32, whatever type is measured. */
static bool is_asked(const struct harness *harness, size_t bytes)
{
    const char *at = harness->sizes;

    if (bytes < harness->bytes_min || bytes > harness->bytes_max)
        return false;
    if (at == NULL)
        return true;
    while (*at != '\0') {
        char *end;

        if (strtoull(at, &end, 10) == bytes)
            return true;
        if (end == at)
            return false;
        at = *end == ',' ? end + 1 : end;
    }
    return false;
}

/* True when the library has it; all ranks answer alike. */
static bool prepare(struct harness *harness, const struct harness_call *call)
{
    return harness->prepare == NULL || harness->prepare(harness->library_arg, call);
}

static void measure(struct harness *harness, const struct harness_call *call, bool in_batches)
{
    if (!prepare(harness, call))
        return;
    check_call(harness, call);
    sample_synced(harness, call);
    if (in_batches)
        sample_batches(harness, call);
}

static void run_all_reduce(struct harness *harness)
{
    for (int i = 0; i < SIZES; i++) {
        struct harness_call call = describe(harness, HARNESS_ALL_REDUCE, HARNESS_F32, sizes[i] / 4);

        if (is_asked(harness, sizes[i]))
            measure(harness, &call, sizes[i] <= BACK_TO_BACK_BYTES_MAX);
    }
}

static void run_collectives(struct harness *harness)
{
    struct harness_call barrier = describe(harness, HARNESS_BARRIER, HARNESS_F32, 0);

    measure(harness, &barrier, true);
    for (int op = HARNESS_REDUCE_SCATTER; op < HARNESS_BARRIER; op++)
        for (int i = 0; i < SIZES; i++) {
            struct harness_call call =
                describe(harness, (enum harness_op)op, HARNESS_F32, sizes[i] / 4);

            if (is_asked(harness, sizes[i]) && call.count % (size_t)harness->ranks == 0)
                measure(harness, &call, false);
        }
}

/* From 1 MiB of f32 on: there the memory counts, not the call. */
static void run_types(struct harness *harness)
{
    for (int i = 0; i < SIZES; i++)
        for (int dtype = 0; dtype < HARNESS_DTYPES; dtype++) {
            struct harness_call call =
                describe(harness, HARNESS_ALL_REDUCE, (enum harness_dtype)dtype, sizes[i] / 4);

            if (sizes[i] >= 1 << 20 && is_asked(harness, sizes[i]))
                measure(harness, &call, false);
        }
}

static void run_many(struct harness *harness)
{
    static const size_t each[] = {4 << 10, 256 << 10};

    for (int i = 0; i < 2; i++) {
        struct harness_call call = describe(harness, HARNESS_ALL_REDUCE, HARNESS_F32, each[i] / 4);

        if (!is_asked(harness, each[i]) || !prepare(harness, &call))
            continue;
        check_call(harness, &call);
        sample_many(harness, &call);
    }
}

static void run_urgent(struct harness *harness)
{
    struct harness_call bulk = describe(harness, HARNESS_ALL_REDUCE, HARNESS_F32, BULK_BYTES / 4);
    struct harness_call urgent = describe(harness, HARNESS_ALL_REDUCE, HARNESS_F32, 4096 / 4);

    if (!harness->has_priority || harness->start == NULL)
        return;
    bulk.slot = HARNESS_SLOT_BULK;
    urgent.send = urgent.recv = (char *)harness->memory[0] + BULK_BYTES;
    urgent.is_urgent = true;
    sample_urgent(harness, &urgent, &bulk);
}

static void run_overlap(struct harness *harness)
{
    static const size_t each[] = {64 << 10, 1 << 20, 16 << 20};

    for (int i = 0; i < 3; i++) {
        struct harness_call call = describe(harness, HARNESS_ALL_REDUCE, HARNESS_F32, each[i] / 4);

        if (harness->start == NULL || !is_asked(harness, each[i]) || !prepare(harness, &call))
            continue;
        check_call(harness, &call);
        sample_overlap(harness, &call, false);
        sample_overlap(harness, &call, true);
    }
}

static void run_waiting(struct harness *harness)
{
    struct harness_call call = describe(harness, HARNESS_ALL_REDUCE, HARNESS_F32, 1024 / 4);

    if (prepare(harness, &call))
        sample_waiting(harness, &call);
}

int harness_run(struct harness *harness)
{
    static void (*const runs[HARNESS_SETS])(struct harness * harness) = {
        run_all_reduce, run_collectives, run_types, run_many, run_urgent, run_overlap, run_waiting};

    for (unsigned set = 0; set < HARNESS_SETS; set++)
        if ((harness->sets & 1U << set) != 0) {
            alarm(LIMIT_S);
            runs[set](harness);
        }
    harness_meet(harness);
    return atomic_load(&harness->control->wrong);
}
