#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/draw.h"
#include "text/word_cache.h"

namespace kael::text {
namespace {

using Ids = std::vector<TokenId>;

Ids find(const WordCache& cache, const std::string& word) {
    const auto ids = cache.find(word);
    return {ids.begin(), ids.end()};
}

TEST(WordCache, RemembersAWordUntilAnotherOneNeedsItsPlace) {
    WordCache cache(0);
    EXPECT_EQ(find(cache, "the"), Ids{});
    cache.insert("the", Ids{1, 2, 3});
    EXPECT_EQ(find(cache, "the"), (Ids{1, 2, 3}));
    cache.insert("the", Ids{4});
    EXPECT_EQ(find(cache, "the"), Ids{4});
}

TEST(WordCache, LeavesOutAWordOfManyIds) {
    WordCache cache(0);
    cache.insert("many", Ids{1, 2, 3, 4});
    EXPECT_EQ(find(cache, "many"), Ids{});
}

// Few slots and words that share their ends, so that words often meet in a slot.
TEST(WordCache, NeverAnswersForAnotherWord) {
    std::mt19937 random(8);
    WordCache cache(0);
    std::map<std::string, Ids> inserted;
    int found = 0;
    for (TokenId round = 0; round < 20'000; ++round) {
        std::string word(1 + draw(random, WordCache::kMaxWordBytes), 'a');
        if (draw(random, 2) == 0) {
            word[draw(random, static_cast<std::uint32_t>(word.size()))] = 'b';
        }
        const Ids ids = find(cache, word);
        if (!ids.empty()) {
            ++found;
            ASSERT_EQ(ids, inserted.at(word)) << word;
        }
        inserted[word] = Ids(1 + draw(random, 3), round);
        cache.insert(word, inserted[word]);
    }
    EXPECT_GT(found, 1000);
}

} // namespace
} // namespace kael::text
