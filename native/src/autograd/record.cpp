#include "autograd/record.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/detection.h"
#include "autograd/strided.h"
#include "tensor/defined.h"
#include "tensor/overlap.h"

namespace kael::autograd {

namespace {

// A node made of a function and of what it needs.
class FunctionNode final : public Node {
public:
    FunctionNode(std::string name, std::vector<NodeInput> inputs, const Tensor& result,
                 const std::vector<Tensor>& saved, BackwardFunction backward)
        : Node(std::move(name), std::move(inputs), result), backward_(std::move(backward)),
          keeps_tensors_(!saved.empty()) {
        saved_.reserve(saved.size());
        for (const Tensor& tensor : saved) {
            saved_.emplace_back(tensor, tensor.is_same(result));
        }
    }

    [[nodiscard]] std::vector<Saved> saved() const override {
        std::vector<Saved> all;
        all.reserve(saved_.size());
        for (const SavedTensor& saved : saved_) {
            all.push_back(saved.describe());
        }
        return all;
    }

    GradientList apply(const Tensor& gradient) override {
        KAEL_CHECK(
            !keeps_tensors_ || !saved_.empty(),
            name() << " was walked before, and what it had saved is freed, expected it kept: pass "
                      "retain_graph to the backward pass that comes first");
        std::vector<Tensor> saved;
        saved.reserve(saved_.size());
        for (const SavedTensor& tensor : saved_) {
            saved.push_back(tensor.unpack(*this));
        }
        return backward_(Backward(gradient, std::move(saved), inputs()));
    }

    // Freed when the list is empty: the owner of borrowed memory may walk the graph again.
    void release() override { const auto freed = std::exchange(saved_, {}); }

private:
    BackwardFunction backward_;
    std::vector<SavedTensor> saved_;
    bool keeps_tensors_;
};

std::vector<NodeInput> node_inputs(const std::vector<Tensor>& tensors) {
    std::vector<NodeInput> inputs;
    inputs.reserve(tensors.size());
    for (const Tensor& tensor : tensors) {
        inputs.push_back({gradient_edge(tensor), tensor.shape(), tensor.dtype()});
    }
    return inputs;
}

// The backward pass of a write over the part of a base, of these strides, at `place`. The inputs
// are the base, whose gradient passes elsewhere, and the value that was written.
GradientList backward_of_write(const Strided& place, const Shape& strides,
                               const Backward& context) {
    const Tensor& gradient = context.gradient();
    GradientList gradients(2);
    if (context.needs(0)) {
        gradients[0] = copy_with_strides(gradient, strides);
        Tensor written = as_strided(gradients[0], place);
        copy_(written, 0.0);
    }
    if (context.needs(1)) {
        gradients[1] = as_strided(
            gradient.strides() == strides ? gradient : copy_with_strides(gradient, strides), place);
    }
    return gradients;
}

bool any_requires_grad(const std::vector<Tensor>& tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const Tensor& tensor) { return tensor.requires_grad(); });
}

// The name of the operator whose node has this name: "index_select" of "IndexSelectBackward".
std::string operation_of(std::string_view node) {
    constexpr std::string_view kSuffix = "Backward";
    if (node.ends_with(kSuffix)) {
        node.remove_suffix(kSuffix.size());
    }
    std::string operation;
    for (const char letter : node) {
        const bool is_capital = letter >= 'A' && letter <= 'Z';
        if (is_capital && !operation.empty()) {
            operation += '_';
        }
        operation += is_capital ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
    return operation;
}

// Makes the node of an operator and hangs it on the result.
void hang(std::string name, const Tensor& result, const std::vector<Tensor>& inputs,
          const std::vector<Tensor>& saved, BackwardFunction backward,
          std::optional<Observation> observation) {
    std::shared_ptr<const NodeOrigin> origin =
        observation.has_value() ? origin_of(name, *std::move(observation)) : nullptr;
    auto node = make_node<FunctionNode>(std::move(name), node_inputs(inputs), result, saved,
                                        std::move(backward));
    node->set_origin(std::move(origin));
    state_of(result).node = std::move(node);
}

// Refuses an in-place operator on these whose write to the first could not be recorded.
void check_in_place(const std::string& operator_name, const std::vector<Tensor>& inputs) {
    const Tensor& target = inputs.front();
    check_defined(target, operator_name);
    if (!grad_enabled()) {
        return;
    }
    const auto is_wanted_leaf = [](const Tensor& tensor) {
        return tensor.is_leaf() && tensor.requires_grad();
    };
    constexpr const char* kAdvice = ": detach it, or write inside no_grad";
    KAEL_CHECK(!is_wanted_leaf(target),
               operator_name << " would overwrite a leaf of shape " << to_string(target.shape())
                             << " that needs a gradient, expected one that needs none" << kAdvice);
    const ViewOf* view = target.autograd_state() ? target.autograd_state()->view.get() : nullptr;
    if (view == nullptr) {
        return;
    }
    KAEL_CHECK(!is_wanted_leaf(view->base),
               operator_name << " would overwrite a view of a leaf of shape "
                             << to_string(view->base.shape())
                             << " that needs a gradient, expected one that needs none" << kAdvice);
    if (!view->base.requires_grad() && !any_requires_grad(inputs)) {
        return;
    }
    KAEL_CHECK(view->is_recorded,
               operator_name << " would overwrite a view of shape " << to_string(target.shape())
                             << " that was made inside no_grad, where nobody can record it, "
                                "expected one made outside");
    KAEL_CHECK(has_distinct_elements(view->base),
               operator_name << " would overwrite a view of a tensor of shape "
                             << to_string(view->base.shape()) << " and strides "
                             << to_string(view->base.strides())
                             << " of which several elements share memory, so that no gradient "
                                "belongs to one, expected a place for each: write into a clone");
}

// Sends the gradients of the target, and of what it is a view of, to what was written over it.
// `observation` is that of the operator.
void record_write(const Tensor& target, const Tensor& value,
                  const std::optional<Observation>& observation) {
    const ViewOf* view = target.autograd_state() ? target.autograd_state()->view.get() : nullptr;
    const Tensor written = view != nullptr ? view->base : target;
    State& state = state_of(written);
    if (view == nullptr) {
        state.node = gradient_edge(value);
    } else {
        auto node = make_node<FunctionNode>(
            "ViewWriteBackward", node_inputs({written, value}), written, std::vector<Tensor>{},
            [place = place_in(written, target), strides = written.strides()](
                const Backward& context) { return backward_of_write(place, strides, context); });
        if (observation.has_value()) {
            node->set_origin(
                origin_of(node->name(), {summaries_of({written, value}), observation->call_site}));
        }
        state.node = std::move(node);
    }
    ++state.writes;
}

} // namespace

SavedTensor::SavedTensor(const Tensor& tensor, bool is_result)
    : values_(tensor.detach()), edge_(is_result ? nullptr : gradient_edge(tensor)),
      version_(tensor.storage()->version()), is_result_(is_result) {}

Tensor SavedTensor::unpack(Node& saver) const {
    const Storage& storage = *values_.storage();
    KAEL_CHECK(storage.version() == version_,
               saver.name() << " needs the tensor of shape " << to_string(values_.shape())
                            << " that it saved, but "
                            << (storage.last_writer().empty() ? "an in-place write"
                                                              : storage.last_writer())
                            << " has changed it: it is at version " << storage.version()
                            << ", expected " << version_
                            << ": write to a clone, or use the operator that is not in place");
    Tensor tensor = values_.detach();
    const Edge edge = is_result_ ? saver.shared_from_this() : edge_;
    if (edge != nullptr) {
        state_of(tensor).node = edge;
    }
    return tensor;
}

bool needs_recording(const Tensor& result, const std::vector<Tensor>& inputs) {
    return grad_enabled() && is_floating_point(result.dtype()) && any_requires_grad(inputs);
}

void record(std::string name, const Tensor& result, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& saved, BackwardFunction backward) {
    std::optional<Observation> observation = observe(inputs);
    if (observation.has_value() && checks_forward()) {
        check_results(operation_of(name), observation->operands, {result});
    }
    hang(std::move(name), result, inputs, saved, std::move(backward), std::move(observation));
}

InPlaceWrite::InPlaceWrite(const char* operator_name, const char* node, std::vector<Tensor> inputs)
    : operator_name_(operator_name), node_(node), inputs_(std::move(inputs)) {
    check_in_place(operator_name, inputs_);
    is_recorded_ = needs_recording(target(), inputs_);
    if (is_recorded_) {
        observation_ = observe(inputs_);
    }
}

Tensor InPlaceWrite::kept(const Tensor& operand) const {
    const bool is_reached = operand.storage() == target().storage() || overlap(target(), operand);
    return is_reached ? operand.clone() : operand;
}

void InPlaceWrite::record(const Tensor& value, const std::vector<Tensor>& saved,
                          BackwardFunction backward) {
    hang(node_, value, inputs_, saved, std::move(backward), observation_);
    record_write(target(), value, observation_);
    if (observation_.has_value() && checks_forward()) { // it is written, and recorded
        check_results(operation_of(node_), observation_->operands, {value});
    }
}

void register_view(const Tensor& x, const Tensor& view) {
    if (!is_floating_point(x.dtype())) {
        return; // no write to it is ever recorded
    }
    if (!grad_enabled()) {
        if (x.requires_grad()) {
            state_of(view).view = std::make_unique<ViewOf>(x, false, 0);
        }
        return;
    }
    const ViewOf* above = x.autograd_state() ? x.autograd_state()->view.get() : nullptr;
    const Tensor base = above != nullptr ? above->base : x;
    const std::uint64_t writes = base.autograd_state() ? base.autograd_state()->writes : 0;
    state_of(view).view =
        std::make_unique<ViewOf>(base, above == nullptr || above->is_recorded, writes);
}

} // namespace kael::autograd
