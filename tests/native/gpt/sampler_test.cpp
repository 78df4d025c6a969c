// sample_next: picks by the rules in kael/gpt.h, checked against a plain model of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/gpt.h"
#include "kael/random.h"

#include "message_of.h"

namespace kael::gpt {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::int64_t sample(const std::vector<float>& logits, double temperature, std::int64_t top_k,
                    double draw) {
    return sample_next(logits.data(), static_cast<std::int64_t>(logits.size()), temperature, top_k,
                       draw);
}

// Where each token's share of [0, 1) ends, by sorting everything and the C library's exp.
std::vector<double> ends(const std::vector<float>& logits, double temperature, std::size_t top_k) {
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    const double largest = static_cast<double>(logits[order[0]]);
    order.resize(top_k == 0 ? order.size() : std::min(top_k, order.size()));
    std::vector<double> shares(logits.size(), 0.0);
    for (const std::size_t id : order) {
        shares[id] = std::exp((static_cast<double>(logits[id]) - largest) / temperature);
    }
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::partial_sum(shares.begin(), shares.end(), shares.begin());
    for (double& share : shares) {
        share /= total;
    }
    return shares;
}

TEST(SampleNext, CutsTheSoftmaxInOrderOfId) {
    RandomStream stream(1);
    for (int round = 0; round < 200; ++round) {
        std::vector<float> logits(1 + static_cast<std::size_t>(stream.next_uniform() * 400));
        for (float& logit : logits) { // steps of 1/8: ties are frequent
            logit = static_cast<float>(std::round(stream.next_normal() * 24) / 8);
        }
        const double temperature = std::exp(stream.next_normal());
        const auto top_k = static_cast<std::size_t>(stream.next_uniform() * 30);
        const std::vector<double> expected = ends(logits, temperature, top_k);
        for (int i = 0; i < 20; ++i) {
            const double draw = stream.next_uniform();
            const auto token = static_cast<std::size_t>(
                sample(logits, temperature, static_cast<std::int64_t>(top_k), draw));
            EXPECT_LT(draw, expected[token] + 1e-12);
            EXPECT_GE(draw, (token == 0 ? 0.0 : expected[token - 1]) - 1e-12);
        }
    }
}

TEST(SampleNext, KeepsExactlyTopKOfManyLogits) {
    RandomStream stream(2);
    std::vector<float> logits(20'000);
    for (float& logit : logits) {
        logit = static_cast<float>(std::round(stream.next_normal() * 8) / 8);
    }
    for (const std::size_t top_k : {1U, 2U, 40U, 1024U, 1500U, 19'999U}) {
        const std::vector<double> expected = ends(logits, 1.0, top_k);
        for (int i = 0; i < 50; ++i) {
            const double draw = stream.next_uniform();
            const auto token = static_cast<std::size_t>(
                sample(logits, 1.0, static_cast<std::int64_t>(top_k), draw));
            EXPECT_LT(draw, expected[token] + 1e-12);
            EXPECT_GE(draw, (token == 0 ? 0.0 : expected[token - 1]) - 1e-12);
        }
    }
    std::sort(logits.begin(), logits.end()); // the order in which everything displaces something
    EXPECT_EQ(sample(logits, 0.001, 40, 1e-9),
              std::lower_bound(logits.begin(), logits.end(), logits.back()) - logits.begin());
}

TEST(SampleNext, TemperatureZeroIsTheLargestLogitTiesToTheLowestId) {
    EXPECT_EQ(sample({1, 3, 3, 2}, 0, 0, 0.99), 1);
    EXPECT_EQ(sample({-0.0F, 0.0F}, 0, 0, 0.5), 0);
    EXPECT_EQ(sample({-kInfinity, -5, -kInfinity}, 0, 0, 0.5), 1);
    EXPECT_EQ(sample({1, kInfinity, kInfinity}, 0, 0, 0.5), 1);
    std::vector<float> many(1000, 1.0F);
    many[731] = many[990] = 2.0F;
    EXPECT_EQ(sample(many, 0, 0, 0.5), 731);
    EXPECT_EQ(sample(many, 0, 7, 0.5), 731);
}

TEST(SampleNext, TiesAtTheEdgeOfTopKGoToTheLowestIds) {
    EXPECT_EQ(sample({2, 2, 2, 2}, 1, 1, 0.999), 0);
    EXPECT_EQ(sample({2, 2, 2, 2}, 1, 2, 0.4), 0);
    EXPECT_EQ(sample({2, 2, 2, 2}, 1, 2, 0.6), 1);
    EXPECT_EQ(sample({0, 2, 9, 2}, 1, 2, 0.0), 1);
}

TEST(SampleNext, TopKOfZeroOrTheWholeVocabularyIsNoLimit) {
    const std::vector<float> logits = {1, 1, 1, 1};
    for (const std::int64_t top_k : {std::int64_t{0}, std::int64_t{4}, std::int64_t{100'000},
                                     std::numeric_limits<std::int64_t>::max()}) {
        EXPECT_EQ(sample(logits, 1, top_k, 0.8), 3) << top_k;
    }
}

// KB106
TEST(SampleNext, NeverPicksATokenOfProbabilityZero) {
    const double last = std::nextafter(1.0, 0.0);
    EXPECT_EQ(sample({-kInfinity, 0}, 1, 0, 0.0), 1);
    EXPECT_EQ(sample({0, -kInfinity}, 1, 0, last), 0);
    EXPECT_EQ(sample({-2000, 0, -2000}, 1, 0, 0.0), 1);
    EXPECT_EQ(sample({-2000, 0, -2000}, 1, 0, last), 1);
    const std::vector<float> thirds = {std::log(0.33F), std::log(0.34F), -kInfinity,
                                       std::log(0.33F), -kInfinity};
    for (int step = 0; step <= 1000; ++step) {
        const std::int64_t token = sample(thirds, 1, 0, std::min(step / 1000.0, last));
        EXPECT_TRUE(token == 0 || token == 1 || token == 3) << token;
    }
    EXPECT_EQ(sample(thirds, 1, 0, last), 3);
    EXPECT_EQ(sample(std::vector<float>(100'000, 0.1F), 1, 0, last), 99'999);
}

TEST(SampleNext, InfiniteLogitsShareEverything) {
    EXPECT_EQ(sample({5, kInfinity, 3, kInfinity}, 1, 0, 0.4), 1);
    EXPECT_EQ(sample({5, kInfinity, 3, kInfinity}, 1, 0, 0.6), 3);
    EXPECT_EQ(sample({5, kInfinity, 3, kInfinity}, 1, 1, 0.6), 1);
}

TEST(SampleNext, LargeLogitsAtTheLowestTemperatureDoNotOverflow) {
    EXPECT_EQ(sample({1e30F, 3e38F, -3e38F}, 0.001, 0, 0.999), 1);
    EXPECT_EQ(sample({100, 100, 99}, 0.001, 0, 0.6), 1);
}

TEST(SampleNext, BrokenLogitsAreAnError) {
    for (const double temperature : {0.0, 1.0}) {
        EXPECT_EQ(test::message_of([&] { (void)sample({1, kNan, 2}, temperature, 0, 0.5); }),
                  "the logit of token 1 of 3 is NaN, expected numbers");
        EXPECT_EQ(
            test::message_of([&] { (void)sample({-kInfinity, -kInfinity}, temperature, 0, 0.5); }),
            "none of the 2 logits is finite, expected at least one");
        EXPECT_EQ(test::message_of([&] { (void)sample({kInfinity}, temperature, 0, 0.5); }),
                  "none of the 1 logits is finite, expected at least one");
    }
    std::vector<float> many(100, 1.0F);
    many[77] = kNan;
    EXPECT_EQ(test::message_of([&] { (void)sample(many, 1, 40, 0.5); }),
              "the logit of token 77 of 100 is NaN, expected numbers");
}

TEST(SampleNext, BadArgumentsAreNamed) {
    const std::vector<float> logits = {1, 2};
    const auto refused = [&](double temperature, std::int64_t top_k, double draw) {
        return test::message_of([&] { (void)sample(logits, temperature, top_k, draw); });
    };
    EXPECT_EQ(refused(1e-40, 0, 0.5),
              "temperature is 1e-40, expected 0 or a number of at least 0.001");
    EXPECT_EQ(refused(-1, 0, 0.5), "temperature is -1, expected 0 or a number of at least 0.001");
    EXPECT_EQ(refused(std::nan(""), 0, 0.5),
              "temperature is nan, expected 0 or a number of at least 0.001");
    EXPECT_EQ(refused(HUGE_VAL, 0, 0.5),
              "temperature is inf, expected 0 or a number of at least 0.001");
    EXPECT_EQ(refused(1, -1, 0.5), "top_k is -1, expected 0 or more");
    EXPECT_EQ(refused(1, 0, 1.0), "draw is 1, expected a number in [0, 1)");
    EXPECT_EQ(refused(1, 0, -0.1), "draw is -0.1, expected a number in [0, 1)");
    EXPECT_EQ(refused(1, 0, std::nan("")), "draw is nan, expected a number in [0, 1)");
    EXPECT_EQ(test::message_of([] { (void)sample({}, 1, 0, 0.5); }),
              "there are 0 logits, expected at least one");
}

} // namespace

} // namespace kael::gpt
