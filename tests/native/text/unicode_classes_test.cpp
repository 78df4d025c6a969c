#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "text/unicode_classes.h"

namespace kael::text {
namespace {

constexpr char32_t kCodePoints = 0x110000;

std::size_t count(CharacterClass wanted) {
    std::size_t found = 0;
    for (char32_t code_point = 0; code_point < kCodePoints; ++code_point) {
        found += classify(code_point) == wanted ? 1 : 0;
    }
    return found;
}

// The counts are those of DerivedGeneralCategory.txt 16.0.0. tests/py/test_tokenizer_oracle.py
// compares the class of every code point with other implementations.
TEST(UnicodeClasses, CountsAreThoseOfUnicode16) {
    EXPECT_EQ(count(CharacterClass::letter), 141028U);
    EXPECT_EQ(count(CharacterClass::number), 1911U);
}

TEST(UnicodeClasses, SpaceIsThePropertyWhiteSpace) {
    const std::vector<char32_t> expected = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,
                                            0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                            0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028,
                                            0x2029, 0x202F, 0x205F, 0x3000};
    std::vector<char32_t> spaces;
    for (char32_t code_point = 0; code_point < kCodePoints; ++code_point) {
        if (classify(code_point) == CharacterClass::space) {
            spaces.push_back(code_point);
        }
    }
    EXPECT_EQ(spaces, expected);
}

TEST(UnicodeClasses, KnowsMoreThanAsciiAndCategories) {
    using enum CharacterClass;
    const std::vector<std::pair<char32_t, CharacterClass>> expected = {
        {U'a', letter},         {U'Z', letter},          {U'_', other},         {U'0', number},
        {U'\u00B2', number},    {U'\u00BD', number},     {U'\u00AA', letter},   {U'\u00DF', letter},
        {U'\u01C5', letter},    {U'\u0300', other},      {U'\u0661', number},   {U'\u0967', number},
        {U'\u2163', number},    {U'\u4F60', letter},     {U'\u3007', number},   {U'\uAC00', letter},
        {U'\u001C', other},     {U'\u180E', other},      {U'\u200B', other},    {U'\uFEFF', other},
        {U'\uE000', other},     {U'\uFFFD', other},      {U'\uFB01', letter},   {U'\uFF11', number},
        {U'\U0001F600', other}, {U'\U000323AF', letter}, {U'\U000323B0', other}};
    for (const auto& [code_point, character_class] : expected) {
        EXPECT_EQ(classify(code_point), character_class) << std::hex << unsigned{code_point};
    }
}

TEST(UnicodeClasses, WhatIsNoCodePointIsOther) {
    for (const char32_t value : {char32_t{0xD800}, char32_t{0xDFFF}, char32_t{0x10FFFF},
                                 char32_t{0x110000}, char32_t{0xFFFFFFFF}}) {
        EXPECT_EQ(classify(value), CharacterClass::other);
    }
}

} // namespace
} // namespace kael::text
