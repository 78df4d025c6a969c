#include <string>

#include <gtest/gtest.h>

#include "base/in_quotes.h"

namespace {

using kael::in_quotes;
using namespace std::string_literals;

TEST(InQuotes, LeavesPlainTextAlone) {
    EXPECT_EQ(in_quotes(""), "\"\"");
    EXPECT_EQ(in_quotes("h.0.attn.bias"), "\"h.0.attn.bias\"");
    EXPECT_EQ(in_quotes("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
              "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
}

TEST(InQuotes, EscapesWhatWouldBreakALineOrUtf8) {
    EXPECT_EQ(in_quotes("a\nb\r\t\"\\"), R"("a\nb\r\t\"\\")");
    EXPECT_EQ(in_quotes("\0\x1B\x7F"s), R"("\x00\x1b\x7f")");
    EXPECT_EQ(in_quotes("\xFF\xC3"), R"("\xff\xc3")");
    EXPECT_EQ(in_quotes("\xC0\x80\xED\xA0\x80\xF5"), R"("\xc0\x80\xed\xa0\x80\xf5")");
    EXPECT_EQ(in_quotes("\xE2\x82"
                        "A"),
              R"("\xe2\x82A")");
}

TEST(InQuotes, CutsLongTextBetweenCharacters) {
    const std::string text(1000, 'a');
    EXPECT_EQ(in_quotes(text), "\"" + std::string(120, 'a') + "\"... (1000 bytes)");
    EXPECT_EQ(in_quotes(std::string(119, 'a') + "\xC3\xA9"),
              "\"" + std::string(119, 'a') + "\xC3\xA9\"");
}

} // namespace
