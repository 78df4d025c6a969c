// GPT::generate after other calls of the same model: what it keeps of them, and that this shows in
// nothing but time.
#include <algorithm>
#include <cmath>
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

constexpr std::int64_t kVocabulary = 31;
constexpr std::int64_t kPositions = 48;

Config config() {
    Config config;
    config.vocab_size = kVocabulary;
    config.max_positions = kPositions;
    config.layers = 3;
    config.heads = 3;
    config.dimension = 24;
    return config;
}

// The seed of the weights is that of the process.
GPT seeded_model() {
    manual_seed(17);
    return GPT(config());
}

struct Answer {
    Tokens tokens;
    std::vector<double> logprobs;
    std::int64_t cached_tokens;
};

GenerateOptions sampled(std::int64_t max_tokens) {
    GenerateOptions options;
    options.max_tokens = max_tokens;
    options.temperature = 0.9;
    options.seed = 3;
    return options;
}

Answer ask(GPT& model, const Tokens& prompt, GenerateOptions options = sampled(6)) {
    std::vector<TokenLogprob> rows(static_cast<std::size_t>(options.max_tokens));
    options.logprobs = rows.data();
    const GenerateResult result = model.generate(prompt.data(), std::ssize(prompt), options);
    Answer answer = {result.tokens, {}, result.cached_tokens};
    for (std::size_t i = 0; i < result.tokens.size(); ++i) {
        answer.logprobs.push_back(rows[i].logprob);
    }
    return answer;
}

Tokens joined(const Tokens& first, const Tokens& second) {
    Tokens all = first;
    all.insert(all.end(), second.begin(), second.end());
    return all;
}

class ReusePrefix : public ::testing::Test {
protected:
    // Asks the model that has seen much, and one that has seen nothing.
    void expect_reuse(const Tokens& prompt, std::int64_t cached_tokens,
                      const GenerateOptions& options = sampled(6)) {
        const Answer warm = ask(model_, prompt, options);
        GPT fresh = seeded_model();
        const Answer cold = ask(fresh, prompt, options);
        EXPECT_EQ(warm.tokens, cold.tokens);
        EXPECT_EQ(warm.logprobs, cold.logprobs); // to the bit
        EXPECT_EQ(warm.cached_tokens, cached_tokens);
        EXPECT_EQ(cold.cached_tokens, 0);
    }

    GPT model_ = seeded_model();
    const Tokens prompt_ = testing::random_ids(20, kVocabulary, 8);
};

TEST_F(ReusePrefix, TheFirstAnswerHasNothingToReuse) {
    expect_reuse(prompt_, 0);
}

TEST_F(ReusePrefix, OfTheSamePromptAllButItsLastToken) {
    (void)ask(model_, prompt_);
    expect_reuse(prompt_, 19);
    expect_reuse({prompt_[0]}, 0);
}

TEST_F(ReusePrefix, ATextThatGoesOnReusesTheAnswerToo) {
    const Tokens text = joined(prompt_, ask(model_, prompt_).tokens);
    expect_reuse(joined(text, {4, 7}), 25); // its last token was made, and never looked at
}

TEST_F(ReusePrefix, EveryLengthOfACommonBeginning) {
    for (std::int64_t shared = 0; shared <= 20; ++shared) {
        (void)ask(model_, prompt_);
        Tokens other = testing::random_ids(23, kVocabulary, 9);
        std::copy_n(prompt_.begin(), shared, other.begin());
        const auto at = static_cast<std::size_t>(shared);
        if (shared < 20) {
            other[at] = (prompt_[at] + 1) % kVocabulary;
        } else {
            other[at] = (ask(model_, prompt_).tokens[0] + 1) % kVocabulary;
        }
        expect_reuse(other, shared);
    }
}

TEST_F(ReusePrefix, AfterAWindowThatSlid) {
    const Tokens tokens = ask(model_, prompt_, sampled(60)).tokens;
    // Of 80 ids the last was never looked at: those before it make the window.
    Tokens window = joined(prompt_, tokens);
    window = Tokens(window.end() - 1 - kPositions, window.end() - 1);
    Tokens shorter(window.begin(), window.begin() + 30);
    expect_reuse(shorter, 29);
    (void)ask(model_, prompt_, sampled(60));
    expect_reuse(window, 47, sampled(30));
    expect_reuse(prompt_, 0);
}

TEST_F(ReusePrefix, APromptBeyondTheContextCountsFromItsWindow) {
    const Tokens longer = testing::random_ids(100, kVocabulary, 10);
    (void)ask(model_, longer, sampled(1));
    expect_reuse(longer, kPositions - 1, sampled(1));
    expect_reuse(Tokens(longer.end() - kPositions, longer.end()), kPositions - 1, sampled(4));
}

TEST_F(ReusePrefix, AfterAPromptThatWasStopped) {
    for (int stop_at = 1; stop_at <= 6; ++stop_at) {
        (void)ask(model_, {prompt_[0], prompt_[1]}, sampled(1));
        GenerateOptions options = sampled(6);
        int asked = 0;
        const auto should_stop = [&] { return ++asked == stop_at; };
        options.should_stop.emplace(should_stop);
        const bool has_passed = stop_at > 4; // one question before it, one for each layer
        EXPECT_EQ(ask(model_, prompt_, options).tokens.empty(), !has_passed);
        expect_reuse(prompt_, has_passed ? 19 : 2);
    }
}

TEST_F(ReusePrefix, AfterAnAnswerThatFailed) {
    GenerateOptions options = sampled(6);
    int calls = 0;
    const auto on_token = [&](std::int64_t) -> TokenAnswer {
        return ++calls == 3 ? TokenAnswer::failed : TokenAnswer::proceed;
    };
    options.on_token.emplace(on_token);
    EXPECT_THROW((void)ask(model_, prompt_, options), Error);
    expect_reuse(prompt_, 19);
}

TEST_F(ReusePrefix, AfterOtherPassesOfTheModel) {
    const Tokens other = testing::random_ids(24, kVocabulary, 11);
    (void)ask(model_, prompt_);
    (void)model_.logits(other.data(), 2, 12);
    expect_reuse(prompt_, 0);
    (void)model_.logits(prompt_.data(), 1, 20);
    expect_reuse(prompt_, 19);
    model_.forward(other.data(), 24, [](std::string_view, const Tensor&) {});
    expect_reuse(prompt_, 0);
    model_.forward(prompt_.data(), 20, [](std::string_view, const Tensor&) {});
    expect_reuse(prompt_, 19);
    model_.forward(prompt_.data(), 20, [](std::string_view, const Tensor&) {});
    EXPECT_THROW(model_.forward(other.data(), 24,
                                [](std::string_view name, const Tensor&) {
                                    if (name == "h.1.attn.scores") {
                                        throw std::string("mine");
                                    }
                                }),
                 std::string);
    expect_reuse(prompt_, 0); // its positions were written over
}

TEST_F(ReusePrefix, NotWhereItIsUnwanted) {
    (void)ask(model_, prompt_);
    GenerateOptions options = sampled(6);
    options.reuse_prefix = false;
    expect_reuse(prompt_, 0, options);
    options = sampled(6);
    options.use_cache = false;
    expect_reuse(prompt_, 0, options);
    options = sampled(6);
    std::vector<TokenLogprob> rows(19);
    options.prompt_logprobs = rows.data();
    expect_reuse(prompt_, 0, options);
    expect_reuse(prompt_, 19); // each of them has left what it computed
}

TEST_F(ReusePrefix, NotOnceAParameterMayHaveChanged) {
    (void)ask(model_, prompt_);
    const Answer before = ask(model_, prompt_, sampled(12));
    Tensor bias = model_.parameters().back().second; // of the last layer norm
    // Through a pointer, which leaves no trace.
    float* values = bias.mutable_data<float>();
    for (std::int64_t i = 0; i < bias.numel(); ++i) {
        values[i] = static_cast<float>(i % 5);
    }
    for (int round = 0; round < 2; ++round) {
        const Answer after = ask(model_, prompt_, sampled(12));
        EXPECT_NE(after.logprobs, before.logprobs);
        EXPECT_EQ(after.cached_tokens, 0);
    }
}

TEST_F(ReusePrefix, NotOfWeightsThatTheCallerMade) {
    const Weights weights = testing::spread_weights(config(), 5);
    GPT model(config(), weights);
    (void)ask(model, prompt_);
    EXPECT_EQ(ask(model, prompt_).cached_tokens, 0);
}

TEST_F(ReusePrefix, NotOfWeightsThatWereLookedAt) {
    (void)ask(model_, prompt_);
    EXPECT_EQ(model_.weights().layers.size(), 3U);
    EXPECT_EQ(ask(model_, prompt_).cached_tokens, 0);
}

TEST_F(ReusePrefix, ParametersThatBecomeWritableAndAreNobodyElsesStayTrusted) {
    (void)ask(model_, prompt_);
    model_.make_parameters_writable();
    expect_reuse(prompt_, 19);
}

} // namespace

} // namespace kael::gpt
