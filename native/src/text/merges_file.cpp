#include "text/merges_file.h"

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kael/error.h"

#include "base/in_quotes.h"
#include "base/mapped_file.h"
#include "text/byte_alphabet.h"
#include "text/pretokenizer.h"

namespace kael::text {

namespace {

class MergesReader {
public:
    MergesReader(const std::filesystem::path& path, const Vocabulary& vocabulary,
                 const TokenIndex& tokens)
        : path_(path), vocabulary_(vocabulary), tokens_(tokens),
          content_(read_file(path, kMaxTokenizerFileBytes)), rest_(content_) {}

    [[nodiscard]] MergeTable read() {
        if (rest_.starts_with("#version") && take_line().find('\r') != std::string_view::npos) {
            fail("a carriage return that no line feed follows");
        }
        const std::size_t first_line = line_ + 1;
        std::vector<Entry> entries;
        while (rest_.find_first_not_of("\r\n") != std::string_view::npos) {
            entries.push_back(parse(take_line()));
        }
        if (entries.empty()) {
            require_no_merged_token();
        }

        MergeTable merges(entries.size());
        for (std::size_t i = 0; i < entries.size(); ++i) {
            const Merge merge(static_cast<std::uint32_t>(i), entries[i].result);
            const Merge present = merges.insert(entries[i].left, entries[i].right, merge);
            if (present != merge) {
                line_ = first_line + i;
                fail("the merge of line " + std::to_string(first_line + present.rank()) +
                     " again, expected each once");
            }
        }
        return merges;
    }

private:
    struct Entry {
        TokenId left;
        TokenId right;
        TokenId result;
    };

    [[noreturn]] void fail(const std::string& reason) const {
        std::ostringstream message;
        message << in_quotes(path_.native()) << ": line " << line_ << ": " << reason;
        throw Error(ErrorCode::invalid_file, __FILE__, __LINE__, "well-formed merges",
                    message.str());
    }

    // Some byte-level vocabularies have no merges, and special tokens all the same. The pattern
    // cuts those, as it does "<|endoftext|>"; a token that it leaves whole was made by merges, and
    // a file without any is then one that was lost on the way.
    void require_no_merged_token() const {
        for (std::size_t id = 0; id < vocabulary_.size(); ++id) {
            const std::string_view token = vocabulary_.token(id);
            KAEL_CHECK_AS(
                ErrorCode::invalid_file, token.size() <= 1 || end_of_piece(token, 0) < token.size(),
                in_quotes(path_.native()) << ": no merges, expected those that make the token "
                                          << in_quotes(token) << " of the vocabulary");
        }
    }

    // The next line without its end.
    std::string_view take_line() {
        ++line_;
        const std::size_t end = rest_.find('\n');
        std::string_view line = rest_.substr(0, end);
        rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        return line;
    }

    Entry parse(std::string_view line) {
        const std::size_t space = line.find(' ');
        if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
            line.find(' ', space + 1) != std::string_view::npos) {
            fail(in_quotes(line) + ", expected two tokens with one space between them");
        }
        bytes_.clear();
        append(line.substr(0, space));
        const std::size_t left_length = bytes_.size();
        append(line.substr(space + 1));
        const std::string_view both = bytes_;
        return {id_of(both.substr(0, left_length), "the token on the left of ", line),
                id_of(both.substr(left_length), "the token on the right of ", line),
                id_of(both, "the result of ", line)};
    }

    void append(std::string_view symbols) {
        if (const auto wrong = append_bytes_of_symbols(symbols, bytes_)) {
            fail("the token " + in_quotes(symbols) + " has a character at its byte " +
                 std::to_string(*wrong) + " that is not in GPT-2's byte alphabet");
        }
    }

    [[nodiscard]] TokenId id_of(std::string_view token, const char* what,
                                std::string_view line) const {
        const auto id = tokens_.find(token);
        if (!id) {
            fail(what + in_quotes(line) + " is not in the vocabulary");
        }
        return *id;
    }

    const std::filesystem::path& path_;
    const Vocabulary& vocabulary_;
    const TokenIndex& tokens_;
    std::string content_;
    std::string_view rest_;
    std::size_t line_ = 0;
    std::string bytes_; // of the two tokens of a line
};

} // namespace

MergeTable read_merges(const std::filesystem::path& path, const Vocabulary& vocabulary,
                       const TokenIndex& tokens) {
    return MergesReader(path, vocabulary, tokens).read();
}

} // namespace kael::text
