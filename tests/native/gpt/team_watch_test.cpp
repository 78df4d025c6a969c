// When tokens are computed by one thread because a team loses too much time.
#include <vector>

#include <gtest/gtest.h>

#include "gpt/team_watch.h"

namespace kael::gpt {

namespace {

constexpr double kQuiet = 0.03;
constexpr double kDisturbed = 0.6;

// Tokens that go by alone until a team is tried again.
int pause(TeamWatch& watch) {
    int tokens = 0;
    for (; watch.is_alone(); ++tokens) {
        watch.token_alone();
    }
    return tokens;
}

TEST(TeamWatch, AQuietMachineAlwaysWorksAsATeam) {
    TeamWatch watch;
    for (int token = 0; token < 1000; ++token) {
        watch.token_of_team(kQuiet);
        ASSERT_FALSE(watch.is_alone());
    }
}

TEST(TeamWatch, OneDisturbedTokenIsForgiven) {
    TeamWatch watch;
    for (int token = 0; token < 100; ++token) {
        watch.token_of_team(token % 2 == 0 ? kDisturbed : kQuiet);
        ASSERT_FALSE(watch.is_alone());
    }
}

TEST(TeamWatch, ADisturbedTeamStepsBackForLongerAndLonger) {
    TeamWatch watch;
    watch.token_of_team(kDisturbed);
    watch.token_of_team(kDisturbed);
    std::vector<int> pauses;
    for (int attempt = 0; attempt < 8; ++attempt) {
        pauses.push_back(pause(watch));
        watch.token_of_team(kDisturbed); // one look is enough
    }
    EXPECT_EQ(pauses, (std::vector<int>{16, 32, 64, 128, 256, 512, 512, 512}));
}

TEST(TeamWatch, ATeamIsTrustedAgainAfterSomeGoodTokens) {
    TeamWatch watch;
    watch.token_of_team(kDisturbed);
    watch.token_of_team(kDisturbed);
    EXPECT_EQ(pause(watch), 16);
    watch.token_of_team(kQuiet); // by luck
    watch.token_of_team(kDisturbed);
    EXPECT_EQ(pause(watch), 32);
    for (int token = 0; token < 16; ++token) {
        watch.token_of_team(kQuiet);
    }
    watch.token_of_team(kDisturbed);
    EXPECT_FALSE(watch.is_alone());
    watch.token_of_team(kDisturbed);
    EXPECT_EQ(pause(watch), 16);
}

} // namespace

} // namespace kael::gpt
