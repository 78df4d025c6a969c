// Threads: one pool for the process. Results never depend on how many threads there are; that is
// the caller's part of the contract, and the reason why the bodies below receive ranges and not
// thread counts.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace kael {

// 1 to 256. The default is KAEL_NUM_THREADS, else the processors this process may use. A bad value
// of the variable is an error at first use. Any thread; a running region keeps the count it began
// with.
void set_num_threads(int count);
[[nodiscard]] int get_num_threads();

// A reference to something callable; it must outlive the call it is passed to.
template <typename Signature>
class FunctionRef;

template <typename Result, typename... Arguments>
class FunctionRef<Result(Arguments...)> {
public:
    template <typename Callable>
        requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef>)
    FunctionRef(
        Callable&& callable) // NOLINT(google-explicit-constructor): lambdas are passed as they are
        : object_(const_cast<void*>(static_cast<const void*>(&callable))),
          call_([](void* object, Arguments... arguments) -> Result {
              return (*static_cast<std::remove_reference_t<Callable>*>(object))(
                  std::forward<Arguments>(arguments)...);
          }) {}

    Result operator()(Arguments... arguments) const {
        return call_(object_, std::forward<Arguments>(arguments)...);
    }

private:
    void* object_;
    Result (*call_)(void*, Arguments...);
};

// Calls body(first, last) for disjoint ranges that cover [begin, end), each at least `grain` long
// unless it is the only one, and returns when all are done. Ranges run on several threads, or as
// one on the caller when the work is small, when the call is nested in another region, or when the
// pool is busy with another caller. The first exception of a body is rethrown here after all ranges
// have ended. Hold no lock that a body may take.
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  FunctionRef<void(std::int64_t, std::int64_t)> body);

// One thread of a team.
class TeamMember {
public:
    TeamMember(int index, int size, void* barrier)
        : index_(index), size_(size), barrier_(barrier) {}
    [[nodiscard]] int index() const noexcept { return index_; } // 0 is the caller
    [[nodiscard]] int size() const noexcept { return size_; }
    // Returns when every member has arrived, with everything they wrote before visible. Spins,
    // about 60 ns.
    void barrier() const noexcept;

private:
    int index_;
    int size_;
    void* barrier_;
};

// Runs body once on each of at most get_num_threads() threads at the same time, for work with many
// short steps between barriers (one token of a decoder). The team has size 1 when nested or when
// the pool is busy. When the body throws, the other members go on without that one, to their ends,
// and the first exception is rethrown here.
void run_team(FunctionRef<void(const TeamMember&)> body);

} // namespace kael
