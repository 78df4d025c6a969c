// Products of short vectors within each lane: pairs of bfloat16, quads of bytes.
#pragma once

#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

inline IntVector load_ints(const void* p) {
    return *static_cast<const UnalignedIntVector*>(p);
}
inline void store_ints(void* p, IntVector v) {
    *static_cast<UnalignedIntVector*>(p) = v;
}
// The four bytes at p in every lane.
inline IntVector broadcast_bytes(const void* p) {
    typedef std::int32_t UnalignedInt __attribute__((aligned(1), may_alias));
    return IntVector{} + *static_cast<const UnalignedInt*>(p);
}

// Floats to bfloat16 in the lower halves of the lanes, to nearest, ties to even; NaN stays NaN.
inline IntVector to_bfloat16(Vector v) {
    const IntVector bits = as_int(v);
    const IntVector rounded = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) & 0xffff;
    const IntVector not_a_number = ((bits >> 16) & 0xffff) | 0x40;
    const IntVector is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return (is_nan & not_a_number) | (~is_nan & rounded);
}
// The lower and the upper half of each lane as floats.
inline Vector lower_bfloat16(IntVector pairs) {
    return as_float(pairs << 16);
}
inline Vector upper_bfloat16(IntVector pairs) {
    return as_float(pairs & static_cast<std::int32_t>(0xffff0000));
}

#if defined(__AVX512BF16__)
// sum + the products of both halves of each lane; subnormal numbers count as 0.
inline Vector add_pair_products(Vector sum, IntVector a, IntVector b) {
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
}
#endif

// sum + the four products of unsigned bytes of `a` with signed bytes of `b` in each lane, exact.
inline IntVector add_quad_products(IntVector sum, IntVector a, IntVector b) {
#if defined(__AVX512VNNI__)
    // gcc 12 keeps arrays of sums in memory around the intrinsic, which halves the speed.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
#elif defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
    // As 16 bits, in which two products fit one multiplication: the even bytes, then the odd ones.
    typedef std::int16_t ShortVector __attribute__((vector_size(kWidth * 4)));
    const auto shorts = [](IntVector v) { return __builtin_bit_cast(ShortVector, v); };
    const IntVector even_a = a & 0x00ff00ff;
    const IntVector odd_a = (a >> 8) & 0x00ff00ff;
    const auto even_b = __builtin_bit_cast(IntVector, (shorts(b) << 8) >> 8);
    const auto odd_b = __builtin_bit_cast(IntVector, shorts(b) >> 8);
    const auto products = [](IntVector x, IntVector y) {
#if defined(__AVX512F__)
        return __builtin_bit_cast(IntVector, _mm512_madd_epi16(__builtin_bit_cast(__m512i, x),
                                                               __builtin_bit_cast(__m512i, y)));
#elif defined(__AVX2__)
        return __builtin_bit_cast(IntVector, _mm256_madd_epi16(__builtin_bit_cast(__m256i, x),
                                                               __builtin_bit_cast(__m256i, y)));
#else
        return __builtin_bit_cast(IntVector, _mm_madd_epi16(__builtin_bit_cast(__m128i, x),
                                                            __builtin_bit_cast(__m128i, y)));
#endif
    };
    return sum + products(even_a, even_b) + products(odd_a, odd_b);
#else
    for (int byte = 0; byte < 4; ++byte) {
        sum += ((a >> (8 * byte)) & 0xff) * ((b << (24 - 8 * byte)) >> 24);
    }
    return sum;
#endif
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
