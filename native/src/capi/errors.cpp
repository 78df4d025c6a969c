// kael_last_error and the translation of exceptions.
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "kael/debug.h"

#include "capi/guard.h"

namespace kael::capi {

namespace {

struct LastError {
    std::string text;
    std::string message;
    std::string anomaly; // empty unless that is what it was
};

LastError& last_error() {
    thread_local LastError error;
    return error;
}

// Views, for a string made of an argument would need memory out here.
kael_status keep(kael_status status, std::string_view text, std::string_view message,
                 std::string anomaly = {}) noexcept {
    LastError& error = last_error();
    try {
        error.text = text;
        error.message = message;
        error.anomaly = std::move(anomaly);
    } catch (...) {
        constexpr std::string_view kWithoutText = "no memory"; // short enough to need none itself
        error.text = kWithoutText;
        error.message = kWithoutText;
        error.anomaly.clear();
    }
    return status;
}

// Empty where there is no memory for it: what the error says must do then.
std::string json_of(const AnomalyError& failure) noexcept {
    try {
        return anomaly_json(failure.anomaly());
    } catch (...) {
        return {};
    }
}

} // namespace

kael_status remember(std::exception_ptr error) noexcept {
    try {
        std::rethrow_exception(std::move(error));
    } catch (const AnomalyError& failure) {
        return keep(KAEL_ANOMALY, failure.what(), failure.message(), json_of(failure));
    } catch (const Error& failure) {
        return keep(static_cast<kael_status>(failure.code()), failure.what(), failure.message());
    } catch (const std::bad_alloc&) {
        return keep(KAEL_OUT_OF_MEMORY, "out of memory", "out of memory");
    } catch (const std::exception& failure) {
        return keep(KAEL_INTERNAL, failure.what(), failure.what());
    } catch (...) {
        return keep(KAEL_INTERNAL, "an exception of unknown type", "an exception of unknown type");
    }
}

void answer_text(std::string text, const char** data, std::int64_t* length) {
    KAEL_CHECK(data != nullptr, "the pointer to the text is null");
    KAEL_CHECK(length != nullptr, "the pointer to the length of the text is null");
    thread_local std::string kept;
    kept = std::move(text);
    *data = kept.c_str();
    *length = static_cast<std::int64_t>(kept.size());
}

std::string_view text(const char* data, std::int64_t length, const char* argument) {
    KAEL_CHECK(length >= 0,
               "the length of " << argument << " is " << length << ", expected 0 or more");
    KAEL_CHECK(data != nullptr || length == 0, "the argument " << argument << " is null");
    return {data, static_cast<std::size_t>(length)};
}

std::filesystem::path path(const char* data, std::int64_t length, const char* argument) {
    const std::string_view bytes = text(data, length, argument);
    KAEL_CHECK(!bytes.empty(), "the argument " << argument << " is empty, expected a path");
    KAEL_CHECK(bytes.find('\0') == std::string_view::npos,
               "the argument " << argument << " holds a NUL byte, which no path can");
    return {std::string(bytes)};
}

} // namespace kael::capi

extern "C" {

const char* kael_last_error(int64_t* length) {
    const std::string& text = kael::capi::last_error().text;
    if (length != nullptr) {
        *length = static_cast<int64_t>(text.size());
    }
    return text.c_str();
}

const char* kael_last_error_message(int64_t* length) {
    const std::string& message = kael::capi::last_error().message;
    if (length != nullptr) {
        *length = static_cast<int64_t>(message.size());
    }
    return message.c_str();
}

const char* kael_last_anomaly(int64_t* length) {
    const std::string& anomaly = kael::capi::last_error().anomaly;
    if (length != nullptr) {
        *length = static_cast<int64_t>(anomaly.size());
    }
    return anomaly.c_str();
}
}
