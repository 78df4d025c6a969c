#include "autograd/watch.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>

#include "kael/error.h"

namespace kael::autograd {

namespace {

// In float64, so that the squares of large float32 numbers do not overflow.
double l2_norm(const Tensor& tensor) {
    const Tensor values = tensor.to(DType::float64).contiguous();
    const double* const data = values.data<double>();
    double sum = 0.0;
    for (std::int64_t i = 0; i < values.numel(); ++i) {
        sum += data[i] * data[i];
    }
    return std::sqrt(sum);
}

// The row-major place of the first NaN.
std::optional<std::int64_t> first_nan(const Tensor& tensor) {
    const Tensor values = tensor.to(DType::float64).contiguous();
    const double* const data = values.data<double>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
        if (std::isnan(data[i])) {
            return i;
        }
    }
    return std::nullopt;
}

} // namespace

// The environment variable is read once, at the first question.
std::atomic<std::ostream*>& trace_output() {
    static std::atomic<std::ostream*> output =
        std::getenv("KAEL_TRACE_BACKWARD") != nullptr ? &std::cerr : nullptr;
    return output;
}

std::atomic<bool>& anomaly_detection() {
    static std::atomic<bool> enabled = false;
    return enabled;
}

void watch_before(const Node& node, const Tensor& gradient) {
    if (std::ostream* const output = trace_output().load()) {
        std::ostringstream line; // one write, so that lines of several threads stay whole
        line << "backward " << node.name() << " shape=" << to_string(gradient.shape())
             << " norm=" << l2_norm(gradient) << '\n';
        *output << line.str() << std::flush;
    }
}

void watch_after(const Node& node, const GradientList& gradients) {
    if (!anomaly_detection().load()) {
        return;
    }
    for (const Tensor& gradient : gradients) {
        if (gradient.defined() && is_floating_point(gradient.dtype())) {
            KAEL_CHECK(!first_nan(gradient).has_value(),
                       "Function " << node.name() << " returned NaN in its gradient");
        }
    }
}

} // namespace kael::autograd
