/* narrow_avx2.c - f32 as 16- or 8-bit floats, for x86-64 with AVX2. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/reduce_table.h"

#ifdef TCI_HAVE_X86_KERNELS

#define TARGET __attribute__((target("avx2")))
#define LOOPS  tci_narrow_loops_avx2

#include "algo/narrow_loops.h"

#endif
