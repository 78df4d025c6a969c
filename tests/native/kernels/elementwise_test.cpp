// Activations, sums, layer norm and Adam.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernel_test.h"

namespace kael::kernels {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

double gelu_tanh_exactly(double x) {
    return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

double gelu_tanh_slope_exactly(double x) {
    const double scale = std::sqrt(2.0 / M_PI);
    const double s = 1.0 / (1.0 + std::exp(-2.0 * scale * (x + 0.044715 * x * x * x)));
    return s + x * s * (1.0 - s) * 2.0 * scale * (1.0 + 3.0 * 0.044715 * x * x);
}

double gelu_erf_exactly(double x) {
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}

class Elementwise : public KernelTest {
protected:
    using InPlace = void (*)(float*, std::int64_t);

    template <typename Function>
    static float of(const Function& function, float x) {
        function(&x, 1);
        return x;
    }

    // Every length up to a few registers: an element's result must not depend on its place.
    template <typename Function>
    void expect_same_at_every_place(const Function& function) {
        for (std::int64_t n = 0; n <= 40; ++n) {
            const auto x = random(n);
            std::vector<float> expected;
            for (std::int64_t i = 0; i < n; ++i) {
                expected.push_back(of(function, (*x)[i]));
            }
            function(x->data(), n);
            ASSERT_TRUE(same_bits(x->data(), expected.data(), n));
        }
    }

    static std::vector<float> sweep() {
        std::vector<float> values;
        for (int i = -150000; i <= 150000; ++i) {
            values.push_back(static_cast<float>(i) * 1e-4f);
        }
        return values;
    }
};

// KB071: the two forms differ in the fourth digit, and GPT-2 needs this one.
TEST_P(Elementwise, GeluTanhIsAccurate) {
    EXPECT_NEAR(of(kernels().gelu_tanh, 1.0f), 0.841192f, 1e-6f);
    std::vector<float> x = sweep();
    const std::vector<float> inputs = x;
    kernels().gelu_tanh(x.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = gelu_tanh_exactly(static_cast<double>(inputs[i]));
        const double size = std::max(1.0, std::abs(static_cast<double>(inputs[i])));
        ASSERT_NEAR(static_cast<double>(x[i]), expected, 1.5e-7 * size) << inputs[i];
    }
}

TEST_P(Elementwise, GeluErfIsAccurate) {
    EXPECT_NEAR(of(kernels().gelu_erf, 1.0f), 0.8413447f, 1e-7f);
    std::vector<float> x = sweep();
    const std::vector<float> inputs = x;
    kernels().gelu_erf(x.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = gelu_erf_exactly(static_cast<double>(inputs[i]));
        const double size = std::max(1.0, std::abs(static_cast<double>(inputs[i])));
        ASSERT_NEAR(static_cast<double>(x[i]), expected, 1e-7 * size) << inputs[i];
    }
}

TEST_P(Elementwise, ActivationsOfExtremeValues) {
    for (const InPlace gelu : {kernels().gelu_tanh, kernels().gelu_erf}) {
        EXPECT_EQ(of(gelu, kInfinity), kInfinity);
        EXPECT_EQ(of(gelu, -kInfinity), 0.0f);
        EXPECT_EQ(of(gelu, 0.0f), 0.0f);
        EXPECT_EQ(of(gelu, 3e38f), 3e38f);
        EXPECT_EQ(of(gelu, -3e38f), 0.0f);
        EXPECT_EQ(of(gelu, 1e20f), 1e20f);
        EXPECT_EQ(of(gelu, -1e20f), 0.0f);
        EXPECT_EQ(of(gelu, 1e-40f), 0.5f * 1e-40f);
        EXPECT_TRUE(std::isnan(of(gelu, kNaN)));
        EXPECT_TRUE(std::isnan(of(gelu, -kNaN)));
    }
    EXPECT_EQ(of(kernels().relu, kInfinity), kInfinity);
    EXPECT_EQ(of(kernels().relu, -kInfinity), 0.0f);
    EXPECT_EQ(of(kernels().relu, -1e-45f), 0.0f);
    EXPECT_EQ(of(kernels().relu, 2.5f), 2.5f);
    EXPECT_TRUE(std::isnan(of(kernels().relu, kNaN)));
}

TEST_P(Elementwise, TheGradientOfGeluTanhIsAccurate) {
    const std::vector<float> x = sweep();
    std::vector<float> gradient(x.size(), 2.0f);
    kernels().gelu_tanh_gradient(gradient.data(), x.data(), static_cast<std::int64_t>(x.size()),
                                 gradient.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = 2.0 * gelu_tanh_slope_exactly(static_cast<double>(x[i]));
        ASSERT_NEAR(static_cast<double>(gradient[i]), expected, 1e-6) << x[i];
    }
    const auto slope = [&](float at) {
        float result = 1.0f;
        kernels().gelu_tanh_gradient(&result, &at, 1, &result);
        return result;
    };
    for (const float far : {20.0f, 1e10f, 3e38f, kInfinity}) {
        EXPECT_EQ(slope(far), 1.0f);
        EXPECT_NEAR(slope(-far), 0.0f, 1e-30f);
    }
    EXPECT_EQ(slope(0.0f), 0.5f);
    EXPECT_TRUE(std::isnan(slope(kNaN)));
    EXPECT_TRUE(std::isnan(slope(-kNaN)));
}

TEST_P(Elementwise, AnElementDoesNotDependOnItsPlace) {
    expect_same_at_every_place(
        [&](float* x, std::int64_t n) { kernels().gelu_tanh_gradient(x, x, n, x); });
    expect_same_at_every_place(kernels().gelu_tanh);
    expect_same_at_every_place(kernels().gelu_erf);
    expect_same_at_every_place(kernels().relu);
}

TEST_P(Elementwise, AddsAtEveryLength) {
    for (std::int64_t n = 0; n <= 40; ++n) {
        const auto x = random(n);
        const auto y = random(n);
        std::vector<float> expected;
        for (std::int64_t i = 0; i < n; ++i) {
            expected.push_back((*y)[i] + (*x)[i]);
        }
        kernels().add(y->data(), x->data(), n);
        ASSERT_TRUE(same_bits(y->data(), expected.data(), n));
    }
}

// The model's exp, which the softmax of every table agrees with to the bit.
TEST_P(Elementwise, ExponentialIsWithinAboutOneUnitInTheLastPlace) {
    double worst = 0.0;
    for (float x = -87.0f; x <= 0.0f; x += 0.000731f) {
        const double exact = std::exp(static_cast<double>(x));
        const float nearest = static_cast<float>(exact);
        const double unit = static_cast<double>(std::nextafter(nearest, kInfinity) - nearest);
        worst = std::max(worst,
                         std::abs(static_cast<double>(arithmetic().exponential(x)) - exact) / unit);
    }
    EXPECT_LE(worst, 1.02);
}

TEST_P(Elementwise, LayerNormFollowsTheDocumentedOrder) {
    for (std::int64_t n = 1; n <= 100; n += integer(1, 4)) {
        const auto x = random(n);
        const auto gain = random(n);
        const auto bias = random(n);
        std::vector<float> expected(static_cast<std::size_t>(n));
        arithmetic().layer_norm(x->data(), gain->data(), bias->data(), 1e-5f, n, expected.data());
        GuardedFloats y(n);
        kernels().layer_norm(x->data(), gain->data(), bias->data(), 1e-5f, n, y.data());
        ASSERT_TRUE(same_bits(y.data(), expected.data(), n)) << n;
        kernels().layer_norm(x->data(), gain->data(), bias->data(), 1e-5f, n, x->data());
        ASSERT_TRUE(same_bits(x->data(), expected.data(), n)) << "in place, " << n;
    }
}

// KB052: E[x^2] - E[x]^2 would lose every digit here.
TEST_P(Elementwise, LayerNormOfLargeMeans) {
    const std::vector<float> gain(768, 1.0f);
    const std::vector<float> bias(768, 0.0f);
    std::vector<float> x = {40000.0f, 40001.0f, 40002.0f, 40003.0f};
    kernels().layer_norm(x.data(), gain.data(), bias.data(), 1e-5f, 4, x.data());
    const float expected[] = {-1.3416355f, -0.4472118f, 0.4472118f, 1.3416355f};
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(x[i], expected[i], 1e-6f);
    }

    // The same, long enough for the sum of the row to be rounded.
    std::vector<float> row(768);
    for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = 40000.0f + static_cast<float>(i % 4);
    }
    kernels().layer_norm(row.data(), gain.data(), bias.data(), 1e-5f, 768, row.data());
    for (std::size_t i = 0; i < row.size(); ++i) {
        EXPECT_NEAR(row[i], expected[i % 4], 1e-5f);
    }
}

TEST_P(Elementwise, LayerNormOfAConstantRowIsTheBias) {
    const std::vector<float> gain(768, 2.0f);
    const std::vector<float> bias(768, 0.25f);
    for (const float value : {0.0f, 0.1f, -7.3f, 40000.0f, 1e-20f}) {
        std::vector<float> x(768, value);
        kernels().layer_norm(x.data(), gain.data(), bias.data(), 1e-5f, 768, x.data());
        for (const float y : x) {
            ASSERT_NEAR(y, 0.25f, 1e-6f) << value;
        }
    }
}

TEST_P(Elementwise, LayerNormAgreesWithDouble) {
    const auto x = random(768);
    std::vector<float> gain(768, 1.0f);
    std::vector<float> bias(768, 0.0f);
    double mean = 0.0;
    for (std::int64_t i = 0; i < 768; ++i) {
        (*x)[i] = (*x)[i] * 3.0f + 5.0f;
        mean += static_cast<double>((*x)[i]) / 768.0;
    }
    double variance = 0.0;
    for (std::int64_t i = 0; i < 768; ++i) {
        variance += std::pow(static_cast<double>((*x)[i]) - mean, 2.0) / 768.0;
    }
    std::vector<float> y(768);
    kernels().layer_norm(x->data(), gain.data(), bias.data(), 1e-5f, 768, y.data());
    for (std::int64_t i = 0; i < 768; ++i) {
        EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(i)]),
                    (static_cast<double>((*x)[i]) - mean) / std::sqrt(variance + 1e-5), 1e-6);
    }
}

TEST_P(Elementwise, AdamIsItsFormulaToTheBit) {
    const AdamFactors factors = {0.01f, 0.9f, 0.1f, 0.999f, 0.001f, 0.9999f, 3e-4f, 1e-8f};
    for (std::int64_t n = 0; n <= 40; ++n) {
        const auto parameter = random(n);
        const auto gradient = random(n);
        const auto mean = random(n);
        const auto square = random(n);
        std::vector<float> expected[3];
        for (std::int64_t i = 0; i < n; ++i) {
            (*square)[i] = std::abs((*square)[i]);
            const float before = (*parameter)[i];
            const float change = arithmetic().fused(factors.decay, before, (*gradient)[i]);
            const float kept_mean = factors.keep_mean * (*mean)[i];
            const float kept_square = factors.keep_square * (*square)[i];
            const float m = arithmetic().fused(factors.take_mean, change, kept_mean);
            const float s = arithmetic().fused(factors.take_square * change, change, kept_square);
            const float quotient = m / (std::sqrt(s) + factors.epsilon);
            expected[0].push_back(
                arithmetic().fused(-factors.rate, quotient, factors.kept * before));
            expected[1].push_back(m);
            expected[2].push_back(s);
        }
        kernels().adam(parameter->data(), gradient->data(), mean->data(), square->data(), n,
                       factors);
        ASSERT_TRUE(same_bits(parameter->data(), expected[0].data(), n));
        ASSERT_TRUE(same_bits(mean->data(), expected[1].data(), n));
        ASSERT_TRUE(same_bits(square->data(), expected[2].data(), n));
    }
}

KAEL_FOR_EVERY_TABLE(Elementwise);

} // namespace

} // namespace kael::kernels
