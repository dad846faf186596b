/* reduce_oracle.c - reductions and small floats, computed the slow and obvious way. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/reduce_oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 wide_int;

const tc_dtype_t oracle_dtypes[16] = {
    TC_DTYPE_F16,    TC_DTYPE_BF16,   TC_DTYPE_F32,  TC_DTYPE_I8,  TC_DTYPE_I32, TC_DTYPE_F64,
    TC_DTYPE_U8,     TC_DTYPE_I16,    TC_DTYPE_U16,  TC_DTYPE_U32, TC_DTYPE_I64, TC_DTYPE_U64,
    TC_DTYPE_F8E4M3, TC_DTYPE_F8E5M2, TC_DTYPE_BOOL, TC_DTYPE_C64,
};

/* ---- Small floats ---- */

struct format {
    unsigned bits, mantissa, finite, overflow, nan;
    int bias;
    int row; /* of the table below */
};

/* The value of each code without sign, as if no exponent were reserved; filled at first use. */
static double grids[4][0x8000];

static struct format format_of(tc_dtype_t dtype)
{
    switch (dtype) {
    case TC_DTYPE_F16:
        return (struct format){16, 10, 0x7bff, 0x7c00, 0x7e00, 15, 0};
    case TC_DTYPE_BF16:
        return (struct format){16, 7, 0x7f7f, 0x7f80, 0x7fc0, 127, 1};
    case TC_DTYPE_F8E4M3:
        return (struct format){8, 3, 0x7e, 0x7f, 0x7f, 7, 2};
    case TC_DTYPE_F8E5M2:
        return (struct format){8, 2, 0x7b, 0x7c, 0x7e, 15, 3};
    default:
        abort();
    }
}

static void fill_grid(const struct format *format)
{
    double one = 1u << format->mantissa;

    for (unsigned code = 0; code < 1u << (format->bits - 1); code++) {
        int exponent = (int)(code >> format->mantissa);
        double fraction = (code & ((1u << format->mantissa) - 1)) / one;

        grids[format->row][code] = exponent == 0 ? ldexp(fraction, 1 - format->bias)
                                                 : ldexp(1 + fraction, exponent - format->bias);
    }
}

static double grid(const struct format *format, unsigned code)
{
    if (grids[format->row][1] == 0)
        fill_grid(format);
    return grids[format->row][code];
}

double oracle_decode(tc_dtype_t dtype, unsigned code)
{
    struct format format = format_of(dtype);
    unsigned sign = code >> (format.bits - 1);
    unsigned rest = code & ((1u << (format.bits - 1)) - 1);
    double value = grid(&format, rest);

    if (rest > format.finite)
        value = rest == format.overflow && format.overflow != format.nan ? INFINITY : NAN;
    return sign != 0 ? -value : value;
}

unsigned oracle_finite(tc_dtype_t dtype)
{
    return format_of(dtype).finite;
}

double oracle_beyond(tc_dtype_t dtype)
{
    struct format format = format_of(dtype);

    return grid(&format, format.finite + 1);
}

unsigned oracle_encode(tc_dtype_t dtype, double value)
{
    struct format format = format_of(dtype);
    double size = fabs(value);
    unsigned low = 0, high = format.finite + 1; /* grid(low) <= size < grid(high) */
    unsigned sign = signbit(value) != 0 ? 1u << (format.bits - 1) : 0;

    if (isnan(value))
        return format.nan;
    if (size >= grid(&format, high)) {
        low = high;
    } else {
        while (high - low > 1) {
            unsigned middle = (low + high) / 2;

            if (grid(&format, middle) <= size)
                low = middle;
            else
                high = middle;
        }
        double below = size - grid(&format, low), above = grid(&format, high) - size;

        if (above < below || (above == below && high % 2 == 0))
            low = high;
    }
    if (low <= format.finite)
        return sign | low;
    return format.overflow == format.nan ? format.nan : sign | format.overflow;
}

/* ---- Elements ---- */

enum kind { KIND_INTEGER, KIND_BOOL, KIND_SMALL, KIND_F32, KIND_F64 };

struct type {
    enum kind kind;
    size_t size;
    int is_signed;
};

static struct type type_of(tc_dtype_t dtype)
{
    switch (dtype) {
    case TC_DTYPE_I8:
        return (struct type){KIND_INTEGER, 1, 1};
    case TC_DTYPE_I16:
        return (struct type){KIND_INTEGER, 2, 1};
    case TC_DTYPE_I32:
        return (struct type){KIND_INTEGER, 4, 1};
    case TC_DTYPE_I64:
        return (struct type){KIND_INTEGER, 8, 1};
    case TC_DTYPE_U8:
        return (struct type){KIND_INTEGER, 1, 0};
    case TC_DTYPE_U16:
        return (struct type){KIND_INTEGER, 2, 0};
    case TC_DTYPE_U32:
        return (struct type){KIND_INTEGER, 4, 0};
    case TC_DTYPE_U64:
        return (struct type){KIND_INTEGER, 8, 0};
    case TC_DTYPE_BOOL:
        return (struct type){KIND_BOOL, 1, 0};
    case TC_DTYPE_F16:
    case TC_DTYPE_BF16:
        return (struct type){KIND_SMALL, 2, 1};
    case TC_DTYPE_F8E4M3:
    case TC_DTYPE_F8E5M2:
        return (struct type){KIND_SMALL, 1, 1};
    case TC_DTYPE_F32:
        return (struct type){KIND_F32, 4, 1};
    case TC_DTYPE_C64:
        return (struct type){KIND_F32, 8, 1};
    case TC_DTYPE_F64:
        return (struct type){KIND_F64, 8, 1};
    }
    abort();
}

size_t oracle_size(tc_dtype_t dtype)
{
    return type_of(dtype).size;
}

int oracle_has(tc_dtype_t dtype, tc_reduce_op_t op)
{
    enum kind kind = type_of(dtype).kind;

    if (op >= TC_REDUCE_BAND)
        return kind == KIND_INTEGER || kind == KIND_BOOL;
    if (op == TC_REDUCE_AVG)
        return kind != KIND_BOOL;
    if (op == TC_REDUCE_MIN || op == TC_REDUCE_MAX)
        return dtype != TC_DTYPE_C64;
    return 1;
}

static uint64_t read_bits(const unsigned char *p, size_t size)
{
    uint64_t bits = 0;

    for (size_t k = size; k > 0; k--)
        bits = bits << 8 | p[k - 1];
    return bits;
}

static void write_bits(unsigned char *p, size_t size, uint64_t bits)
{
    for (size_t k = 0; k < size; k++)
        p[k] = (unsigned char)(bits >> (8 * k));
}

/* ---- Integers and BOOL ---- */

static wide_int read_integer(const unsigned char *p, struct type type)
{
    uint64_t bits = read_bits(p, type.size);
    unsigned width = 8 * (unsigned)type.size;

    if (type.kind == KIND_BOOL)
        return bits != 0;
    if (type.is_signed && (bits >> (width - 1) & 1) != 0)
        return (wide_int)bits - ((wide_int)1 << width);
    return (wide_int)bits;
}

static wide_int fold_integers(wide_int a, wide_int b, tc_reduce_op_t op)
{
    switch (op) {
    case TC_REDUCE_SUM:
    case TC_REDUCE_AVG:
        return a + b;
    case TC_REDUCE_PROD:
        return (wide_int)((uint64_t)a * (uint64_t)b);
    case TC_REDUCE_MIN:
        return a < b ? a : b;
    case TC_REDUCE_MAX:
        return a > b ? a : b;
    case TC_REDUCE_BAND:
        return a & b;
    case TC_REDUCE_BOR:
        return a | b;
    case TC_REDUCE_BXOR:
        return a ^ b;
    }
    abort();
}

static void reduce_integer(unsigned char *out, const void *const *in, unsigned ranks, size_t at,
                           struct type type, tc_reduce_op_t op)
{
    wide_int acc = read_integer((const unsigned char *)in[0] + at, type);

    for (unsigned rank = 1; rank < ranks; rank++)
        acc = fold_integers(acc, read_integer((const unsigned char *)in[rank] + at, type), op);
    if (op == TC_REDUCE_AVG)
        acc /= (wide_int)ranks;
    if (type.kind == KIND_BOOL && op != TC_REDUCE_BXOR)
        acc = acc != 0;
    write_bits(out + at, type.size, (uint64_t)acc);
}

/* ---- Floats ---- */

static double read_float(const unsigned char *p, tc_dtype_t dtype)
{
    struct type type = type_of(dtype);
    double wide;
    float narrow;

    if (type.kind == KIND_SMALL)
        return oracle_decode(dtype, (unsigned)read_bits(p, type.size));
    if (type.kind == KIND_F32) {
        memcpy(&narrow, p, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, p, sizeof(wide));
    return wide;
}

static void write_float(unsigned char *p, tc_dtype_t dtype, double value)
{
    struct type type = type_of(dtype);
    float narrow = (float)value;

    if (type.kind == KIND_SMALL)
        write_bits(p, type.size, oracle_encode(dtype, value));
    else if (type.kind == KIND_F32 && isnan(value))
        write_bits(p, 4, 0x7fc00000);
    else if (type.kind == KIND_F32)
        memcpy(p, &narrow, 4);
    else if (isnan(value))
        write_bits(p, 8, UINT64_C(0x7ff8000000000000));
    else
        memcpy(p, &value, 8);
}

static double fold_floats(double a, double b, tc_reduce_op_t op, int is_small)
{
    switch (op) {
    case TC_REDUCE_SUM:
    case TC_REDUCE_AVG:
        return is_small ? (float)a + (float)b : a + b;
    case TC_REDUCE_PROD:
        return is_small ? (float)a * (float)b : a * b;
    default:
        break;
    }
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == 0 && b == 0) {
        int any = signbit(a) != 0 || signbit(b) != 0, both = signbit(a) != 0 && signbit(b) != 0;

        return (op == TC_REDUCE_MIN ? any : both) ? -0.0 : 0.0;
    }
    return op == TC_REDUCE_MIN ? fmin(a, b) : fmax(a, b);
}

static double divide_float(double sum, unsigned ranks, int is_small)
{
    return is_small ? (float)sum / (float)ranks : sum / (double)ranks;
}

static void reduce_float(unsigned char *out, const void *const *in, unsigned ranks, size_t at,
                         tc_dtype_t dtype, tc_reduce_op_t op)
{
    int is_small = type_of(dtype).kind == KIND_SMALL;
    double acc = read_float((const unsigned char *)in[0] + at, dtype);

    for (unsigned rank = 1; rank < ranks; rank++)
        acc =
            fold_floats(acc, read_float((const unsigned char *)in[rank] + at, dtype), op, is_small);
    if (op == TC_REDUCE_AVG)
        acc = divide_float(acc, ranks, is_small);
    write_float(out + at, dtype, acc);
}

static void reduce_complex_product(unsigned char *out, const void *const *in, unsigned ranks,
                                   size_t at)
{
    double re = 1, im = 0;

    for (unsigned rank = 0; rank < ranks; rank++) {
        const unsigned char *src = (const unsigned char *)in[rank] + at;
        double c = read_float(src, TC_DTYPE_F32);
        double d = read_float(src + 4, TC_DTYPE_F32);
        double ac = re * c, bd = im * d, ad = re * d, bc = im * c;

        re = rank == 0 ? c : ac - bd;
        im = rank == 0 ? d : ad + bc;
    }
    write_float(out + at, TC_DTYPE_F32, re);
    write_float(out + at + 4, TC_DTYPE_F32, im);
}

void oracle_reduce(void *out, const void *const *in, unsigned ranks, size_t count, tc_dtype_t dtype,
                   tc_reduce_op_t op)
{
    struct type type = type_of(dtype);

    if (ranks == 1 && count > 0)
        memcpy(out, in[0], count * type.size);
    for (size_t at = 0; ranks > 1 && at < count * type.size; at += type.size) {
        if (type.kind == KIND_INTEGER) {
            reduce_integer(out, in, ranks, at, type, op);
        } else if (type.kind == KIND_BOOL) {
            reduce_integer(out, in, ranks, at, type, op);
        } else if (dtype != TC_DTYPE_C64) {
            reduce_float(out, in, ranks, at, dtype, op);
        } else if (op == TC_REDUCE_PROD) {
            reduce_complex_product(out, in, ranks, at);
        } else {
            reduce_float(out, in, ranks, at, TC_DTYPE_F32, op);
            reduce_float(out, in, ranks, at + 4, TC_DTYPE_F32, op);
        }
    }
}

void oracle_divide(void *buf, unsigned ranks, size_t count, tc_dtype_t dtype)
{
    struct type type = type_of(dtype);
    tc_dtype_t part = dtype == TC_DTYPE_C64 ? TC_DTYPE_F32 : dtype;
    size_t step = oracle_size(part);
    unsigned char *p = buf;

    for (size_t at = 0; at < count * type.size; at += step) {
        double value = read_float(p + at, part);

        write_float(p + at, part, divide_float(value, ranks, type.kind == KIND_SMALL));
    }
}

/* ---- For the tests' loops ---- */

/* SplitMix64: Steele, Lea, Flood 2014. */
uint64_t oracle_random(uint64_t *seed)
{
    uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int sanitized = 1;
#elif defined(__has_feature)
static const int sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
static const int sanitized = 0;
#endif

int oracle_effort(void)
{
    const char *effort = getenv("TCDIST_TEST_EFFORT");

    if (effort != NULL && strcmp(effort, "full") == 0)
        return 2;
    return sanitized || (effort != NULL && strcmp(effort, "quick") == 0) ? 0 : 1;
}
