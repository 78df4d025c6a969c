// Structs that begin with struct_size, so that a caller and a library of different age agree. A
// field is only ever added at the end: the shorter of the two sizes is what both know.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kael/error.h"

namespace kael::capi {

// The fields that both know, read over `defaults`. `smallest` is the size of the struct in the
// first version. A newer caller may leave what this library does not know at 0, and only at 0.
template <typename Struct>
[[nodiscard]] Struct read_struct(const Struct* given, Struct defaults, std::size_t smallest,
                                 const char* argument) {
    KAEL_CHECK(given != nullptr, "the argument " << argument << " is null");
    const std::int64_t size = given->struct_size;
    KAEL_CHECK(size >= static_cast<std::int64_t>(smallest),
               "the struct_size of " << argument << " is " << size << ", expected at least "
                                     << smallest);
    // A struct of more than a page was never filled in.
    KAEL_CHECK(size <= 4096,
               "the struct_size of " << argument << " is " << size << ", expected at most 4096");
    const std::byte* bytes = reinterpret_cast<const std::byte*>(given);
    const bool unknown =
        std::any_of(bytes + std::min<std::int64_t>(sizeof(Struct), size), bytes + size,
                    [](std::byte byte) { return byte != std::byte{0}; });
    KAEL_CHECK_AS(ErrorCode::unsupported, !unknown,
                  argument << " sets a field that this library is too old for");
    std::memcpy(&defaults, given, std::min(sizeof(Struct), static_cast<std::size_t>(size)));
    defaults.struct_size = sizeof(Struct);
    return defaults;
}

// Fills what the caller knows of `result`; the caller has set out->struct_size.
template <typename Struct>
void write_struct(Struct result, std::size_t smallest, Struct* out, const char* argument) {
    KAEL_CHECK(out != nullptr, "the argument " << argument << " is null");
    const std::int64_t size = out->struct_size;
    KAEL_CHECK(size >= static_cast<std::int64_t>(smallest),
               "the struct_size of " << argument << " is " << size << ", expected at least "
                                     << smallest);
    result.struct_size = size;
    std::memcpy(out, &result, std::min(sizeof(Struct), static_cast<std::size_t>(size)));
}

} // namespace kael::capi
