// The byte-level BPE tokenizer of the C interface.
#include "kael/tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "capi/guard.h"

struct kael_tokenizer {
    kael::text::BpeTokenizer tokenizer;
};

extern "C" {

kael_status kael_tokenizer_load(const char* vocab_path, int64_t vocab_path_length,
                                const char* merges_path, int64_t merges_path_length,
                                kael_tokenizer** tokenizer) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tokenizer);
        *tokenizer = new kael_tokenizer{kael::text::BpeTokenizer(
            kael::capi::path(vocab_path, vocab_path_length, "vocab_path"),
            kael::capi::path(merges_path, merges_path_length, "merges_path"))};
    });
}

kael_status kael_tokenizer_vocabulary_size(const kael_tokenizer* tokenizer, int64_t* size) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tokenizer);
        KAEL_REQUIRE(size);
        *size = tokenizer->tokenizer.vocabulary_size();
    });
}

kael_status kael_tokenizer_end_of_text(const kael_tokenizer* tokenizer, int64_t* id) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tokenizer);
        KAEL_REQUIRE(id);
        *id = tokenizer->tokenizer.end_of_text().value_or(-1);
    });
}

kael_status kael_tokenizer_encode(const kael_tokenizer* tokenizer, const char* text,
                                  int64_t text_length, uint8_t allow_special, int64_t* ids,
                                  int64_t capacity, int64_t* count) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tokenizer);
        KAEL_REQUIRE(count);
        KAEL_CHECK(ids != nullptr || capacity == 0, "the argument ids is null");
        const std::vector<std::int64_t> encoded = tokenizer->tokenizer.encode(
            kael::capi::text(text, text_length, "text"), allow_special != 0);
        const auto needed = static_cast<std::int64_t>(encoded.size());
        KAEL_CHECK(needed <= capacity, "room for " << capacity << " ids, expected room for the "
                                                   << needed << " of the text");
        std::ranges::copy(encoded, ids);
        *count = needed;
    });
}

kael_status kael_tokenizer_decode(const kael_tokenizer* tokenizer, const int64_t* ids,
                                  int64_t count, char* bytes, int64_t capacity, int64_t* length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tokenizer);
        KAEL_REQUIRE(length);
        KAEL_CHECK(count >= 0, "a count of " << count << " ids, expected 0 or more");
        KAEL_CHECK(ids != nullptr || count == 0, "the argument ids is null");
        KAEL_CHECK(bytes != nullptr || capacity == 0, "the argument bytes is null");
        const std::string decoded =
            tokenizer->tokenizer.decode(ids, static_cast<std::size_t>(count));
        const auto needed = static_cast<std::int64_t>(decoded.size());
        if (needed <= capacity) {
            std::ranges::copy(decoded, bytes);
        }
        *length = needed;
    });
}

void kael_tokenizer_free(kael_tokenizer* tokenizer) {
    delete tokenizer;
}
}
