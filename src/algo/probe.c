/* probe.c - plans and kernels that are timed to learn what messages and folds cost. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   turns       a ---> b ---> a ---> …     TURNS times: half of a turn is L + 2 o
 *   burst       a ===> b ---> a            BURST messages, then one back: each after the first
 *                                          costs o, for that is what the slower end takes
 *   both ways   a <==> b, a <==> b         bytes go and come at once: G
 *
 * a is the lower rank of the two.
 */
#include "algo/probe.h"

#include <string.h>

#include "algo/figures.h"
#include "algo/steps.h"
#include "core/base.h"
#include "core/reduce.h"
#include "core/trace.h"

enum { TURNS = 12, BURST = 32, ROUNDS = 2, SMALL_BYTES = 8, KERNEL_BYTES = 32 << 10, REPEATS = 3 };

static bool is_first(const struct tci_shape *shape)
{
    return shape->rank < shape->root;
}

static bool is_alone(const struct tci_shape *shape)
{
    return shape->rank == shape->root;
}

static uint32_t turns_steps(const struct tci_shape *shape)
{
    return is_alone(shape) ? 0 : 2 * TURNS;
}

static void turns_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    if ((i % 2 == 0) != is_first(shape)) {
        *step_out = tci_recv(tci_dst(0), shape->root);
        return;
    }
    *step_out = tci_send(tci_src(0), shape->root, i);
    step_out->wait[0] = i > 0 ? 1 : 0;
}

static uint32_t burst_steps(const struct tci_shape *shape)
{
    return is_alone(shape) ? 0 : BURST + 1;
}

static void burst_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    if ((i < BURST) != is_first(shape)) {
        *step_out = tci_recv(tci_dst(0), shape->root);
        return;
    }
    *step_out = tci_send(tci_src(0), shape->root, i);
    step_out->fence = i == BURST;
}

static uint32_t both_ways_steps(const struct tci_shape *shape)
{
    return is_alone(shape) ? 0 : 2 * ROUNDS;
}

static void both_ways_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    *step_out =
        i % 2 == 0 ? tci_recv(tci_dst(0), shape->root) : tci_send(tci_src(0), shape->root, i - 1);
    step_out->fence = i % 2 == 0;
}

#define PROBE(what)                                                                                \
    {                                                                                              \
        .name = "probe", .coll = TCI_COLL_P2P, .layout = TCI_LAYOUT_CUT, .canonical = true,        \
        .steps = what##_steps, .blocks = tci_one, .slots = tci_none, .step = what##_step           \
    }

const struct tci_plan tci_probe_plans[TCI_PROBES] = {
    [TCI_PROBE_TURNS] = PROBE(turns),
    [TCI_PROBE_BURST] = PROBE(burst),
    [TCI_PROBE_BOTH_WAYS] = PROBE(both_ways),
};

uint32_t tci_probe_bytes(enum tci_probe probe)
{
    return probe == TCI_PROBE_BOTH_WAYS ? TCI_PROBE_BYTES_MAX : SMALL_BYTES;
}

void tci_probe_read(const uint64_t ns[TCI_PROBES], struct tci_link_figures *link_out)
{
    uint64_t half_ps = ns[TCI_PROBE_TURNS] * 1000 / (2 * TURNS);
    uint64_t burst_ps = ns[TCI_PROBE_BURST] * 1000, rest_ps = 2 * half_ps;
    uint64_t round_ps = ns[TCI_PROBE_BOTH_WAYS] * 1000 / ROUNDS;
    uint64_t each_ps = burst_ps > rest_ps ? (burst_ps - rest_ps) / (BURST - 1) : 0;

    /* The two ends of a message are in half a turn. */
    link_out->overhead_ps = tci_min(each_ps, half_ps / 4);
    link_out->latency_ps = half_ps - 2 * link_out->overhead_ps;
    /* A credit comes first, so there are two messages.  Where they take nearly all of the time,
     * what is left is mostly chance. */
    round_ps = tci_max(round_ps - tci_min(round_ps, 2 * half_ps), round_ps / 8);
    link_out->byte_fs = round_ps * 1000 / TCI_PROBE_BYTES_MAX;
}

/* ---- Kernels -------------------------------------------------------------------------------- */

static uint64_t time_fold(const struct tci_fold *fold, char *memory)
{
    const void *in[2] = {memory, memory + KERNEL_BYTES};
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < REPEATS; i++) {
        uint64_t begin = tci_trace_now(), ns;

        fold->many(memory + 2 * KERNEL_BYTES, in, 2, KERNEL_BYTES / fold->size);
        ns = tci_trace_now() - begin;
        least = tci_min(least, ns);
    }
    return least * 1000000 / (2 * KERNEL_BYTES);
}

void tci_probe_kernels(void *memory, uint64_t fold_fs[TCI_FOLD_CLASSES], uint64_t *copy_fs_out)
{
    uint64_t least = UINT64_MAX;

    memset(memory, 0, 3 * KERNEL_BYTES);
    for (int f = 0; f < TCI_FOLD_CLASSES; f++) {
        tc_dtype_t dtype = tci_fold_class_dtype((enum tci_fold_class)f);
        struct tci_fold fold;

        if (f == TCI_FOLD_EXACT)
            tci_fold_init_exact(&fold, dtype, TC_REDUCE_SUM);
        else
            tci_fold_init(&fold, dtype, TC_REDUCE_SUM);
        fold_fs[f] = time_fold(&fold, memory);
    }
    for (int i = 0; i < REPEATS; i++) {
        uint64_t begin = tci_trace_now();

        memcpy((char *)memory + KERNEL_BYTES, memory, KERNEL_BYTES);
        least = tci_min(least, tci_trace_now() - begin);
    }
    *copy_fs_out = least * 1000000 / KERNEL_BYTES;
}
