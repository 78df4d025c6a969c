// The gradients of what puts elements elsewhere. Each is linear, so that differences are exact.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/creation.h"
#include "kael/operators.h"

namespace {

using kael::DType;
using kael::Shape;
using kael::Tensor;

Tensor numbered(const Shape& shape) {
    Tensor tensor = Tensor::empty(shape, DType::float64);
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        tensor.mutable_data<double>()[i] = static_cast<double>(3 * i % 11 + 1);
    }
    return tensor;
}

Tensor index(const Shape& shape, const std::vector<std::int64_t>& values) {
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(8 * values.size()), shape,
                              DType::int64);
}

std::vector<double> elements(const Tensor& x) {
    const Tensor copy = x.detach().contiguous();
    return {copy.data<double>(), copy.data<double>() + copy.numel()};
}

using Function = std::function<Tensor(const Tensor&)>;

double weighted_sum(const Tensor& result) {
    return *kael::sum(result * numbered(result.shape())).detach().data<double>();
}

// Of the sum of the results, each weighted differently, for x in several layouts.
void expect_gradient_of_differences(const std::string& name, const Shape& shape,
                                    const Function& function) {
    SCOPED_TRACE(name);
    const Tensor plain = numbered(shape);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < plain.numel(); ++i) {
        Tensor changed = plain.clone();
        changed.mutable_data<double>()[i] += 1;
        expected.push_back(weighted_sum(function(changed)) - weighted_sum(function(plain)));
    }
    const Tensor transposed = plain.transpose(0, -1).contiguous().transpose(0, -1);
    for (Tensor x : {plain.clone(), transposed}) {
        x = x.detach().set_requires_grad(true);
        const Tensor result = function(x);
        kael::sum(result * numbered(result.shape())).backward();
        EXPECT_EQ(x.grad().shape(), shape);
        EXPECT_EQ(elements(x.grad()), expected);
    }
}

TEST(RearrangingGradient, IsThatOfDifferences) {
    const Tensor rows = index({4}, {2, 0, 2, 1});
    const Tensor places = index({2, 3, 2}, {0, 1, 2, 2, 1, 1, 0, 0, 2, 1, 0, 2});
    const Tensor mask = kael::gt(numbered({2, 3, 4}), 5);
    const std::vector<std::pair<std::string, Function>> functions = {
        {"cat", [](const Tensor& x) { return kael::cat({x, numbered({2, 1, 4}), x}, 1); }},
        {"stack", [](const Tensor& x) { return kael::stack({x, x}, -1); }},
        {"index_select", [&](const Tensor& x) { return kael::index_select(x, 1, rows); }},
        {"index_add, to",
         [&](const Tensor& x) { return kael::index_add(x, 1, rows, numbered({2, 4, 4})); }},
        {"index_add, from",
         [](const Tensor& x) {
             return kael::index_add(numbered({2, 2, 4}), 1, index({3}, {1, 0, 1}), x);
         }},
        {"gather", [&](const Tensor& x) { return kael::gather(x, 1, places); }},
        {"scatter_add, to",
         [&](const Tensor& x) { return kael::scatter_add(x, 1, places, numbered({2, 3, 2})); }},
        {"scatter_add, from",
         [&](const Tensor& x) {
             return kael::scatter_add(numbered({2, 5, 2}), 1, places, x.slice(2, 1, 3));
         }},
        {"scatter, to",
         [&](const Tensor& x) { return kael::scatter(x, 1, places, numbered({2, 3, 2})); }},
        {"scatter, from",
         [&](const Tensor& x) {
             return kael::scatter(numbered({2, 5, 2}), 1, places, x.slice(2, 1, 3));
         }},
        {"index, together", [&](const Tensor& x) { return kael::index(x, {1}, {rows - 3}); }},
        {"index, apart",
         [&](const Tensor& x) { return kael::index(x, {0, 2}, {index({2, 1}, {1, 0}), rows}); }},
        {"index by a mask",
         [](const Tensor& x) { return kael::index(x, {1}, {kael::gt(numbered({3, 4}), 5)}); }},
        {"index_put_, to",
         [&](const Tensor& x) {
             Tensor y = x * 2.0;
             return kael::index_put_(y, {1}, {index({2}, {2, 0})}, numbered({2, 4}));
         }},
        {"index_put_, from",
         [](const Tensor& x) {
             Tensor y = numbered({2, 3, 4, 5});
             return kael::index_put_(y, {0, 3}, {index({2, 1}, {1, 0}), index({3}, {4, 0, 4})},
                                     x.unsqueeze(1));
         }},
        {"masked_select", [&](const Tensor& x) { return kael::masked_select(x, mask); }},
        {"masked_fill", [&](const Tensor& x) { return kael::masked_fill(x, mask, 7); }},
        {"flip", [](const Tensor& x) { return kael::flip(x, {0, -1}); }},
        {"roll", [](const Tensor& x) { return kael::roll(x, {1, -3}, {1, 2}); }},
        {"repeat", [](const Tensor& x) { return kael::repeat(x, {2, 1, 3, 2}); }},
        {"pad", [](const Tensor& x) { return kael::pad(x, {1, -2, 0, 2}, 3.0); }},
        {"pad, reflect",
         [](const Tensor& x) { return kael::pad(x, {3, -1, 2, 2}, 0, kael::PadMode::reflect); }},
        {"pad, replicate",
         [](const Tensor& x) { return kael::pad(x, {5, 1, -1, 2}, 0, kael::PadMode::replicate); }},
        {"pad, circular",
         [](const Tensor& x) { return kael::pad(x, {4, 2, -1, 2}, 0, kael::PadMode::circular); }},
        {"split", [](const Tensor& x) { return kael::split(x, {1, 3}, 2)[1]; }},
        {"chunk", [](const Tensor& x) { return kael::chunk(x, 2, 1)[1]; }},
        {"narrow", [](const Tensor& x) { return kael::narrow(x, 2, 1, 2); }},
        {"flatten", [](const Tensor& x) { return kael::flatten(x, 1, -1); }},
        {"diagonal", [](const Tensor& x) { return kael::diagonal(x, 1, 1, 2); }},
    };
    for (const auto& [name, function] : functions) {
        expect_gradient_of_differences(name, {2, 3, 4}, function);
    }
}

TEST(RearrangingGradient, OfAWriteIntoAFilledMaskIsZeroThere) {
    const Tensor x = numbered({3}).set_requires_grad(true);
    Tensor y = x * 2.0;
    kael::masked_fill_(y, kael::gt(x, 2), 0);
    kael::sum(y).backward();
    EXPECT_EQ(elements(x.grad()), (std::vector<double>{2, 0, 0}));
}

TEST(RearrangingGradient, OfAPartThatNobodyPicksIsZero) { // KB070
    const Tensor x = numbered({3, 2}).set_requires_grad(true);
    kael::sum(kael::index_select(x, 0, index({0}, {}))).backward();
    EXPECT_EQ(elements(x.grad()), (std::vector<double>(6, 0)));
}

TEST(Rearranging, IntegersAreNotRecorded) {
    const Tensor x = numbered({2, 2}).set_requires_grad(true);
    EXPECT_FALSE(kael::cat({x.to(DType::int64), index({1, 2}, {0, 1})}, 0).requires_grad());
}

} // namespace
