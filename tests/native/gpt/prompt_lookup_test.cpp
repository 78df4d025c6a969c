// Guesses at how a text goes on, and generations that try them: the same answer, to the bit.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/gpt.h"
#include "kael/random.h"

#include "gpt/prompt_lookup.h"
#include "message_of.h"
#include "small_models.h"

namespace kael::gpt {

namespace {

using Tokens = std::vector<std::int64_t>;

Tokens guessed(PromptLookup& lookup, const Tokens& text, std::int64_t room = 100) {
    const auto guess = lookup.guess(text, room);
    return {guess.begin(), guess.end()};
}

Tokens first_guess(const Tokens& text, std::int64_t most = 4) {
    PromptLookup lookup(most);
    return guessed(lookup, text);
}

TEST(PromptLookup, WhatFollowedTheLastTokensFollowsAgain) {
    EXPECT_EQ(first_guess({1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3}), (Tokens{4, 5, 6, 7}));
    EXPECT_EQ(first_guess({1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3}, 2), (Tokens{4, 5}));
}

TEST(PromptLookup, MoreTokensAlikeWinAndOfEquallyManyTheLastPlace) {
    EXPECT_EQ(first_guess({8, 2, 3, 4, 7, 2, 3, 5, 8, 2, 3}, 1), (Tokens{4}));
    EXPECT_EQ(first_guess({2, 3, 4, 2, 3, 5, 2, 3}, 1), (Tokens{5}));
}

TEST(PromptLookup, ATextInCirclesGoesOnInCircles) {
    EXPECT_EQ(first_guess({7, 1, 2, 1, 2}), (Tokens{1, 2, 1, 2}));
    EXPECT_EQ(first_guess({5, 5, 5}), (Tokens{5, 5, 5, 5}));
}

TEST(PromptLookup, OneTokenAlikeIsNotEnough) {
    EXPECT_EQ(first_guess({1, 2, 3, 4, 9, 2}), Tokens{});
    EXPECT_EQ(first_guess({1, 1}), Tokens{});
    EXPECT_EQ(first_guess({}), Tokens{});
}

TEST(PromptLookup, NoMoreThanThereIsRoomFor) {
    PromptLookup lookup(4);
    EXPECT_EQ(guessed(lookup, {1, 2, 3, 4, 1, 2}, 1), (Tokens{3}));
    EXPECT_EQ(guessed(lookup, {1, 2, 3, 4, 1, 2, 3}, 0), Tokens{});
    EXPECT_EQ(first_guess({1, 2, 3, 4, 1, 2}, 0), Tokens{});
}

TEST(PromptLookup, RightGuessesGrowAndPartlyRightOnesShrink) {
    PromptLookup lookup(12);
    Tokens text = {1, 2, 1, 2};
    std::vector<std::size_t> lengths;
    for (int round = 0; round < 4; ++round) {
        const Tokens guess = guessed(lookup, text);
        lengths.push_back(guess.size());
        text.insert(text.end(), guess.begin(), guess.end());
    }
    EXPECT_EQ(lengths, (std::vector<std::size_t>{4, 8, 12, 12}));
    Tokens guess = guessed(lookup, text);
    text.insert(text.end(), guess.begin(), guess.begin() + 3);
    text.insert(text.end(), {9, 1, 2});
    EXPECT_EQ(guessed(lookup, text).size(), 4U);
}

TEST(PromptLookup, WrongGuessesBecomeRare) {
    PromptLookup lookup(4);
    Tokens text = {1, 2, 1, 2};
    std::vector<int> at;
    // Two tokens alike, always, and another one than the guess follows.
    for (int call = 0; call < 400; ++call) {
        if (!guessed(lookup, text).empty()) {
            at.push_back(call);
        }
        text.insert(text.end(), {call + 10, 1, 2});
    }
    EXPECT_EQ(at, (std::vector<int>{0, 5, 14, 31, 64, 129, 194, 259, 324, 389}));
}

TEST(PromptLookup, OneRightTokenIsEnoughToGoOnGuessing) {
    PromptLookup lookup(4);
    Tokens text = {1, 2, 3, 4, 1, 2};
    for (int round = 0; round < 5; ++round) {
        const Tokens guess = guessed(lookup, text);
        ASSERT_FALSE(guess.empty()) << round;
        text.push_back(guess[0]);
        text.insert(text.end(), {round + 10, 1, 2});
    }
}

// ---- Generation

constexpr std::int64_t kVocabulary = 13;
constexpr std::int64_t kPositions = 40;

Config config() {
    Config config;
    config.vocab_size = kVocabulary;
    config.max_positions = kPositions;
    config.layers = 2;
    config.heads = 2;
    config.dimension = 16;
    return config;
}

// All that can be seen of a generation.
struct Seen {
    Tokens tokens;
    Tokens announced;
    std::vector<double> logprobs;
    FinishReason finish_reason;
    std::int64_t questions;
    std::int64_t guessed_tokens;

    bool operator==(const Seen& other) const {
        return tokens == other.tokens && announced == other.announced &&
               logprobs == other.logprobs && finish_reason == other.finish_reason &&
               questions == other.questions;
    }
};

class Speculate : public ::testing::Test {
protected:
    // Stops at the announcement, or at the question, of that number.
    Seen run(const Tokens& prompt, GenerateOptions options, std::int64_t speculate,
             std::int64_t stop_at_token = -1, std::int64_t stop_at_question = -1) {
        Seen seen = {};
        std::vector<TokenLogprob> rows(static_cast<std::size_t>(options.max_tokens * 3));
        options.speculate = speculate;
        options.reuse_prefix = false; // no layer of the prompt is left out: each asks a question
        options.logprobs = rows.data();
        options.top_logprobs = 2;
        const auto on_token = [&](std::int64_t token) {
            seen.announced.push_back(token);
            return std::ssize(seen.announced) == stop_at_token ? TokenAnswer::stop
                                                               : TokenAnswer::proceed;
        };
        const auto should_stop = [&] { return ++seen.questions == stop_at_question; };
        options.on_token.emplace(on_token);
        options.should_stop.emplace(should_stop);
        const GenerateResult result = model_.generate(prompt.data(), std::ssize(prompt), options);
        seen.tokens = result.tokens;
        for (std::size_t row = 0; row < result.tokens.size() * 3; ++row) {
            seen.logprobs.push_back(rows[row].logprob);
        }
        seen.finish_reason = result.finish_reason;
        seen.guessed_tokens = result.guessed_tokens;
        return seen;
    }

    GPT model_{config(), testing::spread_weights(config(), 3)};
};

// A prompt in which much comes twice.
Tokens repetitive(std::uint64_t seed) {
    Tokens prompt = testing::random_ids(11, kVocabulary, seed);
    std::copy_n(prompt.begin(), 5, prompt.begin() + 6);
    return prompt;
}

TEST_F(Speculate, TheAnswerIsTheOneWithoutIt) {
    std::int64_t guessed_tokens = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        GenerateOptions options;
        options.max_tokens = 60; // past the context
        options.seed = seed;
        options.temperature = seed % 4 == 0 ? 0 : 0.15 * static_cast<double>(seed % 4);
        if (seed % 3 == 1) {
            options.repetition_penalty = 1.05;
            options.presence_penalty = 0.05;
            options.frequency_penalty = 0.02;
        }
        if (seed % 5 == 1) {
            options.stop_tokens = {static_cast<std::int64_t>(seed) % kVocabulary};
        }
        if (seed % 7 == 1) {
            options.logit_bias = {{2, 0.5}};
            options.top_k = 5;
        }
        const Tokens prompt = repetitive(seed);
        const Seen plain = run(prompt, options, 0);
        EXPECT_EQ(plain.guessed_tokens, 0);
        for (const std::int64_t speculate : {1, 2, 7, 64}) {
            const Seen tried = run(prompt, options, speculate);
            EXPECT_TRUE(tried == plain) << "seed " << seed << ", " << speculate << " guesses";
            guessed_tokens += tried.guessed_tokens;
        }
    }
    EXPECT_GT(guessed_tokens, 1000);
}

TEST_F(Speculate, ItEndsAtTheSameTokenWhoeverEndsIt) {
    GenerateOptions options;
    options.max_tokens = 25;
    options.temperature = 0;
    const Tokens prompt = repetitive(32);
    EXPECT_GT(run(prompt, options, 8).guessed_tokens, 10);
    for (std::int64_t at = 1; at <= 26; ++at) {
        EXPECT_TRUE(run(prompt, options, 8, at) == run(prompt, options, 0, at)) << at;
        EXPECT_TRUE(run(prompt, options, 8, -1, at) == run(prompt, options, 0, -1, at)) << at;
        options.max_tokens = at;
        EXPECT_TRUE(run(prompt, options, 8) == run(prompt, options, 0)) << at;
        options.max_tokens = 25;
    }
}

TEST_F(Speculate, WithoutTheCacheThereIsNothingToTryGuessesWith) {
    GenerateOptions options;
    options.max_tokens = 20;
    options.temperature = 0;
    options.use_cache = false;
    const Seen tried = run(repetitive(4), options, 8);
    EXPECT_TRUE(tried == run(repetitive(4), options, 0));
    EXPECT_EQ(tried.guessed_tokens, 0);
}

TEST_F(Speculate, WhatWasGuessedWronglyIsReusedByNoLaterPrompt) {
    manual_seed(5);
    GPT model(config());
    GenerateOptions options;
    options.temperature = 0.8;
    options.speculate = 8;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        options.seed = seed;
        options.max_tokens = 1 + static_cast<std::int64_t>(seed % 20);
        Tokens prompt = repetitive(seed % 6);
        for (int turn = 0; turn < 2; ++turn) {
            const GenerateResult result =
                model.generate(prompt.data(), std::ssize(prompt), options);
            GenerateOptions cold = options;
            cold.reuse_prefix = false;
            cold.speculate = 0;
            manual_seed(5);
            GPT fresh(config());
            EXPECT_EQ(fresh.generate(prompt.data(), std::ssize(prompt), cold).tokens,
                      result.tokens);
            prompt.insert(prompt.end(), result.tokens.begin(), result.tokens.end());
        }
    }
}

TEST_F(Speculate, HowManyIsChecked) {
    for (const std::int64_t wrong : {-1, 65}) {
        EXPECT_EQ(test::message_of([&] { (void)run({1}, GenerateOptions(), wrong); }),
                  "speculate is " + std::to_string(wrong) + ", expected 0 to 64");
    }
}

} // namespace

} // namespace kael::gpt
