// What the engine lets people see while it walks.
#pragma once

#include <atomic>
#include <iosfwd>

#include "kael/autograd.h"

namespace kael::autograd {

// Where the trace goes, null for nowhere; whether gradients are searched for NaN. Process-wide.
[[nodiscard]] std::atomic<std::ostream*>& trace_output();
[[nodiscard]] std::atomic<bool>& anomaly_detection();

// Before a node runs, with the gradient that it takes.
void watch_before(const Node& node, const Tensor& gradient);
// After it ran. Throws what anomaly detection finds.
void watch_after(const Node& node, const GradientList& gradients);

} // namespace kael::autograd
