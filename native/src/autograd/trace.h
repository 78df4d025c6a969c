// A line for each node that a backward pass runs.
#pragma once

#include <atomic>
#include <iosfwd>

#include "kael/autograd.h"

namespace kael::autograd {

// Where the lines go, null for nowhere. Process-wide.
[[nodiscard]] std::atomic<std::ostream*>& trace_output();

// Before a node runs, with the gradient that it takes.
void trace_node(const Node& node, const Tensor& gradient);

} // namespace kael::autograd
