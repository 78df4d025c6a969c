#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/tokenizer.h"

#include "base/mapped_file.h"
#include "message_of.h"
#include "temporary_folder.h"
#include "text/draw.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_folder.h"

namespace kael::text {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kEnd = 256; // "<|endoftext|>" of byte_vocabulary

const BytePairs kMerges = {{"t", "h"}, {"th", "e"},     {" ", "the"},     {" ", "t"},
                           {"a", "a"}, {"aa", "aa"},    {"\xF0", "\x9F"}, {"'", "s"},
                           {"1", "2"}, {"\xFF", "\xFE"}};

BpeTokenizer small_tokenizer() {
    return TokenizerFolder(byte_vocabulary(kMerges), merges_file(kMerges)).load();
}

std::int64_t id_of(std::string_view left, std::string_view right) {
    for (std::size_t i = 0; i < kMerges.size(); ++i) {
        if (kMerges[i][0] == left && kMerges[i][1] == right) {
            return kEnd + 1 + static_cast<std::int64_t>(i);
        }
    }
    throw std::out_of_range("no such merge");
}

std::string random_bytes(std::mt19937& random, std::size_t length) {
    static const std::vector<std::string> parts = {"the",
                                                   " the",
                                                   "a",
                                                   "aaaa",
                                                   "'s",
                                                   "1",
                                                   "12",
                                                   " ",
                                                   "\n",
                                                   "\xF0\x9F\x98\x80",
                                                   "\xFF",
                                                   "\xFE",
                                                   "\u00A0",
                                                   "\u4F60",
                                                   "<|endoftext|>",
                                                   "!",
                                                   std::string(1, '\0')};
    std::string bytes;
    while (bytes.size() < length) {
        bytes += draw(random, 3) == 0
                     ? std::string(1, static_cast<char>(draw(random, 256)))
                     : parts[draw(random, static_cast<std::uint32_t>(parts.size()))];
    }
    return bytes;
}

TEST(Tokenizer, MergesWithinPiecesOnly) {
    const BpeTokenizer tokenizer = small_tokenizer();
    const std::int64_t the = id_of("th", "e");
    const std::int64_t space_the = id_of(" ", "the");
    EXPECT_EQ(tokenizer.encode(""), Ids{});
    EXPECT_EQ(tokenizer.encode("the"), Ids{the});
    EXPECT_EQ(tokenizer.encode("the the"), (Ids{the, space_the}));
    EXPECT_EQ(tokenizer.encode("t h"), (Ids{'t', ' ', 'h'}));
    EXPECT_EQ(tokenizer.encode("1'2"), (Ids{'1', '\'', '2'}));
    EXPECT_EQ(tokenizer.encode("a1a"), (Ids{'a', '1', 'a'}));
    EXPECT_EQ(tokenizer.encode("aaaaaaa"), (Ids{id_of("aa", "aa"), id_of("a", "a"), 'a'}));
}

// KB082
TEST(Tokenizer, ANulByteIsAByteLikeOthers) {
    const BpeTokenizer tokenizer = small_tokenizer();
    const std::string text("the\0the\0", 8);
    const std::int64_t the = id_of("th", "e");
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(ids, (Ids{the, 0, the, 0}));
    EXPECT_EQ(tokenizer.decode(ids.data(), ids.size()), text);
}

TEST(Tokenizer, DecodingGivesBackAnyBytes) {
    const BpeTokenizer tokenizer = small_tokenizer();
    std::vector<std::string> texts;
    for (unsigned first = 0; first < 256; ++first) {
        texts.push_back({static_cast<char>(first)});
        for (unsigned second = 0; second < 256; ++second) {
            texts.push_back({static_cast<char>(first), static_cast<char>(second)});
        }
    }
    std::mt19937 random(5);
    for (int round = 0; round < 500; ++round) {
        texts.push_back(random_bytes(random, draw(random, 300)));
    }
    texts.push_back(random_bytes(random, 300'000));
    for (const std::string& text : texts) {
        for (const bool allow_special : {false, true}) {
            const Ids ids = tokenizer.encode(text, allow_special);
            ASSERT_LE(ids.size(), text.size());
            ASSERT_EQ(tokenizer.decode(ids.data(), ids.size()), text);
        }
    }
}

TEST(Tokenizer, ALongTextHasTheIdsOfItsPieces) {
    const BpeTokenizer tokenizer = small_tokenizer();
    std::mt19937 random(6);
    const std::string text = random_bytes(random, 200'000);
    Ids expected;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = end_of_piece(text, begin);
        // As one piece: a lone run of spaces is not split again.
        const Ids ids = tokenizer.encode(std::string_view(text).substr(begin, end - begin));
        expected.insert(expected.end(), ids.begin(), ids.end());
        begin = end;
    }
    EXPECT_EQ(tokenizer.encode(text), expected);
}

TEST(Tokenizer, ATextWithMorePositionsThan32BitsCountIsRefused) {
    const test::TemporaryFolder folder;
    const std::filesystem::path path = folder.write("text", "");
    std::filesystem::resize_file(path, (std::uintmax_t{1} << 31) + 1); // a hole
    const auto bytes = MappedFile::open(path);
    const std::string_view text(reinterpret_cast<const char*>(bytes->bytes().data()),
                                bytes->bytes().size());
    EXPECT_EQ(test::message_of([&] { static_cast<void>(small_tokenizer().encode(text)); }),
              "a text of 2147483649 bytes, expected at most 2147483648");
}

TEST(Tokenizer, TheSpecialTokenIsTextUnlessItIsAllowed) {
    const BpeTokenizer tokenizer = small_tokenizer();
    const std::string special = "<|endoftext|>";
    EXPECT_EQ(tokenizer.end_of_text(), kEnd);
    EXPECT_EQ(tokenizer.encode(special), Ids(special.begin(), special.end()));
    EXPECT_EQ(tokenizer.encode(special, true), Ids{kEnd});
    EXPECT_EQ(tokenizer.encode("a" + special + special + "b" + special, true),
              (Ids{'a', kEnd, kEnd, 'b', kEnd}));
    EXPECT_EQ(tokenizer.encode("<|endoftext|", true), tokenizer.encode("<|endoftext|"));
    EXPECT_EQ(tokenizer.encode("<" + special, true), (Ids{'<', kEnd}));
    EXPECT_EQ(tokenizer.decode(&kEnd, 1), special);
}

TEST(Tokenizer, TheTextBesideASpecialTokenIsATextOfItsOwn) {
    const BpeTokenizer tokenizer = small_tokenizer();
    EXPECT_EQ(tokenizer.encode("a  <|endoftext|>the", true),
              (Ids{'a', ' ', ' ', kEnd, id_of("th", "e")}));
    EXPECT_EQ(tokenizer.encode("a'<|endoftext|>s", true), (Ids{'a', '\'', kEnd, 's'}));
}

TEST(Tokenizer, AVocabularyWithoutTheSpecialToken) {
    const BpeTokenizer tokenizer =
        TokenizerFolder(R"({"<": 0, "|": 1, ">": 2, "a": 3})", "").load();
    EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
    EXPECT_EQ(tokenizer.encode("<|>a", true), (Ids{0, 1, 2, 3}));
}

TEST(Tokenizer, AByteWithoutATokenIsAnErrorAtItsOffset) {
    const BpeTokenizer tokenizer =
        TokenizerFolder(R"({"a": 0, "\u0120": 1, "<|endoftext|>": 2, "aa": 3})", "a a\n").load();
    EXPECT_EQ(tokenizer.encode("aa a"), (Ids{3, 1, 0}));
    EXPECT_EQ(test::message_of([&] { (void)tokenizer.encode("aa ab"); }),
              "the vocabulary has no token for the byte 0x62 at offset 4 of the text");
    EXPECT_EQ(test::message_of([&] { (void)tokenizer.encode("a<|endoftext|>a\n", true); }),
              "the vocabulary has no token for the byte 0x0A at offset 15 of the text");
    EXPECT_EQ(
        test::message_of([&] { (void)tokenizer.encode(std::string(100'000, 'a') + "\xC3\xA9"); }),
        "the vocabulary has no token for the byte 0xC3 at offset 100000 of the text");
}

TEST(Tokenizer, IdsMayHaveHoles) {
    const BpeTokenizer tokenizer = TokenizerFolder(R"({"b": 7, "a": 2})", "").load();
    EXPECT_EQ(tokenizer.vocabulary_size(), 8);
    const Ids ids = {7, 2, 7};
    EXPECT_EQ(tokenizer.encode("bab"), ids);
    EXPECT_EQ(tokenizer.decode(ids.data(), ids.size()), "bab");
}

TEST(Tokenizer, AnIdWithoutATokenIsAnErrorAtItsPosition) {
    const BpeTokenizer tokenizer = TokenizerFolder(R"({"b": 7, "a": 2})", "").load();
    const auto decode = [&](const Ids& ids) {
        return test::message_of([&] { (void)tokenizer.decode(ids.data(), ids.size()); });
    };
    EXPECT_EQ(decode({2, 8}), "the id 8 at position 1, expected 0 to 7");
    EXPECT_EQ(decode({-1}), "the id -1 at position 0, expected 0 to 7");
    EXPECT_EQ(decode({2, 7, std::int64_t{1} << 32}),
              "the id 4294967296 at position 2, expected 0 to 7");
    EXPECT_EQ(decode({2, 7, 3}), "the id 3 at position 2, which the vocabulary leaves out");
    EXPECT_EQ(tokenizer.decode(nullptr, 0), "");
}

// KB094, KB095
TEST(Tokenizer, ATokenMayEndInTheMiddleOfACharacter) {
    const BpeTokenizer tokenizer = small_tokenizer();
    const Ids ids = tokenizer.encode("\U0001F600");
    EXPECT_EQ(ids, (Ids{id_of("\xF0", "\x9F"), 0x98, 0x80}));
    EXPECT_EQ(tokenizer.decode(ids.data(), 2), "\xF0\x9F\x98");
}

TEST(Tokenizer, ManyThreadsMayUseOne) {
    const BpeTokenizer tokenizer = small_tokenizer();
    std::mt19937 random(7);
    const std::string text = random_bytes(random, 20'000);
    const Ids expected = tokenizer.encode(text);
    std::vector<int> right(4, 0);
    std::vector<std::thread> threads;
    for (int& mine : right) {
        threads.emplace_back([&] {
            for (int round = 0; round < 5; ++round) {
                const Ids ids = tokenizer.encode(text);
                mine += ids == expected && tokenizer.decode(ids.data(), ids.size()) == text ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(right, std::vector<int>(4, 5));
}

TEST(Tokenizer, Moves) {
    BpeTokenizer first = small_tokenizer();
    BpeTokenizer second = std::move(first);
    first = std::move(second);
    EXPECT_EQ(first.encode("the"), Ids{id_of("th", "e")});
}

} // namespace
} // namespace kael::text
