// How an operator records itself: one call of record() after its forward pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/detection.h"
#include "autograd/state.h"

namespace kael::autograd {

// A tensor that a node keeps for its backward pass: its values, which version of its memory they
// are, and where its own gradient goes.
class SavedTensor {
public:
    // `is_result`: the tensor is what the node itself makes. Its edge is left out, for the node
    // would keep itself alive.
    SavedTensor(const Tensor& tensor, bool is_result);

    // The tensor as it was saved by `saver`. An error when its memory was written since.
    [[nodiscard]] Tensor unpack(Node& saver) const;
    [[nodiscard]] Node::Saved describe() const { return {values_, version_}; }

private:
    Tensor values_; // without a graph
    Edge edge_;
    std::uint64_t version_;
    bool is_result_;
};

// What a backward function gets: the gradient of the result and what was saved.
class Backward {
public:
    Backward(const Tensor& gradient, std::vector<Tensor> saved,
             const std::vector<NodeInput>& inputs)
        : gradient_(gradient), saved_(std::move(saved)), inputs_(inputs) {}

    [[nodiscard]] const Tensor& gradient() const { return gradient_; }
    [[nodiscard]] const Tensor& saved(std::size_t index) const { return saved_.at(index); }
    [[nodiscard]] const std::vector<Tensor>& all_saved() const { return saved_; }
    // Whether the gradient of that input is wanted; computing another is wasted.
    [[nodiscard]] bool needs(std::size_t input) const { return inputs_.at(input).edge != nullptr; }

private:
    const Tensor& gradient_;
    std::vector<Tensor> saved_;
    const std::vector<NodeInput>& inputs_;
};

// Answers a gradient for each input, undefined where it is not needed. A gradient may have the
// shape and dtype that broadcasting and promotion made of an input: the engine sums and converts it
// back. Made of recorded operators, so that it can be differentiated again.
using BackwardFunction = std::function<GradientList(const Backward&)>;

// Whether an operator on these has to be recorded. What holds no floats has no gradient.
[[nodiscard]] bool needs_recording(const Tensor& result, const std::vector<Tensor>& inputs);

// Hangs a node on `result`. Not to be called unless needs_recording(result, inputs). `saved` may
// hold `result`. Throws what the check of forward passes finds in `result`.
void record(std::string name, const Tensor& result, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& saved, BackwardFunction backward);

// One run of an in-place operator: made before it writes, so that whatever may refuse, such as the
// function that is asked for the call site, does so while nothing is written.
class InPlaceWrite {
public:
    // `inputs` are the operands that are tensors, the one that is written first. Both names must
    // live as long as the process. Refuses a write that could not be recorded.
    InPlaceWrite(const char* operator_name, const char* node, std::vector<Tensor> inputs);

    // Whether record() has to follow run().
    [[nodiscard]] bool is_recorded() const noexcept { return is_recorded_; }

    // An operand that the node has to save, as it is now: a copy where the write may reach it, or
    // writes to the same storage that come later.
    [[nodiscard]] Tensor kept(const Tensor& operand) const;

    template <typename Write>
    void run(Write&& write) const {
        {
            const NoGrad guard;
            write();
        }
        target().storage()->set_last_writer(operator_name_);
    }

    // `value`, a tensor of its own, holds what was written: from now on gradients of the target,
    // and of what it is a view of, go to it. The rest as of the function of this name.
    void record(const Tensor& value, const std::vector<Tensor>& saved, BackwardFunction backward);

private:
    [[nodiscard]] const Tensor& target() const { return inputs_.front(); }

    const char* operator_name_;
    const char* node_;
    std::vector<Tensor> inputs_;
    bool is_recorded_ = false;
    std::optional<Observation> observation_;
};

// `view` was derived from `x`: views of the same memory follow each other's in-place writes. Call
// for every view, recorded or not.
void register_view(const Tensor& x, const Tensor& view);

// Runs a forward pass: operators inside it do not record.
template <typename Forward>
[[nodiscard]] auto without_recording(Forward&& forward) {
    const NoGrad guard;
    return forward();
}

} // namespace kael::autograd
