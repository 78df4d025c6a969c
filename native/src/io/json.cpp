#include "io/json.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <sstream>

#include <nlohmann/json.hpp>

#include "kael/error.h"

#include "base/in_quotes.h"
#include "base/mapped_file.h"

namespace kael::io {

namespace {

constexpr std::size_t kMaxTreeFileBytes = std::size_t{16} << 20;

[[noreturn]] void fail_at(const std::filesystem::path& path, std::size_t offset,
                          const std::string& reason) {
    std::ostringstream message;
    message << path.string() << ": byte " << offset << ": " << reason;
    throw Error(ErrorCode::invalid_file, __FILE__, __LINE__, "well-formed JSON", message.str());
}

// Reads characters for nlohmann's lexer and leaves how many it has read in `*count`, which a
// visitor's error needs and the lexer does not tell.
class CountingIterator {
public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    CountingIterator() = default;
    CountingIterator(std::string_view text, std::size_t index, std::size_t* count)
        : text_(text), index_(index), count_(count) {}

    reference operator*() const { return text_[index_]; }
    CountingIterator& operator++() {
        *count_ = ++index_;
        return *this;
    }
    CountingIterator operator++(int) {
        const CountingIterator before = *this;
        ++*this;
        return before;
    }
    friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
        return a.index_ == b.index_;
    }
    friend bool operator!=(const CountingIterator& a, const CountingIterator& b) {
        return !(a == b);
    }

private:
    std::string_view text_;
    std::size_t index_ = 0;
    std::size_t* count_ = nullptr;
};

// The keys of the objects that are open, in one stack. Keys given twice are found by sorting when
// their object ends: n log n whatever the keys are, so that no choice of keys is slow.
class OpenKeys {
public:
    struct Duplicate {
        std::string key;
        std::size_t offset;
        bool found;
    };

    void begin_object() { begins_.push_back({keys_.size(), bytes_.size()}); }

    void add(std::string_view key, std::size_t offset) {
        keys_.push_back({std::hash<std::string_view>{}(key), bytes_.size(), key.size(), offset});
        bytes_ += key;
    }

    // Drops the keys of the innermost object and tells the first one that it had twice.
    Duplicate end_object() {
        const Begin begin = begins_.back();
        begins_.pop_back();
        const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(begin.key);
        std::sort(first, keys_.end(), [this](const Key& a, const Key& b) { return before(a, b); });
        Duplicate duplicate{{}, 0, false};
        for (auto key = first; keys_.end() - key > 1; ++key) {
            if (same(key[0], key[1]) && (!duplicate.found || key[1].offset < duplicate.offset)) {
                duplicate = {std::string(text(key[1])), key[1].offset, true};
            }
        }
        keys_.erase(first, keys_.end());
        bytes_.resize(begin.byte);
        return duplicate;
    }

private:
    struct Key {
        std::size_t hash;
        std::size_t begin; // in bytes_
        std::size_t length;
        std::size_t offset; // in the document
    };
    struct Begin {
        std::size_t key;
        std::size_t byte;
    };

    [[nodiscard]] std::string_view text(const Key& key) const {
        return std::string_view(bytes_).substr(key.begin, key.length);
    }
    [[nodiscard]] bool same(const Key& a, const Key& b) const {
        return a.hash == b.hash && text(a) == text(b);
    }
    [[nodiscard]] bool before(const Key& a, const Key& b) const {
        if (a.hash != b.hash) {
            return a.hash < b.hash;
        }
        const int order = text(a).compare(text(b));
        return order != 0 ? order < 0 : a.offset < b.offset;
    }

    std::string bytes_;
    std::vector<Key> keys_;
    std::vector<Begin> begins_;
};

// nlohmann's text without its prefix ("[json.exception...] parse error at line 1, column 2: ") and
// without the quotation of the input, which may be of any length and need not be UTF-8.
std::string reason_of(const nlohmann::json::exception& error) {
    if (dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr) {
        return "a number too large for a double";
    }
    std::string_view text = error.what();
    if (const auto start = text.find("syntax error"); start != std::string_view::npos) {
        text.remove_prefix(start);
    }
    return std::string(text.substr(0, text.find("; last read")));
}

} // namespace

// One parse: takes nlohmann's events, checks what nlohmann does not, and hands them on.
class JsonParse {
public:
    JsonParse(std::string_view text, const std::filesystem::path& path, std::size_t offset,
              JsonVisitor& visitor)
        : text_(text), path_(path), offset_(offset), visitor_(visitor) {
        visitor_.parse_ = this;
    }
    JsonParse(const JsonParse&) = delete;
    JsonParse& operator=(const JsonParse&) = delete;
    ~JsonParse() { visitor_.parse_ = nullptr; }

    void run() {
        // nlohmann skips a byte order mark and takes a NUL byte for the end of the text.
        if (text_.starts_with("\xEF\xBB\xBF")) {
            fail_at(path_, offset_, "a byte order mark is not JSON");
        }
        if (const auto nul = text_.find('\0'); nul != std::string_view::npos) {
            fail_at(path_, offset_ + nul, "a NUL byte is not JSON");
        }
        nlohmann::json::sax_parse(CountingIterator(text_, 0, &bytes_read_),
                                  CountingIterator(text_, text_.size(), &bytes_read_), this);
    }

    [[noreturn]] void fail(const std::string& reason) const { fail_at(path_, here(), reason); }

    // nlohmann's events. They answer true to go on; failures throw.
    bool null() {
        return visit([&] { visitor_.null(); });
    }
    bool boolean(bool value) {
        return visit([&] { visitor_.boolean(value); });
    }
    bool number_integer(std::int64_t value) {
        return visit([&] { visitor_.negative_integer(value); });
    }
    bool number_unsigned(std::uint64_t value) {
        return visit([&] { visitor_.unsigned_integer(value); });
    }
    bool number_float(double value, const std::string& /*text*/) {
        return visit([&] { visitor_.real(value); });
    }
    bool string(const std::string& value) {
        return visit([&] { visitor_.string(value); });
    }
    bool binary(const std::vector<std::uint8_t>& /*value*/) { return false; } // not in JSON text

    bool start_array(std::size_t /*elements*/) {
        enter();
        return visit([&] { visitor_.begin_array(); });
    }
    bool end_array() {
        --depth_;
        return visit([&] { visitor_.end_array(); });
    }
    bool start_object(std::size_t /*members*/) {
        enter();
        return visit([&] {
            visitor_.begin_object();
            keys_.begin_object();
        });
    }
    bool key(const std::string& key) {
        if (skipping() && depth_ > skip_depth_) {
            return true;
        }
        keys_.add(key, here());
        skip_depth_ = visitor_.key(key) == JsonMember::skip ? depth_ : kNoSkip;
        return true;
    }
    bool end_object() {
        --depth_;
        if (skip_depth_ == depth_ + 1) {
            skip_depth_ = kNoSkip; // the object whose last member was skipped ends here
        }
        return visit([&] {
            const OpenKeys::Duplicate duplicate = keys_.end_object();
            if (duplicate.found) {
                fail_at(path_, duplicate.offset,
                        "the key " + in_quotes(duplicate.key) + " is given twice");
            }
            visitor_.end_object();
        });
    }
    bool parse_error(std::size_t position, const std::string& /*token*/,
                     const nlohmann::json::exception& error) {
        // `position` counts the bytes read, the wrong one or the end of the text included.
        fail_at(path_, offset_ + (position == 0 ? 0 : position - 1), reason_of(error));
    }

private:
    static constexpr int kNoSkip = kMaxJsonDepth + 1;

    [[nodiscard]] std::size_t here() const { return offset_ + bytes_read_; }
    [[nodiscard]] bool skipping() const { return skip_depth_ != kNoSkip; }

    template <typename Event>
    bool visit(Event&& event) {
        if (!skipping()) {
            std::forward<Event>(event)();
        }
        return true;
    }

    void enter() {
        if (++depth_ > kMaxJsonDepth) {
            fail("more than " + std::to_string(kMaxJsonDepth) +
                 " arrays and objects in one another");
        }
    }

    std::string_view text_;
    const std::filesystem::path& path_;
    std::size_t offset_;
    JsonVisitor& visitor_;
    std::size_t bytes_read_ = 0;
    int depth_ = 0;
    int skip_depth_ = kNoSkip; // the depth of the object whose member is being skipped
    OpenKeys keys_;
};

std::string_view name(JsonKind kind) {
    constexpr std::array<std::string_view, 8> kNames = {
        "null",
        "a boolean",
        "an unsigned integer",
        "a negative integer",
        "a number that is not an integer of 64 bits",
        "a string",
        "an array",
        "an object"};
    return kNames[static_cast<std::size_t>(kind)];
}

void JsonVisitor::null() {
    unexpected(JsonKind::null);
}
void JsonVisitor::boolean(bool /*value*/) {
    unexpected(JsonKind::boolean);
}
void JsonVisitor::unsigned_integer(std::uint64_t /*value*/) {
    unexpected(JsonKind::unsigned_integer);
}
void JsonVisitor::negative_integer(std::int64_t /*value*/) {
    unexpected(JsonKind::negative_integer);
}
void JsonVisitor::real(double /*value*/) {
    unexpected(JsonKind::real);
}
void JsonVisitor::string(std::string_view /*value*/) {
    unexpected(JsonKind::string);
}
void JsonVisitor::begin_array() {
    unexpected(JsonKind::array);
}
void JsonVisitor::begin_object() {
    unexpected(JsonKind::object);
}

void JsonVisitor::unexpected(JsonKind kind) {
    fail(std::string(name(kind)) + " has no place here");
}

void JsonVisitor::fail(const std::string& reason) const {
    parse_->fail(reason);
}

void visit_json(std::string_view text, const std::filesystem::path& path, std::size_t offset,
                JsonVisitor& visitor) {
    JsonParse(text, path, offset, visitor).run();
}

namespace {

// Builds a tree. `open_` points into it: the parents of a value do not move while it is built,
// since only the innermost one grows.
class TreeVisitor final : public JsonVisitor {
public:
    [[nodiscard]] JsonValue take() { return std::move(root_); }

    void null() override { place(JsonKind::null); }
    void boolean(bool value) override { place(JsonKind::boolean).boolean = value; }
    void unsigned_integer(std::uint64_t value) override {
        JsonValue& placed = place(JsonKind::unsigned_integer);
        placed.unsigned_integer = value;
        placed.number = static_cast<double>(value);
    }
    void negative_integer(std::int64_t value) override {
        place(JsonKind::negative_integer).number = static_cast<double>(value);
    }
    void real(double value) override { place(JsonKind::real).number = value; }
    void string(std::string_view value) override { place(JsonKind::string).string = value; }
    void begin_array() override { open_.push_back(&place(JsonKind::array)); }
    void end_array() override { open_.pop_back(); }
    void begin_object() override { open_.push_back(&place(JsonKind::object)); }
    JsonMember key(std::string_view key) override {
        open_.back()->members.push_back({std::string(key), JsonValue{}});
        return JsonMember::visit;
    }
    void end_object() override { open_.pop_back(); }

private:
    JsonValue& place(JsonKind kind) {
        JsonValue* value = &root_;
        if (!open_.empty()) {
            JsonValue& parent = *open_.back();
            value = parent.kind == JsonKind::array ? &parent.elements.emplace_back()
                                                   : &parent.members.back().value;
        }
        value->kind = kind;
        return *value;
    }

    JsonValue root_;
    std::vector<JsonValue*> open_;
};

} // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
    const auto found = std::find_if(members.begin(), members.end(),
                                    [&](const auto& member) { return member.key == key; });
    return found == members.end() ? nullptr : &found->value;
}

JsonValue parse_json(std::string_view text, const std::filesystem::path& path) {
    TreeVisitor visitor;
    visit_json(text, path, 0, visitor);
    return visitor.take();
}

JsonValue read_json_file(const std::filesystem::path& path) {
    return parse_json(read_file(path, kMaxTreeFileBytes), path);
}

void append_json_string(std::string& out, std::string_view text) {
    try {
        out += nlohmann::json(std::string(text)).dump();
    } catch (const nlohmann::json::type_error&) {
        KAEL_CHECK(false, in_quotes(text) << " is not UTF-8");
    }
}

} // namespace kael::io
