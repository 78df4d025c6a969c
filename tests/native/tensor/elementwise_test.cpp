// Elementwise operators from C++. What they compute is compared with PyTorch and NumPy by tests/py;
// here are the types, the layouts and what an in-place operator leaves behind.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/operators.h"
#include "kael/threads.h"

#include "message_of.h"
#include "operators/operator.h"
#include "tensor/blocks.h"
#include "tensor/elementwise_kernels.h"
#include "tensor/overlap.h"

namespace {

using kael::DType;
using kael::Operand;
using kael::Shape;
using kael::Tensor;
using kael::test::message_of;

template <typename T>
Tensor make(const Shape& shape, DType dtype, const std::vector<T>& values) {
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(values.size() * sizeof(T)),
                              shape, dtype);
}

Tensor floats(const Shape& shape, const std::vector<float>& values) {
    return make(shape, DType::float32, values);
}

template <typename T>
std::vector<T> values(const Tensor& tensor) {
    const Tensor copy = tensor.contiguous();
    return {copy.data<T>(), copy.data<T>() + copy.numel()};
}

TEST(Promotion, IsSymmetricAndHoldsBoth) {
    for (std::int32_t i = 0; i <= 8; ++i) {
        for (std::int32_t j = 0; j <= 8; ++j) {
            const DType a = static_cast<DType>(i);
            const DType b = static_cast<DType>(j);
            const DType both = kael::promote(a, b);
            EXPECT_EQ(both, kael::promote(b, a));
            EXPECT_EQ(kael::promote(both, a), both) << i << " " << j;
            EXPECT_TRUE(kael::can_store(a, both));
        }
    }
    EXPECT_EQ(kael::promote(DType::float16, DType::bfloat16), DType::float32);
    EXPECT_EQ(kael::promote(DType::int8, DType::uint8), DType::int32);
    EXPECT_EQ(kael::promote(DType::int64, DType::float16), DType::float16);
}

TEST(Promotion, ATensorWithoutDimensionsAndANumberCountByKind) {
    const Tensor vector = Tensor::zeros({2}, DType::float32);
    const Tensor scalar = Tensor::zeros({}, DType::float64);
    const Tensor integers = Tensor::zeros({2}, DType::int32);
    const auto type = [](std::vector<Operand> operands) { return kael::result_type(operands); };
    EXPECT_EQ(message_of([&] { type({}); }), "result_type: no operands, expected at least one");
    EXPECT_EQ(type({vector, scalar}), DType::float32);
    EXPECT_EQ(type({integers, scalar}), DType::float64);
    EXPECT_EQ(type({integers, 0.5}), DType::float32);
    EXPECT_EQ(type({integers, 7}), DType::int32);
    EXPECT_EQ(type({Tensor::zeros({}, DType::float16), 0.5}), DType::float16);
    EXPECT_EQ(type({Tensor::zeros({2}, DType::boolean), 7}), DType::int64);
    EXPECT_EQ(type({true, 7}), DType::int64);
}

TEST(Broadcasting, AlignsShapesAtTheirLastDimension) {
    const auto broadcast = [](std::vector<Shape> shapes) {
        return kael::broadcast_shapes(shapes, "test");
    };
    EXPECT_EQ(broadcast({{3, 1}, {4}}), (Shape{3, 4}));
    EXPECT_EQ(broadcast({{}, {2, 0}}), (Shape{2, 0}));
    EXPECT_EQ(broadcast({{1}, {0}}), (Shape{0}));
    EXPECT_EQ(broadcast({}), (Shape{}));
    EXPECT_EQ(message_of([&] { static_cast<void>(broadcast({{2, 3}, {1}, {3, 3}})); }),
              "test: the shapes [2, 3] and [1] and [3, 3] do not broadcast: dimension -2 has 2 and "
              "3, expected equal sizes or 1");
}

TEST(Elementwise, AddsAcrossLayouts) {
    const Tensor x = floats({2, 3}, {0, 1, 2, 3, 4, 5});
    const Tensor sum =
        kael::add(x, x.transpose(0, 1).slice(0, 0, 1).expand({2, 2}).select(1, 1).unsqueeze(1));
    EXPECT_EQ(values<float>(sum), (std::vector<float>{3, 4, 5, 6, 7, 8}));
    EXPECT_TRUE(sum.is_contiguous());
    EXPECT_EQ(values<float>(kael::mul(x, 2)), (std::vector<float>{0, 2, 4, 6, 8, 10}));
    EXPECT_EQ(values<std::uint8_t>(kael::lt(x, 2.5)),
              (std::vector<std::uint8_t>{1, 1, 1, 0, 0, 0}));
    EXPECT_EQ(values<float>(kael::where(kael::ge(x, 4), x, -1)),
              (std::vector<float>{-1, -1, -1, -1, 4, 5}));
}

TEST(Elementwise, EveryRowTakesPartAndRefusesWhatItShould) {
    for (const kael::ElementwiseRow& row : kael::elementwise_rows()) {
        const auto arity = static_cast<std::size_t>(row.arity);
        std::vector<kael::Argument> arguments(arity, floats({2}, {1, 2}));
        if (row.first_is_condition) {
            arguments[0] = Tensor::zeros({2}, DType::boolean);
        }
        const kael::Operator& named = kael::find_operator(row.name);
        EXPECT_EQ(named.run({row.name, arguments}).at(0).shape(), (Shape{2})) << row.name;
        arguments.emplace_back(true);
        EXPECT_EQ(message_of([&] { named.run({row.name, arguments}); }),
                  std::string(row.name) + ": " + std::to_string(arity + 1) +
                      " arguments, expected " + std::to_string(arity));
        arguments.assign(arity, Tensor());
        EXPECT_NE(message_of([&] { named.run({row.name, arguments}); }), "nothing was thrown")
            << row.name;
        EXPECT_NE(row.kernels.float32, nullptr) << row.name;
        EXPECT_NE(row.kernels.float64, nullptr) << row.name;
    }
}

TEST(Elementwise, InPlaceWritesThroughViewsAndCountsVersions) {
    Tensor x = floats({2, 2}, {1, 2, 3, 4});
    const Tensor row = x.select(0, 1);
    const std::uint64_t before = x.storage()->version();
    EXPECT_EQ(&kael::add_(x, 1), &x);
    EXPECT_EQ(values<float>(row), (std::vector<float>{4, 5}));
    EXPECT_EQ(row.storage()->version(), before + 1);
    Tensor column = x.select(1, 0);
    kael::neg_(column);
    kael::copy_(column, column);
    EXPECT_EQ(values<float>(x), (std::vector<float>{-2, 3, -4, 5}));
    EXPECT_EQ(x.storage()->version(), before + 3);
    static_cast<void>(kael::add(x, x));
    EXPECT_EQ(x.storage()->version(), before + 3);
}

TEST(Elementwise, AnInPlaceErrorChangesNeitherValuesNorVersion) {
    Tensor x = make<std::int64_t>({2}, DType::int64, {6, 7});
    const std::uint64_t before = x.storage()->version();
    EXPECT_NE(
        message_of([&] { kael::floor_divide_(x, make<std::int64_t>({2}, DType::int64, {2, 0})); }),
        "nothing was thrown");
    EXPECT_NE(message_of([&] { kael::mul_(x, 0.5); }), "nothing was thrown");
    EXPECT_EQ(values<std::int64_t>(x), (std::vector<std::int64_t>{6, 7}));
    EXPECT_EQ(x.storage()->version(), before);
}

TEST(Elementwise, ABoolComesFromABooleanByteOfAnyValue) {
    const Tensor odd = make<std::uint8_t>({3}, DType::boolean, {0, 1, 2});
    EXPECT_EQ(values<std::uint8_t>(kael::add(odd, odd)), (std::vector<std::uint8_t>{0, 1, 1}));
    EXPECT_EQ(values<std::uint8_t>(kael::eq(odd, true)), (std::vector<std::uint8_t>{0, 1, 1}));
    EXPECT_EQ(values<float>(kael::where(odd, 1.0, 0.0)), (std::vector<float>{0, 1, 1}));
}

TEST(Overlap, KnowsWhichElementsShareMemory) {
    const Tensor x = Tensor::zeros({4, 3, 2}, DType::float32);
    EXPECT_TRUE(kael::has_distinct_elements(x));
    EXPECT_TRUE(kael::has_distinct_elements(x.permute({2, 0, 1}).slice(1, 1, 4, 2)));
    EXPECT_TRUE(kael::has_distinct_elements(x.slice(0, 0, 0)));
    EXPECT_TRUE(
        kael::has_distinct_elements(x.slice(2, 0, 1).select(0, 0).slice(0, 0, 1).expand({1, 1})));
    EXPECT_FALSE(kael::has_distinct_elements(x.slice(2, 0, 1).expand({4, 3, 5})));
    EXPECT_FALSE(kael::has_distinct_elements(
        Tensor::from_storage(x.storage(), DType::float32, {3, 3}, {1, 1}, 0)));

    EXPECT_FALSE(kael::spoils(x, x));
    EXPECT_FALSE(kael::spoils(x, x.clone()));
    EXPECT_FALSE(kael::spoils(x.select(0, 0), x.select(0, 1)));
    EXPECT_TRUE(kael::spoils(x.slice(0, 1, 4), x.slice(0, 0, 3)));
    EXPECT_TRUE(kael::spoils(x, x.select(0, 0)));
}

TEST(Blocks, ReadWhatStandsWhere) {
    // Rows around the size of a block, so that blocks end within them, at their ends and across
    // several.
    for (const std::int64_t columns : {1, 3, 511, 512, 513, 1300}) {
        const Tensor x = Tensor::empty({5, columns}, DType::int32);
        Tensor filled = x;
        for (std::int64_t i = 0; i < x.numel(); ++i) {
            filled.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(i);
        }
        for (const Tensor& view :
             {x, x.transpose(0, 1), x.slice(1, 0, columns, 2), x.slice(0, 1, 2)}) {
            const std::vector<std::int32_t> expected = values<std::int32_t>(view);
            const kael::Elements elements(view);
            kael::BlockReader reader(elements, view.data_ptr_raw(), DType::int32, DType::int64);
            for (std::int64_t begin : {std::int64_t{0}, view.numel() / 3}) {
                kael::for_each_block(
                    begin, view.numel(), [&](std::int64_t first, std::int64_t count) {
                        const auto* read =
                            reinterpret_cast<const std::int64_t*>(reader.read(first, count));
                        for (std::int64_t i = 0; i < count; ++i) {
                            ASSERT_EQ(read[i], expected[static_cast<std::size_t>(first + i)]);
                        }
                    });
            }
        }
    }
}

TEST(Operators, AreFoundByNameAndNameTheirArguments) {
    EXPECT_EQ(message_of([] { static_cast<void>(kael::find_operator("no\n")); },
                         kael::ErrorCode::not_found),
              "there is no operator \"no\\n\", expected one of the " +
                  std::to_string(kael::all_operators().size()) + " that kael_operator_name gives");
    const Tensor x = floats({1}, {1});
    const auto call = [&](const char* name, std::vector<kael::Argument> arguments) {
        return message_of([&] { kael::find_operator(name).run({name, std::move(arguments)}); });
    };
    EXPECT_EQ(call("add", {x, std::vector<Tensor>{x}}),
              "add: argument 2 is a list of tensors, expected a number");
    EXPECT_EQ(call("add_", {1.0, x}), "add_: argument 1 is a float, expected a tensor");
    EXPECT_EQ(call("transpose", {x, 0.5, std::int64_t{0}}),
              "transpose: argument 2 is a float, expected an integer");
    EXPECT_EQ(call("expand", {x, kael::Argument{}}),
              "expand: argument 2 is nothing, expected a list of integers");
    EXPECT_EQ(call("to", {x, std::int64_t{9}}), "to: the dtype 9 is unknown, expected 0 to 8");
    EXPECT_EQ(
        call("unsqueeze", {x, std::numeric_limits<std::int64_t>::max()}),
        "unsqueeze: a new dimension at 2147483647 of a tensor of shape [1], expected -2 to 1");
}

} // namespace
