#include <sstream>

#include "kael/debug.h"

#include "debug/graph_walk.h"

namespace kael {

namespace {

// Boxes for what the node keeps. The "\n" in a label is DOT's.
void write_saved(std::ostream& dot, std::size_t number, const autograd::Node& node) {
    std::size_t position = 0;
    for (const autograd::Node::Saved& saved : node.saved()) {
        dot << "  n" << number << "s" << position << " [shape=box, label=\"saved "
            << name(saved.tensor.dtype()) << ' ' << to_string(saved.tensor.shape()) << "\\n"
            << saved.tensor.nbytes() << " bytes, version " << saved.version;
        if (const std::uint64_t now = saved.tensor.storage()->version(); now != saved.version) {
            dot << ", now " << now;
        }
        dot << "\"];\n  n" << number << " -> n" << number << "s" << position
            << " [style=dashed, arrowhead=none];\n";
        ++position;
    }
}

} // namespace

std::string autograd_graph_dot(const Tensor& tensor, const GraphOptions& options) {
    std::ostringstream dot;
    dot << "digraph autograd {\n";
    walk_graph(
        tensor,
        [&](std::size_t number, const autograd::Node& node) {
            dot << "  n" << number << " [label=\"" << node.name() << "\"];\n";
            if (options.saved) {
                write_saved(dot, number, node);
            }
        },
        [&](std::size_t from, std::size_t to, std::size_t, const autograd::NodeInput& input) {
            dot << "  n" << from << " -> n" << to << " [label=\"" << to_string(input.shape)
                << "\"];\n";
        });
    dot << "}\n";
    return dot.str();
}

} // namespace kael
