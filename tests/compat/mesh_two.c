/* mesh_two.c - a mesh of two processes: ordered calls, tagged calls of threads, many rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorcore/mesh_collective.h"
#include "tensorcore/tensorcore.h"

#include <pthread.h>
#include <stdint.h>

#include "ranks.h"

enum { COUNT = 48, ROUNDS = 32 };

static char urls[2][URL_BYTES];

static void check_ordered(tc_mesh_group_t *mesh, int rank)
{
    float x[COUNT], both[2 * COUNT];

    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i + 1) * (rank == 0 ? 2.0f : 5.0f);
    CHECK(rank, tc_mesh_allreduce(mesh, x, COUNT, TC_COLL_DTYPE_F32, TC_REDUCE_SUM) == TC_OK);
    for (int i = 0; i < COUNT; i++)
        CHECK(rank, x[i] == 7.0f * (float)(i + 1));

    for (int i = 0; i < COUNT; i++)
        x[i] = rank == 0 ? 1.0f : (float)i;
    CHECK(rank, tc_mesh_allreduce(mesh, x, COUNT, TC_COLL_DTYPE_F32, TC_REDUCE_MAX) == TC_OK);
    for (int i = 0; i < COUNT; i++)
        CHECK(rank, x[i] == (i < 1 ? 1.0f : (float)i));

    for (int root = 0; root < 2; root++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = rank == root ? (float)(100 * root + i) : -1.0f;
        CHECK(rank, tc_mesh_broadcast(mesh, x, COUNT, TC_COLL_DTYPE_F32, root) == TC_OK);
        for (int i = 0; i < COUNT; i++)
            CHECK(rank, x[i] == (float)(100 * root + i));
    }

    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(1000 * rank + i);
    CHECK(rank, tc_mesh_allgather(mesh, x, COUNT, both, TC_COLL_DTYPE_F32) == TC_OK);
    for (int i = 0; i < 2 * COUNT; i++)
        CHECK(rank, both[i] == (float)(1000 * (i / COUNT) + i % COUNT));
}

static void check_rounds(tc_mesh_group_t *mesh, int rank)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t x[3] = {round, rank, -round};

        CHECK(rank, tc_mesh_allreduce(mesh, x, 3, TC_COLL_DTYPE_I64, TC_REDUCE_SUM) == TC_OK);
        CHECK(rank, x[0] == 2 * round && x[1] == 1 && x[2] == -2 * round);
        CHECK(rank, tc_mesh_retained_snapshot_count(mesh) <= 2);
    }
}

struct job {
    tc_mesh_group_t *mesh;
    uint64_t id;
    float value;
    tc_status_t status;
};

static void *reduce(void *arg)
{
    struct job *job = arg;

    job->status = tc_mesh_allreduce_tagged(job->mesh, job->id, &job->value, 1, TC_COLL_DTYPE_F32,
                                           TC_REDUCE_SUM);
    return NULL;
}

static void check_tagged(tc_mesh_group_t *mesh, int rank)
{
    struct job jobs[2] = {{mesh, 31, rank == 0 ? 1.0f : 4.0f, TC_PENDING},
                          {mesh, 17, rank == 0 ? 2.0f : 8.0f, TC_PENDING}};
    pthread_t threads[2];
    float one = rank == 0 ? 9.0f : 0.0f, own = (float)rank, all[2];
    const uint64_t ids[] = {31, 17, 0, UINT64_MAX};

    /* Each rank starts with the other one's second. */
    for (int k = 0; k < 2; k++) {
        pthread_create(&threads[k], NULL, reduce, &jobs[rank == 0 ? k : 1 - k]);
        usleep(10000);
    }
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], NULL);
    CHECK(rank, jobs[0].status == TC_OK && jobs[0].value == 5.0f);
    CHECK(rank, jobs[1].status == TC_OK && jobs[1].value == 10.0f);
    CHECK(rank, tc_mesh_retained_snapshot_count(mesh) == 2);

    CHECK(rank, tc_mesh_broadcast_tagged(mesh, 0, &one, 1, TC_COLL_DTYPE_F32, 0) == TC_OK);
    CHECK(rank, one == 9.0f);
    CHECK(rank,
          tc_mesh_allgather_tagged(mesh, UINT64_MAX, &own, 1, all, TC_COLL_DTYPE_F32) == TC_OK);
    CHECK(rank, all[0] == 0.0f && all[1] == 1.0f);

    for (int k = 0; k < 4; k++) {
        CHECK(rank,
              tc_mesh_broadcast_tagged(mesh, ids[k], &one, 1, TC_COLL_DTYPE_F32, 0) == TC_ERR_BUSY);
        CHECK(rank, tc_mesh_collective_release_tag(mesh, ids[k]) == TC_OK);
        CHECK(rank, tc_mesh_collective_release_tag(mesh, ids[k]) == TC_ERR_INVALID_ARG);
    }
    CHECK(rank, tc_mesh_broadcast_tagged(mesh, 31, &one, 1, TC_COLL_DTYPE_F32, 1) == TC_OK);
    CHECK(rank, tc_mesh_collective_release_tag(mesh, 31) == TC_OK);
    CHECK(rank, tc_mesh_retained_snapshot_count(mesh) == 0);
}

static int run(int rank, void *arg)
{
    const char *peers[] = {urls[0], urls[1]};
    tc_context *context = NULL;
    tc_mesh_group_t *mesh = NULL;

    (void)arg;
    if (rank == 1)
        usleep(50000);
    CHECK(rank, tc_init(&context) == TC_OK);
    CHECK(rank, tc_mesh_group_init(context, 2, rank, peers, &mesh) == TC_OK);
    if (mesh == NULL) {
        fprintf(stderr, "rank %d: %s\n", rank, tc_last_error()->message);
        return 1;
    }
    CHECK(rank, strcmp(tc_mesh_allreduce_algorithm(mesh), "centralized") == 0);
    check_ordered(mesh, rank);
    check_rounds(mesh, rank);
    check_tagged(mesh, rank);
    CHECK(rank, tc_mesh_total_bytes(mesh) > 0);
    CHECK(rank, tc_mesh_group_shutdown(mesh) == TC_OK);
    CHECK(rank, tc_shutdown(context) == TC_OK);
    return failures;
}

int main(void)
{
    for (int k = 0; k < 2; k++)
        if (reserve_url(AF_INET, "tcp", urls[k]) < 0)
            return 77;
    return run_ranks(2, run, NULL);
}
