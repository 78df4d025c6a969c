#include <cstdint>

#include "session.h"

namespace kael::fuzz {

void Session::texts() {
    constexpr decltype(&kael_explain) kTexts[] = {kael_explain, kael_autograd_graph,
                                                  kael_autograd_graph_saved, kael_explain_json,
                                                  kael_autograd_graph_json};
    const auto function = input_.one_of(kTexts);
    const char* text = nullptr;
    std::int64_t length = -1;
    if (succeeded(function(one(tensors_), out(text), out(length)))) {
        require(length > 0 && text[length] == '\0');
    } else {
        require(text == nullptr && length == -1);
    }
}

void Session::traces() {
    const kael_trace_callback callback = input_.rarely(4) ? nullptr : on_line;
    require(succeeded(input_.rarely(2) ? kael_set_backward_records(callback, &running_)
                                       : kael_set_backward_trace(callback, &running_)));
}

void Session::recordings() {
    kael_memory_recording* made = untouched<kael_memory_recording>();
    if (input_.rarely(2)) {
        const std::int64_t events = input_.rarely(8) ? integer() : input_.byte();
        take(kael_memory_recording_start(events, out(made)), made, recordings_);
    } else if (input_.rarely(2)) {
        succeeded(kael_memory_recording_stop(one(recordings_)));
    } else {
        const char* text = nullptr;
        std::int64_t length = -1;
        if (succeeded(kael_memory_recording_json(one(recordings_), out(text), out(length)))) {
            require(length > 0 && text[0] == '{');
        }
    }
}

void Session::anomalies() {
    if (input_.rarely(2)) {
        require(succeeded(kael_set_call_site(input_.rarely(4) ? nullptr : on_call_site, this)));
    } else {
        succeeded(kael_set_anomaly_detection(input_.rarely(8)
                                                 ? static_cast<std::int32_t>(integer())
                                                 : static_cast<std::int32_t>(input_.below(8))));
    }
}

} // namespace kael::fuzz
