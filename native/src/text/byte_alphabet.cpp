#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace kael::text {

namespace {

constexpr std::size_t kAlphabetEnd = 0x144; // one more than the highest symbol
constexpr std::int16_t kNoByte = -1;

constexpr bool stands_for_itself(std::size_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
           (byte >= 0xAE && byte <= 0xFF);
}

constexpr auto kBytesOfSymbols = [] {
    std::array<std::int16_t, kAlphabetEnd> bytes{};
    bytes.fill(kNoByte);
    std::size_t next_symbol = 0x100;
    for (std::size_t byte = 0; byte < 0x100; ++byte) {
        bytes[stands_for_itself(byte) ? byte : next_symbol++] = static_cast<std::int16_t>(byte);
    }
    return bytes;
}();

} // namespace

std::optional<std::size_t> append_bytes_of_symbols(std::string_view symbols, std::string& bytes) {
    for (std::size_t position = 0; position < symbols.size();) {
        const Utf8Character symbol = decode_utf8(symbols, position);
        const std::int16_t byte =
            symbol.code_point < kAlphabetEnd ? kBytesOfSymbols[symbol.code_point] : kNoByte;
        if (byte == kNoByte) {
            return position;
        }
        bytes.push_back(static_cast<char>(byte));
        position += symbol.length;
    }
    return std::nullopt;
}

} // namespace kael::text
