/* narrow_plain.c - f32 as 16- or 8-bit floats, in portable C. */
/* SPDX-License-Identifier: Apache-2.0 */
#define TARGET
#define LOOPS tci_narrow_loops_plain

#include "algo/narrow_loops.h"
