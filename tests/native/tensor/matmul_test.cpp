// Products from C++: layouts and batches that reach the kernels without a copy. Values and shapes
// are compared with PyTorch by tests/py.
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kael/matmul.h"
#include "kael/tensor.h"

#include "message_of.h"

namespace {

using kael::DType;
using kael::Shape;
using kael::Tensor;
using kael::forward::matmul;
using kael::test::message_of;

Tensor counted(const Shape& shape) {
    Tensor tensor = Tensor::empty(shape, DType::float32);
    std::iota(tensor.mutable_data<float>(), tensor.mutable_data<float>() + tensor.numel(), 1.0F);
    return tensor;
}

std::vector<float> values(const Tensor& tensor) {
    return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

// One sum after the other, in float64.
std::vector<float> expected(const Tensor& a, const Tensor& b) {
    const Tensor left = a.contiguous();
    const Tensor right = b.contiguous();
    std::vector<float> result;
    for (std::int64_t i = 0; i < a.size(0); ++i) {
        for (std::int64_t j = 0; j < b.size(1); ++j) {
            double sum = 0;
            for (std::int64_t k = 0; k < a.size(1); ++k) {
                sum += static_cast<double>(left.data<float>()[i * a.size(1) + k]) *
                       static_cast<double>(right.data<float>()[k * b.size(1) + j]);
            }
            result.push_back(static_cast<float>(sum));
        }
    }
    return result;
}

TEST(Matmul, ReadsRowsWhereverTheyLie) {
    const Tensor x = counted({6, 10});
    for (const Tensor& a : {x.slice(1, 2, 5), x.slice(0, 0, 6, 2).slice(1, 0, 3),
                            x.select(0, 0).slice(0, 0, 3).unsqueeze(0).expand({4, 3}),
                            counted({3, 5}).transpose(0, 1), x.slice(1, 0, 1).expand({6, 3})}) {
        for (const Tensor& b :
             {counted({3, 4}), counted({4, 3}).transpose(0, 1), counted({3, 9}).slice(1, 3, 8),
              counted({1, 4}).expand({3, 4}), counted({3, 1}), counted({3, 1}).expand({3, 2})}) {
            EXPECT_EQ(values(matmul(a, b)), expected(a, b))
                << kael::to_string(a.strides()) << kael::to_string(b.strides());
        }
    }
}

TEST(Matmul, RepeatsABroadcastMatrixWithoutACopy) {
    const Tensor a = counted({2, 3});
    const Tensor b = counted({1, 3, 2}).expand({100'000, 3, 2});
    const Tensor product = matmul(a, b);
    EXPECT_EQ(product.shape(), (Shape{100'000, 2, 2}));
    EXPECT_EQ(values(product.select(0, 99'999).contiguous()), expected(a, b.select(0, 0)));
}

TEST(Matmul, RefusesUndefinedTensors) {
    EXPECT_EQ(message_of([] { static_cast<void>(matmul(Tensor(), counted({1}))); }),
              "matmul: an undefined tensor, expected a defined one");
}

} // namespace
