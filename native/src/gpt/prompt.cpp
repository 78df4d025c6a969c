#include "gpt/prompt.h"

#include "kael/error.h"

namespace kael::gpt {

void check_length(const Config& config, std::int64_t length) {
    KAEL_CHECK(length >= 1 && length <= config.max_positions,
               "there are " << length << " token ids, expected 1 to the context of "
                            << config.max_positions);
}

void check_ids(const Config& config, const std::int64_t* ids, std::int64_t count) {
    for (std::int64_t index = 0; index < count; ++index) {
        KAEL_CHECK(ids[index] >= 0 && ids[index] < config.vocab_size,
                   "token id " << index << " of " << count << " is " << ids[index]
                               << ", expected 0 to " << config.vocab_size - 1);
    }
}

} // namespace kael::gpt
