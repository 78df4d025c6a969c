#include <cstdint>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"

#include "gpt/token_ring.h"

namespace {

using kael::Wakeup;
using kael::gpt::TokenRing;

constexpr std::int64_t kInterval = TokenRing::kWakeIntervalNanoseconds;

struct Batch {
    std::vector<std::int64_t> tokens;
    bool done;
};

Batch drain(TokenRing& ring, std::int64_t capacity = 1 << 20) {
    Batch batch{};
    const TokenRing::Drained drained = ring.drain(
        capacity, [&](const TokenRing::Record& record) { batch.tokens.push_back(record.token); });
    EXPECT_EQ(drained.count, static_cast<std::int64_t>(batch.tokens.size()));
    batch.done = drained.done;
    return batch;
}

bool readable(const TokenRing& ring, int timeout_milliseconds = 0) {
    pollfd watched{ring.descriptor(), POLLIN, 0};
    return ::poll(&watched, 1, timeout_milliseconds) == 1;
}

// Whether pushing the token announces it, to a consumer that has taken all the tokens before.
bool wakes(TokenRing& ring, std::int64_t token, std::int64_t nanoseconds) {
    EXPECT_TRUE(ring.push(token, nanoseconds));
    const bool woken = readable(ring);
    EXPECT_EQ(drain(ring).tokens, std::vector<std::int64_t>{token});
    return woken;
}

class TokenRingTest : public testing::TestWithParam<Wakeup::Mechanism> {
protected:
    static TokenRing* create(std::int64_t max_tokens) {
        return TokenRing::create(max_tokens, GetParam());
    }
};

INSTANTIATE_TEST_SUITE_P(Mechanisms, TokenRingTest,
                         testing::Values(Wakeup::Mechanism::best, Wakeup::Mechanism::pipe),
                         [](const auto& param) {
                             return param.param == Wakeup::Mechanism::best ? "Best" : "Pipe";
                         });

TEST_P(TokenRingTest, DeliversTokensInOrderThenTheEnd) {
    TokenRing* ring = create(3);
    EXPECT_FALSE(readable(*ring));
    for (const std::int64_t token : {7, 0, 50256}) {
        EXPECT_TRUE(ring->push(token));
    }
    EXPECT_TRUE(readable(*ring));
    const Batch tokens = drain(*ring);
    EXPECT_EQ(tokens.tokens, (std::vector<std::int64_t>{7, 0, 50256}));
    EXPECT_FALSE(tokens.done);
    EXPECT_FALSE(readable(*ring));

    ring->finish();
    EXPECT_TRUE(readable(*ring));
    const Batch end = drain(*ring);
    EXPECT_TRUE(end.tokens.empty());
    EXPECT_TRUE(end.done);
    ring->release();
}

TEST_P(TokenRingTest, StaysReadableUntilEverythingIsTaken) {
    TokenRing* ring = create(5);
    for (std::int64_t token = 0; token < 5; ++token) {
        EXPECT_TRUE(ring->push(token));
    }
    ring->finish();
    EXPECT_EQ(drain(*ring, 2).tokens, (std::vector<std::int64_t>{0, 1}));
    EXPECT_TRUE(readable(*ring));
    const Batch second = drain(*ring, 2);
    EXPECT_EQ(second.tokens, (std::vector<std::int64_t>{2, 3}));
    EXPECT_FALSE(second.done);
    const Batch last = drain(*ring, 2);
    EXPECT_EQ(last.tokens, (std::vector<std::int64_t>{4}));
    EXPECT_TRUE(last.done);
    EXPECT_FALSE(readable(*ring));
    ring->release();
}

TEST_P(TokenRingTest, WakesForTheFirstTokenTheFinalTokenAndTheEndWhateverTheTime) {
    TokenRing* ring = create(3);
    EXPECT_TRUE(wakes(*ring, 1, 5));
    EXPECT_FALSE(wakes(*ring, 2, 6));
    EXPECT_TRUE(wakes(*ring, 3, 7));
    ring->finish();
    EXPECT_TRUE(readable(*ring));
    ring->release();
}

TEST_P(TokenRingTest, WakesOnceInTheIntervalAndCountsFromTheLastWake) {
    TokenRing* ring = create(100);
    const std::int64_t start = 123'456'789;
    EXPECT_TRUE(wakes(*ring, 0, start));
    EXPECT_FALSE(wakes(*ring, 1, start + kInterval - 1));
    EXPECT_TRUE(wakes(*ring, 2, start + kInterval));
    EXPECT_FALSE(wakes(*ring, 3, start + kInterval + 1));
    EXPECT_TRUE(wakes(*ring, 4, start + 2 * kInterval));
    ring->finish();
    ring->release();
}

TEST_P(TokenRingTest, TokensOfOneSlowPassAreAnnouncedBeforeTheNext) {
    TokenRing* ring = create(100);
    EXPECT_TRUE(wakes(*ring, 0, 0));
    EXPECT_TRUE(wakes(*ring, 1, 20 * kInterval));
    EXPECT_TRUE(ring->push(2, 20 * kInterval + 1));
    EXPECT_TRUE(ring->push(3, 20 * kInterval + 2));
    EXPECT_FALSE(readable(*ring));
    EXPECT_FALSE(ring->stopping());
    EXPECT_TRUE(readable(*ring));
    EXPECT_EQ(drain(*ring).tokens, (std::vector<std::int64_t>{2, 3}));
    EXPECT_FALSE(ring->stopping());
    EXPECT_FALSE(readable(*ring)) << "there is nothing to announce";
    ring->finish();
    ring->release();
}

TEST_P(TokenRingTest, TokensOfFastPassesWaitWhateverIsAsked) {
    TokenRing* ring = create(100);
    std::int64_t now = 0;
    EXPECT_TRUE(wakes(*ring, 0, now));
    for (std::int64_t token = 1; token < 12; ++token) {
        now += kInterval / 4;
        EXPECT_TRUE(ring->push(token, now));
        EXPECT_FALSE(ring->stopping());
        EXPECT_EQ(readable(*ring), token % 4 == 0) << token;
        if (token % 4 == 0) {
            EXPECT_EQ(drain(*ring).tokens.back(), token);
        }
    }
    ring->finish();
    ring->release();
}

TEST_P(TokenRingTest, AFullRingRefusesAndOverwritesNothing) {
    TokenRing* ring = create(4);
    for (std::int64_t token = 0; token < 4; ++token) {
        EXPECT_TRUE(ring->push(token));
    }
    EXPECT_FALSE(ring->push(99));
    EXPECT_EQ(drain(*ring).tokens, (std::vector<std::int64_t>{0, 1, 2, 3}));
    EXPECT_TRUE(ring->push(4));
    EXPECT_EQ(drain(*ring).tokens, (std::vector<std::int64_t>{4}));
    ring->finish();
    ring->release();
}

TEST_P(TokenRingTest, NothingIsFullBeforeMaxTokensWhateverTheNumber) {
    for (const std::int64_t max_tokens : {1, 2, 3, 5, 64, 511, 512, 513}) {
        TokenRing* ring = create(max_tokens);
        for (std::int64_t token = 0; token < max_tokens; ++token) {
            EXPECT_TRUE(ring->push(token)) << token << " of " << max_tokens;
        }
        ring->finish();
        EXPECT_EQ(drain(*ring).tokens.size(), static_cast<std::size_t>(max_tokens));
        ring->release();
    }
}

TEST_P(TokenRingTest, StampsEachTokenWithTheTimeOfItsPush) {
    TokenRing* ring = create(2);
    EXPECT_TRUE(ring->push(1));
    EXPECT_TRUE(ring->push(2));
    std::vector<std::int64_t> stamps;
    static_cast<void>(ring->drain(
        2, [&](const TokenRing::Record& record) { stamps.push_back(record.nanoseconds); }));
    ASSERT_EQ(stamps.size(), 2U);
    EXPECT_GT(stamps[0], 0);
    EXPECT_LE(stamps[0], stamps[1]);
    ring->finish();
    ring->release();
}

TEST_P(TokenRingTest, PassesTheWishToStopToTheProducer) {
    TokenRing* ring = create(1);
    EXPECT_FALSE(ring->stopping());
    ring->stop();
    EXPECT_TRUE(ring->stopping());
    ring->finish();
    ring->release();
}

TEST_P(TokenRingTest, StopsItsOwnGenerationAlone) {
    TokenRing* stopped = create(1);
    TokenRing* other = create(1);
    stopped->stop();
    EXPECT_FALSE(other->stopping());
    TokenRing* later = create(1);
    EXPECT_FALSE(later->stopping());
    for (TokenRing* ring : {stopped, other, later}) {
        ring->finish();
        ring->release();
    }
}

TEST_P(TokenRingTest, TheLaterOwnerClosesTheDescriptor) {
    for (const bool consumer_first : {true, false}) {
        TokenRing* ring = create(1);
        const int descriptor = ring->descriptor();
        const auto is_open = [descriptor] { return ::fcntl(descriptor, F_GETFD) >= 0; };
        if (consumer_first) {
            ring->release();
            EXPECT_TRUE(is_open());
            EXPECT_TRUE(ring->push(1)); // a client that left does not end the producer's share
            ring->finish();
        } else {
            ring->finish();
            EXPECT_TRUE(is_open());
            ring->release();
        }
        EXPECT_FALSE(is_open());
    }
}

TEST(TokenRing, RefusesASizeThatNoGenerationHas) {
    for (const std::int64_t max_tokens : {std::int64_t{-1}, TokenRing::kMaxTokens + 1, INT64_MAX}) {
        try {
            TokenRing::create(max_tokens);
            FAIL() << max_tokens;
        } catch (const kael::Error& error) {
            EXPECT_EQ(error.code(), kael::ErrorCode::invalid_argument);
            EXPECT_NE(error.message().find(std::to_string(max_tokens)), std::string::npos);
        }
    }
}

TEST(TokenRing, AGenerationOfNoTokensHasAnEnd) {
    TokenRing* ring = TokenRing::create(0);
    ring->finish();
    EXPECT_TRUE(readable(*ring));
    EXPECT_TRUE(drain(*ring).done);
    ring->release();
}

// The consumer frees the ring as soon as it has seen the end, and leaves the number of the
// descriptor to the next ring. Even rounds wait for the descriptor as an event loop does, in small
// batches: a lost wake shows. Odd rounds spin and take everything: they see the end before its
// wake, so that ThreadSanitizer sees a ring that is freed too early.
TEST_P(TokenRingTest, EndRaceOfManyRingsLosesNothingAndTouchesNothingFreed) {
    constexpr int kRings = 1000;
    constexpr std::int64_t kTokens = 30;
    for (int round = 0; round < kRings; ++round) {
        const bool waits = round % 2 == 0;
        TokenRing* ring = create(kTokens);
        std::thread producer([ring] {
            for (std::int64_t token = 0; token < kTokens; ++token) {
                ASSERT_TRUE(ring->push(token));
            }
            ring->finish();
        });
        std::int64_t expected = 0;
        bool done = false;
        while (!done) {
            if (waits) {
                ASSERT_TRUE(readable(*ring, 10'000)) << "a wake was lost after " << expected;
            }
            const Batch batch = drain(*ring, waits ? 7 : kTokens);
            for (const std::int64_t token : batch.tokens) {
                ASSERT_EQ(token, expected++);
            }
            done = batch.done;
        }
        EXPECT_EQ(expected, kTokens);
        ring->release();
        producer.join();
    }
}

TEST_P(TokenRingTest, AConsumerThatLeavesInTheMiddleStopsTheProducer) {
    for (int round = 0; round < 200; ++round) {
        TokenRing* ring = create(1 << 16);
        std::thread producer([ring] {
            std::int64_t token = 0;
            while (!ring->stopping() && token < (1 << 16)) {
                ASSERT_TRUE(ring->push(token++));
            }
            ring->finish();
        });
        ASSERT_TRUE(readable(*ring, 10'000));
        static_cast<void>(drain(*ring, 3));
        ring->stop();
        ring->release();
        producer.join();
    }
}

} // namespace
