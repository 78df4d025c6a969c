// The forward pass as the operators of kael/operators.h, which record it: for gradients. The
// decoder computes the same logits faster, and records nothing.
#pragma once

#include "kael/gpt.h"
#include "kael/tensor.h"

#include "gpt/dropout.h"

namespace kael::gpt {

// ids int64 [B, T], all in the vocabulary, T at most max_positions, to float32 [B, T, V]. What
// drops out are elements of the embeddings and of what attention and MLP add to them, as with
// GPT-2's embd_pdrop and resid_pdrop.
[[nodiscard]] Tensor recorded_logits(const Config& config, const Weights& weights,
                                     const Tensor& ids, Dropout dropout);

} // namespace kael::gpt
