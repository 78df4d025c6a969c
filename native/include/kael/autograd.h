// Automatic differentiation: the graph that operators record, and the engine that walks it
// backward.
//
// An operator whose operands need gradients makes a node and hangs it on its result. A node knows
// how to turn the gradient of that result into gradients of the operands, and where each of them
// goes: to the node that made the operand, or, for a leaf, to the node that adds to its grad().
// Names and semantics are PyTorch's (docs/autograd.md).
//
// Threads: operators of several threads may read one tensor, and record that, at the same time.
// Graphs that share no tensor may be walked at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kael/tensor.h"

namespace kael {

struct NodeOrigin; // kael/anomaly.h

// Whether operators of this thread record. True in a new thread.
[[nodiscard]] bool grad_enabled() noexcept;

void set_grad_enabled(bool enabled) noexcept;

// Switches recording on or off for this thread until the end of the scope.
class GradMode {
public:
    explicit GradMode(bool enabled) noexcept;
    ~GradMode();
    GradMode(const GradMode&) = delete;
    GradMode& operator=(const GradMode&) = delete;

private:
    bool before_;
};

class NoGrad : public GradMode {
public:
    NoGrad() noexcept : GradMode(false) {}
};

namespace autograd {

class Node;
// Null where no gradient is wanted.
using Edge = std::shared_ptr<Node>;

// One gradient for each input of a node; undefined where there is none.
using GradientList = std::vector<Tensor>;

// Where a gradient goes, and what it looks like.
struct NodeInput {
    Edge edge;
    Shape shape;
    DType dtype;
};

// May replace the gradient that a node is about to take; an undefined tensor leaves it.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;
// By the number that add_gradient_hook() answered with, in ascending order.
using GradientHooks = std::map<std::uint64_t, GradientHook>;

// May replace all that a node has made, by operand, of the gradient that it took; none leaves it.
using NodeHook =
    std::function<std::optional<GradientList>(const GradientList& gradients, const Tensor& taken)>;
using NodeHooks = std::map<std::uint64_t, NodeHook>;

// One recorded operator. Made by operators with make_node(), run by the engine.
class Node : public std::enable_shared_from_this<Node> {
public:
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;
    virtual ~Node();

    // Destroys the node, and what only it kept alive, without recursion, however long the chain is.
    static void bury(Node* node) noexcept;

    // "MulBackward", "AccumulateGrad"
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    // The operands, in order.
    [[nodiscard]] const std::vector<NodeInput>& inputs() const noexcept { return inputs_; }
    // Shape and dtype of the result, which are those of its gradient.
    [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
    [[nodiscard]] DType dtype() const noexcept { return dtype_; }
    // Counts the nodes of the process in the order of their making.
    [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }

    // A tensor that the node keeps for its backward pass, and the version of its storage then.
    struct Saved {
        Tensor tensor;
        std::uint64_t version;
    };
    // Empty once they are released.
    [[nodiscard]] virtual std::vector<Saved> saved() const { return {}; }

    // Null unless the node was recorded while anomaly detection was on.
    [[nodiscard]] const std::shared_ptr<const NodeOrigin>& origin() const noexcept {
        return origin_;
    }
    void set_origin(std::shared_ptr<const NodeOrigin> origin) { origin_ = std::move(origin); }

    // They run before the node, in the order in which they came.
    [[nodiscard]] virtual GradientHooks& hooks() noexcept { return hooks_; }
    // They run after it.
    [[nodiscard]] NodeHooks& node_hooks() noexcept { return node_hooks_; }

    // The gradients of the inputs for the gradient of the result.
    [[nodiscard]] virtual GradientList apply(const Tensor& gradient) = 0;
    // Drops what apply() needs, so that it cannot run again.
    virtual void release() {}

protected:
    Node(std::string name, std::vector<NodeInput> inputs, const Tensor& result);
    Node(std::string name, std::vector<NodeInput> inputs, const Tensor& result,
         std::uint64_t sequence);

private:
    std::string name_;
    std::vector<NodeInput> inputs_;
    Shape shape_;
    DType dtype_;
    std::uint64_t sequence_;
    GradientHooks hooks_;
    NodeHooks node_hooks_;
    std::shared_ptr<const NodeOrigin> origin_;
    Node* next_dead_ = nullptr; // bury()'s
};

template <typename Made, typename... Arguments>
[[nodiscard]] std::shared_ptr<Made> make_node(Arguments&&... arguments) {
    return {new Made(std::forward<Arguments>(arguments)...), Node::bury};
}

// Calls `hook` with the gradient of `tensor` in every backward pass, before anything else sees it.
// Answers with what remove_gradient_hook() takes; removing twice does nothing.
std::uint64_t add_gradient_hook(const Tensor& tensor, GradientHook hook);
void remove_gradient_hook(const Tensor& tensor, std::uint64_t number);

// Calls `hook` before the node runs, with the gradient that it is about to take, or after it ran.
// Answers with what remove_hook() takes. Not while a backward pass of another thread may run the
// node.
std::uint64_t add_hook_before(Node& node, GradientHook hook);
std::uint64_t add_hook_after(Node& node, NodeHook hook);
// Either kind; a number that is gone does nothing. What the hook owned is freed last: it may call
// this again.
void remove_hook(Node& node, std::uint64_t number);

// The node that made `tensor`; of a leaf the one that adds to its grad(); null when it needs no
// gradient.
[[nodiscard]] Edge gradient_edge(const Tensor& tensor);

struct BackwardOptions {
    // Keeps the saved tensors, so that the graph can be walked again.
    bool retain_graph = false;
    // Records the walk itself, so that the gradients can be differentiated. Implies retain_graph.
    bool create_graph = false;
};

// Adds to the grad() of every leaf below `roots`. `gradients` are those of the roots; empty, or
// undefined ones, mean 1 for a root of one element.
void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& gradients = {},
              const BackwardOptions& options = {});

// The gradients of the sum of `roots` with respect to `inputs`, which accumulate nowhere. An input
// that no root depends on is an error, or undefined with `allow_unused`.
[[nodiscard]] std::vector<Tensor> grad(const std::vector<Tensor>& roots,
                                       const std::vector<Tensor>& inputs,
                                       const std::vector<Tensor>& gradients = {},
                                       const BackwardOptions& options = {},
                                       bool allow_unused = false);

} // namespace autograd
} // namespace kael
