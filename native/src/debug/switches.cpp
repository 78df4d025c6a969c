#include "kael/debug.h"

#include "autograd/watch.h"

namespace kael {

void set_backward_trace(std::ostream* output) {
    autograd::trace_output().store(output);
}

void set_anomaly_detection(bool enabled) {
    autograd::anomaly_detection().store(enabled);
}

} // namespace kael
