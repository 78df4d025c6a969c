// One register of floats of the instruction set that this translation unit is compiled for. The
// files of this folder are compiled once per instruction set, each time in a namespace of its own
// (KAEL_INSTRUCTION_SET) and with internal linkage. They use nothing of the standard library but
// <cstdint>: an inline function shared with other units could carry wide instructions into them.
#pragma once

#include <cstdint>

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels/cpu/kernels.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

using Index = std::int64_t;

#if defined(__AVX512F__)
constexpr Index kWidth = 16; // floats in a register
constexpr bool kManyRegisters = true;
#elif defined(__AVX2__) && defined(__FMA__)
constexpr Index kWidth = 8;
constexpr bool kManyRegisters = false;
#else
constexpr Index kWidth = 4;
#if defined(__x86_64__) || defined(__i386__)
constexpr bool kManyRegisters = false; // 16
#else
constexpr bool kManyRegisters = true; // 32
#endif
#endif

// Sums over a long axis run in 16 lanes whatever the width of a register.
constexpr Index kLanes = 16;
constexpr int kParts = kLanes / kWidth; // registers that make 16 lanes

typedef float Vector __attribute__((vector_size(kWidth * 4)));
typedef std::int32_t IntVector __attribute__((vector_size(kWidth * 4)));
// For loads and stores at any address.
typedef float UnalignedVector __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
typedef std::int32_t UnalignedIntVector
    __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

constexpr Index smaller(Index a, Index b) {
    return a < b ? a : b;
}
constexpr Index larger(Index a, Index b) {
    return a > b ? a : b;
}
constexpr Index round_up(Index n, Index multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

inline Vector load(const float* p) {
    return *reinterpret_cast<const UnalignedVector*>(p);
}
inline void store(float* p, Vector v) {
    *reinterpret_cast<UnalignedVector*>(p) = v;
}

inline Vector as_float(IntVector v) {
    return __builtin_bit_cast(Vector, v);
}
inline IntVector as_int(Vector v) {
    return __builtin_bit_cast(IntVector, v);
}

#if defined(__AVX512F__)

inline Vector broadcast(float value) {
    return _mm512_set1_ps(value);
}
// a * b + c, rounded once.
inline Vector fused(Vector a, Vector b, Vector c) {
    return _mm512_fmadd_ps(a, b, c);
}
inline __mmask16 first_lanes(Index count) {
    return static_cast<__mmask16>((1u << count) - 1u);
}
// The first `count` (0 to kWidth) floats at p, zeros after them; nothing else is touched.
inline Vector load_first(const float* p, Index count) {
    return _mm512_maskz_loadu_ps(first_lanes(count), p);
}
inline void store_first(float* p, Vector v, Index count) {
    _mm512_mask_storeu_ps(p, first_lanes(count), v);
}

#elif defined(__AVX2__) && defined(__FMA__)

inline Vector broadcast(float value) {
    return _mm256_set1_ps(value);
}
inline Vector fused(Vector a, Vector b, Vector c) {
    return _mm256_fmadd_ps(a, b, c);
}
inline __m256i first_lanes(Index count) {
    static const std::int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 8 - count));
}
inline Vector load_first(const float* p, Index count) {
    return _mm256_maskload_ps(p, first_lanes(count));
}
inline void store_first(float* p, Vector v, Index count) {
    _mm256_maskstore_ps(p, first_lanes(count), v);
}

#else

inline Vector broadcast(float value) {
    return Vector{value, value, value, value};
}
inline Vector fused(Vector a, Vector b, Vector c) {
#if defined(__ARM_NEON)
    return vfmaq_f32(c, a, b);
#else
    return a * b + c; // two roundings: this instruction set has no fused multiply-add
#endif
}
inline Vector load_first(const float* p, Index count) {
    Vector v{};
    for (int i = 0; i < kWidth; ++i) {
        if (i < count) {
            v[i] = p[i];
        }
    }
    return v;
}
inline void store_first(float* p, Vector v, Index count) {
    for (int i = 0; i < kWidth; ++i) {
        if (i < count) {
            p[i] = v[i];
        }
    }
}

#endif

// Correctly rounded, as the division of vectors is.
inline Vector square_root(Vector v) {
#if defined(__AVX512F__)
    return _mm512_maskz_sqrt_ps(0xffff, v); // without a mask gcc's own header warns
#elif defined(__AVX2__) && defined(__FMA__)
    return _mm256_sqrt_ps(v);
#elif defined(__SSE2__)
    return _mm_sqrt_ps(v);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return vsqrtq_f32(v);
#else
    Vector result;
    for (int i = 0; i < kWidth; ++i) {
        result[i] = __builtin_sqrtf(v[i]);
    }
    return result;
#endif
}

inline Vector absolute(Vector v) {
    return as_float(as_int(v) & 0x7fffffff);
}

// The larger and the smaller of the two; NaN in v stays. x86 answers its second operand when one is
// NaN.
#if defined(__AVX512F__)
// The forms without a mask warn of an uninitialized variable in gcc's own header.
constexpr __mmask16 kAllLanes = 0xffff;
inline Vector at_least(Vector v, Vector bound) {
    return _mm512_maskz_max_ps(kAllLanes, bound, v);
}
inline Vector at_most(Vector v, Vector bound) {
    return _mm512_maskz_min_ps(kAllLanes, bound, v);
}
#elif defined(__AVX2__) && defined(__FMA__)
inline Vector at_least(Vector v, Vector bound) {
    return _mm256_max_ps(bound, v);
}
inline Vector at_most(Vector v, Vector bound) {
    return _mm256_min_ps(bound, v);
}
#else
inline Vector at_least(Vector v, Vector bound) {
    return v < bound ? bound : v;
}
inline Vector at_most(Vector v, Vector bound) {
    return v > bound ? bound : v;
}
#endif

// v * 2^n for whole n in [-150, 128] and |v| in [0.5, 2): rounded once.
inline Vector scale_by_power(Vector v, Vector n, IntVector n_as_int) {
#if defined(__AVX512F__)
    static_cast<void>(n_as_int);
    return _mm512_maskz_scalef_ps(kAllLanes, v, n);
#else
    // In two steps, of which the first is exact: 2^n itself need not be a float.
    static_cast<void>(n);
    const IntVector half = n_as_int >> 1;
    return v * as_float((half + 127) << 23) * as_float((n_as_int - half + 127) << 23);
#endif
}

// Floats at the beginning of a row of weights that are fetched a round early. The processor sees by
// itself how a row goes on, but not where the next one begins. Decoding GPT-2 small with two
// threads on Zen 5 got .83 of the bandwidth so, .77 with whole rows fetched, .80 with nothing
// fetched.
constexpr Index kFetchedAhead = 4 * kLanes;

// Asks for the line at p to be in the second-level cache soon. Any address will do.
inline void prefetch(const float* p) {
    __builtin_prefetch(p, 0, 2);
}

// 16 lanes added in halves: l[i] + l[i + 8], then + 4, + 2, + 1.
inline float add_lanes(const Vector (&lanes)[kParts]) {
    float sums[kLanes];
    for (int part = 0; part < kParts; ++part) {
        store(sums + part * kWidth, lanes[part]);
    }
    for (int half = kLanes / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) {
            sums[i] += sums[i + half];
        }
    }
    return sums[0];
}

// Before a loop over an array that must live in registers: its indices have to become constants.
#if defined(__clang__)
#define KAEL_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define KAEL_UNROLLED _Pragma("GCC unroll 16")
#endif

// Calls body(i, load, store) over [0, n) a register at a time, the last one partial.
template <typename Body>
inline void for_each_vector(Index n, Body body) {
    Index i = 0;
    for (; i + kWidth <= n; i += kWidth) {
        body([i](const float* p) { return load(p + i); },
             [i](float* p, Vector v) { store(p + i, v); });
    }
    if (const Index rest = n - i; rest > 0) {
        body([i, rest](const float* p) { return load_first(p + i, rest); },
             [i, rest](float* p, Vector v) { store_first(p + i, v, rest); });
    }
}

// Runs Kernel<n>::run(arguments...) for 1 <= n <= Most: a tile with a number of rows that the
// compiler knows.
template <template <int> class Kernel, int Most, typename... Arguments>
inline void run_tile(Index n, Arguments... arguments) {
    if constexpr (Most > 1) {
        if (n < Most) {
            run_tile<Kernel, Most - 1>(n, arguments...);
            return;
        }
    }
    Kernel<Most>::run(arguments...);
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
