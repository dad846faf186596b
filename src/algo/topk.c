/* topk.c - the k largest magnitudes of an array, found in steps of bounded work. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/topk.h"

#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/error.h"
#include "tcdist/compress.h"

/* Bits of the magnitude that a pass looks at, from its lowest on. */
static const struct {
    unsigned shift, bins;
} passes[] = {{20, 2048}, {10, 1024}, {0, 1024}};

void tci_topk_init(struct tci_topk *topk, const float *values, size_t count, size_t k)
{
    TC_ASSERT(k <= count);
    memset(topk, 0, sizeof(*topk));
    topk->values = values;
    topk->count = count;
    topk->k = k;
}

/* From the largest bin down to the one that the k-th largest element lies in. */
static void end_pass(struct tci_topk *topk)
{
    unsigned bin = passes[topk->pass].bins - 1;

    while (topk->above + topk->bins[bin] < topk->k) {
        TC_ASSERT(bin > 0);
        topk->above += topk->bins[bin--];
    }
    topk->cut |= (uint32_t)bin << passes[topk->pass].shift;
    topk->pass++;
    topk->at = 0;
    memset(topk->bins, 0, sizeof(topk->bins));
}

bool tci_topk_step(struct tci_topk *topk, size_t budget)
{
    while (topk->k > 0 && topk->pass < TCI_LEN(passes)) {
        unsigned shift = passes[topk->pass].shift, mask = passes[topk->pass].bins - 1;
        uint32_t known = topk->pass == 0 ? 0 : ~UINT32_C(0) << passes[topk->pass - 1].shift;
        size_t end = topk->at + tci_min(topk->count - topk->at, budget);

        budget -= end - topk->at;
        for (; topk->at < end; topk->at++) {
            uint32_t magnitude = tci_magnitude(topk->values[topk->at]);

            if (((magnitude ^ topk->cut) & known) == 0)
                topk->bins[magnitude >> shift & mask]++;
        }
        if (topk->at < topk->count)
            return false;
        end_pass(topk);
    }
    return true;
}

/* ---- the public selections ---------------------------------------------------------------- */

struct selection {
    const char *name;
    const float *values;
    float *residual;
    size_t count, k;
    uint32_t at_least; /* magnitude */
    tc_sparse *out;
};

static tc_status_t check(const struct selection *what)
{
    const tc_sparse *out = what->out;

    if (what->count > 0 && what->values == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, what->name, "%s: values is NULL, the count is %zu",
                        what->name, what->count);
    if (out->index_dtype != TC_DTYPE_U32 && out->index_dtype != TC_DTYPE_U64)
        return tci_fail(TC_ERR_INVALID_ARG, what->name,
                        "%s: indices are TC_DTYPE_U32 or TC_DTYPE_U64, not %d", what->name,
                        (int)out->index_dtype);
    if (out->index_dtype == TC_DTYPE_U32 && what->count > UINT64_C(1) << 32)
        return tci_fail(TC_ERR_INVALID_ARG, what->name,
                        "%s: %zu elements have indices that do not fit in TC_DTYPE_U32", what->name,
                        what->count);
    if (what->k > 0 && (out->indices == NULL || out->values == NULL))
        return tci_fail(TC_ERR_INVALID_ARG, what->name,
                        "%s: the output's indices or values are NULL, its room is %zu", what->name,
                        out->room);
    return TC_OK;
}

/* out takes it, and the residual loses it. */
static void take(const struct selection *what, size_t i, float value)
{
    tc_sparse *out = what->out;

    if (out->index_dtype == TC_DTYPE_U32)
        ((uint32_t *)out->indices)[out->k] = (uint32_t)i;
    else
        ((uint64_t *)out->indices)[out->k] = i;
    out->values[out->k++] = value;
    if (what->residual != NULL)
        what->residual[i] = 0;
}

/* An element that is no number is kept out of the residual, which would never get rid of it. */
static void leave(const struct selection *what, size_t i, uint32_t magnitude)
{
    if (what->residual != NULL && magnitude >= UINT32_C(0x7f800000))
        what->residual[i] = 0;
}

static tc_status_t select_from(const struct selection *what)
{
    const float *from = what->residual != NULL ? what->residual : what->values;
    tc_status_t status = check(what);
    struct tci_topk topk;

    if (status != TC_OK)
        return status;
    if (what->residual != NULL)
        for (size_t i = 0; i < what->count; i++)
            what->residual[i] = what->values[i] + what->residual[i];
    tci_topk_init(&topk, from, what->count, what->k);
    (void)tci_topk_step(&topk, SIZE_MAX);
    what->out->k = 0;
    for (size_t i = 0; i < what->count; i++) {
        uint32_t magnitude = tci_magnitude(from[i]);

        if (tci_topk_takes(&topk, from[i]) && magnitude >= what->at_least)
            take(what, i, from[i]);
        else
            leave(what, i, magnitude);
    }
    return TC_OK;
}

tc_status_t tc_topk_select(const float *values, float *residual, size_t count, size_t k,
                           tc_sparse *out)
{
    const char *name = "topk_select";

    if (out == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, name, "%s: the output is NULL", name);
    if (k > count || k > out->room)
        return tci_fail(TC_ERR_INVALID_ARG, name,
                        "%s: k %zu is more than the %zu elements that there are, or than the "
                        "output's room for %zu",
                        name, k, count, out->room);
    return select_from(&(struct selection){name, values, residual, count, k, 0, out});
}

tc_status_t tc_threshold_select(const float *values, float *residual, size_t count, float threshold,
                                tc_sparse *out)
{
    const char *name = "threshold_select";

    if (out == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, name, "%s: the output is NULL", name);
    if (!(threshold >= 0))
        return tci_fail(TC_ERR_INVALID_ARG, name, "%s: threshold %g is not 0 or more", name,
                        (double)threshold);
    return select_from(&(struct selection){name, values, residual, count, tci_min(count, out->room),
                                           tci_magnitude(threshold), out});
}
