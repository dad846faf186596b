/* check.c - every element of an operation, against what it must be. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "control.h"

/* What a rank puts in: small whole numbers, whose sums are exact in every type and order. */
static unsigned input(int rank, size_t at)
{
    return (unsigned)rank + 1 + (unsigned)(at % 7);
}

static unsigned sum(int ranks, size_t at)
{
    return (unsigned)(ranks * (ranks + 1) / 2 + ranks * (int)(at % 7));
}

static uint16_t to_bf16(unsigned value)
{
    float wide = (float)value;
    uint32_t bits;

    memcpy(&bits, &wide, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* Of 1 to 2047. */
static uint16_t to_f16(unsigned value)
{
    unsigned exponent = 0;

    while (value >> (exponent + 1) != 0)
        exponent++;
    return (uint16_t)((exponent + 15) << 10 | (value << (10 - exponent) & 0x3ff));
}

static void put(void *memory, enum harness_dtype dtype, size_t at, unsigned value)
{
    if (dtype == HARNESS_F32)
        ((float *)memory)[at] = (float)value;
    else
        ((uint16_t *)memory)[at] = dtype == HARNESS_BF16 ? to_bf16(value) : to_f16(value);
}

static bool holds(const void *memory, enum harness_dtype dtype, size_t at, unsigned value)
{
    if (dtype == HARNESS_F32)
        return ((const float *)memory)[at] == (float)value;
    return ((const uint16_t *)memory)[at] ==
           (dtype == HARNESS_BF16 ? to_bf16(value) : to_f16(value));
}

static size_t count_out(const struct harness_call *call)
{
    return call->op == HARNESS_BARRIER          ? 0
           : call->op == HARNESS_REDUCE_SCATTER ? call->block
                                                : call->count;
}

static unsigned expected(const struct harness *harness, const struct harness_call *call, size_t at)
{
    size_t before = (size_t)harness->rank * call->block;

    switch (call->op) {
    case HARNESS_ALL_REDUCE:
        return sum(harness->ranks, at);
    case HARNESS_REDUCE_SCATTER:
        return sum(harness->ranks, before + at);
    case HARNESS_ALL_GATHER:
        return input((int)(at / call->block), at % call->block);
    case HARNESS_ALL_TO_ALL:
        return input((int)(at / call->block), before + at % call->block);
    default:
        return input(0, at);
    }
}

void check_call(struct harness *harness, const struct harness_call *call)
{
    size_t wrong = 0;

    /* Both, since a library may have an operation in place alone. */
    for (size_t i = 0; i < call->count; i++) {
        put(call->send, call->dtype, i, input(harness->rank, i));
        put(call->recv, call->dtype, i, input(harness->rank, i));
    }
    harness_meet(harness);
    harness->call(harness->library_arg, call);
    for (size_t i = 0; i < count_out(call); i++)
        wrong += !holds(call->recv, call->dtype, i, expected(harness, call, i));
    harness_meet(harness);
    memset(call->send, 0, call->bytes);
    memset(call->recv, 0, call->bytes);
    if (wrong == 0)
        return;
    fprintf(stderr, "%s %s: rank %d: %zu of %zu elements are wrong (operation %d, type %d)\n",
            harness->library, harness->variant, harness->rank, wrong, count_out(call),
            (int)call->op, (int)call->dtype);
    atomic_store(&harness->control->wrong, 1);
}
