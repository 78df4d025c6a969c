// Writes through views, and views of what was written, whatever the layout of the base, of the view
// and of the gradient. The values are worked out by hand.
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "kael/autograd.h"
#include "kael/operators.h"

#include "autograd/leaves.h"
#include "message_of.h"

namespace kael {
namespace {

using test::constant;
using test::leaf;
using test::message_of;
using test::Values;
using test::values_of;

// Zeros at these strides.
Tensor zeros_at(const Shape& shape, const Shape& strides, std::int64_t offset) {
    constexpr std::int64_t kRoom = 24; // elements
    return Tensor::from_storage(Tensor::zeros({kRoom}, DType::float32).storage(), DType::float32,
                                shape, strides, offset);
}

TEST(ViewWrite, TakesAGradientOfAnotherLayout) {
    const Tensor a = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
    const Tensor b = a * 2.0;
    Tensor flat = b.view({6});
    mul_(flat, 3.0);
    const Tensor c = constant({1, 2, 3, 4, 5, 6}, {3, 2});
    sum(b.transpose(0, 1) * c).backward();
    EXPECT_EQ(values_of(a.grad()), (Values{6, 18, 30, 12, 24, 36}));
}

TEST(ViewWrite, ReachesTheSameElementsInTheGradientOfAnyBase) {
    const Tensor c = constant({1, 2, 3, 4, 5, 6}, {3, 2});
    for (Tensor base : {zeros_at({3, 2}, {2, 1}, 0), zeros_at({3, 2}, {1, 3}, 0),
                        zeros_at({3, 2}, {1, 3}, 5), zeros_at({3, 2}, {2, 7}, 1)}) {
        SCOPED_TRACE(to_string(base.strides()));
        const Tensor w = leaf({0, 0, 0, 0, 0, 0}, {3, 2});
        add_(base, w);
        Tensor column = base.transpose(0, 1).select(0, 1);
        Tensor last = column.slice(0, 1, 3);
        mul_(column, 10.0);
        mul_(last, 10.0);
        sum(base * c).backward();
        EXPECT_EQ(values_of(w.grad()), (Values{1, 20, 3, 400, 5, 600}));
    }
}

TEST(ViewWrite, ReachesTheSameElementsThroughAReshapeThatOnlyTheBaseAllows) {
    Tensor base = zeros_at({3, 2}, {1, 3}, 0);
    const Tensor w = leaf({0, 0, 0, 0, 0, 0}, {3, 2});
    add_(base, w);
    Tensor flat = base.transpose(0, 1).reshape({6});
    ASSERT_EQ(flat.storage(), base.storage());
    Tensor part = flat.slice(0, 0, 4);
    mul_(part, 2.0); // the first column, and the first of the second
    sum(base * constant({1, 2, 3, 4, 5, 6}, {3, 2})).backward();
    EXPECT_EQ(values_of(w.grad()), (Values{2, 4, 6, 4, 10, 6}));
}

TEST(ViewWrite, CanBeDifferentiatedTwice) {
    const Tensor a = leaf({1, 2, 3, 4}, {2, 2});
    const Tensor b = a * 1.0;
    Tensor flat = b.view({4});
    mul_(flat, flat);
    const Tensor c = constant({1, 10, 100, 1000}, {2, 2});
    const Tensor loss = sum(b.transpose(0, 1) * c); // of squares
    const Tensor first = autograd::grad({loss}, {a}, {}, {.create_graph = true})[0];
    EXPECT_EQ(values_of(first), (Values{2, 400, 60, 8000}));
    EXPECT_EQ(values_of(autograd::grad({sum(first)}, {a})[0]), (Values{2, 200, 20, 2000}));
}

TEST(ViewWrite, IsFollowedByAViewThatRepeats) {
    const Tensor x = leaf({3, 4});
    Tensor y = x * 1.0;
    const Tensor repeated = y.unsqueeze(0).expand({3, 2});
    const Tensor column = repeated.select(1, 1);
    mul_(y, 5.0);
    sum(repeated * constant({1, 2, 3, 4, 5, 6}, {3, 2})).backward();
    EXPECT_EQ(values_of(x.grad()), (Values{5 * 9, 5 * 12}));

    const Tensor loss = sum(column * column); // 3 (5 x1)^2
    const Tensor first = autograd::grad({loss}, {x}, {}, {.create_graph = true})[0];
    EXPECT_EQ(values_of(first), (Values{0, 600}));
    EXPECT_EQ(values_of(autograd::grad({sum(first)}, {x})[0]), (Values{0, 150}));
}

TEST(ViewWrite, IsFollowedByEmptyViews) {
    const Tensor x = leaf({3, 4});
    Tensor y = x * 1.0;
    const Tensor nothing = y.slice(0, 2, 2);
    mul_(y, 5.0);
    (sum(nothing) + sum(y)).backward();
    EXPECT_EQ(values_of(x.grad()), (Values{5, 5}));
}

TEST(ViewWrite, GoesThroughAnyNumberOfViews) {
    constexpr int kViews = 200'000; // deeper than a stack
    const Tensor canvas = constant({1, 2, 3, 4}, {2, 2});
    Tensor view = canvas;
    for (int i = 0; i < kViews; ++i) {
        view = view.transpose(0, 1);
    }
    Tensor row = view.select(0, 0);
    const Tensor w = leaf({5});
    mul_(row, w);
    autograd::backward({sum(canvas)}, {}, {.retain_graph = true});
    EXPECT_EQ(values_of(w.grad()), (Values{3}));
    sum(view).backward();
    EXPECT_EQ(values_of(w.grad()), (Values{6}));
}

TEST(ViewWrite, IsFollowedByTheLastOfManyViews) {
    constexpr int kPairs = 100'000;
    const Tensor x = leaf({1, 2});
    Tensor y = x * 1.0;
    Tensor view = y;
    for (int i = 0; i < kPairs; ++i) {
        view = view.unsqueeze(0).select(0, 0);
    }
    mul_(y, 3.0);
    sum(view).backward();
    EXPECT_EQ(values_of(x.grad()), (Values{3, 3}));
}

TEST(ViewWrite, IsRefusedWhereElementsOfTheBaseShareMemory) {
    const Tensor base = zeros_at({3, 2}, {0, 1}, 0);
    Tensor row = base.select(0, 0);
    const Tensor w = leaf({1, 2});
    EXPECT_EQ(message_of([&] { add_(row, w); }),
              "add_ would overwrite a view of a tensor of shape [3, 2] and strides [0, 1] of which "
              "several elements share memory, so that no gradient belongs to one, expected a place "
              "for each: write into a clone");
    add_(row, w.detach());
    EXPECT_EQ(values_of(base), (Values{1, 2, 1, 2, 1, 2}));
}

TEST(ViewWrite, KeepsNothingOfViewsThatNoGradientCanReach) {
    const Tensor integers = Tensor::zeros({2, 2}, DType::int64);
    EXPECT_EQ(integers.select(0, 0).autograd_state(), nullptr);
    const NoGrad guard;
    EXPECT_EQ(constant({1, 2}, {2}).select(0, 0).autograd_state(), nullptr);
}

} // namespace
} // namespace kael
