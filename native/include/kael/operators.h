// The operators, recording what gradients need (kael/autograd.h). Arguments, results and errors are
// those of the functions of the same name in kael::forward, where their headers describe them.
#pragma once

#include "kael/autograd.h"
#include "kael/elementwise.h"
#include "kael/indexing.h"
#include "kael/matmul.h"
#include "kael/reduce.h"
#include "kael/tensor.h"

namespace kael {

#define KAEL_DECLARE_UNARY(name)                                                                   \
    [[nodiscard]] Tensor name(const Operand& x);                                                   \
    Tensor& name##_(Tensor& x);
KAEL_UNARY_OPERATORS(KAEL_DECLARE_UNARY)
#undef KAEL_DECLARE_UNARY

#define KAEL_DECLARE_BINARY(name)                                                                  \
    [[nodiscard]] Tensor name(const Operand& x, const Operand& y);                                 \
    Tensor& name##_(Tensor& x, const Operand& y);
KAEL_BINARY_OPERATORS(KAEL_DECLARE_BINARY)
#undef KAEL_DECLARE_BINARY

[[nodiscard]] Tensor clamp(const Operand& x, const Operand& least, const Operand& most);
Tensor& clamp_(Tensor& x, const Operand& least, const Operand& most);
[[nodiscard]] Tensor where(const Operand& condition, const Operand& x, const Operand& y);
Tensor& copy_(Tensor& x, const Operand& source);

[[nodiscard]] Tensor sum(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor prod(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor mean(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor var(const Tensor& x, const Over& over = {}, double correction = 1);
[[nodiscard]] Tensor std_deviation(const Tensor& x, const Over& over = {}, double correction = 1);
[[nodiscard]] Tensor norm(const Tensor& x, double p = 2, const Over& over = {});
[[nodiscard]] Tensor logsumexp(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor amax(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor amin(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor any(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor all(const Tensor& x, const Over& over = {});
[[nodiscard]] Tensor argmax(const Tensor& x, std::optional<int> dimension = {}, bool keep = false);
[[nodiscard]] Tensor argmin(const Tensor& x, std::optional<int> dimension = {}, bool keep = false);
[[nodiscard]] Tensor cumsum(const Tensor& x, int dimension);
[[nodiscard]] Tensor softmax(const Tensor& x, int dimension);
[[nodiscard]] Tensor log_softmax(const Tensor& x, int dimension);
// The reverse of broadcasting: sums over what broadcasting `shape` to that of `x` repeats.
[[nodiscard]] Tensor sum_to_shape(const Tensor& x, const Shape& shape);

[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b);
// Sums of products over named dimensions: "bij,bjk->bik" names each dimension of each operand by a
// letter, and those of the result; what is not among the latter is summed. A letter twice in an
// operand stands for its diagonal, "..." for any number of dimensions, which broadcast as those of
// size 1 do. Without "->" the result has those of "..." and then, in alphabetical order, the
// letters that occur once. Operands are numbers of one dtype, multiplied from the left to the
// right. The result of a single operand is a view where nothing is summed.
[[nodiscard]] Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);

[[nodiscard]] Tensor cat(const std::vector<Tensor>& tensors, int dimension);
[[nodiscard]] Tensor index_select(const Tensor& x, int dimension, const Tensor& index);
[[nodiscard]] Tensor index_add(const Tensor& x, int dimension, const Tensor& index,
                               const Tensor& source);
Tensor& index_add_(Tensor& x, int dimension, const Tensor& index, const Tensor& source);
[[nodiscard]] Tensor gather(const Tensor& x, int dimension, const Tensor& index);
[[nodiscard]] Tensor scatter_add(const Tensor& x, int dimension, const Tensor& index,
                                 const Tensor& source);
Tensor& scatter_add_(Tensor& x, int dimension, const Tensor& index, const Tensor& source);

[[nodiscard]] Tensor scatter(const Tensor& x, int dimension, const Tensor& index,
                             const Operand& source);
Tensor& scatter_(Tensor& x, int dimension, const Tensor& index, const Operand& source);
[[nodiscard]] Tensor nonzero(const Tensor& x);

// What `indices` pick, as a copy: `indices[i]`, of integers or a mask of bools, is for the
// dimension `dimensions[i]`, which ascend; a mask is for as many as it has. Integers count from the
// end when they are negative, and broadcast; a mask has the sizes of its dimensions, and stands for
// the places where it is true. The dimensions of what is picked stand in place of those that have
// an index, or in front of all when another one is between those.
[[nodiscard]] Tensor index(const Tensor& x, const std::vector<int>& dimensions,
                           const std::vector<Tensor>& indices);
// Writes `value`, which broadcasts and is converted as by copy_, over what `index` picks. Of
// several values for one place the last one stays, and it alone gets a gradient.
Tensor& index_put_(Tensor& x, const std::vector<int>& dimensions,
                   const std::vector<Tensor>& indices, const Operand& value);
// The elements where `mask`, of bools, is true, with one dimension; both broadcast.
[[nodiscard]] Tensor masked_select(const Tensor& x, const Tensor& mask);

// Elements along a dimension and where they stood (int64): all of them in order, or the `count`
// largest or smallest, the largest or smallest first. NaN is larger than every number; of equal
// elements those that come first.
struct Sorted {
    Tensor values;
    Tensor indices;
};
[[nodiscard]] Tensor argsort(const Tensor& x, int dimension, bool descending);
[[nodiscard]] Sorted sort(const Tensor& x, int dimension, bool descending);
[[nodiscard]] Sorted topk(const Tensor& x, std::int64_t count, int dimension, bool largest);

// Views. Parts of these sizes, which add up to that of the dimension, one after the other; `count`
// parts of equal size, the last one smaller, and fewer where that is enough (of nothing one);
// `length` elements from `start` on, all of which must be there; the dimensions from `first` to
// `last` as one (a copy where the strides do not allow a view).
[[nodiscard]] std::vector<Tensor> split(const Tensor& x, const Shape& sizes, int dimension);
[[nodiscard]] std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int dimension);
[[nodiscard]] Tensor narrow(const Tensor& x, int dimension, std::int64_t start,
                            std::int64_t length);
[[nodiscard]] Tensor flatten(const Tensor& x, int first, int last);
// Without those of `dimensions` whose size is 1.
[[nodiscard]] Tensor squeeze(const Tensor& x, const std::vector<int>& dimensions);
// The elements of two dimensions whose index in `second` is that in `first` plus `offset`, as the
// last dimension instead of both.
[[nodiscard]] Tensor diagonal(const Tensor& x, std::int64_t offset, int first, int second);

// What pad adds: its value; the elements next to the edge, as in a mirror that stands on the edge
// element; the edge element; the elements at the other end. A mirror needs more elements than are
// added on a side, the other end as many as are left.
enum class PadMode { constant, reflect, replicate, circular };

// Copies. Tensors of one shape along a new dimension; x with the elements of some dimensions in
// reverse order; with elements moved on by `shifts` places, those that leave coming in again at the
// other end, in the order of all elements when no dimensions are named; x repeated so often in each
// dimension, of which there may be more than x has; with `amounts` of elements before and after the
// last dimension, then the one before it, and so on (a negative amount takes elements away); with
// `value` where `mask`, which holds bools and broadcasts, is true.
[[nodiscard]] Tensor stack(const std::vector<Tensor>& tensors, int dimension);
[[nodiscard]] Tensor flip(const Tensor& x, const std::vector<int>& dimensions);
[[nodiscard]] Tensor roll(const Tensor& x, const Shape& shifts, const std::vector<int>& dimensions);
[[nodiscard]] Tensor repeat(const Tensor& x, const Shape& counts);
[[nodiscard]] Tensor pad(const Tensor& x, const Shape& amounts, const Scalar& value,
                         PadMode mode = PadMode::constant);
[[nodiscard]] Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value);
Tensor& masked_fill_(Tensor& x, const Tensor& mask, const Operand& value);

// The rows of `table` [N, D] that `ids`, int64, name: [..., D].
[[nodiscard]] Tensor embedding(const Tensor& ids, const Tensor& table);
// Over the last dimensions, whose sizes are `normalized`: less their mean, by the root of their
// variance plus `epsilon`, times `weight` plus `bias`, both of that shape; without one of them when
// it is absent.
[[nodiscard]] Tensor layer_norm(const Tensor& x, const Shape& normalized,
                                const std::optional<Tensor>& weight,
                                const std::optional<Tensor>& bias, double epsilon);

// GPT-2's attention: a position sees itself and those before it. qkv [B, T, 3 * H * S] holds the
// queries of H heads of S numbers, then their keys, then their values; the result, [B, T, H * S],
// is softmax(scale * query . key) . value of each head.
[[nodiscard]] Tensor causal_attention(const Tensor& qkv, std::int64_t heads, double scale);

// What becomes of the losses of all targets: they stay as they are, or their mean or their sum is
// the result.
enum class Reduction { none, mean, sum };

// Minus the log probabilities at the targets. log_probabilities [N, C, ...] or [C]; targets int64
// [N, ...] or [], each a class or `ignored`, whose loss is 0. `weight` [C] multiplies the losses of
// each class; the mean is their sum over the weights of the targets that are not ignored (without
// weights their number): NaN where all are.
[[nodiscard]] Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets,
                              std::int64_t ignored = -100,
                              const std::optional<Tensor>& weight = std::nullopt,
                              Reduction reduction = Reduction::mean);
// The same of log(softmax(logits)) over the classes. Targets of the dtype and shape of the logits
// are the probabilities of the classes; the mean is then that over [N, ...].
[[nodiscard]] Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                                   std::int64_t ignored = -100,
                                   const std::optional<Tensor>& weight = std::nullopt,
                                   Reduction reduction = Reduction::mean);
// The squares of the differences of two tensors of one shape.
[[nodiscard]] Tensor mse_loss(const Tensor& x, const Tensor& target,
                              Reduction reduction = Reduction::mean);

inline Tensor operator-(const Tensor& x) {
    return neg(x);
}
inline Tensor operator+(const Operand& x, const Operand& y) {
    return add(x, y);
}
inline Tensor operator-(const Operand& x, const Operand& y) {
    return sub(x, y);
}
inline Tensor operator*(const Operand& x, const Operand& y) {
    return mul(x, y);
}
inline Tensor operator/(const Operand& x, const Operand& y) {
    return div(x, y);
}

} // namespace kael
