#include <cstdint>

#include "session.h"

namespace kael::fuzz {

void Session::settings() {
    const std::int64_t threads = input_.rarely(4) ? integer() : 1 + input_.byte() % 3;
    if (succeeded(kael_set_num_threads(static_cast<std::int32_t>(threads)))) {
        require(kael_get_num_threads() == static_cast<std::int32_t>(threads));
    }
    std::uint64_t seed = 0;
    std::uint64_t position = 0;
    if (succeeded(kael_random_state(out(seed), out(position)))) {
        seed = input_.rarely(2) ? input_.number<std::uint64_t>() : seed;
        position = input_.rarely(2) ? input_.number<std::uint64_t>() : position;
        kael_set_random_state(seed, position);
    }
    require(kael_caching_allocator_enabled() <= 1);
}

// Wrong arguments alone: a measurement takes too long.
void Session::measure() {
    double speed = -1;
    must_fail_ = true;
    const auto wrong = static_cast<std::int32_t>(input_.one_of<std::int64_t>({0, -1, INT32_MIN}));
    const bool threads = input_.rarely(2);
    succeeded(input_.rarely(2)
                  ? kael_measure_read_bandwidth(threads ? wrong : 1, threads ? 1 : wrong, &speed)
                  : kael_measure_multiply_add(KAEL_WEIGHTS_FLOAT32, threads ? wrong : 1,
                                              threads ? 1 : wrong, &speed));
    require(speed == -1);
}

} // namespace kael::fuzz
