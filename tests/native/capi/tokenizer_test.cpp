// The C interface of the tokenizer, called as a foreign program calls it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kael/kael.h"

#include "text/tokenizer_folder.h"

namespace {

using kael::text::TokenizerFolder;
using testing::HasSubstr;

std::string last_message() {
    std::int64_t length = -1;
    const char* text = kael_last_error_message(&length);
    return {text, static_cast<std::size_t>(length)};
}

kael_status load(const TokenizerFolder& folder, kael_tokenizer** tokenizer) {
    const std::string vocab = folder.vocab_path().native();
    const std::string merges = folder.merges_path().native();
    return kael_tokenizer_load(vocab.data(), static_cast<std::int64_t>(vocab.size()), merges.data(),
                               static_cast<std::int64_t>(merges.size()), tokenizer);
}

class CTokenizer : public testing::Test {
protected:
    void SetUp() override {
        const kael::text::BytePairs merges = {{"t", "h"}, {"th", "e"}};
        const TokenizerFolder folder(kael::text::byte_vocabulary(merges),
                                     kael::text::merges_file(merges));
        ASSERT_EQ(load(folder, &tokenizer_), KAEL_OK) << last_message();
    }
    void TearDown() override { kael_tokenizer_free(tokenizer_); }

    kael_status encode(std::string_view text, std::uint8_t allow_special,
                       std::vector<std::int64_t>& ids, std::int64_t& count) const {
        return kael_tokenizer_encode(tokenizer_, text.data(),
                                     static_cast<std::int64_t>(text.size()), allow_special,
                                     ids.data(), static_cast<std::int64_t>(ids.size()), &count);
    }

    kael_tokenizer* tokenizer_ = nullptr;
};

TEST_F(CTokenizer, TellsItsSizeAndItsSpecialToken) {
    std::int64_t value = 0;
    ASSERT_EQ(kael_tokenizer_vocabulary_size(tokenizer_, &value), KAEL_OK);
    EXPECT_EQ(value, 259);
    ASSERT_EQ(kael_tokenizer_end_of_text(tokenizer_, &value), KAEL_OK);
    EXPECT_EQ(value, 256);

    kael_tokenizer* without = nullptr;
    ASSERT_EQ(load(TokenizerFolder(R"({"a": 0})", ""), &without), KAEL_OK);
    ASSERT_EQ(kael_tokenizer_end_of_text(without, &value), KAEL_OK);
    EXPECT_EQ(value, -1);
    kael_tokenizer_free(without);
    kael_tokenizer_free(nullptr);
}

// KB082
TEST_F(CTokenizer, EncodesTextWithANulByte) {
    std::vector<std::int64_t> ids(5, -1);
    std::int64_t count = -1;
    ASSERT_EQ(encode({"the\0a", 5}, 0, ids, count), KAEL_OK);
    ASSERT_EQ(count, 3);
    EXPECT_EQ(ids, (std::vector<std::int64_t>{258, 0, 'a', -1, -1}));
}

TEST_F(CTokenizer, TheSpecialTokenIsTextUnlessItIsAllowed) {
    std::vector<std::int64_t> ids(14);
    std::int64_t count = -1;
    ASSERT_EQ(encode("a<|endoftext|>", 0, ids, count), KAEL_OK);
    EXPECT_EQ(count, 14);
    ASSERT_EQ(encode("a<|endoftext|>", 1, ids, count), KAEL_OK);
    ASSERT_EQ(count, 2);
    EXPECT_EQ(ids[1], 256);
}

TEST_F(CTokenizer, RoomForTooFewIdsIsAnErrorThatWritesNothing) {
    std::vector<std::int64_t> ids(1, -1);
    std::int64_t count = -1;
    EXPECT_EQ(encode("thea ", 0, ids, count), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(last_message(), "room for 1 ids, expected room for the 3 of the text");
    EXPECT_EQ(ids[0], -1);
    EXPECT_EQ(count, -1);
    ASSERT_EQ(encode("", 0, ids, count), KAEL_OK);
    EXPECT_EQ(count, 0);
}

TEST_F(CTokenizer, DecodeAsksForRoomAndWritesOnlyWhatFits) {
    const std::vector<std::int64_t> ids = {258, 0, 0xFF};
    std::int64_t length = -1;
    ASSERT_EQ(kael_tokenizer_decode(tokenizer_, ids.data(), 3, nullptr, 0, &length), KAEL_OK);
    EXPECT_EQ(length, 5);
    std::string bytes(5, '?');
    ASSERT_EQ(kael_tokenizer_decode(tokenizer_, ids.data(), 3, bytes.data(), 4, &length), KAEL_OK);
    EXPECT_EQ(length, 5);
    EXPECT_EQ(bytes, "?????");
    ASSERT_EQ(kael_tokenizer_decode(tokenizer_, ids.data(), 3, bytes.data(), 5, &length), KAEL_OK);
    EXPECT_EQ(bytes, std::string_view("the\0\xFF", 5));
    ASSERT_EQ(kael_tokenizer_decode(tokenizer_, nullptr, 0, nullptr, 0, &length), KAEL_OK);
    EXPECT_EQ(length, 0);
}

TEST_F(CTokenizer, BadArgumentsAreNamed) {
    std::int64_t value = -1;
    std::int64_t id = 259;
    char byte = '?';
    const auto refused = [](kael_status status, const char* expected) {
        EXPECT_EQ(status, KAEL_INVALID_ARGUMENT);
        EXPECT_THAT(last_message(), HasSubstr(expected));
    };
    refused(kael_tokenizer_encode(nullptr, "a", 1, 0, &id, 1, &value), "tokenizer is null");
    refused(kael_tokenizer_encode(tokenizer_, nullptr, 1, 0, &id, 1, &value), "text is null");
    refused(kael_tokenizer_encode(tokenizer_, "a", -1, 0, &id, 1, &value), "-1");
    refused(kael_tokenizer_encode(tokenizer_, "a", 1, 0, nullptr, 1, &value), "ids is null");
    refused(kael_tokenizer_encode(tokenizer_, "a", 1, 0, &id, 1, nullptr), "count is null");
    refused(kael_tokenizer_encode(tokenizer_, "a", 1, 0, &id, -1, &value), "room for -1 ids");
    refused(kael_tokenizer_decode(tokenizer_, &id, 1, &byte, 1, &value),
            "the id 259 at position 0, expected 0 to 258");
    refused(kael_tokenizer_decode(tokenizer_, &id, -1, &byte, 1, &value), "a count of -1 ids");
    refused(kael_tokenizer_decode(tokenizer_, nullptr, 1, &byte, 1, &value), "ids is null");
    refused(kael_tokenizer_decode(tokenizer_, &id, 1, nullptr, 1, &value), "bytes is null");
    refused(kael_tokenizer_decode(tokenizer_, &id, 1, &byte, 1, nullptr), "length is null");
    refused(kael_tokenizer_vocabulary_size(nullptr, &value), "tokenizer is null");
    refused(kael_tokenizer_vocabulary_size(tokenizer_, nullptr), "size is null");
    refused(kael_tokenizer_end_of_text(tokenizer_, nullptr), "id is null");
    refused(kael_tokenizer_load("v", 1, "m", 1, nullptr), "tokenizer is null");
    refused(kael_tokenizer_load("", 0, "m", 1, &tokenizer_), "vocab_path is empty");
    EXPECT_EQ(value, -1);
}

TEST(CTokenizerLoad, TellsAMissingFileFromABadOne) {
    kael_tokenizer* tokenizer = nullptr;
    EXPECT_EQ(kael_tokenizer_load("absent/v", 8, "absent/m", 8, &tokenizer), KAEL_NOT_FOUND);
    EXPECT_THAT(last_message(), HasSubstr("absent/v"));
    EXPECT_EQ(load(TokenizerFolder("[]", ""), &tokenizer), KAEL_INVALID_FILE);
    EXPECT_EQ(tokenizer, nullptr);
}

} // namespace
