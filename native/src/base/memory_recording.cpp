// Recordings of what the allocator hands out and takes back.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <pthread.h>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "kael/error.h"

#include "base/allocator.h"
#include "base/current_operator.h"

namespace kael {

// Guarded by the mutex of the recorder.
struct MemoryRecording::Log {
    struct Block {
        std::int64_t bytes;
        std::size_t operation;
    };
    struct Event {
        std::chrono::steady_clock::time_point time;
        std::int64_t bytes; // negative: taken back
        std::int64_t live_bytes;
        std::size_t operation;
    };

    // All that needs memory comes first: without it the allocation is lost as a whole.
    void allocated(const std::byte* block, std::int64_t bytes) {
        const std::size_t operation = number_of(current_operator());
        peak_by_operation.reserve(live_by_operation.size());
        blocks[block] = {bytes, operation};
        ++allocations;
        change(bytes, operation);
        if (live_bytes > peak_bytes) {
            peak_bytes = live_bytes;
            peak_by_operation = live_by_operation;
        }
    }

    void released(const std::byte* block) noexcept {
        if (const auto found = blocks.find(block); found != blocks.end()) {
            const Block gone = found->second;
            blocks.erase(found);
            change(-gone.bytes, gone.operation);
        }
    }

    // A new operator is known by its number only when both lists have a place for it.
    std::size_t number_of(std::string_view operation) {
        std::string name(operation);
        if (const auto known = numbers.find(name); known != numbers.end()) {
            return known->second;
        }
        const std::size_t number = numbers.size();
        names.resize(number + 1);
        live_by_operation.resize(number + 1);
        names[number] = name;
        numbers.emplace(std::move(name), number);
        return number;
    }

    // An event that there is no memory for is dropped.
    void change(std::int64_t bytes, std::size_t operation) noexcept {
        live_bytes += bytes;
        live_by_operation[operation] += bytes;
        if (static_cast<std::int64_t>(events.size()) >= most_events) {
            ++dropped_events;
            return;
        }
        try {
            events.push_back({std::chrono::steady_clock::now(), bytes, live_bytes, operation});
        } catch (const std::bad_alloc&) {
            ++dropped_events;
        }
    }

    std::int64_t most_events = 0;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    std::unordered_map<const std::byte*, Block> blocks; // alive, and allocated since the beginning
    std::unordered_map<std::string, std::size_t> numbers;
    std::vector<std::string> names;
    std::vector<std::int64_t> live_by_operation;
    std::vector<std::int64_t> peak_by_operation;
    std::vector<Event> events;
    std::int64_t live_bytes = 0;
    std::int64_t peak_bytes = 0;
    std::int64_t allocations = 0;
    std::int64_t dropped_events = 0;
    std::int64_t lost_allocations = 0; // there was no memory to note them
};

namespace {

// Tells every recording that runs. The allocator knows it only while there is one.
class Recorder final : public AllocationObserver {
public:
    void allocated(const std::byte* block, std::int64_t bytes) noexcept override {
        const std::lock_guard lock(mutex_);
        for (MemoryRecording::Log* log : logs_) {
            try {
                log->allocated(block, bytes);
            } catch (...) {
                ++log->lost_allocations;
            }
        }
    }

    void released(const std::byte* block) noexcept override {
        const std::lock_guard lock(mutex_);
        for (MemoryRecording::Log* log : logs_) {
            log->released(block);
        }
    }

    void add(MemoryRecording::Log* log) {
        const std::lock_guard lock(mutex_);
        logs_.push_back(log);
        process_allocator().set_observer(this);
    }

    void remove(MemoryRecording::Log* log) {
        const std::lock_guard lock(mutex_);
        logs_.erase(std::remove(logs_.begin(), logs_.end(), log), logs_.end());
        if (logs_.empty()) {
            process_allocator().set_observer(nullptr);
        }
    }

    [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

private:
    std::mutex mutex_;
    std::vector<MemoryRecording::Log*> logs_;
};

// Never destroyed: another thread may be telling it of a block when the last recording ends.
Recorder& recorder() {
    static auto* const all = new Recorder;
    return *all;
}

void lock_recorder() {
    recorder().mutex().lock();
}
void unlock_recorder() {
    recorder().mutex().unlock();
}
// So that no child inherits it locked by a thread that it lacks.
[[maybe_unused]] const int kForkHandlers =
    pthread_atfork(lock_recorder, unlock_recorder, unlock_recorder);

} // namespace

MemoryRecording::MemoryRecording(std::int64_t most_events) : log_(std::make_unique<Log>()) {
    KAEL_CHECK(most_events >= 0,
               "a recording of at most " << most_events << " events, expected 0 or more");
    log_->most_events = most_events;
    recorder().add(log_.get());
}

MemoryRecording::~MemoryRecording() {
    stop();
}

void MemoryRecording::stop() {
    recorder().remove(log_.get());
}

MemoryTimeline MemoryRecording::timeline() const {
    const std::lock_guard lock(recorder().mutex());
    const Log& log = *log_;
    MemoryTimeline timeline{.peak_bytes = log.peak_bytes,
                            .live_bytes = log.live_bytes,
                            .allocations = log.allocations,
                            .dropped_events = log.dropped_events + log.lost_allocations,
                            .peak_by_operator = {},
                            .events = {}};
    for (std::size_t i = 0; i < log.peak_by_operation.size(); ++i) {
        if (log.peak_by_operation[i] > 0) {
            timeline.peak_by_operator.emplace_back(log.names[i], log.peak_by_operation[i]);
        }
    }
    std::sort(timeline.peak_by_operator.begin(), timeline.peak_by_operator.end(),
              [](const auto& a, const auto& b) {
                  return a.second != b.second ? a.second > b.second : a.first < b.first;
              });
    timeline.events.reserve(log.events.size());
    for (const Log::Event& event : log.events) {
        const std::chrono::duration<double> seconds = event.time - log.begin;
        timeline.events.push_back(
            {seconds.count(), event.bytes, event.live_bytes, log.names[event.operation]});
    }
    return timeline;
}

} // namespace kael
