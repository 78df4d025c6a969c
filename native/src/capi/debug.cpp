// The debugging tools.
#include "kael/debug.h"

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
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

void set_anomaly_detection(kael_anomaly_flags flags) {
    constexpr kael_anomaly_flags kKinds = KAEL_FIND_NAN | KAEL_FIND_INFINITY;
    KAEL_CHECK((flags & ~(kKinds | KAEL_CHECK_FORWARD)) == 0 &&
                   (flags == 0 || (flags & kKinds) != 0),
               "the flags are " << flags << ", expected 0, or " << KAEL_FIND_NAN << ", "
                                << KAEL_FIND_INFINITY << " or both, and " << KAEL_CHECK_FORWARD
                                << " beside them");
    const kael::AnomalyMode mode = (flags & kKinds) == kKinds          ? kael::AnomalyMode::both
                                   : (flags & KAEL_FIND_INFINITY) != 0 ? kael::AnomalyMode::infinity
                                                                       : kael::AnomalyMode::nan;
    kael::set_anomaly_detection(flags != 0,
                                {.mode = mode, .check_forward = (flags & KAEL_CHECK_FORWARD) != 0});
}

std::string call_site(kael_call_site_callback callback, void* user_data) {
    std::array<char, 4096> text{};
    int64_t length = 0;
    const int32_t answer =
        callback(text.data(), static_cast<int64_t>(text.size()), &length, user_data);
    KAEL_CHECK_AS(kael::ErrorCode::callback_failed, answer == 0,
                  "the callback that names call sites answered " << answer << ", expected 0");
    KAEL_CHECK(length >= 0 && length <= static_cast<int64_t>(text.size()),
               "the callback that names call sites wrote " << length << " bytes, expected at most "
                                                           << text.size());
    return {text.data(), static_cast<std::size_t>(length)};
}

} // namespace

struct kael_memory_recording {
    kael::MemoryRecording recording;
};

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

kael_status kael_autograd_graph_saved(const kael_tensor* tensor, const char** text,
                                      int64_t* length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        kael::capi::answer_text(kael::autograd_graph_dot(tensor->tensor, {.saved = true}), text,
                                length);
    });
}

kael_status kael_explain_json(const kael_tensor* tensor, const char** text, int64_t* length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        kael::capi::answer_text(kael::explain_json(tensor->tensor), text, length);
    });
}

kael_status kael_autograd_graph_json(const kael_tensor* tensor, const char** text,
                                     int64_t* length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        kael::capi::answer_text(kael::autograd_graph_json(tensor->tensor), text, length);
    });
}

kael_status kael_set_backward_trace(kael_trace_callback callback, void* user_data) {
    return kael::capi::guard([&] {
        kael::set_backward_trace(callback != nullptr ? &stream_to(callback, user_data) : nullptr);
    });
}

kael_status kael_set_backward_records(kael_trace_callback callback, void* user_data) {
    return kael::capi::guard([&] {
        if (callback == nullptr) {
            kael::set_backward_records(nullptr);
            return;
        }
        kael::set_backward_records([callback, user_data](const kael::TraceRecord& record) {
            const std::string json = kael::trace_record_json(record);
            callback(json.data(), static_cast<int64_t>(json.size()), user_data);
        });
    });
}

kael_status kael_memory_recording_start(int64_t most_events, kael_memory_recording** recording) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(recording);
        *recording = new kael_memory_recording{kael::MemoryRecording(most_events)};
    });
}

kael_status kael_memory_recording_stop(kael_memory_recording* recording) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(recording);
        recording->recording.stop();
    });
}

kael_status kael_memory_recording_json(const kael_memory_recording* recording, const char** text,
                                       int64_t* length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(recording);
        kael::capi::answer_text(kael::memory_timeline_json(recording->recording.timeline()), text,
                                length);
    });
}

void kael_memory_recording_free(kael_memory_recording* recording) {
    delete recording;
}

kael_status kael_set_anomaly_detection(kael_anomaly_flags flags) {
    return kael::capi::guard([&] { set_anomaly_detection(flags); });
}

kael_status kael_set_call_site(kael_call_site_callback callback, void* user_data) {
    return kael::capi::guard([&] {
        if (callback == nullptr) {
            kael::set_call_site(nullptr);
            return;
        }
        kael::set_call_site([callback, user_data] { return call_site(callback, user_data); });
    });
}
}
