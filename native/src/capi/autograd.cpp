// Gradients: the record, the walk, and what it left.
#include "kael/autograd.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "capi/guard.h"
#include "capi/handles.h"

namespace {

// A null entry is an error, or an undefined tensor where `may_lack`.
std::vector<kael::Tensor> tensors_of(kael_tensor** handles, std::int64_t count,
                                     const char* argument, bool may_lack) {
    KAEL_CHECK(count >= 0, "the count of the argument " << argument << " is " << count
                                                        << ", expected 0 or more");
    KAEL_CHECK(handles != nullptr || count == 0, "the argument " << argument << " is null");
    std::vector<kael::Tensor> tensors;
    for (std::int64_t i = 0; i < count; ++i) {
        KAEL_CHECK(may_lack || handles[i] != nullptr,
                   "entry " << i << " of the argument " << argument << " is null");
        tensors.push_back(handles[i] != nullptr ? handles[i]->tensor : kael::Tensor());
    }
    return tensors;
}

std::vector<kael::Tensor> gradients_of(kael_tensor** handles, std::int64_t count) {
    return handles == nullptr ? std::vector<kael::Tensor>{}
                              : tensors_of(handles, count, "gradients", true);
}

kael::autograd::BackwardOptions options_of(kael_backward_flags flags, kael_backward_flags allowed) {
    KAEL_CHECK((flags & ~allowed) == 0,
               "the flags are " << flags << ", expected some of " << allowed);
    return {.retain_graph = (flags & KAEL_RETAIN_GRAPH) != 0,
            .create_graph = (flags & KAEL_CREATE_GRAPH) != 0};
}

// Releases what a hook was given when its last copy goes.
std::shared_ptr<void> keep(void* user_data, kael_release_callback release) {
    return {user_data, [release](void* data) {
                if (release != nullptr) {
                    release(data);
                }
            }};
}

kael::Tensor call_hook(kael_gradient_callback hook, void* user_data, const kael::Tensor& gradient) {
    kael_tensor* replacement = nullptr;
    const int32_t answer = hook(new kael_tensor{gradient}, &replacement, user_data);
    const std::unique_ptr<kael_tensor> owned(replacement);
    KAEL_CHECK_AS(kael::ErrorCode::callback_failed, answer == 0,
                  "a hook on a gradient answered " << answer << ", expected 0");
    return owned != nullptr ? owned->tensor : kael::Tensor();
}

// Runs the callback, whose handles are the caller's as soon as they exist.
std::optional<kael::autograd::GradientList>
call_node_hook(kael_node_callback hook, void* user_data,
               const kael::autograd::GradientList& gradients, const kael::Tensor& taken) {
    std::vector<std::unique_ptr<kael_tensor>> owned;
    owned.reserve(gradients.size() + 1);
    for (const kael::Tensor& gradient : gradients) {
        owned.push_back(gradient.defined() ? std::make_unique<kael_tensor>(gradient) : nullptr);
    }
    owned.push_back(std::make_unique<kael_tensor>(taken));
    std::vector<kael_tensor*> given(owned.size());
    std::vector<kael_tensor*> replacements(owned.size());
    std::transform(owned.begin(), owned.end(), given.begin(),
                   [](std::unique_ptr<kael_tensor>& handle) { return handle.release(); });
    uint8_t replaces = 0;
    const int32_t answer = hook(given.data(), static_cast<int64_t>(gradients.size()), given.back(),
                                replacements.data(), &replaces, user_data);
    kael::autograd::GradientList replaced;
    replaced.reserve(gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        const std::unique_ptr<kael_tensor> handle(replacements[i]);
        replaced.push_back(handle != nullptr ? handle->tensor : kael::Tensor());
    }
    KAEL_CHECK_AS(kael::ErrorCode::callback_failed, answer == 0,
                  "a hook on a node answered " << answer << ", expected 0");
    return replaces != 0 ? std::optional(std::move(replaced)) : std::nullopt;
}

} // namespace

extern "C" {

void kael_set_grad_enabled(uint8_t enabled) {
    kael::set_grad_enabled(enabled != 0);
}

uint8_t kael_grad_enabled(void) {
    return kael::grad_enabled() ? 1 : 0;
}

kael_status kael_tensor_gradient_state(const kael_tensor* tensor, uint8_t* requires_grad,
                                       uint8_t* is_leaf) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        KAEL_REQUIRE(requires_grad);
        KAEL_REQUIRE(is_leaf);
        *requires_grad = tensor->tensor.requires_grad() ? 1 : 0;
        *is_leaf = tensor->tensor.is_leaf() ? 1 : 0;
    });
}

kael_status kael_tensor_set_requires_grad(kael_tensor* tensor, uint8_t wanted) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        tensor->tensor.set_requires_grad(wanted != 0);
    });
}

kael_status kael_tensor_grad_fn(const kael_tensor* tensor, const char** name, int64_t* length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        const kael::autograd::Edge node = tensor->tensor.grad_fn();
        kael::capi::answer_text(node != nullptr ? node->name() : "", name, length);
    });
}

kael_status kael_tensor_grad(const kael_tensor* tensor, kael_tensor** gradient) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        KAEL_REQUIRE(gradient);
        const kael::Tensor found = tensor->tensor.grad();
        *gradient = found.defined() ? new kael_tensor{found} : nullptr;
    });
}

kael_status kael_tensor_set_grad(kael_tensor* tensor, const kael_tensor* gradient) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        tensor->tensor.set_grad(gradient != nullptr ? gradient->tensor : kael::Tensor());
    });
}

kael_status kael_tensor_detach(const kael_tensor* tensor, kael_tensor** detached) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        KAEL_REQUIRE(detached);
        *detached = new kael_tensor{tensor->tensor.detach()};
    });
}

kael_status kael_tensor_share(const kael_tensor* tensor, kael_tensor** shared) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        KAEL_REQUIRE(shared);
        *shared = new kael_tensor{tensor->tensor};
    });
}

kael_status kael_tensor_add_hook(const kael_tensor* tensor, kael_gradient_callback hook,
                                 kael_release_callback release, void* user_data, int64_t* number) {
    return kael::capi::guard([&] {
        const std::shared_ptr<void> kept = keep(user_data, release);
        KAEL_REQUIRE(tensor);
        KAEL_REQUIRE(hook);
        KAEL_REQUIRE(number);
        *number = static_cast<int64_t>(kael::autograd::add_gradient_hook(
            tensor->tensor, [hook, kept](const kael::Tensor& gradient) {
                return call_hook(hook, kept.get(), gradient);
            }));
    });
}

kael_status kael_tensor_remove_hook(const kael_tensor* tensor, int64_t number) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        kael::autograd::remove_gradient_hook(tensor->tensor, static_cast<std::uint64_t>(number));
    });
}

kael_status kael_tensor_node(const kael_tensor* tensor, kael_node** node) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        KAEL_REQUIRE(node);
        const kael::autograd::Edge found = tensor->tensor.grad_fn();
        *node = found != nullptr ? new kael_node{found} : nullptr;
    });
}

void kael_node_free(kael_node* node) {
    delete node;
}

kael_status kael_node_name(const kael_node* node, const char** name, int64_t* length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(node);
        kael::capi::answer_text(node->node->name(), name, length);
    });
}

kael_status kael_node_identity(const kael_node* node, int64_t* identity) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(node);
        KAEL_REQUIRE(identity);
        *identity = reinterpret_cast<std::intptr_t>(node->node.get());
    });
}

kael_status kael_node_next(const kael_node* node, kael_node** next, int64_t capacity,
                           int64_t* count) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(node);
        KAEL_REQUIRE(count);
        const std::vector<kael::autograd::NodeInput>& inputs = node->node->inputs();
        if (const auto needed = static_cast<int64_t>(inputs.size()); capacity >= needed) {
            KAEL_CHECK(next != nullptr || needed == 0, "the argument next is null");
            std::vector<std::unique_ptr<kael_node>> handles;
            handles.reserve(inputs.size());
            for (const kael::autograd::NodeInput& input : inputs) {
                handles.push_back(input.edge != nullptr
                                      ? std::make_unique<kael_node>(kael_node{input.edge})
                                      : nullptr);
            }
            for (std::size_t i = 0; i < handles.size(); ++i) {
                next[i] = handles[i].release();
            }
        }
        *count = static_cast<int64_t>(inputs.size());
    });
}

kael_status kael_node_add_hook(const kael_node* node, kael_node_callback hook,
                               kael_release_callback release, void* user_data, int64_t* number) {
    return kael::capi::guard([&] {
        const std::shared_ptr<void> kept = keep(user_data, release);
        KAEL_REQUIRE(node);
        KAEL_REQUIRE(hook);
        KAEL_REQUIRE(number);
        *number = static_cast<int64_t>(kael::autograd::add_hook_after(
            *node->node,
            [hook, kept](const kael::autograd::GradientList& gradients, const kael::Tensor& taken) {
                return call_node_hook(hook, kept.get(), gradients, taken);
            }));
    });
}

kael_status kael_node_add_prehook(const kael_node* node, kael_gradient_callback hook,
                                  kael_release_callback release, void* user_data, int64_t* number) {
    return kael::capi::guard([&] {
        const std::shared_ptr<void> kept = keep(user_data, release);
        KAEL_REQUIRE(node);
        KAEL_REQUIRE(hook);
        KAEL_REQUIRE(number);
        *number = static_cast<int64_t>(kael::autograd::add_hook_before(
            *node->node, [hook, kept](const kael::Tensor& gradient) {
                return call_hook(hook, kept.get(), gradient);
            }));
    });
}

kael_status kael_node_remove_hook(const kael_node* node, int64_t number) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(node);
        kael::autograd::remove_hook(*node->node, static_cast<std::uint64_t>(number));
    });
}

kael_status kael_backward(kael_tensor** roots, kael_tensor** gradients, int64_t root_count,
                          kael_backward_flags flags) {
    return kael::capi::guard([&] {
        kael::autograd::backward(tensors_of(roots, root_count, "roots", false),
                                 gradients_of(gradients, root_count),
                                 options_of(flags, KAEL_RETAIN_GRAPH | KAEL_CREATE_GRAPH));
    });
}

kael_status kael_grad(kael_tensor** roots, kael_tensor** gradients, int64_t root_count,
                      kael_tensor** inputs, int64_t input_count, kael_backward_flags flags,
                      kael_tensor** results) {
    return kael::capi::guard([&] {
        KAEL_CHECK(results != nullptr || input_count <= 0, "the argument results is null");
        const auto options =
            options_of(flags, KAEL_RETAIN_GRAPH | KAEL_CREATE_GRAPH | KAEL_ALLOW_UNUSED);
        const std::vector<kael::Tensor> found = kael::autograd::grad(
            tensors_of(roots, root_count, "roots", false),
            tensors_of(inputs, input_count, "inputs", false), gradients_of(gradients, root_count),
            options, (flags & KAEL_ALLOW_UNUSED) != 0);
        std::vector<std::unique_ptr<kael_tensor>> handles;
        handles.reserve(found.size());
        for (const kael::Tensor& gradient : found) {
            handles.push_back(gradient.defined() ? std::make_unique<kael_tensor>(gradient)
                                                 : nullptr);
        }
        for (std::size_t i = 0; i < handles.size(); ++i) {
            results[i] = handles[i].release();
        }
    });
}
}
