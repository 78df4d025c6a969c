// The gradients of matrix products. The product is linear in each factor, so differences are exact.
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/creation.h"
#include "kael/operators.h"

namespace {

using kael::DType;
using kael::Shape;
using kael::Tensor;

// Small whole numbers, none of them 0.
Tensor numbered(const Shape& shape, std::int64_t seed) {
    Tensor tensor = Tensor::empty(shape, DType::float64);
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        tensor.mutable_data<double>()[i] = static_cast<double>((seed + 7 * i) % 5 + 1);
    }
    return tensor;
}

double objective(const Tensor& a, const Tensor& b) {
    const Tensor product = kael::matmul(a, b);
    return *kael::sum(product * numbered(product.shape(), 3)).data<double>();
}

// What the objective gains for each element that becomes larger by one.
std::vector<double> gains(const Tensor& x, auto&& value) {
    std::vector<double> result;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
        Tensor changed = x.clone();
        changed.mutable_data<double>()[i] += 1;
        result.push_back(value(changed) - value(x));
    }
    return result;
}

std::vector<double> elements(const Tensor& x) {
    const Tensor copy = x.contiguous();
    return {copy.data<double>(), copy.data<double>() + copy.numel()};
}

TEST(MatmulGradient, IsThatOfDifferencesForEveryShape) {
    for (const auto& [left, right] : std::vector<std::pair<Shape, Shape>>{
             {{3}, {3}},
             {{2, 3}, {3}},
             {{3}, {3, 4}},
             {{2, 3}, {3, 4}},
             {{5, 2, 3}, {3, 4}},
             {{2, 3}, {5, 3, 4}},
             {{5, 2, 3}, {3}},
             {{3}, {5, 3, 4}},
             {{2, 1, 2, 3}, {3, 3, 2}},
             {{1, 2, 3}, {4, 3, 2}},
         }) {
        Tensor a = numbered(left, 1);
        Tensor b = numbered(right, 2);
        const auto of_a = gains(a, [&](const Tensor& x) { return objective(x, b); });
        const auto of_b = gains(b, [&](const Tensor& x) { return objective(a, x); });
        a.set_requires_grad(true);
        b.set_requires_grad(true);
        const Tensor product = kael::matmul(a, b);
        kael::autograd::backward({kael::sum(product * numbered(product.shape(), 3))});
        EXPECT_EQ(a.grad().shape(), left);
        EXPECT_EQ(b.grad().shape(), right);
        EXPECT_EQ(elements(a.grad()), of_a) << kael::to_string(left) << kael::to_string(right);
        EXPECT_EQ(elements(b.grad()), of_b) << kael::to_string(left) << kael::to_string(right);
    }
}

TEST(MatmulGradient, OfSumsOfNothingIsZero) {
    Tensor a = Tensor::zeros({2, 0}, DType::float32);
    a.set_requires_grad(true);
    Tensor b = Tensor::zeros({0, 3}, DType::float32);
    b.set_requires_grad(true);
    kael::autograd::backward({kael::sum(kael::matmul(a, b))});
    EXPECT_EQ(a.grad().shape(), (Shape{2, 0}));
    EXPECT_EQ(b.grad().shape(), (Shape{0, 3}));
}

TEST(MatmulGradient, IsNotRecordedForIntegers) {
    const Tensor a = kael::full({2, 2}, std::int64_t{1});
    EXPECT_FALSE(kael::matmul(a, a).requires_grad());
}

} // namespace
