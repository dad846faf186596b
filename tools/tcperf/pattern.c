/* pattern.c - elements that differ from rank to rank, and how close to them a result is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include <math.h>
#include <string.h>

/* How a float is put together; sign, exponent and mantissa from the top. */
struct form {
    tc_dtype_t dtype;
    int size;     /* bytes of a number */
    int mantissa; /* bits */
    int bias;
};

static const struct form forms[] = {
    {TC_DTYPE_F64, 8, 52, 1023}, {TC_DTYPE_F32, 4, 23, 127}, {TC_DTYPE_C64, 4, 23, 127},
    {TC_DTYPE_F16, 2, 10, 15},   {TC_DTYPE_BF16, 2, 7, 127}, {TC_DTYPE_F8E4M3, 1, 3, 7},
    {TC_DTYPE_F8E5M2, 1, 2, 15},
};

/* NULL for integers. */
static const struct form *form_of(tc_dtype_t dtype)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].dtype == dtype)
            return &forms[i];
    return NULL;
}

/* Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators". */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t nth(uint64_t key, uint64_t index)
{
    return mix(key + index * UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t pattern_key(int check, int rank, int tag_index)
{
    return nth(nth(nth(1, (uint64_t)check), (uint64_t)rank), (uint64_t)tag_index);
}

static uint64_t make_float(const struct form *form, uint64_t noise)
{
    uint64_t sign = noise >> 63;
    uint64_t exponent = (uint64_t)form->bias - (noise >> 62 & 1);
    uint64_t mantissa = noise & ((UINT64_C(1) << form->mantissa) - 1);

    return sign << (8 * form->size - 1) | exponent << form->mantissa | mantissa;
}

/* The memory of the host is little-endian, as tcdist's elements are on the wire. */
void pattern_fill(void *out, tc_dtype_t dtype, uint64_t key, size_t first, size_t count)
{
    const struct form *form = form_of(dtype);
    size_t size = form == NULL ? tc_dtype_size(dtype) : (size_t)form->size;
    size_t numbers = tc_dtype_size(dtype) / size; /* 2 in a complex element */
    unsigned char *to = out;

    for (size_t i = first * numbers; i < (first + count) * numbers; i++) {
        uint64_t noise = nth(key, i);
        uint64_t bits = form == NULL ? noise : make_float(form, noise);

        memcpy(to, &bits, size);
        to += size;
    }
}

static double decode(const struct form *form, const unsigned char *at)
{
    uint64_t bits = 0;
    uint64_t mantissa;
    int exponent_bits = 8 * form->size - 1 - form->mantissa;
    int exponent;
    double value;

    memcpy(&bits, at, (size_t)form->size);
    mantissa = bits & ((UINT64_C(1) << form->mantissa) - 1);
    exponent = (int)(bits >> form->mantissa & ((UINT64_C(1) << exponent_bits) - 1));
    if (exponent == (1 << exponent_bits) - 1 && form->dtype != TC_DTYPE_F8E4M3)
        value = mantissa == 0 ? HUGE_VAL : (double)NAN;
    else if (exponent == 0)
        value = ldexp((double)mantissa, 1 - form->bias - form->mantissa);
    else
        value = ldexp((double)(mantissa | UINT64_C(1) << form->mantissa),
                      exponent - form->bias - form->mantissa);
    return bits >> (8 * form->size - 1) != 0 ? -value : value;
}

bool pattern_is_near(const void *got, const void *expected, tc_dtype_t dtype, tc_reduce_op_t reduce,
                     int ranks)
{
    const struct form *form = form_of(dtype);
    bool is_rounded =
        reduce == TC_REDUCE_SUM || reduce == TC_REDUCE_AVG || reduce == TC_REDUCE_PROD;
    double epsilon;

    if (memcmp(got, expected, tc_dtype_size(dtype)) == 0)
        return true;
    if (form == NULL || !is_rounded)
        return false;
    epsilon = ldexp(1, -form->mantissa);
    for (size_t at = 0; at < tc_dtype_size(dtype); at += (size_t)form->size) {
        double x = decode(form, (const unsigned char *)got + at);
        double y = decode(form, (const unsigned char *)expected + at);
        /* Each of ranks - 1 steps rounds a partial result of less than 2 * ranks by half a unit;
         * a complex product has parts that cancel, each below 2.9 to the number of ranks. */
        double bound = reduce == TC_REDUCE_SUM   ? epsilon * ranks * ranks
                       : reduce == TC_REDUCE_AVG ? epsilon * (ranks + 2)
                       : dtype == TC_DTYPE_C64   ? epsilon * ranks * pow(2.9, ranks)
                                                 : epsilon * ranks * fabs(y);

        if (!(fabs(x - y) <= bound))
            return false;
    }
    return true;
}
