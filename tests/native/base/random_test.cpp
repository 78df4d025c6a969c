#include <algorithm>
#include <cmath>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kael/random.h"

#include "base/philox.h"

namespace {

// The known-answer vectors that the paper's authors publish with Random123.
TEST(Philox, AgreesWithThePublishedVectors) {
    EXPECT_EQ(kael::philox(kael::PhiloxBlock{0, 0, 0, 0}, {0, 0}),
              (kael::PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(kael::philox(kael::PhiloxBlock{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                           {0xffffffff, 0xffffffff}),
              (kael::PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(kael::philox(kael::PhiloxBlock{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                           {0xa4093822, 0x299f31d0}),
              (kael::PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, ItsWordsAreTheBlocksOfItsSeedInOrder) {
    kael::RandomStream stream(0);
    EXPECT_EQ(stream.next_bits(), 0xe169c58d6627e8d5U);
    EXPECT_EQ(stream.next_bits(), 0x9b00dbd8bc57ac4cU);
    const kael::PhiloxBlock second = kael::philox(0, 1);
    EXPECT_EQ(stream.next_bits(), (std::uint64_t{second[1]} << 32) | second[0]);
}

TEST(RandomStream, SeedsThatDifferInAnyBitGiveDifferentStreams) {
    std::set<std::uint64_t> firsts = {kael::RandomStream(0).next_bits()};
    for (int bit = 0; bit < 64; ++bit) {
        firsts.insert(kael::RandomStream(std::uint64_t{1} << bit).next_bits());
    }
    EXPECT_EQ(firsts.size(), 65U);
}

TEST(RandomStream, UniformNumbersLieBelowOneAndFillTheInterval) {
    kael::RandomStream stream(7);
    constexpr int kCount = 100'000;
    double sum = 0;
    std::vector<int> buckets(10, 0);
    for (int i = 0; i < kCount; ++i) {
        const double number = stream.next_uniform();
        ASSERT_GE(number, 0.0);
        ASSERT_LT(number, 1.0);
        sum += number;
        ++buckets[static_cast<std::size_t>(number * 10)];
    }
    EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
    for (const int bucket : buckets) {
        EXPECT_NEAR(bucket, kCount / 10, 5 * std::sqrt(kCount * 0.09));
    }
}

TEST(RandomStream, EachTwoNormalNumbersAreOnePointInPolarCoordinates) {
    kael::RandomStream normals(3);
    kael::RandomStream uniforms(3);
    for (int pair = 0; pair < 100; ++pair) {
        const double radius_square = -2 * std::log(1 - uniforms.next_uniform());
        const double turns = uniforms.next_uniform();
        const double x = normals.next_normal();
        const double y = normals.next_normal();
        EXPECT_NEAR(x * x + y * y, radius_square, 1e-12 * (1 + radius_square));
        EXPECT_NEAR(std::remainder(std::atan2(y, x) / (2 * std::acos(-1.0)) - turns, 1.0), 0,
                    1e-12);
    }
}

// Kolmogorov-Smirnov against the normal distribution; 1.95 / sqrt(n) is passed by chance once in a
// thousand seeds, and this seed is fixed.
TEST(RandomStream, NormalNumbersFollowTheNormalDistribution) {
    kael::RandomStream stream(11);
    constexpr int kCount = 100'000;
    std::vector<double> numbers(kCount);
    std::generate(numbers.begin(), numbers.end(), [&] { return stream.next_normal(); });
    std::sort(numbers.begin(), numbers.end());
    double distance = 0;
    for (int i = 0; i < kCount; ++i) {
        const double expected =
            0.5 * std::erfc(-numbers[static_cast<std::size_t>(i)] / std::sqrt(2.0));
        distance = std::max({distance, std::abs(expected - static_cast<double>(i) / kCount),
                             std::abs(expected - static_cast<double>(i + 1) / kCount)});
    }
    EXPECT_LT(distance, 1.95 / std::sqrt(kCount));
}

TEST(ProcessStream, ManualSeedRestartsIt) {
    kael::manual_seed(42);
    const std::uint64_t first = kael::draw_seed();
    const std::uint64_t second = kael::draw_seed();
    EXPECT_NE(first, second);
    kael::manual_seed(42);
    EXPECT_EQ(kael::draw_seed(), first);
    EXPECT_EQ(kael::draw_seed(), second);
    kael::manual_seed(43);
    EXPECT_NE(kael::draw_seed(), first);
}

TEST(RandomStream, GoesOnAtAnyWord) {
    kael::RandomStream whole(9);
    std::vector<std::uint64_t> words(9);
    std::generate(words.begin(), words.end(), [&] { return whole.next_bits(); });
    for (std::size_t position = 0; position < words.size(); ++position) {
        kael::RandomStream part(9);
        part.next_normal();
        part.seek(position);
        EXPECT_EQ(part.position(), position);
        for (std::size_t i = position; i < words.size(); ++i) {
            EXPECT_EQ(part.next_bits(), words[i]) << "word " << i << " after " << position;
        }
    }
}

TEST(ProcessStream, GoesOnFromAState) {
    kael::manual_seed(42);
    for (int draws = 0; draws < 3; ++draws) {
        const kael::RandomState state = kael::random_state();
        EXPECT_EQ(state.seed, 42U);
        EXPECT_EQ(state.position, static_cast<std::uint64_t>(draws));
        const std::uint64_t next = kael::draw_seed();
        kael::manual_seed(1);
        kael::set_random_state(state);
        EXPECT_EQ(kael::draw_seed(), next);
    }
}

TEST(ProcessStream, ThreadsThatDrawAtOnceShareTheNumbersOut) {
    constexpr int kThreads = 4;
    constexpr int kDraws = 500;
    kael::manual_seed(1);
    std::vector<std::uint64_t> alone(kThreads * kDraws);
    std::generate(alone.begin(), alone.end(), kael::draw_seed);
    kael::manual_seed(1);
    std::vector<std::uint64_t> shared(alone.size());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&shared, thread] {
            std::generate_n(shared.begin() + thread * kDraws, kDraws, kael::draw_seed);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    std::sort(alone.begin(), alone.end());
    std::sort(shared.begin(), shared.end());
    EXPECT_EQ(shared, alone);
}

} // namespace
