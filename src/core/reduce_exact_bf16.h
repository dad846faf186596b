/* reduce_exact_bf16.h - part of reduce_exact_vector.h: bf16, added in f32. */
/* SPDX-License-Identifier: Apache-2.0 */

/* The first way of reduce_exact_vector.h, twice as fast, where f32 is as good as f64. */

/* BF16 in f32 while the exponents are close; far from what would overflow on the way. */
struct watched_f32 {
    vf32 sum;
    vu32 top, low;
};

HELPER struct watched_f32 start_bf16(vf32 x)
{
    vu32 size = (vu32)x & SPLAT(vu32, 0x7fffffffu);

    return (struct watched_f32){x, size, size - SPLAT(vu32, 1u)};
}

HELPER struct watched_f32 add_bf16(struct watched_f32 s, vf32 x)
{
    vu32 size = (vu32)x & SPLAT(vu32, 0x7fffffffu);

    return (struct watched_f32){s.sum + x, max_u32(s.top, size),
                                min_u32(s.low, size - SPLAT(vu32, 1u))};
}

HELPER void finish_bf16(byte *out, const struct tci_exact_source *source, size_t len,
                        struct watched_f32 s, struct divisor by)
{
    int carry = carry_bits(source->ranks);
    vu32 large = (vu32)(s.top >= SPLAT(vu32, (uint32_t)(254 - carry) << 23));
    struct wide x;

    if (any_bits(is_spread(s.top, s.low, 24 - 8 - carry) | large)) {
        bf16_first_way(out, source, len, by);
    } else if (by.value == 1) {
        bf16_down(out, s.sum);
    } else {
        x = widen(s.sum);
        bf16_store_wide(out, (struct wide){divide_exact(x.a, by), divide_exact(x.b, by)}, by);
    }
}

DEFINE_EXACT_LOOP(bf16_exact_loop, 2, bf16_up, watched_f32, start_bf16, add_bf16, finish_bf16)
