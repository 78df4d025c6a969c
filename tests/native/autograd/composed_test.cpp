// What the operators that are made of others refuse. Their values are compared with PyTorch's by
// tests/py.
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "kael/operators.h"

#include "message_of.h"

namespace {

using kael::DType;
using kael::Tensor;
using kael::test::message_of;

TEST(Composed, RefusesByName) {
    const Tensor scalar = Tensor::zeros({}, DType::float32);
    const Tensor x = Tensor::zeros({2, 3}, DType::float32);
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::narrow(scalar, 0, 0, 0)); }),
              "narrow: a tensor without dimensions, expected one or more");
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::chunk(x, 0, 0)); }),
              "chunk: 0 parts, expected 1 or more");
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::stack({}, 0)); }),
              "stack: no tensors, expected at least one");
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::pad(x, {kLeast, 0}, 0.0)); }),
              "pad: the elements to take away 0 - -9223372036854775808 does not fit in 64 bits");
    EXPECT_EQ(message_of([&] {
                  static_cast<void>(kael::pad(x, {0, kLeast}, 0.0, kael::PadMode::reflect));
              }),
              "pad: the elements to take away 0 - -9223372036854775808 does not fit in 64 bits");
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::sum_to_shape(x, {1, 2, 3})); }),
              "sum_to_shape: the shape [2, 3] to [1, 2, 3], expected at most 2 dimensions");
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::sum_to_shape(x, {2, 2})); }),
              "sum_to_shape: the shape [2, 3] is no broadcast of [2, 2], expected dimensions that "
              "are equal or 1");
}

TEST(Composed, RepeatMakesTensorsThatMayBeWritten) {
    // The first dimension needs a copy, the second would be a view of that.
    Tensor repeated = kael::repeat(Tensor::zeros({2, 1}, DType::float32), {2, 2});
    EXPECT_TRUE(repeated.is_contiguous());
    kael::add_(repeated, 1);
    EXPECT_EQ(*kael::sum(repeated).data<float>(), 8);
}

} // namespace
