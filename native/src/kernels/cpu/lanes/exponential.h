// exp, and the activations that use it.
#pragma once

#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

// At most 1.02 ulp from exp(x) where the result is a normal number; NaN stays NaN.
//
// x = n ln 2 + r with ln 2 in two parts (the first has 9 bits, so that n times it is exact);
// exp(r) = 1 + r + r^2 p(r), p a minimax fit of degree 4 on |r| <= ln(2) / 2 (relative error of
// exp 7.4e-9). The sum with 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
inline Vector exponential(Vector x) {
    const Vector limited = at_most(at_least(x, broadcast(-104.0f)), broadcast(89.0f));
    const Vector magic = broadcast(12582912.0f);
    const Vector shifted = fused(limited, broadcast(1.44269504088896341f), magic);
    const Vector n = shifted - magic;
    const Vector r =
        fused(n, broadcast(2.12194440e-4f), fused(n, broadcast(-0.693359375f), limited));
    Vector p = broadcast(0.001382193732f);
    p = fused(p, r, broadcast(0.008362892033f));
    p = fused(p, r, broadcast(0.04166780235f));
    p = fused(p, r, broadcast(0.1666657964f));
    p = fused(p, r, broadcast(0.4999999815f));
    p = fused(p, r * r, r) + broadcast(1.0f);
    return scale_by_power(p, n, as_int(shifted) - as_int(magic));
}

// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3): "gelu_new".
// -infinity gives -0, the limit; it is kept off the quotient, where it would meet an infinity.
inline Vector gelu_tanh_of(Vector x) {
    const Vector finite = at_least(x, broadcast(-3.402823466e+38f));
    const Vector cubic = fused(x * x, broadcast(0.044715f), broadcast(1.0f));
    const Vector minus_two_u = (x * broadcast(-1.59576912160573071f)) * cubic;
    return finite / (broadcast(1.0f) + exponential(minus_two_u));
}

// With e = exp(-2u), that is s + x e s^2 2u', where s = 1 / (1 + e). Far from 0 the second term
// vanishes before its factors overflow.
inline Vector gelu_tanh_slope(Vector x) {
    const Vector near = at_most(at_least(x, broadcast(-20.0f)), broadcast(20.0f));
    const Vector square = near * near;
    const Vector cubic = fused(square, broadcast(0.044715f), broadcast(1.0f));
    const Vector minus_two_u = (near * broadcast(-1.59576912160573071f)) * cubic;
    const Vector e = exponential(at_most(minus_two_u, broadcast(80.0f)));
    const Vector s = broadcast(1.0f) / (broadcast(1.0f) + e);
    const Vector two_u_slope =
        fused(square, broadcast(0.134145f), broadcast(1.0f)) * broadcast(1.59576912160573071f);
    return fused(near * two_u_slope, (e * s) * s, s);
}

// x Phi(x), Phi the normal distribution function, with absolute error below 1e-7 max(1, |x|):
// Phi(-a) = exp(-a^2 / 2) G(a) for a >= 0, G a minimax fit of degree 10 in q = (a - 2.5) / (a
// + 2.5) on 0 <= a <= 14.5 (relative error 1.1e-8), where exp reaches 0. Then gelu = max(x, 0) - a
// Phi(-a).
inline Vector gelu_erf_of(Vector x) {
    const Vector a = at_most(absolute(x), broadcast(14.5f));
    const Vector q = (a - broadcast(2.5f)) / (a + broadcast(2.5f));
    Vector g = broadcast(2.850802543e-05f);
    g = fused(g, q, broadcast(2.71165616e-05f));
    g = fused(g, q, broadcast(-0.0001957055186f));
    g = fused(g, q, broadcast(-0.0003633679679f));
    g = fused(g, q, broadcast(0.0008234718892f));
    g = fused(g, q, broadcast(0.002955181289f));
    g = fused(g, q, broadcast(-0.005124119244f));
    g = fused(g, q, broadcast(-0.02454992877f));
    g = fused(g, q, broadcast(0.1131357727f));
    g = fused(g, q, broadcast(-0.2280697464f));
    g = fused(g, q, broadcast(0.1413313324f));
    const Vector tail = exponential(a * a * broadcast(-0.5f)) * g;
    return fused(-a, tail, at_least(x, broadcast(0.0f)));
}

void gelu_tanh(float* x, Index n) {
    for_each_vector(n, [=](auto get, auto put) { put(x, gelu_tanh_of(get(x))); });
}

void gelu_erf(float* x, Index n) {
    for_each_vector(n, [=](auto get, auto put) { put(x, gelu_erf_of(get(x))); });
}

void gelu_tanh_gradient(const float* gradient, const float* x, Index n, float* out) {
    for_each_vector(n,
                    [=](auto get, auto put) { put(out, get(gradient) * gelu_tanh_slope(get(x))); });
}

void relu(float* x, Index n) {
    for_each_vector(n, [=](auto get, auto put) { put(x, at_least(get(x), broadcast(0.0f))); });
}

void add(float* y, const float* x, Index n) {
    for_each_vector(n, [=](auto get, auto put) { put(y, get(y) + get(x)); });
}

void add_halves(const float* a, const float* b, const float* bias, Index n, float* y) {
    if (bias == nullptr) {
        for_each_vector(n, [=](auto get, auto put) { put(y, get(a) + get(b)); });
    } else {
        for_each_vector(n, [=](auto get, auto put) { put(y, (get(a) + get(b)) + get(bias)); });
    }
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
