#include "autograd/trace.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>

#include "autograd/detection.h"

namespace kael::autograd {

namespace {

// In float64, so that the squares of large float32 numbers do not overflow.
double l2_norm(const Tensor& tensor) {
    const NoGrad guard; // the gradient may have a graph of its own
    const Tensor values = tensor.to(DType::float64).contiguous();
    const double* const data = values.data<double>();
    double sum = 0.0;
    for (std::int64_t i = 0; i < values.numel(); ++i) {
        sum += data[i] * data[i];
    }
    return std::sqrt(sum);
}

struct SharedRecorder {
    std::atomic<bool> is_set = false; // tested without the lock
    std::mutex mutex;
    std::shared_ptr<const TraceRecorder> recorder;
};

SharedRecorder& shared_recorder() {
    static auto* const shared = new SharedRecorder;
    return *shared;
}

// Null for none.
std::shared_ptr<const TraceRecorder> recorder() {
    SharedRecorder& shared = shared_recorder();
    if (!shared.is_set.load(std::memory_order_relaxed)) {
        return nullptr;
    }
    const std::lock_guard lock(shared.mutex);
    return shared.recorder;
}

} // namespace

// The environment variable is read once, at the first question.
std::atomic<std::ostream*>& trace_output() {
    static std::atomic<std::ostream*> output =
        std::getenv("KAEL_TRACE_BACKWARD") != nullptr ? &std::cerr : nullptr;
    return output;
}

TracedRun::TracedRun(const Node& node, const Tensor& taken)
    : node_(node), taken_(taken), recorder_(recorder()) {
    if (std::ostream* const output = trace_output().load()) {
        std::ostringstream line;
        line << "backward " << node.name() << " shape=" << to_string(taken.shape())
             << " norm=" << l2_norm(taken) << '\n';
        // Lines of several threads stay whole; and unlike <<, which resets the width of the stream,
        // this writes nothing that they share.
        const std::string text = line.str();
        output->write(text.data(), std::ssize(text));
        output->flush();
    }
    if (recorder_ != nullptr) {
        begin_ = std::chrono::steady_clock::now();
    }
}

void TracedRun::end(const GradientList& returned) const {
    if (recorder_ == nullptr) {
        return;
    }
    const std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - begin_;
    TraceRecord record{.node = node_,
                       .taken = summary_of(taken_),
                       .norm = l2_norm(taken_),
                       .returned = returned,
                       .nans = 0,
                       .infinities = 0,
                       .bytes = 0,
                       .milliseconds = time.count()};
    for (const Tensor& gradient : returned) {
        if (gradient.defined()) {
            const ValueRange range = *summary_of(gradient).range;
            record.nans += range.nans;
            record.infinities += range.infinities;
            record.bytes += gradient.nbytes();
        }
    }
    (*recorder_)(record);
}

} // namespace kael::autograd

namespace kael {

void set_backward_records(TraceRecorder recorder) {
    auto next =
        recorder != nullptr ? std::make_shared<const TraceRecorder>(std::move(recorder)) : nullptr;
    autograd::SharedRecorder& shared = autograd::shared_recorder();
    const std::lock_guard lock(shared.mutex);
    shared.is_set.store(next != nullptr);
    shared.recorder.swap(next); // the old one is freed behind the lock
}

} // namespace kael
