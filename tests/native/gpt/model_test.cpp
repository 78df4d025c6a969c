// Logits: right, and the same bits however they are computed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/gpt.h"
#include "kael/threads.h"

#include "gpt/decoder.h"
#include "message_of.h"
#include "small_models.h"

namespace kael::gpt {

namespace {

using testing::NaiveModel;
using testing::random_ids;
using testing::spread_weights;

// Above the sizes from which token step and prompt pass use more than one thread.
Config threaded_config() {
    Config config;
    config.vocab_size = 2501;
    config.max_positions = 96;
    config.layers = 2;
    config.heads = 4;
    config.dimension = 192;
    return config;
}

Config small_config() {
    Config config;
    config.vocab_size = 37;
    config.max_positions = 40;
    config.layers = 3;
    config.heads = 2;
    config.dimension = 24;
    return config;
}

class ThreadsRestored : public ::testing::Test {
protected:
    void TearDown() override { set_num_threads(before_); }

private:
    int before_ = get_num_threads();
};

struct Variant {
    std::string name;
    void (*change)(Config&);
};

void PrintTo(const Variant& variant, std::ostream* out) {
    *out << variant.name;
}

class LogitsOf : public ::testing::TestWithParam<Variant> {};

TEST_P(LogitsOf, AreThoseOfANaiveModelInDoublePrecision) {
    Config config = small_config();
    GetParam().change(config);
    Weights weights = spread_weights(config, 7);
    const std::vector<std::int64_t> ids = random_ids(19, config.vocab_size, 8);
    const testing::Rows expected = NaiveModel(config, weights).logits(ids);
    GPT model(config, weights);
    const Tensor logits = model.logits(ids.data(), 1, 19);
    double worst = 0;
    for (std::size_t row = 0; row < expected.size(); ++row) {
        for (std::size_t v = 0; v < expected[row].size(); ++v) {
            const float actual = logits.data<float>()[row * expected[row].size() + v];
            worst = std::max(worst, std::abs(static_cast<double>(actual) - expected[row][v]));
        }
    }
    EXPECT_LT(worst, 2e-5);
}

// What a flag does must be ten times what the test above allows, else its variant proves nothing.
TEST_P(LogitsOf, DifferFromThePlainOnes) {
    Config config = small_config();
    const std::vector<std::int64_t> ids = random_ids(19, config.vocab_size, 8);
    const testing::Rows plain = NaiveModel(config, spread_weights(config, 7)).logits(ids);
    GetParam().change(config);
    const testing::Rows changed = NaiveModel(config, spread_weights(config, 7)).logits(ids);
    double difference = 0;
    for (std::size_t v = 0; v < plain[18].size() && v < changed[18].size(); ++v) {
        difference = std::max(difference, std::abs(plain[18][v] - changed[18][v]));
    }
    EXPECT_EQ(difference > 2e-4, GetParam().name != "Plain") << difference;
}

INSTANTIATE_TEST_SUITE_P(
    Configurations, LogitsOf,
    ::testing::Values(Variant{"Plain", [](Config&) {}},
                      // KB071: the two forms differ by little, but by more than rounding.
                      Variant{"ExactGelu", [](Config& c) { c.activation = Activation::gelu_erf; }},
                      Variant{"Relu", [](Config& c) { c.activation = Activation::relu; }},
                      Variant{"UnscaledAttention", [](Config& c) { c.scale_attention = false; }},
                      // KB103: layers are counted from 1.
                      Variant{"ScaledByLayer",
                              [](Config& c) { c.scale_attention_by_inverse_layer = true; }},
                      Variant{"HeadOfItsOwn", [](Config& c) { c.tie_word_embeddings = false; }},
                      Variant{"LargeEpsilon", [](Config& c) { c.layer_norm_epsilon = 0.3; }},
                      Variant{"NarrowMlp", [](Config& c) { c.inner_dimension = 17; }},
                      Variant{"WideMlp", [](Config& c) { c.inner_dimension = 161; }},
                      Variant{"OneHead", [](Config& c) { c.heads = 1; }},
                      Variant{"HeadsOfOneNumber", [](Config& c) { c.heads = 24; }},
                      Variant{"OddWidth", [](Config& c) { c.dimension = 15, c.heads = 3; }},
                      Variant{"OneNumberWide", [](Config& c) { c.dimension = 1, c.heads = 1; }}),
    [](const auto& instance) { return instance.param.name; });

class SameBits : public ThreadsRestored {};

TEST_F(SameBits, ForAnyNumberOfThreads) {
    for (const std::int64_t heads : {4, 3}) { // with and without the shorter way of two threads
        Config config = threaded_config();
        config.heads = heads;
        GPT model(config, spread_weights(config, 1));
        const std::vector<std::int64_t> ids = random_ids(70, config.vocab_size, 2);
        GenerateOptions options;
        options.max_tokens = 40; // past the context of 96 as well
        options.seed = 3;
        set_num_threads(1);
        const Tensor logits = model.logits(ids.data(), 2, 35);
        const std::vector<std::int64_t> tokens = model.generate(ids.data(), 70, options).tokens;
        for (const int threads : {2, 3, 4, 7}) {
            set_num_threads(threads);
            const Tensor again = model.logits(ids.data(), 2, 35);
            EXPECT_EQ(std::memcmp(again.data_ptr_raw(), logits.data_ptr_raw(),
                                  static_cast<std::size_t>(logits.nbytes())),
                      0)
                << threads << " threads";
            EXPECT_EQ(model.generate(ids.data(), 70, options).tokens, tokens)
                << threads << " threads";
        }
    }
}

// Logits of each position, the positions having come one by one.
std::vector<float> one_by_one(Decoder& decoder, const std::vector<std::int64_t>& ids,
                              std::int64_t vocabulary) {
    std::vector<float> all;
    decoder.keep(0);
    decoder.reserve(1); // the cache has to grow on the way
    for (const std::int64_t id : ids) {
        EXPECT_TRUE(decoder.advance(&id, 1, std::nullopt));
        all.insert(all.end(), decoder.logits(), decoder.logits() + vocabulary);
    }
    return all;
}

TEST_F(SameBits, OneByOneAndAllAtOnce) {
    for (const Config& config : {threaded_config(), small_config()}) {
        const Weights weights = spread_weights(config, 4);
        Decoder decoder(config, weights, nullptr);
        const std::int64_t count = config.max_positions;
        const std::vector<std::int64_t> ids = random_ids(count, config.vocab_size, 5);
        for (const int threads : {1, 2, 3}) {
            set_num_threads(threads);
            std::vector<float> at_once(static_cast<std::size_t>(count * config.vocab_size));
            decoder.keep(0);
            decoder.all_logits(ids.data(), count, at_once.data());
            EXPECT_EQ(one_by_one(decoder, ids, config.vocab_size), at_once);
        }
    }
}

TEST_F(SameBits, HoweverPositionsAreDividedAmongCalls) {
    const Config config = small_config();
    const Weights weights = spread_weights(config, 4);
    const std::vector<std::int64_t> ids = random_ids(40, config.vocab_size, 5);
    std::vector<float> expected(static_cast<std::size_t>(40 * config.vocab_size));
    Decoder(config, weights, nullptr).all_logits(ids.data(), 40, expected.data());
    expected.erase(expected.begin(), expected.end() - config.vocab_size);
    for (std::int64_t first = 1; first < 40; ++first) {
        Decoder decoder(config, weights, nullptr); // whose cache grows at the second call
        decoder.reserve(first);
        EXPECT_TRUE(decoder.advance(ids.data(), first, std::nullopt));
        EXPECT_TRUE(decoder.advance(ids.data() + first, 40 - first, std::nullopt));
        EXPECT_EQ(std::vector<float>(decoder.logits(), decoder.logits() + config.vocab_size),
                  expected)
            << first << " positions first";
    }
}

TEST_F(SameBits, OfAPromptThatTakesSeveralPasses) {
    Config config = small_config();
    config.max_positions = 1100;
    const Weights weights = spread_weights(config, 6);
    const std::vector<std::int64_t> ids = random_ids(1100, config.vocab_size, 7);
    Decoder decoder(config, weights, nullptr);
    std::vector<float> all(static_cast<std::size_t>(1100 * config.vocab_size));
    decoder.all_logits(ids.data(), 1100, all.data());
    EXPECT_EQ(one_by_one(decoder, ids, config.vocab_size), all);
    decoder.keep(0);
    EXPECT_TRUE(decoder.advance(ids.data(), 1100, std::nullopt));
    EXPECT_EQ(std::memcmp(decoder.logits(), all.data() + 1099 * config.vocab_size,
                          static_cast<std::size_t>(config.vocab_size) * sizeof(float)),
              0);
}

TEST_F(SameBits, WhenEveryIntermediateResultIsShown) {
    const Config config = small_config();
    GPT model(config, spread_weights(config, 9));
    const std::vector<std::int64_t> ids = random_ids(13, config.vocab_size, 10);
    const Tensor logits = model.logits(ids.data(), 1, 13);
    std::map<std::string, Tensor> shown;
    std::string order;
    model.forward(ids.data(), 13, [&](std::string_view name, const Tensor& value) {
        EXPECT_TRUE(shown.emplace(name, value).second) << name << " is shown twice";
        order += std::string(name) + " ";
    });
    EXPECT_EQ(std::memcmp(shown.at("logits").data_ptr_raw(), logits.data_ptr_raw(),
                          static_cast<std::size_t>(logits.nbytes())),
              0);
    EXPECT_TRUE(order.starts_with(
        "wte wpe embedding h.0.ln_1 h.0.attn.c_attn h.0.attn.query h.0.attn.key h.0.attn.value "
        "h.0.attn.scores h.0.attn.weights h.0.attn.mixed h.0.attn.c_proj h.0.residual h.0.ln_2 "
        "h.0.mlp.c_fc h.0.mlp.act h.0.mlp.c_proj h.0 h.1.ln_1 "))
        << order;
    EXPECT_TRUE(order.ends_with(" h.2 ln_f logits probabilities ")) << order;
    EXPECT_EQ(shown.at("h.1.attn.scores").shape(), (Shape{2, 13, 13}));
    EXPECT_EQ(shown.at("h.1.attn.scores").data<float>()[1],
              -std::numeric_limits<float>::infinity());
    EXPECT_EQ(shown.at("h.1.attn.weights").data<float>()[0], 1.0F);
    EXPECT_EQ(shown.at("h.1.attn.weights").data<float>()[1], 0.0F);
}

TEST(Forward, AnExceptionOfTheObserverPassesThrough) {
    const Config config = small_config();
    GPT model(config, spread_weights(config, 9));
    const std::int64_t ids[] = {1, 2, 3};
    EXPECT_THROW(
        model.forward(ids, 3, [](std::string_view, const Tensor&) { throw std::string("mine"); }),
        std::string);
    EXPECT_EQ(model.logits(ids, 1, 3).shape(), (Shape{1, 3, 37})); // and the model lives on
}

TEST(Logits, BadIdsAreNamed) {
    const Config config = small_config();
    GPT model(config, spread_weights(config, 9));
    std::vector<std::int64_t> ids(41, 1);
    EXPECT_EQ(test::message_of([&] { (void)model.logits(ids.data(), 1, 41); }),
              "there are 41 token ids, expected 1 to the context of 40");
    EXPECT_EQ(test::message_of([&] { (void)model.logits(ids.data(), 1, 0); }),
              "there are 0 token ids, expected 1 to the context of 40");
    EXPECT_EQ(test::message_of([&] { (void)model.logits(ids.data(), 0, 3); }),
              "the batch is 0, expected at least 1");
    ids[5] = 37;
    EXPECT_EQ(test::message_of([&] { (void)model.logits(ids.data(), 2, 4); }),
              "token id 5 of 8 is 37, expected 0 to 36");
    ids[2] = -1;
    EXPECT_EQ(test::message_of([&] { model.forward(ids.data(), 3, [](auto, const auto&) {}); }),
              "token id 2 of 3 is -1, expected 0 to 36");
}

TEST(RandomWeights, AreTheSameForASeedAndFollowGpt2sScheme) {
    Config config = threaded_config();
    const Weights weights = random_weights(config, 5);
    const Weights again = random_weights(config, 5);
    const Weights other = random_weights(config, 6);
    const auto values = [](const Tensor& tensor) {
        return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.numel());
    };
    EXPECT_EQ(values(weights.token_embedding), values(again.token_embedding));
    EXPECT_NE(values(weights.token_embedding), values(other.token_embedding));
    EXPECT_NE(values(weights.layers[0].mlp_fc_weight), values(weights.layers[1].mlp_fc_weight));
    const auto deviation = [&](const Tensor& tensor) {
        double squares = 0;
        for (const float value : values(tensor)) {
            squares += static_cast<double>(value) * static_cast<double>(value);
        }
        return std::sqrt(squares / static_cast<double>(tensor.numel()));
    };
    EXPECT_NEAR(deviation(weights.layers[1].attn_qkv_weight), 0.02, 0.001);
    EXPECT_NEAR(deviation(weights.layers[1].attn_proj_weight), 0.01, 0.0005); // 0.02 / sqrt(4)
    EXPECT_NEAR(deviation(weights.layers[1].mlp_proj_weight), 0.01, 0.0005);
    EXPECT_EQ(deviation(weights.layers[1].mlp_proj_bias), 0.0);
    EXPECT_EQ(deviation(weights.ln_f_weight), 1.0);
    EXPECT_EQ(weights.head.data_ptr_raw(), weights.token_embedding.data_ptr_raw());
}

TEST(RandomWeights, ComeFromTheProcessStream) {
    const std::int64_t id = 3;
    const auto logit = [&] {
        GPT model(small_config());
        return model.logits(&id, 1, 1).data<float>()[0];
    };
    manual_seed(11);
    const float first = logit();
    EXPECT_NE(logit(), first);
    manual_seed(11);
    EXPECT_EQ(logit(), first);
}

} // namespace

} // namespace kael::gpt
