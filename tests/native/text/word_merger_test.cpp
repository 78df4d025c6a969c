#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "text/draw.h"
#include "text/word_merger.h"

namespace kael::text {
namespace {

using Ids = std::vector<TokenId>;
using Merges = std::map<std::pair<TokenId, TokenId>, Merge>;

MergeTable table_of(const Merges& merges) {
    MergeTable table(merges.size());
    for (const auto& [pair, merge] : merges) {
        table.insert(pair.first, pair.second, merge);
    }
    return table;
}

Ids merge(const MergeTable& table, Ids ids) {
    WordMerger merger(table);
    ids.resize(merger.merge(ids));
    return ids;
}

// The definition, word for word.
Ids merge_by_definition(const Merges& merges, Ids ids) {
    for (;;) {
        Merge best;
        std::size_t place = 0;
        for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
            const auto found = merges.find({ids[i], ids[i + 1]});
            if (found != merges.end() && found->second < best) {
                best = found->second;
                place = i;
            }
        }
        if (!best.exists()) {
            return ids;
        }
        ids[place] = best.result();
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
}

// Merges of tokens that exist already, as training makes them, or in any order.
Merges random_merges(std::mt19937& random, TokenId alphabet, std::uint32_t count) {
    Merges merges;
    std::vector<std::uint32_t> ranks(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        ranks[i] = i;
    }
    if (draw(random, 2) == 0) {
        std::shuffle(ranks.begin(), ranks.end(), random);
    }
    TokenId tokens = alphabet;
    for (const std::uint32_t rank : ranks) {
        const std::pair<TokenId, TokenId> pair(draw(random, tokens), draw(random, tokens));
        if (merges.emplace(pair, Merge(rank, tokens)).second) {
            ++tokens;
        }
    }
    return merges;
}

TEST(WordMerger, LowestRankFirstThenLeftmost) {
    const Merges merges = {{{1, 1}, Merge(0, 2)}, {{2, 1}, Merge(1, 3)}, {{2, 2}, Merge(2, 4)}};
    const MergeTable table = table_of(merges);
    EXPECT_EQ(merge(table, {}), Ids{});
    EXPECT_EQ(merge(table, {1}), Ids{1});
    EXPECT_EQ(merge(table, {1, 1}), Ids{2});
    EXPECT_EQ(merge(table, {1, 1, 1}), Ids{3});
    EXPECT_EQ(merge(table, {1, 1, 1, 1}), Ids{4});
    EXPECT_EQ(merge(table, {1, 1, 1, 1, 1}), (Ids{2, 3}));
    EXPECT_EQ(merge(table, {0, 1, 0}), (Ids{0, 1, 0}));
}

TEST(WordMerger, AgreesWithTheDefinition) {
    std::mt19937 random(2);
    for (int round = 0; round < 600; ++round) {
        const TokenId alphabet = 1 + draw(random, 4);
        const Merges merges = random_merges(random, alphabet, draw(random, 40));
        Ids ids(draw(random, 200));
        for (TokenId& id : ids) {
            id = draw(random, alphabet);
        }
        ASSERT_EQ(merge(table_of(merges), ids), merge_by_definition(merges, ids));
    }
}

TEST(WordMerger, ScratchMemoryIsReusable) {
    std::mt19937 random(3);
    const Merges merges = random_merges(random, 2, 30);
    const MergeTable table = table_of(merges);
    WordMerger merger(table);
    for (const std::size_t length : {300U, 5U, 0U, 1U, 100U, 95U, 96U, 97U, 300U}) {
        Ids ids(length);
        for (TokenId& id : ids) {
            id = draw(random, 2);
        }
        const Ids expected = merge_by_definition(merges, ids);
        ids.resize(merger.merge(ids));
        EXPECT_EQ(ids, expected);
    }
}

// KB089: an algorithm that is quadratic in the length would take hours.
TEST(WordMerger, AMillionIdsOfOneWord) {
    const Merges merges = {{{0, 0}, Merge(0, 1)}, {{1, 1}, Merge(1, 2)}, {{2, 2}, Merge(2, 3)}};
    EXPECT_EQ(merge(table_of(merges), Ids(1'000'000, 0)), Ids(125'000, 3));
}

TEST(MergeTable, FindsWhatWasInsertedAndKeepsTheFirst) {
    std::mt19937 random(4);
    Merges merges;
    MergeTable table(5000);
    for (std::uint32_t rank = 0; rank < 5000; ++rank) {
        const std::pair<TokenId, TokenId> pair(draw(random, 100), draw(random, 100));
        const Merge merge(rank, draw(random, 1000));
        merges.emplace(pair, merge);
        EXPECT_EQ(table.insert(pair.first, pair.second, merge), merges.at(pair));
    }
    for (TokenId left = 0; left < 100; ++left) {
        for (TokenId right = 0; right < 100; ++right) {
            const auto found = merges.find({left, right});
            ASSERT_EQ(table.find(left, right), found == merges.end() ? Merge() : found->second);
        }
    }
    EXPECT_FALSE(MergeTable(0).find(0, 0).exists());
}

} // namespace
} // namespace kael::text
