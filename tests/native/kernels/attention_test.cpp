// store_key, attention_scores, softmax, attention_mix, attention_rows.
#include <cmath>
#include <limits>

#include "kernels/kernel_test.h"

namespace kael::kernels {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::int64_t padded(std::int64_t positions) {
    return (positions + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
}

class Attention : public KernelTest {
protected:
    // Keys and values of `positions` positions, in plain rows and as the kernels keep them.
    struct Cache {
        std::unique_ptr<GuardedFloats> keys;
        std::unique_ptr<GuardedFloats> blocks;
        std::unique_ptr<GuardedFloats> values;
    };

    Cache cache(std::int64_t head_dimension, std::int64_t positions) {
        Cache result{random(positions * head_dimension), random(padded(positions) * head_dimension),
                     random(positions * head_dimension)};
        // What no position has been stored to holds anything.
        for (std::int64_t i = 0; i < result.blocks->size(); ++i) {
            (*result.blocks)[i] = kNaN;
        }
        for (std::int64_t t = 0; t < positions; ++t) {
            kernels().store_key(result.keys->data() + t * head_dimension, head_dimension, t,
                                result.blocks->data());
        }
        return result;
    }

    std::vector<std::int64_t> head_dimensions() {
        return {1, 7, 8, 16, 24, 25, 33, 48, 64, 80, 100, 128};
    }
};

TEST_P(Attention, KeysAreInBlocksOfSixteenPositions) {
    const std::int64_t head_dimension = 5;
    const Cache stored = cache(head_dimension, 37);
    for (std::int64_t t = 0; t < 37; ++t) {
        for (std::int64_t d = 0; d < head_dimension; ++d) {
            EXPECT_EQ((*stored.blocks)[(t / 16 * head_dimension + d) * 16 + t % 16],
                      (*stored.keys)[t * head_dimension + d]);
        }
    }
}

TEST_P(Attention, ScoresAreChainsTimesTheScale) {
    for (const std::int64_t head_dimension : head_dimensions()) {
        const std::int64_t positions = integer(1, 150);
        SCOPED_TRACE(::testing::Message() << head_dimension << ", " << positions << " positions");
        const Cache stored = cache(head_dimension, positions);
        const auto query = random(head_dimension);
        GuardedFloats scores(padded(positions));
        kernels().attention_scores(query->data(), stored.blocks->data(), head_dimension, positions,
                                   0.37f, scores.data());
        for (std::int64_t t = 0; t < positions; ++t) {
            const float expected =
                arithmetic().chain(query->data(), stored.keys->data() + t * head_dimension, 1, 0,
                                   head_dimension) *
                0.37f;
            ASSERT_TRUE(same_bits(scores.data() + t, &expected, 1)) << "position " << t;
        }
    }
}

TEST_P(Attention, SoftmaxSumsInLanesAndClearsThePadding) {
    for (std::int64_t positions = 0; positions < 70; ++positions) {
        const auto scores = random(padded(positions));
        for (std::int64_t t = 0; t < positions; ++t) {
            (*scores)[t] *= 9.0f;
        }
        std::vector<float> expected(scores->data(), scores->data() + scores->size());
        arithmetic().softmax(expected.data(), positions);
        std::fill(expected.begin() + positions, expected.end(), 0.0f);
        kernels().softmax(scores->data(), positions);
        ASSERT_TRUE(same_bits(scores->data(), expected.data(), scores->size())) << positions;
    }
}

TEST_P(Attention, SoftmaxIsAccurate) {
    const std::int64_t positions = 1000;
    const auto scores = random(padded(positions));
    std::vector<double> expected;
    double sum = 0.0;
    for (std::int64_t t = 0; t < positions; ++t) {
        (*scores)[t] *= 5.0f;
        expected.push_back(std::exp(static_cast<double>((*scores)[t])));
        sum += expected.back();
    }
    kernels().softmax(scores->data(), positions);
    for (std::int64_t t = 0; t < positions; ++t) {
        const double weight = expected[static_cast<std::size_t>(t)] / sum;
        // Relative: the difference to the maximum is rounded before exp, the sum 16 lanes at a
        // time.
        EXPECT_NEAR(static_cast<double>((*scores)[t]) / weight, 1.0, 3e-6);
    }
}

// KB049: a row in which everything is masked attends to nothing.
TEST_P(Attention, SoftmaxOfMinusInfinityAloneIsZeros) {
    for (const std::int64_t positions : {1, 2, 16, 17, 40}) {
        GuardedFloats scores(padded(positions));
        std::fill_n(scores.data(), scores.size(), -kInfinity);
        kernels().softmax(scores.data(), positions);
        for (std::int64_t t = 0; t < scores.size(); ++t) {
            EXPECT_EQ(scores[t], 0.0f);
        }
    }
}

TEST_P(Attention, SoftmaxOfSomeMinusInfinityIgnoresThem) {
    std::vector<float> scores(16, 99.0f);
    scores[0] = -kInfinity;
    scores[1] = 2.0f;
    scores[2] = -kInfinity;
    scores[3] = 2.0f;
    kernels().softmax(scores.data(), 4);
    EXPECT_EQ(std::vector<float>(scores.begin(), scores.begin() + 5),
              (std::vector<float>{0.0f, 0.5f, 0.0f, 0.5f, 0.0f}));
}

TEST_P(Attention, SoftmaxOfNaNOrInfinityIsNaN) {
    for (const float bad : {kNaN, kInfinity}) {
        for (const float other : {1.0f, -kInfinity}) {
            for (const std::int64_t at : {0, 7, 18}) {
                std::vector<float> scores(32, other);
                scores[static_cast<std::size_t>(at)] = bad;
                kernels().softmax(scores.data(), 19);
                for (std::size_t t = 0; t < 19; ++t) {
                    EXPECT_TRUE(std::isnan(scores[t])) << bad << " among " << other << " at " << t;
                }
                for (std::size_t t = 19; t < 32; ++t) {
                    EXPECT_EQ(scores[t], 0.0f);
                }
            }
        }
    }
}

TEST_P(Attention, MixIsAChainOverPositions) {
    for (const std::int64_t head_dimension : head_dimensions()) {
        const std::int64_t positions = integer(1, 60);
        const std::int64_t ldv = head_dimension + integer(0, 2);
        SCOPED_TRACE(::testing::Message() << head_dimension << ", " << positions << " positions");
        const auto weights = random(positions);
        const auto values = random((positions - 1) * ldv + head_dimension);
        GuardedFloats out(head_dimension);
        kernels().attention_mix(weights->data(), values->data(), ldv, head_dimension, positions,
                                out.data());
        for (std::int64_t d = 0; d < head_dimension; ++d) {
            const float expected =
                arithmetic().chain(weights->data(), values->data() + d, ldv, 0, positions);
            ASSERT_TRUE(same_bits(out.data() + d, &expected, 1)) << "element " << d;
        }
    }
}

TEST_P(Attention, RowsTogetherAreTheRowsOneByOne) {
    for (const std::int64_t head_dimension : head_dimensions()) {
        for (int round = 0; round < 3; ++round) {
            const std::int64_t rows = integer(1, 30);
            const std::int64_t first = round == 0 ? 0 : integer(0, 70);
            SCOPED_TRACE(::testing::Message()
                         << head_dimension << ", " << rows << " rows from " << first);
            const std::int64_t positions = first + rows;
            const std::int64_t ldq = head_dimension + integer(0, 5);
            const std::int64_t ldo = head_dimension + integer(0, 5);
            const Cache stored = cache(head_dimension, positions);
            const auto queries = random((rows - 1) * ldq + head_dimension);
            const auto out = random((rows - 1) * ldo + head_dimension);
            GuardedFloats scratch(kernels().attention_scratch(positions));
            std::vector<float> expected(out->data(), out->data() + out->size());
            for (std::int64_t row = 0; row < rows; ++row) {
                const std::vector<float> one = arithmetic().attend(
                    queries->data() + row * ldq, stored.keys->data(), stored.values->data(),
                    head_dimension, first + row + 1, 0.125f);
                std::copy(one.begin(), one.end(), expected.begin() + row * ldo);

                std::vector<float> scores(static_cast<std::size_t>(padded(first + row + 1)));
                std::vector<float> alone(one.size());
                kernels().attention_scores(queries->data() + row * ldq, stored.blocks->data(),
                                           head_dimension, first + row + 1, 0.125f, scores.data());
                kernels().softmax(scores.data(), first + row + 1);
                kernels().attention_mix(scores.data(), stored.values->data(), head_dimension,
                                        head_dimension, first + row + 1, alone.data());
                ASSERT_TRUE(same_bits(alone.data(), one.data(), head_dimension)) << "row " << row;
            }
            kernels().attention_rows(queries->data(), ldq, rows, first, stored.blocks->data(),
                                     stored.values->data(), head_dimension, head_dimension, 0.125f,
                                     out->data(), ldo, scratch.data());
            ASSERT_TRUE(same_bits(out->data(), expected.data(), out->size()));
        }
    }
}

TEST_P(Attention, ARowNeverSeesWhatComesAfterIt) {
    const std::int64_t head_dimension = 24;
    const std::int64_t rows = 20;
    Cache stored = cache(head_dimension, rows);
    const auto queries = random(rows * head_dimension);
    GuardedFloats scratch(kernels().attention_scratch(rows));
    std::vector<float> before(static_cast<std::size_t>(rows * head_dimension));
    kernels().attention_rows(queries->data(), head_dimension, rows, 0, stored.blocks->data(),
                             stored.values->data(), head_dimension, head_dimension, 0.2f,
                             before.data(), head_dimension, scratch.data());
    const std::int64_t poisoned = 11;
    const std::vector<float> poison(static_cast<std::size_t>(head_dimension), kNaN);
    kernels().store_key(poison.data(), head_dimension, poisoned, stored.blocks->data());
    std::copy(poison.begin(), poison.end(), stored.values->data() + poisoned * head_dimension);
    std::vector<float> after(before.size());
    kernels().attention_rows(queries->data(), head_dimension, rows, 0, stored.blocks->data(),
                             stored.values->data(), head_dimension, head_dimension, 0.2f,
                             after.data(), head_dimension, scratch.data());
    EXPECT_TRUE(same_bits(after.data(), before.data(), poisoned * head_dimension));
    EXPECT_TRUE(std::isnan(after[static_cast<std::size_t>(poisoned * head_dimension)]));
}

KAEL_FOR_EVERY_TABLE(Attention);

} // namespace

} // namespace kael::kernels
