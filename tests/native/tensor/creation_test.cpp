// New tensors from C++, at the edges that Python does not reach. Their values are compared with
// NumPy and PyTorch by tests/py.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kael/creation.h"
#include "kael/error.h"
#include "kael/random.h"

#include "message_of.h"

namespace {

using kael::DType;
using kael::Shape;
using kael::Tensor;
using kael::test::message_of;

template <typename T>
std::vector<T> values(const Tensor& tensor) {
    return {tensor.data<T>(), tensor.data<T>() + tensor.numel()};
}

TEST(Creation, FullTakesTheDTypeOfItsNumber) {
    EXPECT_EQ(kael::full({2}, true).dtype(), DType::boolean);
    EXPECT_EQ(kael::full({2}, std::int64_t{3}).dtype(), DType::int64);
    EXPECT_EQ(values<float>(kael::full({2}, 0.5)), (std::vector<float>{0.5F, 0.5F}));
    EXPECT_EQ(values<std::int8_t>(kael::full({}, std::int64_t{-128}, DType::int8)),
              (std::vector<std::int8_t>{-128}));
    EXPECT_EQ(
        message_of([] { static_cast<void>(kael::full({1}, std::int64_t{128}, DType::int8)); }),
        "full: the number 128 does not fit the dtype int8, expected -128 to 127");
}

TEST(Creation, ArangeReachesBothEndsOfInt64) {
    static constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(values<std::int64_t>(kael::arange(kMost, kLeast, kLeast)),
              (std::vector<std::int64_t>{kMost, -1}));
    EXPECT_EQ(kael::arange(kLeast, kMost, kMost).numel(), 3);
    EXPECT_EQ(kael::arange(kMost, kMost, std::int64_t{1}).shape(), (Shape{0}));
    EXPECT_EQ(message_of([] { static_cast<void>(kael::arange(kLeast, kMost, std::int64_t{1})); }),
              "arange: from -9223372036854775808 to 9223372036854775807 in steps of 1 are "
              "18446744073709551615 numbers, expected fewer than 2^63");
}

TEST(Creation, ArangeMixesIntegersAndFloats) {
    EXPECT_EQ(values<float>(kael::arange(std::int64_t{1}, 2.0, 0.5)),
              (std::vector<float>{1, 1.5F}));
    EXPECT_EQ(kael::arange(false, true, true).dtype(), DType::int64);
    for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity()}) {
        EXPECT_NE(message_of([=] {
                      static_cast<void>(kael::arange(0.0, wrong, 1.0));
                  }).find("expected finite numbers"),
                  std::string::npos);
    }
}

TEST(Creation, LinspaceMayRunBackwardsAndStandStill) {
    EXPECT_EQ(values<double>(kael::linspace(1, -1, 5, DType::float64)),
              (std::vector<double>{1, 0.5, 0, -0.5, -1}));
    EXPECT_EQ(values<double>(kael::linspace(2, 2, 3, DType::float64)),
              (std::vector<double>{2, 2, 2}));
    constexpr double kLeast = std::numeric_limits<double>::denorm_min();
    EXPECT_EQ(values<double>(kael::linspace(0, 3 * kLeast, 4, DType::float64)),
              (std::vector<double>{0, kLeast, 2 * kLeast, 3 * kLeast}));
    constexpr double kMost = std::numeric_limits<double>::max();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    EXPECT_EQ(values<double>(kael::linspace(-kMost, kMost, 3, DType::float64)),
              (std::vector<double>{-kMost, 0, kMost}));
    EXPECT_EQ(values<double>(kael::linspace(1, kInfinity, 1, DType::float64)),
              (std::vector<double>{1}));
    EXPECT_EQ(message_of([] { static_cast<void>(kael::linspace(0, 1, -1)); }),
              "linspace: -1 numbers, expected 0 or more");
}

TEST(Creation, EyeHasNoCellsWithoutRowsOrColumns) {
    EXPECT_EQ(kael::eye(0, 5).shape(), (Shape{0, 5}));
    EXPECT_EQ(kael::eye(5, 0).shape(), (Shape{5, 0}));
    EXPECT_EQ(message_of([] { static_cast<void>(kael::eye(-1, 2)); }),
              "eye: -1 rows and 2 columns, expected 0 or more");
}

TEST(Creation, RandomNumbersAreThoseOfAStreamOfTheProcess) {
    kael::manual_seed(5);
    const Tensor uniform = kael::rand({3}, DType::float64);
    const Tensor normal = kael::randn({3}, DType::float64);
    kael::manual_seed(5);
    kael::RandomStream first(kael::draw_seed());
    kael::RandomStream second(kael::draw_seed());
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(uniform.data<double>()[i], first.next_uniform());
        EXPECT_EQ(normal.data<double>()[i], second.next_normal());
    }
}

} // namespace
