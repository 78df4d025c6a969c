#include "autograd/detection.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <sstream>
#include <utility>

#include "base/current_operator.h"
#include "tensor/forward_views.h"

namespace kael {

using autograd::summary_of;

namespace {

enum Looks : unsigned { kNan = 1, kInfinity = 2, kForward = 4 };

std::atomic<unsigned>& looks() noexcept {
    static std::atomic<unsigned> flags = 0;
    return flags;
}

thread_local const autograd::Node* running = nullptr;

struct SharedCallSite {
    std::mutex mutex;
    std::shared_ptr<const CallSite> function;
};

SharedCallSite& shared_call_site() {
    static auto* const shared = new SharedCallSite;
    return *shared;
}

std::string ask_call_site() {
    SharedCallSite& shared = shared_call_site();
    std::shared_ptr<const CallSite> function;
    {
        const std::lock_guard lock(shared.mutex);
        function = shared.function;
    }
    return function != nullptr ? (*function)() : std::string();
}

Tensor as_doubles(const Tensor& tensor) {
    const Tensor values = forward::to(tensor, DType::float64);
    return values.is_contiguous() ? values : forward::clone(values);
}

bool is_anomaly(double value, unsigned flags) {
    return ((flags & kNan) != 0 && std::isnan(value)) ||
           ((flags & kInfinity) != 0 && std::isinf(value));
}

struct FirstAnomaly {
    Shape index;
    bool is_nan;
};

// In row-major order.
std::optional<FirstAnomaly> first_anomaly(const Tensor& tensor, unsigned flags) {
    if (!tensor.defined() || !is_floating_point(tensor.dtype())) {
        return std::nullopt;
    }
    const Tensor values = as_doubles(tensor);
    const double* const data = values.data<double>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
        if (is_anomaly(data[i], flags)) {
            Shape index(tensor.shape().size());
            std::int64_t rest = i;
            for (std::size_t d = index.size(); d-- > 0;) {
                index[d] = rest % tensor.shape()[d];
                rest /= tensor.shape()[d];
            }
            return FirstAnomaly{index, std::isnan(data[i])};
        }
    }
    return std::nullopt;
}

std::vector<Anomaly::Call> creators_of(const autograd::Node& node) {
    std::vector<Anomaly::Call> creators;
    for (const NodeOrigin* origin = node.origin().get(); origin != nullptr;
         origin = origin->creator.get()) {
        creators.push_back({origin->node, origin->call_site});
    }
    if (!creators.empty()) {
        creators.erase(creators.begin());
    }
    return creators;
}

// What is known of the operands of a node that was recorded while detection was off.
std::vector<TensorSummary> operands_of(const autograd::Node& node) {
    if (node.origin() != nullptr) {
        return node.origin()->operands;
    }
    std::vector<TensorSummary> operands;
    operands.reserve(node.inputs().size());
    for (const autograd::NodeInput& input : node.inputs()) {
        operands.push_back({input.shape, input.dtype, std::nullopt});
    }
    return operands;
}

void append(std::ostream& text, const TensorSummary& tensor) {
    text << name(tensor.dtype) << ' ' << to_string(tensor.shape);
    if (!tensor.range.has_value()) {
        return;
    }
    const ValueRange& range = *tensor.range;
    if (!std::isnan(range.least)) {
        text << ", " << range.least << " to " << range.most;
    }
    if (range.nans > 0) {
        text << ", " << range.nans << " NaN";
    }
    if (range.infinities > 0) {
        text << ", " << range.infinities << " infinite";
    }
}

std::string message_of(const Anomaly& anomaly) {
    return (anomaly.in_forward ? "Operator " : "Function ") + anomaly.operation + " returned " +
           (anomaly.is_nan ? "NaN" : "infinity") + " in its " +
           (anomaly.in_forward ? "result" : "gradient");
}

} // namespace

NodeOrigin::~NodeOrigin() {
    std::shared_ptr<const NodeOrigin> next = std::move(creator);
    while (next != nullptr && next.use_count() == 1) {
        // Nobody else sees it: what it holds may be taken from it.
        next = std::move(const_cast<NodeOrigin&>(*next).creator);
    }
}

std::string to_string(const Anomaly& anomaly) {
    std::ostringstream text;
    text << anomaly.operation << " returned "
         << (anomaly.in_forward ? "result " : "the gradient of operand ") << anomaly.output << ": ";
    append(text, anomaly.found);
    text << ", the first at " << to_string(anomaly.first_bad_index) << '\n';
    if (!anomaly.inside.empty()) {
        text << "inside " << anomaly.inside << '\n';
    }
    text << "the operator was called at "
         << (anomaly.call_site.empty() ? "an unknown place" : anomaly.call_site) << '\n';
    for (std::size_t i = 0; i < anomaly.operands.size(); ++i) {
        text << "operand " << i << ": ";
        append(text, anomaly.operands[i]);
        text << '\n';
    }
    if (anomaly.taken.has_value()) {
        text << "gradient taken: ";
        append(text, *anomaly.taken);
        text << '\n';
    }
    for (const Anomaly::Call& creator : anomaly.creators) {
        text << "recorded by the backward pass of " << creator.node << ", called at "
             << (creator.call_site.empty() ? "an unknown place" : creator.call_site) << '\n';
    }
    return text.str();
}

AnomalyError::AnomalyError(Anomaly anomaly, const char* file, int line, const char* condition)
    : Error(ErrorCode::anomaly, file, line, condition, message_of(anomaly)),
      anomaly_(std::make_shared<const Anomaly>(std::move(anomaly))) {}

void set_anomaly_detection(bool enabled, const AnomalyOptions& options) {
    unsigned flags = 0;
    if (enabled) {
        flags |= options.mode != AnomalyMode::infinity ? kNan : 0U;
        flags |= options.mode != AnomalyMode::nan ? kInfinity : 0U;
        flags |= options.check_forward ? kForward : 0U;
    }
    looks().store(flags);
}

void set_call_site(CallSite call_site) {
    auto function =
        call_site != nullptr ? std::make_shared<const CallSite>(std::move(call_site)) : nullptr;
    SharedCallSite& shared = shared_call_site();
    const std::lock_guard lock(shared.mutex);
    shared.function.swap(function); // the old one is freed behind the lock
}

namespace autograd {

bool detects_anomalies() noexcept {
    return looks().load(std::memory_order_relaxed) != 0;
}

bool checks_forward() noexcept {
    return (looks().load(std::memory_order_relaxed) & kForward) != 0 && running == nullptr;
}

TensorSummary summary_of(const Tensor& tensor) {
    constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
    ValueRange range{kNothing, kNothing, 0, 0};
    const Tensor values = as_doubles(tensor);
    const double* const data = values.data<double>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
        if (std::isnan(data[i])) {
            ++range.nans;
            continue;
        }
        range.infinities += std::isinf(data[i]) ? 1 : 0;
        range.least = std::fmin(range.least, data[i]);
        range.most = std::fmax(range.most, data[i]);
    }
    return {tensor.shape(), tensor.dtype(), range};
}

std::vector<TensorSummary> summaries_of(const std::vector<Tensor>& tensors) {
    std::vector<TensorSummary> summaries;
    summaries.reserve(tensors.size());
    for (const Tensor& tensor : tensors) {
        summaries.push_back(summary_of(tensor));
    }
    return summaries;
}

std::optional<Observation> observe(const std::vector<Tensor>& operands) {
    if (!detects_anomalies()) {
        return std::nullopt;
    }
    return Observation{summaries_of(operands), ask_call_site()};
}

std::shared_ptr<const NodeOrigin> origin_of(const std::string& node, Observation observation) {
    auto origin = std::make_shared<NodeOrigin>();
    origin->node = node;
    origin->call_site = std::move(observation.call_site);
    origin->operands = std::move(observation.operands);
    if (running != nullptr) {
        origin->creator = running->origin();
        if (origin->creator == nullptr) { // recorded while detection was off: its name is known
            auto creator = std::make_shared<NodeOrigin>();
            creator->node = running->name();
            origin->creator = std::move(creator);
        }
    }
    return origin;
}

void check_results(const std::string& operation, const std::vector<TensorSummary>& operands,
                   const std::vector<Tensor>& results) {
    const unsigned flags = looks().load();
    for (std::size_t i = 0; i < results.size(); ++i) {
        const std::optional<FirstAnomaly> first = first_anomaly(results[i], flags);
        if (first.has_value()) {
            const std::string_view outer = current_operator();
            throw AnomalyError({.in_forward = true,
                                .operation = operation,
                                .inside = outer == operation ? std::string() : std::string(outer),
                                .call_site = ask_call_site(),
                                .operands = operands,
                                .taken = std::nullopt,
                                .is_nan = first->is_nan,
                                .output = i,
                                .found = summary_of(results[i]),
                                .first_bad_index = first->index,
                                .creators = {}},
                               __FILE__, __LINE__, "!first.has_value()");
        }
    }
}

void check_gradients(const Node& node, const Tensor& taken, const GradientList& gradients) {
    const unsigned flags = looks().load();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        const std::optional<FirstAnomaly> first = first_anomaly(gradients[i], flags);
        if (first.has_value()) {
            throw AnomalyError(
                {.in_forward = false,
                 .operation = node.name(),
                 .inside = {},
                 .call_site = node.origin() != nullptr ? node.origin()->call_site : std::string(),
                 .operands = operands_of(node),
                 .taken = summary_of(taken),
                 .is_nan = first->is_nan,
                 .output = i,
                 .found = summary_of(gradients[i]),
                 .first_bad_index = first->index,
                 .creators = creators_of(node)},
                __FILE__, __LINE__, "!first.has_value()");
        }
    }
}

RunningNode::RunningNode(const Node& node) noexcept : before_(running) {
    if (detects_anomalies()) {
        running = &node;
    }
}

RunningNode::~RunningNode() {
    running = before_;
}

} // namespace autograd
} // namespace kael
