// JSON that kael writes, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kael::io {

// Commas and colons come by themselves; what is begun must be ended. Inside an object every value
// follows its key.
class JsonWriter {
public:
    JsonWriter& begin_object();
    JsonWriter& end_object();
    JsonWriter& begin_array();
    JsonWriter& end_array();
    JsonWriter& key(std::string_view key);

    JsonWriter& null();
    JsonWriter& boolean(bool value);
    JsonWriter& integer(std::int64_t value);
    // The digits that give the same double again; what is not finite as the string "inf", "-inf" or
    // "nan", for JSON has no such number.
    JsonWriter& real(double value);
    // Bytes that are not UTF-8 become the four characters "\xNN".
    JsonWriter& string(std::string_view value);
    JsonWriter& integers(const std::vector<std::int64_t>& values);

    [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
    void separate();

    std::string text_;
    bool needs_comma_ = false;
};

} // namespace kael::io
