// Self-attention, recorded. float32 is computed in one pass, and so is its gradient; other dtypes,
// and a gradient that is to be differentiated again, are made of recorded operators.
#include "tensor/attention.h"

#include <limits>

#include "kael/autograd.h"
#include "kael/creation.h"
#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/record.h"
#include "tensor/defined.h"

namespace kael {

namespace {

using autograd::Backward;

// [B, T, H * S] to [B, H, T, S], and back.
Tensor by_head(const Tensor& x, std::int64_t heads) {
    const Shape& shape = x.shape();
    return x.reshape({shape[0], shape[1], heads, shape[2] / heads}).transpose(1, 2);
}
Tensor side_by_side(const Tensor& x) {
    const Shape& shape = x.shape();
    return x.transpose(1, 2).reshape({shape[0], shape[2], shape[1] * shape[3]});
}

struct Parts {
    Tensor query; // [B, H, T, S], as the others
    Tensor key;
    Tensor value;
    Tensor shares; // [B, H, T, T]: of each position, in those that it sees
};

Parts parts_of(const Tensor& qkv, std::int64_t heads, double scale) {
    const std::int64_t width = qkv.size(2) / 3;
    const auto part = [&](std::int64_t index) {
        return by_head(narrow(qkv, 2, index * width, width), heads);
    };
    Parts result{part(0), part(1), part(2), {}};
    const Tensor positions = arange(std::int64_t{0}, qkv.size(1), std::int64_t{1});
    const Tensor hidden = lt(positions.unsqueeze(1), positions.unsqueeze(0));
    const Tensor scores = matmul(result.query, result.key.transpose(2, 3)) * scale;
    result.shares =
        softmax(masked_fill(scores, hidden, -std::numeric_limits<double>::infinity()), -1);
    return result;
}

Tensor derivative(const Tensor& gradient, const Tensor& qkv, std::int64_t heads, double scale) {
    const Parts parts = parts_of(qkv, heads, scale);
    const Tensor incoming = by_head(gradient, heads);
    const Tensor of_shares = matmul(incoming, parts.value.transpose(2, 3));
    const Tensor of_scores =
        parts.shares * (of_shares - sum(of_shares * parts.shares, {{-1}, true})) * scale;
    return cat({side_by_side(matmul(of_scores, parts.key)),
                side_by_side(matmul(of_scores.transpose(2, 3), parts.query)),
                side_by_side(matmul(parts.shares.transpose(2, 3), incoming))},
               -1);
}

} // namespace

Tensor causal_attention(const Tensor& qkv, std::int64_t heads, double scale) {
    check_defined(qkv, "causal_attention");
    KAEL_CHECK(is_floating_point(qkv.dtype()), "causal_attention: a tensor of dtype "
                                                   << name(qkv.dtype())
                                                   << ", expected a floating-point one");
    KAEL_CHECK(heads >= 1, "causal_attention: " << heads << " heads, expected 1 or more");
    KAEL_CHECK(qkv.rank() == 3 && qkv.size(2) % 3 == 0 && qkv.size(2) / 3 % heads == 0,
               "causal_attention: queries, keys and values of shape "
                   << to_string(qkv.shape())
                   << ", expected three dimensions, the last one a multiple of 3 * " << heads);
    if (qkv.dtype() != DType::float32) {
        const Parts parts = parts_of(qkv, heads, scale);
        return side_by_side(matmul(parts.shares, parts.value));
    }
    const Tensor result =
        autograd::without_recording([&] { return forward::causal_attention(qkv, heads, scale); });
    if (autograd::needs_recording(result, {qkv})) {
        autograd::record("CausalAttentionBackward", result, {qkv}, {qkv},
                         [heads, scale](const Backward& context) -> autograd::GradientList {
                             const Tensor& gradient = context.gradient();
                             const Tensor& saved = context.saved(0);
                             if (grad_enabled()) {
                                 return {derivative(gradient, saved, heads, scale)};
                             }
                             return {
                                 forward::causal_attention_gradient(gradient, saved, heads, scale)};
                         });
    }
    return result;
}

} // namespace kael
