#include "kernels/cpu/machine_limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "kael/error.h"
#include "kael/threads.h"

#include "kernels/cpu/kernels.h"

namespace kael::kernels {

namespace {

using Clock = std::chrono::steady_clock;

void check_counts(int threads, int repeats) {
    KAEL_CHECK(threads >= 1 && threads <= 256, "threads is " << threads << ", expected 1 to 256");
    KAEL_CHECK(repeats >= 1 && repeats <= 1000, "repeats is " << repeats << ", expected 1 to 1000");
}

// Everyone returns when everyone has arrived. Spins, for the passes last milliseconds; gives the
// processor away now and then, for there may be more threads than processors.
class StartingLine {
public:
    explicit StartingLine(int threads) : threads_(threads) {}

    void arrive(int pass) {
        arrived_.fetch_add(1);
        for (int spin = 1; arrived_.load() < threads_ * (pass + 1); ++spin) {
            if (spin % 256 == 0) {
                std::this_thread::yield();
            }
        }
    }

private:
    const std::int64_t threads_;
    std::atomic<std::int64_t> arrived_{0};
};

struct Pass {
    Clock::time_point begin;
    Clock::time_point end;
};

// Runs work(0) to work(threads - 1) on threads that begin together, or not at all when the system
// refuses one of them.
class Crew {
public:
    void run(int threads, FunctionRef<void(int)> work) {
        try {
            members_.reserve(static_cast<std::size_t>(threads));
            for (int thread = 0; thread < threads; ++thread) {
                members_.emplace_back([this, work, thread] {
                    state_.wait(kWaiting);
                    if (state_.load() == kGo) {
                        work(thread);
                    }
                });
            }
        } catch (const std::system_error& failure) {
            finish(kGiveUp);
            throw Error(ErrorCode::out_of_memory, __FILE__, __LINE__, "a new thread",
                        "no thread could be started: " + failure.code().message());
        } catch (...) {
            finish(kGiveUp);
            throw;
        }
        finish(kGo);
    }

private:
    enum State : int { kWaiting, kGo, kGiveUp };

    void finish(State state) {
        state_.store(state);
        state_.notify_all();
        for (std::thread& member : members_) {
            member.join();
        }
    }

    std::vector<std::thread> members_;
    std::atomic<int> state_{kWaiting};
};

// The shortest pass, in seconds, of work(thread) on all threads; the first of repeats + 1 passes
// warms up.
double shortest_pass(int threads, int repeats, FunctionRef<void(int)> work) {
    const int passes = repeats + 1;
    std::vector<Pass> times(static_cast<std::size_t>(threads) * static_cast<std::size_t>(passes));
    StartingLine line(threads);
    Crew crew;
    crew.run(threads, [&](int thread) {
        for (int pass = 0; pass < passes; ++pass) {
            line.arrive(pass);
            Pass& time = times[static_cast<std::size_t>(pass) * static_cast<std::size_t>(threads) +
                               static_cast<std::size_t>(thread)];
            time.begin = Clock::now();
            work(thread);
            time.end = Clock::now();
        }
    });
    Clock::duration shortest = Clock::duration::max();
    for (std::size_t first = static_cast<std::size_t>(threads); first < times.size();
         first += static_cast<std::size_t>(threads)) {
        Clock::time_point begin = times[first].begin;
        Clock::time_point end = times[first].end;
        for (std::size_t i = first; i < first + static_cast<std::size_t>(threads); ++i) {
            begin = std::min(begin, times[i].begin);
            end = std::max(end, times[i].end);
        }
        shortest = std::min(shortest, end - begin);
    }
    return std::max(std::chrono::duration<double>(shortest).count(), 1e-9);
}

constexpr std::int64_t kStreamedFloats = std::int64_t{256} * 1024 * 1024 / 4;
constexpr std::size_t kHugePage = std::size_t{2} * 1024 * 1024;

struct FreeStream {
    void operator()(float* data) const { ::operator delete[](data, std::align_val_t{kHugePage}); }
};

// Not from kael's allocator: nobody could use a cached block of this size. Every page is written,
// for untouched ones are all the same page of zeros.
std::unique_ptr<float[], FreeStream> stream_of_floats() {
    const std::size_t bytes = static_cast<std::size_t>(kStreamedFloats) * sizeof(float);
    std::unique_ptr<float[], FreeStream> data(
        static_cast<float*>(::operator new[](bytes, std::align_val_t{kHugePage})));
#if defined(__linux__)
    madvise(data.get(), bytes, MADV_HUGEPAGE); // advice: without it the figure is 3 to 5 % lower
#endif
    std::fill_n(data.get(), kStreamedFloats, 1.0f);
    return data;
}

} // namespace

double measure_read_bandwidth(int threads, int repeats) {
    check_counts(threads, repeats);
    constexpr std::int64_t kStep = 1024; // of read_stream
    const CpuKernels& kernels = cpu_kernels();
    const auto data = stream_of_floats();
    const std::int64_t each = kStreamedFloats / threads / kStep * kStep;
    std::atomic<float> seen{0.0f};
    double shortest = std::numeric_limits<double>::infinity();
    for (const bool fetch_ahead : {false, true}) {
        shortest = std::min(
            shortest, shortest_pass(threads, repeats, [&](int thread) {
                seen.store(kernels.read_stream(data.get() + thread * each, each, fetch_ahead),
                           std::memory_order_relaxed);
            }));
    }
    return static_cast<double>(each * threads) * sizeof(float) / shortest;
}

double measure_multiply_add(std::int64_t (*loop)(std::int64_t), int threads, int repeats) {
    check_counts(threads, repeats);
    constexpr std::int64_t kRounds = 2'000'000; // 5 to 15 ms
    const std::int64_t operations = loop(1) * kRounds;
    const double seconds =
        shortest_pass(threads, repeats, [&](int) { static_cast<void>(loop(kRounds)); });
    return static_cast<double>(operations) * threads / seconds;
}

} // namespace kael::kernels
