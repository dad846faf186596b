/* exact.c - what exact numerics cost: speed of the exact kernels beside the canonical ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/dtype.h"
#include "core/reduce.h"

/* What is counted: the bytes that a kernel reads and writes, (ranks + 1) * bytes of one buffer.
 * GB are 1e9 bytes.  The two kernels are measured by turns, ROUNDS times each, in time of the
 * processor that this thread has had; the best of each counts, so that a busy machine does not.
 *
 * Data: "normal" are normally distributed numbers, as gradients are; "wide" have exponents of any
 * size up to 40 apart, more than the first way of an exact kernel takes for f32, less than f64
 * needs the third for; "hard" cancel, with exponents over most of the range of the type, so that
 * what is left in the end lies below any working precision. */

#define RANKS_MAX 64
#define ROUNDS    25

const char *argp_program_version = "exact 1";

static const char doc[] = "Speed of exact reductions in GB/s, beside canonical ones.";

static const struct argp_option options[] = {
    {"bytes", 'b', "N", 0, "bytes of each buffer, with K or M behind (default 1M)", 0},
    {"ranks", 'n', "N", 0, "inputs, 2 to 64 (default: 2, 3, 4, 8 and 16)", 0},
    {"isa", 'i', "NAME", 0, "one family: plain, avx2, avx512, neon (default: the fastest)", 0},
    {"millis", 'm', "N", 0, "time for each number (default 20)", 0},
    {"csv", 'c', NULL, 0, "comma-separated values with a header line", 0},
    {0},
};

struct config {
    size_t bytes;
    unsigned ranks; /* 0: several */
    double millis;
    enum tci_isa isa;
    int csv;
};

static struct config config = {.bytes = 1 << 20, .millis = 20};

static unsigned char *buffers[RANKS_MAX]; /* owned, to the end of the program */
static unsigned char *output;

static size_t parse_number(const char *text, size_t low, size_t high, struct argp_state *state)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*end == 'K' || *end == 'M')
        value <<= *end++ == 'K' ? 10 : 20;
    if (*end != '\0' || end == text || value < low || value > high)
        argp_error(state, "'%s' is no number from %zu to %zu", text, low, high);
    return (size_t)value;
}

static enum tci_isa parse_isa(const char *text, struct argp_state *state)
{
    for (int isa = 0; isa < TCI_ISA_COUNT; isa++) {
        if (strcmp(text, tci_isa_name((enum tci_isa)isa)) == 0 && tci_isa_usable((enum tci_isa)isa))
            return (enum tci_isa)isa;
    }
    argp_error(state, "'%s' is no family that this machine can run", text);
    return TCI_ISA_PLAIN;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'b':
        config.bytes = parse_number(arg, 64, (size_t)1 << 30, state) & ~(size_t)7;
        return 0;
    case 'n':
        config.ranks = (unsigned)parse_number(arg, 2, RANKS_MAX, state);
        return 0;
    case 'i':
        config.isa = parse_isa(arg, state);
        return 0;
    case 'm':
        config.millis = (double)parse_number(arg, 1, 10000, state);
        return 0;
    case 'c':
        config.csv = 1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- Data ------------------------------------------------------------------------------------ */

enum data { DATA_NORMAL, DATA_WIDE, DATA_HARD, DATA_COUNT };

static const char *const data_names[DATA_COUNT] = {"normal", "wide", "hard"};

/* In 0 … 1. */
static double uniform(void)
{
    static uint64_t state = 88172645463325252;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

/* Twelve uniform numbers have the variance 1. */
static double normal(void)
{
    double sum = -6;

    for (int k = 0; k < 12; k++)
        sum += uniform();
    return sum;
}

/* Most of the exponents of a type, either way of 1. */
static int exponents(tc_dtype_t dtype)
{
    return dtype == TC_DTYPE_F64 ? 1000 : dtype == TC_DTYPE_F16 ? 13 : 120;
}

/* One element of one rank, without the signs that make hard data cancel. */
static double value_of(enum data data, tc_dtype_t dtype)
{
    int range = dtype == TC_DTYPE_F16 ? 8 : 20;
    double value;

    if (data == DATA_NORMAL)
        return normal();
    if (data == DATA_HARD)
        range = exponents(dtype);
    value = (1 + uniform()) * (uniform() < 0.5 ? -1 : 1);
    return ldexp(value, (int)((2 * uniform() - 1) * range));
}

static void store(unsigned char *p, tc_dtype_t dtype, double value)
{
    float narrow = (float)value;
    uint16_t half = dtype == TC_DTYPE_F16 ? tci_f16_from_f32(narrow) : tci_bf16_from_f32(narrow);

    if (dtype == TC_DTYPE_F64)
        memcpy(p, &value, 8);
    else if (dtype == TC_DTYPE_F32)
        memcpy(p, &narrow, 4);
    else
        memcpy(p, &half, 2);
}

/* Hard: the second half of the ranks has what the first half has, negated, and the lowest bit of
 * some elements flipped. */
static void fill_buffers(enum data data, tc_dtype_t dtype, unsigned ranks)
{
    size_t size = tc_dtype_size(dtype), half = ranks / 2;

    for (size_t at = 0; at < config.bytes; at += size) {
        double values[RANKS_MAX];

        for (unsigned rank = 0; rank < ranks; rank++) {
            bool is_partner = data == DATA_HARD && rank >= half && rank < 2 * half;

            values[rank] = is_partner ? -values[rank - half] : value_of(data, dtype);
            store(buffers[rank] + at, dtype, values[rank]);
            if (is_partner && uniform() < 0.25)
                buffers[rank][at] ^= 1;
        }
    }
}

static int open_buffers(void)
{
    output = aligned_alloc(64, (config.bytes + 127) & ~(size_t)63);
    for (unsigned rank = 0; rank < RANKS_MAX; rank++) {
        buffers[rank] = aligned_alloc(64, (config.bytes + 127) & ~(size_t)63);
        if (buffers[rank] == NULL)
            return 0;
    }
    if (output == NULL)
        return 0;
    memset(output, 0, config.bytes);
    return 1;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Seconds of one call, from as many as fill the time for one round. */
static double time_calls(const struct tci_fold *fold, unsigned ranks)
{
    size_t count = config.bytes / fold->size;
    double begin = now(), end;
    int calls = 0;

    do {
        fold->many(output, (const void *const *)buffers, ranks, count);
        __asm__ volatile("" : : "r"(output) : "memory");
        calls++;
        end = now();
    } while (end - begin < config.millis * 1e-3 / ROUNDS);
    return (end - begin) / calls;
}

static void print_row(tc_dtype_t dtype, tc_reduce_op_t op, unsigned ranks, enum data data)
{
    struct tci_fold canonical, exact;
    double times[2][ROUNDS], bytes = (ranks + 1) * (double)config.bytes * 1e-9;

    if (tci_fold_init_isa(&canonical, dtype, op, config.isa) != TC_OK ||
        tci_fold_init_exact_isa(&exact, dtype, op, config.isa) != TC_OK)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        times[0][round] = time_calls(&canonical, ranks);
        times[1][round] = time_calls(&exact, ranks);
    }
    qsort(times[0], ROUNDS, sizeof(double), compare_doubles);
    qsort(times[1], ROUNDS, sizeof(double), compare_doubles);
    printf(config.csv ? "%s,%s,%s,%u,%zu,%s,%.2f,%.2f,%.2f\n"
                      : "%-5s %-4s %-7s %5u %9zu %-7s %10.2f %8.2f %6.2f\n",
           tc_dtype_name(dtype), tc_reduce_op_name(op), tci_isa_name(config.isa), ranks,
           config.bytes, data_names[data], bytes / times[0][0], bytes / times[1][0],
           times[1][0] / times[0][0]);
}

static void print_rows(tc_dtype_t dtype, unsigned ranks)
{
    for (int data = 0; data < DATA_COUNT; data++) {
        fill_buffers((enum data)data, dtype, ranks);
        print_row(dtype, TC_REDUCE_SUM, ranks, (enum data)data);
        print_row(dtype, TC_REDUCE_AVG, ranks, (enum data)data);
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {options, parse_option, NULL, doc, NULL, NULL, NULL};
    static const tc_dtype_t dtypes[] = {TC_DTYPE_F64, TC_DTYPE_F32, TC_DTYPE_F16, TC_DTYPE_BF16};
    static const unsigned several[] = {2, 3, 4, 8, 16};

    config.isa = tci_isa_best();
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    if (!open_buffers()) {
        fprintf(stderr, "exact: no memory for the buffers\n");
        return 1;
    }
    puts(config.csv ? "type,op,isa,ranks,bytes,data,canonical_gb_per_s,exact_gb_per_s,price"
                    : "type  op   isa     ranks     bytes data     canonical    exact  price");
    for (size_t t = 0; t < sizeof(dtypes) / sizeof(dtypes[0]); t++) {
        if (config.ranks != 0) {
            print_rows(dtypes[t], config.ranks);
            continue;
        }
        for (size_t n = 0; n < sizeof(several) / sizeof(several[0]); n++)
            print_rows(dtypes[t], several[n]);
    }
    return 0;
}
