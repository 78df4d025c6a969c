#include <atomic>
#include <limits>
#include <utility>

#include "kael/autograd.h"

namespace kael::autograd {

namespace {

// Dead nodes that wait for their destructor, linked through next_dead_. The outermost call of
// bury() on this thread owns the list and destroys one after the other; those below it, which the
// destructors make, only add to it. So the stack stays flat however long a chain of nodes is, and
// nothing needs memory.
thread_local bool is_burying = false;
thread_local Node* waiting = nullptr;

std::uint64_t next_sequence() {
    static std::atomic<std::uint64_t> next{0};
    return next.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t next_hook() {
    static std::atomic<std::uint64_t> next{0};
    return next.fetch_add(1, std::memory_order_relaxed);
}

} // namespace

std::uint64_t add_hook_before(Node& node, GradientHook hook) {
    const std::uint64_t number = next_hook();
    node.hooks().emplace(number, std::move(hook));
    return number;
}

std::uint64_t add_hook_after(Node& node, NodeHook hook) {
    const std::uint64_t number = next_hook();
    node.node_hooks().emplace(number, std::move(hook));
    return number;
}

void remove_hook(Node& node, std::uint64_t number) {
    // Freed when neither map is being changed any more.
    const auto before = node.hooks().extract(number);
    const auto after = node.node_hooks().extract(number);
}

Node::Node(std::string name, std::vector<NodeInput> inputs, const Tensor& result)
    : Node(std::move(name), std::move(inputs), result, next_sequence()) {}

Node::Node(std::string name, std::vector<NodeInput> inputs, const Tensor& result,
           std::uint64_t sequence)
    : name_(std::move(name)), inputs_(std::move(inputs)), shape_(result.shape()),
      dtype_(result.dtype()), sequence_(sequence) {}

Node::~Node() = default;

void Node::bury(Node* node) noexcept {
    node->next_dead_ = std::exchange(waiting, node);
    if (is_burying) {
        return;
    }
    is_burying = true;
    while (waiting != nullptr) {
        const Node* const next = std::exchange(waiting, waiting->next_dead_);
        delete next; // may add to those that wait
    }
    is_burying = false;
}

} // namespace kael::autograd
