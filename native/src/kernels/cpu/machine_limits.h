// What the machine can do, to hold the speed of the kernels against. Both start threads of their
// own, so that the pool's setting does not matter, and give the best of `repeats` passes (1 to
// 1,000) of `threads` threads (1 to 256) at the same time: from the start of the first to the end
// of the last.
#pragma once

#include <cstdint>

namespace kael::kernels {

// Bytes a second read from memory, streaming over 256 MiB.
[[nodiscard]] double measure_read_bandwidth(int threads, int repeats);

// Operations a second of one of the multiply_add_loops of kernels.h.
[[nodiscard]] double measure_multiply_add(std::int64_t (*loop)(std::int64_t), int threads,
                                          int repeats);

} // namespace kael::kernels
