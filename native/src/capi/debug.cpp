// The debugging tools.
#include "kael/debug.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <utility>

#include "capi/guard.h"
#include "capi/handles.h"

namespace {

// Hands each piece that is written, a whole line, to a callback.
class CallbackBuffer final : public std::streambuf {
public:
    CallbackBuffer(kael_trace_callback callback, void* user_data)
        : callback_(callback), user_data_(user_data) {}

protected:
    std::streamsize xsputn(const char* text, std::streamsize length) override {
        callback_(text, length, user_data_);
        return length;
    }
    int_type overflow(int_type character) override {
        const char text = traits_type::to_char_type(character);
        callback_(&text, 1, user_data_);
        return character;
    }

private:
    kael_trace_callback callback_;
    void* user_data_;
};

struct CallbackStream {
    CallbackStream(kael_trace_callback callback, void* user_data)
        : buffer(callback, user_data), stream(&buffer) {}

    CallbackBuffer buffer;
    std::ostream stream;
};

// One stream for each callback, kept for good: a walk of another thread may be writing to it.
std::ostream& stream_to(kael_trace_callback callback, void* user_data) {
    using Key = std::pair<kael_trace_callback, void*>;
    static std::mutex mutex;
    static auto* const streams = new std::map<Key, CallbackStream>;
    const std::lock_guard lock(mutex);
    return streams->try_emplace({callback, user_data}, callback, user_data).first->second.stream;
}

} // namespace

extern "C" {

kael_status kael_explain(const kael_tensor* tensor, const char** text, int64_t* length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        kael::capi::answer_text(kael::explain(tensor->tensor), text, length);
    });
}

kael_status kael_autograd_graph(const kael_tensor* tensor, const char** text, int64_t* length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        kael::capi::answer_text(kael::autograd_graph_dot(tensor->tensor), text, length);
    });
}

kael_status kael_set_backward_trace(kael_trace_callback callback, void* user_data) {
    return kael::capi::guard([&] {
        kael::set_backward_trace(callback != nullptr ? &stream_to(callback, user_data) : nullptr);
    });
}

void kael_set_anomaly_detection(uint8_t enabled) {
    kael::set_anomaly_detection(enabled != 0);
}
}
