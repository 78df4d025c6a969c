// The graph below a tensor, in one order for every tool.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "kael/autograd.h"

namespace kael {

// A depth-first walk from the node of `tensor`, without recursion. Nodes are numbered from 0 in the
// order in which `on_node(number, node)` is told of each, always before
// `on_edge(from, to, operand, input)`: numbers, and the position of the operand in `from`.
template <typename OnNode, typename OnEdge>
void walk_graph(const Tensor& tensor, OnNode on_node, OnEdge on_edge) {
    std::unordered_map<const autograd::Node*, std::size_t> numbers;
    std::vector<const autograd::Node*> pending;
    const auto number_of = [&](const autograd::Node* node) {
        const auto [place, is_new] = numbers.try_emplace(node, numbers.size());
        if (is_new) {
            on_node(place->second, *node);
            pending.push_back(node);
        }
        return place->second;
    };
    const autograd::Edge root = autograd::gradient_edge(tensor);
    if (root != nullptr) {
        number_of(root.get());
    }
    while (!pending.empty()) {
        const autograd::Node* const node = pending.back();
        pending.pop_back();
        const std::size_t from = numbers.at(node);
        for (std::size_t i = 0; i < node->inputs().size(); ++i) {
            const autograd::NodeInput& input = node->inputs()[i];
            if (input.edge != nullptr) {
                on_edge(from, number_of(input.edge.get()), i, input);
            }
        }
    }
}

} // namespace kael
