/* reduce.c - choosing kernels for this processor, and the public reference reduction. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "core/reduce_wide.h"
#include "reduce_table.h"

#ifdef TCI_HAVE_X86_KERNELS
#include <cpuid.h>
#endif

static const char *const isa_names[] = {
    [TCI_ISA_PLAIN] = "plain",
    [TCI_ISA_AVX2] = "avx2",
    [TCI_ISA_AVX512] = "avx512",
    [TCI_ISA_NEON] = "neon",
};

static_assert(sizeof(isa_names) / sizeof(isa_names[0]) == TCI_ISA_COUNT, "every family has a name");

/* The table of a family, or NULL when this build has none. */
static const struct tci_kernels (*find_table(enum tci_isa isa))[TCI_REDUCE_OP_COUNT]
{
    switch (isa) {
    case TCI_ISA_PLAIN:
        return tci_kernels_plain;
#ifdef TCI_HAVE_X86_KERNELS
    case TCI_ISA_AVX2:
        return tci_kernels_avx2;
    case TCI_ISA_AVX512:
        return tci_kernels_avx512;
#endif
#ifdef TCI_HAVE_NEON_KERNELS
    case TCI_ISA_NEON:
        return tci_kernels_neon;
#endif
    default:
        return NULL;
    }
}

#ifdef TCI_HAVE_X86_KERNELS
/* __builtin_cpu_supports() also asks whether the system saves the wide registers; it does not know
 * F16C under every compiler, so that bit is read here. */
static int has_avx2(void)
{
    unsigned eax, ebx, ecx, edx;

    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
           (ecx & bit_F16C) != 0;
}

static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const char *tci_isa_name(enum tci_isa isa)
{
    return (int)isa >= 0 && isa < TCI_ISA_COUNT ? isa_names[isa] : "unknown";
}

int tci_isa_usable(enum tci_isa isa)
{
    if (find_table(isa) == NULL)
        return 0;
#ifdef TCI_HAVE_X86_KERNELS
    if (isa == TCI_ISA_AVX2)
        return has_avx2();
    if (isa == TCI_ISA_AVX512)
        return has_avx512();
#endif
    return 1;
}

/* The last usable family of the enum.  The processor is asked once; threads that come at the same
 * time all find the same answer.  relaxed: nothing but the number itself is published. */
enum tci_isa tci_isa_best(void)
{
    static atomic_int cached = -1;
    int best = atomic_load_explicit(&cached, memory_order_relaxed);

    if (best >= 0)
        return (enum tci_isa)best;
    for (best = TCI_ISA_COUNT - 1; best > TCI_ISA_PLAIN; best--) {
        if (tci_isa_usable((enum tci_isa)best))
            break;
    }
    atomic_store_explicit(&cached, best, memory_order_relaxed);
    return (enum tci_isa)best;
}

/* The family is known to be usable. */
static tc_status_t init_fold(struct tci_fold *fold, tc_dtype_t dtype, tc_reduce_op_t op,
                             enum tci_isa isa)
{
    const struct tci_kernels *row;
    tc_status_t status = tc_reduce_supported(dtype, op);

    if (status != TC_OK)
        return status;
    row = &find_table(isa)[dtype][op];
    if (row->many == NULL)
        row = &tci_kernels_plain[dtype][op];
    *fold = (struct tci_fold){
        .dtype = dtype,
        .op = op,
        .size = tc_dtype_size(dtype),
        .bytes_max = TCI_FOLD_BYTES,
        .many = row->many,
        .pair = row->pair,
        .divide = row->divide,
        .wide = tci_wide_find(dtype, op),
    };
    return TC_OK;
}

tc_status_t tci_fold_init(struct tci_fold *fold, tc_dtype_t dtype, tc_reduce_op_t op)
{
    return init_fold(fold, dtype, op, tci_isa_best());
}

tc_status_t tci_fold_init_isa(struct tci_fold *fold, tc_dtype_t dtype, tc_reduce_op_t op,
                              enum tci_isa isa)
{
    return tci_isa_usable(isa) ? init_fold(fold, dtype, op, isa) : TC_ERR_UNSUPPORTED;
}

tc_status_t tc_reduce_reference(void *out, const void *const *in, int n_ranks, size_t count,
                                tc_dtype_t dtype, tc_reduce_op_t op)
{
    tc_status_t status = tc_reduce_supported(dtype, op);

    if (status != TC_OK)
        return status;
    if (n_ranks < 1)
        return TC_ERR_INVALID_ARG;
    if (count == 0)
        return TC_OK;
    if (out == NULL || in == NULL)
        return TC_ERR_INVALID_ARG;
    for (int rank = 0; rank < n_ranks; rank++) {
        if (in[rank] == NULL)
            return TC_ERR_INVALID_ARG;
    }
    if (n_ranks == 1)
        memmove(out, in[0], count * tc_dtype_size(dtype));
    else
        tci_kernels_plain[dtype][op].many(out, in, (unsigned)n_ranks, count);
    return TC_OK;
}
