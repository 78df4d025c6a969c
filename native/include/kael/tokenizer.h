// GPT-2's byte-level BPE tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kael::text {

// Immutable: any number of threads may use one at the same time.
class BpeTokenizer {
public:
    // From vocab.json (token to id, in GPT-2's byte alphabet) and merges.txt (one pair per line,
    // best first).
    BpeTokenizer(const std::filesystem::path& vocab_path, const std::filesystem::path& merges_path);
    ~BpeTokenizer();
    BpeTokenizer(BpeTokenizer&&) noexcept;
    BpeTokenizer& operator=(BpeTokenizer&&) noexcept;

    // Any bytes; each byte that is not part of valid UTF-8 counts as a character that is neither
    // letter, number nor space. "<|endoftext|>" is plain text unless allow_special. O(n log n) for
    // n bytes, also in one long word; at most 2^31 bytes. A byte that the vocabulary lacks is an
    // error that names it and its offset.
    [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text,
                                                   bool allow_special = false) const;
    // The bytes that the ids stand for; not necessarily valid UTF-8. An id without a token is an
    // error that names it and its position.
    [[nodiscard]] std::string decode(const std::int64_t* ids, std::size_t count) const;

    [[nodiscard]] std::int64_t vocabulary_size() const noexcept; // one more than the highest id
    [[nodiscard]] std::optional<std::int64_t> end_of_text() const noexcept;

private:
    struct Tables;
    std::unique_ptr<const Tables> tables_;
};

} // namespace kael::text
