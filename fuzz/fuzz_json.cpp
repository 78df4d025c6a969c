// The JSON layer: any bytes are a value or a kael::Error, the tree and the visitor agree, and both
// agree with nlohmann's own reader, but where io/json.h refuses more.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kael/error.h"

#include "input.h"
#include "io/json.h"

namespace {

using kael::fuzz::require;
using kael::io::JsonKind;
using kael::io::JsonMember;
using kael::io::JsonValue;

// Counts what is open; skips every member or none.
class Counter final : public kael::io::JsonVisitor {
public:
    explicit Counter(JsonMember answer) : answer_(answer) {}

    void null() override { value(); }
    void boolean(bool /*value*/) override { value(); }
    void unsigned_integer(std::uint64_t /*value*/) override { value(); }
    void negative_integer(std::int64_t value) override {
        require(value <= 0);
        this->value();
    }
    void real(double number) override {
        require(number - number == 0); // neither infinite nor NaN
        value();
    }
    void string(std::string_view /*value*/) override { value(); }
    void begin_array() override { open('['); }
    void end_array() override { close('['); }
    void begin_object() override { open('{'); }
    JsonMember key(std::string_view /*key*/) override {
        require(!open_.empty() && open_.back() == '{');
        return answer_;
    }
    void end_object() override { close('{'); }

    [[nodiscard]] bool finished() const { return open_.empty() && values_ > 0; }

private:
    void value() { ++values_; }
    void open(char kind) {
        open_ += kind;
        require(open_.size() <= static_cast<std::size_t>(kael::io::kMaxJsonDepth));
    }
    void close(char kind) {
        require(!open_.empty() && open_.back() == kind);
        open_.pop_back();
        value();
    }

    JsonMember answer_;
    std::string open_;
    std::size_t values_ = 0;
};

bool visits(std::string_view text, JsonMember answer) {
    Counter counter(answer);
    try {
        kael::io::visit_json(text, "fuzz", 0, counter);
    } catch (const kael::Error& error) {
        require(error.code() == kael::ErrorCode::invalid_file);
        require(error.message().find('\n') == std::string::npos);
        return false;
    }
    require(counter.finished());
    return true;
}

// Writes a string of the tree and reads it back.
void require_strings_survive(const JsonValue& root) {
    std::vector<const JsonValue*> open = {&root};
    while (!open.empty()) {
        const JsonValue& value = *open.back();
        open.pop_back();
        if (value.kind == JsonKind::string) {
            std::string written;
            kael::io::append_json_string(written, value.string);
            require(kael::io::parse_json(written, "fuzz").string == value.string);
        }
        for (const JsonValue& element : value.elements) {
            open.push_back(&element);
        }
        for (const auto& member : value.members) {
            open.push_back(&member.value);
        }
    }
}

bool is_same(const JsonValue& value, const nlohmann::json& other) {
    switch (value.kind) {
    case JsonKind::null:
        return other.is_null();
    case JsonKind::boolean:
        return other.is_boolean() && other.get<bool>() == value.boolean;
    case JsonKind::unsigned_integer:
        return other.is_number_unsigned() && other.get<std::uint64_t>() == value.unsigned_integer &&
               other.get<double>() == value.number;
    case JsonKind::negative_integer:
        return other.is_number_integer() && other.get<double>() == value.number;
    case JsonKind::real:
        return other.is_number_float() && other.get<double>() == value.number;
    case JsonKind::string:
        return other.is_string() && other.get_ref<const std::string&>() == value.string;
    case JsonKind::array:
        return other.is_array() && other.size() == value.elements.size();
    case JsonKind::object:
        return other.is_object() && other.size() == value.members.size();
    }
    return false;
}

void require_same_tree(const JsonValue& root, const nlohmann::json& other) {
    std::vector<std::pair<const JsonValue*, const nlohmann::json*>> open = {{&root, &other}};
    while (!open.empty()) {
        const auto [value, theirs] = open.back();
        open.pop_back();
        require(is_same(*value, *theirs));
        for (std::size_t i = 0; i < value->elements.size(); ++i) {
            open.emplace_back(&value->elements[i], &(*theirs)[i]);
        }
        for (const auto& member : value->members) {
            require(theirs->contains(member.key));
            open.emplace_back(&member.value, &theirs->at(member.key));
        }
    }
}

// Whether nlohmann's reader accepts the text, as far as that is asked of ours.
bool must_be_accepted(std::string_view text) {
    using Event = nlohmann::json::parse_event_t;
    int deepest = 0;
    bool has_key_twice = false;
    std::vector<std::set<std::string>> keys;
    const auto look = [&](int depth, Event event, nlohmann::json& value) {
        deepest = std::max(deepest, depth);
        if (event == Event::object_start) {
            keys.emplace_back();
        } else if (event == Event::object_end) {
            keys.pop_back();
        } else if (event == Event::key) {
            const bool is_new = keys.back().insert(value.get<std::string>()).second;
            has_key_twice = has_key_twice || !is_new;
        }
        return true;
    };
    return !text.starts_with("\xEF\xBB\xBF") && text.find('\0') == std::string_view::npos &&
           !nlohmann::json::parse(text, look, false).is_discarded() && !has_key_twice &&
           deepest < kael::io::kMaxJsonDepth;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    bool accepted = true;
    try {
        const JsonValue root = kael::io::parse_json(text, "fuzz");
        require_strings_survive(root);
        require_same_tree(root, nlohmann::json::parse(text));
    } catch (const kael::Error&) {
        accepted = false;
    }
    require(visits(text, JsonMember::visit) == accepted);
    // Skipping refuses no more, and only keys given twice may be let through.
    const bool accepted_when_skipping = visits(text, JsonMember::skip);
    require(!accepted || accepted_when_skipping);
    require(!accepted_when_skipping || nlohmann::json::accept(text));
    require(accepted || !must_be_accepted(text));
    return 0;
}
