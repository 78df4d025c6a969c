// sample_next: picks by the rules in kael/gpt.h, checked against a plain model of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
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
    SamplingOptions options;
    options.temperature = temperature;
    options.top_k = top_k;
    return sample_next(logits.data(), std::ssize(logits), options, draw);
}

// Where each token's share of [0, 1) ends, step by step as kael/gpt.h says, by sorting everything
// and the C library's exp.
std::vector<double> ends(std::vector<float> logits, const SamplingOptions& options,
                         const TokenHistory& history = {}) {
    for (const LogitBias& entry : options.logit_bias) {
        logits[static_cast<std::size_t>(entry.token)] += static_cast<float>(entry.bias);
    }
    for (std::size_t id = 0; id < logits.size(); ++id) {
        const auto times = [&](std::span<const std::int64_t> ids) {
            return static_cast<double>(std::ranges::count(ids, static_cast<std::int64_t>(id)));
        };
        double logit = logits[id];
        if (times(history.prompt) + times(history.generated) > 0) {
            logit =
                logit < 0 ? logit * options.repetition_penalty : logit / options.repetition_penalty;
        }
        if (times(history.generated) > 0) {
            logit -= options.presence_penalty;
        }
        logits[id] =
            static_cast<float>(logit - options.frequency_penalty * times(history.generated));
    }
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    const double largest = static_cast<double>(logits[order[0]]);
    const auto top_k = static_cast<std::size_t>(options.top_k);
    order.resize(top_k == 0 ? order.size() : std::min(top_k, order.size()));
    const auto weight = [&](std::size_t id) {
        return std::exp((static_cast<double>(logits[id]) - largest) / options.temperature);
    };
    double total = 0;
    for (const std::size_t id : order) {
        total += weight(id);
    }
    std::vector<double> shares(logits.size(), 0.0);
    double before = 0;
    for (const std::size_t id : order) {
        const bool is_in_nucleus = id == order[0] || before < options.top_p * total;
        shares[id] = is_in_nucleus && weight(id) >= options.min_p ? weight(id) : 0.0;
        before += weight(id);
    }
    total = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::partial_sum(shares.begin(), shares.end(), shares.begin());
    for (double& share : shares) {
        share /= total;
    }
    return shares;
}

std::vector<double> ends(const std::vector<float>& logits, double temperature, std::size_t top_k) {
    SamplingOptions options;
    options.temperature = temperature;
    options.top_k = static_cast<std::int64_t>(top_k);
    return ends(logits, options);
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

TEST(SampleNext, FiltersBiasesAndPenaltiesTakeTheirStepsInOrder) {
    RandomStream stream(3);
    const auto up_to = [&](double limit) { return stream.next_uniform() * limit; };
    for (int round = 0; round < 300; ++round) {
        std::vector<float> logits(1 + static_cast<std::size_t>(up_to(3000)));
        for (float& logit : logits) {
            logit = static_cast<float>(stream.next_normal() * 3);
        }
        const auto any_id = [&] {
            return static_cast<std::int64_t>(up_to(static_cast<double>(logits.size())));
        };
        SamplingOptions options;
        options.temperature = std::exp(stream.next_normal() / 2);
        options.top_k = round % 2 == 0 ? 0 : static_cast<std::int64_t>(up_to(50));
        options.top_p = round % 3 == 0 ? 1 : up_to(1);
        options.min_p = round % 5 == 0 ? up_to(0.3) : 0;
        options.repetition_penalty = round % 4 == 0 ? 0.5 + up_to(2) : 1;
        options.presence_penalty = round % 7 == 0 ? up_to(4) - 2 : 0;
        options.frequency_penalty = round % 6 == 0 ? up_to(4) - 2 : 0;
        for (int i = 0; i < round % 4; ++i) {
            options.logit_bias.push_back({any_id(), stream.next_normal() * 5});
        }
        std::vector<std::int64_t> prompt(10);
        std::ranges::generate(prompt, any_id);
        std::vector<std::int64_t> generated(5);
        std::ranges::generate(generated, any_id);
        generated.push_back(generated[0]);
        const TokenHistory history = {prompt, generated};
        const std::vector<double> expected = ends(logits, options, history);
        for (int i = 0; i < 20; ++i) {
            const double draw = stream.next_uniform();
            const auto token = static_cast<std::size_t>(
                sample_next(logits.data(), std::ssize(logits), options, draw, history));
            EXPECT_LT(draw, expected[token] + 1e-6);
            EXPECT_GE(draw, (token == 0 ? 0.0 : expected[token - 1]) - 1e-6);
        }
    }
}

TEST(SampleNext, AFlatNucleusTakesAsManyTokensAsItNeeds) {
    const std::vector<float> flat(20'000, 1.5F);
    SamplingOptions options;
    options.top_p = 0.75;
    const auto pick = [&](double draw) {
        return sample_next(flat.data(), std::ssize(flat), options, draw);
    };
    EXPECT_EQ(pick(std::nextafter(1.0, 0.0)), 14'999); // of equal ones, those of lower ids
    EXPECT_EQ(pick(0), 0);
    options.top_k = 40;
    EXPECT_EQ(pick(std::nextafter(1.0, 0.0)), 29);
    options.top_k = 0;
    options.top_p = 0;
    EXPECT_EQ(pick(0.99), 0);
    options.top_p = std::nextafter(1.0, 0.0);
    EXPECT_EQ(pick(std::nextafter(1.0, 0.0)), 19'999);
}

TEST(SampleNext, AMinPOfOneKeepsTheLikeliestAlone) {
    const std::vector<float> logits = {1, 3, 2, 3};
    SamplingOptions options;
    options.min_p = 1;
    EXPECT_EQ(sample_next(logits.data(), 4, options, 0.49), 1);
    EXPECT_EQ(sample_next(logits.data(), 4, options, 0.51), 3);
}

TEST(SampleNext, TemperatureZeroTakesTheLargestAdjustedLogit) {
    const std::vector<float> logits = {2, 3, -1, 2.5F};
    const std::vector<std::int64_t> seen = {1, 3};
    SamplingOptions options;
    options.temperature = 0;
    options.repetition_penalty = 2;
    EXPECT_EQ(sample_next(logits.data(), 4, options, 0.5, {seen, {}}), 0);
    EXPECT_EQ(sample_next(logits.data(), 4, options, 0.5, {{}, seen}), 0);
    options.logit_bias = {{2, 2}, {2, 2}};
    EXPECT_EQ(sample_next(logits.data(), 4, options, 0.5, {seen, {}}), 2);
    options.logit_bias = {{0, -1e9}};
    options.repetition_penalty = 1;
    EXPECT_EQ(sample_next(logits.data(), 4, options, 0.5), 1);
}

TEST(SampleNext, TheLargestBiasesAndPenaltiesBreakNothing) {
    const double most = static_cast<double>(std::numeric_limits<float>::max());
    const std::vector<std::int64_t> seen = {0, 0, 1};
    SamplingOptions options;
    options.logit_bias = {{0, most}, {0, most}, {1, -most}, {1, -most}};
    options.presence_penalty = -most;
    options.frequency_penalty = -most;
    options.repetition_penalty = 1e-300;
    for (const double temperature : {0.0, 1.0}) {
        options.temperature = temperature;
        const std::vector<float> logits = {3e38F, -3e38F, 1};
        EXPECT_EQ(sample_next(logits.data(), 3, options, 0.3, {{}, seen}), 0);
    }
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

TEST(SampleNext, ADrawAtTheEndOfAShareBelongsToTheNext) {
    for (const std::int64_t top_k : {0, 3}) {
        EXPECT_EQ(sample({2, 2, -kInfinity, 2, 2}, 1, top_k, 0), 0);
        const double share = top_k == 0 ? 0.25 : 1.0 / 3;
        EXPECT_EQ(sample({2, 2, -kInfinity, 2, 2}, 1, top_k, std::nextafter(share, 0.0)), 0);
        EXPECT_EQ(sample({2, 2, -kInfinity, 2, 2}, 1, top_k, share), 1);
        EXPECT_EQ(sample({2, 2, -kInfinity, 2, 2}, 1, top_k, 2 * share), 3);
    }
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
    const auto refused_by = [&](auto set) {
        SamplingOptions options;
        set(options);
        return test::message_of([&] { (void)sample_next(logits.data(), 2, options, 0.5); });
    };
    EXPECT_EQ(refused_by([](auto& o) { o.top_p = 1.5; }),
              "top_p is 1.5, expected a number from 0 to 1");
    EXPECT_EQ(refused_by([](auto& o) { o.top_p = std::nan(""); }),
              "top_p is nan, expected a number from 0 to 1");
    EXPECT_EQ(refused_by([](auto& o) { o.min_p = -0.5; }),
              "min_p is -0.5, expected a number from 0 to 1");
    EXPECT_EQ(refused_by([](auto& o) { o.repetition_penalty = 0; }),
              "repetition_penalty is 0, expected a finite number above 0");
    EXPECT_EQ(refused_by([](auto& o) { o.presence_penalty = HUGE_VAL; }),
              "presence_penalty is inf, expected a number in the range of float32");
    EXPECT_EQ(refused_by([](auto& o) { o.frequency_penalty = 1e39; }),
              "frequency_penalty is 1e+39, expected a number in the range of float32");
    EXPECT_EQ(refused_by([](auto& o) { o.logit_bias = {{2, 1}}; }), // B094
              "logit_bias names the token 2, expected 0 to 1");
    EXPECT_EQ(refused_by([](auto& o) { o.logit_bias = {{1, std::nan("")}}; }),
              "the logit_bias of token 1 is nan, expected a number in the range of float32");
    const std::vector<std::int64_t> outside = {1, 5};
    EXPECT_EQ(
        test::message_of([&] { (void)sample_next(logits.data(), 2, {}, 0.5, {outside, {}}); }),
        "the text so far holds the token 5, expected 0 to 1");
}

} // namespace

} // namespace kael::gpt
