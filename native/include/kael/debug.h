// What the library did, for people: a tensor's memory, the graph below it, the backward pass as it
// runs, and (kael/anomaly.h) the operator that made the first NaN. docs/debugging.md shows each.
#pragma once

#include <iosfwd>
#include <string>

#include "kael/allocator.h"
#include "kael/anomaly.h"
#include "kael/tensor.h"
#include "kael/trace.h"

namespace kael {

// Memory and autograd state, one field a line; each line ends with "\n".
[[nodiscard]] std::string explain(const Tensor& tensor);
// The same and more as a JSON object: also whose the memory is, the mapped file and the place in
// it, and every tensor on the storage. docs/debugging.md lists the fields.
[[nodiscard]] std::string explain_json(const Tensor& tensor);

struct GraphOptions {
    bool saved = false; // also what the nodes keep for their backward passes
};

// The graph below the tensor in Graphviz' DOT language: a node for each recorded operator, numbered
// in the order of a depth-first walk, an edge for each operand with the shape of its gradient. An
// empty digraph for a tensor that needs no gradient.
[[nodiscard]] std::string autograd_graph_dot(const Tensor& tensor,
                                             const GraphOptions& options = {});
// The same nodes, with the same numbers, and edges as a JSON object, with what the nodes keep.
[[nodiscard]] std::string autograd_graph_json(const Tensor& tensor);

// What anomaly detection found, as a JSON object with the fields of Anomaly, and its text.
[[nodiscard]] std::string anomaly_json(const Anomaly& anomaly);

// A record of a backward pass (kael/trace.h) as a JSON object, whose fields docs/debugging.md
// lists.
[[nodiscard]] std::string trace_record_json(const TraceRecord& record);

// A timeline (kael/allocator.h) as a JSON object with its fields.
[[nodiscard]] std::string memory_timeline_json(const MemoryTimeline& timeline);

// One line for each node that a backward pass runs: its name, the shape and the L2 norm of the
// gradient that it takes. Null switches it off. The stream must live until then. Two threads that
// walk at once interleave their lines, each of which is one write to the stream's buffer: where
// they do, the buffer must take two writes at once, as that of standard error does. On from the
// start, to standard error, when the environment variable KAEL_TRACE_BACKWARD is set. Process-wide,
// any thread.
void set_backward_trace(std::ostream* output);

} // namespace kael
