// Bytes of safetensors files, made by hand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kael::test {

// The 8 bytes that give the length of the header, little-endian.
inline std::string length_prefix(std::uint64_t length) {
    std::string prefix;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        prefix += static_cast<char>(length >> shift & 0xFF);
    }
    return prefix;
}

inline std::string safetensors_file(std::string_view header, std::string_view data) {
    return length_prefix(header.size()) + std::string(header) + std::string(data);
}

} // namespace kael::test
