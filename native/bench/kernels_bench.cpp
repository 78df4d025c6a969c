// The kernels at the sizes of GPT-2 small, each beside the probe that bounds it. `share` is the
// speed over the probe's, taken before and after on the same threads; a share much over 1 means
// that the probe and the kernel saw different moments of a busy machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/cpu/kernels.h"

namespace kael::kernels {
namespace {

using Index = std::int64_t;

// Processor time of this thread.
double seconds_now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

constexpr Index kVocabulary = 50257;
constexpr Index kWidth = 768;
constexpr Index kHeads = 12;
constexpr Index kHeadDimension = 64;

// More than any cache holds: as weights are read, each once a token.
const std::vector<float>& weights() {
    static const std::vector<float> all = [] {
        std::vector<float> data(std::size_t{64} << 20);
        std::uint32_t bits = 1;
        for (float& value : data) {
            bits = bits * 1664525U + 1013904223U;
            value = static_cast<float>(bits >> 8U) * 0x1p-24f - 0.5f;
        }
        return data;
    }();
    return all;
}

// What one thread of a benchmark works on: the next `floats` weights each time, round and round.
class Stream {
public:
    explicit Stream(Index floats) : floats_(floats) {}
    const float* next() {
        at_ += floats_;
        if (at_ + floats_ > static_cast<Index>(weights().size())) {
            at_ = 0;
        }
        return weights().data() + at_;
    }

private:
    Index floats_;
    Index at_ = 0;
};

// Bytes a second of this thread's share of the weights, from memory.
double read_bandwidth(const CpuKernels& kernels, const benchmark::State& state) {
    const Index count = static_cast<Index>(weights().size()) / state.threads() / 1024 * 1024;
    double shortest = std::numeric_limits<double>::infinity();
    for (const bool fetch_ahead : {false, true}) {
        const double begin = seconds_now();
        benchmark::DoNotOptimize(kernels.read_stream(
            weights().data() + state.thread_index() * count, count, fetch_ahead));
        shortest = std::min(shortest, seconds_now() - begin);
    }
    return static_cast<double>(count) * sizeof(float) / shortest;
}

double multiply_add_peak(const CpuKernels& kernels, const benchmark::State&) {
    constexpr Index kRounds = 2'000'000;
    const double begin = seconds_now();
    const Index operations = kernels.multiply_add_loop(kRounds);
    const double seconds = seconds_now() - begin;
    return static_cast<double>(operations * kRounds) / seconds;
}

using Probe = double (*)(const CpuKernels&, const benchmark::State&);

// Runs work() and reports units a second (bytes or operations, `units` of this thread a call), the
// probe and the share. `outputs` is looked at, so that they have to be computed.
template <typename Work>
void measure(benchmark::State& state, const CpuKernels& kernels, Probe probe, double units,
             const std::vector<float>& outputs, Work work) {
    const double before = probe(kernels, state);
    const double begin = seconds_now();
    for (auto _ : state) {
        work();
    }
    const double seconds = seconds_now() - begin;
    const double bound = (before + probe(kernels, state)) / 2;
    const double speed = units * static_cast<double>(state.iterations()) / seconds;
    double sum = 0.0;
    for (const float value : outputs) {
        sum += static_cast<double>(std::abs(value));
    }
    if (!(sum > 0.0) || !std::isfinite(sum)) {
        state.SkipWithError("the outputs are zero or not finite");
    }
    const std::string unit = probe == read_bandwidth ? "GB/s" : "GFLOP/s";
    state.counters[unit] = speed * 1e-9;
    state.counters["probe"] = bound * 1e-9;
    state.counters["share"] = benchmark::Counter(speed / bound, benchmark::Counter::kAvgThreads);
}

// One token: with two threads each takes one half of k.
void one_row(benchmark::State& state, const CpuKernels* kernels, Index depth, Index width) {
    std::vector<float> x(static_cast<std::size_t>(depth), 0.01f);
    std::vector<float> halves(2 * static_cast<std::size_t>(width));
    std::vector<float> y(static_cast<std::size_t>(width));
    Stream stream(depth * width);
    const int step = std::min(state.threads(), 2);
    const double bytes = static_cast<double>(depth * width) * sizeof(float) / step;
    measure(state, *kernels, read_bandwidth, bytes, y, [&] {
        const float* const w = stream.next();
        for (Index half = state.thread_index() % 2; half < 2; half += step) {
            kernels->vector_matrix(x.data(), w, width, half * depth / 2, (half + 1) * depth / 2, 0,
                                   width, halves.data() + half * width);
        }
        kernels->add_halves(halves.data(), halves.data() + width, nullptr, width, y.data());
    });
}

void many_rows(benchmark::State& state, const CpuKernels* kernels, Index rows, Index depth,
               Index width) {
    std::vector<float> x(static_cast<std::size_t>(rows * depth), 0.01f);
    std::vector<float> y(static_cast<std::size_t>(rows * width));
    std::vector<float> scratch(static_cast<std::size_t>(kernels->matmul_scratch(depth)));
    Stream stream(depth * width);
    const Index panels = width / kernels->matmul_panel;
    const Index n0 = panels * state.thread_index() / state.threads() * kernels->matmul_panel;
    const Index n1 = panels * (state.thread_index() + 1) / state.threads() * kernels->matmul_panel;
    measure(state, *kernels, multiply_add_peak, 2.0 * static_cast<double>(rows * depth * (n1 - n0)),
            y, [&] {
                kernels->matmul(x.data(), depth, rows, {stream.next(), width, 1}, depth, nullptr,
                                n0, n1, y.data(), width, scratch.data());
            });
}

void head(benchmark::State& state, const CpuKernels* kernels, Index rows) {
    std::vector<float> x(static_cast<std::size_t>(rows * kWidth), 0.01f);
    std::vector<float> out(static_cast<std::size_t>(rows * kVocabulary));
    const Index v0 = kVocabulary * state.thread_index() / state.threads();
    const Index v1 = kVocabulary * (state.thread_index() + 1) / state.threads();
    const double products = static_cast<double>(kWidth * (v1 - v0));
    measure(state, *kernels, rows == 1 ? read_bandwidth : multiply_add_peak,
            rows == 1 ? products * sizeof(float) : 2.0 * products * static_cast<double>(rows), out,
            [&] {
                kernels->matmul_rows(x.data(), kWidth, rows, weights().data(), kWidth, v0, v1,
                                     out.data(), kVocabulary);
            });
}

// One token over `positions` positions; each thread has its heads.
void attention_one_row(benchmark::State& state, const CpuKernels* kernels, Index positions) {
    std::vector<float> query(kHeadDimension, 0.01f);
    std::vector<float> scores(static_cast<std::size_t>(positions));
    std::vector<float> out(kHeadDimension);
    const Index size = positions * kHeadDimension;
    Stream stream(2 * size);
    const Index heads = kHeads * (state.thread_index() + 1) / state.threads() -
                        kHeads * state.thread_index() / state.threads();
    measure(state, *kernels, read_bandwidth, static_cast<double>(heads * 2 * size) * sizeof(float),
            out, [&] {
                for (Index i = 0; i < heads; ++i) {
                    const float* const keys = stream.next();
                    kernels->attention_scores(query.data(), keys, kHeadDimension, positions, 0.125f,
                                              scores.data());
                    kernels->softmax(scores.data(), positions);
                    kernels->attention_mix(scores.data(), keys + size, kHeadDimension,
                                           kHeadDimension, positions, out.data());
                }
            });
}

// A prompt: operations count only what the causal mask leaves.
void attention_many_rows(benchmark::State& state, const CpuKernels* kernels, Index rows) {
    std::vector<float> queries(static_cast<std::size_t>(rows * 3 * kWidth), 0.01f);
    std::vector<float> scratch(static_cast<std::size_t>(kernels->attention_scratch(rows)));
    std::vector<float> out(static_cast<std::size_t>(rows * kWidth));
    const float* const keys = weights().data();
    measure(state, *kernels, multiply_add_peak,
            2.0 * kHeadDimension * static_cast<double>(rows * (rows + 1)), out, [&] {
                kernels->attention_rows(queries.data(), 3 * kWidth, rows, 0, keys,
                                        keys + rows * kHeadDimension, kHeadDimension,
                                        kHeadDimension, 0.125f, out.data(), kWidth, scratch.data());
            });
}

void in_place(benchmark::State& state, void (*function)(float*, Index)) {
    std::vector<float> x(4 * kWidth);
    for (auto _ : state) {
        std::copy_n(weights().data(), x.size(), x.data());
        function(x.data(), static_cast<Index>(x.size()));
        benchmark::DoNotOptimize(x.data());
    }
    state.SetItemsProcessed(state.iterations() * static_cast<Index>(x.size()));
}

void layer_norm(benchmark::State& state, const CpuKernels* kernels) {
    std::vector<float> y(kWidth);
    for (auto _ : state) {
        kernels->layer_norm(weights().data(), weights().data(), weights().data(), 1e-5f, kWidth,
                            y.data());
        benchmark::DoNotOptimize(y.data());
    }
    state.SetItemsProcessed(state.iterations() * kWidth);
}

template <typename... Arguments>
void add(const CpuKernels& kernels, const std::string& name, Arguments... arguments) {
    auto* const added = benchmark::RegisterBenchmark(
        (std::string(kernels.name) + "/" + name).c_str(), arguments...);
    added->Threads(1)->Threads(2);
}

bool add_all() {
    const CpuKernelTables available = available_cpu_kernels();
    for (int i = 0; i < available.count; ++i) {
        const CpuKernels& kernels = *available.tables[i];
        constexpr std::array<std::array<Index, 2>, 4> kShapes = {
            {{kWidth, 3 * kWidth}, {kWidth, kWidth}, {kWidth, 4 * kWidth}, {4 * kWidth, kWidth}}};
        for (const auto& [depth, width] : kShapes) {
            const std::string shape = std::to_string(depth) + "x" + std::to_string(width);
            add(kernels, "vector_matrix/" + shape, one_row, &kernels, depth, width);
            for (const Index rows : {8, 64, 512}) {
                add(kernels, "matmul/" + std::to_string(rows) + "x" + shape, many_rows, &kernels,
                    rows, depth, width);
            }
        }
        for (const Index rows : {1, 64}) {
            add(kernels, "matmul_rows/" + std::to_string(rows), head, &kernels, rows);
        }
        for (const Index positions : {32, 512, 1024}) {
            add(kernels, "attention_one_row/" + std::to_string(positions), attention_one_row,
                &kernels, positions);
        }
        for (const Index rows : {64, 512, 1024}) {
            add(kernels, "attention_rows/" + std::to_string(rows), attention_many_rows, &kernels,
                rows);
        }
        add(kernels, "gelu_tanh", in_place, kernels.gelu_tanh);
        add(kernels, "gelu_erf", in_place, kernels.gelu_erf);
        add(kernels, "softmax", in_place, kernels.softmax);
        add(kernels, "layer_norm", layer_norm, &kernels);
    }
    return true;
}

[[maybe_unused]] const bool added = add_all();

} // namespace
} // namespace kael::kernels
