#include "kael/debug.h"

#include "autograd/trace.h"

namespace kael {

void set_backward_trace(std::ostream* output) {
    autograd::trace_output().store(output);
}

} // namespace kael
