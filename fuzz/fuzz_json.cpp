// The JSON layer: any bytes are a value or a kael::Error, the tree and the visitor agree, and what
// is accepted here is accepted by nlohmann's own reader too.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    bool accepted = true;
    try {
        require_strings_survive(kael::io::parse_json(text, "fuzz"));
    } catch (const kael::Error&) {
        accepted = false;
    }
    require(visits(text, JsonMember::visit) == accepted);
    // Skipping refuses no more, and only keys given twice may be let through.
    const bool accepted_when_skipping = visits(text, JsonMember::skip);
    require(!accepted || accepted_when_skipping);
    require(!accepted_when_skipping || nlohmann::json::accept(text));
    return 0;
}
