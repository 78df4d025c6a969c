#include <atomic>
#include <limits>
#include <utility>

#include "kael/autograd.h"

namespace kael::autograd {

namespace {

// What dead nodes held, while it waits to be freed. The outermost destructor of this thread owns
// the list and frees one entry at a time; those below it only add to the list, so that the stack
// stays flat however long a chain of nodes is.
struct Remains {
    std::vector<NodeInput> inputs;
    std::vector<Edge> edges;
    GradientHooks hooks;
    NodeHooks node_hooks;
};
thread_local std::vector<Remains>* graveyard = nullptr;

void free_flat(Remains remains) {
    if (graveyard != nullptr) {
        graveyard->push_back(std::move(remains));
        return;
    }
    std::vector<Remains> waiting;
    graveyard = &waiting;
    waiting.push_back(std::move(remains));
    while (!waiting.empty()) {
        const Remains next = std::move(waiting.back()); // its end may add to `waiting`
        waiting.pop_back();
    }
    graveyard = nullptr;
}

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

Node::Node(std::string name, std::vector<NodeInput> inputs, const Tensor& result)
    : Node(std::move(name), std::move(inputs), result, next_sequence()) {}

Node::Node(std::string name, std::vector<NodeInput> inputs, const Tensor& result,
           std::uint64_t sequence)
    : name_(std::move(name)), inputs_(std::move(inputs)), shape_(result.shape()),
      dtype_(result.dtype()), sequence_(sequence) {}

Node::~Node() {
    if (!inputs_.empty() || !hooks_.empty() || !node_hooks_.empty()) {
        free_flat({std::move(inputs_), {}, std::move(hooks_), std::move(node_hooks_)});
    }
}

void Node::free_edges(std::vector<Edge> edges) {
    free_flat({{}, std::move(edges), {}, {}});
}

} // namespace kael::autograd
