#include "kael/indexing.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <type_traits>

#include "kael/elementwise.h"
#include "kael/error.h"
#include "kael/threads.h"

#include "base/checked_arithmetic.h"
#include "tensor/blocks.h"
#include "tensor/defined.h"
#include "tensor/dimensions.h"
#include "tensor/forward_views.h"
#include "tensor/overlap.h"

namespace kael::forward {

namespace {

// Elements that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 8192;

void check_index(const std::string& name, const Tensor& index) {
    check_defined(index, name);
    KAEL_CHECK(index.dtype() == DType::int64,
               name << ": an index of dtype " << kael::name(index.dtype()) << ", expected int64");
}

void check_source(const std::string& name, const Tensor& x, const Tensor& source,
                  const Shape& shape) {
    check_defined(source, name);
    KAEL_CHECK(source.dtype() == x.dtype() && x.dtype() != DType::boolean,
               name << ": tensors of dtype " << kael::name(x.dtype()) << " and "
                    << kael::name(source.dtype()) << ", expected numbers of one dtype");
    KAEL_CHECK(source.shape() == shape, name << ": a source of shape " << to_string(source.shape())
                                             << ", expected " << to_string(shape));
}

// A tensor as [outer, size of the dimension, inner].
struct Slices {
    std::int64_t outer = 1;
    std::int64_t size = 1;
    std::int64_t inner = 1;

    Slices(const Shape& shape, int dimension) {
        for (std::size_t i = 0; i < shape.size(); ++i) {
            const auto place = static_cast<std::size_t>(dimension);
            (i < place ? outer : i == place ? size : inner) *= shape[i];
        }
    }
};

// Sums run in what rounds least; integers wrap.
DType sum_type(DType dtype) {
    if (!is_floating_point(dtype)) {
        return DType::int64;
    }
    return dtype == DType::float64 ? DType::float64 : DType::float32;
}

// Calls body(T{}) with the type in which elements of `dtype`, a sum_type, are added.
template <typename Body>
void with_sum_type(DType dtype, Body&& body) {
    if (dtype == DType::int64) {
        body(std::uint64_t{});
    } else if (dtype == DType::float64) {
        body(double{});
    } else {
        body(float{});
    }
}

// A copy of x to which elements of `dtype` may be added.
Tensor copy_as(const Tensor& x, DType dtype) {
    const Tensor converted = to(x, dtype);
    return converted.is_same(x) ? clone(x) : converted;
}

Tensor contiguous(const Tensor& x) {
    return x.is_contiguous() ? x : clone(x);
}

// The indices, without gaps, when `size` allows all of them; else an error that names the first
// that it does not.
Tensor checked_indices(const std::string& name, const Tensor& index, std::int64_t size,
                       int dimension) {
    const Tensor indices = contiguous(index);
    const std::int64_t* const values = indices.data<std::int64_t>();
    for (std::int64_t i = 0; i < indices.numel(); ++i) {
        KAEL_CHECK(values[i] >= 0 && values[i] < size,
                   name << ": index " << values[i] << " in dimension " << dimension << " of size "
                        << size << ", expected 0 to " << size - 1);
    }
    return indices;
}

// Sizes and strides along a dimension; a tensor without any has one element.
std::int64_t size_along(const Tensor& x, int dimension) {
    return x.rank() == 0 ? 1 : x.size(dimension);
}
std::int64_t stride_along(const Tensor& x, int dimension) {
    return x.rank() == 0 ? 1 : x.strides()[static_cast<std::size_t>(dimension)];
}

// Walks the elements of `index` in order and, beside them, what they mean in a tensor with
// `strides`: calls body(position in index, offset) for [begin, end), where `offset` leaves out
// `dimension`.
template <typename Body>
void for_each_place(const Shape& shape, const Shape& strides, int dimension, std::int64_t begin,
                    std::int64_t end, Body&& body) {
    if (begin >= end) {
        return; // an empty dimension has no positions to divide by
    }
    const std::size_t rank = shape.size();
    std::array<std::int64_t, kMaxRank> step{};
    for (std::size_t i = 0; i < rank; ++i) {
        step[i] = static_cast<int>(i) == dimension ? 0 : strides[i];
    }
    std::array<std::int64_t, kMaxRank> position{};
    std::int64_t offset = 0;
    std::int64_t rest = begin;
    for (std::size_t i = rank; i-- > 0;) {
        position[i] = rest % shape[i];
        rest /= shape[i];
        offset += position[i] * step[i];
    }
    for (std::int64_t n = begin; n < end; ++n) {
        body(n, offset);
        for (std::size_t i = rank; i-- > 0;) {
            offset += step[i];
            if (++position[i] < shape[i]) {
                break;
            }
            offset -= shape[i] * step[i];
            position[i] = 0;
        }
    }
}

void check_gather_shapes(const std::string& name, const Tensor& x, int dimension,
                         const Tensor& index) {
    bool fits = index.rank() == x.rank();
    for (int i = 0; fits && i < x.rank(); ++i) {
        fits = i == dimension || index.size(i) <= x.size(i);
    }
    KAEL_CHECK(fits, name << ": an index of shape " << to_string(index.shape())
                          << " for a tensor of shape " << to_string(x.shape())
                          << ", expected as many dimensions, none but dimension " << dimension
                          << " larger");
}

// What scatter_ writes, in the shape of `index` and without gaps.
Tensor scattered_values(const Tensor& x, const Tensor& index, const Operand& source) {
    if (!source.is_number()) {
        const Tensor& tensor = source.tensor();
        check_defined(tensor, "scatter");
        KAEL_CHECK(tensor.dtype() == x.dtype(), "scatter: tensors of dtype "
                                                    << kael::name(x.dtype()) << " and "
                                                    << kael::name(tensor.dtype())
                                                    << ", expected one dtype");
        KAEL_CHECK(tensor.shape() == index.shape(),
                   "scatter: a source of shape " << to_string(tensor.shape()) << ", expected "
                                                 << to_string(index.shape()));
        return overlap(x, tensor) ? clone(tensor) : contiguous(tensor);
    }
    check_fits(source.number(), x.dtype(), "scatter");
    KAEL_CHECK(can_store(source.dtype(), x.dtype()),
               "scatter: the number " << to_string(source.number()) << " for a tensor of dtype "
                                      << kael::name(x.dtype()) << ", expected "
                                      << storable(x.dtype()));
    Tensor values = Tensor::empty(index.shape(), x.dtype());
    return copy_(values, source);
}

} // namespace

Tensor cat(const std::vector<Tensor>& tensors, int dimension) {
    KAEL_CHECK(!tensors.empty(), "cat: no tensors, expected at least one");
    dimension = wrap_dimension(tensors[0], dimension, "cat");
    const auto place = static_cast<std::size_t>(dimension);
    DType dtype = tensors[0].dtype();
    Shape shape = tensors[0].shape();
    KAEL_CHECK(!shape.empty(), "cat: tensors without dimensions, expected one or more: use stack");
    shape[place] = 0;
    for (const Tensor& tensor : tensors) {
        check_defined(tensor, "cat");
        Shape rest = tensor.shape();
        if (rest.size() == shape.size()) {
            rest[place] = shape[place];
        }
        KAEL_CHECK(rest == shape, "cat: the shapes " << to_string(tensors[0].shape()) << " and "
                                                     << to_string(tensor.shape())
                                                     << " differ elsewhere than in dimension "
                                                     << dimension
                                                     << ", expected equal sizes in all others");
        const std::optional<std::int64_t> size = try_add(shape[place], tensor.shape()[place]);
        KAEL_CHECK(size.has_value(), "cat: more than 2^63 - 1 elements in dimension "
                                         << dimension << " together, expected fewer");
        shape[place] = *size;
        dtype = promote(dtype, tensor.dtype());
    }
    Tensor result = Tensor::empty(shape, dtype);
    std::int64_t start = 0;
    for (const Tensor& tensor : tensors) {
        const std::int64_t end = start + tensor.shape()[place];
        Tensor part = slice(result, dimension, start, end, 1);
        copy_(part, tensor);
        start = end;
    }
    return result;
}

Tensor index_select(const Tensor& x, int dimension, const Tensor& index) {
    dimension = wrap_dimension(x, dimension, "index_select");
    check_index("index_select", index);
    KAEL_CHECK(index.rank() == 1 && x.rank() > 0,
               "index_select: an index of shape "
                   << to_string(index.shape()) << " for a tensor of shape " << to_string(x.shape())
                   << ", expected one dimension, and one or more");
    Shape shape = x.shape();
    shape[static_cast<std::size_t>(dimension)] = index.numel();
    const Tensor result = Tensor::empty(shape, x.dtype());
    const Tensor source = contiguous(x);
    const Slices slices(x.shape(), dimension);
    const Tensor indices = checked_indices("index_select", index, slices.size, dimension);
    const std::int64_t* const wanted = indices.data<std::int64_t>();
    const std::int64_t bytes = slices.inner * item_size(x.dtype());
    const std::byte* const from = source.data_ptr_raw();
    std::byte* const target = result.storage()->data();
    parallel_for(0, bytes == 0 ? 0 : slices.outer * index.numel(),
                 kGrain / std::max<std::int64_t>(slices.inner, 1) + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                         const std::int64_t outer = i / index.numel();
                         const std::int64_t row = outer * slices.size + wanted[i % index.numel()];
                         std::copy_n(from + row * bytes, bytes, target + i * bytes);
                     }
                 });
    return result;
}

namespace {

// Adds the slices of `source` to those of `total`, which is contiguous and of a sum_type. `index`
// has been checked.
void add_slices(const Tensor& total, int dimension, const Tensor& index, const Tensor& source) {
    const Slices slices(total.shape(), dimension);
    const Tensor indices = checked_indices("index_add", index, slices.size, dimension);
    const std::int64_t* const places = indices.data<std::int64_t>();
    const Tensor added = contiguous(to(source, total.dtype()));
    with_sum_type(total.dtype(), [&](auto zero) {
        using T = decltype(zero);
        const T* const from = reinterpret_cast<const T*>(added.data_ptr_raw());
        T* const to = reinterpret_cast<T*>(total.storage()->data());
        // Threads share the elements of a slice: each adds all that comes to its own, in order.
        parallel_for(0, slices.outer == 0 ? 0 : slices.inner,
                     kGrain / std::max<std::int64_t>(slices.outer * index.numel(), 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = 0; i < slices.outer * index.numel(); ++i) {
                             const std::int64_t outer = i / index.numel();
                             const T* const row = from + i * slices.inner;
                             T* const sum = to + (outer * slices.size + places[i % index.numel()]) *
                                                     slices.inner;
                             for (std::int64_t j = begin; j < end; ++j) {
                                 sum[j] += row[j];
                             }
                         }
                     });
    });
}

} // namespace

Tensor index_add(const Tensor& x, int dimension, const Tensor& index, const Tensor& source) {
    dimension = wrap_dimension(x, dimension, "index_add");
    check_index("index_add", index);
    KAEL_CHECK(index.rank() == 1 && x.rank() > 0,
               "index_add: an index of shape " << to_string(index.shape())
                                               << " for a tensor of shape " << to_string(x.shape())
                                               << ", expected one dimension, and one or more");
    Shape shape = x.shape();
    shape[static_cast<std::size_t>(dimension)] = index.numel();
    check_source("index_add", x, source, shape);
    const Tensor result = copy_as(x, sum_type(x.dtype()));
    add_slices(result, dimension, index, source);
    return to(result, x.dtype());
}

Tensor index_sum(const Shape& shape, int dimension, const Tensor& index, const Tensor& source) {
    const Tensor result = Tensor::zeros(shape, sum_type(source.dtype()));
    add_slices(result, wrap_dimension(result, dimension, "index_add"), index, source);
    return to(result, source.dtype());
}

Tensor gather(const Tensor& x, int dimension, const Tensor& index) {
    dimension = wrap_dimension(x, dimension, "gather");
    check_index("gather", index);
    check_gather_shapes("gather", x, dimension, index);
    const Tensor result = Tensor::empty(index.shape(), x.dtype());
    const Tensor indices = checked_indices("gather", index, size_along(x, dimension), dimension);
    const std::int64_t* const wanted = indices.data<std::int64_t>();
    const std::int64_t stride = stride_along(x, dimension);
    with_item(item_size(x.dtype()), [&](auto zero) {
        using Item = decltype(zero);
        const Item* const from = reinterpret_cast<const Item*>(x.data_ptr_raw());
        Item* const to = reinterpret_cast<Item*>(result.storage()->data());
        parallel_for(0, result.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
            for_each_place(index.shape(), x.strides(), dimension, begin, end,
                           [&](std::int64_t n, std::int64_t offset) {
                               to[n] = from[offset + wanted[n] * stride];
                           });
        });
    });
    return result;
}

Tensor scatter_add(const Tensor& x, int dimension, const Tensor& index, const Tensor& source) {
    dimension = wrap_dimension(x, dimension, "scatter_add");
    check_index("scatter_add", index);
    check_gather_shapes("scatter_add", x, dimension, index);
    check_source("scatter_add", x, source, index.shape());
    const DType compute = sum_type(x.dtype());
    const Tensor result = copy_as(x, compute);
    const Tensor added = contiguous(to(source, compute));
    const Tensor indices =
        checked_indices("scatter_add", index, size_along(x, dimension), dimension);
    const std::int64_t* const places = indices.data<std::int64_t>();
    const std::int64_t stride = stride_along(result, dimension);
    with_sum_type(compute, [&](auto zero) {
        using T = decltype(zero);
        const T* const from = reinterpret_cast<const T*>(added.data_ptr_raw());
        T* const to = reinterpret_cast<T*>(result.storage()->data());
        for_each_place(index.shape(), result.strides(), dimension, 0, index.numel(),
                       [&](std::int64_t n, std::int64_t offset) {
                           to[offset + places[n] * stride] += from[n];
                       });
    });
    return to(result, x.dtype());
}

Tensor& scatter_(Tensor& x, int dimension, const Tensor& index, const Operand& source) {
    dimension = wrap_dimension(x, dimension, "scatter");
    check_index("scatter", index);
    check_gather_shapes("scatter", x, dimension, index);
    check_destination(x, "scatter");
    const Tensor values = scattered_values(x, index, source);
    const Tensor indices = checked_indices("scatter", overlap(x, index) ? clone(index) : index,
                                           size_along(x, dimension), dimension);
    const std::int64_t* const places = indices.data<std::int64_t>();
    const std::int64_t stride = stride_along(x, dimension);
    with_item(item_size(x.dtype()), [&](auto zero) {
        using Item = decltype(zero);
        const Item* const from = reinterpret_cast<const Item*>(values.data_ptr_raw());
        Item* const to = reinterpret_cast<Item*>(x.storage()->data()) + x.offset();
        for_each_place(index.shape(), x.strides(), dimension, 0, index.numel(),
                       [&](std::int64_t n, std::int64_t offset) {
                           to[offset + places[n] * stride] = from[n];
                       });
    });
    x.storage()->bump_version();
    return x;
}

Tensor nonzero(const Tensor& x) {
    check_defined(x, "nonzero");
    const Tensor found = contiguous(to(x, DType::boolean));
    const std::uint8_t* const values = found.data<std::uint8_t>();
    const std::int64_t count = std::count_if(values, values + found.numel(),
                                             [](std::uint8_t value) { return value != 0; });
    Tensor result = Tensor::empty({count, x.rank()}, DType::int64);
    std::int64_t* row = result.mutable_data<std::int64_t>();
    Shape position(x.shape().size());
    for (std::int64_t i = 0; i < found.numel(); ++i) {
        if (values[i] != 0) {
            row = std::copy(position.begin(), position.end(), row);
        }
        for (std::size_t j = position.size(); j-- > 0;) {
            if (++position[j] < x.shape()[j]) {
                break;
            }
            position[j] = 0;
        }
    }
    return result;
}

} // namespace kael::forward
