// What a backward pass did, node by node, for programs. docs/debugging.md shows it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kael/anomaly.h"
#include "kael/autograd.h"

namespace kael {

// One node that ran.
struct TraceRecord {
    const autograd::Node& node;
    TensorSummary taken;             // the gradient of its result
    double norm;                     // its L2 norm, computed in float64
    autograd::GradientList returned; // by operand; undefined where there is none
    std::int64_t nans;               // in all that it returned
    std::int64_t infinities;
    std::int64_t bytes;
    double milliseconds; // in the node itself
};

using TraceRecorder = std::function<void(const TraceRecord&)>;

// Calls `recorder`, on the thread that walks, after each node that a backward pass runs; null for
// none. A walk that has begun may still call the one that was set before. What it throws ends the
// walk. Process-wide, any thread; slow, for every gradient is looked at.
void set_backward_records(TraceRecorder recorder);

} // namespace kael
