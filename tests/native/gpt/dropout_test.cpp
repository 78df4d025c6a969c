// Dropout: how much it drops, and what it depends on.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kael/creation.h"
#include "kael/error.h"
#include "kael/gpt.h"
#include "kael/random.h"
#include "kael/threads.h"

#include "gpt/dropout.h"
#include "message_of.h"
#include "small_models.h"

namespace kael::gpt {

namespace {

std::vector<float> values(const Tensor& tensor) {
    return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

std::vector<float> dropped(double share, std::uint64_t seed, const Shape& shape) {
    return values(Dropout(share, seed)(full(shape, 2.0)));
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

TEST(Dropout, DropsItsShareAndScalesTheRest) {
    constexpr std::int64_t kCount = 100'003;
    for (const double share : {0.1, 0.5, 0.9}) {
        std::int64_t zeros = 0;
        for (const float value : dropped(share, 3, {kCount})) {
            zeros += value == 0.0F ? 1 : 0;
            ASSERT_TRUE(value == 0.0F || value == static_cast<float>(1 / (1 - share)) * 2.0F);
        }
        const double spread = std::sqrt(share * (1 - share) / kCount);
        EXPECT_NEAR(static_cast<double>(zeros) / kCount, share, 5 * spread);
    }
}

TEST(Dropout, AShareOfNothingIsTheTensorItself) {
    const Tensor x = full({3, 5}, 2.0);
    EXPECT_EQ(Dropout(0, 3)(x).data_ptr_raw(), x.data_ptr_raw());
}

TEST(Dropout, DependsOnItsSeedAndOnWhatItDroppedBefore) {
    EXPECT_EQ(dropped(0.5, 3, {7, 9}), dropped(0.5, 3, {7, 9}));
    EXPECT_NE(dropped(0.5, 3, {7, 9}), dropped(0.5, 4, {7, 9}));
    Dropout dropout(0.5, 3);
    const Tensor x = full({7, 9}, 2.0);
    EXPECT_EQ(values(dropout(x)), dropped(0.5, 3, {7, 9}));
    EXPECT_NE(values(dropout(x)), dropped(0.5, 3, {7, 9}));
}

TEST(Dropout, HasTheSameBitsForAnyNumberOfThreads) {
    const int before = get_num_threads();
    set_num_threads(1);
    const std::vector<float> expected = dropped(0.3, 3, {5, 40'001});
    for (const int count : {2, 5}) {
        set_num_threads(count);
        EXPECT_EQ(dropped(0.3, 3, {5, 40'001}), expected);
    }
    set_num_threads(before);
}

TEST(ModelDropout, FollowsTheStreamOfTheProcessAndEndsWithAShareOfNothing) {
    GPT model(small_config(), testing::spread_weights(small_config(), 9));
    const std::vector<std::int64_t> ids = testing::random_ids(12, 37, 10);
    const auto logits = [&] { return values(model.logits(ids.data(), 2, 6)); };
    const std::vector<float> whole = logits();
    model.set_dropout(0.2);
    manual_seed(5);
    const std::vector<float> first = logits();
    EXPECT_NE(first, whole);
    EXPECT_NE(logits(), first);
    manual_seed(5);
    EXPECT_EQ(logits(), first);
    GenerateOptions options;
    options.max_tokens = 5;
    options.temperature = 0;
    const std::vector<std::int64_t> tokens = model.generate(ids.data(), 6, options).tokens;
    model.set_dropout(0);
    EXPECT_EQ(logits(), whole);
    EXPECT_EQ(model.generate(ids.data(), 6, options).tokens, tokens);
}

TEST(ModelDropout, RefusesWhatIsNoShare) {
    GPT model(small_config());
    for (const double share : {-0.1, 1.0, std::nan("")}) {
        EXPECT_NE(
            test::message_of([&] { model.set_dropout(share); }).find(", expected 0 to below 1"),
            std::string::npos);
    }
}

} // namespace

} // namespace kael::gpt
