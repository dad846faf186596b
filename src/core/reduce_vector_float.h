/* reduce_vector_float.h - part of reduce_vector.h: floats and C64. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Between memory and the accumulator: T_up(p) is exact, T_down(p, x) rounds once. */
HELPER vf64 f64_up(const byte *p)
{
    vf64 x;

    memcpy(&x, p, VECTOR);
    return x;
}

HELPER void f64_down(byte *p, vf64 x)
{
    x = canon_f64(x);
    memcpy(p, &x, VECTOR);
}

HELPER vf64 f32_up(const byte *p)
{
    return load_f32_f64(p);
}

HELPER void f32_down(byte *p, vf64 x)
{
    store_f64_f32(p, canon_f64(x));
}

HELPER vf32 f16_up(const byte *p)
{
    return load_f16_f32(p);
}

HELPER void f16_down(byte *p, vf32 x)
{
    store_f32_f16(p, canon_f32(x));
}

HELPER vf32 bf16_up(const byte *p)
{
    return (vf32)(load_u16_u32(p) << 16);
}

/* The canonical NaN of f32 has room above its mantissa: rounding leaves it the one of bf16. */
HELPER void bf16_down(byte *p, vf32 x)
{
    vu32 bits = (vu32)canon_f32(x);

    store_u32_u16(p, (bits + SPLAT(vu32, 0x7fffu) + ((bits >> 16) & SPLAT(vu32, 1u))) >> 16);
}

/* f8: the steps of tci_small_to_f32() and tci_small_from_f32(), each side of a choice computed.
 * Codes above the largest finite one get the exponent of infinity, which keeps a NaN a NaN. */
HELPER vf32 f8_up(const byte *p, unsigned mantissa, unsigned bias, unsigned finite)
{
    vu32 code = load_u8_u32(p);
    vu32 magnitude = code & SPLAT(vu32, 0x7fu);
    vf32 scale = (vf32)SPLAT(vu32, (254 - bias) << 23);
    vu32 value = (vu32)((vf32)(magnitude << (23 - mantissa)) * scale);
    vu32 beyond = (vu32)(magnitude > SPLAT(vu32, finite)) & SPLAT(vu32, 0x7f800000u);

    return (vf32)(value | beyond | ((code & SPLAT(vu32, 0x80u)) << 24));
}

/* `nan_above` are the bits of the largest |x| that does not become a NaN. */
HELPER void f8_down(byte *p, vf32 x, const struct tci_small_float *format, unsigned nan_above)
{
    unsigned cut = 23 - format->mantissa;
    unsigned anchor = (128 - format->bias + cut) << 23;
    vu32 magnitude = (vu32)x & SPLAT(vu32, 0x7fffffffu);
    vu32 sign = ((vu32)x >> 24) & SPLAT(vu32, 0x80u);
    vu32 even = (magnitude >> cut) & SPLAT(vu32, 1u);
    vu32 normal = (magnitude + SPLAT(vu32, (1u << (cut - 1)) - 1) + even) >> cut;
    vu32 tiny = (vu32)((vf32)magnitude + (vf32)SPLAT(vu32, anchor)) - SPLAT(vu32, anchor);
    vu32 is_tiny = (vu32)(magnitude < SPLAT(vu32, (128 - format->bias) << 23));
    vu32 is_nan = (vu32)(magnitude > SPLAT(vu32, nan_above));
    vu32 code =
        SELECT(is_tiny, tiny, normal - SPLAT(vu32, (127 - format->bias) << format->mantissa));

    code = min_u32(code, SPLAT(vu32, format->overflow)) | sign;
    store_u32_u8(p, SELECT(is_nan, SPLAT(vu32, format->nan), code));
}

HELPER vf32 f8e4m3_up(const byte *p)
{
    return f8_up(p, 3, 7, 0x7e);
}

HELPER void f8e4m3_down(byte *p, vf32 x)
{
    f8_down(p, x, &tci_f8e4m3, 0x43e80000u); /* 464 */
}

HELPER vf32 f8e5m2_up(const byte *p)
{
    return f8_up(p, 2, 15, 0x7b);
}

HELPER void f8e5m2_down(byte *p, vf32 x)
{
    f8_down(p, x, &tci_f8e5m2, 0x7f800000u); /* infinity */
}

/* SUM, PROD and AVG in an accumulator of type acc_t. */
#define DEFINE_ARITHMETIC(T, acc_t)                                                                \
    HELPER acc_t T##_add(acc_t x, const byte *p)                                                   \
    {                                                                                              \
        return x + T##_up(p);                                                                      \
    }                                                                                              \
    HELPER acc_t T##_mul(acc_t x, const byte *p)                                                   \
    {                                                                                              \
        return x * T##_up(p);                                                                      \
    }                                                                                              \
    HELPER void T##_round(byte *p, acc_t x, struct divisor by)                                     \
    {                                                                                              \
        (void)by;                                                                                  \
        T##_down(p, x);                                                                            \
    }                                                                                              \
    HELPER void T##_round_avg(byte *p, acc_t x, struct divisor by)                                 \
    {                                                                                              \
        if (by.is_power)                                                                           \
            T##_down(p, x *FROM_DOUBLE(acc_t, by.inverse));                                        \
        else                                                                                       \
            T##_down(p, x / FROM_DOUBLE(acc_t, by.value));                                         \
    }

#define FROM_DOUBLE(acc_t, value) SPLAT(acc_t, (__typeof__(((acc_t){0})[0]))(value))

#define DEFINE_FLOAT(T, acc_t, part, size)                                                         \
    DEFINE_ARITHMETIC(T, acc_t)                                                                    \
    DEFINE_BOTH(T##_sum, acc_t, part, T##_up, T##_add, T##_round)                                  \
    DEFINE_BOTH(T##_prod, acc_t, part, T##_up, T##_mul, T##_round)                                 \
    DEFINE_LOOP(T##_avg, acc_t, part, T##_up, T##_add, T##_round_avg)                              \
    DEFINE_ENTRY(T##_sum, size, T##_sum)                                                           \
    DEFINE_ENTRY(T##_prod, size, T##_prod)                                                         \
    DEFINE_AVG_ENTRY(T##_avg, size, T##_avg)

DEFINE_FLOAT(f64, vf64, VECTOR, 8)
DEFINE_FLOAT(f16, vf32, VECTOR / 2, 2)
DEFINE_FLOAT(f8e4m3, vf32, VECTOR / 4, 1)
DEFINE_FLOAT(f8e5m2, vf32, VECTOR / 4, 1)

/* BF16: a vector of words, each with two elements, is split into those of low and those of high
 * halves, which costs two operations of bits where widening each half of it, and packing it again,
 * costs shuffles. */
struct bf16_halves {
    vf32 low, high;
};

HELPER struct bf16_halves bf16_split(const byte *p)
{
    vu32 x;

    memcpy(&x, p, VECTOR);
    return (struct bf16_halves){(vf32)(x << 16), (vf32)(x & SPLAT(vu32, 0xffff0000u))};
}

HELPER vu32 bf16_round_up(vu32 bits)
{
    return bits + SPLAT(vu32, 0x7fffu) + ((bits >> 16) & SPLAT(vu32, 1u));
}

/* A NaN is rare, so both halves are asked for one at once. */
HELPER void bf16_join(byte *p, struct bf16_halves x, struct divisor by)
{
    vu32 both;

    (void)by;
    if (__builtin_expect(any_nan(x.low, x.high), 0))
        x = (struct bf16_halves){canon_f32(x.low), canon_f32(x.high)};
    both = (bf16_round_up((vu32)x.low) >> 16) |
           (bf16_round_up((vu32)x.high) & SPLAT(vu32, 0xffff0000u));
    memcpy(p, &both, VECTOR);
}

HELPER void bf16_join_avg(byte *p, struct bf16_halves x, struct divisor by)
{
    vf32 factor = SPLAT(vf32, (float)by.inverse), value = SPLAT(vf32, (float)by.value);

    bf16_join(p,
              by.is_power ? (struct bf16_halves){x.low * factor, x.high * factor}
                          : (struct bf16_halves){x.low / value, x.high / value},
              by);
}

HELPER struct bf16_halves bf16_add(struct bf16_halves x, const byte *p)
{
    struct bf16_halves y = bf16_split(p);

    return (struct bf16_halves){x.low + y.low, x.high + y.high};
}

HELPER struct bf16_halves bf16_mul(struct bf16_halves x, const byte *p)
{
    struct bf16_halves y = bf16_split(p);

    return (struct bf16_halves){x.low * y.low, x.high * y.high};
}

DEFINE_BOTH(bf16_sum, struct bf16_halves, VECTOR, bf16_split, bf16_add, bf16_join)
DEFINE_BOTH(bf16_prod, struct bf16_halves, VECTOR, bf16_split, bf16_mul, bf16_join)
DEFINE_LOOP(bf16_avg, struct bf16_halves, VECTOR, bf16_split, bf16_add, bf16_join_avg)
DEFINE_ENTRY(bf16_sum, 2, bf16_sum)
DEFINE_ENTRY(bf16_prod, 2, bf16_prod)
DEFINE_AVG_ENTRY(bf16_avg, 2, bf16_avg)

/* F32: the sum and the product of two f32 rounded to f64 and then to f32 are those rounded to f32
 * at once, since 53 >= 2 * 24 + 2 (Figueroa, "When is double rounding innocuous?", 1995).  So
 * pair() needs no wide accumulator. */
HELPER vf32 f32_load(const byte *p)
{
    vf32 x;

    memcpy(&x, p, VECTOR);
    return x;
}

HELPER vf32 f32_add_narrow(vf32 x, const byte *p)
{
    return x + f32_load(p);
}

HELPER vf32 f32_mul_narrow(vf32 x, const byte *p)
{
    return x * f32_load(p);
}

HELPER void f32_store(byte *p, vf32 x, struct divisor by)
{
    (void)by;
    x = canon_f32(x);
    memcpy(p, &x, VECTOR);
}

DEFINE_ARITHMETIC(f32, vf64)
DEFINE_LOOP(f32_sum, vf64, VECTOR / 2, f32_up, f32_add, f32_round)
DEFINE_LOOP(f32_prod, vf64, VECTOR / 2, f32_up, f32_mul, f32_round)
DEFINE_LOOP(f32_avg, vf64, VECTOR / 2, f32_up, f32_add, f32_round_avg)
DEFINE_PAIR(f32_sum, vf32, VECTOR, f32_load, f32_add_narrow, f32_store)
DEFINE_PAIR(f32_prod, vf32, VECTOR, f32_load, f32_mul_narrow, f32_store)
DEFINE_ENTRY(f32_sum, 4, f32_sum)
DEFINE_ENTRY(f32_prod, 4, f32_prod)
DEFINE_AVG_ENTRY(f32_avg, 4, f32_avg)

/* C64: SUM and AVG are those of twice as many F32. */
DEFINE_ENTRY(c64_sum, 8, f32_sum)
DEFINE_AVG_ENTRY(c64_avg, 8, f32_avg)

/* MIN and MAX compare keys: the bits as a signed integer, with all but the sign inverted below
 * zero.  They are ordered as the numbers are, -0 below +0, the NaNs beyond the infinities at both
 * ends.  So both extremes are kept: a NaN was there when one of them lies beyond the `last` key
 * that is no NaN (~last below zero), and the key gives the input's own bits back. */
#define DEFINE_KEYS(width, vec, uvec, ctype)                                                       \
    struct keys_##width {                                                                          \
        vec low, high;                                                                             \
    };                                                                                             \
    HELPER vec flip_##width(vec x)                                                                 \
    {                                                                                              \
        vec below = (vec)(x < SPLAT(vec, (ctype)0));                                               \
                                                                                                   \
        return x ^ (vec)((uvec)below & SPLAT(uvec, (u##ctype)(~UINT64_C(0) >> (65 - (width)))));   \
    }                                                                                              \
    HELPER struct keys_##width load_keys_##width(const byte *p)                                    \
    {                                                                                              \
        vec key = flip_##width(i##width##_load(p));                                                \
                                                                                                   \
        return (struct keys_##width){key, key};                                                    \
    }                                                                                              \
    HELPER struct keys_##width fold_keys_##width(struct keys_##width x, const byte *p)             \
    {                                                                                              \
        vec key = flip_##width(i##width##_load(p));                                                \
                                                                                                   \
        return (struct keys_##width){min_i##width(x.low, key), max_i##width(x.high, key)};         \
    }                                                                                              \
    HELPER void store_keys_##width(byte *p, struct keys_##width x, vec key, ctype last, ctype nan) \
    {                                                                                              \
        vec is_nan = (vec)(x.high > SPLAT(vec, last)) | (vec)(x.low < SPLAT(vec, (ctype)~last));   \
                                                                                                   \
        key = SELECT(is_nan, SPLAT(vec, nan), flip_##width(key));                                  \
        memcpy(p, &key, VECTOR);                                                                   \
    }

DEFINE_KEYS(8, vi8, vu8, int8_t)
DEFINE_KEYS(16, vi16, vu16, int16_t)
DEFINE_KEYS(32, vi32, vu32, int32_t)
DEFINE_KEYS(64, vi64, vu64, int64_t)

#define DEFINE_EXTREMES(T, width, size, last, nan)                                                 \
    HELPER void T##_store_min(byte *p, struct keys_##width x, struct divisor by)                   \
    {                                                                                              \
        (void)by;                                                                                  \
        store_keys_##width(p, x, x.low, last, nan);                                                \
    }                                                                                              \
    HELPER void T##_store_max(byte *p, struct keys_##width x, struct divisor by)                   \
    {                                                                                              \
        (void)by;                                                                                  \
        store_keys_##width(p, x, x.high, last, nan);                                               \
    }                                                                                              \
    DEFINE_BOTH(T##_min, struct keys_##width, VECTOR, load_keys_##width, fold_keys_##width,        \
                T##_store_min)                                                                     \
    DEFINE_BOTH(T##_max, struct keys_##width, VECTOR, load_keys_##width, fold_keys_##width,        \
                T##_store_max)                                                                     \
    DEFINE_ENTRY(T##_min, size, T##_min)                                                           \
    DEFINE_ENTRY(T##_max, size, T##_max)

DEFINE_EXTREMES(f64, 64, 8, INT64_C(0x7ff0000000000000), (int64_t)TCI_F64_NAN)
DEFINE_EXTREMES(f32, 32, 4, 0x7f800000, (int32_t)TCI_F32_NAN)
DEFINE_EXTREMES(f16, 16, 2, 0x7c00, TCI_F16_NAN)
DEFINE_EXTREMES(bf16, 16, 2, 0x7f80, TCI_BF16_NAN)
DEFINE_EXTREMES(f8e5m2, 8, 1, 0x7c, TCI_F8E5M2_NAN)
DEFINE_EXTREMES(f8e4m3, 8, 1, 0x7e, TCI_F8E4M3_NAN)
