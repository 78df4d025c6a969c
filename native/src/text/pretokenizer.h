// Splits text into the pieces that BPE works on, as GPT-2's regular expression does:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// (openai/gpt-2, src/encoder.py). The first alternative that matches wins; together the pieces are
// the text.
#pragma once

#include <cstddef>
#include <string_view>

namespace kael::text {

// Where the piece that begins at `begin` ends; begin < text.size(). The bytes need not be UTF-8,
// see decode_utf8. O(length of the piece).
[[nodiscard]] std::size_t end_of_piece(std::string_view text, std::size_t begin) noexcept;

} // namespace kael::text
