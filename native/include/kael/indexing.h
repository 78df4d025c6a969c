// Operators that put elements elsewhere. Nothing is recorded for gradients: kael/operators.h has
// the same functions, recording, and those that are made of them. Indices are int64, counted from
// 0; one that is not there is an error, a negative one too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kael/promotion.h"
#include "kael/tensor.h"

namespace kael::forward {

// One after the other along `dimension`, in which alone their shapes may differ. At least one;
// dtypes are promoted as among tensors with dimensions.
[[nodiscard]] Tensor cat(const std::vector<Tensor>& tensors, int dimension);

// The slices of x at `index`, which has one dimension, along `dimension`: its size becomes that of
// `index`.
[[nodiscard]] Tensor index_select(const Tensor& x, int dimension, const Tensor& index);
// x with the slices of `source` added at `index`, in its order where one occurs twice. x and source
// have one dtype, and the shapes of index_select's argument and result.
[[nodiscard]] Tensor index_add(const Tensor& x, int dimension, const Tensor& index,
                               const Tensor& source);
// The same with zeros of `shape` for x, for arguments that fit, as those of a gradient do.
[[nodiscard]] Tensor index_sum(const Shape& shape, int dimension, const Tensor& index,
                               const Tensor& source);

// In the shape of `index`: the element of x that has the same indices but, in `dimension`, the one
// that `index` holds. x has as many dimensions as `index`, and all but that one at least as large.
[[nodiscard]] Tensor gather(const Tensor& x, int dimension, const Tensor& index);
// x with the elements of `source`, which has the shape of `index`, added where gather would find
// them, one after the other. x and source have one dtype.
[[nodiscard]] Tensor scatter_add(const Tensor& x, int dimension, const Tensor& index,
                                 const Tensor& source);

// Writes the elements of `source` where gather would find them, in the order of `index`: of several
// for one place the last one stays. `source` has the shape of `index` and the dtype of x, or is a
// number that x can store.
Tensor& scatter_(Tensor& x, int dimension, const Tensor& index, const Operand& source);

// int64 [how many, dimensions of x]: the indices of the elements that are not 0, in row-major
// order. NaN is not 0.
[[nodiscard]] Tensor nonzero(const Tensor& x);

// The indices along `dimension` that put x in ascending or descending order, or the first `count`
// of them. NaN is larger than every number; equal elements stay in their order. `name` is the
// operator's, for the error.
[[nodiscard]] Tensor argsort(const Tensor& x, int dimension, bool descending,
                             std::optional<std::int64_t> count = {},
                             const std::string& name = "argsort");

} // namespace kael::forward
