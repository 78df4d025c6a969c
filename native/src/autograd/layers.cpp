// Layers and losses of networks, recorded. Where a gradient is to be differentiated again, it is
// made of recorded operators; else in one pass.
#include "tensor/layers.h"

#include <string>
#include <utility>
#include <vector>

#include "kael/autograd.h"
#include "kael/creation.h"
#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/record.h"

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

// softmax(logits) less 1 at the target, divided by the number of targets; 0 in a row left out.
Tensor cross_entropy_derivative(const Backward& context, std::int64_t ignored) {
    const Tensor& logits = context.saved(0);
    const Tensor& targets = context.saved(1);
    const Tensor counts = ne(targets, ignored).unsqueeze(1);
    const Tensor classes = arange(std::int64_t{0}, logits.size(1), std::int64_t{1});
    const Tensor chosen = eq(classes.unsqueeze(0), targets.unsqueeze(1)).to(logits.dtype());
    const Tensor counted = sum(counts).to(logits.dtype());
    return where(counts, (softmax(logits, 1) - chosen) * (context.gradient() / counted), 0.0);
}

} // namespace

Tensor embedding(const Tensor& ids, const Tensor& table) {
    KAEL_CHECK(ids.defined() && table.defined(), "embedding: an undefined tensor");
    KAEL_CHECK(table.rank() == 2, "embedding: a table of shape " << to_string(table.shape())
                                                                 << ", expected two dimensions");
    Shape shape = ids.shape();
    shape.push_back(table.size(1));
    return index_select(table, 0, ids.reshape({-1})).reshape(shape);
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
    const auto [result, mean, scale] =
        autograd::without_recording([&] { return forward::layer_norm(x, weight, bias, epsilon); });
    if (autograd::needs_recording({x, weight, bias})) {
        autograd::record("LayerNormBackward", result, {x, weight, bias}, {x, weight, mean, scale},
                         [epsilon](const Backward& context) {
                             return grad_enabled() ? layer_norm_derivative(context, epsilon)
                                                   : layer_norm_gradients(context);
                         });
    }
    return result;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, std::int64_t ignored) {
    Tensor result = autograd::without_recording(
        [&] { return forward::cross_entropy(logits, targets, ignored); });
    if (autograd::needs_recording({logits})) {
        autograd::record("CrossEntropyBackward", result, {logits}, {logits, targets},
                         [ignored](const Backward& context) {
                             return GradientList{grad_enabled()
                                                     ? cross_entropy_derivative(context, ignored)
                                                     : forward::cross_entropy_gradient(
                                                           context.gradient(), context.saved(0),
                                                           context.saved(1), ignored)};
                         });
    }
    return result;
}

Tensor mse_loss(const Tensor& x, const Tensor& target) {
    KAEL_CHECK(x.defined() && target.defined(), "mse_loss: an undefined tensor");
    KAEL_CHECK(x.shape() == target.shape(), "mse_loss: shapes " << to_string(x.shape()) << " and "
                                                                << to_string(target.shape())
                                                                << ", expected equal ones");
    return mean(square(x - target));
}

} // namespace kael
