#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace kael {
namespace {

std::string encode(char32_t code_point) {
    const auto tail = [&](int shift) {
        return static_cast<char>(0x80U | ((code_point >> shift) & 0x3FU));
    };
    if (code_point < 0x80) {
        return {static_cast<char>(code_point)};
    }
    if (code_point < 0x800) {
        return {static_cast<char>(0xC0U | code_point >> 6), tail(0)};
    }
    if (code_point < 0x10000) {
        return {static_cast<char>(0xE0U | code_point >> 12), tail(6), tail(0)};
    }
    return {static_cast<char>(0xF0U | code_point >> 18), tail(12), tail(6), tail(0)};
}

TEST(Utf8, DecodesEveryCodePointAndRefusesSurrogates) {
    for (char32_t code_point = 0; code_point < 0x120000; ++code_point) {
        const std::string bytes = encode(code_point);
        const bool valid = code_point < 0x110000 && (code_point < 0xD800 || code_point > 0xDFFF);
        const Utf8Character character = decode_utf8(bytes, 0);
        ASSERT_EQ(character.code_point, valid ? code_point : kInvalidCharacter);
        ASSERT_EQ(character.length, valid ? bytes.size() : 1U);
    }
}

TEST(Utf8, AByteThatBeginsNoSequenceIsACharacterOfItsOwn) {
    const std::vector<std::string> texts = {"\x80",
                                            "\xBF",
                                            "\xC0\x80",
                                            "\xC1\xBF",
                                            "\xE0\x80\x80",
                                            "\xE0\x9F\xBF",
                                            "\xED\xA0\x80",
                                            "\xF0\x80\x80\x80",
                                            "\xF0\x8F\xBF\xBF",
                                            "\xF4\x90\x80\x80",
                                            "\xF5\x80\x80\x80",
                                            "\xFE",
                                            "\xFF",
                                            "\xC2",
                                            "\xC2\x41",
                                            "\xE2\x82",
                                            "\xE2\x82\x41",
                                            "\xF0\x9F\x98",
                                            "\xF0\x9F\x98\x41",
                                            "\xF0\x41\x98\x80"};
    for (const std::string& text : texts) {
        EXPECT_EQ(decode_utf8(text, 0).code_point, kInvalidCharacter)
            << testing::PrintToString(text);
        EXPECT_EQ(decode_utf8(text, 0).length, 1U) << testing::PrintToString(text);
    }
}

TEST(Utf8, ReadsAtAPositionAndNotBehindTheEnd) {
    for (const std::string_view text : {"a\u00E9", "a\u4F60", "a\U0001F600"}) {
        EXPECT_EQ(decode_utf8(text, 1).length, text.size() - 1);
        for (std::size_t length = 2; length < text.size(); ++length) {
            EXPECT_EQ(decode_utf8(text.substr(0, length), 1).code_point, kInvalidCharacter);
        }
    }
}

} // namespace
} // namespace kael
