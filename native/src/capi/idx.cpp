// IDX files, from memory.
#include "kael/idx.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "capi/guard.h"
#include "capi/handles.h"

namespace {

std::span<const std::byte> bytes_of(const void* bytes, int64_t count) {
    KAEL_CHECK(count >= 0, "the argument byte_count is " << count << ", expected 0 or more");
    KAEL_CHECK(bytes != nullptr || count == 0, "the argument bytes is null");
    return {static_cast<const std::byte*>(bytes), static_cast<std::size_t>(count)};
}

} // namespace

extern "C" {

kael_status kael_idx_images(const void* bytes, int64_t byte_count, const char* origin,
                            int64_t origin_length, kael_tensor** images) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(images);
        *images = new kael_tensor{kael::data::parse_idx_images(
            bytes_of(bytes, byte_count),
            std::string(kael::capi::text(origin, origin_length, "origin")))};
    });
}

kael_status kael_idx_labels(const void* bytes, int64_t byte_count, const char* origin,
                            int64_t origin_length, kael_tensor** labels) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(labels);
        *labels = new kael_tensor{kael::data::parse_idx_labels(
            bytes_of(bytes, byte_count),
            std::string(kael::capi::text(origin, origin_length, "origin")))};
    });
}
}
