/* bench_mpi.c - times MPI_Allreduce in the harness of the peers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>

#include "harness.h"

static void call(void *arg, size_t count)
{
    const struct harness *harness = arg;

    MPI_Allreduce(MPI_IN_PLACE, harness->buffer, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void settle(void *arg)
{
    (void)arg;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Open MPI has no thread of its own: looking for a message lets it carry on. */
static void progress(void *arg)
{
    int found;

    (void)arg;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    struct harness harness = {.library = "open_mpi"};
    int exit_code;

    MPI_Init(&argc, &argv);
    harness_parse(&harness, argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &harness.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &harness.ranks);
    harness.library_arg = &harness;
    harness.call = call;
    harness.settle = settle;
    harness.progress = progress;
    harness_open(&harness);
    exit_code = harness_run(&harness);
    MPI_Finalize();
    return exit_code;
}
