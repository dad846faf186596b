/* exact_sum.c - the sum of any numbers of f64, kept exactly and rounded once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exact_sum.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/assert.h"

/* The exponent of bit position 0. */
#define EXPONENT_OF_BIT_0 (-1106)

#define DIGIT_MASK UINT64_C(0xffffffff)

void tci_exact_init(struct tci_exact_sum *sum)
{
    memset(sum, 0, sizeof(*sum));
    sum->low = TCI_EXACT_DIGITS;
}

void tci_exact_clear(struct tci_exact_sum *sum)
{
    if (sum->low <= sum->high)
        memset(&sum->digits[sum->low], 0, (sum->high - sum->low + 1) * sizeof(sum->digits[0]));
    sum->low = TCI_EXACT_DIGITS;
    sum->high = 0;
    sum->has_nan = sum->has_plus_inf = sum->has_minus_inf = sum->has_other = 0;
}

/* An infinity or a NaN. */
static void add_special(struct tci_exact_sum *sum, double value)
{
    if (value != value)
        sum->has_nan = 1;
    else if (value > 0)
        sum->has_plus_inf = 1;
    else
        sum->has_minus_inf = 1;
}

void tci_exact_add(struct tci_exact_sum *sum, double value)
{
    uint64_t bits, mantissa;
    unsigned field, position, k, shift;
    int64_t parts[3];

    memcpy(&bits, &value, sizeof(bits));
    if (bits == UINT64_C(1) << 63)
        return;
    sum->has_other = 1;
    field = (unsigned)(bits >> 52) & 0x7ff;
    mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (field == 0x7ff) {
        add_special(sum, value);
        return;
    }
    if (field != 0)
        mantissa |= UINT64_C(1) << 52;
    if (mantissa == 0)
        return;

    position = (unsigned)(-1074 - EXPONENT_OF_BIT_0) + (field != 0 ? field - 1 : 0);
    k = position / 32;
    shift = position % 32;
    parts[0] = (int64_t)(mantissa << shift & DIGIT_MASK);
    parts[1] = (int64_t)(mantissa << shift >> 32);
    parts[2] = shift == 0 ? 0 : (int64_t)(mantissa >> (64 - shift));
    for (unsigned part = 0; part < 3; part++)
        sum->digits[k + part] += bits >> 63 != 0 ? -parts[part] : parts[part];
    if (k < sum->low)
        sum->low = k;
    if (k + 2 > sum->high)
        sum->high = k + 2;
}

/* Carries move up until every digit is in 0 … 2^32 - 1; a negative sum is negated.  Whether it
 * was. */
static bool carry(struct tci_exact_sum *sum)
{
    int64_t over = 0;
    uint64_t borrow = 1;

    sum->high += 1; /* takes what is left: the carry of a digit is less than 2^31 */
    for (unsigned k = sum->low; k <= sum->high; k++) {
        over += sum->digits[k];
        sum->digits[k] = (int64_t)((uint64_t)over & DIGIT_MASK);
        over >>= 32;
    }
    TC_ASSERT(over == 0 || over == -1);
    if (over == 0)
        return false;
    for (unsigned k = sum->low; k <= sum->high; k++) {
        borrow += ~(uint64_t)sum->digits[k] & DIGIT_MASK;
        sum->digits[k] = (int64_t)(borrow & DIGIT_MASK);
        borrow >>= 32;
    }
    return true;
}

/* The highest digit that is not 0; false when all are. */
static bool find_top(struct tci_exact_sum *sum)
{
    while (sum->high > sum->low && sum->digits[sum->high] == 0)
        sum->high--;
    return sum->digits[sum->high] != 0;
}

/* Digits of the quotient down to where no rounding can see them one by one: five below the top
 * hold 128 bits at least.  Whether something is left behind them. */
static bool divide(struct tci_exact_sum *sum, unsigned by)
{
    unsigned end = sum->high > 5 ? sum->high - 5 : 0;
    uint64_t rest = 0;

    if (end < sum->low)
        sum->low = end;
    for (unsigned k = sum->high + 1; k-- > sum->low;) {
        rest = rest << 32 | (uint64_t)sum->digits[k];
        sum->digits[k] = (int64_t)(rest / by);
        rest %= by;
    }
    return rest != 0;
}

/* Bits from a position on, at most 64, as a number. */
static uint64_t bits_from(const struct tci_exact_sum *sum, unsigned position)
{
    unsigned k = position / 32, shift = position % 32;
    uint64_t digits[3] = {0};

    for (unsigned d = 0; d < 3; d++)
        if (k + d >= sum->low && k + d <= sum->high)
            digits[d] = (uint64_t)sum->digits[k + d];
    return (digits[0] | digits[1] << 32) >> shift | (shift == 0 ? 0 : digits[2] << (64 - shift));
}

/* Whether any bit below a position is set. */
static bool has_below(const struct tci_exact_sum *sum, unsigned position)
{
    for (unsigned k = sum->low; k <= sum->high && k < position / 32; k++)
        if (sum->digits[k] != 0)
            return true;
    return (bits_from(sum, position / 32 * 32) & ((UINT64_C(1) << position % 32) - 1)) != 0;
}

double tci_exact_round(struct tci_exact_sum *sum, unsigned by,
                       const struct tci_exact_format *format)
{
    bool is_negative, is_inexact = false;
    int top, last;
    uint64_t kept;
    unsigned position;
    double size;

    TC_ASSERT(by > 0 && by < UINT32_C(1) << 31);
    if (sum->has_nan || (sum->has_plus_inf && sum->has_minus_inf))
        return NAN;
    if (sum->has_plus_inf || sum->has_minus_inf)
        return sum->has_plus_inf ? INFINITY : -INFINITY;
    if (sum->low > sum->high)
        return sum->has_other ? 0.0 : -0.0;

    is_negative = carry(sum);
    if (!find_top(sum))
        return 0.0;
    if (by > 1) {
        is_inexact = divide(sum, by);
        find_top(sum);
    }
    top = (int)sum->high * 32 + 31 + EXPONENT_OF_BIT_0 -
          __builtin_clz((uint32_t)sum->digits[sum->high]);
    last = top - (format->precision - 1);
    if (last < format->exponent_min)
        last = format->exponent_min;
    TC_ASSERT(last > EXPONENT_OF_BIT_0);
    position = (unsigned)(last - EXPONENT_OF_BIT_0);
    kept = bits_from(sum, position);
    if ((bits_from(sum, position - 1) & 1) != 0 &&
        ((kept & 1) != 0 || is_inexact || has_below(sum, position - 1)))
        kept++;
    size = ldexp((double)kept, last);
    return is_negative ? -size : size;
}
