#include "run.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kael/error.h"

namespace kael::fuzz {

namespace {

constexpr std::size_t kMostTensors = 8;

void require_close(Number got, Number wanted, DType dtype, double slack) {
    const bool holds = is_close(got, wanted, dtype, slack);
    if (!holds) {
        std::fprintf(stderr, "%.17g (%lld) instead of %.17g (%lld), give or take %g\n", got.real,
                     static_cast<long long>(got.integer), wanted.real,
                     static_cast<long long>(wanted.integer), slack);
    }
    require(holds);
}

void require_same(const Tensor& got, const Expected& expected) {
    require(got.dtype() == expected.dtype);
    require(got.shape() == expected.shape);
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
        require_close(element(got, i), expected.values[i], expected.dtype,
                      expected.slack.empty() ? 0 : expected.slack[i]);
    }
}

std::optional<std::vector<Tensor>> attempt(const std::string& name, std::vector<Argument> arguments,
                                           Verdict verdict) {
    try {
        auto results = kael::apply(kael::find_operator(name), std::move(arguments));
        require(verdict != Verdict::wrong);
        return results;
    } catch (const kael::Error& error) {
        if (verdict == Verdict::right) {
            std::fprintf(stderr, "%s\n", error.what());
        }
        require(verdict != Verdict::right);
        require(error.code() == kael::ErrorCode::invalid_argument);
        require(!error.message().empty() && error.message().find('\n') == std::string::npos);
        return std::nullopt;
    }
}

bool may_be_written(const Tracked& x) {
    std::vector<std::size_t> places = x.places;
    std::ranges::sort(places);
    return std::ranges::adjacent_find(places) == places.end();
}

} // namespace

int Run::dimension(const Tensor& x, Verdict& verdict) {
    const int rank = x.rank();
    if (rank == 0) {
        verdict = Verdict::open;
        return 0;
    }
    if (input_.rarely(32)) {
        verdict = Verdict::wrong;
        return input_.rarely(2) ? rank : -rank - 1;
    }
    return static_cast<int>(input_.below(static_cast<std::size_t>(2 * rank))) - rank;
}

std::int64_t Run::around(std::int64_t size) {
    return input_.rarely(16)
               ? input_.one_of(kExtremes)
               : static_cast<std::int64_t>(input_.below(static_cast<std::size_t>(2 * size + 3))) -
                     size - 1;
}

Value Run::operand() {
    if (!input_.rarely(6)) {
        return {.tracked = &any()};
    }
    const Scalar numbers[] = {std::int64_t{0},
                              std::int64_t{1},
                              std::int64_t{2},
                              std::int64_t{-1},
                              std::int64_t{3},
                              std::int64_t{300},
                              0.5,
                              -2.0,
                              true,
                              false};
    return {.number = input_.one_of(numbers)};
}

Tracked Run::indices(const Shape& shape, std::int64_t bound, Verdict& verdict) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(count_of(shape)));
    for (std::int64_t& value : values) {
        value = input_.rarely(64) || bound == 0
                    ? input_.one_of<std::int64_t>({-1, bound, kExtremes[0], kExtremes[1]})
                    : static_cast<std::int64_t>(input_.below(static_cast<std::size_t>(bound)));
        verdict = value >= 0 && value < bound ? verdict : Verdict::wrong;
    }
    return track(Tensor::from_bytes(values.data(), static_cast<std::int64_t>(values.size() * 8),
                                    shape, DType::int64));
}

Tracked Run::track(const Tensor& tensor) {
    Tracked result = {tensor, std::make_shared<Memory>(), {}};
    result.places.resize(static_cast<std::size_t>(tensor.numel()));
    std::iota(result.places.begin(), result.places.end(), std::size_t{0});
    for (std::size_t i = 0; i < result.places.size(); ++i) {
        result.memory->elements.push_back(element(tensor, i));
    }
    result.memory->version = tensor.storage()->version();
    return result;
}

void Run::keep(Tracked tracked) {
    // An empty one may have any size in another dimension.
    const bool is_small = std::ranges::all_of(
        tracked.shape(), [](std::int64_t size) { return size <= kMostElements; });
    if (!is_small || tracked.tensor.numel() > kMostElements || tracked.tensor.rank() > 6) {
        return;
    }
    if (tensors_.size() < kMostTensors) {
        tensors_.push_back(std::move(tracked));
    } else {
        tensors_[input_.below(kMostTensors)] = std::move(tracked);
    }
}

void Run::check(const std::string& name, std::vector<Argument> arguments, Verdict verdict,
                const std::function<std::vector<Expected>()>& reference) {
    const auto results = attempt(name, std::move(arguments), verdict);
    if (!results) {
        return;
    }
    const std::vector<Expected> expected = reference();
    require(results->size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const Tensor& result = (*results)[i];
        require(result.is_contiguous());
        require(std::ranges::none_of(tensors_, [&](const Tracked& other) {
            return other.tensor.storage() == result.storage();
        }));
        require_same(result, expected[i]);
    }
    for (const Tensor& result : *results) {
        keep(track(result));
    }
}

void Run::check_views(const std::string& name, const Tracked& x, std::vector<Argument> arguments,
                      Verdict verdict, const std::function<std::vector<ExpectedView>()>& reference,
                      bool may_copy) {
    arguments.insert(arguments.begin(), x.tensor);
    if (const auto results = attempt(name, std::move(arguments), verdict)) {
        accept_views(x, *results, reference(), may_copy);
    }
}

void Run::accept_views(const Tracked& x, const std::vector<Tensor>& results,
                       const std::vector<ExpectedView>& expected, bool may_copy) {
    require(results.size() == expected.size());
    std::vector<Tracked> made;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const Tensor& result = results[i];
        require(result.shape() == expected[i].shape && result.dtype() == x.dtype());
        std::vector<std::size_t> places;
        for_each_index(result.shape(), [&](const Index& index) {
            places.push_back(x.places[position(x.shape(), expected[i].source(index))]);
        });
        if (result.storage() == x.tensor.storage()) {
            made.push_back({result, x.memory, std::move(places)});
            continue;
        }
        require(may_copy);
        made.push_back(track(result));
        for (std::size_t j = 0; j < places.size(); ++j) {
            require(is_close(made.back().at(j), x.memory->elements[places[j]], x.dtype(), 0));
        }
    }
    for (Tracked& tracked : made) {
        keep(std::move(tracked));
    }
}

void Run::check_in_place(const std::string& name, Tracked& x, std::vector<Argument> arguments,
                         Verdict verdict, const std::function<Expected()>& reference) {
    if (verdict != Verdict::wrong && !may_be_written(x)) {
        verdict = Verdict::wrong;
    }
    arguments.insert(arguments.begin(), x.tensor);
    // Operands are read as they were.
    const Expected expected = verdict != Verdict::wrong ? reference() : Expected{};
    if (const auto results = attempt(name, std::move(arguments), verdict)) {
        require(results->empty());
        require_same(x.tensor, expected);
        for (std::size_t i = 0; i < x.places.size(); ++i) {
            x.memory->elements[x.places[i]] = element(x.tensor, i);
        }
        ++x.memory->version;
    }
}

void Run::check_either_way(const std::string& name, Tracked& x, std::vector<Argument> arguments,
                           Verdict verdict, const std::function<Expected()>& reference) {
    if (input_.rarely(2)) {
        check_in_place(name + '_', x, std::move(arguments), verdict, reference);
    } else {
        arguments.insert(arguments.begin(), x.tensor);
        check(name, std::move(arguments), verdict,
              [&] { return std::vector<Expected>{reference()}; });
    }
}

void Run::require_all_same() const {
    for (const Tracked& tracked : tensors_) {
        require(tracked.tensor.storage()->version() == tracked.memory->version);
        for (std::size_t i = 0; i < tracked.places.size(); ++i) {
            require(is_close(element(tracked.tensor, i), tracked.at(i), tracked.dtype(), 0));
        }
    }
}

} // namespace kael::fuzz
