#include "kael/matmul.h"

#include <algorithm>
#include <vector>

#include "kael/error.h"
#include "kael/promotion.h"
#include "kael/threads.h"

#include "kernels/cpu/kernels.h"
#include "tensor/defined.h"

namespace kael::forward {

namespace {

// Multiplications that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 1 << 18;

// Rows that are multiplied in one go: enough that what a kernel prepares of b does not count.
constexpr std::int64_t kRowBlock = 128;

// Matrices [rows, depth] . [depth, columns], one for each index of the batch.
struct Product {
    std::int64_t rows = 0;
    std::int64_t depth = 0;
    std::int64_t columns = 0;
    std::int64_t row_stride_a = 0;
    std::int64_t row_stride_b = 0;
    std::vector<std::int64_t> offsets_a; // of the matrices, in elements
    std::vector<std::int64_t> offsets_b;
};

// A tile of one product: rows [0, rows) of x and y, columns [first, last) of w and y.
template <typename T>
struct Tile {
    const T* x;
    std::int64_t ldx;
    std::int64_t rows;
    const T* w;
    std::int64_t ldw;
    std::int64_t depth;
    std::int64_t first;
    std::int64_t last;
    T* y;
    std::int64_t ldy;
};

// The kernels that GPT-2 runs on.
class FloatTiles {
public:
    explicit FloatTiles(std::int64_t depth)
        : scratch_(static_cast<std::size_t>(kernels::cpu_kernels().matmul_scratch(depth))) {}
    static std::int64_t panel() { return kernels::cpu_kernels().matmul_panel; }
    void operator()(const Tile<float>& tile) {
        kernels::cpu_kernels().matmul(tile.x, tile.ldx, tile.rows, tile.w, tile.ldw, tile.depth,
                                      nullptr, tile.first, tile.last, tile.y, tile.ldy,
                                      scratch_.data());
    }

private:
    std::vector<float> scratch_;
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
            const T* const w = tile.w + k * tile.ldw + column;
            for (std::int64_t i = 0; i < rows; ++i) {
                const T factor = tile.x[(row + i) * tile.ldx + k];
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

// Columns of one tile: as many as leave every thread something to do, since wide tiles are read
// faster.
std::int64_t tile_columns(const Product& product, std::int64_t panel) {
    const std::int64_t tiles =
        static_cast<std::int64_t>(product.offsets_a.size()) * pieces_of(product.rows, kRowBlock);
    const std::int64_t wanted = pieces_of(std::int64_t{4} * get_num_threads(), tiles);
    return pieces_of(pieces_of(product.columns, wanted), panel) * panel;
}

template <typename T, typename Tiles>
void multiply(const Product& product, const std::byte* a, const std::byte* b, std::byte* y) {
    const std::int64_t columns = tile_columns(product, Tiles::panel());
    const std::int64_t across = pieces_of(product.columns, columns);
    const std::int64_t down = pieces_of(product.rows, kRowBlock);
    const std::int64_t tile_size =
        std::min(product.rows, kRowBlock) * std::min(product.columns, columns) * product.depth;
    const auto batch = static_cast<std::int64_t>(product.offsets_a.size());
    parallel_for(
        0, batch * down * across, kGrain / tile_size + 1,
        [&](std::int64_t begin, std::int64_t end) {
            Tiles tiles(product.depth);
            for (std::int64_t unit = begin; unit < end; ++unit) {
                const std::int64_t matrix = unit / (down * across);
                const std::int64_t row = unit / across % down * kRowBlock;
                const std::int64_t first = unit % across * columns;
                const auto at = static_cast<std::size_t>(matrix);
                tiles(Tile<T>{
                    reinterpret_cast<const T*>(a) + product.offsets_a[at] +
                        row * product.row_stride_a,
                    product.row_stride_a, std::min(kRowBlock, product.rows - row),
                    reinterpret_cast<const T*>(b) + product.offsets_b[at], product.row_stride_b,
                    product.depth, first, std::min(first + columns, product.columns),
                    reinterpret_cast<T*>(y) + (matrix * product.rows + row) * product.columns,
                    product.columns});
            }
        });
}

// The tensor with rows without gaps, which is what kernels read; rows may lie anywhere.
Tensor with_dense_rows(const Tensor& x) {
    return x.shape().back() == 1 || x.strides().back() == 1 ? x : x.contiguous();
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
                                       << " of the second " << rows);
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
    left = with_dense_rows(left);
    right = with_dense_rows(right);
    product.row_stride_a = left.strides().end()[-2];
    product.row_stride_b = right.strides().end()[-2];
    product.offsets_a = matrix_offsets(left, batch);
    product.offsets_b = matrix_offsets(right, batch);
    const std::byte* const from_a = left.data_ptr_raw();
    const std::byte* const from_b = right.data_ptr_raw();
    std::byte* const to = result.storage()->data();
    if (compute == DType::float32) {
        multiply<float, FloatTiles>(product, from_a, from_b, to);
    } else if (compute == DType::float64) {
        multiply<double, PlainTiles<double>>(product, from_a, from_b, to);
    } else {
        multiply<std::uint64_t, PlainTiles<std::uint64_t>>(product, from_a, from_b, to);
    }
    return result.to(a.dtype());
}

} // namespace kael::forward
