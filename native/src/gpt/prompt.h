// What may be asked of a model.
#pragma once

#include <cstdint>

#include "kael/gpt.h"

namespace kael::gpt {

// Throws unless 1 <= length <= max_positions.
void check_length(const Config& config, std::int64_t length);

// Throws for an id outside the vocabulary, naming the first and where it stands.
void check_ids(const Config& config, const std::int64_t* ids, std::int64_t count);

} // namespace kael::gpt
