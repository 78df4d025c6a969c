#include "kael/matmul.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "kael/error.h"
#include "kael/promotion.h"
#include "kael/threads.h"

#include "kernels/cpu/kernels.h"
#include "tensor/defined.h"
#include "tensor/matmul_bfloat16.h"
#include "tensor/matmul_product.h"

namespace kael {

namespace {

std::atomic<MatmulPrecision> precision{MatmulPrecision::highest};

} // namespace

void set_float32_matmul_precision(MatmulPrecision wanted) {
    precision.store(wanted, std::memory_order_relaxed);
}

MatmulPrecision float32_matmul_precision() noexcept {
    return precision.load(std::memory_order_relaxed);
}

} // namespace kael

namespace kael::forward {

namespace {

// Multiplications that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 1 << 18;

// Rows that are multiplied in one go: enough that what a kernel prepares of b does not count.
constexpr std::int64_t kRowBlock = 256;

// Of a longer product the sums over parts of this depth are added up: what a kernel prepares of b
// must stay in a cache.
constexpr std::int64_t kDepthBlock = 8192;

// A tile of one product: rows [0, rows) of x and y, columns [first, last) of w and y.
template <typename T>
struct Tile {
    const T* x;
    std::int64_t row_stride_x;
    std::int64_t column_stride_x;
    std::int64_t rows;
    const T* w;
    std::int64_t row_stride_w;
    std::int64_t column_stride_w;
    std::int64_t depth;
    std::int64_t first;
    std::int64_t last;
    T* y;
    std::int64_t ldy;
};

// The kernels that GPT-2 runs on. Rows or columns have no gaps.
class FloatTiles {
public:
    explicit FloatTiles(std::int64_t depth)
        : scratch_(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(
              kernels::cpu_kernels().matmul_scratch(std::min(depth, kDepthBlock))))) {}
    static std::int64_t panel() { return kernels::cpu_kernels().matmul_panel; }
    void operator()(const Tile<float>& tile) {
        const kernels::CpuKernels& kernels = kernels::cpu_kernels();
        for (std::int64_t k = 0; k < tile.depth; k += kDepthBlock) {
            const std::int64_t depth = std::min(tile.depth - k, kDepthBlock);
            const float* x = tile.x + k * tile.column_stride_x;
            std::int64_t ldx = tile.row_stride_x;
            if (tile.column_stride_x != 1) {
                if (x_in_rows_ == nullptr) {
                    x_in_rows_ = std::make_unique_for_overwrite<float[]>(
                        static_cast<std::size_t>(kRowBlock * std::min(tile.depth, kDepthBlock)));
                }
                kernels.transpose(x, tile.column_stride_x, depth, tile.rows, x_in_rows_.get(),
                                  depth);
                x = x_in_rows_.get();
                ldx = depth;
            }
            const kernels::Matrix w = {tile.w + k * tile.row_stride_w, tile.row_stride_w,
                                       tile.column_stride_w};
            if (k == 0) {
                kernels.matmul(x, ldx, tile.rows, w, depth, nullptr, tile.first, tile.last, tile.y,
                               tile.ldy, scratch_.get());
            } else {
                kernels.matmul_add(x, ldx, tile.rows, w, depth, tile.first, tile.last, tile.y,
                                   tile.ldy, scratch_.get());
            }
        }
    }

private:
    std::unique_ptr<float[]> scratch_;
    std::unique_ptr<float[]> x_in_rows_; // once it is needed
};

// For the other types: every output is one sum from the first k to the last.
template <typename T>
class PlainTiles {
public:
    explicit PlainTiles(std::int64_t /*depth*/) {}
    static std::int64_t panel() { return kColumns; }
    void operator()(const Tile<T>& tile) {
        for (std::int64_t row = 0; row < tile.rows; row += kRows) {
            const std::int64_t rows = std::min(kRows, tile.rows - row);
            for (std::int64_t column = tile.first; column < tile.last; column += kColumns) {
                multiply(tile, row, rows, column, std::min(kColumns, tile.last - column));
            }
        }
    }

private:
    static constexpr std::int64_t kRows = 4;
    static constexpr std::int64_t kColumns = 64;

    static void multiply(const Tile<T>& tile, std::int64_t row, std::int64_t rows,
                         std::int64_t column, std::int64_t columns) {
        T sums[kRows][kColumns] = {};
        for (std::int64_t k = 0; k < tile.depth; ++k) {
            const T* const w = tile.w + k * tile.row_stride_w + column;
            for (std::int64_t i = 0; i < rows; ++i) {
                const T factor = tile.x[(row + i) * tile.row_stride_x + k];
                for (std::int64_t j = 0; j < columns; ++j) {
                    sums[i][j] += factor * w[j];
                }
            }
        }
        for (std::int64_t i = 0; i < rows; ++i) {
            std::copy(sums[i], sums[i] + columns, tile.y + (row + i) * tile.ldy + column);
        }
    }
};

std::int64_t pieces_of(std::int64_t size, std::int64_t piece) {
    return (size + piece - 1) / piece;
}

// Columns of one tile: as many as leave every thread a few tiles, since wide tiles are read faster,
// and, where that can be, all of them the same number.
std::int64_t tile_columns(const Product& product, std::int64_t panel) {
    const std::int64_t threads = get_num_threads();
    const std::int64_t down =
        static_cast<std::int64_t>(product.offsets_a.size()) * pieces_of(product.rows, kRowBlock);
    const std::int64_t panels = pieces_of(product.columns, panel);
    const std::int64_t fewest = pieces_of(4 * threads, down);
    for (std::int64_t across = fewest; across < fewest + threads; ++across) {
        const std::int64_t width = pieces_of(panels, across);
        if (down * pieces_of(panels, width) % threads == 0) {
            return width * panel;
        }
    }
    return pieces_of(panels, fewest) * panel;
}

template <typename T, typename Tiles>
void multiply(const Product& product, const std::byte* a, const std::byte* b, std::byte* y) {
    const std::int64_t columns = tile_columns(product, Tiles::panel());
    const std::int64_t across = pieces_of(product.columns, columns);
    const std::int64_t down = pieces_of(product.rows, kRowBlock);
    const std::int64_t tile_size =
        std::min(product.rows, kRowBlock) * std::min(product.columns, columns) * product.depth;
    const auto batch = static_cast<std::int64_t>(product.offsets_a.size());
    parallel_for(0, batch * down * across, kGrain / tile_size + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                     Tiles tiles(product.depth);
                     for (std::int64_t unit = begin; unit < end; ++unit) {
                         const std::int64_t matrix = unit / (down * across);
                         const std::int64_t row = unit / across % down * kRowBlock;
                         const std::int64_t first = unit % across * columns;
                         const auto at = static_cast<std::size_t>(matrix);
                         tiles(Tile<T>{reinterpret_cast<const T*>(a) + product.offsets_a[at] +
                                           row * product.row_stride_a,
                                       product.row_stride_a, product.column_stride_a,
                                       std::min(kRowBlock, product.rows - row),
                                       reinterpret_cast<const T*>(b) + product.offsets_b[at],
                                       product.row_stride_b, product.column_stride_b, product.depth,
                                       first, std::min(first + columns, product.columns),
                                       reinterpret_cast<T*>(y) +
                                           (matrix * product.rows + row) * product.columns,
                                       product.columns});
                     }
                 });
}

// Matrices [..., rows, columns] as kernels read them, and their strides. One of these is 1; the
// rows, or the columns, may lie anywhere.
struct Readable {
    Tensor tensor;
    std::int64_t row_stride;
    std::int64_t column_stride;
};

Readable readable(const Tensor& x, bool reads_columns) {
    const std::int64_t row_stride = x.strides().end()[-2];
    const std::int64_t column_stride = x.strides().back();
    if (x.size(-1) == 1 || column_stride == 1) {
        return {x, row_stride, 1};
    }
    if (reads_columns && (x.size(-2) == 1 || row_stride == 1)) {
        return {x, 1, column_stride};
    }
    const Tensor copy = x.contiguous();
    return {copy, copy.strides().end()[-2], 1};
}

// Where the matrices of `x` [..., rows, columns] begin, in the order of the batch to which it
// broadcasts.
std::vector<std::int64_t> matrix_offsets(const Tensor& x, Shape batch) {
    const std::size_t dimensions = batch.size();
    batch.insert(batch.end(), x.shape().end() - 2, x.shape().end());
    const Tensor all = x.expand(batch);
    batch.resize(dimensions);
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(element_count(batch)));
    for (std::size_t matrix = 0; matrix < offsets.size(); ++matrix) {
        auto rest = static_cast<std::int64_t>(matrix);
        std::int64_t offset = 0;
        for (std::size_t i = dimensions; i-- > 0;) {
            offset += rest % batch[i] * all.strides()[i];
            rest /= batch[i];
        }
        offsets[matrix] = offset;
    }
    return offsets;
}

DType compute_type(DType dtype) {
    if (!is_floating_point(dtype)) {
        return DType::int64;
    }
    return dtype == DType::float64 ? DType::float64 : DType::float32;
}

void check_operands(const Tensor& a, const Tensor& b) {
    check_defined(a, "matmul");
    check_defined(b, "matmul");
    KAEL_CHECK(a.dtype() == b.dtype() && a.dtype() != DType::boolean,
               "matmul: operands of dtype " << name(a.dtype()) << " and " << name(b.dtype())
                                            << ", expected numbers of one dtype");
    KAEL_CHECK(a.rank() > 0 && b.rank() > 0, "matmul: operands of shape "
                                                 << to_string(a.shape()) << " and "
                                                 << to_string(b.shape())
                                                 << ", expected at least one dimension each");
    const std::int64_t rows = b.rank() == 1 ? b.size(0) : b.size(-2);
    KAEL_CHECK(a.size(-1) == rows, "matmul: the shapes "
                                       << to_string(a.shape()) << " and " << to_string(b.shape())
                                       << " do not match: the last dimension of the first has "
                                       << a.size(-1) << ", the "
                                       << (b.rank() == 1 ? "only" : "last but one")
                                       << " of the second " << rows << ", expected equal sizes");
}

} // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
    check_operands(a, b);
    const DType compute = compute_type(a.dtype());
    Tensor left = (a.rank() == 1 ? a.unsqueeze(0) : a).to(compute);
    Tensor right = (b.rank() == 1 ? b.unsqueeze(1) : b).to(compute);
    const Shape batches[] = {Shape(left.shape().begin(), left.shape().end() - 2),
                             Shape(right.shape().begin(), right.shape().end() - 2)};
    Shape batch = broadcast_shapes(batches, "matmul");

    Product product;
    product.rows = left.size(-2);
    product.depth = left.size(-1);
    product.columns = right.size(-1);
    Shape shape = batch;
    if (a.rank() > 1) {
        shape.push_back(product.rows);
    }
    if (b.rank() > 1) {
        shape.push_back(product.columns);
    }
    if (product.depth == 0 || element_count(shape) == 0) {
        return Tensor::zeros(shape, a.dtype());
    }
    const Tensor result = Tensor::empty(shape, compute);
    if (right.rank() == 2) {
        // One matrix with many rows instead of many with few.
        left = left.reshape({-1, product.depth});
        product.rows = left.size(0);
        batch.clear();
    }
    const bool reads_columns = compute == DType::float32; // FloatTiles alone does
    const Readable readable_a = readable(left, reads_columns);
    const Readable readable_b = readable(right, reads_columns);
    product.row_stride_a = readable_a.row_stride;
    product.column_stride_a = readable_a.column_stride;
    product.row_stride_b = readable_b.row_stride;
    product.column_stride_b = readable_b.column_stride;
    product.offsets_a = matrix_offsets(readable_a.tensor, batch);
    product.offsets_b = matrix_offsets(readable_b.tensor, batch);
    const std::byte* const from_a = readable_a.tensor.data_ptr_raw();
    const std::byte* const from_b = readable_b.tensor.data_ptr_raw();
    std::byte* const to = result.storage()->data();
    if (a.dtype() == DType::float32 &&
        kael::float32_matmul_precision() == MatmulPrecision::medium && pays_in_bfloat16(product)) {
        multiply_in_bfloat16(product, reinterpret_cast<const float*>(from_a),
                             reinterpret_cast<const float*>(from_b), reinterpret_cast<float*>(to));
    } else if (compute == DType::float32) {
        multiply<float, FloatTiles>(product, from_a, from_b, to);
    } else if (compute == DType::float64) {
        multiply<double, PlainTiles<double>>(product, from_a, from_b, to);
    } else {
        multiply<std::uint64_t, PlainTiles<std::uint64_t>>(product, from_a, from_b, to);
    }
    return result.to(a.dtype());
}

} // namespace kael::forward
