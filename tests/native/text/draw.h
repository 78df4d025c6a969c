// Random numbers for tests, the same on every platform.
#pragma once

#include <cstdint>
#include <random>

namespace kael::text {

// 0 to bound - 1, near enough to uniform for a test.
inline std::uint32_t draw(std::mt19937& random, std::uint32_t bound) {
    return static_cast<std::uint32_t>(random()) % bound;
}

} // namespace kael::text
