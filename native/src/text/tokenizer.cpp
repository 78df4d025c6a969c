#include "kael/tokenizer.h"

#include <array>
#include <utility>

#include "kael/error.h"

#include "text/encoder.h"
#include "text/merges_file.h"
#include "text/vocabulary.h"

namespace kael::text {

namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 31; // positions in a word have 32 bits

} // namespace

struct BpeTokenizer::Tables {
    Tables(const std::filesystem::path& vocab_path, const std::filesystem::path& merges_path)
        : Tables(Vocabulary::read(vocab_path), merges_path) {}

    Vocabulary vocabulary;
    MergeTable merges;
    std::array<TokenId, 256> byte_ids; // kNoToken for a byte that is no token
    std::optional<TokenId> end_of_text;

private:
    Tables(Vocabulary read, const std::filesystem::path& merges_path)
        : vocabulary(std::move(read)), merges(0) {
        const TokenIndex tokens(vocabulary);
        merges = read_merges(merges_path, vocabulary, tokens);
        for (std::size_t byte = 0; byte < byte_ids.size(); ++byte) {
            const char character = static_cast<char>(byte);
            byte_ids[byte] = tokens.find({&character, 1}).value_or(kNoToken);
        }
        end_of_text = tokens.find(kEndOfText);
    }
};

BpeTokenizer::BpeTokenizer(const std::filesystem::path& vocab_path,
                           const std::filesystem::path& merges_path)
    : tables_(std::make_unique<const Tables>(vocab_path, merges_path)) {}

BpeTokenizer::~BpeTokenizer() = default;
BpeTokenizer::BpeTokenizer(BpeTokenizer&&) noexcept = default;
BpeTokenizer& BpeTokenizer::operator=(BpeTokenizer&&) noexcept = default;

std::vector<std::int64_t> BpeTokenizer::encode(std::string_view text, bool allow_special) const {
    KAEL_CHECK(text.size() <= kMaxTextBytes,
               "a text of " << text.size() << " bytes, expected at most " << kMaxTextBytes);
    Encoder encoder(tables_->merges, tables_->byte_ids, text.size());
    std::size_t begin = 0;
    while (allow_special && tables_->end_of_text) {
        const std::size_t special = text.find(kEndOfText, begin);
        if (special == std::string_view::npos) {
            break;
        }
        encoder.encode(text, begin, special);
        encoder.append(*tables_->end_of_text);
        begin = special + kEndOfText.size();
    }
    encoder.encode(text, begin, text.size());
    return encoder.take();
}

std::string BpeTokenizer::decode(const std::int64_t* ids, std::size_t count) const {
    const Vocabulary& vocabulary = tables_->vocabulary;
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t id = ids[i];
        KAEL_CHECK(id >= 0 && id < vocabulary_size(), "the id " << id << " at position " << i
                                                                << ", expected 0 to "
                                                                << vocabulary_size() - 1);
        const std::string_view token = vocabulary.token(static_cast<std::size_t>(id));
        KAEL_CHECK(!token.empty(),
                   "the id " << id << " at position " << i << ", which the vocabulary leaves out");
        bytes += token;
    }
    return bytes;
}

std::int64_t BpeTokenizer::vocabulary_size() const noexcept {
    return static_cast<std::int64_t>(tables_->vocabulary.size());
}

std::optional<std::int64_t> BpeTokenizer::end_of_text() const noexcept {
    return tables_->end_of_text;
}

} // namespace kael::text
