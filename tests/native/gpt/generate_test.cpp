// GPT::generate: the right tokens, every way for it to end, and what it refuses.
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

#include "gpt/logprobs.h"
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
    Tokens by_hand(const Tokens& prompt, std::int64_t max_tokens, double temperature,
                   std::int64_t top_k, std::uint64_t seed) {
        SamplingOptions sampling;
        sampling.temperature = temperature;
        sampling.top_k = top_k;
        return by_hand(prompt, max_tokens, sampling, seed);
    }

    Tokens by_hand(const Tokens& prompt, std::int64_t max_tokens, const SamplingOptions& sampling,
                   std::uint64_t seed) {
        RandomStream stream(seed);
        Tokens ids = prompt;
        const auto start = std::ssize(prompt);
        for (std::int64_t i = 0; i < max_tokens; ++i) {
            const auto length = static_cast<std::int64_t>(ids.size());
            const std::int64_t seen = std::min(length, config().max_positions);
            const Tensor logits = model_.logits(ids.data() + (length - seen), 1, seen);
            const std::int64_t vocabulary = config().vocab_size;
            const TokenHistory history = {prompt, std::span(ids).subspan(prompt.size())};
            ids.push_back(sample_next(logits.data<float>() + (seen - 1) * vocabulary, vocabulary,
                                      sampling, stream.next_uniform(), history));
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

TEST_F(Generate, PenaltiesTakeNoticeOfThePromptAndOfWhatWasGenerated) {
    const Tokens prompt = {3, 1, 4, 1, 5};
    for (const double temperature : {0.0, 0.8}) {
        GenerateOptions options = greedy(40); // past the context, where the window has slid
        options.temperature = temperature;
        options.top_p = 0.9;
        options.min_p = 0.01;
        options.repetition_penalty = 1.3;
        options.presence_penalty = 0.2;
        options.frequency_penalty = 0.1;
        options.logit_bias = {{3, 1.5}, {4, -1e9}};
        options.seed = 5;
        const Tokens tokens = run(prompt, options).tokens;
        EXPECT_EQ(tokens, by_hand(prompt, 40, options, 5));
        EXPECT_EQ(std::ranges::count(tokens, 4), 0);
    }
}

class Logprobs : public Generate {
protected:
    // The closed form, from whole forward passes.
    std::vector<double> of_model(const Tokens& ids) {
        const auto length = std::ssize(ids);
        const std::int64_t vocabulary = config().vocab_size;
        const Tensor logits = model_.logits(ids.data(), 1, length);
        const float* last = logits.data<float>() + (length - 1) * vocabulary;
        double sum = 0;
        for (std::int64_t id = 0; id < vocabulary; ++id) {
            sum += std::exp(static_cast<double>(last[id]));
        }
        std::vector<double> logprobs;
        for (std::int64_t id = 0; id < vocabulary; ++id) {
            logprobs.push_back(static_cast<double>(last[id]) - std::log(sum));
        }
        return logprobs;
    }

    void expect_row(const TokenLogprob* row, std::int64_t top, std::int64_t token,
                    const std::vector<double>& logprobs) {
        EXPECT_EQ(row->token, token);
        EXPECT_NEAR(row->logprob, logprobs[static_cast<std::size_t>(token)], 1e-9);
        Tokens order(logprobs.size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::sort(order, [&](std::int64_t a, std::int64_t b) {
            const double of_a = logprobs[static_cast<std::size_t>(a)];
            const double of_b = logprobs[static_cast<std::size_t>(b)];
            return of_a != of_b ? of_a > of_b : a < b;
        });
        for (std::int64_t rank = 0; rank < top; ++rank) {
            const TokenLogprob& entry = row[1 + rank];
            if (rank < std::ssize(order)) {
                const std::int64_t expected = order[static_cast<std::size_t>(rank)];
                EXPECT_EQ(entry.token, expected);
                EXPECT_NEAR(entry.logprob, logprobs[static_cast<std::size_t>(expected)], 1e-9);
            } else {
                EXPECT_EQ(entry.token, -1);
                EXPECT_EQ(entry.logprob, -std::numeric_limits<double>::infinity());
            }
        }
    }
};

TEST_F(Logprobs, AreTheModelsOwnWhateverTheSampling) {
    for (const std::int64_t top : {0, 3, 40}) {
        GenerateOptions options = greedy(8);
        options.temperature = 1.5;
        options.top_k = 4;
        options.logit_bias = {{7, 5}};
        options.repetition_penalty = 1.4;
        options.seed = 9;
        options.top_logprobs = top;
        std::vector<TokenLogprob> rows(static_cast<std::size_t>(8 * (1 + top)));
        options.logprobs = rows.data();
        Tokens ids = {3, 1, 4};
        for (const std::int64_t token : run(ids, options).tokens) {
            const auto index = std::ssize(ids) - 3;
            expect_row(rows.data() + index * (1 + top), top, token, of_model(ids));
            ids.push_back(token);
        }
        options.logprobs = nullptr;
        EXPECT_EQ(run({3, 1, 4}, options).tokens, Tokens(ids.begin() + 3, ids.end()));
    }
}

TEST_F(Logprobs, AnInfiniteLogitCountsAsTheLargestNumber) {
    const std::vector<float> logits = {1, std::numeric_limits<float>::infinity(),
                                       std::numeric_limits<float>::max()};
    std::vector<TokenLogprob> row(3);
    LogprobWriter().write(logits.data(), std::ssize(logits), 1, 2, row.data());
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
        EXPECT_EQ(row[entry].token, entry == 2 ? 2 : 1);
        EXPECT_DOUBLE_EQ(row[entry].logprob, std::log(0.5));
    }
}

TEST_F(Logprobs, ARowIsThereWhenItsTokenIsAnnounced) {
    GenerateOptions options = greedy(5);
    std::vector<TokenLogprob> rows(5, kNoTokenLogprob);
    options.logprobs = rows.data();
    std::size_t announced = 0;
    const auto on_token = [&](std::int64_t token) {
        EXPECT_EQ(rows[announced++].token, token);
        return TokenAnswer::proceed;
    };
    options.on_token.emplace(on_token);
    (void)run({1, 2}, options);
    EXPECT_EQ(announced, 5U);
}

TEST_F(Logprobs, OfThePromptFollowItTokenByToken) {
    constexpr std::int64_t kTop = 2;
    for (const std::int64_t length : {1, 2, 24}) {
        const Tokens prompt = testing::random_ids(length, 29, 6);
        for (const std::int64_t max_tokens : {0, 4}) {
            GenerateOptions options = greedy(max_tokens);
            options.top_logprobs = kTop;
            std::vector<TokenLogprob> rows(static_cast<std::size_t>(length * (1 + kTop)));
            options.prompt_logprobs = rows.data();
            const Tokens tokens = run(prompt, options).tokens;
            EXPECT_EQ(tokens, by_hand(prompt, max_tokens, 0, 0, 0));
            for (std::int64_t index = 1; index < length; ++index) {
                const Tokens before(prompt.begin(), prompt.begin() + index);
                expect_row(rows.data() + (index - 1) * (1 + kTop), kTop,
                           prompt[static_cast<std::size_t>(index)], of_model(before));
            }
        }
    }
}

TEST_F(Logprobs, OfALongPromptCrossTheParts) {
    Config long_config = config();
    long_config.max_positions = 150;
    GPT model(long_config, testing::spread_weights(long_config, 22));
    const Tokens prompt = testing::random_ids(150, 29, 7);
    GenerateOptions options = greedy(0);
    std::vector<TokenLogprob> rows(149);
    options.prompt_logprobs = rows.data();
    EXPECT_EQ(model.generate(prompt.data(), 150, options).finish_reason, FinishReason::length);
    const Tensor logits = model.logits(prompt.data(), 1, 150);
    for (std::size_t index = 0; index < rows.size(); ++index) {
        const float* row = logits.data<float>() + index * 29;
        double sum = 0;
        for (int id = 0; id < 29; ++id) {
            sum += std::exp(static_cast<double>(row[id]));
        }
        EXPECT_EQ(rows[index].token, prompt[index + 1]);
        EXPECT_NEAR(rows[index].logprob,
                    static_cast<double>(row[prompt[index + 1]]) - std::log(sum), 1e-9);
    }
}

TEST_F(Logprobs, OfThePromptCanBeStopped) {
    GenerateOptions options = greedy(0);
    std::vector<TokenLogprob> rows(3);
    options.prompt_logprobs = rows.data();
    const auto should_stop = [] { return true; };
    options.should_stop.emplace(should_stop);
    EXPECT_EQ(run({1, 2, 3}, options).finish_reason, FinishReason::stopped);
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
    options = greedy(0);
    options.logit_bias = {{29, 1}};
    EXPECT_EQ(message_of({1}, options), "logit_bias names the token 29, expected 0 to 28");
    options = greedy(0);
    options.top_logprobs = -1;
    EXPECT_EQ(message_of({1}, options), "top_logprobs is -1, expected 0 to 1000000");
    options = greedy(0);
    std::vector<TokenLogprob> rows(25);
    options.prompt_logprobs = rows.data();
    EXPECT_EQ(message_of(Tokens(25, 1), options),
              "prompt_logprobs of 25 tokens, expected at most the context of 24");
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
