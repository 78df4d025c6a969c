// Loops that do nothing but read, or nothing but multiply and add: what the machine can do.
#pragma once

#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

float read_stream(const float* data, Index count) {
    constexpr int kStreams = 4;                 // as when several rows of weights are read at once
    constexpr int kAhead = 2 * kLanes / kWidth; // two cache lines of each stream a round
    const Index quarter = count / kStreams;
    IntVector seen[kStreams][kAhead] = {};
    for (Index i = 0; i < quarter; i += kAhead * kWidth) {
        for (int stream = 0; stream < kStreams; ++stream) {
            for (int v = 0; v < kAhead; ++v) {
                seen[stream][v] ^= *reinterpret_cast<const UnalignedIntVector*>(
                    data + stream * quarter + i + v * kWidth);
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
