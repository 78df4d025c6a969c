// GPT-2's byte alphabet: each byte has a printable symbol, so that vocab.json and merges.txt can be
// text. Bytes that are printable in Latin-1 (0x21 to 0x7E, 0xA1 to 0xAC, 0xAE to 0xFF) stand for
// themselves; the other 68 are, in order, U+0100 to U+0143 (openai/gpt-2, src/encoder.py).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kael::text {

// Appends the bytes that `symbols` (UTF-8) stand for. On the first character outside the alphabet
// it stops and answers where that is.
[[nodiscard]] std::optional<std::size_t> append_bytes_of_symbols(std::string_view symbols,
                                                                 std::string& bytes);

} // namespace kael::text
