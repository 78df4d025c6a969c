#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kael/tensor.h"

namespace {

using kael::DType;
using kael::Shape;
using kael::Tensor;

Tensor iota(const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(kael::element_count(shape)));
    std::iota(values.begin(), values.end(), 0.0F);
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(values.size() * 4), shape,
                              DType::float32);
}

TEST(Tensor, ATransposedTensorIsAViewAndItsContiguousCopyIsNot) {
    const Tensor tensor = iota({2, 3});
    const Tensor transposed = tensor.transpose(0, 1);
    EXPECT_EQ(transposed.storage(), tensor.storage());
    EXPECT_EQ(transposed.strides(), (Shape{1, 3}));
    const Tensor copy = transposed.contiguous();
    EXPECT_NE(copy.storage(), tensor.storage());
    const std::vector<float> expected = {0, 3, 1, 4, 2, 5};
    EXPECT_EQ(std::memcmp(copy.data<float>(), expected.data(), sizeof(float) * 6), 0);
}

} // namespace
