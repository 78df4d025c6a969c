// The first byte chooses: '0' text, '1' text with the special token allowed, '2' the two files of a
// tokenizer, with a byte 0xFF (which neither may hold) between them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kael/error.h"
#include "kael/tokenizer.h"

#include "input.h"
#include "text/tokenizer_folder.h"

namespace {

using kael::fuzz::require;
using kael::text::BpeTokenizer;
using kael::text::TokenizerFolder;

void round_trip(const BpeTokenizer& tokenizer, std::string_view text, bool allow_special) {
    const std::vector<std::int64_t> ids = tokenizer.encode(text, allow_special);
    require(ids.size() <= text.size());
    require(tokenizer.decode(ids.data(), ids.size()) == text);
}

const BpeTokenizer& small_tokenizer() {
    static const BpeTokenizer tokenizer = [] {
        const kael::text::BytePairs merges = {
            {"t", "h"},   {"th", "e"},  {" ", "the"},     {"a", "a"},       {"aa", "aa"},
            {" ", "a"},   {"'", "s"},   {"1", "2"},       {"\xC3", "\xA9"}, {"\xF0", "\x9F"},
            {"\n", "\n"}, {"  ", "  "}, {"\xFF", "\xFE"}, {" ", " "}};
        return TokenizerFolder(kael::text::byte_vocabulary(merges), kael::text::merges_file(merges))
            .load();
    }();
    return tokenizer;
}

void load(std::string_view files) {
    const std::size_t end = files.find('\xFF');
    const std::string_view vocab = files.substr(0, end);
    const std::string_view merges = end == std::string_view::npos ? "" : files.substr(end + 1);
    try {
        const BpeTokenizer tokenizer = TokenizerFolder(vocab, merges).load();
        round_trip(tokenizer, merges, true);
    } catch (const kael::Error& error) {
        // A bad file, or a byte of `merges` that is no token.
        require(error.code() == kael::ErrorCode::invalid_file ||
                error.code() == kael::ErrorCode::invalid_argument);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    if (input.empty()) {
        return 0;
    }
    const std::string_view rest = input.substr(1);
    if (input[0] == '2') {
        load(rest);
    } else {
        round_trip(small_tokenizer(), rest, input[0] == '1');
    }
    return 0;
}
