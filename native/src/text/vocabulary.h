// The tokens of a byte-level BPE tokenizer, by id and by their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/merge_table.h"

namespace kael::text {

// Neither vocab.json nor merges.txt may be larger.
inline constexpr std::size_t kMaxTokenizerFileBytes = std::size_t{64} << 20;
// Bounds the tables that are as long as the highest id. Known GPT-2 vocabularies stay below
// 300,000.
inline constexpr TokenId kMaxTokenId = (TokenId{1} << 22) - 1;

// Tokens by id. The ids need not be consecutive.
class Vocabulary {
public:
    // From vocab.json: one object of tokens in GPT-2's byte alphabet to ids. Throws kael::Error
    // that names the path, the place and what was expected.
    [[nodiscard]] static Vocabulary read(const std::filesystem::path& path);

    // One more than the highest id.
    [[nodiscard]] std::size_t size() const noexcept { return tokens_.size(); }
    [[nodiscard]] std::size_t token_count() const noexcept { return token_count_; }
    // The bytes of a token; empty when no token has the id, which is less than size().
    [[nodiscard]] std::string_view token(std::size_t id) const noexcept {
        const Place place = tokens_[id];
        return std::string_view(bytes_).substr(place.begin, place.length);
    }

private:
    friend class VocabularyReader;
    struct Place {
        std::uint32_t begin = 0;
        std::uint32_t length = 0;
    };

    std::string bytes_; // of all tokens, one behind the other in the order of the file
    std::vector<Place> tokens_;
    std::size_t token_count_ = 0;
};

// Ids by token. Refers to the bytes of its vocabulary, which must outlive it unmoved.
class TokenIndex {
public:
    explicit TokenIndex(const Vocabulary& vocabulary);
    [[nodiscard]] std::optional<TokenId> find(std::string_view token) const;

private:
    std::unordered_map<std::string_view, TokenId> ids_;
};

} // namespace kael::text
