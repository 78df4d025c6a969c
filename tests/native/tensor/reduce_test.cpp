// Reductions from C++: the forms of the result, the order of sums, and what is refused. What they
// compute is compared with PyTorch by tests/py.
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/creation.h"
#include "kael/elementwise.h"
#include "kael/error.h"
#include "kael/operators.h"

#include "message_of.h"

namespace {

using kael::DType;
using kael::Shape;
using kael::Tensor;
using kael::test::message_of;

Tensor counted(const Shape& shape) {
    Tensor tensor = Tensor::empty(shape, DType::float32);
    std::iota(tensor.mutable_data<float>(), tensor.mutable_data<float>() + tensor.numel(), 0.0F);
    return tensor;
}

template <typename T>
std::vector<T> values(const Tensor& tensor) {
    return {tensor.data<T>(), tensor.data<T>() + tensor.numel()};
}

TEST(Reduce, TakesDimensionsInAnyOrderAndKeepsThemWhenAsked) {
    const Tensor x = counted({2, 3, 4});
    EXPECT_EQ(values<float>(kael::sum(x, {{0, -1}})), (std::vector<float>{60, 92, 124}));
    EXPECT_EQ(kael::sum(x, {{-1, 0}, true}).shape(), (Shape{1, 3, 1}));
    EXPECT_EQ(kael::sum(x, {{}, true}).shape(), (Shape{1, 1, 1}));
    EXPECT_EQ(values<float>(kael::sum(x)), (std::vector<float>{276}));
    EXPECT_EQ(values<float>(kael::sum(x.permute({2, 0, 1}), {{1, 0}})),
              (std::vector<float>{60, 92, 124}));
    EXPECT_EQ(values<std::int64_t>(kael::argmax(x, 1, true)),
              (std::vector<std::int64_t>{2, 2, 2, 2, 2, 2, 2, 2}));
    EXPECT_EQ(values<std::int64_t>(kael::argmin(x)), (std::vector<std::int64_t>{0}));
}

TEST(Reduce, RowsAndColumnsHaveTheSameBits) {
    // Longer than a piece, more rows than are read side by side, and neither a multiple of a block.
    const Tensor x = kael::sin(counted({19, 17'001}));
    const Tensor columns = x.transpose(0, 1).contiguous();
    for (auto* const reduce : {kael::sum, kael::prod, kael::mean, kael::logsumexp}) {
        EXPECT_EQ(values<float>(reduce(x, {{1}})), values<float>(reduce(columns, {{0}})));
    }
    EXPECT_EQ(values<float>(kael::var(x, {{1}})), values<float>(kael::var(columns, {{0}})));
    EXPECT_EQ(values<float>(kael::norm(x, 3, {{1}})), values<float>(kael::norm(columns, 3, {{0}})));
}

TEST(Reduce, JoinsPartsOfAnyCount) {
    // As many blocks and pieces as make every shape of the tree.
    for (std::int64_t blocks = 1; blocks < 140; blocks += 3) {
        const Tensor x = kael::add(Tensor::zeros({blocks * 512 - 1}, DType::int64), 1);
        EXPECT_EQ(values<std::int64_t>(kael::sum(x))[0], blocks * 512 - 1);
        EXPECT_EQ(values<std::uint8_t>(kael::all(x))[0], 1);
        EXPECT_EQ(values<std::int64_t>(kael::argmax(x))[0], 0);
    }
}

// A block that is -infinity has no weight, however small the elements of another one are.
TEST(Reduce, LogsumexpJoinsBlocksOfInfinitiesWithOthers) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto of = [](double before, double after) {
        const Tensor front = kael::full({512}, before, DType::float64);
        const Tensor x = kael::cat({front, kael::full({512}, after, DType::float64)}, 0);
        return values<double>(kael::logsumexp(x))[0];
    };
    for (const double number : {-1000.0, -1e300, 0.0, 1000.0}) {
        EXPECT_DOUBLE_EQ(of(-kInfinity, number), number + std::log(512)) << number;
        EXPECT_DOUBLE_EQ(of(number, -kInfinity), number + std::log(512)) << number;
        EXPECT_EQ(of(kInfinity, number), kInfinity) << number;
        EXPECT_EQ(of(number, kInfinity), kInfinity) << number;
        EXPECT_TRUE(std::isnan(of(std::nan(""), number))) << number;
    }
    EXPECT_EQ(of(-kInfinity, -kInfinity), -kInfinity);
    EXPECT_EQ(of(-kInfinity, kInfinity), kInfinity);
    EXPECT_TRUE(std::isnan(of(-kInfinity, std::nan(""))));
}

TEST(Reduce, ANormIsNeverNegativeZero) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (const std::int64_t count : {1, 7, 64, 1000}) { // alone, and in vectors
        const Tensor x = kael::full({count}, -0.0);
        for (const double p : {kInfinity, -kInfinity, 1.0, 2.0, 3.0}) {
            EXPECT_FALSE(std::signbit(values<float>(kael::norm(x, p))[0])) << count << " " << p;
        }
        EXPECT_EQ(values<float>(kael::norm(kael::full({count}, -2.0), kInfinity))[0], 2);
    }
}

TEST(Reduce, RefusesByName) {
    const Tensor x = counted({2, 0});
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::amax(x, {{1}})); }),
              "amax: no element to choose from, in a tensor of shape [2, 0], expected one or more");
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::sum(x, {{2}})); }),
              "sum: dimension 2 of a tensor of shape [2, 0], expected -2 to 1");
    EXPECT_EQ(message_of([&] { static_cast<void>(kael::softmax(x.to(DType::int8), 0)); }),
              "softmax: a tensor of dtype int8, expected a floating-point one");
}

TEST(Reduce, LeavesItsArgumentAlone) {
    const Tensor x = counted({3});
    static_cast<void>(kael::softmax(x, 0));
    static_cast<void>(kael::cumsum(x, 0));
    EXPECT_EQ(values<float>(x), (std::vector<float>{0, 1, 2}));
    EXPECT_EQ(x.storage()->version(), 0U);
}

} // namespace
