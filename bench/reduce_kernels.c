/* reduce_kernels.c - how fast elements are folded, by type, operator and family of kernels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/reduce.h"

/* What is counted: the bytes that a kernel reads and writes, (ranks + 1) * bytes of one buffer, or
 * 3 for pair().  memcpy reads and writes 2.  GB are 1e9 bytes.  Each number is the median of
 * several rounds; memcpy is measured between the kernels, in the same run, on the same buffers. */

#define RANKS_MAX  64
#define ROUNDS_MAX 101

const char *argp_program_version = "reduce_kernels 1";

static const char doc[] = "Speed of the reduction kernels in GB/s, beside plain C and memcpy.";

static const struct argp_option options[] = {
    {"bytes", 'b', "N", 0, "bytes of each buffer, with K or M behind (default 1M)", 0},
    {"ranks", 'n', "N", 0, "inputs of many(), 2 to 64 (default 4)", 0},
    {"type", 't', "NAME", 0, "one element type (default: all)", 0},
    {"op", 'o', "NAME", 0, "one operator (default: sum avg min max prod)", 0},
    {"isa", 'i', "NAME", 0, "one family: plain, avx2, avx512, neon (default: all)", 0},
    {"millis", 'm', "N", 0, "time for each number (default 20)", 0},
    {"csv", 'c', NULL, 0, "comma-separated values with a header line", 0},
    {0},
};

struct config {
    size_t bytes;
    unsigned ranks;
    double millis;
    const char *type, *op, *isa; /* borrowed from argv; NULL for all */
    int csv;
};

static struct config config = {1 << 20, 4, 20, NULL, NULL, NULL, 0};

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

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'b':
        config.bytes = parse_number(arg, 64, (size_t)1 << 30, state) & ~(size_t)7;
        return 0;
    case 'n':
        config.ranks = (unsigned)parse_number(arg, 2, RANKS_MAX, state);
        return 0;
    case 't':
        config.type = arg;
        return 0;
    case 'o':
        config.op = arg;
        return 0;
    case 'i':
        config.isa = arg;
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

/* ---- Measuring ---- */

enum call { CALL_MANY, CALL_PAIR, CALL_COPY };

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The compiler keeps the stores of the work before, and knows nothing about memory behind. */
static void keep_memory(void)
{
    __asm__ volatile("" : : "r"(output) : "memory");
}

static void work(const struct tci_fold *fold, enum call call)
{
    if (call == CALL_MANY)
        fold->many(output, (const void *const *)buffers, config.ranks, config.bytes / fold->size);
    else if (call == CALL_PAIR)
        fold->pair(output, buffers[0], buffers[1], config.bytes / fold->size);
    else
        memcpy(output, buffers[0], config.bytes);
    keep_memory();
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Median seconds of one call. */
static double measure(const struct tci_fold *fold, enum call call)
{
    double times[ROUNDS_MAX], begin, once;
    int repeats, rounds = 0;

    work(fold, call);
    begin = now();
    work(fold, call);
    once = now() - begin;
    repeats = 1 + (int)(config.millis * 1e-3 / ROUNDS_MAX / (once + 1e-9));

    begin = now();
    while (rounds < ROUNDS_MAX && (rounds < 3 || now() - begin < config.millis * 1e-3)) {
        double start = now();

        for (int k = 0; k < repeats; k++)
            work(fold, call);
        times[rounds++] = (now() - start) / repeats;
    }
    qsort(times, (size_t)rounds, sizeof(times[0]), compare_doubles);
    return times[rounds / 2];
}

static double gigabytes(enum call call, double seconds)
{
    unsigned buffers_touched = call == CALL_COPY ? 2 : call == CALL_PAIR ? 3 : config.ranks + 1;

    return buffers_touched * (double)config.bytes / seconds * 1e-9;
}

/* ---- What is measured ---- */

static void print_row(const struct tci_fold *fold, enum tci_isa isa, enum call call,
                      double plain_speed)
{
    double copy_speed = gigabytes(CALL_COPY, measure(fold, CALL_COPY));
    double speed = gigabytes(call, measure(fold, call));
    const char *kind = call == CALL_MANY ? "many" : "pair";
    unsigned ranks = call == CALL_MANY ? config.ranks : 2;

    printf(config.csv ? "%s,%s,%s,%s,%u,%zu,%.2f,%.2f,%.3f\n"
                      : "%-7s %-5s %-7s %-5s %5u %9zu %8.2f %8.2f %7.3f\n",
           tc_dtype_name(fold->dtype), tc_reduce_op_name(fold->op), tci_isa_name(isa), kind, ranks,
           config.bytes, speed, speed / plain_speed, speed / copy_speed);
}

static void print_rows(tc_dtype_t dtype, tc_reduce_op_t op, enum call call)
{
    struct tci_fold plain;
    double plain_speed;

    if (call == CALL_PAIR && op == TC_REDUCE_AVG)
        return; /* it is the one of SUM */
    if (tci_fold_init_isa(&plain, dtype, op, TCI_ISA_PLAIN) != TC_OK)
        return;
    plain_speed = gigabytes(call, measure(&plain, call));

    for (int isa = 0; isa < TCI_ISA_COUNT; isa++) {
        struct tci_fold fold;

        if (config.isa != NULL && strcmp(config.isa, tci_isa_name((enum tci_isa)isa)) != 0)
            continue;
        if (tci_fold_init_isa(&fold, dtype, op, (enum tci_isa)isa) == TC_OK)
            print_row(&fold, (enum tci_isa)isa, call, plain_speed);
    }
}

/* Bytes that are ordinary numbers in every type: neither subnormals nor infinities. */
static int fill_buffers(void)
{
    output = aligned_alloc(64, config.bytes + 64);
    if (output == NULL)
        return 0;
    memset(output, 0, config.bytes);
    for (unsigned rank = 0; rank < config.ranks; rank++) {
        buffers[rank] = aligned_alloc(64, (config.bytes + 127) & ~(size_t)63);
        if (buffers[rank] == NULL)
            return 0;
        for (size_t k = 0; k < config.bytes; k++)
            buffers[rank][k] = (unsigned char)(0x38 + (k * 7 + rank) % 8);
    }
    return 1;
}

static int is_chosen(const char *wanted, const char *name, int by_default)
{
    return wanted == NULL ? by_default : strcmp(wanted, name) == 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {options, parse_option, NULL, doc, NULL, NULL, NULL};

    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    if (!fill_buffers()) {
        fprintf(stderr, "reduce_kernels: no memory for the buffers\n");
        return 1;
    }
    puts(config.csv ? "type,op,isa,call,ranks,bytes,gb_per_s,vs_plain,vs_memcpy"
                    : "type    op    isa     call  ranks     bytes     GB/s vs plain  memcpy");
    for (int dtype = 0; dtype <= TC_DTYPE_C64; dtype++) {
        if (!is_chosen(config.type, tc_dtype_name((tc_dtype_t)dtype), 1))
            continue;
        for (int op = 0; op <= TC_REDUCE_BXOR; op++) {
            if (!is_chosen(config.op, tc_reduce_op_name((tc_reduce_op_t)op), op < TC_REDUCE_BAND))
                continue;
            print_rows((tc_dtype_t)dtype, (tc_reduce_op_t)op, CALL_PAIR);
            print_rows((tc_dtype_t)dtype, (tc_reduce_op_t)op, CALL_MANY);
        }
    }
    return 0;
}
