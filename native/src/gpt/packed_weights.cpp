#include "gpt/packed_weights.h"

#include <algorithm>
#include <new>
#include <utility>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "kael/operators.h"
#include "kael/threads.h"

#include "base/allocator.h"
#include "base/mapped_file.h"
#include "gpt/float_buffer.h"

namespace kael::gpt {

namespace {

// Of a huge page: a product then seldom waits for the address of its next weights.
constexpr std::align_val_t kAlignment{std::size_t{2} << 20};

// Rows of a table that are packed, and in memory, at once: 12 MB of GPT-2 small's.
constexpr std::int64_t kRowsAtOnce = 64 * kernels::kPackedPanel;

const kernels::PackedKernels& kernels_of(WeightFormat format) {
    const kernels::CpuKernels& table = kernels::cpu_kernels();
    switch (format) {
    case WeightFormat::int8:
        return table.int8;
    case WeightFormat::int4:
        return table.int4;
    case WeightFormat::float32: // is not packed
    case WeightFormat::bfloat16:
        break;
    }
    return table.bfloat16;
}

std::int64_t panels(std::int64_t columns) {
    return (columns + kernels::kPackedPanel - 1) / kernels::kPackedPanel;
}

// What was read of a mapped file need not stay in memory.
void release(const Tensor& tensor) {
    if (tensor.storage()->file() && tensor.is_contiguous()) {
        release_pages({static_cast<const std::byte*>(tensor.data_ptr_raw()),
                       static_cast<std::size_t>(tensor.nbytes())});
    }
}

} // namespace

// Matrices are noted first, so that one block of memory can be made for all of them.
class PackedWeights::Packer {
public:
    explicit Packer(const kernels::PackedKernels& kernels) : kernels_(kernels) {}

    // A weight [depth, columns].
    void add_linear(Tensor& weight, kernels::PackedMatrix& packed) {
        add({&weight, false, &packed}, weight.size(0), weight.size(1));
    }
    // A table [columns, depth].
    void add_table(Tensor& table, kernels::PackedMatrix& packed) {
        add({&table, true, &packed}, table.size(1), table.size(0));
    }

    [[nodiscard]] std::int64_t bytes() const { return bytes_; }

    // Each tensor is dropped as soon as it is packed.
    void pack(std::uint8_t* memory) {
        std::uint8_t* next = memory;
        for (const Job& job : jobs_) {
            std::uint8_t* const data = next;
            next += size(*job.packed);
            job.packed->data = data;
            if (job.is_table) {
                const std::int64_t rows = job.packed->columns;
                for (std::int64_t first = 0; first < rows; first += kRowsAtOnce) {
                    const std::int64_t count = std::min(kRowsAtOnce, rows - first);
                    const Tensor part = narrow(*job.source, 0, first, count);
                    pack_columns(part, job.is_table, job.packed->depth, count,
                                 data + panels(first) * kernels_.panel_size(job.packed->depth));
                    release(part);
                }
            } else {
                pack_columns(*job.source, job.is_table, job.packed->depth, job.packed->columns,
                             data);
                release(*job.source);
            }
            *job.source = Tensor();
        }
    }

private:
    struct Job {
        Tensor* source;
        bool is_table;
        kernels::PackedMatrix* packed;
    };

    void add(const Job& job, std::int64_t depth, std::int64_t columns) {
        *job.packed = {nullptr, depth, columns};
        bytes_ += size(*job.packed);
        jobs_.push_back(job);
    }

    [[nodiscard]] std::int64_t size(const kernels::PackedMatrix& matrix) const {
        return panels(matrix.columns) * kernels_.panel_size(matrix.depth);
    }

    void pack_columns(const Tensor& source, bool is_table, std::int64_t depth, std::int64_t columns,
                      std::uint8_t* packed) const {
        const Tensor floats = source.to(DType::float32);
        const kernels::Matrix matrix{floats.data<float>(), is_table ? 1 : columns,
                                     is_table ? depth : 1};
        parallel_for(0, panels(columns), 1, [&](std::int64_t first, std::int64_t last) {
            const FloatBuffer scratch(kernels_.pack_scratch(depth));
            kernels_.pack(matrix, depth, first * kernels::kPackedPanel,
                          std::min(last * kernels::kPackedPanel, columns), packed, scratch.data());
        });
    }

    const kernels::PackedKernels& kernels_;
    std::vector<Job> jobs_;
    std::int64_t bytes_ = 0;
};

void PackedWeights::Free::operator()(std::uint8_t* memory) const noexcept {
    ::operator delete(memory, kAlignment);
}

PackedWeights::PackedWeights(const Config& config, WeightFormat format, Weights& weights)
    : format_(format), kernels_(kernels_of(format)), layers_(weights.layers.size()) {
    Packer packer(kernels_);
    for (std::size_t index = 0; index < layers_.size(); ++index) {
        LayerWeights& layer = weights.layers[index];
        packer.add_linear(layer.attn_qkv_weight, layers_[index].qkv);
        packer.add_linear(layer.attn_proj_weight, layers_[index].proj);
        packer.add_linear(layer.mlp_fc_weight, layers_[index].fc);
        packer.add_linear(layer.mlp_proj_weight, layers_[index].mlp_proj);
        for (Tensor* tensor :
             {&layer.ln_1_weight, &layer.ln_1_bias, &layer.attn_qkv_bias, &layer.attn_proj_bias,
              &layer.ln_2_weight, &layer.ln_2_bias, &layer.mlp_fc_bias, &layer.mlp_proj_bias}) {
            *tensor = tensor->to(DType::float32).clone();
        }
    }
    packer.add_table(weights.token_embedding, embedding_);
    if (!config.tie_word_embeddings) {
        packer.add_table(weights.head, head_);
    }
    for (Tensor* tensor : {&weights.position_embedding, &weights.ln_f_weight, &weights.ln_f_bias}) {
        *tensor = tensor->to(DType::float32).clone();
    }
    const auto bytes = static_cast<std::size_t>(packer.bytes());
    memory_.reset(static_cast<std::uint8_t*>(::operator new(bytes, kAlignment)));
#if defined(__linux__)
    ::madvise(memory_.get(), bytes, MADV_HUGEPAGE); // a hint
#endif
    packer.pack(memory_.get());
    process_allocator().release_cached_memory(); // which widened matrices have left
    if (config.tie_word_embeddings) {
        weights.head = Tensor();
        head_ = embedding_;
    }
}

} // namespace kael::gpt
