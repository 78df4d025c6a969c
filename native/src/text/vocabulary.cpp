#include "text/vocabulary.h"

#include <sstream>
#include <utility>

#include "kael/error.h"

#include "base/in_quotes.h"
#include "base/mapped_file.h"
#include "io/json.h"
#include "text/byte_alphabet.h"

namespace kael::text {

class VocabularyReader final : public io::JsonVisitor {
public:
    [[nodiscard]] Vocabulary take() { return std::move(vocabulary_); }

    void begin_object() override {
        if (inside_) {
            unexpected(io::JsonKind::object);
        }
        inside_ = true;
    }

    io::JsonMember key(std::string_view key) override {
        key_ = key;
        if (key.empty()) {
            fail("an empty token, expected one byte or more");
        }
        begin_ = vocabulary_.bytes_.size();
        if (const auto wrong = append_bytes_of_symbols(key, vocabulary_.bytes_)) {
            fail("the token " + in_quotes(key) + " has a character at its byte " +
                 std::to_string(*wrong) + " that is not in GPT-2's byte alphabet");
        }
        return io::JsonMember::visit;
    }

    void unsigned_integer(std::uint64_t value) override {
        if (!inside_) {
            unexpected(io::JsonKind::unsigned_integer);
        }
        if (value > kMaxTokenId) {
            fail_for_id(std::to_string(value));
        }
        if (value >= vocabulary_.tokens_.size()) {
            vocabulary_.tokens_.resize(value + 1);
        }
        Vocabulary::Place& place = vocabulary_.tokens_[value];
        if (place.length != 0) {
            fail("the token " + in_quotes(key_) + " has the id " + std::to_string(value) +
                 ", which another token has already");
        }
        place = {static_cast<std::uint32_t>(begin_),
                 static_cast<std::uint32_t>(vocabulary_.bytes_.size() - begin_)};
        ++vocabulary_.token_count_;
    }

protected:
    [[noreturn]] void unexpected(io::JsonKind kind) override {
        if (inside_) {
            fail_for_id(std::string(io::name(kind)));
        }
        fail(std::string(io::name(kind)) + ", expected an object of tokens to ids");
    }

private:
    [[noreturn]] void fail_for_id(const std::string& found) const {
        fail("the token " + in_quotes(key_) + " has " + found + " for its id, expected 0 to " +
             std::to_string(kMaxTokenId));
    }

    Vocabulary vocabulary_;
    bool inside_ = false;
    std::string key_;
    std::size_t begin_ = 0; // of the bytes of key_
};

Vocabulary Vocabulary::read(const std::filesystem::path& path) {
    VocabularyReader reader;
    io::visit_json(read_file(path, kMaxTokenizerFileBytes), path, 0, reader);
    Vocabulary vocabulary = reader.take();
    KAEL_CHECK_AS(ErrorCode::invalid_file, vocabulary.size() > 0,
                  in_quotes(path.native()) << ": no tokens, expected one or more");
    return vocabulary;
}

TokenIndex::TokenIndex(const Vocabulary& vocabulary) {
    ids_.reserve(vocabulary.token_count());
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
        if (const std::string_view token = vocabulary.token(id); !token.empty()) {
            ids_.emplace(token, static_cast<TokenId>(id));
        }
    }
}

std::optional<TokenId> TokenIndex::find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

} // namespace kael::text
