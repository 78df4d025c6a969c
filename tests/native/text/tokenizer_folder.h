// Small tokenizers on disk, for tests.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kael/tokenizer.h"

#include "temporary_folder.h"

namespace kael::text {

// A folder with vocab.json and merges.txt, removed with the object.
class TokenizerFolder {
public:
    TokenizerFolder(std::string_view vocab, std::string_view merges) {
        folder_.write("vocab.json", vocab);
        folder_.write("merges.txt", merges);
    }

    [[nodiscard]] std::filesystem::path vocab_path() const { return folder_.path() / "vocab.json"; }
    [[nodiscard]] std::filesystem::path merges_path() const {
        return folder_.path() / "merges.txt";
    }
    [[nodiscard]] BpeTokenizer load() const { return {vocab_path(), merges_path()}; }

private:
    test::TemporaryFolder folder_;
};

// The symbol of `byte` in GPT-2's byte alphabet, as UTF-8.
inline std::string symbol(std::uint8_t byte) {
    unsigned code_point = 0x100;
    const auto printable = [](unsigned value) {
        return (value >= '!' && value <= '~') || (value >= 0xA1 && value != 0xAD);
    };
    for (unsigned other = 0; other < byte; ++other) {
        code_point += printable(other) ? 0 : 1;
    }
    if (printable(byte)) {
        code_point = byte;
    }
    if (code_point < 0x80) {
        return {static_cast<char>(code_point)};
    }
    return {static_cast<char>(0xC0U | code_point >> 6),
            static_cast<char>(0x80U | (code_point & 0x3FU))};
}

inline std::string symbols(std::string_view bytes) {
    std::string text;
    for (const char byte : bytes) {
        text += symbol(static_cast<std::uint8_t>(byte));
    }
    return text;
}

// The 256 bytes as ids 0 to 255, then "<|endoftext|>", then `merges` (two byte strings each).
using BytePairs = std::vector<std::array<std::string, 2>>;

inline std::string byte_vocabulary(const BytePairs& merges = {}) {
    std::string json = "{";
    int id = 0;
    const auto add = [&](const std::string& token) {
        json += id == 0 ? "\"" : ", \"";
        for (const char character : token) {
            json += character == '"' || character == '\\' ? "\\" : "";
            json += character;
        }
        json += "\": " + std::to_string(id++);
    };
    for (unsigned byte = 0; byte < 256; ++byte) {
        add(symbol(static_cast<std::uint8_t>(byte)));
    }
    add("<|endoftext|>");
    for (const auto& [left, right] : merges) {
        add(symbols(left + right));
    }
    return json + "}";
}

inline std::string merges_file(const BytePairs& merges) {
    std::string text = "#version: 0.2\n";
    for (const auto& [left, right] : merges) {
        text += symbols(left) + " " + symbols(right) + "\n";
    }
    return text;
}

} // namespace kael::text
