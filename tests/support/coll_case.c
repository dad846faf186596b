/* coll_case.c - data, calls and expectations of one collective. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/coll_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* 0 or 1 in a type: sums and products of such are exact in any order, for up to 9 ranks. */
static void put_bit(unsigned char *to, tc_dtype_t dtype, bool bit)
{
    static const struct {
        tc_dtype_t dtype;
        unsigned one;
    } floats[] = {{TC_DTYPE_F16, 0x3c00},     {TC_DTYPE_BF16, 0x3f80}, {TC_DTYPE_F32, 0x3f800000},
                  {TC_DTYPE_C64, 0x3f800000}, {TC_DTYPE_F8E4M3, 0x38}, {TC_DTYPE_F8E5M2, 0x3c}};
    uint64_t one = 1;

    if (dtype == TC_DTYPE_F64)
        one = UINT64_C(0x3ff0000000000000);
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        if (floats[i].dtype == dtype)
            one = floats[i].one;
    one = bit ? one : 0;
    memcpy(to, &one, tc_dtype_size(dtype)); /* little endian */
}

static void fill(unsigned char *data, size_t bytes, const struct coll_case *what, int rank)
{
    uint64_t state = 0x9e3779b97f4a7c15u * (what->seed + 1u) + (uint64_t)rank * 7919u + 1u;
    size_t each = tc_dtype_size(what->dtype);

    for (size_t i = 0; i < bytes; i += each) {
        uint64_t bits = next(&state);
        if (what->numerics == TC_NUMERICS_FAST)
            put_bit(data + i, what->dtype, bits >> 20 & 1);
        else
            memcpy(data + i, &bits, each);
    }
}

static unsigned char *guarded(size_t bytes)
{
    unsigned char *block = malloc(bytes + 2 * GUARD);

    assert_non_null(block);
    memset(block, GUARD_BYTE, bytes + 2 * GUARD);
    return block + GUARD;
}

static void check_guards(const struct coll_run *run, const unsigned char *data, size_t bytes)
{
    char text[160];

    for (size_t i = 0; i < GUARD; i++)
        if (data[-1 - (ptrdiff_t)i] != GUARD_BYTE || data[bytes + i] != GUARD_BYTE)
            fail_msg("%s: memory beside a buffer was touched",
                     coll_describe(run, text, sizeof(text)));
}

void coll_prepare(struct coll_run *run, const struct coll_case *what, int size)
{
    size_t unit = what->count * tc_dtype_size(what->dtype), n = (size_t)size;

    memset(run, 0, sizeof(*run));
    run->what = *what;
    run->size = size;
    run->send_bytes = what->kind == COLL_REDUCE_SCATTER ? n * unit : unit;
    run->recv_bytes = what->kind == COLL_ALLGATHER ? n * unit : unit;
    for (int r = 0; r < size; r++) {
        run->input[r] = malloc(run->send_bytes + 1);
        assert_non_null(run->input[r]);
        fill(run->input[r], run->send_bytes, what, r);
        size_t larger = run->send_bytes > run->recv_bytes ? run->send_bytes : run->recv_bytes;
        run->recv[r] = guarded(what->in_place ? larger : run->recv_bytes);
        run->send[r] = run->recv[r];
        if (!what->in_place)
            run->send[r] = guarded(run->send_bytes);
        else if (what->kind == COLL_ALLGATHER)
            run->send[r] += (size_t)r * unit;
        memcpy(run->send[r], run->input[r], run->send_bytes);
    }
}

void coll_start(struct coll_run *run, tc_dist_ctx *group, int rank)
{
    const struct coll_case *what = &run->what;
    void *send = run->send[rank], *recv = run->recv[rank];
    tc_options options;

    tc_options_default(&options);
    options.numerics = what->numerics;
    options.algorithm = what->algorithm;
    if (what->count == 0)
        send = recv = NULL;
    switch (what->kind) {
    case COLL_ALLREDUCE:
        run->future[rank] = tc_allreduce_async(group, what->tag, send, recv, what->count,
                                               what->dtype, what->op, &options);
        break;
    case COLL_REDUCE_SCATTER:
        run->future[rank] = tc_reduce_scatter_async(group, what->tag, send, recv, what->count,
                                                    what->dtype, what->op, &options);
        break;
    case COLL_BROADCAST:
        run->future[rank] = tc_broadcast_async(group, what->tag, send, what->count, what->dtype,
                                               what->root, &options);
        break;
    default:
        run->future[rank] =
            tc_allgather_async(group, what->tag, send, recv, what->count, what->dtype, &options);
    }
}

/* What rank must have now, in `out`. */
static void expect(const struct coll_run *run, int rank, unsigned char *out)
{
    const struct coll_case *what = &run->what;
    const void *in[WORLD_MAX];
    size_t unit = what->count * tc_dtype_size(what->dtype);
    size_t skip = what->kind == COLL_REDUCE_SCATTER ? (size_t)rank * unit : 0;

    if (what->kind == COLL_BROADCAST) {
        memcpy(out, run->input[what->root], unit);
    } else if (what->kind == COLL_ALLGATHER) {
        for (int r = 0; r < run->size; r++)
            memcpy(out + (size_t)r * unit, run->input[r], unit);
    } else {
        for (int r = 0; r < run->size; r++)
            in[r] = run->input[r] + skip;
        assert_int_equal(
            tc_reduce_reference(out, in, run->size, what->count, what->dtype, what->op), TC_OK);
    }
}

void coll_check(struct coll_run *run)
{
    unsigned char *wanted = malloc(run->recv_bytes + 1);
    char text[160];

    assert_non_null(wanted);
    for (int r = 0; r < run->size; r++) {
        const unsigned char *got = run->what.kind == COLL_BROADCAST ? run->send[r] : run->recv[r];
        size_t each = tc_dtype_size(run->what.dtype);
        expect(run, r, wanted);
        for (size_t i = 0; i < run->recv_bytes; i += each)
            if (memcmp(wanted + i, got + i, each) != 0)
                fail_msg("%s: element %zu of rank %d is wrong",
                         coll_describe(run, text, sizeof(text)), i / each, r);
        if (!run->what.in_place)
            check_guards(run, run->send[r], run->send_bytes);
        size_t larger = run->send_bytes > run->recv_bytes ? run->send_bytes : run->recv_bytes;
        check_guards(run, run->recv[r], run->what.in_place ? larger : run->recv_bytes);
    }
    free(wanted);
    coll_drop(run);
}

void coll_drop(struct coll_run *run)
{
    for (int r = 0; r < run->size; r++) {
        tc_future_release(run->future[r]);
        free(run->input[r]);
        if (!run->what.in_place)
            free(run->send[r] - GUARD);
        free(run->recv[r] - GUARD);
    }
    memset(run, 0, sizeof(*run));
}

const char *coll_describe(const struct coll_run *run, char *text, size_t text_bytes)
{
    static const char *const names[] = {"allreduce", "reduce_scatter", "broadcast", "allgather"};
    const struct coll_case *what = &run->what;

    snprintf(text, text_bytes, "%s of %zu %s, %s, root %d%s%s, algorithm %s, %d ranks",
             names[what->kind], what->count, tc_dtype_name(what->dtype),
             tc_reduce_op_name(what->op), what->root, what->in_place ? ", in place" : "",
             what->numerics == TC_NUMERICS_FAST ? ", fast" : "",
             what->algorithm == NULL ? "chosen" : what->algorithm, run->size);
    return text;
}
