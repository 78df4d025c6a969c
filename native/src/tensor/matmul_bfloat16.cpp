#include "tensor/matmul_bfloat16.h"

#include <algorithm>
#include <memory>
#include <new>

#include "kael/threads.h"

#include "kernels/cpu/kernels.h"

namespace kael::forward {

namespace {

// Of a longer product the sums over parts of this depth are added up: a packed panel, 512 KB, must
// stay in the second-level cache.
constexpr std::int64_t kDepthBlock = 4096;

// Rows of a that are converted at once.
constexpr std::int64_t kRowBlock = 32;

// Below these the conversions cost what the products save.
constexpr std::int64_t kFewestRows = 16;
constexpr std::int64_t kLeastDepth = 32;

constexpr std::int64_t kPanel = kernels::kPackedPanel;

std::int64_t pieces_of(std::int64_t size, std::int64_t piece) {
    return (size + piece - 1) / piece;
}

// Uninitialised, beginning with a cache line.
template <typename T>
class Buffer {
public:
    explicit Buffer(std::int64_t count)
        : data_(static_cast<T*>(
              ::operator new(static_cast<std::size_t>(count) * sizeof(T), kAlignment))) {}
    [[nodiscard]] T* data() const noexcept { return data_.get(); }

private:
    static constexpr std::align_val_t kAlignment{64};
    struct Free {
        void operator()(T* data) const noexcept { ::operator delete(data, kAlignment); }
    };
    std::unique_ptr<T, Free> data_;
};

// One part of the depth.
class DepthBlock {
public:
    DepthBlock(const Product& product, const float* a, const float* b, std::int64_t begin,
               std::uint8_t* prepared)
        : product_(product), kernels_(kernels::cpu_kernels()), packed_(kernels_.bfloat16),
          begin_(begin), depth_(std::min(product.depth - begin, kDepthBlock)),
          a_(a + product.offsets_a[0] + begin * product.column_stride_a),
          b_(b + product.offsets_b[0] + begin * product.row_stride_b), prepared_(prepared) {}

    void prepare_rows() const {
        const std::int64_t size = packed_.prepared_size(depth_);
        parallel_for(0, pieces_of(product_.rows, kRowBlock), 1,
                     [&](std::int64_t first_block, std::int64_t last_block) {
                         const bool in_rows = product_.column_stride_a == 1;
                         const Buffer<float> turned(in_rows ? 0 : kRowBlock * depth_);
                         for (std::int64_t first = first_block * kRowBlock;
                              first < std::min(last_block * kRowBlock, product_.rows);
                              first += kRowBlock) {
                             const std::int64_t count = std::min(kRowBlock, product_.rows - first);
                             const float* rows = a_ + first * product_.row_stride_a;
                             std::int64_t stride = product_.row_stride_a;
                             if (!in_rows) {
                                 kernels_.transpose(rows, product_.column_stride_a, depth_, count,
                                                    turned.data(), depth_);
                                 rows = turned.data();
                                 stride = depth_;
                             }
                             for (std::int64_t row = 0; row < count; ++row) {
                                 packed_.prepare(rows + row * stride, depth_,
                                                 prepared_ + (first + row) * size);
                             }
                         }
                     });
    }

    // Writes y, or adds to it what is not the first block.
    void multiply(float* y) const {
        parallel_for(0, pieces_of(product_.columns, kPanel), 1,
                     [&](std::int64_t first, std::int64_t last) {
                         const Buffer<std::uint8_t> panel(packed_.panel_size(depth_));
                         const Buffer<float> scratch(packed_.pack_scratch(depth_));
                         const Buffer<float> sums(begin_ == 0 ? 0 : product_.rows * kPanel);
                         for (std::int64_t n = first * kPanel;
                              n < std::min(last * kPanel, product_.columns); n += kPanel) {
                             multiply_panel(n, panel.data(), scratch.data(), sums.data(), y + n);
                         }
                     });
    }

private:
    void multiply_panel(std::int64_t n, std::uint8_t* panel, float* scratch, float* sums,
                        float* y) const {
        const std::int64_t columns = std::min(kPanel, product_.columns - n);
        const kernels::Matrix matrix = {b_ + n * product_.column_stride_b, product_.row_stride_b,
                                        product_.column_stride_b};
        packed_.pack(matrix, depth_, 0, columns, panel, scratch);
        const kernels::PackedMatrix w = {panel, depth_, columns};
        if (begin_ == 0) {
            packed_.multiply(prepared_, product_.rows, w, nullptr, 0, columns, y, product_.columns);
            return;
        }
        packed_.multiply(prepared_, product_.rows, w, nullptr, 0, columns, sums, kPanel);
        for (std::int64_t row = 0; row < product_.rows; ++row) {
            kernels_.add(y + row * product_.columns, sums + row * kPanel, columns);
        }
    }

    const Product& product_;
    const kernels::CpuKernels& kernels_;
    const kernels::PackedKernels& packed_;
    std::int64_t begin_;
    std::int64_t depth_;
    const float* a_;
    const float* b_;
    std::uint8_t* prepared_;
};

} // namespace

bool pays_in_bfloat16(const Product& product) {
    return kernels::cpu_kernels().multiplies_bfloat16 && product.offsets_a.size() == 1 &&
           product.rows >= kFewestRows && product.depth >= kLeastDepth && product.columns >= kPanel;
}

void multiply_in_bfloat16(const Product& product, const float* a, const float* b, float* y) {
    const std::int64_t deepest = std::min(product.depth, kDepthBlock);
    const Buffer<std::uint8_t> prepared(product.rows *
                                        kernels::cpu_kernels().bfloat16.prepared_size(deepest));
    for (std::int64_t begin = 0; begin < product.depth; begin += kDepthBlock) {
        const DepthBlock block(product, a, b, begin, prepared.data());
        block.prepare_rows();
        block.multiply(y);
    }
}

} // namespace kael::forward
