// Loops that do nothing but read, or nothing but multiply and add: what the machine can do.
#pragma once

#include "kernels/cpu/lanes/packed_bfloat16.h"
#include "kernels/cpu/lanes/packed_integers.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

template <bool FetchAhead>
inline float read_four_streams(const float* data, Index count) {
    constexpr int kStreams = 4;                 // as when several rows of weights are read at once
    constexpr int kRound = 2 * kLanes / kWidth; // two cache lines of each stream
    constexpr Index kAhead = 256;
    const Index quarter = count / kStreams;
    IntVector seen[kStreams][kRound] = {};
    for (Index i = 0; i < quarter; i += kRound * kWidth) {
        KAEL_UNROLLED
        for (int stream = 0; stream < kStreams; ++stream) {
            const float* const place = data + stream * quarter + i;
            if constexpr (FetchAhead) {
                prefetch(place + kAhead);
                prefetch(place + kAhead + kLanes);
            }
            KAEL_UNROLLED
            for (int v = 0; v < kRound; ++v) {
                seen[stream][v] ^= *reinterpret_cast<const UnalignedIntVector*>(place + v * kWidth);
            }
        }
    }
    IntVector all{};
    for (const auto& stream : seen) {
        for (const IntVector& v : stream) {
            all ^= v;
        }
    }
    std::int32_t bits = 0;
    for (int i = 0; i < kWidth; ++i) {
        bits ^= all[i];
    }
    return static_cast<float>(bits);
}

float read_stream(const float* data, Index count, bool fetch_ahead) {
    return fetch_ahead ? read_four_streams<true>(data, count)
                       : read_four_streams<false>(data, count);
}

// `iterations` rounds of step(sum) for a few independent sums; returns the operations of one round,
// of which a step of a lane has `operations`.
template <typename Sum, typename Step>
inline Index repeat_step(Index iterations, Index operations, Step step) {
    constexpr int kChains = 12;
    Sum sums[kChains];
    for (int i = 0; i < kChains; ++i) {
        sums[i] = __builtin_convertvector(broadcast(static_cast<float>(i)), Sum);
    }
    for (Index i = 0; i < iterations; ++i) {
        for (Sum& sum : sums) {
            sum = step(sum);
        }
    }
    Sum all{};
    for (const Sum& sum : sums) {
        all += sum;
    }
    volatile float needed = 0.0f; // so that the sums are computed
    for (int i = 0; i < kWidth; ++i) {
        needed = static_cast<float>(all[i]);
    }
    static_cast<void>(needed);
    return operations * kChains * kWidth;
}

Index multiply_add_loop(Index iterations) {
    const Vector factor = broadcast(0.999f);
    const Vector term = broadcast(0.001f);
    return repeat_step<Vector>(iterations, 2, [&](Vector sum) { return fused(sum, factor, term); });
}

#if defined(__AVX512BF16__)
Index bfloat16_multiply_add_loop(Index iterations) {
    const IntVector pair = IntVector{} + 0x3a003a00; // 2^-11 twice
    return repeat_step<Vector>(iterations, 4,
                               [&](Vector sum) { return add_pair_products(sum, pair, pair); });
}
#else // float32 is what pairs are multiplied in
Index bfloat16_multiply_add_loop(Index iterations) {
    return multiply_add_loop(iterations);
}
#endif

Index integer_multiply_add_loop(Index iterations) {
    const IntVector quad = IntVector{} + 0x01010101;
    return repeat_step<IntVector>(
        iterations, 8, [&](IntVector sum) { return add_quad_products(sum, quad, quad); });
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
