// JSON from files that nobody vouches for: headers, vocabularies, configurations, indexes.
//
// Accepts RFC 8259 in UTF-8 and nothing else. Refused, each with path, byte offset and reason: a
// byte order mark, a NUL byte, text behind the value, a key twice in one object, nesting deeper
// than kMaxJsonDepth, numbers too large for a double, lone surrogates, ill-formed UTF-8. Nothing
// here recurses on its input, and memory stays in proportion to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kael::io {

// Arrays and objects inside one another: as many as the reference reader of safetensors allows.
inline constexpr int kMaxJsonDepth = 127;

enum class JsonKind {
    null,
    boolean,
    unsigned_integer, // digits alone, at most 2^64 - 1
    negative_integer, // a minus sign and digits, -0 included, at least -2^63
    real,             // every other number: 1.0, 1e0, integers beyond 64 bits
    string,
    array,
    object,
};

// "a string", "an object", ... for messages.
[[nodiscard]] std::string_view name(JsonKind kind);

enum class JsonMember {
    visit, // its value comes next
    skip,  // its value is checked to be JSON, but not visited, nor searched for keys given twice
};

// Receives a document piece by piece, for readers of large files. Every function that is not
// overridden refuses its kind. Views are valid during the call only. Throwing ends the parse.
class JsonVisitor {
public:
    virtual ~JsonVisitor() = default;

    virtual void null();
    virtual void boolean(bool value);
    virtual void unsigned_integer(std::uint64_t value);
    virtual void negative_integer(std::int64_t value);
    virtual void real(double value);
    virtual void string(std::string_view value);
    virtual void begin_array();
    virtual void end_array() {}
    virtual void begin_object();
    virtual JsonMember key(std::string_view key) = 0;
    virtual void end_object() {}

protected:
    // What the functions above do unless they are overridden.
    [[noreturn]] virtual void unexpected(JsonKind kind);
    // Throws kael::Error (invalid_file) "PATH: byte OFFSET: REASON", the offset being that of the
    // byte behind the piece that is being visited.
    [[noreturn]] void fail(const std::string& reason) const;

private:
    friend class JsonParse;
    const class JsonParse* parse_ = nullptr;
};

// Visits the one value that `text` holds. `path` and `offset`, the place of `text` in that file,
// are for messages.
void visit_json(std::string_view text, const std::filesystem::path& path, std::size_t offset,
                JsonVisitor& visitor);

// A document as a tree, for small files. About 150 bytes for each value.
struct JsonValue {
    JsonKind kind = JsonKind::null;
    bool boolean = false;
    std::uint64_t unsigned_integer = 0; // only where kind says so
    double number = 0;                  // of all three kinds of number
    std::string string;
    std::vector<JsonValue> elements;       // of an array
    std::vector<struct JsonEntry> members; // of an object, in the file's order

    // The member of that name, or nullptr; nullptr as well where this is not an object.
    [[nodiscard]] const JsonValue* find(std::string_view key) const;
};

struct JsonEntry {
    std::string key;
    JsonValue value;
};

[[nodiscard]] JsonValue parse_json(std::string_view text, const std::filesystem::path& path);

// The file's tree; a file above 16 MiB is refused.
[[nodiscard]] JsonValue read_json_file(const std::filesystem::path& path);

// Appends `text` as a JSON string, escaping what must be escaped and no more. `text` must be UTF-8.
void append_json_string(std::string& out, std::string_view text);

} // namespace kael::io
