// Where operators and the engine look for anomalies (kael/anomaly.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kael/anomaly.h"
#include "kael/autograd.h"

namespace kael::autograd {

[[nodiscard]] bool detects_anomalies() noexcept;
// False inside a backward pass, whose gradients are looked at instead.
[[nodiscard]] bool checks_forward() noexcept;

[[nodiscard]] TensorSummary summary_of(const Tensor& tensor);
[[nodiscard]] std::vector<TensorSummary> summaries_of(const std::vector<Tensor>& tensors);

// What is known of an operator before it runs.
struct Observation {
    std::vector<TensorSummary> operands;
    std::string call_site;
};
// Nothing while detection is off. Asks for the call site, which may throw.
[[nodiscard]] std::optional<Observation> observe(const std::vector<Tensor>& operands);

// Of a node that is about to be recorded. Its creator is the node that runs on this thread.
[[nodiscard]] std::shared_ptr<const NodeOrigin> origin_of(const std::string& node,
                                                          Observation observation);

// Throws when a result holds an anomaly. `operation` as in Anomaly.
void check_results(const std::string& operation, const std::vector<TensorSummary>& operands,
                   const std::vector<Tensor>& results);

// Throws when a gradient that `node` made of `taken` holds an anomaly.
void check_gradients(const Node& node, const Tensor& taken, const GradientList& gradients);

// Until the end of the scope this node runs on this thread. Does nothing while detection is off.
class RunningNode {
public:
    explicit RunningNode(const Node& node) noexcept;
    ~RunningNode();
    RunningNode(const RunningNode&) = delete;
    RunningNode& operator=(const RunningNode&) = delete;

private:
    const Node* before_;
};

} // namespace kael::autograd
