/* bench_mpi.c - times the operations of an MPI in the harness of the peers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <stddef.h>

#include "harness.h"

/* What is in flight; an MPI has no priorities, so that nothing goes beside the slots. */
static MPI_Request requests[HARNESS_SLOTS];

/* f32 alone.  Open MPI 4.1 has no smaller floats, and MPICH 4.0 has a name for f16 but aborts when
 * it is summed. */
static bool prepare(void *arg, const struct harness_call *call)
{
    (void)arg;
    return call->dtype == HARNESS_F32;
}

static void run(void *arg, const struct harness_call *call)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_FLOAT;
    int count = (int)call->count, block = (int)call->block;

    (void)arg;
    switch (call->op) {
    case HARNESS_ALL_REDUCE:
        MPI_Allreduce(MPI_IN_PLACE, call->recv, count, type, MPI_SUM, world);
        break;
    case HARNESS_REDUCE_SCATTER:
        MPI_Reduce_scatter_block(call->send, call->recv, block, type, MPI_SUM, world);
        break;
    case HARNESS_ALL_GATHER:
        MPI_Allgather(call->send, block, type, call->recv, block, type, world);
        break;
    case HARNESS_BROADCAST:
        MPI_Bcast(call->recv, count, type, 0, world);
        break;
    case HARNESS_ALL_TO_ALL:
        MPI_Alltoall(call->send, block, type, call->recv, block, type, world);
        break;
    default:
        MPI_Barrier(world);
    }
}

/* All-reduces: nothing else is started without waiting for it. */
static void start(void *arg, const struct harness_call *call)
{
    (void)arg;
    MPI_Iallreduce(MPI_IN_PLACE, call->recv, (int)call->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                   &requests[call->slot]);
}

static bool is_done(void *arg, int slot)
{
    int found = 0;

    (void)arg;
    MPI_Test(&requests[slot], &found, MPI_STATUS_IGNORE);
    return found != 0;
}

static void wait_slot(void *arg, int slot)
{
    (void)arg;
    MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
}

static void settle(void *arg)
{
    (void)arg;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* An MPI has no thread of its own: looking for a message lets it carry on. */
static void progress(void *arg)
{
    int found;

    (void)arg;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
#ifdef MPICH_VERSION
    struct harness harness = {.library = "mpich"};
#else
    struct harness harness = {.library = "open_mpi"};
#endif
    int exit_code;

    MPI_Init(&argc, &argv);
    harness_parse(&harness, argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &harness.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &harness.ranks);
    harness.prepare = prepare;
    harness.call = run;
    harness.start = start;
    harness.is_done = is_done;
    harness.wait = wait_slot;
    harness.settle = settle;
    harness.progress = progress;
    harness_open(&harness);
    exit_code = harness_run(&harness);
    MPI_Finalize();
    return exit_code;
}
