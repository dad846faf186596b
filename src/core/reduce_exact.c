/* reduce_exact.c - exact reductions: their definition, and choosing kernels for them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce_exact.h"

#include <string.h>

#include "exact_sum.h"

typedef unsigned char byte;

/* ---- Elements -------------------------------------------------------------------------------- */

/* What a type is to an exact sum. */
struct element {
    size_t size;
    double (*load)(const byte *p);
    void (*store)(byte *p, double value); /* of a value that was rounded to the format */
    struct tci_exact_format format;
};

static double load_f64(const byte *p)
{
    double value;

    memcpy(&value, p, sizeof(value));
    return value;
}

static void store_f64(byte *p, double value)
{
    static const uint64_t nan_bits = TCI_F64_NAN;

    memcpy(p, value != value ? (const void *)&nan_bits : &value, sizeof(value));
}

static double load_f32(const byte *p)
{
    float value;

    memcpy(&value, p, sizeof(value));
    return value;
}

static void store_f32(byte *p, double value)
{
    float rounded = value != value ? tci_f32_from_bits(TCI_F32_NAN) : (float)value;

    memcpy(p, &rounded, sizeof(rounded));
}

#define DEFINE_SMALL(T, code_t)                                                                    \
    static double load_##T(const byte *p)                                                          \
    {                                                                                              \
        code_t code;                                                                               \
                                                                                                   \
        memcpy(&code, p, sizeof(code));                                                            \
        return tci_##T##_to_f32(code);                                                             \
    }                                                                                              \
    static void store_##T(byte *p, double value)                                                   \
    {                                                                                              \
        code_t code = tci_##T##_from_f32((float)value);                                            \
                                                                                                   \
        memcpy(p, &code, sizeof(code));                                                            \
    }

DEFINE_SMALL(f16, uint16_t)
DEFINE_SMALL(bf16, uint16_t)
DEFINE_SMALL(f8e4m3, uint8_t)
DEFINE_SMALL(f8e5m2, uint8_t)

/* NULL where there is no float of that type. */
static const struct element *find_element(tc_dtype_t dtype)
{
    static const struct element elements[TCI_DTYPE_COUNT] = {
        [TC_DTYPE_F64] = {8, load_f64, store_f64, {53, -1074}},
        [TC_DTYPE_F32] = {4, load_f32, store_f32, {24, -149}},
        [TC_DTYPE_F16] = {2, load_f16, store_f16, {11, -24}},
        [TC_DTYPE_BF16] = {2, load_bf16, store_bf16, {8, -133}},
        [TC_DTYPE_F8E4M3] = {1, load_f8e4m3, store_f8e4m3, {4, -9}},
        [TC_DTYPE_F8E5M2] = {1, load_f8e5m2, store_f8e5m2, {3, -16}},
    };

    return elements[dtype].load != NULL ? &elements[dtype] : NULL;
}

/* ---- The definition -------------------------------------------------------------------------- */

void tci_exact_elements(void *out, const struct tci_exact_source *source, size_t count,
                        const uint64_t *hard)
{
    const struct element *element = find_element(source->dtype);
    struct tci_exact_sum sum;

    tci_exact_init(&sum);
    for (size_t i = 0; i < count; i++) {
        size_t at = source->at + i * element->size;

        if (hard != NULL && hard[i] == 0)
            continue;
        for (unsigned rank = 0; rank < source->ranks; rank++)
            tci_exact_add(&sum, element->load((const byte *)source->in[rank] + at));
        element->store((byte *)out + i * element->size,
                       tci_exact_round(&sum, source->by, &element->format));
        tci_exact_clear(&sum);
    }
}

#define DEFINE_PLAIN(T, part, parts)                                                               \
    static void T##_sum(void *out, const void *const *in, unsigned ranks, size_t count)            \
    {                                                                                              \
        tci_exact_elements(out, &(struct tci_exact_source){in, 0, ranks, 1, part}, count *(parts), \
                           NULL);                                                                  \
    }                                                                                              \
    static void T##_avg(void *out, const void *const *in, unsigned ranks, size_t count)            \
    {                                                                                              \
        tci_exact_elements(out, &(struct tci_exact_source){in, 0, ranks, ranks, part},             \
                           count *(parts), NULL);                                                  \
    }

DEFINE_PLAIN(f64, TC_DTYPE_F64, 1)
DEFINE_PLAIN(f32, TC_DTYPE_F32, 1)
DEFINE_PLAIN(f16, TC_DTYPE_F16, 1)
DEFINE_PLAIN(bf16, TC_DTYPE_BF16, 1)
DEFINE_PLAIN(f8e4m3, TC_DTYPE_F8E4M3, 1)
DEFINE_PLAIN(f8e5m2, TC_DTYPE_F8E5M2, 1)
DEFINE_PLAIN(c64, TC_DTYPE_F32, 2)

#define ROW(T)                                                                                     \
    {                                                                                              \
        [TCI_EXACT_SUM] = T##_sum, [TCI_EXACT_AVG] = T##_avg                                       \
    }

static tci_exact_table exact_plain = {
    [TC_DTYPE_F64] = ROW(f64),   [TC_DTYPE_F32] = ROW(f32),       [TC_DTYPE_F16] = ROW(f16),
    [TC_DTYPE_BF16] = ROW(bf16), [TC_DTYPE_F8E4M3] = ROW(f8e4m3), [TC_DTYPE_F8E5M2] = ROW(f8e5m2),
    [TC_DTYPE_C64] = ROW(c64),
};

/* ---- Choosing -------------------------------------------------------------------------------- */

static const tci_many *find_row(tc_dtype_t dtype, enum tci_isa isa)
{
    switch (isa) {
#ifdef TCI_HAVE_X86_KERNELS
    case TCI_ISA_AVX2:
        return tci_exact_avx2[dtype];
    case TCI_ISA_AVX512:
        return tci_exact_avx512[dtype];
#endif
#ifdef TCI_HAVE_NEON_KERNELS
    case TCI_ISA_NEON:
        return tci_exact_neon[dtype];
#endif
    default:
        return exact_plain[dtype];
    }
}

tc_status_t tci_exact_supported(tc_dtype_t dtype, tc_reduce_op_t op)
{
    tc_status_t status = tc_reduce_supported(dtype, op);

    if (status == TC_OK && op == TC_REDUCE_PROD && exact_plain[dtype][TCI_EXACT_SUM] != NULL)
        return TC_ERR_UNSUPPORTED;
    return status;
}

/* Give a canonical fold of that family the exact meaning. */
static tc_status_t make_exact(struct tci_fold *fold, enum tci_isa isa)
{
    int which = fold->op == TC_REDUCE_AVG ? TCI_EXACT_AVG : TCI_EXACT_SUM;
    tci_many many;

    if (tci_exact_supported(fold->dtype, fold->op) != TC_OK)
        return TC_ERR_UNSUPPORTED;
    if (exact_plain[fold->dtype][which] == NULL ||
        (fold->op != TC_REDUCE_SUM && fold->op != TC_REDUCE_AVG))
        return TC_OK;
    many = find_row(fold->dtype, isa)[which];
    fold->many = many != NULL ? many : exact_plain[fold->dtype][which];
    fold->bytes_max = TCI_FOLD_BYTES_EXACT;
    fold->pair = NULL;
    fold->divide = NULL;
    fold->wide = NULL;
    return TC_OK;
}

tc_status_t tci_fold_init_exact(struct tci_fold *fold, tc_dtype_t dtype, tc_reduce_op_t op)
{
    return tci_fold_init_exact_isa(fold, dtype, op, tci_isa_best());
}

tc_status_t tci_fold_init_exact_isa(struct tci_fold *fold, tc_dtype_t dtype, tc_reduce_op_t op,
                                    enum tci_isa isa)
{
    struct tci_fold exact;
    tc_status_t status = tci_fold_init_isa(&exact, dtype, op, isa);

    if (status == TC_OK)
        status = make_exact(&exact, isa);
    if (status == TC_OK)
        *fold = exact;
    return status;
}

tc_status_t tc_reduce_reference_exact(void *out, const void *const *in, int n_ranks, size_t count,
                                      tc_dtype_t dtype, tc_reduce_op_t op)
{
    struct tci_fold fold;
    tc_status_t status = tci_fold_init_exact_isa(&fold, dtype, op, TCI_ISA_PLAIN);

    if (status != TC_OK)
        return status;
    if (fold.pair != NULL || n_ranks <= 1 || count == 0 || out == NULL || in == NULL)
        return tc_reduce_reference(out, in, n_ranks, count, dtype, op);
    for (int rank = 0; rank < n_ranks; rank++) {
        if (in[rank] == NULL)
            return TC_ERR_INVALID_ARG;
    }
    fold.many(out, in, (unsigned)n_ranks, count);
    return TC_OK;
}
