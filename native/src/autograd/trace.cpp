#include "autograd/trace.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <sstream>

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

} // namespace

// The environment variable is read once, at the first question.
std::atomic<std::ostream*>& trace_output() {
    static std::atomic<std::ostream*> output =
        std::getenv("KAEL_TRACE_BACKWARD") != nullptr ? &std::cerr : nullptr;
    return output;
}

void trace_node(const Node& node, const Tensor& gradient) {
    if (std::ostream* const output = trace_output().load()) {
        std::ostringstream line; // one write, so that lines of several threads stay whole
        line << "backward " << node.name() << " shape=" << to_string(gradient.shape())
             << " norm=" << l2_norm(gradient) << '\n';
        *output << line.str() << std::flush;
    }
}

} // namespace kael::autograd
