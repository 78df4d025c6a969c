#include "io/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "io/json.h"

namespace kael::io {

namespace {

bool needs_no_escape(char character) {
    return character >= 0x20 && character < 0x7F && character != '"' && character != '\\';
}

std::string valid_utf8(std::string_view text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string valid;
    valid.reserve(text.size());
    std::size_t position = 0;
    while (position < text.size()) {
        const auto [character, length] = decode_utf8(text, position);
        if (character != kInvalidCharacter) {
            valid.append(text, position, length);
        } else {
            const auto byte = static_cast<unsigned char>(text[position]);
            valid += "\\x";
            valid += kDigits[byte >> 4];
            valid += kDigits[byte & 0xF];
        }
        position += length;
    }
    return valid;
}

} // namespace

void JsonWriter::separate() {
    if (needs_comma_) {
        text_ += ", ";
    }
    needs_comma_ = true;
}

JsonWriter& JsonWriter::begin_object() {
    separate();
    text_ += '{';
    needs_comma_ = false;
    return *this;
}

JsonWriter& JsonWriter::end_object() {
    text_ += '}';
    needs_comma_ = true;
    return *this;
}

JsonWriter& JsonWriter::begin_array() {
    separate();
    text_ += '[';
    needs_comma_ = false;
    return *this;
}

JsonWriter& JsonWriter::end_array() {
    text_ += ']';
    needs_comma_ = true;
    return *this;
}

JsonWriter& JsonWriter::key(std::string_view key) {
    string(key);
    text_ += ": ";
    needs_comma_ = false;
    return *this;
}

JsonWriter& JsonWriter::null() {
    separate();
    text_ += "null";
    return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
    separate();
    text_ += value ? "true" : "false";
    return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t value) {
    separate();
    text_ += std::to_string(value);
    return *this;
}

JsonWriter& JsonWriter::real(double value) {
    if (!std::isfinite(value)) {
        return string(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    }
    separate();
    std::array<char, 32> digits{}; // a double needs at most 24
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text_.append(digits.data(), end);
    return *this;
}

JsonWriter& JsonWriter::string(std::string_view value) {
    separate();
    if (std::all_of(value.begin(), value.end(), needs_no_escape)) {
        text_.append("\"").append(value).append("\"");
    } else {
        append_json_string(text_, valid_utf8(value));
    }
    return *this;
}

JsonWriter& JsonWriter::integers(const std::vector<std::int64_t>& values) {
    begin_array();
    for (const std::int64_t value : values) {
        integer(value);
    }
    return end_array();
}

} // namespace kael::io
