// One call of BpeTokenizer::encode: pieces to ids.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/merge_table.h"
#include "text/word_cache.h"
#include "text/word_merger.h"

namespace kael::text {

inline constexpr TokenId kNoToken = 0xFFFFFFFF;

// Holds scratch memory: one thread at a time.
class Encoder {
public:
    // `byte_ids` has kNoToken for a byte that the vocabulary lacks. `length` is about how many
    // bytes are to be encoded.
    Encoder(const MergeTable& merges, const std::array<TokenId, 256>& byte_ids, std::size_t length);

    // Appends the ids of text[begin, end), which is encoded as if it were a whole text. Throws
    // kael::Error at a byte without a token, with its offset in `text`.
    void encode(std::string_view text, std::size_t begin, std::size_t end);
    void append(TokenId id) { ids_.push_back(id); }

    [[nodiscard]] std::vector<std::int64_t> take() { return std::move(ids_); }

private:
    void encode_piece(std::string_view text, std::size_t begin, std::size_t end);

    const std::array<TokenId, 256>* byte_ids_;
    WordMerger merger_;
    WordCache cache_;
    std::vector<TokenId> piece_ids_;
    std::vector<std::int64_t> ids_;
};

} // namespace kael::text
