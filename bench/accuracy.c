/* accuracy.c - how far a sum is from the exact one, over the ranks, by numerics and algorithm. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "core/dtype.h"
#include "core/exact_sum.h"
#include "core/reduce.h"

/* Prints, as comma-separated values, the mean and the largest error of ELEMENTS sums, in units of
 * the last place of the exact sum.  docs/accuracy.gp draws them.
 *
 * Data: "normal" are normally distributed numbers, as gradients are; "cancel" are those, but two
 * ranks in three have large numbers that are each other's opposite.
 *
 * Canonical and exact results come from the kernels; fast ones from the plans, carried out step by
 * step with the kernels for two that the engine uses.  A ring that rounds to the element type is
 * what other libraries do, so the curve of the fast ring is theirs as well. */

enum { ELEMENTS = 4096, RANKS_MAX = 1024 };

struct trial {
    tc_dtype_t dtype;
    struct tci_exact_format format;
    size_t size;  /* of an element */
    double large; /* how much larger what cancels is */
    uint32_t ranks;
    bool is_canceling;
    unsigned char *inputs[RANKS_MAX]; /* owned */
    double exact[ELEMENTS];           /* the sums, to 53 bits */
};

static void *allocate(size_t bytes)
{
    void *p = calloc(1, bytes);

    if (p == NULL) {
        fprintf(stderr, "accuracy: no memory\n");
        exit(1);
    }
    return p;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* In 0 … 1. */
static double uniform(void)
{
    static uint64_t state = 88172645463325252;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)((state >> 11) + 1) * 0x1p-53;
}

/* Box and Muller, 1958. */
static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static double load(tc_dtype_t dtype, const unsigned char *p)
{
    float narrow;
    uint16_t half;

    if (dtype == TC_DTYPE_BF16) {
        memcpy(&half, p, 2);
        return tci_bf16_to_f32(half);
    }
    memcpy(&narrow, p, 4);
    return narrow;
}

static void store(tc_dtype_t dtype, unsigned char *p, double value)
{
    float narrow = (float)value;
    uint16_t half = tci_bf16_from_f32(narrow);

    if (dtype == TC_DTYPE_BF16)
        memcpy(p, &half, 2);
    else
        memcpy(p, &narrow, 4);
}

/* Element of a rank; `before` is that of the rank before. */
static double value_of(const struct trial *trial, uint32_t rank, double before)
{
    if (!trial->is_canceling || rank % 3 == 2 || (rank % 3 == 0 && rank + 1 == trial->ranks))
        return normal();
    return rank % 3 == 1 ? -before : normal() * trial->large;
}

static void fill(struct trial *trial)
{
    static const struct tci_exact_format f64 = {53, -1074};
    struct tci_exact_sum sum;

    for (size_t i = 0; i < ELEMENTS; i++) {
        double value = 0;

        for (uint32_t rank = 0; rank < trial->ranks; rank++) {
            value = value_of(trial, rank, value);
            store(trial->dtype, trial->inputs[rank] + i * trial->size, value);
        }
    }
    tci_exact_init(&sum);
    for (size_t i = 0; i < ELEMENTS; i++) {
        for (uint32_t rank = 0; rank < trial->ranks; rank++)
            tci_exact_add(&sum, load(trial->dtype, trial->inputs[rank] + i * trial->size));
        trial->exact[i] = tci_exact_round(&sum, 1, &f64);
        tci_exact_clear(&sum);
    }
}

/* ---- Fast numerics: a plan, carried out ------------------------------------------------------ */

struct rank {
    unsigned char *dst;       /* owned */
    unsigned char **messages; /* owned, one a receiving step; NULL: not sent yet */
    uint32_t done;
};

static size_t cut_start(uint32_t blocks, uint32_t b)
{
    size_t rest = ELEMENTS % blocks;

    return ELEMENTS / blocks * b + (b < rest ? b : rest);
}

/* Where a slice begins; plans that need scratch memory are none of those drawn. */
static unsigned char *slice(const struct trial *trial, struct rank *rank, uint32_t r,
                            struct tci_slice slice, uint32_t blocks)
{
    unsigned char *base = slice.buf == TCI_BUF_SRC ? trial->inputs[r] : rank->dst;

    return base + cut_start(blocks, slice.block) * trial->size;
}

/* One step of one rank; false where it has to wait for its message.  Messages are as long as a
 * block of the receiver. */
static bool do_step(const struct trial *trial, const struct tci_plan *plan,
                    const struct tci_fold *fold, struct rank *ranks, uint32_t r)
{
    struct tci_shape shape = {.rank = r, .size = trial->ranks, .radix = 2, .cuts = 1};
    uint32_t blocks = plan->blocks(&shape), i = ranks[r].done;
    struct tci_step step = {0};
    unsigned char *message, *from, *to;
    size_t count;

    plan->step(&shape, i, &step);
    from = slice(trial, &ranks[r], r, step.src, blocks);
    to = slice(trial, &ranks[r], r, step.dst, blocks);
    if (step.kind == TCI_STEP_SEND) {
        count = cut_start(blocks, step.src.block + 1) - cut_start(blocks, step.src.block);
        message = allocate(count * trial->size + 1);
        memcpy(message, from, count * trial->size);
        ranks[step.peer].messages[step.match] = message;
        return true;
    }
    count = cut_start(blocks, step.dst.block + 1) - cut_start(blocks, step.dst.block);
    message = ranks[r].messages[i];
    if (message == NULL)
        return false;
    if (step.kind == TCI_STEP_RECV)
        memcpy(to, message, count * trial->size);
    else if (step.peer < r)
        fold->pair(to, message, from, count);
    else
        fold->pair(to, from, message, count);
    free(message);
    return true;
}

static void run_plan(const struct trial *trial, const char *name, unsigned char *out)
{
    const struct tci_plan *plan = tci_plan_find(TCI_COLL_ALLREDUCE, name);
    struct rank *ranks = allocate(trial->ranks * sizeof(*ranks));
    struct tci_fold fold;
    bool is_moving = true;

    if (plan == NULL || tci_fold_init(&fold, trial->dtype, TC_REDUCE_SUM) != TC_OK)
        exit(1);
    for (uint32_t r = 0; r < trial->ranks; r++) {
        struct tci_shape shape = {.rank = r, .size = trial->ranks, .radix = 2, .cuts = 1};

        ranks[r].dst = allocate(ELEMENTS * trial->size);
        ranks[r].messages = allocate((plan->steps(&shape) + 1) * sizeof(unsigned char *));
    }
    while (is_moving) {
        is_moving = false;
        for (uint32_t r = 0; r < trial->ranks; r++) {
            struct tci_shape shape = {.rank = r, .size = trial->ranks, .radix = 2, .cuts = 1};

            while (ranks[r].done < plan->steps(&shape) && do_step(trial, plan, &fold, ranks, r)) {
                ranks[r].done++;
                is_moving = true;
            }
        }
    }
    memcpy(out, ranks[0].dst, ELEMENTS * trial->size);
    for (uint32_t r = 0; r < trial->ranks; r++) {
        free(ranks[r].dst);
        free(ranks[r].messages);
    }
    free(ranks);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static double last_place(const struct trial *trial, double value)
{
    int exponent;

    frexp(value, &exponent);
    exponent -= trial->format.precision;
    return ldexp(1, exponent < trial->format.exponent_min ? trial->format.exponent_min : exponent);
}

/* Sums that happen to be next to nothing, below a sixteenth of what is usual, are left out: an
 * error in units of their last place can be of any size. */
static void report(const struct trial *trial, const char *way, const unsigned char *out)
{
    double usual = sqrt(trial->is_canceling ? trial->ranks / 3 : trial->ranks);
    double sum = 0, most = 0, count = 0;

    for (size_t i = 0; i < ELEMENTS; i++) {
        double off = fabs(load(trial->dtype, out + i * trial->size) - trial->exact[i]);

        if (fabs(trial->exact[i]) < usual / 16)
            continue;
        off /= last_place(trial, trial->exact[i]);
        sum += off;
        count++;
        most = off > most ? off : most;
    }
    printf("%s,%s,%s,%u,%.4g,%.4g\n", tc_dtype_name(trial->dtype),
           trial->is_canceling ? "cancel" : "normal", way, trial->ranks, sum / count, most);
}

static void run(struct trial *trial, uint32_t ranks)
{
    unsigned char *out = allocate(ELEMENTS * trial->size);
    const void *const *in = (const void *const *)trial->inputs;
    struct tci_fold canonical, exact;

    trial->ranks = ranks;
    fill(trial);
    if (tci_fold_init(&canonical, trial->dtype, TC_REDUCE_SUM) != TC_OK ||
        tci_fold_init_exact(&exact, trial->dtype, TC_REDUCE_SUM) != TC_OK)
        exit(1);
    canonical.many(out, in, ranks, ELEMENTS);
    report(trial, "canonical", out);
    exact.many(out, in, ranks, ELEMENTS);
    report(trial, "exact", out);
    run_plan(trial, "ring", out);
    report(trial, "ring", out);
    run_plan(trial, "tree", out);
    report(trial, "tree", out);
    free(out);
}

int main(void)
{
    static struct trial trials[] = {
        {.dtype = TC_DTYPE_F32, .format = {24, -149}, .size = 4, .large = 0x1p40},
        {.dtype = TC_DTYPE_BF16, .format = {8, -133}, .size = 2, .large = 0x1p20},
    };

    puts("type,data,way,ranks,mean_ulp,max_ulp");
    for (size_t t = 0; t < sizeof(trials) / sizeof(trials[0]); t++) {
        for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
            trials[t].inputs[rank] = allocate(ELEMENTS * trials[t].size);
        for (int data = 0; data < 2; data++) {
            trials[t].is_canceling = data == 1;
            /* 2, 3, 4, 6, 8, 12, … */
            for (uint32_t ranks = data == 0 ? 2 : 3; ranks <= RANKS_MAX;
                 ranks += ranks % 3 == 0 ? ranks / 3 : ranks / 2)
                run(&trials[t], ranks);
        }
        for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
            free(trials[t].inputs[rank]);
    }
    return 0;
}
