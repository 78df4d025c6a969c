// Loops that do nothing but read, or nothing but multiply and add: what the machine can do.
#pragma once

#include "kernels/cpu/lanes/vector.h"

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

Index multiply_add_loop(Index iterations) {
    constexpr int kChains = 12;
    Vector sums[kChains];
    for (int i = 0; i < kChains; ++i) {
        sums[i] = broadcast(static_cast<float>(i));
    }
    const Vector factor = broadcast(0.999f);
    const Vector term = broadcast(0.001f);
    for (Index i = 0; i < iterations; ++i) {
        for (Vector& sum : sums) {
            sum = fused(sum, factor, term);
        }
    }
    Vector all{};
    for (const Vector& sum : sums) {
        all += sum;
    }
    volatile float needed = 0.0f; // so that the sums are computed
    for (int i = 0; i < kWidth; ++i) {
        needed = all[i];
    }
    static_cast<void>(needed);
    return Index{2} * kChains * kWidth;
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
