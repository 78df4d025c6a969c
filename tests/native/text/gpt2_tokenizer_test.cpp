// GPT-2's own vocabulary, where the test data beside the checkout is there.
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/tokenizer.h"

#include "io/json.h"

namespace kael::text {
namespace {

using Ids = std::vector<std::int64_t>;

const std::filesystem::path kSource = KAEL_SOURCE_DIR;
const std::filesystem::path kData = kSource / "../shared/data";

class Gpt2Tokenizer : public testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kData / "tokenizer-gpt2")) {
            GTEST_SKIP() << "GPT-2's vocabulary is not there: ../shared/data/tokenizer-gpt2";
        }
    }

    static const BpeTokenizer& tokenizer() {
        static const BpeTokenizer loaded(kData / "tokenizer-gpt2/vocab.json",
                                         kData / "tokenizer-gpt2/merges.txt");
        return loaded;
    }
};

std::string repeated(std::string_view text, int times) {
    std::string result;
    for (int i = 0; i < times; ++i) {
        result += text;
    }
    return result;
}

// Texts with the ids on which tiktoken, tokenizers and the algorithm of openai/gpt-2 agree.
// KB082, KB091, KB092 are among them.
TEST_F(Gpt2Tokenizer, GivesTheIdsOfTheReferences) {
    const io::JsonValue rows = io::read_json_file(kSource / "tests/data/gpt2_ids.json");
    ASSERT_GE(rows.elements.size(), 90U);
    for (const io::JsonValue& row : rows.elements) {
        const std::string& text = row.find("text")->string;
        Ids expected;
        for (const io::JsonValue& id : row.find("ids")->elements) {
            expected.push_back(static_cast<std::int64_t>(id.unsigned_integer));
        }
        EXPECT_EQ(tokenizer().encode(text), expected) << testing::PrintToString(text);
        EXPECT_EQ(tokenizer().decode(expected.data(), expected.size()), text);
    }
}

TEST_F(Gpt2Tokenizer, KnowsTheSpecialToken) {
    EXPECT_EQ(tokenizer().vocabulary_size(), 50257);
    EXPECT_EQ(tokenizer().end_of_text(), 50256);
    EXPECT_EQ(tokenizer().encode("a<|endoftext|>b", true), (Ids{64, 50256, 65}));
}

// 8 of the merges begin with "#" and are no comments.
TEST_F(Gpt2Tokenizer, MergesThatBeginWithAHashAreMerges) {
    EXPECT_EQ(tokenizer().encode("##"), Ids{2235});
    EXPECT_EQ(tokenizer().encode("################"), Ids{14468});
    EXPECT_EQ(tokenizer().encode("#$"), Ids{29953});
}

// KB089
TEST_F(Gpt2Tokenizer, OneLongWordIsNoSpecialCase) {
    const Ids a = tokenizer().encode(std::string(100'000, 'a'));
    EXPECT_EQ(a, Ids(25'000, 24794));
    const std::string underscores(50'000, '_');
    const Ids u = tokenizer().encode(underscores);
    EXPECT_EQ(tokenizer().decode(u.data(), u.size()), underscores);
    for (const char* part : {"ab", "\u4F60", "9", " ", "\n", "?!"}) {
        const std::string text = repeated(part, 200'000);
        const Ids ids = tokenizer().encode(text);
        EXPECT_EQ(tokenizer().decode(ids.data(), ids.size()), text);
    }
}

// KB094, KB095
TEST_F(Gpt2Tokenizer, HalfACharacterDecodesToItsBytes) {
    const Ids ids = {47249};
    EXPECT_EQ(tokenizer().decode(ids.data(), ids.size()), "\xF0\x9F\x98");
}

TEST_F(Gpt2Tokenizer, EachTokenDecodesToWhatEncodesBack) {
    for (std::int64_t id = 0; id < tokenizer().vocabulary_size(); ++id) {
        const std::string token = tokenizer().decode(&id, 1);
        ASSERT_FALSE(token.empty());
        const Ids ids = tokenizer().encode(token);
        ASSERT_EQ(tokenizer().decode(ids.data(), ids.size()), token);
    }
}

TEST(TokenizersOfTestData, AllLoadAndRoundTripWhatTheyKnow) {
    const std::vector<std::pair<const char*, const char*>> known = {
        {"checkpoints/gpt2-bytes", "any \xFF bytes \U0001F600"},
        {"checkpoints/gpt2-wide", "any \xFF bytes \U0001F600"},
        {"checkpoints/gpt2-mini", "any \xFF bytes \U0001F600"},
        {"trained/llmviz-sort", "CABBAC"},
        {"trained/slm4096", "GEORGE?\nbig dog"}};
    for (const auto& [folder, text] : known) {
        if (!std::filesystem::exists(kData / folder)) {
            GTEST_SKIP() << "the test data is not there: ../shared/data/" << folder;
        }
        const BpeTokenizer tokenizer(kData / folder / "vocab.json", kData / folder / "merges.txt");
        const Ids ids = tokenizer.encode(text);
        EXPECT_EQ(tokenizer.decode(ids.data(), ids.size()), text);
    }
}

} // namespace
} // namespace kael::text
