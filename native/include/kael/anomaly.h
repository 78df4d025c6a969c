// Anomaly detection: the operator that makes the first NaN or infinity is named where it runs, with
// all that is known of it. docs/debugging.md shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kael/dtype.h"
#include "kael/error.h"
#include "kael/tensor.h"

namespace kael {

enum class AnomalyMode { nan, infinity, both };

struct AnomalyOptions {
    AnomalyMode mode = AnomalyMode::nan; // what counts as an anomaly
    // Also the result of every operator that is recorded, or applied by name, to tensors.
    bool check_forward = false;
};

// Whether backward passes search the gradients that each node makes, and throw an AnomalyError at
// the first that holds an anomaly. Process-wide, any thread. Off at first, for it costs a pass over
// every gradient and over the operands of every recorded operator.
void set_anomaly_detection(bool enabled, const AnomalyOptions& options = {});

// What numbers a tensor holds.
struct ValueRange {
    double least; // of what is not NaN; NaN where nothing else is there
    double most;
    std::int64_t nans;
    std::int64_t infinities;
};

struct TensorSummary {
    Shape shape;
    DType dtype;
    std::optional<ValueRange> range; // absent where detection was off when the tensor was seen
};

// How a node came to be recorded. Kept of nodes that are made while detection is on.
struct NodeOrigin {
    std::string node;      // "SqrtBackward"
    std::string call_site; // "train.py:12"; empty where nobody knows
    std::vector<TensorSummary> operands;
    // Of the node whose backward pass recorded this one; null for an operator of a forward pass.
    std::shared_ptr<const NodeOrigin> creator;

    NodeOrigin() = default;
    NodeOrigin(const NodeOrigin&) = delete;
    NodeOrigin& operator=(const NodeOrigin&) = delete;
    ~NodeOrigin(); // frees the creators without recursion
};

// What was found.
struct Anomaly {
    // A node of the graph and its call in the forward pass.
    struct Call {
        std::string node;
        std::string call_site;
    };

    bool in_forward;       // in the result of an operator; else in a gradient that a node returned
    std::string operation; // "SqrtBackward"; in a forward pass "sqrt"
    std::string inside; // the operator applied by name that called it; empty where it is the same
    std::string call_site; // where the operator was called in the forward pass; empty: nobody knows
    std::vector<TensorSummary> operands; // of the operator
    std::optional<TensorSummary> taken;  // the gradient that the node took; of a backward pass
    bool is_nan;                         // the first bad element; else it is infinite
    std::size_t output;                  // which gradient, by operand; which result of an operator
    TensorSummary found;                 // that gradient or result
    Shape first_bad_index;               // row-major
    std::vector<Call> creators;          // the node whose backward pass recorded it, and so on
};

// Several lines for people, each with its end: what was found where, the operands, the creators.
[[nodiscard]] std::string to_string(const Anomaly& anomaly);

// "Function SqrtBackward returned NaN in its gradient", "Operator sqrt returned NaN in its result".
class AnomalyError : public Error {
public:
    AnomalyError(Anomaly anomaly, const char* file, int line, const char* condition);

    [[nodiscard]] const Anomaly& anomaly() const noexcept { return *anomaly_; }

private:
    std::shared_ptr<const Anomaly> anomaly_; // copying an exception must not throw
};

// Asked, on the thread that records or computes, for the place in the program that called the
// operator, while detection is on; null for none. May throw, which fails the operator.
using CallSite = std::function<std::string()>;
void set_call_site(CallSite call_site);

} // namespace kael
