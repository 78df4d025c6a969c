#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "text/draw.h"
#include "text/pretokenizer.h"
#include "text/unicode_classes.h"

namespace kael::text {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text) {
    Pieces pieces;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = end_of_piece(text, begin);
        EXPECT_GT(end, begin);
        EXPECT_LE(end, text.size());
        pieces.emplace_back(text.substr(begin, end - begin));
        begin = end;
    }
    return pieces;
}

TEST(Pretokenizer, ASpaceBelongsToTheWordBehindIt) {
    EXPECT_EQ(split(""), Pieces{});
    EXPECT_EQ(split("Hello world"), (Pieces{"Hello", " world"}));
    EXPECT_EQ(split(" a 1 !"), (Pieces{" a", " 1", " !"}));
    EXPECT_EQ(split("abc123def"), (Pieces{"abc", "123", "def"}));
    EXPECT_EQ(split("snake_case"), (Pieces{"snake", "_", "case"}));
    EXPECT_EQ(split("...!!! ?"), (Pieces{"...!!!", " ?"}));
}

TEST(Pretokenizer, OnlyTheSpaceItselfJoinsAWord) {
    EXPECT_EQ(split("a\tb"), (Pieces{"a", "\t", "b"}));
    EXPECT_EQ(split("a\nb"), (Pieces{"a", "\n", "b"}));
    EXPECT_EQ(split("a\u00A0b"), (Pieces{"a", "\u00A0", "b"}));
    EXPECT_EQ(split("\t a"), (Pieces{"\t", " a"}));
    EXPECT_EQ(split(" \ta"), (Pieces{" ", "\t", "a"}));
}

TEST(Pretokenizer, ARunOfSpacesLeavesItsLastOneToTheNextWord) {
    EXPECT_EQ(split("a   b"), (Pieces{"a", "  ", " b"}));
    EXPECT_EQ(split("a  "), (Pieces{"a", "  "}));
    EXPECT_EQ(split("   "), (Pieces{"   "}));
    EXPECT_EQ(split("a\n\nb"), (Pieces{"a", "\n", "\n", "b"}));
    EXPECT_EQ(split("  \n  x"), (Pieces{"  \n ", " x"}));
    EXPECT_EQ(split("a\u00A0\u00A0b"), (Pieces{"a", "\u00A0", "\u00A0", "b"}));
    EXPECT_EQ(split("a\u00A0 b"), (Pieces{"a", "\u00A0", " b"}));
    EXPECT_EQ(split("a\u3000\u2028\u3000b"), (Pieces{"a", "\u3000\u2028", "\u3000", "b"}));
}

// KB092
TEST(Pretokenizer, ContractionsAreLowerCaseWithAnAsciiApostrophe) {
    EXPECT_EQ(split("I'm you're they've he'll she'd it's don't"),
              (Pieces{"I", "'m", " you", "'re", " they", "'ve", " he", "'ll", " she", "'d", " it",
                      "'s", " don", "'t"}));
    EXPECT_EQ(split("I'M"), (Pieces{"I", "'", "M"}));
    EXPECT_EQ(split("it\u2019s"), (Pieces{"it", "\u2019", "s"}));
    EXPECT_EQ(split("x'reply"), (Pieces{"x", "'re", "ply"}));
    EXPECT_EQ(split("'tis"), (Pieces{"'t", "is"}));
    EXPECT_EQ(split("''s"), (Pieces{"''", "s"}));
    EXPECT_EQ(split(" 's"), (Pieces{" '", "s"}));
    EXPECT_EQ(split("!'s"), (Pieces{"!'", "s"}));
    EXPECT_EQ(split("'s's"), (Pieces{"'s", "'s"}));
    EXPECT_EQ(split("'"), Pieces{"'"});
    EXPECT_EQ(split("'r"), (Pieces{"'", "r"}));
    EXPECT_EQ(split("'l l"), (Pieces{"'", "l", " l"}));
}

// KB091
TEST(Pretokenizer, LettersAndNumbersAreThoseOfUnicode) {
    EXPECT_EQ(split("x\u00B2"), (Pieces{"x", "\u00B2"}));
    EXPECT_EQ(split("4 \u00BD"), (Pieces{"4", " \u00BD"}));
    EXPECT_EQ(split("e\u0301"), (Pieces{"e", "\u0301"}));
    EXPECT_EQ(split("\u4F60\u597D\u0661"), (Pieces{"\u4F60\u597D", "\u0661"}));
    EXPECT_EQ(split("a\u200Bb"), (Pieces{"a", "\u200B", "b"}));
    EXPECT_EQ(split("\x1C\x1C\x1C"
                    "b"),
              (Pieces{"\x1C\x1C\x1C", "b"}));
    EXPECT_EQ(split("\u0085\u0085\u0085b"), (Pieces{"\u0085\u0085", "\u0085", "b"}));
}

TEST(Pretokenizer, TheClassesOfAsciiAreThoseOfUnicode) {
    for (int value = 0; value < 0x80; ++value) {
        const char byte = static_cast<char>(value);
        const CharacterClass expected = classify(static_cast<char32_t>(byte));
        const auto same_piece = [&](char before) {
            return split(std::string{before, byte}).size() == 1;
        };
        EXPECT_EQ(same_piece('a'), expected == CharacterClass::letter) << value;
        EXPECT_EQ(same_piece('1'), expected == CharacterClass::number) << value;
        EXPECT_EQ(same_piece('\n'), expected == CharacterClass::space) << value;
        EXPECT_EQ(same_piece('!'), expected == CharacterClass::other) << value;
    }
}

TEST(Pretokenizer, AnInvalidByteIsNeitherLetterNorNumberNorSpace) {
    EXPECT_EQ(split("a\xFF"
                    "b"),
              (Pieces{"a", "\xFF", "b"}));
    EXPECT_EQ(split(" \xFF\xFE!"), (Pieces{" \xFF\xFE!"}));
    EXPECT_EQ(split("a\xE4\xBD"), (Pieces{"a", "\xE4\xBD"}));
    EXPECT_EQ(split("\xE4\xBD\xA0\xE4\xBD"
                    "a"),
              (Pieces{"\xE4\xBD\xA0", "\xE4\xBD", "a"}));
    EXPECT_EQ(split("\x85"), Pieces{"\x85"}); // U+0085 only as C2 85
    EXPECT_EQ(split(std::string_view("a\0b", 3)), (Pieces{"a", std::string(1, '\0'), "b"}));
}

TEST(Pretokenizer, ThePiecesAreTheText) {
    std::mt19937 random(1);
    const std::vector<std::string> parts = {"a", "s",    "re",     "1",      "'",
                                            " ", "\n",   "\u00A0", "\u00BD", "\u4F60",
                                            "!", "\xFF", "\xE4",   "\xBD",   std::string(1, '\0')};
    for (int round = 0; round < 2000; ++round) {
        std::string text;
        for (auto length = draw(random, 20); length > 0; --length) {
            text += parts[draw(random, static_cast<std::uint32_t>(parts.size()))];
        }
        std::string joined;
        for (const std::string& piece : split(text)) {
            joined += piece;
        }
        ASSERT_EQ(joined, text);
    }
}

} // namespace
} // namespace kael::text
