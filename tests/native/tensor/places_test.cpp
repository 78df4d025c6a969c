// What masks and integers as an index pick and write, and what they refuse.
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/creation.h"
#include "kael/operators.h"

#include "message_of.h"

namespace {

using kael::DType;
using kael::Shape;
using kael::Tensor;
using kael::test::message_of;

using Values = std::vector<std::int64_t>;

Tensor integers(const Shape& shape, const Values& values) {
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(8 * values.size()), shape,
                              DType::int64);
}

// Elements that are their positions in row-major order.
Tensor numbered(const Shape& shape) {
    Values values(static_cast<std::size_t>(kael::element_count(shape)));
    std::iota(values.begin(), values.end(), std::int64_t{0});
    return integers(shape, values);
}

Values values_of(const Tensor& x) {
    const Tensor copy = x.contiguous();
    return {copy.data<std::int64_t>(), copy.data<std::int64_t>() + copy.numel()};
}

Tensor mask(const Shape& shape, const Values& values) {
    return integers(shape, values).to(DType::boolean);
}

TEST(Places, StandWhereTheirDimensionsWere) {
    const Tensor x = numbered({2, 3, 4});
    const Tensor picked = kael::index(x, {1}, {integers({2, 2}, {0, -1, 1, 0})});
    EXPECT_EQ(picked.shape(), (Shape{2, 2, 2, 4}));
    EXPECT_EQ(values_of(picked.select(0, 1).select(0, 0)),
              (Values{12, 13, 14, 15, 20, 21, 22, 23}));
    EXPECT_EQ(values_of(kael::index(x, {1, 2}, {integers({2}, {2, 0}), integers({1}, {3})})),
              (Values{11, 3, 23, 15}));
}

TEST(Places, StandInFrontWhereAnotherDimensionIsBetween) {
    const Tensor x = numbered({2, 3, 4});
    const Tensor picked = kael::index(x, {0, -1}, {integers({2}, {1, 0}), integers({2}, {0, 3})});
    EXPECT_EQ(picked.shape(), (Shape{2, 3}));
    EXPECT_EQ(values_of(picked), (Values{12, 16, 20, 3, 7, 11}));
}

TEST(Places, OfAMaskAreInRowMajorOrder) {
    const Tensor x = numbered({2, 2, 2}).transpose(0, 2);
    EXPECT_EQ(values_of(kael::index(x, {1}, {mask({2, 2}, {0, 1, 1, 1})})),
              (Values{4, 2, 6, 5, 3, 7}));
    EXPECT_EQ(values_of(kael::nonzero(mask({2, 2}, {0, 1, 1, 1}))), (Values{0, 1, 1, 0, 1, 1}));
    EXPECT_EQ(kael::nonzero(Tensor::zeros({}, DType::float32)).shape(), (Shape{0, 0}));
    EXPECT_EQ(kael::nonzero(kael::full({}, 2)).shape(), (Shape{1, 0}));
}

TEST(Places, AreWrittenThroughStridesInOrder) {
    Tensor whole = Tensor::zeros({4, 6}, DType::int64);
    Tensor x = whole.slice(0, 0, 4, 2).transpose(0, 1); // [6, 2]
    const std::uint64_t version = whole.storage()->version();
    kael::index_put_(x, {0}, {integers({3}, {1, -1, 1})}, numbered({3, 2}));
    EXPECT_EQ(values_of(whole.select(0, 0)), (Values{0, 4, 0, 0, 0, 2}));
    EXPECT_EQ(values_of(whole.select(0, 1)), (Values(6, 0)));
    EXPECT_EQ(values_of(whole.select(0, 2)), (Values{0, 5, 0, 0, 0, 3}));
    EXPECT_EQ(whole.storage()->version(), version + 1);
}

TEST(Places, RefuseWhatTheyCannotFind) {
    Tensor x = numbered({2, 3});
    const Tensor zero = integers({1}, {0});
    EXPECT_EQ(message_of([&] { return kael::index(x, {0}, {}); }),
              "index: 0 indices for 1 dimensions, expected one or more, and as many");
    EXPECT_EQ(message_of([&] { return kael::index(x, {1, 0}, {zero, zero}); }),
              "index: dimension 0 has an index already, or comes before one that has, expected "
              "ascending dimensions");
    EXPECT_EQ(message_of([&] { return kael::index(x, {0}, {mask({}, {1})}); }),
              "index: a mask without dimensions, expected one or more");
    EXPECT_EQ(message_of([&] { return kael::index(x, {1}, {mask({3, 1}, {1, 1, 1})}); }),
              "index: a mask of shape [3, 1] from dimension 1 on of a tensor of shape [2, 3]: "
              "dimension 2 has 1 and is not there, expected equal sizes");
    EXPECT_EQ(message_of([&] { return kael::index(x, {0}, {zero.to(DType::float16)}); }),
              "index: an index of dtype float16, expected integers, or a mask of bools");
    EXPECT_EQ(message_of([&] { return kael::index(x.select(0, 0).select(0, 0), {0}, {zero}); }),
              "index: an index for a tensor without dimensions, expected one or more");
    EXPECT_EQ(message_of([&] { return kael::index(x, {0}, {zero.reshape(Shape(16, 1))}); }),
              "an index that picks 17 dimensions, expected at most 16");
}

} // namespace
