#include "gpt/dropout.h"

#include <algorithm>

#include "kael/operators.h"
#include "kael/threads.h"

#include "base/philox.h"

namespace kael::gpt {

namespace {

constexpr std::int64_t kDrawsPerBlock = 4;
constexpr std::int64_t kGrain = 4096; // blocks

} // namespace

Tensor Dropout::operator()(const Tensor& x) {
    if (share_ == 0) {
        return x;
    }
    Tensor factors = Tensor::empty(x.shape(), DType::float32);
    auto* const to = factors.mutable_data<float>();
    const std::int64_t count = factors.numel();
    const std::int64_t blocks = (count + kDrawsPerBlock - 1) / kDrawsPerBlock;
    const std::uint64_t first_block = next_block_;
    const auto limit = static_cast<std::uint32_t>(share_ * 0x1p32);
    const auto kept = static_cast<float>(1.0 / (1.0 - share_));
    parallel_for(0, blocks, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t block = begin; block < end; ++block) {
            const PhiloxBlock draws =
                philox(seed_, first_block + static_cast<std::uint64_t>(block));
            const std::int64_t first = block * kDrawsPerBlock;
            for (std::int64_t i = 0; i < std::min(kDrawsPerBlock, count - first); ++i) {
                to[first + i] = draws[static_cast<std::size_t>(i)] < limit ? 0.0F : kept;
            }
        }
    });
    next_block_ += static_cast<std::uint64_t>(blocks);
    return x * factors;
}

} // namespace kael::gpt
