// Where a model's weights come from: named tensors of a file, or random numbers.
#pragma once

#include <cstdint>
#include <string>

#include "kael/gpt.h"
#include "kael/tensor.h"

namespace kael::gpt {

// Sorts the tensors of a GPT-2 checkpoint into place, with or without "transformer." before their
// names. They are shared, of the dtype that they have there. Mask buffers are left out. Every
// tensor that is missing, surplus or of another shape or dtype than `config` asks for is named.
// `origin` and `config_origin` say where both came from, for that message.
[[nodiscard]] Weights take_weights(const Config& config, const NamedTensors& tensors,
                                   const std::string& origin, const std::string& config_origin);

// float16 and bfloat16 tensors become float32 ones.
void widen_weights(const Config& config, Weights& weights);

// GPT-2's scheme: normal with standard deviation 0.02, the projections that feed the residual
// stream divided by sqrt(2 * layers); biases 0, gains 1. The same numbers for any number of
// threads.
[[nodiscard]] Weights random_weights(const Config& config, std::uint64_t seed);

// Throws unless every tensor is there, float32, contiguous and of the shape that `config` asks for.
void check_weights(const Config& config, const Weights& weights);

// Under their names in GPT-2's files, without a prefix; a tied head once.
[[nodiscard]] NamedTensors named_weights(const Config& config, const Weights& weights);

// A tied head counts once.
[[nodiscard]] std::int64_t parameter_count(const Config& config);

} // namespace kael::gpt
