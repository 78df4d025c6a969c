// Where the engine tells of the nodes that it runs: lines (set_backward_trace in kael/debug.h) and
// records (kael/trace.h).
#pragma once

#include <atomic>
#include <chrono>
#include <iosfwd>
#include <memory>

#include "kael/autograd.h"
#include "kael/trace.h"

namespace kael::autograd {

// Where the lines go, null for nowhere. Process-wide.
[[nodiscard]] std::atomic<std::ostream*>& trace_output();

// One run of a node: begun before it runs, with the gradient that it takes.
class TracedRun {
public:
    TracedRun(const Node& node, const Tensor& taken);
    // After it ran, with what it returned.
    void end(const GradientList& returned) const;

private:
    const Node& node_;
    const Tensor& taken_;
    std::shared_ptr<const TraceRecorder> recorder_;
    std::chrono::steady_clock::time_point begin_;
};

} // namespace kael::autograd
