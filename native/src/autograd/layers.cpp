// Layers of networks, recorded. Where a gradient is to be differentiated again, it is
// made of recorded operators; else in one pass.
#include "tensor/layers.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kael/autograd.h"
#include "kael/creation.h"
#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/record.h"
#include "tensor/defined.h"

namespace kael {

namespace {

using autograd::Backward;
using autograd::GradientList;

GradientList layer_norm_gradients(const Backward& context) {
    auto [x, weight, bias] = forward::layer_norm_gradients(
        context.gradient(), context.saved(0), context.saved(2), context.saved(3), context.saved(1),
        context.needs(0), context.needs(1) || context.needs(2));
    return {std::move(x), std::move(weight), std::move(bias)};
}

GradientList layer_norm_derivative(const Backward& context, double epsilon) {
    const Tensor& gradient = context.gradient();
    const Tensor& x = context.saved(0);
    const Over last{{-1}, true};
    const Tensor scale = rsqrt(var(x, last, 0.0) + epsilon);
    const Tensor normal = (x - mean(x, last)) * scale;
    const Tensor inner = gradient * context.saved(1);
    return {(inner - mean(inner, last) - normal * mean(inner * normal, last)) * scale,
            gradient * normal, gradient};
}

// Along the last dimension.
Tensor rows_normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
    const auto [result, mean, scale] =
        autograd::without_recording([&] { return forward::layer_norm(x, weight, bias, epsilon); });
    if (autograd::needs_recording(result, {x, weight, bias})) {
        autograd::record("LayerNormBackward", result, {x, weight, bias}, {x, weight, mean, scale},
                         [epsilon](const Backward& context) {
                             return grad_enabled() ? layer_norm_derivative(context, epsilon)
                                                   : layer_norm_gradients(context);
                         });
    }
    return result;
}

} // namespace

Tensor embedding(const Tensor& ids, const Tensor& table) {
    check_defined(ids, "embedding");
    check_defined(table, "embedding");
    KAEL_CHECK(table.rank() == 2, "embedding: a table of shape " << to_string(table.shape())
                                                                 << ", expected two dimensions");
    Shape shape = ids.shape();
    shape.push_back(table.size(1));
    return index_select(table, 0, ids.reshape({-1})).reshape(shape);
}

Tensor layer_norm(const Tensor& x, const Shape& normalized, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double epsilon) {
    check_defined(x, "layer_norm");
    KAEL_CHECK(!normalized.empty() && normalized.size() <= x.shape().size() &&
                   std::equal(normalized.rbegin(), normalized.rend(), x.shape().rbegin()),
               "layer_norm: the normalized shape "
                   << to_string(normalized) << " for a tensor of shape " << to_string(x.shape())
                   << ", expected its last dimensions");
    const std::int64_t width = element_count(normalized);
    const auto parameter = [&](const std::optional<Tensor>& given, std::int64_t otherwise) {
        if (!given.has_value()) {
            return full({width}, otherwise, x.dtype());
        }
        check_defined(*given, "layer_norm");
        KAEL_CHECK(given->shape() == normalized && given->dtype() == x.dtype(),
                   "layer_norm: a weight or bias of dtype "
                       << name(given->dtype()) << " and shape " << to_string(given->shape())
                       << ", expected " << name(x.dtype()) << " and " << to_string(normalized));
        return given->reshape({width});
    };
    Shape rows(x.shape().begin(), x.shape().end() - std::ssize(normalized));
    rows.push_back(width);
    return rows_normalized(x.reshape(rows), parameter(weight, 1), parameter(bias, 0), epsilon)
        .reshape(x.shape());
}

} // namespace kael
