/* surface.c - names, numbers and types of tensorcore's interface are those a program counts on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorcore/mesh_collective.h"
#include "tensorcore/tensorcore.h"

#include "ranks.h"

/* Each fails where it is compiled, as a program of tensorcore's would. */
#define IS(name, number) _Static_assert((name) == (number), #name)
#define TAKES(function, ...)                                                                       \
    _Static_assert(_Generic(&(function), __VA_ARGS__ : 1, default : 0), #function)

IS(TC_DIST_SINGLE, 0);
IS(TC_DIST_RING, 1);
IS(TC_DIST_GLOO, 2);

IS(TC_REDUCE_SUM, 0);
IS(TC_REDUCE_AVG, 1);
IS(TC_REDUCE_MAX, 2);
IS(TC_REDUCE_MIN, 3);

IS(TC_OK, 0);
IS(TC_ERR_NOT_INITIALIZED, -1);
IS(TC_ERR_ALREADY_INITIALIZED, -2);
IS(TC_ERR_NO_DEVICE, -3);
IS(TC_ERR_UNSUPPORTED_FAMILY, -4);
IS(TC_ERR_UNSUPPORTED_DTYPE, -5);
IS(TC_ERR_INVALID_SHAPE, -6);
IS(TC_ERR_INVALID_ARG, -7);
IS(TC_ERR_ALLOC, -8);
IS(TC_ERR_KERNEL_NOT_FOUND, -9);
IS(TC_ERR_PIPELINE, -10);
IS(TC_ERR_DISPATCH, -11);
IS(TC_ERR_INTERNAL, -99);

IS(TC_DTYPE_F16, 0);
IS(TC_DTYPE_BF16, 1);
IS(TC_DTYPE_F32, 2);
IS(TC_DTYPE_I8, 3);
IS(TC_DTYPE_I32, 4);
IS(TC_DTYPE_F64, 5);
IS(TC_DTYPE_SF64, 6);
IS(TC_DTYPE_DF64, 7);
IS(TC_DTYPE_FP24, 8);
IS(TC_DTYPE_FP53, 9);

TAKES(tc_dist_init,
      tc_status_t (*)(tc_context *, tc_dist_backend_t, int, int, const char *, tc_dist_ctx **));
TAKES(tc_dist_finalize, tc_status_t (*)(tc_dist_ctx *));
TAKES(tc_dist_world_size, int (*)(const tc_dist_ctx *));
TAKES(tc_dist_rank, int (*)(const tc_dist_ctx *));
TAKES(tc_allreduce,
      tc_status_t (*)(tc_dist_ctx *, tc_buffer *, size_t, tc_dtype_t, tc_reduce_op_t));
TAKES(tc_broadcast, tc_status_t (*)(tc_dist_ctx *, tc_buffer *, size_t, tc_dtype_t, int));
TAKES(tc_allgather,
      tc_status_t (*)(tc_dist_ctx *, const tc_buffer *, tc_buffer *, size_t, tc_dtype_t));
TAKES(tc_barrier, tc_status_t (*)(tc_dist_ctx *));
TAKES(tc_mesh_collective_release_tag, tc_status_t (*)(tc_mesh_group_t *, uint64_t));
TAKES(tc_mesh_allreduce_algorithm, const char *(*)(const tc_mesh_group_t *));

/* What is not carried is said: here the emulated types, and a ring without a place to meet. */
static void check_refusals(tc_context *context)
{
    static const tc_dtype_t none[] = {TC_DTYPE_SF64, TC_DTYPE_DF64, TC_DTYPE_FP24, TC_DTYPE_FP53};
    tc_dist_ctx *alone = NULL, *ring = NULL;
    tc_buffer *buffer = NULL;

    CHECK(0, tc_dist_init(context, TC_DIST_SINGLE, 1, 0, "single://", &alone) == TC_OK);
    CHECK(0, tc_buffer_alloc(context, 64, &buffer) == TC_OK);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        CHECK(0,
              tc_allreduce(alone, buffer, 1, none[i], TC_REDUCE_SUM) == TC_ERR_UNSUPPORTED_DTYPE);
        CHECK(0, tc_broadcast(alone, buffer, 1, none[i], 0) == TC_ERR_UNSUPPORTED_DTYPE);
    }
    CHECK(0, tc_dist_init(context, TC_DIST_RING, 2, 0, "single://", &ring) != TC_OK);
    CHECK(0, ring == NULL && tc_last_error()->message[0] != '\0');
    CHECK(0, tc_buffer_free(context, buffer) == TC_OK);
    CHECK(0, tc_dist_finalize(alone) == TC_OK);
}

int main(void)
{
    tc_context *context = NULL;

    if (tc_init(&context) != TC_OK)
        return 1;
    check_refusals(context);
    CHECK(0, tc_shutdown(context) == TC_OK);
    return failures;
}
