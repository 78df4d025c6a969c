// The graph and the engine: which gradients come, where they add up, and what is refused. The
// values are worked out by hand.
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kael/autograd.h"
#include "kael/operators.h"

#include "autograd/leaves.h"
#include "autograd/record.h"
#include "message_of.h"

namespace kael {
namespace {

using test::constant;
using test::leaf;
using test::message_of;
using test::Values;
using test::values_of;

TEST(Backward, AddsWhatMeetsInALeaf) {
    const Tensor x = leaf({3, 4});
    sum(x * x + x).backward();
    EXPECT_EQ(values_of(x.grad()), (Values{7, 9}));
    sum(x * 2.0).backward(); // a second pass adds to the first
    EXPECT_EQ(values_of(x.grad()), (Values{9, 11}));
}

TEST(Backward, SumsWhatBroadcastingRepeated) { // KB034, KB035, KB037
    const Tensor a = leaf(Values(12, 1.0F), {3, 1, 4});
    const Tensor b = leaf(Values(120, 2.0F), {2, 3, 5, 4});
    sum(a * b).backward();
    EXPECT_EQ(a.grad().shape(), (Shape{3, 1, 4}));
    EXPECT_EQ(values_of(a.grad()), Values(12, 20.0F));
    EXPECT_EQ(values_of(b.grad()), Values(120, 1.0F));
    const Tensor scalar = leaf({3}, {});
    sum(leaf({1, 2}) * scalar).backward();
    EXPECT_EQ(scalar.grad().shape(), Shape{});
    EXPECT_EQ(values_of(scalar.grad()), (Values{3}));
}

TEST(Backward, ConvertsBackWhatPromotionConverted) {
    const Tensor half = leaf({2}).to(DType::float16).detach().set_requires_grad(true);
    sum(half * leaf({3})).backward();
    EXPECT_EQ(half.grad().dtype(), DType::float16);
    EXPECT_EQ(values_of(half.grad().to(DType::float32)), (Values{3}));
}

TEST(Backward, WalksAndFreesAMillionNodes) { // KB043, KB044
    const Tensor x = leaf({1});
    {
        Tensor y = x;
        for (int i = 0; i < 1'000'000; ++i) {
            y = y + 1.0;
        }
        y.backward();
        EXPECT_EQ(values_of(x.grad()), (Values{1}));
    }
    Tensor chain = x; // saved tensors hold the graph as well
    for (int i = 0; i < 100'000; ++i) {
        chain = chain * x;
    }
}

TEST(Backward, GivesEveryLeafAGradientOfItsOwn) {
    for (const bool with_graph : {false, true}) {
        SCOPED_TRACE(with_graph);
        const autograd::BackwardOptions options{.create_graph = with_graph};
        const Tensor a = leaf({3, 5});
        const Tensor b = leaf({1, 1});
        const Tensor z = a + b; // both get one gradient
        autograd::backward({sum(z * z)}, {}, options);
        sum(a * a).backward();
        EXPECT_EQ(values_of(a.grad()), (Values{8 + 6, 12 + 10}));
        EXPECT_EQ(values_of(b.grad()), (Values{8, 12}));

        const Tensor x = leaf({1, 2});
        autograd::backward({sum(x)}, {}, options); // an expanded one
        sum(x * 2.0).backward();
        EXPECT_EQ(values_of(x.grad()), (Values{3, 3}));

        const Tensor root = leaf({1, 2});
        const Tensor given = constant({10, 20}, {2});
        autograd::backward({root}, {given}, options);
        sum(root).backward();
        EXPECT_EQ(values_of(root.grad()), (Values{11, 21}));
        EXPECT_EQ(values_of(given), (Values{10, 20}));
        for (Tensor tensor : {a, b, x, root}) { // a recorded gradient keeps its leaf alive
            tensor.set_grad({});
        }
    }
}

TEST(Backward, GivesALeafAGradientThatCanBeDifferentiated) {
    Tensor x = leaf({2});
    const Tensor y = x * x * x;
    autograd::backward({y}, {}, {.create_graph = true});
    const Tensor first = x.grad();
    EXPECT_EQ(values_of(first), (Values{12}));
    x.set_grad({});
    first.backward();
    EXPECT_EQ(values_of(x.grad()), (Values{12}));
}

TEST(Backward, NeedsAGradientForMoreThanOneElement) {
    const Tensor x = leaf({1, 2});
    const Tensor y = x * 3.0;
    EXPECT_EQ(
        message_of([&] { y.backward(); }),
        "backward: a root of shape [2] without a gradient, expected one of that shape: only a "
        "tensor of one element goes without");
    autograd::backward({y}, {constant({10, 100}, {2})});
    EXPECT_EQ(values_of(x.grad()), (Values{30, 300}));
    EXPECT_EQ(message_of([&] { autograd::backward({y}, {constant({1}, {1})}); }),
              "backward: a gradient of shape [1] for a root of shape [2], expected the same shape");
    EXPECT_EQ(
        message_of([&] { autograd::backward({y}, {Tensor::zeros({2}, DType::float64)}); }),
        "backward: a gradient of dtype float64 for a root of dtype float32, expected the same "
        "dtype");
    EXPECT_EQ(message_of([&] { autograd::backward({y}, {y, y}); }),
              "backward: 2 gradients for 1 roots, expected none or as many");
    EXPECT_EQ(message_of([&] { sum(constant({1}, {1})).backward(); }),
              "backward: root 0 of 1 needs no gradient, expected one that needs it, or is computed "
              "from one: requires_grad");
}

TEST(Backward, NeedsAGradientForEveryInputOfANode) {
    const Tensor x = leaf({1});
    const Tensor y = constant({2}, {1});
    autograd::record("WrongBackward", y, {x}, {},
                     [](const autograd::Backward&) { return autograd::GradientList(2); });
    EXPECT_EQ(message_of([&] { y.backward(); }, ErrorCode::internal),
              "WrongBackward gave 2 gradients for 1 inputs");
}

TEST(Gradient, IsAnotherTensorThanTheOneThatHasIt) {
    Tensor x = leaf({1});
    EXPECT_EQ(message_of([&] { x.set_grad(x); }),
              "set_grad: a tensor as its own gradient, expected another one");
}

TEST(Backward, FreesWhatItSavedUnlessAskedToKeepIt) {
    const Tensor x = leaf({3});
    const Tensor y = x * x;
    autograd::backward({y}, {}, {.retain_graph = true});
    y.backward();
    EXPECT_EQ(values_of(x.grad()), (Values{12}));
    EXPECT_EQ(message_of([&] { y.backward(); }),
              "MulBackward was walked before, and what it had saved is freed, expected it kept: "
              "pass retain_graph to the backward pass that comes first");
    const Tensor sum_of = x + x; // saves nothing
    sum_of.backward();
    sum_of.backward();
    EXPECT_EQ(values_of(x.grad()), (Values{16}));
}

TEST(Backward, RefusesASavedTensorThatWasWritten) { // KB031
    const Tensor x = leaf({1, 2});
    Tensor y = x * 2.0;
    const Tensor z = y * y;
    add_(y, 1.0);
    EXPECT_EQ(
        message_of([&] { sum(z).backward(); }),
        "MulBackward needs the tensor of shape [2] that it saved, but add_ has changed it: it "
        "is at version 1, expected 0: write to a clone, or use the operator that is not in place");
    Tensor result = exp(x); // saves its result
    mul_(result, 2.0);
    EXPECT_NE(message_of([&] { sum(result).backward(); }).find("ExpBackward needs"),
              std::string::npos);
}

TEST(Backward, SeesAWriteThroughADetachedHandle) { // KB032
    const Tensor x = leaf({1, 2});
    const Tensor y = x * 2.0;
    const Tensor z = y * y;
    Tensor other = y.detach();
    add_(other, 1.0);
    EXPECT_NE(message_of([&] { sum(z).backward(); }).find("add_ has changed it"),
              std::string::npos);
}

TEST(Backward, AllowsAWriteToWhatWasNotSaved) {
    const Tensor x = leaf({1, 2});
    Tensor y = x * 2.0;
    const Tensor z = y + 1.0;
    add_(y, 5.0);
    sum(z).backward();
    EXPECT_EQ(values_of(x.grad()), (Values{2, 2}));
}

TEST(Backward, FollowsAWriteThroughAView) {
    const Tensor a = leaf({1, 1, 1, 1}, {2, 2});
    const Tensor b = a * 2.0;
    Tensor row = b.select(0, 0);
    mul_(row, 3.0);
    sum(b).backward();
    EXPECT_EQ(values_of(a.grad()), (Values{6, 6, 2, 2}));
}

TEST(Backward, FollowsAWriteToTheBaseOfAView) {
    const Tensor a = leaf({1, 2, 3, 4}, {2, 2});
    Tensor b = a * 1.0;
    const Tensor column = b.transpose(0, 1).select(0, 1);
    mul_(b, 5.0);
    EXPECT_EQ(values_of(column), (Values{10, 20}));
    sum(column).backward();
    EXPECT_EQ(values_of(a.grad()), (Values{0, 5, 0, 5}));
}

TEST(Backward, GivesAGradientToWhatIsWrittenIntoAPlainTensor) {
    const Tensor w = leaf({7});
    const Tensor canvas = constant({1, 2, 3}, {3});
    Tensor middle = canvas.slice(0, 1, 2);
    mul_(middle, w);
    EXPECT_TRUE(canvas.requires_grad());
    sum(canvas * canvas).backward(); // (2 w)^2
    EXPECT_EQ(values_of(w.grad()), (Values{56}));
}

TEST(InPlace, SavesAnOperandThatItOverwritesAsItWas) {
    using Write = std::function<void(Tensor&)>;
    const auto gradient_through = [](const Values& values, const Shape& shape, const Write& write) {
        const Tensor a = leaf(values, shape);
        Tensor y = a * 1.0;
        write(y);
        sum(y).backward();
        return values_of(a.grad());
    };
    EXPECT_EQ(gradient_through({3}, {1}, [](Tensor& y) { mul_(y, y); }), (Values{6}));
    // [a0 a0, a1 a0]
    EXPECT_EQ(gradient_through({2, 5}, {2}, [](Tensor& y) { mul_(y, y.select(0, 0)); }),
              (Values{2 * 2 + 5, 2}));
    // [1, a1 / a0]
    EXPECT_EQ(gradient_through({2, 6}, {2}, [](Tensor& y) { div_(y, y.select(0, 0)); }),
              (Values{-6.0F / 4, 1.0F / 2}));
    // a01 and a10 meet twice
    EXPECT_EQ(gradient_through({1, 2, 3, 4}, {2, 2}, [](Tensor& y) { mul_(y, y.transpose(0, 1)); }),
              (Values{2, 6, 4, 8}));
    // What is written and what is read overlap without being the same: [a0, a1 a0, a2 a1].
    EXPECT_EQ(gradient_through({2, 3, 5}, {3},
                               [](Tensor& y) {
                                   Tensor last = y.slice(0, 1, 3);
                                   mul_(last, y.slice(0, 0, 2));
                               }),
              (Values{1 + 3, 2 + 5, 3}));
    EXPECT_EQ(gradient_through({}, {0},
                               [](Tensor& y) {
                                   mul_(y, y);
                                   add_(y, 1.0);
                               }),
              Values{});
    // Without a record of its own.
    EXPECT_EQ(gradient_through({3}, {1}, [](Tensor& y) { mul_(y, y.detach()); }), (Values{3}));
}

TEST(InPlace, OfATensorByItselfCanBeDifferentiatedTwice) {
    const Tensor a = leaf({2});
    Tensor y = a * 1.0;
    mul_(y, y);
    mul_(y, a); // a^3
    const Tensor first = autograd::grad({y}, {a}, {}, {.create_graph = true})[0];
    EXPECT_EQ(values_of(first), (Values{12}));
    EXPECT_EQ(values_of(autograd::grad({first}, {a})[0]), (Values{12}));
}

TEST(InPlace, IsRefusedForALeafAndItsViews) {
    Tensor x = leaf({1, 2});
    EXPECT_EQ(message_of([&] { add_(x, 1.0); }),
              "add_ would overwrite a leaf of shape [2] that needs a gradient, expected one that "
              "needs none: detach it, or write inside no_grad");
    Tensor view = x.select(0, 0);
    EXPECT_EQ(message_of([&] { add_(view, 1.0); }),
              "add_ would overwrite a view of a leaf of shape [2] that needs a gradient, expected "
              "one that needs none: detach it, or write inside no_grad");
    EXPECT_EQ(values_of(x), (Values{1, 2}));
    const NoGrad guard;
    add_(x, 1.0);
    EXPECT_EQ(values_of(x), (Values{2, 3}));
    EXPECT_TRUE(x.is_leaf());
}

TEST(InPlace, IsRefusedForAViewMadeInsideNoGrad) {
    const Tensor y = leaf({1, 2}) * 2.0;
    Tensor view = [&] {
        const NoGrad guard;
        return y.select(0, 0);
    }();
    EXPECT_EQ(message_of([&] { mul_(view, 3.0); }),
              "mul_ would overwrite a view of shape [] that was made inside no_grad, where nobody "
              "can record it, expected one made outside");
}

TEST(Backward, SumsTheGradientsOfACumulativeSumFromTheEnd) {
    const auto gradient_for = [](const Values& given, const Shape& shape, int dimension) {
        const Tensor x = leaf(given, shape);
        autograd::backward({cumsum(x, dimension)}, {constant(given, shape)});
        return values_of(x.grad());
    };
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(gradient_for({1, 10, 100, 1000}, {2, 2}, 0), (Values{101, 1010, 100, 1000}));
    EXPECT_EQ(gradient_for({1, 10, 100, 1000}, {2, 2}, -1), (Values{11, 10, 1100, 1000}));
    EXPECT_EQ(gradient_for({1e20F, 1, 2}, {3}, 0), (Values{1e20F, 3, 2})); // nothing is lost
    EXPECT_EQ(gradient_for({kInfinity, 1, 2}, {3}, 0), (Values{kInfinity, 3, 2}));
    EXPECT_EQ(gradient_for({7}, {}, 0), (Values{7}));
    EXPECT_EQ(gradient_for({}, {2, 0}, 1), Values{});
}

TEST(Grad, AnswersForTheInputsAndLeavesTheLeavesAlone) {
    const Tensor x = leaf({3});
    const Tensor w = leaf({5});
    const Tensor middle = x * w;
    const Tensor loss = middle * middle;
    const std::vector<Tensor> gradients = autograd::grad({loss}, {middle, x});
    EXPECT_EQ(values_of(gradients[0]), (Values{30}));
    EXPECT_EQ(values_of(gradients[1]), (Values{150}));
    EXPECT_FALSE(x.grad().defined());
    EXPECT_FALSE(w.grad().defined());
}

TEST(Grad, NamesAnInputThatNoRootDependsOn) {
    const Tensor x = leaf({3});
    const Tensor other = leaf({4});
    EXPECT_EQ(message_of([&] { (void)autograd::grad({x * 2.0}, {other}); }),
              "grad: no root depends on input 0 of 1, expected one that does: pass allow_unused to "
              "get none for it");
    EXPECT_FALSE(autograd::grad({x * 2.0}, {other}, {}, {}, true)[0].defined());
}

TEST(Grad, OfAGradientIsTheSecondDerivative) {
    const Tensor x = leaf({2});
    const Tensor cube = x * x * x;
    const Tensor first = autograd::grad({cube}, {x}, {}, {.create_graph = true})[0];
    EXPECT_EQ(values_of(first), (Values{12}));
    const Tensor second = autograd::grad({first}, {x}, {}, {.create_graph = true})[0];
    EXPECT_EQ(values_of(second), (Values{12}));
    EXPECT_EQ(values_of(autograd::grad({second}, {x})[0]), (Values{6}));
}

TEST(NoGrad, RecordsNothingInItsScopeAndThread) {
    const Tensor x = leaf({3});
    {
        const NoGrad guard;
        EXPECT_FALSE((x * x).requires_grad());
        std::thread([&] { EXPECT_TRUE((x * x).requires_grad()); }).join();
    }
    EXPECT_TRUE((x * x).requires_grad());
    EXPECT_FALSE((x.detach() * 2.0).requires_grad());
}

TEST(Hooks, OfNodesAnswerWithAGradientForEachInput) {
    const Tensor x = leaf({3});
    const Tensor y = x * 2.0;
    autograd::add_hook_after(*y.grad_fn(),
                             [](const auto&, const auto&) { return autograd::GradientList(2); });
    EXPECT_EQ(message_of([&] { y.backward(); }),
              "a hook on MulBackward answered with 2 gradients, expected 1");
}

TEST(Hooks, SeeAndReplaceTheGradient) {
    const Tensor x = leaf({3});
    const Tensor y = x * 2.0;
    Values seen;
    const auto number = autograd::add_gradient_hook(y, [&](const Tensor& gradient) {
        seen = values_of(gradient);
        return gradient * 10.0;
    });
    autograd::backward({y * 5.0}, {}, {.retain_graph = true});
    EXPECT_EQ(seen, (Values{5}));
    EXPECT_EQ(values_of(x.grad()), (Values{100}));
    autograd::remove_gradient_hook(y, number);
    autograd::add_gradient_hook(x, [](const Tensor&) { return Tensor(); }); // only looks
    (y * 5.0).backward();
    EXPECT_EQ(values_of(x.grad()), (Values{110}));
    autograd::add_gradient_hook(x, [](const Tensor&) { return constant({1, 2}, {2}); });
    EXPECT_EQ(message_of([&] { (x * 1.0).backward(); }),
              "a hook answered with a gradient of shape [2] and dtype float32, expected [1] and "
              "float32");
}

TEST(Hooks, RemovedAfterAWriteRunNoMore) {
    const std::vector<std::function<void(Tensor&)>> changes = {
        [](Tensor& y) { mul_(y, 3.0); },
        [](Tensor& y) {
            Tensor part = y.slice(0, 0, 1);
            mul_(part, 3.0);
        },
    };
    for (const auto& change : changes) {
        const Tensor x = leaf({1});
        Tensor y = x * 2.0;
        Values before;
        Values after;
        const auto see = [](Values& seen) {
            return [&seen](const Tensor& gradient) {
                seen = values_of(gradient);
                return Tensor();
            };
        };
        const auto first = autograd::add_gradient_hook(y, see(before));
        change(y);
        const auto second = autograd::add_gradient_hook(y, see(after));
        autograd::backward({sum(y)}, {}, {.retain_graph = true});
        EXPECT_EQ(before, (Values{3})); // of what y was then
        EXPECT_EQ(after, (Values{1}));
        before.clear();
        after.clear();
        autograd::remove_gradient_hook(y, first);
        autograd::backward({sum(y)}, {}, {.retain_graph = true});
        EXPECT_EQ(before, Values{});
        EXPECT_EQ(after, (Values{1}));
        after.clear();
        autograd::remove_gradient_hook(y, second);
        autograd::remove_gradient_hook(y, second);
        sum(y).backward();
        EXPECT_EQ(after, Values{});
        EXPECT_EQ(values_of(x.grad()), (Values{18}));
    }
}

TEST(Hooks, RemovedFromAViewAfterAWriteToItsBaseRunNoMore) {
    const Tensor x = leaf({1, 2});
    Tensor y = x * 2.0;
    const Tensor part = y.select(0, 0);
    const Tensor twice = part * 2.0;
    int calls = 0;
    const auto number = autograd::add_gradient_hook(part, [&](const Tensor&) {
        ++calls;
        return Tensor();
    });
    mul_(y, 3.0);
    EXPECT_NE(part.grad_fn(), nullptr); // another node
    autograd::remove_gradient_hook(part, number);
    sum(twice).backward();
    EXPECT_EQ(calls, 0);
}

TEST(Hooks, RemovedFromALeafThatNeedsNoGradientRunNoMore) {
    Tensor x = leaf({1});
    int calls = 0;
    const auto number = autograd::add_gradient_hook(x, [&](const Tensor&) {
        ++calls;
        return Tensor();
    });
    x.set_requires_grad(false);
    autograd::remove_gradient_hook(x, number);
    x.set_requires_grad(true);
    sum(x * 2.0).backward();
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(values_of(x.grad()), (Values{2}));
}

TEST(RequiresGrad, IsForFloatsAndLeaves) {
    Tensor integers = Tensor::zeros({2}, DType::int64);
    EXPECT_EQ(message_of([&] { integers.set_requires_grad(true); }),
              "set_requires_grad: a tensor of dtype int64 can need no gradient, expected a "
              "floating-point one");
    Tensor y = leaf({1}) * 2.0;
    EXPECT_EQ(
        message_of([&] { y.set_requires_grad(false); }),
        "set_requires_grad: the result of MulBackward needs a gradient because its operands do, "
        "expected a leaf: detach() gives one");
    Tensor x = leaf({1});
    const Tensor same = x;
    x.set_requires_grad(false);
    EXPECT_FALSE(same.requires_grad()); // handles of one tensor
}

} // namespace
} // namespace kael
