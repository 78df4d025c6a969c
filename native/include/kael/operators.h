// The operators, recording what gradients need (kael/autograd.h). Arguments, results and errors are
// those of the functions of the same name in kael::forward, where their headers describe them.
#pragma once

#include "kael/autograd.h"
#include "kael/elementwise.h"
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
