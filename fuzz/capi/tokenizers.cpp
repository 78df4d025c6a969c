#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "session.h"

namespace kael::fuzz {

void Session::load_tokenizer() {
    const std::string vocab = tokenizer_.vocab_path().string();
    const std::string merges = tokenizer_.merges_path().string();
    const Text first = input_.rarely(4)
                           ? path(false)
                           : Text{vocab.data(), static_cast<std::int64_t>(vocab.size())};
    const Text second = input_.rarely(4)
                            ? path(false)
                            : Text{merges.data(), static_cast<std::int64_t>(merges.size())};
    kael_tokenizer* made = untouched<kael_tokenizer>();
    take(kael_tokenizer_load(first.data, first.length, second.data, second.length, out(made)), made,
         tokenizers_);
}

void Session::encode() {
    const kael_tokenizer* const tokenizer = one(tokenizers_);
    std::int64_t number = -7;
    if (input_.rarely(8)) {
        succeeded(input_.rarely(2) ? kael_tokenizer_vocabulary_size(tokenizer, out(number))
                                   : kael_tokenizer_end_of_text(tokenizer, out(number)));
        return;
    }
    const Text given = text();
    std::vector<std::int64_t> ids(
        input_.rarely(4) ? input_.below(4)
                         : static_cast<std::size_t>(std::max<std::int64_t>(given.length, 0)));
    const bool is_null = input_.rarely(32);
    must_fail_ = must_fail_ || (is_null && !ids.empty());
    std::int64_t count = -1;
    const std::uint8_t allow_special = input_.byte() % 2;
    const kael_status status = kael_tokenizer_encode(
        tokenizer, given.data, given.length, allow_special, is_null ? nullptr : ids.data(),
        input_.rarely(32) ? -1 : static_cast<std::int64_t>(ids.size()), out(count));
    if (succeeded(status)) {
        require(count >= 0 && count <= given.length);
    } else {
        require(count == -1);
    }
}

void Session::decode() {
    const kael_tokenizer* const tokenizer = one(tokenizers_);
    std::vector<std::int64_t> ids(input_.below(8));
    for (std::int64_t& id : ids) {
        id = input_.rarely(16) ? integer() : 4 * input_.byte() % 259;
    }
    std::vector<char> bytes(input_.below(32));
    const bool is_null = input_.rarely(32);
    must_fail_ = must_fail_ || (is_null && !bytes.empty());
    std::int64_t length = -1;
    const kael_status status = kael_tokenizer_decode(
        tokenizer, ids.data(), input_.rarely(32) ? -1 : static_cast<std::int64_t>(ids.size()),
        is_null ? nullptr : bytes.data(), static_cast<std::int64_t>(bytes.size()), out(length));
    require(succeeded(status) == (length >= 0));
}

} // namespace kael::fuzz
