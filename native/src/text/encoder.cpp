#include "text/encoder.h"

#include <iomanip>

#include "kael/error.h"

#include "text/pretokenizer.h"

namespace kael::text {

namespace {

constexpr std::size_t kBytesPerToken = 4; // of English text, rounded down

} // namespace

Encoder::Encoder(const MergeTable& merges, const std::array<TokenId, 256>& byte_ids,
                 std::size_t length)
    : byte_ids_(&byte_ids), merger_(merges), cache_(length) {
    ids_.reserve(length / kBytesPerToken + 1);
}

void Encoder::encode(std::string_view text, std::size_t begin, std::size_t end) {
    const std::string_view part = text.substr(0, end);
    while (begin < end) {
        const std::size_t piece_end = end_of_piece(part, begin);
        encode_piece(part, begin, piece_end);
        begin = piece_end;
    }
}

void Encoder::encode_piece(std::string_view text, std::size_t begin, std::size_t end) {
    const std::string_view piece = text.substr(begin, end - begin);
    const bool cached = piece.size() <= WordCache::kMaxWordBytes;
    if (cached) {
        if (const auto known = cache_.find(piece); !known.empty()) {
            ids_.insert(ids_.end(), known.begin(), known.end());
            return;
        }
    }
    piece_ids_.resize(piece.size());
    for (std::size_t i = 0; i < piece.size(); ++i) {
        const auto byte = static_cast<std::uint8_t>(piece[i]);
        piece_ids_[i] = (*byte_ids_)[byte];
        KAEL_CHECK(piece_ids_[i] != kNoToken, "the vocabulary has no token for the byte 0x"
                                                  << std::hex << std::uppercase << std::setfill('0')
                                                  << std::setw(2) << unsigned{byte} << std::dec
                                                  << " at offset " << begin + i << " of the text");
    }
    const auto ids = std::span<const TokenId>(piece_ids_).first(merger_.merge(piece_ids_));
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    if (cached) {
        cache_.insert(piece, ids);
    }
}

} // namespace kael::text
