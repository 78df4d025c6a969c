// einsum against sums that are written out.
#include <cstdint>
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

Tensor numbered(const Shape& shape) {
    Tensor tensor = Tensor::empty(shape, DType::float64);
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        tensor.mutable_data<double>()[i] = static_cast<double>(3 * i % 7 - 2);
    }
    return tensor;
}

double at(const Tensor& x, const Shape& index) {
    Tensor element = x;
    for (const std::int64_t i : index) {
        element = element.select(0, i);
    }
    return *element.data<double>();
}

TEST(Einsum, SumsProductsOverWhatTheResultDoesNotName) {
    const Tensor a = numbered({2, 3, 4});
    const Tensor b = numbered({4, 2, 5});
    const Tensor c = numbered({3, 3});
    const Tensor result = kael::einsum("bij, jbk, ii -> kb", {a, b, c});
    ASSERT_EQ(result.shape(), (Shape{5, 2}));
    for (std::int64_t k = 0; k < 5; ++k) {
        for (std::int64_t n = 0; n < 2; ++n) {
            double expected = 0;
            for (std::int64_t i = 0; i < 3; ++i) {
                for (std::int64_t j = 0; j < 4; ++j) {
                    expected += at(a, {n, i, j}) * at(b, {j, n, k}) * at(c, {i, i});
                }
            }
            EXPECT_EQ(at(result, {k, n}), expected);
        }
    }
}

TEST(Einsum, HasGradients) {
    const Tensor a = numbered({2, 3}).set_requires_grad(true);
    const Tensor b = numbered({3, 2}).set_requires_grad(true);
    kael::einsum("ij,ji", {a, b}).backward();
    EXPECT_EQ(kael::sum(kael::eq(a.grad(), b.transpose(0, 1))).data<std::int64_t>()[0], 6);
    EXPECT_EQ(kael::sum(kael::eq(b.grad(), a.transpose(0, 1))).data<std::int64_t>()[0], 6);
}

TEST(Einsum, NamesTheOperandThatDoesNotFit) {
    const Tensor x = numbered({2, 3});
    EXPECT_EQ(message_of([&] { return kael::einsum("ij,jk", {x, x}); }),
              "einsum: the subscript 'j' has size 3 in operand 1 and 2 in operand 2, expected "
              "equal sizes or 1");
    EXPECT_EQ(message_of([&] { return kael::einsum("ij", {Tensor()}); }),
              "einsum: an undefined tensor, expected a defined one");
    EXPECT_EQ(message_of([&] { return kael::einsum("", {}); }),
              "einsum: 0 operands for the equation \"\", expected 1");
}

} // namespace
