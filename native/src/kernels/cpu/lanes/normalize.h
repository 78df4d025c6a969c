// Layer norm and softmax: sums over a whole row, in 16 lanes.
#pragma once

#include "kernels/cpu/lanes/exponential.h"
#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

// Calls body(part, x) over a row, a register at a time, part being where its lanes lie among the
// 16. Lanes past the end of the row come as `filler`.
template <typename Body>
inline void for_each_lane(const float* x, Index n, float filler, Body body) {
    Index i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (int part = 0; part < kParts; ++part) {
            body(part, load(x + i + part * kWidth));
        }
    }
    if (i < n) {
        float rest[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {
            rest[lane] = i + lane < n ? x[i + lane] : filler;
        }
        for (int part = 0; part < kParts; ++part) {
            body(part, load(rest + part * kWidth));
        }
    }
}

// The first pass gives the mean. The second sums the differences from it, d, and their squares;
// the sum of d is not 0 because the mean is rounded, and subtracting its mean removes that error,
// which matters when the mean is large against the spread. Then
// y = ((x - mean) - mean of d) / sqrt(variance + epsilon) * gain + bias.
void layer_norm(const float* x, const float* gain, const float* bias, float epsilon, Index n,
                float* y) {
    const float count = static_cast<float>(n);
    Vector sum[kParts] = {};
    for_each_lane(x, n, 0.0f, [&](int part, Vector v) { sum[part] += v; });
    const float mean = add_lanes(sum) / count;

    const Vector center = broadcast(mean);
    Vector differences[kParts] = {};
    Vector squares[kParts] = {};
    for_each_lane(x, n, mean, [&](int part, Vector v) {
        const Vector d = v - center;
        differences[part] += d;
        squares[part] = fused(d, d, squares[part]);
    });
    const float residue = add_lanes(differences) / count;
    const float spread = add_lanes(squares) / count - residue * residue;
    const float variance = spread < 0.0f ? 0.0f : spread;
    const Vector inverse = broadcast(1.0f / __builtin_sqrtf(variance + epsilon));
    const Vector shift = broadcast(residue);
    for_each_vector(n, [=](auto get, auto put) {
        put(y, fused(((get(x) - center) - shift) * inverse, get(gain), get(bias)));
    });
}

// exp(s - max) / sum. A row of -infinity alone becomes zeros: nothing is attended to. NaN or
// +infinity anywhere makes the whole row NaN.
void softmax(float* scores, Index positions) {
    constexpr float kInfinity = __builtin_inff();
    Vector most[kParts];
    for (Vector& lane : most) {
        lane = broadcast(-kInfinity);
    }
    for_each_lane(scores, positions, -kInfinity,
                  [&](int part, Vector v) { most[part] = v > most[part] ? v : most[part]; });
    float highest = -kInfinity;
    for (const Vector& lane : most) {
        for (int i = 0; i < kWidth; ++i) {
            highest = lane[i] > highest ? lane[i] : highest;
        }
    }
    if (highest == -kInfinity) {
        highest = 0.0f; // -infinity - -infinity would be NaN
    }

    const Vector top = broadcast(highest);
    const Index padded = round_up(positions, kLanes);
    for (Index t = positions; t < padded; ++t) {
        scores[t] = -kInfinity; // weighs 0
    }
    Vector sum[kParts] = {};
    for (Index t = 0; t < padded; t += kLanes) {
        for (int part = 0; part < kParts; ++part) {
            float* p = scores + t + part * kWidth;
            const Vector weight = exponential(load(p) - top);
            sum[part] += weight;
            store(p, weight);
        }
    }
    const float total = add_lanes(sum);
    const Vector scale = broadcast(total == 0.0f ? 0.0f : 1.0f / total);
    for (Index t = 0; t < padded; t += kWidth) {
        store(scores + t, load(scores + t) * scale);
    }
    for (Index t = positions; t < padded; ++t) {
        scores[t] = 0.0f;
    }
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
