#include <cstddef>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "kael/autograd.h"
#include "kael/debug.h"

namespace kael {

std::string autograd_graph_dot(const Tensor& tensor) {
    std::ostringstream dot;
    dot << "digraph autograd {\n";
    std::unordered_map<const autograd::Node*, std::size_t> numbers;
    std::vector<const autograd::Node*> pending;
    // The number of a node, which is introduced when it is met for the first time.
    const auto number_of = [&](const autograd::Node* node) {
        const auto [place, is_new] = numbers.try_emplace(node, numbers.size());
        if (is_new) {
            dot << "  n" << place->second << " [label=\"" << node->name() << "\"];\n";
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
        for (const autograd::NodeInput& input : node->inputs()) {
            if (input.edge != nullptr) {
                const std::size_t to = number_of(input.edge.get());
                dot << "  n" << numbers.at(node) << " -> n" << to << " [label=\""
                    << to_string(input.shape) << "\"];\n";
            }
        }
    }
    dot << "}\n";
    return dot.str();
}

} // namespace kael
