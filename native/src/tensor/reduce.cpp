#include "kael/reduce.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "kael/error.h"
#include "kael/promotion.h"
#include "kael/threads.h"

#include "tensor/blocks.h"
#include "tensor/column_sums.h"
#include "tensor/defined.h"
#include "tensor/dimensions.h"
#include "tensor/pairwise.h"
#include "tensor/reductions.h"

namespace kael::forward {

namespace {

// Elements of a row that one thread reduces in one go. A power of two of blocks, so that pieces are
// joined as if the row had none.
constexpr std::int64_t kPiece = 32 * kBlock;
// Rows that are read side by side: where the rows are what is next to each other in memory, these
// share cache lines.
constexpr std::int64_t kRows = 16;
// Elements that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 16384;

// What is reduced: `rows` rows of `length` elements, in the order of `elements`.
struct Rows {
    Tensor tensor;
    std::int64_t rows;
    std::int64_t length;
    Shape shape; // of the result
};

Rows rows_of(const Tensor& x, const std::vector<int>& dimensions, bool keep) {
    std::vector<int> order;
    Rows result{{}, 1, 1, {}};
    for (int i = 0; i < x.rank(); ++i) {
        const bool reduced = std::binary_search(dimensions.begin(), dimensions.end(), i);
        const std::int64_t size = x.shape()[static_cast<std::size_t>(i)];
        if (!reduced) {
            order.push_back(i);
            result.rows *= size;
        } else {
            result.length *= size;
        }
        if (keep || !reduced) {
            result.shape.push_back(reduced ? 1 : size);
        }
    }
    order.insert(order.end(), dimensions.begin(), dimensions.end());
    result.tensor = x.permute(order);
    return result;
}

template <typename T>
constexpr DType kDTypeOf = std::is_same_v<T, float>          ? DType::float32
                           : std::is_same_v<T, double>       ? DType::float64
                           : std::is_same_v<T, std::int64_t> ? DType::int64
                                                             : DType::boolean;

// Reduces rows whose elements are read as T, rounded to `common` before, to one result each.
template <typename T, typename Reduction>
class RowReducer {
public:
    using State = typename Reduction::State;
    using Finished = decltype(Reduction{}.finish(State{}, 0));
    using Stored = std::conditional_t<std::is_same_v<Finished, bool>, std::uint8_t, Finished>;

    RowReducer(const Rows& rows, DType common, const Reduction& reduction)
        : rows_(rows), common_(common), reduction_(reduction), elements_(rows.tensor),
          result_(Tensor::empty(rows.shape, kDTypeOf<Finished>)),
          out_(reinterpret_cast<Stored*>(result_.storage()->data())) {}

    [[nodiscard]] Tensor run() const {
        if (rows_.length == 0) {
            std::fill(out_, out_ + rows_.rows, finish(State{}));
        } else if (rows_.length <= kBlock) {
            reduce_short();
        } else {
            reduce_long();
        }
        return result_;
    }

private:
    [[nodiscard]] Stored finish(const State& state) const {
        return static_cast<Stored>(reduction_.finish(state, rows_.length));
    }

    [[nodiscard]] BlockReader reader() const {
        return {elements_, rows_.tensor.data_ptr_raw(), common_, kDTypeOf<T>};
    }

    // Several rows to a block.
    void reduce_short() const {
        const std::int64_t together = kBlock / rows_.length;
        parallel_for(0, rows_.rows, kGrain / rows_.length,
                     [&](std::int64_t begin, std::int64_t end) {
                         BlockReader reader = this->reader();
                         for (std::int64_t first = begin; first < end; first += together) {
                             const std::int64_t count = std::min(together, end - first);
                             const T* block = reinterpret_cast<const T*>(
                                 reader.read(first * rows_.length, count * rows_.length));
                             for (std::int64_t row = first; row < first + count; ++row) {
                                 out_[row] = finish(reduction_.block(block, rows_.length, 0));
                                 block += rows_.length;
                             }
                         }
                     });
    }

    // Several blocks to a row, and maybe several threads.
    void reduce_long() const {
        const std::int64_t pieces = (rows_.length - 1) / kPiece + 1;
        const std::int64_t groups = (rows_.rows + kRows - 1) / kRows;
        // bool has a vector of its own kind, which threads could not write side by side.
        struct Part {
            State state;
        };
        std::vector<Part> parts(static_cast<std::size_t>(rows_.rows * pieces));
        const std::int64_t unit_elements =
            std::min(rows_.rows, kRows) * std::min(rows_.length, kPiece);
        parallel_for(
            0, groups * pieces, kGrain / unit_elements, [&](std::int64_t begin, std::int64_t end) {
                BlockReader reader = this->reader();
                for (std::int64_t unit = begin; unit < end; ++unit) {
                    const std::int64_t first_row = unit / pieces * kRows;
                    const std::int64_t last_row = std::min(first_row + kRows, rows_.rows);
                    const std::int64_t piece = unit % pieces;
                    std::array<Pairwise<Reduction>, kRows> sums;
                    reduce_piece(reader, first_row, last_row, piece, sums);
                    for (std::int64_t row = first_row; row < last_row; ++row) {
                        parts[static_cast<std::size_t>(row * pieces + piece)].state =
                            sums[static_cast<std::size_t>(row - first_row)].total(reduction_);
                    }
                }
            });
        for (std::int64_t row = 0; row < rows_.rows; ++row) {
            Pairwise<Reduction> sum;
            for (std::int64_t piece = 0; piece < pieces; ++piece) {
                sum.add(reduction_, parts[static_cast<std::size_t>(row * pieces + piece)].state);
            }
            out_[row] = finish(sum.total(reduction_));
        }
    }

    // One piece of the rows from `first_row` on, block for block side by side.
    void reduce_piece(BlockReader& reader, std::int64_t first_row, std::int64_t last_row,
                      std::int64_t piece, std::array<Pairwise<Reduction>, kRows>& sums) const {
        const std::int64_t end = std::min((piece + 1) * kPiece, rows_.length);
        for_each_block(piece * kPiece, end, [&](std::int64_t first, std::int64_t count) {
            for (std::int64_t row = first_row; row < last_row; ++row) {
                const T* const block =
                    reinterpret_cast<const T*>(reader.read(row * rows_.length + first, count));
                sums[static_cast<std::size_t>(row - first_row)].add(
                    reduction_, reduction_.block(block, count, first));
            }
        });
    }

    const Rows& rows_;
    DType common_;
    const Reduction& reduction_;
    Elements elements_;
    Tensor result_;
    Stored* out_;
};

template <typename T, typename Reduction>
Tensor reduce_as(const std::string& name, const Tensor& x, const Over& over, DType result,
                 const Reduction& reduction) {
    const Rows rows = rows_of(x, wrap_dimensions(x, over.dimensions, name), over.keep);
    KAEL_CHECK(!Reduction::kNeedsElements || rows.length > 0,
               name << ": no element to choose from, in a tensor of shape " << to_string(x.shape())
                    << ", expected one or more");
    return RowReducer<T, Reduction>(rows, x.dtype(), reduction).run().to(result);
}

// make(T{}) is the reduction of floats of type T.
template <typename Make>
Tensor reduce_floats(const std::string& name, const Tensor& x, const Over& over, DType result,
                     Make&& make) {
    check_defined(x, name);
    KAEL_CHECK(is_floating_point(x.dtype()), name << ": a tensor of dtype " << kael::name(x.dtype())
                                                  << ", expected a floating-point one");
    return x.dtype() == DType::float64 ? reduce_as<double>(name, x, over, result, make(double{}))
                                       : reduce_as<float>(name, x, over, result, make(float{}));
}

// Integers and bools, as int64, as well.
template <typename Make>
Tensor reduce(const std::string& name, const Tensor& x, const Over& over, DType result,
              Make&& make) {
    check_defined(x, name);
    return is_floating_point(x.dtype())
               ? reduce_floats(name, x, over, result, make)
               : reduce_as<std::int64_t>(name, x, over, result, make(std::int64_t{}));
}

DType sum_type(const Tensor& x) {
    return is_floating_point(x.dtype()) ? x.dtype() : DType::int64;
}

Tensor variance(const std::string& name, const Tensor& x, const Over& over, double correction,
                bool root) {
    return reduce_floats(name, x, over, x.dtype(), [&](auto zero) {
        reductions::Var<decltype(zero)> reduction;
        reduction.correction = correction;
        reduction.root = root;
        return reduction;
    });
}

Over over_one(std::optional<int> dimension, bool keep) {
    return {dimension.has_value() ? std::vector<int>{*dimension} : std::vector<int>{}, keep};
}

} // namespace

Tensor sum(const Tensor& x, const Over& over) {
    check_defined(x, "sum");
    const std::vector<int> dimensions = wrap_dimensions(x, over.dimensions, "sum");
    if (are_columns(x, dimensions)) {
        return column_sums(x, static_cast<int>(dimensions.size()))
            .reshape(rows_of(x, dimensions, over.keep).shape);
    }
    return reduce("sum", x, over, sum_type(x),
                  [](auto zero) { return reductions::Sum<decltype(zero)>{}; });
}

Tensor prod(const Tensor& x, const Over& over) {
    return reduce("prod", x, over, sum_type(x),
                  [](auto zero) { return reductions::Prod<decltype(zero)>{}; });
}

Tensor mean(const Tensor& x, const Over& over) {
    return reduce_floats("mean", x, over, x.dtype(),
                         [](auto zero) { return reductions::Mean<decltype(zero)>{}; });
}

Tensor var(const Tensor& x, const Over& over, double correction) {
    return variance("var", x, over, correction, false);
}

Tensor std_deviation(const Tensor& x, const Over& over, double correction) {
    return variance("std", x, over, correction, true);
}

Tensor norm(const Tensor& x, double p, const Over& over) {
    using reductions::Extreme;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto run = [&](auto make) { return reduce_floats("norm", x, over, x.dtype(), make); };
    if (p == 2) {
        return run([](auto zero) { return reductions::Norm2<decltype(zero)>{}; });
    }
    if (p == 1) {
        return run([](auto zero) { return reductions::Norm1<decltype(zero)>{}; });
    }
    if (p == 0) {
        return run([](auto zero) { return reductions::Norm0<decltype(zero)>{}; });
    }
    if (p == kInfinity) {
        return run([](auto zero) { return Extreme<decltype(zero), reductions::Larger, true>{}; });
    }
    if (p == -kInfinity) {
        return run([](auto zero) { return Extreme<decltype(zero), reductions::Smaller, true>{}; });
    }
    KAEL_CHECK(p == p, "norm: p is NaN, expected a number");
    return run([p](auto zero) {
        reductions::NormP<decltype(zero)> reduction;
        reduction.p = p;
        return reduction;
    });
}

Tensor logsumexp(const Tensor& x, const Over& over) {
    check_defined(x, "logsumexp");
    const Tensor floats = is_floating_point(x.dtype()) ? x : x.to(kDefaultFloat);
    return reduce_floats("logsumexp", floats, over, floats.dtype(),
                         [](auto zero) { return reductions::LogSumExp<decltype(zero)>{}; });
}

Tensor amax(const Tensor& x, const Over& over) {
    return reduce("amax", x, over, x.dtype(), [](auto zero) {
        return reductions::Extreme<decltype(zero), reductions::Larger>{};
    });
}

Tensor amin(const Tensor& x, const Over& over) {
    return reduce("amin", x, over, x.dtype(), [](auto zero) {
        return reductions::Extreme<decltype(zero), reductions::Smaller>{};
    });
}

Tensor any(const Tensor& x, const Over& over) {
    return reduce("any", x, over, DType::boolean,
                  [](auto zero) { return reductions::Any<decltype(zero)>{}; });
}

Tensor all(const Tensor& x, const Over& over) {
    return reduce("all", x, over, DType::boolean,
                  [](auto zero) { return reductions::All<decltype(zero)>{}; });
}

Tensor argmax(const Tensor& x, std::optional<int> dimension, bool keep) {
    return reduce("argmax", x, over_one(dimension, keep), DType::int64, [](auto zero) {
        return reductions::ArgExtreme<decltype(zero), reductions::Larger>{};
    });
}

Tensor argmin(const Tensor& x, std::optional<int> dimension, bool keep) {
    return reduce("argmin", x, over_one(dimension, keep), DType::int64, [](auto zero) {
        return reductions::ArgExtreme<decltype(zero), reductions::Smaller>{};
    });
}

} // namespace kael::forward
