/* figures.c - where the figures of a group come from when nobody has measured them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/figures.h"

#include <stddef.h>

/* Bounds: a second, a tenth of a megabyte a second. */
#define TIME_PS_MAX ((uint64_t)1000000000000)
#define BYTE_FS_MAX ((uint64_t)100000000)

/* No message costs less: a measurement that says so was disturbed. */
#define OVERHEAD_PS_MIN ((uint64_t)100000)

enum { LOAD_MAX = 16 * 4096 };

void tci_figures_default(struct tci_figures *figures)
{
    *figures = (struct tci_figures){
        .link =
            {
                [TCI_REACH_LOCAL] = {.latency_ps = 3000000,
                                     .overhead_ps = 1300000,
                                     .byte_fs = 100000},
                [TCI_REACH_REMOTE] = {.latency_ps = 12000000,
                                      .overhead_ps = 2000000,
                                      .byte_fs = 800000},
            },
        .fold_fs = {[TCI_FOLD_WIDE] = 40000,
                    [TCI_FOLD_HALF] = 40000,
                    [TCI_FOLD_BYTE] = 400000,
                    [TCI_FOLD_EXACT] = 400000},
        .copy_fs = 30000,
        .eager_bytes = 65536,
        .load = 16,
    };
}

/* A message then waits for its receiver to have its turn: docs/bounds.md, four ranks on two
 * cores. */
#define TURN_PS ((uint64_t)15000000)

void tci_figures_share(struct tci_figures *figures, uint32_t ranks, uint32_t cores)
{
    if (ranks <= cores)
        return;
    figures->load = (uint32_t)((uint64_t)ranks * 16 / cores);
    figures->link[TCI_REACH_LOCAL].latency_ps += TURN_PS;
    figures->link[TCI_REACH_REMOTE].latency_ps += TURN_PS;
}

static void clamp(uint64_t *value, uint64_t low, uint64_t high)
{
    *value = *value < low ? low : *value > high ? high : *value;
}

void tci_figures_clamp(struct tci_figures *figures)
{
    for (int r = 0; r < TCI_REACH_COUNT; r++) {
        clamp(&figures->link[r].latency_ps, 0, TIME_PS_MAX);
        clamp(&figures->link[r].overhead_ps, OVERHEAD_PS_MIN, TIME_PS_MAX);
        clamp(&figures->link[r].byte_fs, 0, BYTE_FS_MAX);
    }
    for (int f = 0; f < TCI_FOLD_CLASSES; f++)
        clamp(&figures->fold_fs[f], 0, BYTE_FS_MAX);
    clamp(&figures->copy_fs, 0, BYTE_FS_MAX);
    figures->load = figures->load < 16 ? 16 : figures->load > LOAD_MAX ? LOAD_MAX : figures->load;
}

enum tci_fold_class tci_fold_class_of(tc_dtype_t dtype)
{
    switch (dtype) {
    case TC_DTYPE_F16:
    case TC_DTYPE_BF16:
        return TCI_FOLD_HALF;
    case TC_DTYPE_F8E4M3:
    case TC_DTYPE_F8E5M2:
        return TCI_FOLD_BYTE;
    default:
        return TCI_FOLD_WIDE;
    }
}

tc_dtype_t tci_fold_class_dtype(enum tci_fold_class fold)
{
    return fold == TCI_FOLD_HALF   ? TC_DTYPE_BF16
           : fold == TCI_FOLD_BYTE ? TC_DTYPE_F8E4M3
                                   : TC_DTYPE_F32;
}
