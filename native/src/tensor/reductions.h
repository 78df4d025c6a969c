// What each reduction does with a block of elements, with two parts of a row, and at the end of it.
//
// A reduction is a type with State (what a part of a row amounts to), block(elements, count, index
// of the first), combine(earlier part, later part), and finish(state, elements of the row), whose
// type is the one of the result. Reductions with no answer for nothing say so with kNeedsElements;
// the others' State{} is that of nothing.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace kael::reductions {

// What sums of T run in. Integers wrap, which is defined without a sign.
template <typename T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
template <typename T>
using Result = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

// Sums of value(x) in 8 lanes, added in halves.
template <typename Sum, typename T, typename Value>
Sum sum_lanes(const T* elements, std::int64_t count, Value value) {
    constexpr std::int64_t kLanes = 8;
    Sum lanes[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
            lanes[lane] += value(elements[i + lane]);
        }
    }
    for (; i < count; ++i) {
        lanes[i % kLanes] += value(elements[i]);
    }
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
        for (std::int64_t lane = 0; lane < half; ++lane) {
            lanes[lane] += lanes[lane + half];
        }
    }
    return lanes[0];
}

template <typename T>
struct Sum {
    static constexpr bool kNeedsElements = false;
    using State = Wide<T>;
    [[nodiscard]] State block(const T* elements, std::int64_t count, std::int64_t) const {
        return sum_lanes<State>(elements, count, [](T x) { return static_cast<State>(x); });
    }
    [[nodiscard]] State combine(State a, State b) const { return a + b; }
    [[nodiscard]] Result<T> finish(State sum, std::int64_t) const {
        return static_cast<Result<T>>(sum);
    }
};

template <typename T>
struct Mean : Sum<T> {
    [[nodiscard]] double finish(double sum, std::int64_t count) const {
        return sum / static_cast<double>(count);
    }
};

template <typename T>
struct Prod {
    static constexpr bool kNeedsElements = false;
    struct State {
        Wide<T> product = 1;
    };
    [[nodiscard]] State block(const T* elements, std::int64_t count, std::int64_t) const {
        State state;
        for (std::int64_t i = 0; i < count; ++i) {
            state.product *= static_cast<Wide<T>>(elements[i]);
        }
        return state;
    }
    [[nodiscard]] State combine(State a, State b) const { return {a.product * b.product}; }
    [[nodiscard]] Result<T> finish(State state, std::int64_t) const {
        return static_cast<Result<T>>(state.product);
    }
};

// Sums of squares around the mean, joined by the formula of Chan, Golub and LeVeque ("Updating
// formulae and a pairwise algorithm for computing sample variances", 1979).
template <typename T>
struct Var {
    static constexpr bool kNeedsElements = false;
    struct State {
        double count = 0;
        double mean = 0;
        double squares = 0;
    };
    double correction = 1;
    bool root = false;

    [[nodiscard]] State block(const T* elements, std::int64_t count, std::int64_t) const {
        const double n = static_cast<double>(count);
        const double mean =
            sum_lanes<double>(elements, count, [](T x) { return static_cast<double>(x); }) / n;
        const double squares = sum_lanes<double>(elements, count, [mean](T x) {
            const double distance = static_cast<double>(x) - mean;
            return distance * distance;
        });
        return {n, mean, squares};
    }
    [[nodiscard]] State combine(State a, State b) const {
        const double count = a.count + b.count;
        const double distance = b.mean - a.mean;
        return {count, a.mean + distance * (b.count / count),
                a.squares + b.squares + distance * distance * (a.count * b.count / count)};
    }
    [[nodiscard]] double finish(State state, std::int64_t) const {
        const double variance = state.squares / std::fmax(state.count - correction, 0.0);
        return root ? std::sqrt(variance) : variance;
    }
};

// ---- Norms
// ------------------------------------------------------------------------------------------------------

template <typename T>
struct Norm2 : Sum<T> {
    [[nodiscard]] double block(const T* elements, std::int64_t count, std::int64_t) const {
        return sum_lanes<double>(
            elements, count, [](T x) { return static_cast<double>(x) * static_cast<double>(x); });
    }
    [[nodiscard]] double finish(double sum, std::int64_t) const { return std::sqrt(sum); }
};

template <typename T>
struct Norm1 : Sum<T> {
    [[nodiscard]] double block(const T* elements, std::int64_t count, std::int64_t) const {
        return sum_lanes<double>(elements, count,
                                 [](T x) { return std::abs(static_cast<double>(x)); });
    }
};

template <typename T>
struct Norm0 : Sum<T> {
    [[nodiscard]] double block(const T* elements, std::int64_t count, std::int64_t) const {
        return sum_lanes<double>(elements, count, [](T x) { return x != 0 ? 1.0 : 0.0; });
    }
};

template <typename T>
struct NormP : Sum<T> {
    double p = 2;
    [[nodiscard]] double block(const T* elements, std::int64_t count, std::int64_t) const {
        return sum_lanes<double>(
            elements, count, [this](T x) { return std::pow(std::abs(static_cast<double>(x)), p); });
    }
    [[nodiscard]] double finish(double sum, std::int64_t) const { return std::pow(sum, 1 / p); }
};

// ---- Extremes
// ---------------------------------------------------------------------------------------------------

template <typename T>
bool is_nan(T x) {
    return x != x;
}

// Which of two different numbers is looked for. Of vectors: lane by lane.
struct Larger {
    template <typename T>
    static auto precedes(T a, T b) {
        return a > b;
    }
};
struct Smaller {
    template <typename T>
    static auto precedes(T a, T b) {
        return a < b;
    }
};

template <typename T, typename Order, bool kAbsolute = false>
struct Extreme {
    static constexpr bool kNeedsElements = true;
    using State = T;
    [[nodiscard]] State block(const T* elements, std::int64_t count, std::int64_t) const {
        // Vectors of the width that every processor has: gcc takes wider ones apart.
        typedef T Vector __attribute__((vector_size(16)));
        constexpr int kVectors = 4;
        constexpr std::int64_t kWidth = 16 / sizeof(T);
        constexpr std::int64_t kStep = kVectors * kWidth;
        State best = of(elements[0]);
        std::int64_t i = 0;
        if (count >= kStep) {
            Vector lanes[kVectors];
            std::memcpy(lanes, elements, sizeof(lanes));
            for (Vector& vector : lanes) {
                vector = of(vector);
            }
            for (i = kStep; i + kStep <= count; i += kStep) {
                for (int vector = 0; vector < kVectors; ++vector) {
                    Vector next;
                    std::memcpy(&next, elements + i + vector * kWidth, sizeof(next));
                    lanes[vector] = better(lanes[vector], of(next));
                }
            }
            for (const Vector& vector : lanes) {
                for (std::int64_t lane = 0; lane < kWidth; ++lane) {
                    best = combine(best, vector[lane]);
                }
            }
        }
        for (; i < count; ++i) {
            best = combine(best, of(elements[i]));
        }
        return best;
    }
    [[nodiscard]] State combine(State a, State b) const { return better(a, b); }
    [[nodiscard]] Result<T> finish(State best, std::int64_t) const { return best; }

private:
    // Of numbers and of vectors of them.
    template <typename V>
    static V of(V x) {
        if constexpr (kAbsolute) {
            return x <= 0 ? V{} - x : x; // 0 for -0 as well
        } else {
            return x;
        }
    }
    // A NaN in `a` stays, for nothing is larger or smaller; one NaN is as good as another.
    template <typename V>
    static V better(V a, V b) {
        const V chosen = Order::precedes(b, a) ? b : a;
        return b != b ? b : chosen;
    }
};

template <typename T, typename Order>
struct ArgExtreme {
    static constexpr bool kNeedsElements = true;
    struct State {
        T best = 0;
        std::int64_t index = 0;
    };
    [[nodiscard]] State block(const T* elements, std::int64_t count, std::int64_t first) const {
        State state = {elements[0], first};
        for (std::int64_t i = 1; i < count; ++i) {
            state = combine(state, {elements[i], first + i});
        }
        return state;
    }
    [[nodiscard]] State combine(State a, State b) const {
        const bool replaces =
            !is_nan(a.best) && (Order::precedes(b.best, a.best) || is_nan(b.best));
        return replaces ? b : a;
    }
    [[nodiscard]] std::int64_t finish(State state, std::int64_t) const { return state.index; }
};

// ---- Truth
// ------------------------------------------------------------------------------------------------------

template <typename T>
struct Any {
    static constexpr bool kNeedsElements = false;
    using State = bool;
    [[nodiscard]] State block(const T* elements, std::int64_t count, std::int64_t) const {
        bool found = false;
        for (std::int64_t i = 0; i < count; ++i) {
            found |= elements[i] != 0;
        }
        return found;
    }
    [[nodiscard]] State combine(State a, State b) const { return a || b; }
    [[nodiscard]] bool finish(State found, std::int64_t) const { return found; }
};

template <typename T>
struct All {
    static constexpr bool kNeedsElements = false;
    struct State {
        bool zero_found = false;
    };
    [[nodiscard]] State block(const T* elements, std::int64_t count, std::int64_t) const {
        State state;
        for (std::int64_t i = 0; i < count; ++i) {
            state.zero_found |= elements[i] == 0;
        }
        return state;
    }
    [[nodiscard]] State combine(State a, State b) const { return {a.zero_found || b.zero_found}; }
    [[nodiscard]] bool finish(State state, std::int64_t) const { return !state.zero_found; }
};

// ---- log(sum of exp)
// --------------------------------------------------------------------------------------------

// exp is taken of the distance to the largest element, which must be finite to be subtracted.
template <std::floating_point T>
struct LogSumExp {
    static constexpr bool kNeedsElements = false;
    struct State {
        T largest = -std::numeric_limits<T>::infinity();
        double sum = 0; // of exp(x - shift(largest))
    };
    [[nodiscard]] State block(const T* elements, std::int64_t count, std::int64_t) const {
        const T largest = Extreme<T, Larger>{}.block(elements, count, 0);
        const T shift = shift_of(largest);
        return {largest, sum_lanes<double>(elements, count, [shift](T x) {
                    return static_cast<double>(std::exp(x - shift));
                })};
    }
    [[nodiscard]] State combine(State a, State b) const {
        const T largest = Extreme<T, Larger>{}.combine(a.largest, b.largest);
        const T shift = shift_of(largest);
        return {largest, scaled(a, shift) + scaled(b, shift)};
    }
    [[nodiscard]] double finish(State state, std::int64_t) const {
        return static_cast<double>(shift_of(state.largest)) + std::log(state.sum);
    }

private:
    static T shift_of(T largest) { return std::isfinite(largest) ? largest : T{0}; }
    static double scaled(State state, T shift) {
        if (state.sum == 0) { // nothing but -infinity, whose shift says nothing
            return 0;
        }
        return state.sum *
               std::exp(static_cast<double>(shift_of(state.largest)) - static_cast<double>(shift));
    }
};

} // namespace kael::reductions
