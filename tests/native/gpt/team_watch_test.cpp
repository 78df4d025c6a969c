// When tokens are computed by one thread because a team loses too much time.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "gpt/team_watch.h"

namespace kael::gpt {

namespace {

constexpr double kQuiet = 0.03; // of a team's time, lost
constexpr double kDisturbed = 0.6;
constexpr double kAlone = 1.0 / 256; // seconds
constexpr double kQuickTeam = 2e-3;
constexpr double kSlowTeam = 5e-3;
constexpr double kWaking = 6e-3;

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

struct Trial {
    int tokens = 0;
    double seconds = 0;
};

// Tokens of a team until it steps back or has been tried.
Trial trial(TeamWatch& watch, double seconds) {
    Trial tried;
    for (; tried.tokens < 5 && !watch.is_alone(); ++tried.tokens) {
        const double token = tried.tokens == 0 ? std::max(kWaking, seconds) : seconds;
        watch.token_of_team(token, kDisturbed);
        tried.seconds += token;
    }
    return tried;
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

TEST(TeamWatch, OneTokenThatIsAllButLostIsTooMuch) {
    TeamWatch watch;
    watch.token_of_team(10 * kSlowTeam, 0.9);
    EXPECT_EQ(pause(watch), 16);
}

// What is already slower than it may be is not waited for, not even the first token, in which
// threads wake.
TEST(TeamWatch, ATrialEndsAsSoonAsItIsLost) {
    TeamWatch watch;
    step_back(watch);
    EXPECT_EQ(pause(watch), 16);
    watch.token_of_team(kWaking, kDisturbed);
    EXPECT_FALSE(watch.is_alone());
    watch.token_of_team(5 * kAlone, kDisturbed);
    EXPECT_TRUE(watch.is_alone());
    pause(watch);
    watch.token_of_team(8 * kAlone, kDisturbed);
    EXPECT_TRUE(watch.is_alone());
}

TEST(TeamWatch, TrialsCostLittleHoweverSlowTheTeam) {
    for (const double slower : {1.01, 1.5, 3.0, 8.0, 30.0}) {
        TeamWatch watch;
        step_back(watch);
        double seconds = 0;
        double tokens = 0;
        for (int attempt = 0; attempt < 50; ++attempt) {
            const int alone = pause(watch);
            const Trial tried = trial(watch, slower * kAlone);
            seconds += alone * kAlone + tried.seconds;
            tokens += alone + tried.tokens;
        }
        EXPECT_LT(seconds / tokens, 1.1 * kAlone) << slower;
    }
}

TEST(TeamWatch, AWorseTrialIsFollowedByALongerPauseButNeverByOneWithoutEnd) {
    std::vector<int> pauses;
    for (const double slower : {1.01, 3.0, 8.0, 30.0, 1e3, 1e300}) {
        TeamWatch watch;
        step_back(watch);
        pause(watch);
        trial(watch, slower * kAlone);
        pauses.push_back(pause(watch));
    }
    EXPECT_EQ(pauses, (std::vector<int>{16, 128, 224, 928, 1024, 1024}));
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
