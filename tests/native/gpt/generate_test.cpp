// GPT::generate: the right tokens, every way for it to end, and what it refuses.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/gpt.h"
#include "kael/random.h"

#include "message_of.h"
#include "small_models.h"

namespace kael::gpt {

namespace {

using Tokens = std::vector<std::int64_t>;

Config config() {
    Config config;
    config.vocab_size = 29;
    config.max_positions = 24;
    config.layers = 3;
    config.heads = 2;
    config.dimension = 16;
    return config;
}

class Generate : public ::testing::Test {
protected:
    GenerateResult run(const Tokens& prompt, const GenerateOptions& options) {
        return model_.generate(prompt.data(), static_cast<std::int64_t>(prompt.size()), options);
    }

    // By whole forward passes over the last max_positions ids, and sample_next.
    Tokens by_hand(Tokens ids, std::int64_t max_tokens, double temperature, std::int64_t top_k,
                   std::uint64_t seed) {
        RandomStream stream(seed);
        const auto start = static_cast<std::ptrdiff_t>(ids.size());
        for (std::int64_t i = 0; i < max_tokens; ++i) {
            const auto length = static_cast<std::int64_t>(ids.size());
            const std::int64_t seen = std::min(length, config().max_positions);
            const Tensor logits = model_.logits(ids.data() + (length - seen), 1, seen);
            const std::int64_t vocabulary = config().vocab_size;
            ids.push_back(sample_next(logits.data<float>() + (seen - 1) * vocabulary, vocabulary,
                                      temperature, top_k, stream.next_uniform()));
        }
        return {ids.begin() + start, ids.end()};
    }

    std::string message_of(const Tokens& prompt, const GenerateOptions& options) {
        return test::message_of([&] { (void)run(prompt, options); });
    }

    GPT model_{config(), testing::spread_weights(config(), 21)};
};

GenerateOptions greedy(std::int64_t max_tokens) {
    GenerateOptions options;
    options.max_tokens = max_tokens;
    options.temperature = 0;
    return options;
}

// KB110: max_tokens counts new tokens.
TEST_F(Generate, GivesTheTokensOfWholeForwardPassesAndOneDrawEach) {
    for (const bool use_cache : {true, false}) {
        for (const double temperature : {0.0, 0.8}) {
            GenerateOptions options = greedy(12);
            options.temperature = temperature;
            options.top_k = 7;
            options.seed = 5;
            options.use_cache = use_cache;
            const GenerateResult result = run({3, 1, 4, 1, 5}, options);
            EXPECT_EQ(result.tokens, by_hand({3, 1, 4, 1, 5}, 12, temperature, 7, 5));
            EXPECT_EQ(result.finish_reason, FinishReason::length);
            EXPECT_EQ(result.seed, 5U);
            EXPECT_GE(result.prompt_seconds, 0);
            EXPECT_GE(result.decode_seconds, 0);
        }
    }
}

// KB097, KB098: every length around the edge of the context.
TEST_F(Generate, TheWindowSlidesPastTheContext) {
    for (const std::int64_t length : {1, 22, 23, 24, 25, 60}) {
        const Tokens prompt = testing::random_ids(length, 29, 6);
        for (const bool use_cache : {true, false}) {
            GenerateOptions options = greedy(30);
            options.use_cache = use_cache;
            EXPECT_EQ(run(prompt, options).tokens, by_hand(prompt, 30, 0, 0, 0)) << length;
        }
    }
}

TEST_F(Generate, TheSeedDecidesAndIsReported) {
    GenerateOptions options = greedy(20);
    options.temperature = 1;
    manual_seed(3);
    const GenerateResult first = run({1, 2}, options);
    const GenerateResult second = run({1, 2}, options);
    EXPECT_NE(first.seed, second.seed);
    EXPECT_NE(first.tokens, second.tokens);
    manual_seed(3);
    EXPECT_EQ(run({1, 2}, options).tokens, first.tokens);
    options.seed = second.seed;
    EXPECT_EQ(run({1, 2}, options).tokens, second.tokens);
}

// KB109
TEST_F(Generate, NoTokensTakeNoForwardPass) {
    GenerateOptions options = greedy(0);
    int asked = 0;
    const auto should_stop = [&] { return ++asked > 0; };
    options.should_stop.emplace(should_stop);
    const GenerateResult result = run({1, 2}, options);
    EXPECT_TRUE(result.tokens.empty());
    EXPECT_EQ(result.finish_reason, FinishReason::length);
    EXPECT_EQ(asked, 0);
}

TEST_F(Generate, AStopTokenEndsItAndIsTheLastOne) {
    const Tokens all = run({1, 2}, greedy(20)).tokens;
    GenerateOptions options = greedy(20);
    options.stop_tokens = {all[4]};
    const GenerateResult result = run({1, 2}, options);
    const auto end = std::find(all.begin(), all.end(), all[4]) + 1;
    EXPECT_EQ(result.tokens, Tokens(all.begin(), end));
    EXPECT_EQ(result.finish_reason, FinishReason::stop_token);
}

TEST_F(Generate, EveryTokenIsAnnouncedTheLastIncluded) {
    GenerateOptions options = greedy(6);
    Tokens announced;
    const auto on_token = [&](std::int64_t token) {
        announced.push_back(token);
        return TokenAnswer::proceed;
    };
    options.on_token.emplace(on_token);
    EXPECT_EQ(run({1, 2}, options).tokens, announced);
    EXPECT_EQ(announced.size(), 6U);
    announced.clear();
    options.stop_tokens = {announced.empty() ? run({1, 2}, greedy(1)).tokens[0] : 0};
    EXPECT_EQ(run({1, 2}, options).tokens, announced);
    EXPECT_EQ(announced.size(), 1U);
}

TEST_F(Generate, OnTokenCanStop) {
    GenerateOptions options = greedy(6);
    int calls = 0;
    const auto on_token = [&](std::int64_t) {
        return ++calls == 3 ? TokenAnswer::stop : TokenAnswer::proceed;
    };
    options.on_token.emplace(on_token);
    const GenerateResult result = run({1, 2}, options);
    EXPECT_EQ(result.tokens, by_hand({1, 2}, 3, 0, 0, 0));
    EXPECT_EQ(result.finish_reason, FinishReason::callback);
    options.max_tokens = 3; // an answer counts also at the last token
    calls = 0;
    EXPECT_EQ(run({1, 2}, options).finish_reason, FinishReason::callback);
}

TEST_F(Generate, AFailedAnswerIsAnErrorOfItsOwn) {
    GenerateOptions options = greedy(6);
    int calls = 0;
    const auto on_token = [&](std::int64_t) {
        return ++calls == 2 ? TokenAnswer::failed : TokenAnswer::proceed;
    };
    options.on_token.emplace(on_token);
    try {
        (void)run({1, 2}, options);
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::callback_failed);
        EXPECT_EQ(error.message(), "on_token failed at new token 2");
    }
    EXPECT_EQ(calls, 2);
}

TEST_F(Generate, AnExceptionOfOnTokenPassesThroughAndTheModelLivesOn) {
    GenerateOptions options = greedy(6);
    const auto on_token = [](std::int64_t) -> TokenAnswer { throw std::string("mine"); };
    options.on_token.emplace(on_token);
    EXPECT_THROW((void)run({1, 2}, options), std::string);
    EXPECT_EQ(run({1, 2}, greedy(4)).tokens, by_hand({1, 2}, 4, 0, 0, 0));
}

TEST_F(Generate, ShouldStopIsAskedBetweenLayersOfThePromptAndBetweenTokens) {
    // One question before the prompt and one for each of its 3 layers, then one for each token.
    for (int stop_at = 1; stop_at <= 8; ++stop_at) {
        GenerateOptions options = greedy(20);
        int asked = 0;
        const auto should_stop = [&] { return ++asked == stop_at; };
        options.should_stop.emplace(should_stop);
        const GenerateResult result = run({1, 2, 3, 4}, options);
        EXPECT_EQ(asked, stop_at);
        EXPECT_EQ(static_cast<int>(result.tokens.size()), std::max(stop_at - 4, 0));
        EXPECT_EQ(result.finish_reason, FinishReason::stopped);
    }
    EXPECT_EQ(run({1, 2}, greedy(4)).tokens, by_hand({1, 2}, 4, 0, 0, 0));
}

TEST_F(Generate, ACallFromWithinOnTokenIsRefused) {
    GenerateOptions options = greedy(2);
    std::string message;
    const auto on_token = [&](std::int64_t) {
        message = message_of({1}, greedy(1));
        return TokenAnswer::proceed;
    };
    options.on_token.emplace(on_token);
    EXPECT_EQ(run({1, 2}, options).tokens, by_hand({1, 2}, 2, 0, 0, 0));
    EXPECT_EQ(message, "the model is in use by another call, expected one call at a time");
}

TEST_F(Generate, BadArgumentsAreNamed) {
    EXPECT_EQ(message_of({}, greedy(0)), "the prompt is empty, expected at least one token id");
    EXPECT_EQ(message_of({1, 29}, greedy(0)), "token id 1 of 2 is 29, expected 0 to 28");
    EXPECT_EQ(message_of(Tokens(100, -1), greedy(0)), "token id 0 of 100 is -1, expected 0 to 28");
    EXPECT_EQ(message_of({1}, greedy(-1)), "max_tokens is -1, expected 0 or more");
    GenerateOptions options = greedy(0);
    options.temperature = 0.0009;
    EXPECT_EQ(message_of({1}, options),
              "temperature is 0.0009, expected 0 or a number of at least 0.001");
    options = greedy(0);
    options.top_k = -1;
    EXPECT_EQ(message_of({1}, options), "top_k is -1, expected 0 or more");
}

TEST_F(Generate, ABrokenModelIsAnError) {
    Weights weights = testing::spread_weights(config(), 21);
    weights.ln_f_bias.mutable_data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    GPT broken(config(), weights);
    const std::int64_t id = 1;
    EXPECT_THROW((void)broken.generate(&id, 1, greedy(3)), Error);
}

} // namespace

} // namespace kael::gpt
