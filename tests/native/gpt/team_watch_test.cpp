// When tokens are computed by one thread because a team loses too much time.
#include <vector>

#include <gtest/gtest.h>

#include "gpt/team_watch.h"

namespace kael::gpt {

namespace {

constexpr double kQuiet = 0.03; // of a team's time, lost
constexpr double kDisturbed = 0.6;
constexpr double kAlone = 3e-3; // seconds
constexpr double kQuickTeam = 2e-3;
constexpr double kSlowTeam = 5e-3;

// Tokens that go by alone until a team is tried again.
int pause(TeamWatch& watch) {
    int tokens = 0;
    for (; watch.is_alone(); ++tokens) {
        watch.token_alone(kAlone);
    }
    return tokens;
}

void step_back(TeamWatch& watch) {
    watch.token_of_team(kSlowTeam, kDisturbed);
    watch.token_of_team(kSlowTeam, kDisturbed);
}

void trial(TeamWatch& watch, double seconds) {
    for (int token = 0; token < 5 && !watch.is_alone(); ++token) {
        watch.token_of_team(token == 0 ? 1.0 : seconds, kDisturbed); // the first one wakes threads
    }
}

TEST(TeamWatch, AQuietMachineAlwaysWorksAsATeam) {
    TeamWatch watch;
    for (int token = 0; token < 1000; ++token) {
        watch.token_of_team(kQuickTeam, kQuiet);
        ASSERT_FALSE(watch.is_alone());
    }
}

TEST(TeamWatch, OneDisturbedTokenIsForgiven) {
    TeamWatch watch;
    for (int token = 0; token < 100; ++token) {
        watch.token_of_team(kSlowTeam, token % 2 == 0 ? kDisturbed : kQuiet);
        ASSERT_FALSE(watch.is_alone());
    }
}

TEST(TeamWatch, ATeamThatIsSlowerThanOneThreadStepsBackForLongerAndLonger) {
    TeamWatch watch;
    step_back(watch);
    std::vector<int> pauses;
    for (int attempt = 0; attempt < 8; ++attempt) {
        pauses.push_back(pause(watch));
        trial(watch, kSlowTeam);
    }
    EXPECT_EQ(pauses, (std::vector<int>{16, 32, 64, 128, 256, 256, 256, 256}));
}

// What is already slower than it may be is not waited for.
TEST(TeamWatch, ATrialEndsAsSoonAsItIsLost) {
    TeamWatch watch;
    step_back(watch);
    EXPECT_EQ(pause(watch), 16);
    watch.token_of_team(1.0, kDisturbed);
    EXPECT_FALSE(watch.is_alone());
    watch.token_of_team(5 * kAlone, kDisturbed);
    EXPECT_EQ(pause(watch), 32);
}

// However much of its time it loses.
TEST(TeamWatch, ATeamThatIsFasterThanOneThreadGoesOn) {
    TeamWatch watch;
    step_back(watch);
    EXPECT_EQ(pause(watch), 16);
    trial(watch, kQuickTeam);
    EXPECT_FALSE(watch.is_alone());
    step_back(watch);
    EXPECT_EQ(pause(watch), 16);
}

} // namespace

} // namespace kael::gpt
