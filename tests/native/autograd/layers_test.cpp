// Layers and losses: values worked out by hand, and what is refused.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kael/operators.h"

#include "message_of.h"

namespace kael {
namespace {

using test::message_of;

Tensor floats(const std::vector<float>& values, const Shape& shape) {
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(4 * values.size()), shape,
                              DType::float32);
}

Tensor integers(const std::vector<std::int64_t>& values, const Shape& shape) {
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(8 * values.size()), shape,
                              DType::int64);
}

std::vector<float> values_of(const Tensor& tensor) {
    const Tensor flat = tensor.detach().contiguous();
    return {flat.data<float>(), flat.data<float>() + flat.numel()};
}

TEST(Embedding, TakesRowsAndAddsTheirGradients) {
    const Tensor table = floats({1, 2, 3, 4, 5, 6}, {3, 2}).set_requires_grad(true);
    const Tensor rows = embedding(integers({2, 0, 2, 2}, {2, 2}), table);
    EXPECT_EQ(rows.shape(), (Shape{2, 2, 2}));
    EXPECT_EQ(values_of(rows), (std::vector<float>{5, 6, 1, 2, 5, 6, 5, 6}));
    sum(rows).backward();
    EXPECT_EQ(values_of(table.grad()), (std::vector<float>{1, 1, 0, 0, 3, 3}));
}

TEST(LayerNorm, CentresAndScalesRows) {
    const Tensor ones = floats({1, 1, 1, 1}, {4});
    const Tensor zeros = floats({0, 0, 0, 0}, {4});
    const Tensor far = floats({10000, 10001, 10002, 10003}, {1, 4});
    const std::vector<float> row = values_of(layer_norm(far, {4}, ones, zeros, 1e-5));
    const std::vector<float> expected = {-1.3416F, -0.4472F, 0.4472F, 1.3416F};
    for (std::size_t i = 0; i < row.size(); ++i) {
        EXPECT_NEAR(row[i], expected[i], 1e-3F);
    }
    EXPECT_EQ(values_of(layer_norm(ones, {4}, ones, zeros, 1e-5)), (std::vector<float>(4, 0.0F)));
    EXPECT_EQ(
        message_of([&] { (void)layer_norm(far, {4}, floats({1}, {1}), zeros, 1e-5); }),
        "layer_norm: a weight or bias of dtype float32 and shape [1], expected float32 and [4]");
}

TEST(LayerNorm, TakesSeveralDimensionsWithoutWeightAndBias) {
    const Tensor x = floats({-3, -1, 1, 3}, {1, 2, 2});
    const std::vector<float> both = values_of(layer_norm(x, {2, 2}, {}, {}, 0.0));
    EXPECT_FLOAT_EQ(both[3], 3 / std::sqrt(5.0F));
    EXPECT_EQ(values_of(layer_norm(x, {2}, {}, floats({1, 1}, {2}), 0.0)),
              (std::vector<float>{0, 2, 0, 2}));
    for (const Shape& wrong : {Shape{}, Shape{1, 2}, Shape{2, 1, 2, 2}}) {
        EXPECT_THROW((void)layer_norm(x, wrong, {}, {}, 0.0), Error);
    }
    EXPECT_EQ(message_of([&] { (void)layer_norm(x, {3}, {}, {}, 0.0); }),
              "layer_norm: the normalized shape [3] for a tensor of shape [1, 2, 2], expected its "
              "last dimensions");
}

TEST(CrossEntropy, IsTheMeanOverTheTargetsThatCount) {
    const Tensor logits = floats({0, 0, 0, 5, 0, 0}, {2, 3}).set_requires_grad(true);
    const Tensor loss = cross_entropy(logits, integers({1, -100}, {2}));
    EXPECT_NEAR(*loss.data<float>(), std::log(3.0F), 1e-6F);
    loss.backward();
    const std::vector<float> gradient = values_of(logits.grad());
    EXPECT_NEAR(gradient[1], 1.0F / 3 - 1, 1e-6F);
    EXPECT_EQ(gradient[3], 0.0F);
    EXPECT_TRUE(std::isnan(*cross_entropy(logits, integers({-100, -100}, {2})).data<float>()));
}

TEST(CrossEntropy, SurvivesLogitsThatOverflowExp) {
    const Tensor logits = floats({1000, 0}, {1, 2});
    EXPECT_EQ(*cross_entropy(logits, integers({1}, {1})).data<float>(), 1000.0F);
}

TEST(CrossEntropy, NamesATargetThatIsNoClass) { // KB055
    const Tensor logits = floats({0, 0, 0}, {1, 3});
    EXPECT_EQ(message_of([&] { (void)cross_entropy(logits, integers({3}, {1})); }),
              "cross_entropy: target 0 is 3, expected 0 to 2, or -100 to leave it out");
    EXPECT_TRUE(std::isfinite(
        *cross_entropy(floats({0, 0, 0, 0, 0, 0}, {2, 3}), integers({255, 1}, {2}), 255)
             .data<float>()));
    EXPECT_EQ(message_of([&] { (void)cross_entropy(logits, integers({-4}, {1})); }),
              "cross_entropy: target 0 is -4, expected 0 to 2, or -100 to leave it out");
    EXPECT_EQ(message_of([&] { (void)cross_entropy(logits, integers({1, 1}, {2})); }),
              "cross_entropy: scores of shape [1, 3] and targets of shape [2], expected [1]");
}

TEST(CrossEntropy, ReducesAndWeighs) {
    const Tensor logits = floats({0, 0, 0, 0, 0, 0}, {3, 2});
    const Tensor targets = integers({0, -100, 1}, {3});
    const Tensor weight = floats({1, 3}, {2});
    const float one = std::log(2.0F);
    const auto losses = values_of(cross_entropy(logits, targets, -100, weight, Reduction::none));
    EXPECT_FLOAT_EQ(losses[0], one);
    EXPECT_EQ(losses[1], 0.0F);
    EXPECT_FLOAT_EQ(losses[2], 3 * one);
    EXPECT_FLOAT_EQ(*cross_entropy(logits, targets, -100, weight, Reduction::sum).data<float>(),
                    4 * one);
    EXPECT_FLOAT_EQ(*cross_entropy(logits, targets, -100, weight).data<float>(), one);
    EXPECT_EQ(message_of([&] { (void)cross_entropy(logits, targets, -100, floats({1}, {1})); }),
              "cross_entropy: a weight of dtype float32 and shape [1], expected float32 and [2]");
}

TEST(CrossEntropy, TakesProbabilitiesOfClasses) {
    const Tensor logits = floats({1, 2, 3, 0, 0, 0}, {2, 3});
    const Tensor certain = floats({0, 1, 0, 0, 0, 1}, {2, 3});
    EXPECT_EQ(*cross_entropy(logits, certain).data<float>(),
              *cross_entropy(logits, integers({1, 2}, {2})).data<float>());
    EXPECT_EQ(message_of([&] { (void)cross_entropy(logits, floats({1, 0}, {2})); }),
              "cross_entropy: targets of dtype float32, expected int64");
}

TEST(NllLoss, TakesClassesInTheSecondDimensionOrTheOnlyOne) {
    const Tensor scores = floats({-1, -2, -3, -4}, {1, 2, 2});
    EXPECT_EQ(values_of(nll_loss(scores, integers({1, 0}, {1, 2}), -100, {}, Reduction::none)),
              (std::vector<float>{3, 2}));
    EXPECT_EQ(*nll_loss(floats({-1, -2}, {2}), integers({1}, {})).data<float>(), 2.0F);
    EXPECT_THROW((void)nll_loss(floats({1}, {}), integers({0}, {})), Error);
}

TEST(MseLoss, IsTheMeanOfSquares) {
    EXPECT_EQ(*mse_loss(floats({1, 2}, {2}), floats({3, 5}, {2})).data<float>(), 6.5F);
    EXPECT_EQ(message_of([&] { (void)mse_loss(floats({1, 2}, {2}), floats({3}, {1})); }),
              "mse_loss: shapes [2] and [1], expected equal ones");
    EXPECT_EQ(*mse_loss(floats({1, 2}, {2}), floats({3, 5}, {2}), Reduction::sum).data<float>(),
              13.0F);
    EXPECT_EQ(values_of(mse_loss(floats({1, 2}, {2}), floats({3, 5}, {2}), Reduction::none)),
              (std::vector<float>{4, 9}));
}

} // namespace
} // namespace kael
