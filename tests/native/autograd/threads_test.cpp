// Operators of several threads read one tensor at the same time, and record that.
#include <array>
#include <cstddef>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kael/autograd.h"
#include "kael/operators.h"

#include "autograd/leaves.h"

namespace kael {
namespace {

using test::leaf;
using test::Values;
using test::values_of;

constexpr std::size_t kThreads = 2;
constexpr int kRounds = 100;

// What `read` makes in each thread, at once.
std::array<Tensor, kThreads> at_once(const std::function<Tensor()>& read) {
    std::array<Tensor, kThreads> results;
    std::latch start(kThreads);
    std::vector<std::thread> threads;
    for (Tensor& result : results) {
        threads.emplace_back([&] {
            start.arrive_and_wait();
            result = read();
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return results;
}

autograd::Edge edge_of(const Tensor& result) {
    return result.grad_fn()->inputs()[0].edge;
}

TEST(SharedByThreads, ALeafHasOneAccumulator) {
    const Tensor weight = leaf({1, 2, 3, 4}, {2, 2});
    for (int round = 0; round < kRounds; ++round) { // each drops it
        const auto products = at_once([&] { return matmul(weight, weight.transpose(0, 1)); });
        EXPECT_EQ(edge_of(products[0]), edge_of(products[1]));
    }
    const auto products = at_once([&] { return sum(matmul(weight, weight)); });
    products[0].backward();
    products[1].backward();
    EXPECT_EQ(values_of(weight.grad()), (Values{14, 22, 18, 26}));
}

TEST(SharedByThreads, AViewFollowsItsBase) {
    for (int round = 0; round < kRounds; ++round) {
        const Tensor x = leaf({1, 2, 3, 4}, {2, 2});
        Tensor y = x * 1.0;
        const Tensor row = y.select(0, 1);
        mul_(y, 3.0);
        const auto results = at_once([&] { return row * 2.0; });
        EXPECT_EQ(edge_of(results[0]), edge_of(results[1]));
        EXPECT_EQ(edge_of(results[0]), row.grad_fn());
        sum(results[0] + results[1]).backward();
        EXPECT_EQ(values_of(x.grad()), (Values{0, 0, 12, 12}));
    }
}

} // namespace
} // namespace kael
