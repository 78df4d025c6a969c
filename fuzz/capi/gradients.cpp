#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "session.h"

namespace kael::fuzz {

void Session::gradient_state() {
    std::uint8_t requires_grad = 7;
    std::uint8_t is_leaf = 7;
    const kael_tensor* const tensor = one(tensors_);
    const bool told =
        succeeded(kael_tensor_gradient_state(tensor, out(requires_grad), out(is_leaf)));
    require(told == (requires_grad <= 1) && told == (is_leaf <= 1));
    const char* name = nullptr;
    std::int64_t length = -1;
    if (succeeded(kael_tensor_grad_fn(one(tensors_), out(name), out(length)))) {
        require(name[length] == '\0');
    }
}

void Session::set_requires_grad() {
    kael_set_grad_enabled(input_.rarely(16) ? 0 : 1);
    require(kael_grad_enabled() <= 1);
    const std::uint8_t wanted = input_.rarely(4) ? 0 : 1;
    succeeded(kael_tensor_set_requires_grad(one(tensors_), wanted));
}

void Session::gradient() {
    if (input_.rarely(2)) {
        kael_tensor* const tensor = one(tensors_);
        succeeded(kael_tensor_set_grad(
            tensor, tensors_.empty() || input_.rarely(4) ? nullptr : one_of_tensors()));
        return;
    }
    kael_tensor* found = untouched<kael_tensor>();
    const kael_status status = kael_tensor_grad(one(tensors_), out(found));
    if (!succeeded(status)) {
        require(found == untouched<kael_tensor>());
    } else if (found != nullptr) {
        keep(found);
    }
}

void Session::detach_or_share() {
    const kael_tensor* const tensor = one(tensors_);
    kael_tensor* made = untouched<kael_tensor>();
    if (input_.rarely(2)) {
        take(kael_tensor_share(tensor, out(made)), made);
    } else {
        take(kael_tensor_detach(tensor, out(made)), made);
    }
}

void Session::hooks() {
    std::int64_t number = -1;
    const bool has_hook = !input_.rarely(32);
    const bool has_release = !input_.rarely(4);
    const kael_release_callback given = has_release ? release : nullptr;
    promised_ += has_release ? 1 : 0;
    must_fail_ = !has_hook;
    if (input_.rarely(2)) {
        kael_tensor* const tensor = one(tensors_);
        if (succeeded(kael_tensor_add_hook(tensor, has_hook ? on_gradient : nullptr, given, this,
                                           out(number))) &&
            input_.rarely(4)) {
            require(succeeded(kael_tensor_remove_hook(tensor, number)));
            succeeded(kael_tensor_remove_hook(one(tensors_), number));
        }
        return;
    }
    kael_node* const node = one(nodes_);
    const bool added = input_.rarely(2)
                           ? succeeded(kael_node_add_prehook(node, has_hook ? on_gradient : nullptr,
                                                             given, this, out(number)))
                           : succeeded(kael_node_add_hook(node, has_hook ? on_node : nullptr, given,
                                                          this, out(number)));
    if (added && input_.rarely(4)) {
        require(succeeded(kael_node_remove_hook(node, number)));
        succeeded(kael_node_remove_hook(one(nodes_), number));
    }
}

void Session::backward() {
    std::vector<kael_tensor*> roots(1 + input_.below(2));
    std::generate(roots.begin(), roots.end(), [this] { return one(tensors_); });
    std::vector<kael_tensor*> gradients(roots.size());
    const bool has_gradients = input_.rarely(4);
    for (kael_tensor*& gradient : gradients) {
        gradient = has_gradients && !tensors_.empty() ? one_of_tensors() : nullptr;
    }
    const bool is_negative = input_.rarely(32);
    must_fail_ = must_fail_ || is_negative;
    const auto count = static_cast<std::int64_t>(roots.size());
    const auto flags = static_cast<std::int32_t>(
        input_.rarely(16) ? integer() : static_cast<std::int64_t>(input_.below(4)));
    succeeded(kael_backward(input_.rarely(32) ? nullptr : roots.data(),
                            has_gradients ? gradients.data() : nullptr,
                            is_negative ? -count : count, flags));
}

void Session::grad() {
    std::vector<kael_tensor*> roots = {one(tensors_)};
    std::vector<kael_tensor*> inputs(1 + input_.below(2));
    std::generate(inputs.begin(), inputs.end(), [this] { return one(tensors_); });
    std::vector<kael_tensor*> results(inputs.size(), untouched<kael_tensor>());
    kael_tensor* gradient = tensors_.empty() || !input_.rarely(4) ? nullptr : one_of_tensors();
    const auto flags = static_cast<std::int32_t>(input_.below(9));
    const kael_status status = kael_grad(roots.data(), gradient != nullptr ? &gradient : nullptr, 1,
                                         inputs.data(), static_cast<std::int64_t>(inputs.size()),
                                         flags, input_.rarely(32) ? nullptr : results.data());
    const bool found = succeeded(status);
    for (kael_tensor* const result : results) {
        require(found == (result != untouched<kael_tensor>()));
        if (found && result != nullptr) {
            keep(result);
        }
    }
}

void Session::nodes() {
    kael_node* node = untouched<kael_node>();
    if (const kael_status status = kael_tensor_node(one(tensors_), out(node)); !succeeded(status)) {
        require(node == untouched<kael_node>());
    } else if (node != nullptr) {
        nodes_.push_back(node);
    }
    const kael_node* const chosen = one(nodes_);
    std::array<kael_node*, 8> next{};
    next.fill(untouched<kael_node>());
    std::int64_t count = -1;
    const std::int64_t capacity = input_.one_of<std::int64_t>({8, 8, 8, 0, -1, 1});
    if (succeeded(kael_node_next(chosen, next.data(), capacity, out(count))) && capacity >= count) {
        for (std::int64_t i = 0; i < count; ++i) {
            if (kael_node* const found = next[static_cast<std::size_t>(i)]; found != nullptr) {
                nodes_.push_back(found);
            }
        }
        std::fill_n(next.begin(), count, untouched<kael_node>());
    }
    require(std::ranges::all_of(next, [](kael_node* e) { return e == untouched<kael_node>(); }));
    std::int64_t identity = 0;
    succeeded(kael_node_identity(one(nodes_), out(identity)));
    const char* name = nullptr;
    std::int64_t length = -1;
    if (succeeded(kael_node_name(one(nodes_), out(name), out(length)))) {
        require(length > 0 && name[length] == '\0');
    }
}

} // namespace kael::fuzz
