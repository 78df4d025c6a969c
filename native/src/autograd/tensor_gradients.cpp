// The methods of Tensor that are about gradients, and where gradients go.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <utility>
#include <vector>

#include "kael/autograd.h"
#include "kael/error.h"

#include "autograd/accumulate.h"
#include "autograd/state.h"
#include "autograd/strided.h"
#include "tensor/defined.h"

namespace kael {

using autograd::Edge;
using autograd::State;
using autograd::state_of;

namespace {

// Guards what threads that only read a tensor may write to its state: the accumulator of a leaf and
// the node of a view. Held for a few instructions.
std::mutex& late_state_mutex() {
    static auto* const mutex = new std::mutex; // outlives every tensor
    return *mutex;
}

void lock_late_state() {
    late_state_mutex().lock();
}
void unlock_late_state() {
    late_state_mutex().unlock();
}
// So that no child inherits it locked by a thread that it lacks.
[[maybe_unused]] const int kForkHandlers =
    pthread_atfork(lock_late_state, unlock_late_state, unlock_late_state);

Edge node_of(const Tensor& tensor);

// Gives a view whose base was written since a new node.
void follow_base(const Tensor& tensor, State& state) {
    autograd::ViewOf& view = *state.view;
    const std::shared_ptr<State>& base = view.base.autograd_state();
    if (base == nullptr || view.writes.load(std::memory_order_acquire) == base->writes) {
        return;
    }
    const GradMode guard(true);
    // Made before the lock, and what it replaces freed behind it: both may call functions of
    // others.
    Edge node = node_of(autograd::as_strided(view.base, autograd::place_in(view.base, tensor)));
    const std::lock_guard lock(late_state_mutex());
    if (view.writes.load(std::memory_order_relaxed) != base->writes) {
        state.node.swap(node);
        view.writes.store(base->writes, std::memory_order_release);
    }
}

// The node that made the tensor.
Edge node_of(const Tensor& tensor) {
    const std::shared_ptr<State>& state = tensor.autograd_state();
    if (state == nullptr) {
        return nullptr;
    }
    if (state->view != nullptr && state->view->is_recorded) {
        follow_base(tensor, *state);
    }
    return state->node;
}

} // namespace

bool Tensor::requires_grad() const {
    const std::shared_ptr<State>& state = autograd_state();
    return state != nullptr && (state->requires_grad || node_of(*this) != nullptr);
}

bool Tensor::is_leaf() const {
    return node_of(*this) == nullptr;
}

Edge Tensor::grad_fn() const {
    return node_of(*this);
}

Tensor& Tensor::set_requires_grad(bool wanted) {
    check_defined(*this, "set_requires_grad");
    KAEL_CHECK(!wanted || is_floating_point(dtype()),
               "set_requires_grad: a tensor of dtype "
                   << name(dtype()) << " can need no gradient, expected a floating-point one");
    const Edge node = node_of(*this);
    KAEL_CHECK(
        wanted || node == nullptr,
        "set_requires_grad: the result of "
            << node->name()
            << " needs a gradient because its operands do, expected a leaf: detach() gives one");
    if (wanted || autograd_state() != nullptr) {
        state_of(*this).requires_grad = wanted;
    }
    return *this;
}

Tensor Tensor::grad() const {
    return autograd_state() != nullptr ? autograd_state()->gradient : Tensor();
}

void Tensor::set_grad(const Tensor& gradient) {
    check_defined(*this, "set_grad");
    if (gradient.defined()) {
        KAEL_CHECK(gradient.shape() == shape() && gradient.dtype() == dtype(),
                   "set_grad: a gradient of shape "
                       << to_string(gradient.shape()) << " and dtype " << name(gradient.dtype())
                       << " for a tensor of shape " << to_string(shape()) << " and dtype "
                       << name(dtype()) << ", expected equal ones");
        KAEL_CHECK(!gradient.is_same(*this),
                   "set_grad: a tensor as its own gradient, expected another one");
    }
    // The old one is freed last: with it goes its graph, and with that hooks, which may ask for
    // this.
    const Tensor before = std::exchange(state_of(*this).gradient, gradient);
}

Tensor Tensor::detach() const {
    check_defined(*this, "detach");
    return from_storage(storage(), dtype(), shape(), strides(), offset());
}

void Tensor::backward() const {
    autograd::backward({*this});
}

namespace autograd {

State& state_of(const Tensor& tensor) {
    if (tensor.autograd_state() == nullptr) {
        tensor.set_autograd_state(std::make_shared<State>());
    }
    return *tensor.autograd_state();
}

std::uint64_t add_gradient_hook(const Tensor& tensor, GradientHook hook) {
    KAEL_CHECK(
        tensor.requires_grad(),
        "a hook on the gradient of a tensor that needs none, expected one that needs a gradient");
    const Edge edge = gradient_edge(tensor);
    const std::uint64_t number = add_hook_before(*edge, std::move(hook));
    if (!tensor.is_leaf()) {
        std::vector<HungHook>& hung = state_of(tensor).hung;
        std::erase_if(hung, [](const HungHook& other) { return other.node.expired(); });
        hung.push_back({number, edge});
    }
    return number;
}

void remove_gradient_hook(const Tensor& tensor, std::uint64_t number) {
    const std::shared_ptr<State>& state = tensor.autograd_state();
    if (state == nullptr) {
        return;
    }
    // It may hang where a gradient of the tensor goes no more. Freed last, as in remove_hook().
    const auto of_leaf = state->hooks.extract(number);
    const auto hung =
        std::find_if(state->hung.begin(), state->hung.end(),
                     [number](const HungHook& hook) { return hook.number == number; });
    if (hung == state->hung.end()) {
        return;
    }
    const Edge node = hung->node.lock();
    state->hung.erase(hung);
    if (node != nullptr) {
        remove_hook(*node, number);
    }
}

Edge gradient_edge(const Tensor& tensor) {
    if (!tensor.requires_grad()) {
        return nullptr;
    }
    if (Edge node = node_of(tensor)) {
        return node;
    }
    State& state = state_of(tensor);
    const std::lock_guard lock(late_state_mutex());
    Edge accumulator = state.accumulator.lock();
    if (accumulator == nullptr) {
        accumulator = make_node<AccumulateGrad>(tensor);
        state.accumulator = accumulator;
    }
    return accumulator;
}

} // namespace autograd
} // namespace kael
