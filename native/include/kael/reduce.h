// Operators that make one number of many, and those that work along one dimension. Names and values
// are PyTorch's (docs/tensors.md). Sums run in float64, or in int64 for integers and bools,
// pairwise and in an order that depends on the shape alone: neither the threads nor the layout
// change a bit. Nothing is recorded for gradients: kael/operators.h has the same functions,
// recording.
#pragma once

#include <optional>
#include <vector>

#include "kael/tensor.h"

namespace kael {

// Over `dimensions`, which may be negative and in any order, each once; over all when there are
// none. They are gone from the result, or of size 1 with `keep`.
struct Over {
    std::vector<int> dimensions = {};
    bool keep = false;
};

namespace forward {

// Of integers and bools an int64. 0 and 1 of nothing.
[[nodiscard]] Tensor sum(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor prod(const Tensor& x, const Over& over = {});
// Floats only. NaN of nothing. var divides by the number of elements less `correction`;
// std_deviation is its root.
[[nodiscard]] Tensor mean(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor var(const Tensor& x, const Over& over = {}, double correction = 1);
[[nodiscard]] Tensor std_deviation(const Tensor& x, const Over& over = {}, double correction = 1);
// (sum of |x|^p)^(1/p) of floats; p may be infinite (the largest |x|, or for -infinity the
// smallest; of nothing an error) or 0 (how many are not 0).
[[nodiscard]] Tensor norm(const Tensor& x, double p = 2, const Over& over = {});
// log(sum of exp(x)) without overflow; float32 of integers and bools. -infinity of nothing.
[[nodiscard]] Tensor logsumexp(const Tensor& x, const Over& over = {});
// NaN where there is one. Of nothing an error.
[[nodiscard]] Tensor amax(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor amin(const Tensor& x, const Over& over = {});
// Whether any element, or every one, is not 0: bool. False and true of nothing.
[[nodiscard]] Tensor any(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor all(const Tensor& x, const Over& over = {});

// int64: where the largest or smallest element stands, the first of equals and before all others
// the first NaN. Without a dimension, in the order of all elements. Of nothing an error.
[[nodiscard]] Tensor argmax(const Tensor& x, std::optional<int> dimension = {}, bool keep = false);
[[nodiscard]] Tensor argmin(const Tensor& x, std::optional<int> dimension = {}, bool keep = false);

// Sums of the elements so far along `dimension`; int64 of integers and bools.
[[nodiscard]] Tensor cumsum(const Tensor& x, int dimension);
// exp(x) / sum of exp(x), and its logarithm, along `dimension`; floats only. NaN where all are
// -infinity.
[[nodiscard]] Tensor softmax(const Tensor& x, int dimension);
[[nodiscard]] Tensor log_softmax(const Tensor& x, int dimension);

} // namespace forward
} // namespace kael
