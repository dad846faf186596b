/* mesh_three.c - a mesh of three processes: which algorithm reduces, chosen and forced. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorcore/mesh_collective.h"
#include "tensorcore/tensorcore.h"

#include <stdlib.h>

#include "ranks.h"

enum { RANKS = 3, COUNT = 20000 };

static char urls[RANKS][URL_BYTES];

static int run(int rank, void *arg)
{
    const char *algorithm = arg;
    const char *peers[] = {urls[0], urls[1], urls[2]};
    static float x[COUNT];
    tc_context *context = NULL;
    tc_mesh_group_t *mesh = NULL;

    CHECK(rank, tc_init(&context) == TC_OK);
    if (tc_mesh_group_init(context, RANKS, rank, peers, &mesh) != TC_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, tc_last_error()->message);
        return 1;
    }
    CHECK(rank, strcmp(tc_mesh_allreduce_algorithm(mesh), algorithm) == 0);
    for (size_t count = 1; count <= COUNT; count = count * 10 + 7) {
        for (size_t i = 0; i < count; i++)
            x[i] = (float)(rank + 1) * (float)(i % 100);
        CHECK(rank, tc_mesh_allreduce(mesh, x, count, TC_COLL_DTYPE_F32, TC_REDUCE_AVG) == TC_OK);
        for (size_t i = 0; i < count; i++)
            if (x[i] != 2.0f * (float)(i % 100)) {
                CHECK(rank, x[i] == 2.0f * (float)(i % 100));
                break;
            }
    }
    CHECK(rank, tc_mesh_group_shutdown(mesh) == TC_OK);
    CHECK(rank, tc_shutdown(context) == TC_OK);
    return failures;
}

static int refuses_unknown(void)
{
    const char *peers[] = {urls[0], urls[1], urls[2]};
    tc_context *context = NULL;
    tc_mesh_group_t *mesh = NULL;

    setenv("TC_MESH_ALLREDUCE_ALGORITHM", "tree", 1);
    CHECK(0, tc_init(&context) == TC_OK);
    CHECK(0, tc_mesh_group_init(context, RANKS, 0, peers, &mesh) == TC_ERR_INVALID_ARG);
    CHECK(0, strstr(tc_last_error()->message, "centralized, all_to_all or auto") != NULL);
    CHECK(0, tc_shutdown(context) == TC_OK);
    unsetenv("TC_MESH_ALLREDUCE_ALGORITHM");
    return failures;
}

int main(void)
{
    static const struct {
        const char *forced;
        char expected[16];
    } cases[] = {{NULL, "all_to_all"},
                 {"auto", "all_to_all"},
                 {"centralized", "centralized"},
                 {"all_to_all", "all_to_all"}};
    int failed = 0;

    for (int k = 0; k < RANKS; k++)
        if (reserve_url(AF_INET, "tcp", urls[k]) < 0)
            return 77;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char expected[16];

        memcpy(expected, cases[k].expected, sizeof expected);
        if (cases[k].forced != NULL)
            setenv("TC_MESH_ALLREDUCE_ALGORITHM", cases[k].forced, 1);
        failed += run_ranks(RANKS, run, expected);
    }
    unsetenv("TC_MESH_ALLREDUCE_ALGORITHM");
    return failed + refuses_unknown();
}
