#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/tokenizer.h"

#include "text/tokenizer_folder.h"

namespace kael::text {
namespace {

using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

const std::string kVocab = R"({"a": 0, "b": 1, "ab": 2, "#": 3, "##": 4, "abb": 5})";

struct BadFile {
    const char* name;
    std::string content;
    std::string expected; // in the message, behind the path
};

void PrintTo(const BadFile& file, std::ostream* out) {
    *out << file.name;
}

std::string name_of(const testing::TestParamInfo<BadFile>& info) {
    return info.param.name;
}

// The message of the error that loading gives, which is one line and names `path`.
std::string failure(const TokenizerFolder& folder, const std::filesystem::path& path) {
    try {
        (void)folder.load();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_file);
        EXPECT_THAT(error.message(), HasSubstr(path.native()));
        EXPECT_EQ(error.message().find('\n'), std::string::npos);
        return error.message();
    }
    return "no error";
}

class BadVocabulary : public testing::TestWithParam<BadFile> {};

TEST_P(BadVocabulary, IsOneClearError) {
    const TokenizerFolder folder(GetParam().content, "");
    EXPECT_THAT(failure(folder, folder.vocab_path()), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadVocabulary,
    testing::Values(
        BadFile{"Empty", "", "byte 0: "}, //
        BadFile{"NotJson", R"({"a": 0,})", "byte 8: "},
        BadFile{"CutShort", R"({"a": 0, "b")", "byte 12: "},
        BadFile{"NoTokens", "{}", "no tokens, expected one or more"},
        BadFile{"Array", R"(["a", "b"])", "an array, expected an object of tokens to ids"},
        BadFile{"Number", "5", "an unsigned integer, expected an object of tokens to ids"},
        BadFile{"String", R"("a")", "a string, expected an object of tokens to ids"},
        BadFile{"NestedObject", R"({"a": {"b": 1}})", R"(the token "a" has an object for its id)"},
        BadFile{"NestedArray", R"({"a": [1]})", R"(the token "a" has an array for its id)"},
        BadFile{"IdOfText", R"({"a": "0"})",
                R"(the token "a" has a string for its id, expected 0 to 4194303)"},
        BadFile{"IdNull", R"({"a": null})", R"(the token "a" has null for its id)"},
        BadFile{"IdTrue", R"({"a": true})", R"(the token "a" has a boolean for its id)"},
        BadFile{"IdNegative", R"({"a": 0, "b": -1})",
                R"(the token "b" has a negative integer for its id)"},
        BadFile{"IdReal", R"({"a": 1.0})", R"(the token "a" has a number that is not an integer)"},
        BadFile{"IdHuge", R"({"a": 0, "b": 4194304})",
                R"(the token "b" has 4194304 for its id, expected 0 to 4194303)"},
        BadFile{"IdBeyond32Bits", R"({"a": 4294967296})",
                R"(the token "a" has 4294967296 for its id)"},
        BadFile{"IdBeyond64Bits", R"({"a": 18446744073709551616})",
                R"(the token "a" has a number)"},
        BadFile{"IdTwice", R"({"a": 0, "b": 1, "c": 0})",
                R"(the token "c" has the id 0, which another token has already)"},
        BadFile{"TokenTwice", R"({"a": 0, "a": 1})", R"("a" is given twice)"},
        BadFile{"EmptyToken", R"({"a": 0, "": 1})", "an empty token, expected one byte or more"},
        BadFile{
            "SpaceAsItself", R"({"a b": 0})",
            R"(the token "a b" has a character at its byte 1 that is not in GPT-2's byte alphabet)"},
        BadFile{"SymbolBehindTheAlphabet", R"({"x\u0144": 0})", "at its byte 1 that is not in"},
        BadFile{"SoftHyphen", R"({"\u00ad": 0})", "at its byte 0 that is not in"},
        BadFile{"Emoji", R"({"\ud83d\ude00": 0})", "at its byte 0 that is not in"},
        BadFile{"TextBehind", R"({"a": 0} x)", "byte 9: "}),
    name_of);

class BadMerges : public testing::TestWithParam<BadFile> {};

TEST_P(BadMerges, IsOneClearError) {
    const TokenizerFolder folder(kVocab, GetParam().content);
    EXPECT_THAT(failure(folder, folder.merges_path()), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadMerges,
    testing::Values(
        BadFile{"OneToken", "#version: 0.2\na b\nab\n",
                R"(line 3: "ab", expected two tokens with one space)"},
        BadFile{"ThreeTokens", "a b b\n", R"(line 1: "a b b", expected two tokens)"},
        BadFile{"TwoSpaces", "a  b\n", R"(line 1: "a  b", expected two tokens)"},
        BadFile{"SpaceInFront", " a b\n", R"(line 1: " a b", expected two tokens)"},
        BadFile{"SpaceBehind", "a b \n", R"(line 1: "a b ", expected two tokens)"},
        BadFile{"NoLeft", " b\n", R"(line 1: " b", expected two tokens)"},
        BadFile{"NoRight", "a \n", R"(line 1: "a ", expected two tokens)"},
        BadFile{"OnlyASpace", "a b\n \n", R"(line 2: " ", expected two tokens)"},
        BadFile{"EmptyLineBetween", "a b\n\nab b\n", R"(line 2: "", expected two tokens)"},
        BadFile{"HeaderOnTheSecondLine", "a b\n#version: 0.2\n",
                R"(line 2: the token on the left of "#version: 0.2" is not in the vocabulary)"},
        BadFile{"LeftUnknown", "c b\n",
                R"(line 1: the token on the left of "c b" is not in the vocabulary)"},
        BadFile{"RightUnknown", "a c\n",
                R"(line 1: the token on the right of "a c" is not in the vocabulary)"},
        BadFile{"ResultUnknown", "a b\nb a\n",
                R"(line 2: the result of "b a" is not in the vocabulary)"},
        BadFile{"Twice", "#version: 0.2\na b\nab b\na b\n# #\n",
                "line 4: the merge of line 2 again, expected each once"},
        BadFile{"SymbolOutside", "a \xE4\xBD\xA0\n",
                "at its byte 0 that is not in GPT-2's byte alphabet"},
        BadFile{"NotUtf8", "a b\nab \xFF\n",
                R"(line 2: the token "\xff" has a character at its byte 0)"},
        BadFile{"NulByte", std::string("a b\0\n", 5),
                R"(line 1: the token "b\x00" has a character at its byte 1)"},
        BadFile{"Tab", "a\tb\n", "line 1: "},
        BadFile{"CarriageReturnsAlone", "#version: 0.2\ra b\rab b\r",
                "line 1: a carriage return that no line feed follows"},
        BadFile{"CarriageReturnsAloneWithoutHeader", "a b\rab b\r", "line 1: "},
        BadFile{"ByteOrderMark", "\xEF\xBB\xBF#version: 0.2\na b\n", "line 1: "}),
    name_of);

TEST(TokenizerFiles, MissingFilesAndFoldersAreNamed) {
    const TokenizerFolder folder(kVocab, "");
    const std::filesystem::path missing = folder.vocab_path().parent_path() / "missing.json";
    for (const bool vocab : {true, false}) {
        try {
            const BpeTokenizer tokenizer(vocab ? missing : folder.vocab_path(),
                                         vocab ? folder.merges_path() : missing);
            FAIL() << "nothing was thrown";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::not_found);
            EXPECT_THAT(error.message(), HasSubstr(missing.native()));
        }
    }
    try {
        const BpeTokenizer tokenizer(folder.vocab_path().parent_path(), folder.merges_path());
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io_error);
    }
}

TEST(TokenizerFiles, MergesMayLackHeaderAndLastLineEnd) {
    for (const char* merges :
         {"#version: 0.2\na b\nab b\n", "a b\nab b\n", "a b\nab b", "a b\r\nab b\r\n",
          "#version: 0.2\r\na b\r\nab b", "a b\nab b\n\n", "a b\nab b\n\r\n\n"}) {
        EXPECT_EQ(TokenizerFolder(kVocab, merges).load().encode("abbab"), (Ids{5, 2}))
            << testing::PrintToString(merges);
    }
}

// Bytes and tokens that GPT-2's pattern would cut need no merges.
TEST(TokenizerFiles, AVocabularyOfBytesMayHaveNoMerges) {
    const std::string vocab = R"({"a": 0, "b": 1, "<|endoftext|>": 2, "<pad>": 3, "[UNK]": 4})";
    for (const char* merges : {"", "\n", "\r\n", "#version: 0.2", "#version: 0.2\n"}) {
        EXPECT_EQ(TokenizerFolder(vocab, merges).load().encode("ab"), (Ids{0, 1}))
            << testing::PrintToString(merges);
    }
}

TEST(TokenizerFiles, LostMergesAreNoticed) {
    for (const char* token : {"ab", "\u0120a", "\u0120\u0120", "12", "##", "\u00c3\u00a9"}) {
        const TokenizerFolder folder(R"({"a": 0, "<|endoftext|>": 1, ")" + std::string(token) +
                                         R"(": 2})",
                                     "#version: 0.2\n");
        EXPECT_THAT(failure(folder, folder.merges_path()),
                    HasSubstr("no merges, expected those that make the token "))
            << token;
    }
    const TokenizerFolder folder(kVocab, "");
    EXPECT_THAT(failure(folder, folder.merges_path()),
                HasSubstr(R"(make the token "ab" of the vocabulary)"));
}

TEST(TokenizerFiles, OnlyAFirstLineWithVersionIsAHeader) {
    EXPECT_EQ(TokenizerFolder(kVocab, "# #\na b\n").load().encode("##ab"), (Ids{4, 2}));
    EXPECT_EQ(TokenizerFolder(kVocab, "#version\n# #\na b\n").load().encode("##ab"), (Ids{4, 2}));
}

TEST(TokenizerFiles, SpaceAroundTheJsonIsFine) {
    EXPECT_EQ(TokenizerFolder(" \r\n{ \"a\" : 0 }\n ", "").load().vocabulary_size(), 1);
}

TEST(TokenizerFiles, TheHighestIdIsAllowed) {
    const BpeTokenizer tokenizer = TokenizerFolder(R"({"a": 4194303})", "").load();
    EXPECT_EQ(tokenizer.vocabulary_size(), 4194304);
    EXPECT_EQ(tokenizer.encode("a"), Ids{4194303});
}

TEST(TokenizerFiles, AFileAboveTheLimitIsRefusedUnread) {
    const TokenizerFolder folder(kVocab, "");
    std::filesystem::resize_file(folder.vocab_path(), (std::uintmax_t{64} << 20) + 1);
    EXPECT_THAT(failure(folder, folder.vocab_path()), HasSubstr("expected at most 67108864"));
}

} // namespace
} // namespace kael::text
