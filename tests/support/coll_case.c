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
    bool is_exact = what->numerics == TC_NUMERICS_EXACT;
    uint64_t who = (uint64_t)(is_exact ? rank / 2 : rank);
    uint64_t state = 0x9e3779b97f4a7c15u * (what->seed + 1u) + who * 7919u + 1u;
    size_t each = tc_dtype_size(what->dtype);

    for (size_t i = 0; i < bytes; i += each) {
        uint64_t bits = next(&state);
        if (what->numerics == TC_NUMERICS_FAST) /* sums to 8 are exact in every type */
            put_bit(data + i, what->dtype, rank < 8 && (bits >> 20 & 1));
        else
            memcpy(data + i, &bits, each);
        if (is_exact && rank % 2 == 1) /* mostly the opposite of the rank before */
            data[i + (bits >> 40 & 3 ? each - 1 : 0)] ^= 0x80;
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

/* ---- who has what ------------------------------------------------------------------------- */

bool coll_folds(enum coll_kind kind)
{
    return kind == COLL_ALLREDUCE || kind == COLL_REDUCE_SCATTER || kind == COLL_REDUCE ||
           kind == COLL_REDUCE_SCATTERV;
}

bool coll_can_be_in_place(enum coll_kind kind)
{
    return kind != COLL_ALLTOALLV;
}

static bool is_v(enum coll_kind kind)
{
    return kind >= COLL_ALLGATHERV;
}

/* Elements that rank `from` has for rank `to`, of a v-form: some none, none alike. */
static size_t v_count(const struct coll_case *what, int from, int to)
{
    unsigned salt = (unsigned)(from * 3 + to * 5) + what->seed;

    return salt % 4 == 1 ? 0 : what->count * (salt % 7) / 4;
}

/* Of block b, where all ranks know the counts. */
static size_t b_count(const struct coll_run *run, int b)
{
    return is_v(run->what.kind) ? v_count(&run->what, b, b) : run->what.count;
}

/* Bytes before block b of those that follow on one another. */
static size_t b_before(const struct coll_run *run, int b)
{
    size_t count = 0;

    for (int r = 0; r < b; r++)
        count += b_count(run, r);
    return count * tc_dtype_size(run->what.dtype);
}

/* All that a rank sends, or receives, in an all-to-all-v. */
static size_t v_sum(const struct coll_run *run, int rank, bool is_sent, int before)
{
    size_t count = 0;

    for (int r = 0; r < before; r++)
        count += is_sent ? v_count(&run->what, rank, r) : v_count(&run->what, r, rank);
    return count * tc_dtype_size(run->what.dtype);
}

static size_t send_bytes(const struct coll_run *run, int rank)
{
    switch (run->what.kind) {
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTERV:
    case COLL_ALLTOALL:
        return b_before(run, run->size);
    case COLL_SCATTER:
        return rank == run->what.root ? b_before(run, run->size) : 0;
    case COLL_ALLTOALLV:
        return v_sum(run, rank, true, run->size);
    default:
        return b_count(run, rank) * tc_dtype_size(run->what.dtype);
    }
}

static size_t recv_bytes(const struct coll_run *run, int rank)
{
    switch (run->what.kind) {
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
    case COLL_ALLTOALL:
        return b_before(run, run->size);
    case COLL_GATHER:
        return rank == run->what.root ? b_before(run, run->size) : run->unit;
    case COLL_ALLTOALLV:
        return v_sum(run, rank, false, run->size);
    default: /* a non-root's buffer of a reduce is there, and has to stay as it is */
        return b_count(run, rank) * tc_dtype_size(run->what.dtype);
    }
}

/* Where in place one buffer lies in the other one. */
static size_t in_place_shift(const struct coll_run *run, int rank)
{
    switch (run->what.kind) {
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
    case COLL_REDUCE_SCATTERV:
        return b_before(run, rank);
    case COLL_GATHER:
    case COLL_SCATTER:
        return rank == run->what.root ? (size_t)rank * run->unit : 0;
    default:
        return 0;
    }
}

/* A rank without one of the two buffers is never in place. */
static bool shares(const struct coll_run *run, int rank)
{
    bool needs_root = run->what.kind == COLL_GATHER || run->what.kind == COLL_SCATTER ||
                      run->what.kind == COLL_REDUCE;

    return run->what.in_place && (!needs_root || rank == run->what.root);
}

void coll_prepare(struct coll_run *run, const struct coll_case *what, int size)
{
    memset(run, 0, sizeof(*run));
    run->what = *what;
    run->size = size;
    run->unit = what->count * tc_dtype_size(what->dtype);
    for (int r = 0; r < size; r++) {
        size_t sent = send_bytes(run, r), received = recv_bytes(run, r);
        run->send_bytes[r] = sent;
        run->recv_bytes[r] = received;
        run->input[r] = malloc(sent + 1);
        assert_non_null(run->input[r]);
        fill(run->input[r], sent, what, r);
        if (!shares(run, r)) {
            run->recv[r] = guarded(received);
            run->send[r] = guarded(sent);
        } else if (received >= sent) {
            run->recv[r] = guarded(received);
            run->send[r] = run->recv[r] + in_place_shift(run, r);
        } else {
            run->send[r] = guarded(sent);
            run->recv[r] = run->send[r] + in_place_shift(run, r);
        }
        memcpy(run->send[r], run->input[r], sent);
    }
}

/* ---- the call ----------------------------------------------------------------------------- */

static tc_future *start_rooted(const struct coll_case *what, tc_dist_ctx *group, void *send,
                               void *recv, const tc_options *options)
{
    switch (what->kind) {
    case COLL_REDUCE:
        return tc_reduce_async(group, what->tag, send, recv, what->count, what->dtype, what->op,
                               what->root, options);
    case COLL_GATHER:
        return tc_gather_async(group, what->tag, send, recv, what->count, what->dtype, what->root,
                               options);
    case COLL_SCATTER:
        return tc_scatter_async(group, what->tag, send, recv, what->count, what->dtype, what->root,
                                options);
    default:
        return tc_broadcast_async(group, what->tag, send, what->count, what->dtype, what->root,
                                  options);
    }
}

/* Offsets are given with every other seed; they are those that NULL stands for. */
static tc_future *start_v(const struct coll_run *run, tc_dist_ctx *group, int rank, void *send,
                          void *recv, const tc_options *options)
{
    const struct coll_case *what = &run->what;
    size_t sent[WORLD_MAX], received[WORLD_MAX], from[WORLD_MAX], to[WORLD_MAX];
    size_t each = tc_dtype_size(what->dtype);
    bool is_alltoall = what->kind == COLL_ALLTOALLV, gives = what->seed % 2 == 0;

    for (int r = 0; r < run->size; r++) {
        sent[r] = is_alltoall ? v_count(what, rank, r) : b_count(run, r);
        received[r] = is_alltoall ? v_count(what, r, rank) : b_count(run, r);
        from[r] = (is_alltoall ? v_sum(run, rank, true, r) : b_before(run, r)) / each;
        to[r] = (is_alltoall ? v_sum(run, rank, false, r) : b_before(run, r)) / each;
    }
    if (what->kind == COLL_REDUCE_SCATTERV)
        return tc_reduce_scatterv_async(group, what->tag, send, recv, sent, what->dtype, what->op,
                                        options);
    if (what->kind == COLL_ALLGATHERV)
        return tc_allgatherv_async(group, what->tag, send, sent[rank], recv, sent,
                                   gives ? from : NULL, what->dtype, options);
    return tc_alltoallv_async(group, what->tag, send, sent, gives ? from : NULL, recv, received,
                              gives ? to : NULL, what->dtype, options);
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
    case COLL_ALLGATHER:
        run->future[rank] =
            tc_allgather_async(group, what->tag, send, recv, what->count, what->dtype, &options);
        break;
    case COLL_ALLTOALL:
        run->future[rank] =
            tc_alltoall_async(group, what->tag, send, recv, what->count, what->dtype, &options);
        break;
    default:
        run->future[rank] = is_v(what->kind) ? start_v(run, group, rank, send, recv, &options)
                                             : start_rooted(what, group, send, recv, &options);
    }
}

/* ---- what comes of it --------------------------------------------------------------------- */

static void expect_fold(const struct coll_run *run, int rank, unsigned char *out)
{
    const struct coll_case *what = &run->what;
    const void *in[WORLD_MAX];
    bool is_cut = what->kind == COLL_REDUCE_SCATTER || what->kind == COLL_REDUCE_SCATTERV;
    size_t skip = is_cut ? b_before(run, rank) : 0;

    for (int r = 0; r < run->size; r++)
        in[r] = run->input[r] + skip;
    assert_int_equal(
        (what->numerics == TC_NUMERICS_EXACT ? tc_reduce_reference_exact : tc_reduce_reference)(
            out, in, run->size, is_cut ? b_count(run, rank) : what->count, what->dtype, what->op),
        TC_OK);
}

/* What rank must have now, in `out`. */
static void expect(const struct coll_run *run, int rank, unsigned char *out)
{
    const struct coll_case *what = &run->what;
    size_t unit = run->unit;
    bool is_idle = rank != what->root;

    memset(out, GUARD_BYTE, run->recv_bytes[rank]);
    if (what->kind == COLL_BROADCAST || what->kind == COLL_SCATTER) {
        size_t skip = what->kind == COLL_SCATTER ? (size_t)rank * unit : 0;
        memcpy(out, run->input[what->root] + skip, unit);
    } else if ((what->kind == COLL_GATHER || what->kind == COLL_REDUCE) && is_idle) {
        return; /* as it was */
    } else if (coll_folds(what->kind)) {
        expect_fold(run, rank, out);
    } else {
        for (int r = 0; r < run->size; r++) {
            size_t skip = what->kind == COLL_ALLTOALL    ? (size_t)rank * unit
                          : what->kind == COLL_ALLTOALLV ? v_sum(run, r, true, rank)
                                                         : 0;
            size_t bytes = what->kind == COLL_ALLTOALLV
                               ? v_sum(run, rank, false, r + 1) - v_sum(run, rank, false, r)
                               : b_count(run, r) * tc_dtype_size(what->dtype);
            memcpy(out, run->input[r] + skip, bytes);
            out += bytes;
        }
    }
}

static void check_rank(struct coll_run *run, int r, unsigned char *wanted)
{
    const unsigned char *got = run->what.kind == COLL_BROADCAST ? run->send[r] : run->recv[r];
    size_t each = tc_dtype_size(run->what.dtype);
    char text[160];

    expect(run, r, wanted);
    for (size_t i = 0; i < run->recv_bytes[r]; i += each)
        if (memcmp(wanted + i, got + i, each) != 0)
            fail_msg("%s: element %zu of rank %d is wrong", coll_describe(run, text, sizeof(text)),
                     i / each, r);
    if (!shares(run, r)) {
        check_guards(run, run->send[r], run->send_bytes[r]);
        check_guards(run, run->recv[r], run->recv_bytes[r]);
    } else if (run->recv_bytes[r] >= run->send_bytes[r]) {
        check_guards(run, run->recv[r], run->recv_bytes[r]);
    } else {
        check_guards(run, run->send[r], run->send_bytes[r]);
    }
}

void coll_check(struct coll_run *run)
{
    for (int r = 0; r < run->size; r++) {
        unsigned char *wanted = malloc(run->recv_bytes[r] + 1);
        assert_non_null(wanted);
        check_rank(run, r, wanted);
        free(wanted);
    }
    coll_drop(run);
}

void coll_drop(struct coll_run *run)
{
    for (int r = 0; r < run->size; r++) {
        tc_future_release(run->future[r]);
        free(run->input[r]);
        if (!shares(run, r) || run->send_bytes[r] > run->recv_bytes[r])
            free(run->send[r] - GUARD);
        if (!shares(run, r) || run->recv_bytes[r] >= run->send_bytes[r])
            free(run->recv[r] - GUARD);
    }
    memset(run, 0, sizeof(*run));
}

const char *coll_describe(const struct coll_run *run, char *text, size_t text_bytes)
{
    static const char *const names[] = {"allreduce",  "reduce_scatter",  "broadcast", "allgather",
                                        "reduce",     "gather",          "scatter",   "alltoall",
                                        "allgatherv", "reduce_scatterv", "alltoallv"};
    const struct coll_case *what = &run->what;

    snprintf(text, text_bytes, "%s of %zu %s, %s, root %d%s%s, algorithm %s, %d ranks",
             names[what->kind], what->count, tc_dtype_name(what->dtype),
             tc_reduce_op_name(what->op), what->root, what->in_place ? ", in place" : "",
             what->numerics == TC_NUMERICS_FAST    ? ", fast"
             : what->numerics == TC_NUMERICS_EXACT ? ", exact"
                                                   : "",
             what->algorithm == NULL ? "chosen" : what->algorithm, run->size);
    return text;
}
