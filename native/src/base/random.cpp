#include "kael/random.h"

#include <cmath>
#include <mutex>
#include <numbers>
#include <pthread.h>

#include "base/philox.h"

namespace kael {

namespace {

// 2^-53: the spacing of doubles in [0.5, 1).
constexpr double kUniformStep = 0x1p-53;

struct ProcessStream {
    std::mutex mutex;
    RandomStream stream{0};
};

// Never destroyed: threads may draw while the process exits.
ProcessStream& process_stream() {
    static ProcessStream* const stream = new ProcessStream;
    return *stream;
}

// A child of fork() must not inherit a mutex that another thread held.
void lock_stream() {
    process_stream().mutex.lock();
}
void unlock_stream() {
    process_stream().mutex.unlock();
}
[[maybe_unused]] const int kForkHandlers =
    pthread_atfork(lock_stream, unlock_stream, unlock_stream);

} // namespace

std::uint64_t RandomStream::next_bits() {
    const std::uint64_t position = position_++;
    if (position % 2 != 0) {
        return second_word_;
    }
    const PhiloxBlock block = philox(seed_, position / 2);
    second_word_ = std::uint64_t{block[2]} | (std::uint64_t{block[3]} << 32);
    return std::uint64_t{block[0]} | (std::uint64_t{block[1]} << 32);
}

void RandomStream::seek(std::uint64_t position) {
    has_second_normal_ = false;
    position_ = position - position % 2;
    if (position % 2 != 0) {
        next_bits();
    }
}

double RandomStream::next_uniform() {
    return static_cast<double>(next_bits() >> 11) * kUniformStep;
}

double RandomStream::next_normal() {
    if (has_second_normal_) {
        has_second_normal_ = false;
        return second_normal_;
    }
    // 1 - u is in (0, 1], where the logarithm is finite.
    const double radius = std::sqrt(-2.0 * std::log(1.0 - next_uniform()));
    const double angle = 2.0 * std::numbers::pi * next_uniform();
    second_normal_ = radius * std::sin(angle);
    has_second_normal_ = true;
    return radius * std::cos(angle);
}

void manual_seed(std::uint64_t seed) {
    ProcessStream& process = process_stream();
    const std::lock_guard lock(process.mutex);
    process.stream = RandomStream(seed);
}

RandomState random_state() {
    ProcessStream& process = process_stream();
    const std::lock_guard lock(process.mutex);
    return {process.stream.seed(), process.stream.position()};
}

void set_random_state(RandomState state) {
    RandomStream stream(state.seed);
    stream.seek(state.position);
    ProcessStream& process = process_stream();
    const std::lock_guard lock(process.mutex);
    process.stream = stream;
}

std::uint64_t draw_seed() {
    ProcessStream& process = process_stream();
    const std::lock_guard lock(process.mutex);
    return process.stream.next_bits();
}

} // namespace kael
