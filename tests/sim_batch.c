/* sim_batch.c - many collectives at once on simulated ranks, each checked against a plain loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base.h"

void sim_shuffle(int *order, int count, uint64_t *random)
{
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int other = (int)(sim_random(random) % (uint64_t)(i + 1)), kept = order[i];

        order[i] = order[other];
        order[other] = kept;
    }
}

void sim_batch_settle(struct sim_batch *batch, struct coll_run *run)
{
    size_t n = batch->world->size;
    const char *where = batch->where != NULL ? batch->where : "";
    char text[160];

    if (!sim_world_run(batch->world, run->future, n, TCI_NEVER))
        fail_msg("%s%s: hangs", coll_describe(run, text, sizeof(text)), where);
    for (size_t r = 0; r < n; r++)
        if (tc_future_test(run->future[r]) != TC_OK)
            fail_msg("%s%s: %s", coll_describe(run, text, sizeof(text)), where,
                     tc_future_error(run->future[r])->message);
}

void sim_batch_flush(struct sim_batch *batch)
{
    int order[SIM_BATCH];

    for (uint32_t r = 0; r < batch->world->size; r++) {
        sim_shuffle(order, batch->count, &batch->random);
        for (int i = 0; i < batch->count; i++)
            coll_start(&batch->runs[order[i]], sim_group(batch->world, r), (int)r);
    }
    for (int i = 0; i < batch->count; i++)
        sim_batch_settle(batch, &batch->runs[i]);
    for (int i = 0; i < batch->count; i++)
        coll_check(&batch->runs[i]);
    batch->total += (uint64_t)batch->count;
    batch->count = 0;
    assert_int_equal(sim_net_early(batch->world->net), 0);
}

void sim_batch_add(struct sim_batch *batch, struct coll_case what)
{
    what.tag = (uint64_t)batch->count * UINT64_C(0x9e3779b97f4a7c15);
    what.seed = (unsigned)(batch->total * SIM_BATCH + (uint64_t)batch->count);
    coll_prepare(&batch->runs[batch->count++], &what, (int)batch->world->size);
    if (batch->count == (batch->room != 0 ? batch->room : SIM_BATCH))
        sim_batch_flush(batch);
}

int sim_kinds_of(const struct tci_plan *plan, enum coll_kind kinds_out[2])
{
    static const enum tci_coll colls[COLL_KINDS] = {
        [COLL_ALLREDUCE] = TCI_COLL_ALLREDUCE,   [COLL_REDUCE_SCATTER] = TCI_COLL_REDUCE_SCATTER,
        [COLL_BROADCAST] = TCI_COLL_BROADCAST,   [COLL_ALLGATHER] = TCI_COLL_ALLGATHER,
        [COLL_REDUCE] = TCI_COLL_REDUCE,         [COLL_GATHER] = TCI_COLL_GATHER,
        [COLL_SCATTER] = TCI_COLL_SCATTER,       [COLL_ALLTOALL] = TCI_COLL_ALLTOALL,
        [COLL_ALLGATHERV] = TCI_COLL_ALLGATHERV, [COLL_REDUCE_SCATTERV] = TCI_COLL_REDUCE_SCATTERV,
        [COLL_ALLTOALLV] = TCI_COLL_ALLTOALLV};
    int count = 0;

    for (int kind = 0; kind < COLL_KINDS; kind++)
        if (colls[kind] == plan->coll || (tci_coll_base(colls[kind]) == plan->coll && !plan->equal))
            kinds_out[count++] = kind;
    return count;
}
