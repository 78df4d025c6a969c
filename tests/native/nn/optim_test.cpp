// Steps of optimizers: values worked out by hand, and what is refused.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "kael/optim.h"

#include "message_of.h"

namespace kael::optim {
namespace {

using test::message_of;

Tensor vector_of(const std::vector<double>& values) {
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(8 * values.size()),
                              {static_cast<std::int64_t>(values.size())}, DType::float64);
}

double first(const Tensor& tensor) {
    return *tensor.data<double>();
}

TEST(SgdStep, KeepsAVelocity) {
    Tensor parameter = vector_of({1});
    Tensor velocity = vector_of({0});
    const Tensor gradient = vector_of({2});
    const SgdOptions options{.learning_rate = 0.5, .momentum = 0.5, .weight_decay = 0};
    sgd_step(parameter, gradient, velocity, options);
    EXPECT_EQ(first(parameter), 0.0);
    sgd_step(parameter, gradient, velocity, options);
    EXPECT_EQ(first(velocity), 3.0);
    EXPECT_EQ(first(parameter), -1.5);
    EXPECT_EQ(parameter.storage()->version(), 2U);
}

// The first step of Adam has the length of the learning rate, whatever the gradient.
TEST(AdamStep, BeginsWithTheLearningRate) {
    for (const double gradient : {1e-3, 1.0, -1e3}) {
        Tensor parameter = vector_of({0});
        Tensor mean = vector_of({0});
        Tensor square = vector_of({0});
        adam_step(parameter, vector_of({gradient}), mean, square, 1,
                  {.learning_rate = 0.25, .epsilon = 0});
        EXPECT_NEAR(first(parameter), gradient > 0 ? -0.25 : 0.25, 1e-12);
    }
}

TEST(AdamStep, ShrinksTheParameterWhenTheDecayIsDecoupled) {
    Tensor parameter = vector_of({10});
    Tensor mean = vector_of({0});
    Tensor square = vector_of({0});
    adam_step(parameter, vector_of({0}), mean, square, 1,
              {.learning_rate = 0.1, .weight_decay = 0.5});
    EXPECT_NEAR(first(parameter), 9.5, 1e-12);
}

TEST(Steps, CountAsAWriteOfAllThatTheyWrite) {
    const Tensor gradient = vector_of({1});
    Tensor parameter = vector_of({1});
    Tensor velocity = vector_of({0});
    sgd_step(parameter, gradient, velocity, {});
    EXPECT_EQ(parameter.storage()->version(), 1U);
    EXPECT_EQ(velocity.storage()->version(), 0U); // not used without momentum
    sgd_step(parameter, gradient, velocity, {.momentum = 0.5});
    EXPECT_EQ(parameter.storage()->version(), 2U);
    EXPECT_EQ(velocity.storage()->version(), 1U);
    EXPECT_EQ(velocity.storage()->last_writer(), "sgd_step");
    Tensor mean = vector_of({0});
    Tensor square = vector_of({0});
    adam_step(parameter, gradient, mean, square, 1, {});
    for (const Tensor& written : {mean, square}) {
        EXPECT_EQ(written.storage()->version(), 1U);
        EXPECT_EQ(written.storage()->last_writer(), "adam_step");
    }
    EXPECT_EQ(parameter.storage()->version(), 3U);
    EXPECT_EQ(gradient.storage()->version(), 0U);
}

TEST(Steps, RefuseWhatDoesNotFit) {
    Tensor parameter = vector_of({1, 2});
    Tensor state = vector_of({0, 0});
    Tensor none;
    EXPECT_EQ(message_of([&] { sgd_step(parameter, vector_of({1}), none, {}); }),
              "sgd_step: the gradient is float64 [1], expected float64 [2] like the parameter");
    EXPECT_EQ(message_of([&] { sgd_step(parameter, vector_of({1, 1}), none, {.momentum = 0.9}); }),
              "sgd_step: no velocity, expected a tensor");
    EXPECT_EQ(message_of([&] { adam_step(parameter, vector_of({1, 1}), state, state, 0, {}); }),
              "adam_step: the step is 0, expected 1 or more");
    EXPECT_EQ(message_of([&] { sgd_step(none, state, none, {}); }),
              "sgd_step: no parameter, expected a tensor");
    const Tensor gaps = Tensor::zeros({2, 2}, DType::float64).select(1, 0);
    EXPECT_EQ(message_of([&] { sgd_step(parameter, gaps, none, {}); }),
              "sgd_step: the gradient is not contiguous, expected a tensor without gaps");
    Tensor with_gaps = gaps;
    EXPECT_EQ(message_of([&] { sgd_step(with_gaps, state, none, {}); }),
              "sgd_step: the parameter is not contiguous, expected a tensor without gaps");
    Tensor integers = Tensor::zeros({2}, DType::int64);
    EXPECT_EQ(message_of([&] { sgd_step(integers, integers, none, {}); }),
              "sgd_step: a parameter of dtype int64, expected float32 or float64");
    double memory[] = {1, 2};
    Tensor borrowed =
        Tensor::from_storage(Storage::borrow(reinterpret_cast<std::byte*>(memory), sizeof(memory),
                                             std::make_shared<int>(), true, "mapped from a file"),
                             DType::float64, {2}, {1}, 0);
    EXPECT_EQ(message_of([&] { sgd_step(borrowed, vector_of({1, 1}), none, {}); }),
              "sgd_step: the parameter's memory is read-only (mapped from a file), expected memory "
              "that may be written: train() of a model makes it so");
    borrowed.storage()->make_writable();
    sgd_step(borrowed, vector_of({1, 1}), none, {.learning_rate = 1});
    EXPECT_EQ(first(borrowed), 0.0);
    EXPECT_EQ(memory[0], 1.0);
}

TEST(ClipGradNorm, ScalesToTheLargestNorm) {
    const Tensor a = vector_of({3});
    const Tensor b = vector_of({4});
    EXPECT_EQ(clip_grad_norm({a, b}, 5.0), 5.0);
    EXPECT_EQ(first(a), 3.0);
    EXPECT_EQ(clip_grad_norm({a, b}, 1.0), 5.0);
    EXPECT_NEAR(first(a), 0.6, 1e-12);
    EXPECT_EQ(clip_grad_norm({}, 1.0), 0.0);
    const Tensor infinite = vector_of({std::numeric_limits<double>::infinity()});
    EXPECT_TRUE(std::isinf(clip_grad_norm({infinite, b}, 1.0)));
    EXPECT_NEAR(first(b), 0.8, 1e-12);
    EXPECT_EQ(message_of([&] { clip_grad_norm({a}, -1.0); }),
              "clip_grad_norm: the largest norm is -1, expected 0 or more");
}

TEST(ClipGradNorm, ScalesNoGradientWhereOneCannotBeWritten) {
    const Tensor a = vector_of({3});
    const Tensor expanded = vector_of({4}).expand({2});
    EXPECT_EQ(message_of([&] { clip_grad_norm({a, expanded}, 1.0); }),
              "clip_grad_norm: several elements of the tensor of shape [2] and strides [0] share "
              "memory (it was expanded), expected a place for each: write into a clone");
    EXPECT_EQ(first(a), 3.0);
    EXPECT_EQ(clip_grad_norm({a, expanded}, 100.0), std::sqrt(41.0)); // nothing to write
}

} // namespace
} // namespace kael::optim
