#include "autograd/accumulate.h"

#include <limits>

#include "kael/operators.h"

#include "autograd/state.h"

namespace kael::autograd {

// The engine takes the node with the highest number first: gradients go where they belong as soon
// as they are complete, which frees them.
AccumulateGrad::AccumulateGrad(const Tensor& leaf)
    : Node("AccumulateGrad", {}, leaf, std::numeric_limits<std::uint64_t>::max()), leaf_(leaf) {}

GradientHooks& AccumulateGrad::hooks() noexcept {
    return leaf_.autograd_state()->hooks;
}

GradientList AccumulateGrad::apply(const Tensor& gradient) {
    Tensor& total = leaf_.autograd_state()->gradient;
    if (!total.defined()) { // the leaf's own, which a later pass may write
        total = gradient.is_sole_owner() ? gradient : gradient.clone();
    } else if (grad_enabled()) { // it has a graph of its own, which must not be written over
        total = total + gradient;
    } else {
        add_(total, gradient);
    }
    return {};
}

} // namespace kael::autograd
