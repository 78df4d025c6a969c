// What is freed may call back: a graph whose parts are on their way out is whole before they go.
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
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

// Calls a function when it goes.
class AtTheEnd {
public:
    explicit AtTheEnd(std::function<void()> function) : function_(std::move(function)) {}
    AtTheEnd(const AtTheEnd&) = delete;
    AtTheEnd& operator=(const AtTheEnd&) = delete;
    ~AtTheEnd() { function_(); }

private:
    std::function<void()> function_;
};

std::shared_ptr<AtTheEnd> at_the_end(std::function<void()> function) {
    return std::make_shared<AtTheEnd>(std::move(function));
}

TEST(Freeing, AGradientWithAHookMayAskForTheOneThatTakesItsPlace) {
    Tensor x = leaf({1});
    Values seen;
    {
        const Tensor gradient = leaf({2}) * 2.0;
        autograd::add_gradient_hook(gradient, [kept = at_the_end([&] {
                                                   seen = values_of(x.grad());
                                               })](const Tensor&) { return Tensor(); });
        x.set_grad(gradient);
    }
    EXPECT_EQ(seen, Values{});
    x.set_grad(constant({7}, {1}));
    EXPECT_EQ(seen, (Values{7}));
}

TEST(Freeing, TheOwnerOfSavedMemoryMayWalkTheGraphAgain) {
    std::array<float, 1> memory = {5};
    const Tensor x = leaf({3});
    Tensor y;
    std::string answer;
    {
        const Tensor borrowed = Tensor::from_storage(
            Storage::borrow(reinterpret_cast<std::byte*>(memory.data()), sizeof memory,
                            at_the_end([&] { answer = message_of([&] { y.backward(); }); }), true,
                            "the test's"),
            DType::float32, {1}, {1}, 0);
        y = x * borrowed;
    }
    EXPECT_EQ(answer, "");
    y.backward();
    EXPECT_TRUE(answer.starts_with("MulBackward was walked before")) << answer;
    EXPECT_EQ(values_of(x.grad()), (Values{5}));
}

} // namespace
} // namespace kael
