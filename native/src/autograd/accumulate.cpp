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
    if (grad_enabled()) { // the gradient has a graph of its own, which must not be written over
        total = total.defined() ? total + gradient : gradient;
    } else if (total.defined()) {
        add_(total, gradient);
    } else {
        total = gradient.is_sole_owner() ? gradient : gradient.clone();
    }
    return {};
}

} // namespace kael::autograd
