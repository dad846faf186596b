/* exact_sum.h - the sum of any numbers of f64, kept exactly and rounded once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_EXACT_SUM_H
#define TCI_EXACT_SUM_H

#include <stdint.h>

/* A fixed-point number as wide as the range of f64, as digits of 32 bits in words of 64:
 *
 *   bit position   0 = 2^-1106 …  32 = 2^-1074, the smallest subnormal  …  2129 = 2^1023
 *   digit          0              1                                        66
 *
 * A contribution adds less than 2^32 to each of the three digits that it touches, so that 2^31 - 1
 * contributions need no carry.  Digit 0 is for quotients, and the digits above 66 for carries.
 * Source: R. M. Neal, "Fast exact summation using small and large superaccumulators", 2015. */
enum { TCI_EXACT_DIGITS = 70 };

struct tci_exact_sum {
    int64_t digits[TCI_EXACT_DIGITS];
    unsigned low, high; /* digits outside low … high are 0 */
    uint8_t has_nan, has_plus_inf, has_minus_inf;
    uint8_t has_other; /* than -0 */
};

/* What a sum is rounded to: `precision` bits, the last of them not below 2^exponent_min. */
struct tci_exact_format {
    int precision, exponent_min;
};

/* No contribution.  Any memory, once. */
void tci_exact_init(struct tci_exact_sum *sum);

/* The same for a sum that was used: clears what has been touched. */
void tci_exact_clear(struct tci_exact_sum *sum);

/* One contribution more, of 2^31 - 1 at most. */
void tci_exact_add(struct tci_exact_sum *sum, double value);

/* The sum, divided by `by` (1 … 2^31 - 1) and rounded to nearest with ties to even; once: the
 * digits are used up.  Beyond the largest f64 an infinity; what is beyond the largest value of the
 * format alone stays as it is.  +0 for an exact zero, -0 where all contributions are -0; infinities
 * and NaNs as IEEE 754 adds them, any NaN. */
double tci_exact_round(struct tci_exact_sum *sum, unsigned by,
                       const struct tci_exact_format *format);

#endif
