#include "kael/threads.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <memory>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <sched.h>
#endif

#include "kael/error.h"

#include "base/checked_arithmetic.h"
#include "base/environment.h"

namespace kael {

namespace {

constexpr int kMaxThreads = 256;

// Measured on Zen 5, where a pause takes about 10 ns. A step between two barriers of a team rarely
// lasts longer than the first; a longer spin between regions would take a processor from others.
constexpr int kBarrierSpins = 10'000;
constexpr int kRegionSpins = 2'000;

// Two of them never share a cache line, nor the neighbour that the prefetcher fetches with it.
constexpr std::size_t kSeparation = 128;

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb"); // as long as x86's pause; "yield" does nothing on most cores
#endif
}

// Returns once `word` is not `old` any more: spins, then sleeps. Whoever changes the word does so
// sequentially consistently before it notifies, for the notification is left out where nobody is
// seen to sleep, and that look must not come before the change.
void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t old,
                     int spins) noexcept {
    for (int spin = 0; spin < spins; ++spin) {
        if (word.load(std::memory_order_acquire) != old) {
            return;
        }
        pause();
    }
    while (word.load(std::memory_order_acquire) == old) {
        word.wait(old, std::memory_order_acquire);
    }
}

int usable_processors() {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        return std::clamp(CPU_COUNT(&set), 1, kMaxThreads);
    }
#endif
    // 0 when it is not known.
    return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

// ---- The count -----------------------------------------------------------------------------

// 0 until it was set or asked for.
std::atomic<int> thread_count{0};

// Workers that the system lets us have; lowered when it refuses one, until the count is set anew.
std::atomic<int> worker_limit{kMaxThreads - 1};

// ---- One region: the same job on several threads at the same time -------------------------------

// What the members of a region share. Lives on the stack of the caller.
struct Region {
    FunctionRef<void(int)> job; // never throws
};

class Pool {
public:
    Pool() : processors_(usable_processors()) {}

    // The one who gets true owns the pool until leave(). Nobody waits for it: whoever is refused,
    // a body that starts another region included, runs its work alone.
    [[nodiscard]] bool try_enter() noexcept {
        return !busy_.test(std::memory_order_relaxed) &&
               !busy_.test_and_set(std::memory_order_acquire);
    }
    void leave() noexcept { busy_.clear(std::memory_order_release); }

    // The number of threads, the caller included, that a region may have; at most `wanted`.
    // Owner only.
    int prepare(int wanted);
    // Calls job(0) here and job(1) to job(size - 1) on workers. Owner only, after prepare(size).
    void run(int size, FunctionRef<void(int)> job) noexcept;

    // How long waiting threads may spin when `size` of them run: not at all when they outnumber
    // the processors, since the one waited for may need the processor of the one that waits.
    [[nodiscard]] int spins(int size, int most) const noexcept {
        return size <= processors_ ? most : 0;
    }

private:
    struct alignas(kSeparation) Worker {
        std::atomic<std::uint32_t> ticket{0}; // one more for each region that it takes part in
    };

    void work(Worker& worker, int index) noexcept;
    [[nodiscard]] bool start_worker();

    const int processors_;
    std::atomic_flag busy_;
    std::vector<std::unique_ptr<Worker>> workers_;
    const Region* region_ = nullptr;
    std::atomic<int> region_size_{1};
    alignas(kSeparation) std::atomic<int> running_{0};
    alignas(kSeparation) std::atomic<std::uint32_t> finished_{0}; // regions
};

// Signals belong to the threads of the program, except those that a thread causes itself.
class BlockedSignals {
public:
    BlockedSignals() noexcept {
        sigset_t blocked;
        sigfillset(&blocked);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF}) {
            sigdelset(&blocked, own);
        }
        pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

private:
    sigset_t previous_;
};

void name_this_thread() noexcept {
#if defined(__linux__)
    pthread_setname_np(pthread_self(), "kael-worker");
#endif
}

bool Pool::start_worker() {
    const int index = static_cast<int>(workers_.size()) + 1;
    try {
        workers_.push_back(std::make_unique<Worker>());
        Worker& worker = *workers_.back();
        const BlockedSignals block;
        std::thread([this, &worker, index] { work(worker, index); }).detach();
        return true;
    } catch (const std::exception&) { // no memory, or no more threads for this user
        workers_.resize(static_cast<std::size_t>(index) - 1);
        return false;
    }
}

int Pool::prepare(int wanted) {
    const int limit = worker_limit.load(std::memory_order_relaxed);
    while (static_cast<int>(workers_.size()) < std::min(wanted - 1, limit)) {
        if (!start_worker()) {
            worker_limit.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
            break;
        }
    }
    return std::min(wanted, static_cast<int>(workers_.size()) + 1);
}

void Pool::run(int size, FunctionRef<void(int)> job) noexcept {
    const Region region{job};
    const std::uint32_t before = finished_.load(std::memory_order_relaxed);
    region_ = &region;
    region_size_.store(size, std::memory_order_relaxed);
    running_.store(size - 1, std::memory_order_relaxed);
    for (int index = 1; index < size; ++index) {
        std::atomic<std::uint32_t>& ticket = workers_[static_cast<std::size_t>(index) - 1]->ticket;
        ticket.fetch_add(1, std::memory_order_seq_cst);
        ticket.notify_one();
    }
    job(0);
    if (size > 1) {
        wait_for_change(finished_, before, spins(size, kBarrierSpins));
    }
}

void Pool::work(Worker& worker, int index) noexcept {
    name_this_thread();
    for (std::uint32_t seen = 0;; ++seen) {
        const int size = region_size_.load(std::memory_order_relaxed);
        wait_for_change(worker.ticket, seen, spins(size, kRegionSpins));
        region_->job(index);
        if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            finished_.fetch_add(1, std::memory_order_seq_cst);
            finished_.notify_one();
        }
    }
}

// ---- The pool of the process ----------------------------------------------------------------

std::atomic<Pool*> process_pool{nullptr};

// The child of a fork() has none of its parent's workers: it gets a pool of its own, and leaks
// this one, whose state at the moment of the fork nobody can know.
void forget_pool() {
    process_pool.store(nullptr, std::memory_order_relaxed);
}
[[maybe_unused]] const int kForkHandler = pthread_atfork(nullptr, nullptr, forget_pool);

// Never destroyed: its workers, and daemon threads that use it, outlive every static object.
Pool& pool() {
    Pool* existing = process_pool.load(std::memory_order_acquire);
    if (existing != nullptr) {
        return *existing;
    }
    auto fresh = std::make_unique<Pool>();
    if (process_pool.compare_exchange_strong(existing, fresh.get(), std::memory_order_acq_rel)) {
        return *fresh.release();
    }
    return *existing;
}

// The right to run a region with more than one thread. size() is 1 where that may not be.
class Entry {
public:
    explicit Entry(int wanted) {
        if (wanted <= 1) {
            return;
        }
        Pool& candidate = pool();
        if (candidate.try_enter()) {
            pool_ = &candidate;
            size_ = candidate.prepare(wanted);
        }
    }
    ~Entry() {
        if (pool_ != nullptr) {
            pool_->leave();
        }
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] Pool& owned_pool() const noexcept { return *pool_; }

private:
    Pool* pool_ = nullptr;
    int size_ = 1;
};

// Keeps the first of several exceptions.
class FirstException {
public:
    void keep(std::exception_ptr exception) noexcept {
        if (!taken_.test_and_set(std::memory_order_relaxed)) {
            exception_ = std::move(exception);
        }
    }
    // After every thread that may have called keep() has ended its part.
    void rethrow() const {
        if (exception_) {
            std::rethrow_exception(exception_);
        }
    }

private:
    std::atomic_flag taken_;
    std::exception_ptr exception_;
};

// Counts down the members that have not arrived yet; the last one starts the next phase.
class Barrier {
public:
    Barrier(int size, int spins) : size_(size), missing_(size), spins_(spins) {}

    void arrive_and_wait() noexcept {
        const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
        if (!arrive(phase)) {
            wait_for_change(phase_, phase, spins_);
        }
    }

    // The member arrives here and at every later barrier without waiting.
    void drop() noexcept {
        const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
        size_.fetch_sub(1, std::memory_order_relaxed);
        arrive(phase);
    }

private:
    bool arrive(std::uint32_t phase) noexcept {
        if (missing_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
            return false;
        }
        missing_.store(size_.load(std::memory_order_relaxed), std::memory_order_relaxed);
        phase_.store(phase + 1, std::memory_order_seq_cst);
        phase_.notify_all();
        return true;
    }

    std::atomic<int> size_;
    alignas(kSeparation) std::atomic<int> missing_;
    alignas(kSeparation) std::atomic<std::uint32_t> phase_{0};
    const int spins_;
};

} // namespace

void set_num_threads(int count) {
    KAEL_CHECK(count >= 1 && count <= kMaxThreads,
               count << " threads, expected 1 to " << kMaxThreads);
    worker_limit.store(kMaxThreads - 1, std::memory_order_relaxed);
    thread_count.store(count, std::memory_order_relaxed);
}

int get_num_threads() {
    const int count = thread_count.load(std::memory_order_relaxed);
    if (count != 0) {
        return count;
    }
    const int initial =
        environment_integer("KAEL_NUM_THREADS", 1, kMaxThreads).value_or(usable_processors());
    int expected = 0;
    thread_count.compare_exchange_strong(expected, initial, std::memory_order_relaxed);
    return thread_count.load(std::memory_order_relaxed);
}

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  FunctionRef<void(std::int64_t, std::int64_t)> body) {
    if (begin >= end) {
        return;
    }
    const std::int64_t length = checked_subtract(end, begin, "the length of a parallel loop");
    const std::int64_t most = std::max<std::int64_t>(length / std::max<std::int64_t>(grain, 1), 1);
    const Entry entry(static_cast<int>(std::min<std::int64_t>(get_num_threads(), most)));
    const std::int64_t parts = entry.size();
    if (parts == 1) {
        body(begin, end);
        return;
    }
    FirstException failure;
    entry.owned_pool().run(entry.size(), [&](int index) noexcept {
        // The first `longer` ranges have one element more.
        const std::int64_t longer = length % parts;
        const std::int64_t first =
            begin + index * (length / parts) + std::min<std::int64_t>(index, longer);
        const std::int64_t last = first + length / parts + (index < longer ? 1 : 0);
        try {
            body(first, last);
        } catch (...) {
            failure.keep(std::current_exception());
        }
    });
    failure.rethrow();
}

void TeamMember::barrier() const noexcept {
    if (size_ > 1) {
        static_cast<Barrier*>(barrier_)->arrive_and_wait();
    }
}

void run_team(FunctionRef<void(const TeamMember&)> body) {
    const Entry entry(get_num_threads());
    if (entry.size() == 1) {
        body(TeamMember(0, 1, nullptr));
        return;
    }
    FirstException failure;
    Barrier barrier(entry.size(), entry.owned_pool().spins(entry.size(), kBarrierSpins));
    entry.owned_pool().run(entry.size(), [&](int index) noexcept {
        try {
            body(TeamMember(index, entry.size(), &barrier));
        } catch (...) {
            failure.keep(std::current_exception());
            barrier.drop();
        }
    });
    failure.rethrow();
}

} // namespace kael
