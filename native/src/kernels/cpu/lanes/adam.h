// A step of Adam, which reads and writes four arrays once.
#pragma once

#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

void adam(float* parameter, const float* gradient, float* mean, float* square, Index n,
          const AdamFactors& factors) {
    const Vector decay = broadcast(factors.decay);
    const Vector keep_mean = broadcast(factors.keep_mean);
    const Vector take_mean = broadcast(factors.take_mean);
    const Vector keep_square = broadcast(factors.keep_square);
    const Vector take_square = broadcast(factors.take_square);
    const Vector kept = broadcast(factors.kept);
    const Vector rate = broadcast(-factors.rate);
    const Vector epsilon = broadcast(factors.epsilon);
    for_each_vector(n, [=](auto get, auto put) {
        const Vector before = get(parameter);
        const Vector change = fused(decay, before, get(gradient));
        const Vector m = fused(take_mean, change, keep_mean * get(mean));
        const Vector s = fused(take_square * change, change, keep_square * get(square));
        put(mean, m);
        put(square, s);
        put(parameter, fused(rate, m / (square_root(s) + epsilon), kept * before));
    });
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
