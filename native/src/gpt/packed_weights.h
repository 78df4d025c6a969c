// The matrices of a model packed for inference (kernels/cpu/packed.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kael/gpt.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/packed.h"

namespace kael::gpt {

// Column j of `embedding` and `head` is the row of token j.
class PackedWeights {
public:
    struct Layer {
        kernels::PackedMatrix qkv;
        kernels::PackedMatrix proj;
        kernels::PackedMatrix fc;
        kernels::PackedMatrix mlp_proj;
    };

    // Packs the matrices of `weights`, which may be of any dtype of a checkpoint, and takes them
    // out of it: what stays there becomes float32 memory of its own, and the file they came from
    // may go. Weights of a mapped file are in memory for moments only.
    PackedWeights(const Config& config, WeightFormat format, Weights& weights);

    [[nodiscard]] WeightFormat format() const noexcept { return format_; }
    [[nodiscard]] const kernels::PackedKernels& kernels() const noexcept { return kernels_; }
    [[nodiscard]] const std::vector<Layer>& layers() const noexcept { return layers_; }
    [[nodiscard]] const kernels::PackedMatrix& embedding() const noexcept { return embedding_; }
    // The embedding when tied.
    [[nodiscard]] const kernels::PackedMatrix& head() const noexcept { return head_; }

private:
    class Packer;
    struct Free {
        void operator()(std::uint8_t* memory) const noexcept;
    };

    WeightFormat format_;
    const kernels::PackedKernels& kernels_;
    std::vector<Layer> layers_;
    kernels::PackedMatrix embedding_{};
    kernels::PackedMatrix head_{};
    std::unique_ptr<std::uint8_t, Free> memory_; // of all of them
};

} // namespace kael::gpt
