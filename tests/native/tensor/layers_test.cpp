// Layers and losses at the limits of their numbers. What they compute in between is compared with
// PyTorch by tests/py.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/layers.h"

namespace {

using kael::DType;
using kael::Tensor;

Tensor vector_of(const std::vector<double>& values) {
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(8 * values.size()),
                              {static_cast<std::int64_t>(values.size())}, DType::float64);
}

TEST(GeluTanhGradient, FarFromZeroIsThatOfAStraightLine) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const Tensor x = vector_of(
        {25, 1e19, 1e154, 1e300, kInfinity, -25, -1e19, -1e154, -1e300, -kInfinity, std::nan("")});
    const Tensor ones = vector_of(std::vector<double>(11, 1));
    for (const DType dtype : {DType::float32, DType::float64}) {
        const Tensor slopes =
            kael::forward::gelu_tanh_gradient(ones.to(dtype), x.to(dtype)).to(DType::float64);
        for (int i = 0; i < 5; ++i) {
            EXPECT_EQ(slopes.data<double>()[i], 1) << name(dtype) << " " << i;
            EXPECT_NEAR(slopes.data<double>()[5 + i], 0, 1e-30) << name(dtype) << " " << i;
        }
        EXPECT_TRUE(std::isnan(slopes.data<double>()[10])) << name(dtype);
    }
}

TEST(CrossEntropy, OfLargeLogitsIsThatOfTheirDifferences) {
    const std::vector<double> targets = {1, 0};
    const Tensor ids = vector_of(targets).to(DType::int64);
    for (const DType dtype : {DType::float32, DType::float64}) {
        for (const double offset : {0.0, 1e8, 1e20, 3e38, -3e38}) {
            const Tensor logits = vector_of({offset, offset, offset, offset}).view({2, 2});
            const Tensor loss = kael::forward::cross_entropy(logits.to(dtype), ids, -100);
            EXPECT_NEAR(*loss.to(DType::float64).data<double>(), std::log(2.0), 1e-7) << offset;
        }
    }
}

TEST(CrossEntropy, OfNothingButNegativeInfinityIsNaNAndSoAreItsGradients) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const Tensor logits = vector_of({-kInfinity, -kInfinity, -kInfinity}).view({1, 3});
    const Tensor ids = vector_of({0}).to(DType::int64);
    for (const DType dtype : {DType::float32, DType::float64}) {
        const Tensor loss = kael::forward::cross_entropy(logits.to(dtype), ids, -100);
        EXPECT_TRUE(std::isnan(*loss.to(DType::float64).data<double>())) << name(dtype);
        const Tensor one = vector_of({1}).to(dtype).view({});
        const Tensor slopes =
            kael::forward::cross_entropy_gradient(one, logits.to(dtype), ids, -100)
                .to(DType::float64);
        for (int i = 0; i < 3; ++i) {
            EXPECT_TRUE(std::isnan(slopes.data<double>()[i])) << name(dtype) << " " << i;
        }
    }
}

TEST(LayerNorm, OfEqualElementsIsTheBias) {
    const Tensor ones = vector_of({1, 1, 1});
    const Tensor bias = vector_of({0.5, -2, 0});
    for (const DType dtype : {DType::float32, DType::float64}) {
        for (const double number : {0.1, 1e13, -1e19, 3e38, 1e-30}) {
            const Tensor x = vector_of({number, number, number});
            const Tensor y =
                kael::forward::layer_norm(x.to(dtype), ones.to(dtype), bias.to(dtype), 1e-5)
                    .result.to(DType::float64);
            for (int i = 0; i < 3; ++i) {
                EXPECT_EQ(y.data<double>()[i], bias.data<double>()[i]) << number;
            }
        }
    }
}

} // namespace
