// What the operators that put elements elsewhere refuse. Their values are compared with PyTorch's
// by tests/py.
#include <cstdint>

#include <gtest/gtest.h>

#include "kael/indexing.h"

#include "message_of.h"

namespace {

using kael::DType;
using kael::Tensor;
using kael::test::message_of;

TEST(Indexing, RefusesByName) {
    const Tensor scalar = Tensor::zeros({}, DType::float32);
    const Tensor index = Tensor::zeros({1}, DType::int64);
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::forward::cat({}, 0)); }),
              "cat: no tensors, expected at least one");
    EXPECT_EQ(
        message_of([&] { static_cast<void>(kael::forward::index_add(scalar, 0, index, scalar)); }),
        "index_add: an index of shape [1] for a tensor of shape [], expected one dimension, "
        "and one or more");
    const Tensor half = Tensor::zeros({1}, DType::boolean).expand({std::int64_t{1} << 62});
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::forward::cat({half, half}, 0)); }),
              "cat: more than 2^63 - 1 elements in dimension 0 together, expected fewer");
}

} // namespace
