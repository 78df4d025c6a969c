// Products of matrices, recorded.
#include <utility>
#include <vector>

#include "kael/operators.h"

#include "autograd/record.h"

namespace kael {

namespace {

using autograd::Backward;
using autograd::GradientList;

// A vector as the matrix that matmul takes it for.
Tensor as_row(const Tensor& x) {
    return x.rank() == 1 ? x.unsqueeze(0) : x;
}
Tensor as_column(const Tensor& x) {
    return x.rank() == 1 ? x.unsqueeze(1) : x;
}

// The gradients of a and b in the shapes that broadcasting gave them, which the engine undoes.
GradientList derivative(const Backward& context) {
    const Tensor& a = context.saved(0);
    const Tensor& b = context.saved(1);
    Tensor gradient = context.gradient();
    if (b.rank() == 1) {
        gradient = gradient.unsqueeze(-1);
    }
    if (a.rank() == 1) {
        gradient = gradient.unsqueeze(-2);
    }
    GradientList gradients(2);
    if (context.needs(0)) {
        const Tensor whole = matmul(gradient, as_column(b).transpose(-2, -1));
        gradients[0] = a.rank() == 1 ? whole.squeeze(-2) : whole;
    }
    if (context.needs(1) && b.rank() <= 2) {
        // One product sums over the batch as well.
        const std::int64_t rows = element_count(Shape(a.shape().begin(), a.shape().end() - 1));
        const Tensor left = a.reshape({rows, a.size(-1)});
        const Tensor right = gradient.reshape({rows, gradient.size(-1)});
        // Laid out as b is, which is often the transpose of what the gradient is for.
        const bool is_transpose = b.rank() == 2 && b.transpose(0, 1).is_contiguous();
        const Tensor whole = is_transpose ? matmul(right.transpose(0, 1), left).transpose(0, 1)
                                          : matmul(left.transpose(0, 1), right);
        gradients[1] = b.rank() == 1 ? whole.squeeze(-1) : whole;
    } else if (context.needs(1)) {
        gradients[1] = matmul(as_row(a).transpose(-2, -1), gradient);
    }
    return gradients;
}

} // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
    Tensor result = autograd::without_recording([&] { return forward::matmul(a, b); });
    if (autograd::needs_recording(result, {a, b})) {
        autograd::record("MatmulBackward", result, {a, b}, {a, b}, derivative);
    }
    return result;
}

} // namespace kael
