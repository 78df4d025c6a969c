// Random operators on random views of small tensors, against a naive reference: an element is a
// number (naive.h), a tensor the list of the places in memory where its elements stand. After each
// step all tensors are compared, so that what is written through one view is seen through all
// others and nowhere else.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kael/error.h"
#include "kael/tensor.h"

#include "input.h"
#include "naive.h"
#include "naive_operators.h"
#include "operators/operator.h"

namespace {

using kael::Argument;
using kael::DType;
using kael::Scalar;
using kael::Shape;
using kael::Tensor;
using namespace kael::fuzz;

constexpr std::size_t kMostTensors = 8;
constexpr std::int64_t kMostElements = 64;
constexpr int kMostSteps = 40;
constexpr std::int64_t kExtremes[] = {std::numeric_limits<std::int64_t>::min(),
                                      std::numeric_limits<std::int64_t>::max(), -9, 9};

using Index = Shape;

std::int64_t count_of(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// In row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Index&)>& body) {
    Index index(shape.size(), 0);
    for (std::int64_t i = count_of(shape); i > 0; --i) {
        body(index);
        for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) {
            index[d] = 0;
        }
    }
}

std::size_t position(const Shape& shape, const Index& index) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        place = place * shape[d] + index[d];
    }
    return static_cast<std::size_t>(place);
}

struct Memory {
    std::vector<Number> elements;
    std::uint64_t version = 0;
};

struct Tracked {
    Tensor tensor;
    std::shared_ptr<Memory> memory;
    std::vector<std::size_t> places; // row-major

    [[nodiscard]] const Shape& shape() const { return tensor.shape(); }
    [[nodiscard]] DType dtype() const { return tensor.dtype(); }
    [[nodiscard]] Number at(std::size_t i) const { return memory->elements[places[i]]; }
    [[nodiscard]] Number at(const Index& index) const { return at(position(shape(), index)); }
    // The element that broadcasting shows at an index into a larger shape.
    [[nodiscard]] Number broadcast(const Index& index) const {
        Index own(index.end() - static_cast<std::ptrdiff_t>(shape().size()), index.end());
        for (std::size_t d = 0; d < own.size(); ++d) {
            own[d] = shape()[d] == 1 ? 0 : own[d];
        }
        return at(own);
    }
    [[nodiscard]] std::vector<Number> values() const {
        std::vector<Number> all;
        for (std::size_t i = 0; i < places.size(); ++i) {
            all.push_back(at(i));
        }
        return all;
    }
};

struct Expected {
    DType dtype;
    Shape shape;
    std::vector<Number> values;
    std::vector<double> slack = {}; // of each value; empty: 0
};

// What the reference says of the arguments. Open: either answer is fine.
enum class Verdict { right, wrong, open };

Verdict right_if(bool holds) {
    return holds ? Verdict::right : Verdict::wrong;
}

Number element(const Tensor& tensor, std::size_t i) {
    Index index(tensor.shape().size());
    std::size_t rest = i;
    std::int64_t place = tensor.offset();
    for (std::size_t d = index.size(); d-- > 0;) {
        const auto size = static_cast<std::size_t>(tensor.shape()[d]);
        place += static_cast<std::int64_t>(rest % size) * tensor.strides()[d];
        rest /= size;
    }
    return decoded(tensor.storage()->data() + place * bytes_of(tensor.dtype()), tensor.dtype());
}

void require_close(Number got, Number wanted, DType dtype, double slack) {
    const bool holds = is_close(got, wanted, dtype, slack);
    if (!holds) {
        std::fprintf(stderr, "%.17g (%lld) instead of %.17g (%lld), give or take %g\n", got.real,
                     static_cast<long long>(got.integer), wanted.real,
                     static_cast<long long>(wanted.integer), slack);
    }
    require(holds);
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

bool broadcasts(const std::vector<Shape>& shapes, Shape& result) {
    result.clear();
    for (const Shape& shape : shapes) {
        result.insert(result.begin(),
                      shape.size() > result.size() ? shape.size() - result.size() : 0, 1);
        for (std::size_t i = 0; i < shape.size(); ++i) {
            std::int64_t& size = result[result.size() - 1 - i];
            const std::int64_t other = shape[shape.size() - 1 - i];
            if (size != other && size != 1 && other != 1) {
                return false;
            }
            size = size == 1 ? other : size;
        }
    }
    return true;
}

// An operand of an elementwise operator: a tensor or a number.
struct Value {
    const Tracked* tracked = nullptr;
    Scalar number = false;

    [[nodiscard]] DType dtype() const {
        constexpr DType kDTypes[] = {DType::boolean, DType::int64, DType::float32};
        return tracked != nullptr ? tracked->dtype() : kDTypes[number.index()];
    }
    [[nodiscard]] Shape shape() const { return tracked != nullptr ? tracked->shape() : Shape{}; }
    [[nodiscard]] Argument argument() const {
        if (tracked != nullptr) {
            return tracked->tensor;
        }
        return std::visit([](auto value) -> Argument { return value; }, number);
    }
    // As `dtype`; a number keeps all of its digits beside floats.
    [[nodiscard]] Number at(const Index& index, DType dtype) const {
        if (tracked != nullptr) {
            return converted(tracked->broadcast(index), tracked->dtype(), dtype);
        }
        const double real = std::visit([](auto v) { return static_cast<double>(v); }, number);
        return is_real(dtype) ? Number{real, 0} : Number{0, static_cast<std::int64_t>(real)};
    }
    // Whether an integer number is one of the dtype.
    [[nodiscard]] bool fits(DType dtype) const {
        const auto* const integer = std::get_if<std::int64_t>(&number);
        return tracked != nullptr || integer == nullptr || is_real(dtype) ||
               wrapped(*integer, dtype) == *integer;
    }
};

// Tensors with dimensions decide, then tensors without, then numbers, each only where it is of a
// higher kind.
DType result_dtype(const std::vector<Value>& values) {
    std::optional<DType> groups[3];
    for (const Value& value : values) {
        auto& group = groups[value.tracked == nullptr ? 2 : value.shape().empty() ? 1 : 0];
        group = group ? common_dtype(*group, value.dtype()) : value.dtype();
    }
    std::optional<DType> result;
    for (const auto& group : groups) {
        if (group && (!result || kind(*group) > kind(*result))) {
            result = group;
        }
    }
    return *result;
}

class Run {
public:
    explicit Run(Input input) : input_(input) {}
    void run();

private:
    using Step = void (Run::*)();

    // ---- Decisions

    Tracked& any() { return tensors_[input_.below(tensors_.size())]; }

    // One that there is, counted from either end, or rarely one that there is not.
    int dimension(const Tensor& x, Verdict& verdict) {
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

    std::int64_t around(std::int64_t size) {
        return input_.rarely(16) ? input_.one_of(kExtremes)
                                 : static_cast<std::int64_t>(
                                       input_.below(static_cast<std::size_t>(2 * size + 3))) -
                                       size - 1;
    }

    Value operand() {
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

    // int64, mostly from 0 to `bound` - 1.
    Tracked indices(const Shape& shape, std::int64_t bound, Verdict& verdict) {
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

    // ---- Answers

    // A tensor on memory of its own, as it is.
    static Tracked track(const Tensor& tensor) {
        Tracked result = {tensor, std::make_shared<Memory>(), {}};
        result.places.resize(static_cast<std::size_t>(tensor.numel()));
        std::iota(result.places.begin(), result.places.end(), std::size_t{0});
        for (std::size_t i = 0; i < result.places.size(); ++i) {
            result.memory->elements.push_back(element(tensor, i));
        }
        result.memory->version = tensor.storage()->version();
        return result;
    }

    void keep(Tracked tracked) {
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

    static void require_same(const Tensor& got, const Expected& expected) {
        require(got.dtype() == expected.dtype);
        require(got.shape() == expected.shape);
        for (std::size_t i = 0; i < expected.values.size(); ++i) {
            require_close(element(got, i), expected.values[i], expected.dtype,
                          expected.slack.empty() ? 0 : expected.slack[i]);
        }
    }

    // Results on memory of their own.
    void check(const std::string& name, std::vector<Argument> arguments, Verdict verdict,
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

    struct ExpectedView {
        Shape shape;
        std::function<Index(const Index&)> source; // the index of the same element in x
    };

    // Results on the memory of `x`, or where that is allowed a copy.
    void check_views(const std::string& name, const Tracked& x, std::vector<Argument> arguments,
                     Verdict verdict, const std::function<std::vector<ExpectedView>()>& reference,
                     bool may_copy = false) {
        arguments.insert(arguments.begin(), x.tensor);
        if (const auto results = attempt(name, std::move(arguments), verdict)) {
            accept_views(x, *results, reference(), may_copy);
        }
    }

    void accept_views(const Tracked& x, const std::vector<Tensor>& results,
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

    static bool may_be_written(const Tracked& x) {
        std::vector<std::size_t> places = x.places;
        std::ranges::sort(places);
        return std::ranges::adjacent_find(places) == places.end();
    }

    // Writes over `x`, where nothing is written when it fails. Expected has the dtype of x.
    void check_in_place(const std::string& name, Tracked& x, std::vector<Argument> arguments,
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

    void require_all_same() const {
        for (const Tracked& tracked : tensors_) {
            require(tracked.tensor.storage()->version() == tracked.memory->version);
            for (std::size_t i = 0; i < tracked.places.size(); ++i) {
                require(is_close(element(tracked.tensor, i), tracked.at(i), tracked.dtype(), 0));
            }
        }
    }

    // ---- Steps

    void make();
    void rearrange();
    void slice();
    void pick();
    void resize();
    void reshape();
    void divide();
    void diagonal();
    void elementwise();
    void where();
    void masked_fill();
    void convert();
    void copy_over();
    void reduce();
    void place_of_extreme();
    void along();
    void sort();
    void matmul();
    void index_select();
    void gather();
    void add_at();
    void scatter();
    void join();
    void move();
    void pad();
    void select_by_mask();

    [[nodiscard]] static Expected elementwise_result(const Elementwise& row,
                                                     const std::vector<Value>& values,
                                                     const Shape& shape,
                                                     std::optional<DType> target);

    static const Step kSteps[];

    Input input_;
    std::vector<Tracked> tensors_;
};

// ---- New tensors

void Run::make() {
    const auto dtype = static_cast<DType>(input_.below(9));
    Shape shape(input_.below(4));
    std::ranges::generate(shape, [this] { return static_cast<std::int64_t>(input_.below(4)); });
    const auto item = static_cast<std::size_t>(bytes_of(dtype));
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = count_of(shape); i > 0; --i) {
        std::vector<std::uint8_t> one(item, 0);
        const std::uint8_t choice = input_.byte();
        if (choice >= 224) { // any bits, NaN and infinity among them
            one = input_.bytes<std::uint8_t>(item);
        } else if (is_real(dtype)) { // a few quarters
            const double value = (choice % 33 - 16) * 0.25;
            if (dtype == DType::float64) {
                std::memcpy(one.data(), &value, item);
            } else {
                // Exact in all formats: the upper bits of a float32 are those of a bfloat16.
                const auto narrow = static_cast<float>(value);
                std::uint32_t word = 0;
                std::memcpy(&word, &narrow, sizeof(word));
                if (dtype == DType::bfloat16) {
                    word >>= 16;
                } else if (dtype == DType::float16) {
                    const std::uint32_t magnitude = word & 0x7FFFFFFF;
                    word = (word >> 16 & 0x8000) |
                           (magnitude == 0 ? 0 : (magnitude - (112U << 23)) >> 13);
                }
                std::memcpy(one.data(), &word, item);
            }
        } else {
            const std::int64_t value = dtype == DType::boolean ? choice % 2
                                       : dtype == DType::uint8 ? choice % 33
                                                               : choice % 33 - 16;
            std::memcpy(one.data(), &value, item); // little-endian, as all that kael runs on
        }
        bytes.insert(bytes.end(), one.begin(), one.end());
    }
    const Tensor made =
        Tensor::from_bytes(bytes.data(), static_cast<std::int64_t>(bytes.size()), shape, dtype);
    Tracked tracked = track(made);
    for (std::size_t i = 0; i < tracked.places.size(); ++i) {
        require(is_close(
            tracked.at(i),
            decoded(reinterpret_cast<const std::byte*>(bytes.data()) + i * item, dtype), dtype, 0));
    }
    keep(std::move(tracked));
}

// ---- Views

void Run::rearrange() {
    const Tracked x = any();
    const auto rank = static_cast<std::size_t>(x.tensor.rank());
    if (input_.rarely(2)) {
        Verdict verdict = Verdict::right;
        const int first = dimension(x.tensor, verdict);
        const int second = dimension(x.tensor, verdict);
        check_views("transpose", x, {std::int64_t{first}, std::int64_t{second}}, verdict, [&] {
            const auto swapped = [&](Index index) {
                if (rank > 0) {
                    std::swap(index[static_cast<std::size_t>(first + x.tensor.rank()) % rank],
                              index[static_cast<std::size_t>(second + x.tensor.rank()) % rank]);
                }
                return index;
            };
            return std::vector<ExpectedView>{{swapped(x.shape()), swapped}};
        });
        return;
    }
    Shape order(rank);
    std::iota(order.begin(), order.end(), std::int64_t{0});
    for (std::size_t i = 0; i < rank; ++i) {
        std::swap(order[i], order[input_.below(rank)]);
    }
    const bool is_wrong = rank > 1 && input_.rarely(16);
    if (is_wrong) {
        order[0] = order[1];
    }
    check_views("permute", x, {order}, right_if(!is_wrong), [&] {
        Shape shape;
        for (const std::int64_t d : order) {
            shape.push_back(x.shape()[static_cast<std::size_t>(d)]);
        }
        return std::vector<ExpectedView>{{shape, [&](const Index& index) {
                                              Index own(rank);
                                              for (std::size_t d = 0; d < rank; ++d) {
                                                  own[static_cast<std::size_t>(order[d])] =
                                                      index[d];
                                              }
                                              return own;
                                          }}};
    });
}

std::size_t wrap(int dimension, const Tensor& x) {
    return static_cast<std::size_t>(dimension < 0 ? dimension + x.rank() : dimension);
}

void Run::slice() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    const std::int64_t size = verdict == Verdict::right ? x.tensor.size(dimension) : 0;
    const std::int64_t start = around(size);
    if (input_.rarely(2)) {
        const std::int64_t length = around(size);
        const std::int64_t first = start < 0 ? start + size : start;
        if (verdict == Verdict::right) {
            verdict =
                right_if(first >= 0 && first <= size && length >= 0 && length <= size - first);
        }
        check_views("narrow", x, {std::int64_t{dimension}, start, length}, verdict, [&] {
            Shape shape = x.shape();
            const std::size_t d = wrap(dimension, x.tensor);
            shape[d] = length;
            return std::vector<ExpectedView>{{shape, [=](Index index) {
                                                  index[d] += first;
                                                  return index;
                                              }}};
        });
        return;
    }
    const std::int64_t end = around(size);
    const std::int64_t step = input_.rarely(16) ? input_.one_of(kExtremes)
                                                : 1 + static_cast<std::int64_t>(input_.below(3));
    if (verdict == Verdict::right) {
        verdict = right_if(step >= 1);
    }
    check_views("slice", x, {std::int64_t{dimension}, start, end, step}, verdict, [&] {
        std::vector<std::int64_t> taken;
        const auto bounded = [&](std::int64_t i) {
            return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
        };
        for (std::int64_t i = 0; i < size; ++i) {
            if (i >= bounded(start) && i < bounded(end) && (i - bounded(start)) % step == 0) {
                taken.push_back(i);
            }
        }
        Shape shape = x.shape();
        const std::size_t d = wrap(dimension, x.tensor);
        shape[d] = static_cast<std::int64_t>(taken.size());
        return std::vector<ExpectedView>{{shape, [=](Index index) {
                                              index[d] = taken[static_cast<std::size_t>(index[d])];
                                              return index;
                                          }}};
    });
}

void Run::pick() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    const std::int64_t size = verdict == Verdict::right ? x.tensor.size(dimension) : 0;
    const std::int64_t index = around(size);
    verdict = verdict == Verdict::right ? right_if(index >= -size && index < size) : Verdict::wrong;
    check_views("select", x, {std::int64_t{dimension}, index}, verdict, [&] {
        Shape shape = x.shape();
        const auto d = static_cast<std::ptrdiff_t>(wrap(dimension, x.tensor));
        shape.erase(shape.begin() + d);
        return std::vector<ExpectedView>{{shape, [=](Index own) {
                                              own.insert(own.begin() + d,
                                                         index < 0 ? index + size : index);
                                              return own;
                                          }}};
    });
}

void Run::resize() {
    const Tracked x = any();
    const int rank = x.tensor.rank();
    switch (input_.below(3)) {
    case 0: {
        const int place =
            static_cast<int>(input_.below(static_cast<std::size_t>(2 * rank + 4))) - rank - 2;
        check_views("unsqueeze", x, {std::int64_t{place}},
                    right_if(place >= -rank - 1 && place <= rank), [&] {
                        const std::ptrdiff_t d = place < 0 ? place + rank + 1 : place;
                        Shape shape = x.shape();
                        shape.insert(shape.begin() + d, 1);
                        return std::vector<ExpectedView>{{shape, [=](Index index) {
                                                              index.erase(index.begin() + d);
                                                              return index;
                                                          }}};
                    });
        break;
    }
    case 1: {
        Verdict verdict = Verdict::right;
        const bool all = input_.rarely(3);
        const int dimension = all ? 0 : this->dimension(x.tensor, verdict);
        std::vector<Argument> arguments;
        if (!all) {
            arguments.emplace_back(Shape{dimension});
        }
        check_views("squeeze", x, std::move(arguments), verdict, [&] {
            std::vector<bool> gone(static_cast<std::size_t>(rank));
            Shape shape;
            for (std::size_t d = 0; d < gone.size(); ++d) {
                gone[d] = x.shape()[d] == 1 && (all || d == wrap(dimension, x.tensor));
                shape.insert(shape.end(), gone[d] ? 0 : 1, x.shape()[d]);
            }
            return std::vector<ExpectedView>{{shape, [=](Index index) {
                                                  Index own;
                                                  auto next = index.begin();
                                                  for (const bool is_gone : gone) {
                                                      own.push_back(is_gone ? 0 : *next++);
                                                  }
                                                  return own;
                                              }}};
        });
        break;
    }
    default: {
        Shape shape(input_.below(2));
        Shape wanted(shape.size());
        std::ranges::generate(wanted,
                              [this] { return static_cast<std::int64_t>(input_.below(4)); });
        shape = wanted;
        bool fits = true;
        for (const std::int64_t size : x.shape()) {
            const bool changes = size == 1 || input_.rarely(32);
            const std::int64_t other = changes ? static_cast<std::int64_t>(input_.below(4)) : size;
            fits = fits && (size == 1 || other == size);
            const bool keeps = other == size && input_.rarely(4);
            wanted.push_back(keeps ? -1 : other);
            shape.push_back(other);
        }
        check_views("expand", x, {wanted}, right_if(fits), [&] {
            return std::vector<ExpectedView>{
                {shape, [&x](const Index& index) {
                     Index own(index.end() - static_cast<std::ptrdiff_t>(x.shape().size()),
                               index.end());
                     for (std::size_t d = 0; d < own.size(); ++d) {
                         own[d] = x.shape()[d] == 1 ? 0 : own[d];
                     }
                     return own;
                 }}};
        });
        break;
    }
    }
}

// The index of the same element, counted in row-major order.
Index same_element(const Shape& from, const Index& index, const Shape& to) {
    auto rest = static_cast<std::int64_t>(position(from, index));
    Index own(to.size());
    for (std::size_t d = to.size(); d-- > 0;) {
        own[d] = rest % to[d];
        rest /= to[d];
    }
    return own;
}

void Run::reshape() {
    const Tracked x = any();
    const std::int64_t count = x.tensor.numel();
    Shape shape = {count};
    for (std::size_t i = input_.below(4); i > 0; --i) { // splits off a factor
        const std::size_t d = input_.below(shape.size());
        const auto factor = 1 + static_cast<std::int64_t>(input_.below(4));
        if (shape[d] % factor == 0) {
            shape[d] /= factor;
            shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), factor);
        }
    }
    Verdict verdict = Verdict::right;
    Shape wanted = shape;
    if (input_.rarely(4)) {
        const std::size_t unknown = input_.below(shape.size());
        wanted[unknown] = -1;
        const std::int64_t others =
            std::accumulate(wanted.begin(), wanted.end(), std::int64_t{-1}, std::multiplies<>());
        verdict = right_if(others != 0);
    } else if (input_.rarely(16)) {
        wanted[0] = input_.one_of<std::int64_t>({wanted[0] + 1, -2, kExtremes[0], kExtremes[1]});
        const bool is_empty = std::find(wanted.begin(), wanted.end(), 0) != wanted.end();
        verdict = is_empty && count == 0 ? Verdict::open : Verdict::wrong;
        shape = wanted;
    }
    const auto reference = [&] {
        return std::vector<ExpectedView>{
            {shape, [&](const Index& index) { return same_element(shape, index, x.shape()); }}};
    };
    if (input_.rarely(3)) { // a view, or an error where there is none
        try {
            const Tensor viewed = x.tensor.view(wanted);
            require(verdict != Verdict::wrong && viewed.storage() == x.tensor.storage());
            accept_views(x, {viewed}, reference(), false);
        } catch (const kael::Error&) {
            require(verdict != Verdict::right || !x.tensor.is_contiguous());
        }
        return;
    }
    check_views("reshape", x, {wanted}, verdict, reference, true);
}

void Run::divide() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    if (input_.rarely(3)) {
        const int first = dimension(x.tensor, verdict);
        const int last = dimension(x.tensor, verdict);
        if (verdict == Verdict::right && wrap(first, x.tensor) > wrap(last, x.tensor)) {
            verdict = Verdict::wrong;
        }
        check_views(
            "flatten", x, {std::int64_t{first}, std::int64_t{last}}, verdict,
            [&] {
                Shape shape;
                for (std::size_t d = 0; d < x.shape().size(); ++d) {
                    if (d > wrap(first, x.tensor) && d <= wrap(last, x.tensor)) {
                        shape.back() *= x.shape()[d];
                    } else {
                        shape.push_back(x.shape()[d]);
                    }
                }
                shape = x.tensor.rank() == 0 ? Shape{1} : shape;
                return std::vector<ExpectedView>{{shape, [&x, shape](const Index& index) {
                                                      return same_element(shape, index, x.shape());
                                                  }}};
            },
            true);
        return;
    }
    const int dimension = this->dimension(x.tensor, verdict);
    verdict = verdict == Verdict::open ? Verdict::wrong : verdict;
    const std::int64_t size = verdict == Verdict::right ? x.tensor.size(dimension) : 0;
    Shape sizes;
    std::vector<Argument> arguments;
    const bool chunks = input_.rarely(2);
    if (chunks) {
        const std::int64_t count = input_.rarely(16) ? input_.one_of(kExtremes)
                                                     : static_cast<std::int64_t>(input_.below(5));
        arguments = {count};
        verdict = verdict == Verdict::right ? right_if(count >= 1) : verdict;
        if (verdict == Verdict::right) {
            const std::int64_t part = size / count + (size % count != 0 ? 1 : 0);
            for (std::int64_t left = size; left > 0; left -= part) {
                sizes.push_back(std::min(part, left));
            }
            sizes.resize(std::max<std::size_t>(sizes.size(), 1), 0);
        }
    } else {
        std::int64_t left = size;
        for (std::size_t i = input_.below(4); i > 0; --i) {
            sizes.push_back(std::min(left, static_cast<std::int64_t>(input_.below(4))));
            left -= sizes.back();
        }
        sizes.push_back(left);
        if (input_.rarely(16)) {
            sizes.push_back(input_.one_of<std::int64_t>({1, -1, kExtremes[0], kExtremes[1]}));
            verdict = Verdict::wrong;
        }
        arguments = {sizes};
    }
    arguments.emplace_back(std::int64_t{dimension});
    check_views(chunks ? "chunk" : "split", x, std::move(arguments), verdict, [&] {
        std::vector<ExpectedView> parts;
        const std::size_t d = wrap(dimension, x.tensor);
        std::int64_t start = 0;
        for (const std::int64_t part : sizes) {
            Shape shape = x.shape();
            shape[d] = part;
            parts.push_back({shape, [=](Index index) {
                                 index[d] += start;
                                 return index;
                             }});
            start += part;
        }
        return parts;
    });
}

void Run::diagonal() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int first = dimension(x.tensor, verdict);
    const int second = dimension(x.tensor, verdict);
    verdict = verdict == Verdict::open ? Verdict::wrong : verdict;
    std::int64_t offset = 0;
    if (verdict == Verdict::right) {
        const std::int64_t rows = x.tensor.size(first);
        const std::int64_t columns = x.tensor.size(second);
        offset = around(std::max(rows, columns));
        verdict = right_if(wrap(first, x.tensor) != wrap(second, x.tensor) && offset >= -rows &&
                           offset <= columns);
    }
    check_views("diagonal", x, {offset, std::int64_t{first}, std::int64_t{second}}, verdict, [&] {
        const std::size_t a = wrap(first, x.tensor);
        const std::size_t b = wrap(second, x.tensor);
        Shape shape;
        for (std::size_t d = 0; d < x.shape().size(); ++d) {
            shape.insert(shape.end(), d == a || d == b ? 0 : 1, x.shape()[d]);
        }
        std::int64_t length = 0;
        for (std::int64_t row = 0; row < x.shape()[a]; ++row) {
            length += row + offset >= 0 && row + offset < x.shape()[b] ? 1 : 0;
        }
        shape.push_back(length);
        return std::vector<ExpectedView>{
            {shape, [=](const Index& index) {
                 Index own;
                 auto next = index.begin();
                 const std::int64_t row = index.back() + std::max<std::int64_t>(-offset, 0);
                 for (std::size_t d = 0; d < index.size() + 1; ++d) {
                     own.push_back(d == a ? row : d == b ? row + offset : *next++);
                 }
                 return own;
             }}};
    });
}

// ---- Elementwise

// In place, `target` is the dtype that is written.
Expected Run::elementwise_result(const Elementwise& row, const std::vector<Value>& values,
                                 const Shape& shape, std::optional<DType> target) {
    DType common = result_dtype(values);
    if (row.produces == Produces::real && !is_real(common)) {
        common = DType::float32;
    }
    const DType compute = compute_dtype(common);
    const DType produced = row.produces == Produces::boolean ? DType::boolean : compute;
    Expected result = {
        target.value_or(row.produces == Produces::boolean ? DType::boolean : common), shape, {}};
    for_each_index(shape, [&](const Index& index) {
        double reals[3] = {};
        std::int64_t integers[3] = {};
        for (std::size_t i = 0; i < values.size(); ++i) {
            const Number value = values[i].at(index, common);
            reals[i] = value.real;
            integers[i] = value.integer;
        }
        Number value;
        if (!is_real(compute)) {
            value.integer = row.integer(integers);
        } else if (row.produces == Produces::boolean) {
            value.integer = row.real(reals) != 0 ? 1 : 0;
        } else {
            value.real = row.real(reals);
        }
        const bool is_loose = !row.is_exact && is_real(compute);
        if (is_loose) {
            const double size = std::abs(value.real);
            result.slack.push_back(row.slack +
                                   (std::isfinite(size)
                                        ? std::ldexp(size, compute == DType::float64 ? -48 : -20)
                                        : 0) +
                                   std::ldexp(1.0, format(compute).least + 3));
            // The result may be rounded to either side.
            result.values.push_back(
                is_real(result.dtype) ? value : converted(value, compute, result.dtype));
            return;
        }
        if (is_real(produced)) {
            value.real = rounded(value.real, produced);
        }
        result.values.push_back(converted(value, produced, result.dtype));
    });
    return result;
}

void Run::elementwise() {
    const Elementwise& row = kElementwise[input_.below(std::size(kElementwise))];
    const bool in_place = input_.rarely(2);
    std::vector<Value> values;
    for (std::size_t i = 0; i < row.arity; ++i) {
        values.push_back(i == 0 && in_place ? Value{.tracked = &any()} : operand());
    }
    Shape shape;
    Verdict verdict = right_if(broadcasts(
        [&] {
            std::vector<Shape> shapes;
            for (const Value& value : values) {
                shapes.push_back(value.shape());
            }
            return shapes;
        }(),
        shape));
    const DType common = result_dtype(values);
    const DType computed =
        row.produces == Produces::real && !is_real(common) ? DType::float32 : common;
    if ((common == DType::boolean && !row.takes_bools) ||
        (row.integer == nullptr && !is_real(computed))) {
        verdict = Verdict::wrong;
    }
    const bool fit =
        std::ranges::all_of(values, [&](const Value& value) { return value.fits(computed); });
    if (row.produces != Produces::boolean && !fit) {
        verdict = Verdict::wrong;
    }
    if (verdict == Verdict::right && row.rule != Rule::none && !is_real(computed)) {
        for_each_index(shape, [&](const Index& index) {
            const std::int64_t y = values[1].at(index, computed).integer;
            if (row.rule == Rule::not_zero ? y == 0 : y < 0) {
                verdict = Verdict::wrong;
            }
        });
    }
    std::vector<Argument> arguments;
    for (std::size_t i = in_place ? 1 : 0; i < values.size(); ++i) {
        arguments.push_back(values[i].argument());
    }
    if (!in_place) {
        check(row.name, std::move(arguments), verdict,
              [&] { return std::vector<Expected>{elementwise_result(row, values, shape, {})}; });
        return;
    }
    Tracked x = *values[0].tracked;
    if (shape != x.shape() ||
        (row.produces != Produces::boolean && kind(computed) > kind(x.dtype()))) {
        verdict = Verdict::wrong;
    }
    check_in_place(std::string(row.name) + '_', x, std::move(arguments), verdict,
                   [&] { return elementwise_result(row, values, shape, x.dtype()); });
}

void Run::where() {
    Tracked& condition = any();
    const Value x = operand();
    const Value y = operand();
    Shape shape;
    const DType common = result_dtype({x, y});
    const bool is_right = broadcasts({condition.shape(), x.shape(), y.shape()}, shape) &&
                          condition.dtype() == DType::boolean && x.fits(common) && y.fits(common);
    check("where", {condition.tensor, x.argument(), y.argument()}, right_if(is_right), [&] {
        Expected result = {common, shape, {}};
        for_each_index(shape, [&](const Index& index) {
            const Value& chosen = condition.broadcast(index).integer != 0 ? x : y;
            const Number value = chosen.at(index, common);
            result.values.push_back(converted(value, common, common));
        });
        return std::vector<Expected>{result};
    });
}

void Run::masked_fill() {
    Tracked x = any();
    const Tracked mask = any();
    const Value value = operand();
    Shape shape;
    bool is_right = broadcasts({x.shape(), mask.shape()}, shape) && value.shape().empty() &&
                    mask.dtype() == DType::boolean;
    const DType common = result_dtype({value, {.tracked = &x}});
    is_right = is_right && common == x.dtype() && value.fits(x.dtype());
    const auto reference = [&] {
        Expected result = {x.dtype(), shape, {}};
        for_each_index(shape, [&](const Index& index) {
            result.values.push_back(mask.broadcast(index).integer != 0 ? value.at(index, x.dtype())
                                                                       : x.broadcast(index));
        });
        return result;
    };
    if (input_.rarely(2)) {
        is_right = is_right && shape == x.shape();
        check_in_place("masked_fill_", x, {mask.tensor, value.argument()}, right_if(is_right),
                       reference);
    } else {
        check("masked_fill", {x.tensor, mask.tensor, value.argument()}, right_if(is_right),
              [&] { return std::vector<Expected>{reference()}; });
    }
}

void Run::convert() {
    const Tracked x = any();
    const auto same = [&] {
        return std::vector<ExpectedView>{{x.shape(), [](const Index& index) { return index; }}};
    };
    const std::int64_t wanted = input_.rarely(32) ? 9 : static_cast<std::int64_t>(input_.below(9));
    if (input_.rarely(4)) {
        check_views(x.tensor.is_contiguous() ? "contiguous" : "reshape", x,
                    x.tensor.is_contiguous() ? std::vector<Argument>{}
                                             : std::vector<Argument>{x.shape()},
                    Verdict::right, same);
    } else if (wanted < 9 && static_cast<DType>(wanted) == x.dtype()) {
        check_views("to", x, {wanted}, Verdict::right, same);
    } else if (input_.rarely(4)) {
        check("clone", {x.tensor}, Verdict::right,
              [&] { return std::vector<Expected>{{x.dtype(), x.shape(), x.values()}}; });
    } else {
        check("to", {x.tensor, wanted}, right_if(wanted < 9), [&] {
            const auto dtype = static_cast<DType>(wanted);
            Expected result = {dtype, x.shape(), {}};
            for (const Number value : x.values()) {
                result.values.push_back(converted(value, x.dtype(), dtype));
            }
            return std::vector<Expected>{result};
        });
    }
}

void Run::copy_over() {
    Tracked x = any();
    const Value source = operand();
    Shape shape;
    const bool is_right = broadcasts({x.shape(), source.shape()}, shape) && shape == x.shape() &&
                          source.fits(x.dtype());
    check_in_place("copy_", x, {source.argument()}, right_if(is_right), [&] {
        Expected result = {x.dtype(), shape, {}};
        for_each_index(shape, [&](const Index& index) {
            // A number is converted with all of its digits.
            const DType from = source.tracked != nullptr          ? source.dtype()
                               : source.dtype() == DType::float32 ? DType::float64
                                                                  : source.dtype();
            result.values.push_back(converted(source.at(index, from), from, x.dtype()));
        });
        return result;
    });
}

// ---- Reductions

void Run::reduce() {
    const Reduction& row = kReductions[input_.below(std::size(kReductions))];
    const Tracked x = any();
    const bool keep = input_.rarely(2);
    Verdict verdict = Verdict::right;
    Shape dimensions;
    std::vector<bool> gone(x.shape().size(), false);
    for (std::size_t i = input_.below(3); i > 0; --i) {
        const int dimension = this->dimension(x.tensor, verdict);
        dimensions.push_back(dimension);
        if (verdict == Verdict::right) {
            verdict = gone[wrap(dimension, x.tensor)] ? Verdict::wrong : verdict;
            gone[wrap(dimension, x.tensor)] = true;
        }
    }
    if (verdict == Verdict::open) { // of a tensor without dimensions
        verdict = dimensions.size() > 1 ? Verdict::wrong : Verdict::open;
    }
    if (dimensions.empty()) {
        gone.assign(gone.size(), true);
    }
    std::int64_t length = 1;
    Shape shape;
    for (std::size_t d = 0; d < gone.size(); ++d) {
        length *= gone[d] ? x.shape()[d] : 1;
        shape.insert(shape.end(), gone[d] && !keep ? 0 : 1, gone[d] ? 1 : x.shape()[d]);
    }
    if ((row.floats_only && !is_real(x.dtype())) || (row.needs_elements && length == 0)) {
        verdict = Verdict::wrong;
    }
    std::vector<Argument> arguments = {x.tensor};
    if (std::string_view(row.name) == "norm") {
        arguments.emplace_back(2.0);
    }
    arguments.emplace_back(dimensions);
    arguments.emplace_back(keep);
    check(row.name, std::move(arguments), verdict, [&] {
        const bool sums = row.answers == Answers::sum && !is_real(x.dtype());
        const DType dtype = row.answers == Answers::boolean                       ? DType::boolean
                            : sums                                                ? DType::int64
                            : row.answers == Answers::real && !is_real(x.dtype()) ? DType::float32
                                                                                  : x.dtype();
        std::vector<std::vector<Number>> rows(static_cast<std::size_t>(count_of(shape)));
        for_each_index(x.shape(), [&](const Index& index) {
            Index place;
            for (std::size_t d = 0; d < gone.size(); ++d) {
                place.insert(place.end(), gone[d] && !keep ? 0 : 1, gone[d] ? 0 : index[d]);
            }
            rows[position(shape, place)].push_back(x.at(index));
        });
        Expected result = {dtype, shape, {}};
        for (const std::vector<Number>& values : rows) {
            const Reduced reduced = row.of(values, x.dtype());
            result.values.push_back(reduced.value);
            result.slack.push_back(reduced.slack);
        }
        return std::vector<Expected>{result};
    });
}

// The elements along a dimension, for each index into the others.
std::vector<std::vector<Number>> rows_of(const Tracked& x, std::size_t dimension) {
    if (x.shape().empty()) {
        return {{x.at(std::size_t{0})}};
    }
    Shape others = x.shape();
    others[dimension] = 1;
    std::vector<std::vector<Number>> rows(static_cast<std::size_t>(count_of(others)));
    for_each_index(x.shape(), [&](Index index) {
        const Number value = x.at(index);
        index[dimension] = 0;
        rows[position(others, index)].push_back(value);
    });
    return rows;
}

// The reverse of rows_of.
Expected joined(const std::vector<std::vector<Number>>& rows, Shape shape, std::size_t dimension,
                std::int64_t length, DType dtype) {
    Expected result = {dtype, shape, {}};
    if (shape.empty()) {
        result.values = rows.front();
        return result;
    }
    Shape others = shape;
    others[dimension] = 1;
    result.shape[dimension] = length;
    for_each_index(result.shape, [&](Index index) {
        const auto i = static_cast<std::size_t>(index[dimension]);
        index[dimension] = 0;
        result.values.push_back(rows[position(others, index)][i]);
    });
    return result;
}

void Run::place_of_extreme() {
    const Tracked x = any();
    const bool is_largest = input_.rarely(2);
    const bool keep = input_.rarely(2);
    const bool over_all = input_.rarely(2);
    Verdict verdict = Verdict::right;
    const int dimension = over_all ? 0 : this->dimension(x.tensor, verdict);
    const std::int64_t length = over_all || x.tensor.rank() == 0 ? x.tensor.numel()
                                : verdict == Verdict::right      ? x.tensor.size(dimension)
                                                                 : 0;
    if (length == 0) {
        verdict = Verdict::wrong;
    }
    std::vector<Argument> arguments = {x.tensor};
    arguments.push_back(over_all ? Argument() : Argument(std::int64_t{dimension}));
    arguments.emplace_back(keep);
    check(is_largest ? "argmax" : "argmin", std::move(arguments), verdict, [&] {
        const std::vector<std::vector<Number>> rows =
            over_all ? std::vector<std::vector<Number>>{x.values()}
                     : rows_of(x, wrap(dimension, x.tensor));
        Expected result = {DType::int64, x.shape(), {}};
        if (over_all) {
            result.shape.assign(keep ? x.shape().size() : 0, 1);
        } else if (!x.shape().empty()) {
            const auto d = static_cast<std::ptrdiff_t>(wrap(dimension, x.tensor));
            result.shape.erase(result.shape.begin() + d);
            result.shape.insert(result.shape.begin() + d, keep ? 1 : 0, 1);
        }
        for (const std::vector<Number>& row : rows) {
            const auto is_nan = [&](Number v) { return is_real(x.dtype()) && std::isnan(v.real); };
            auto best = std::ranges::find_if(row, is_nan);
            if (best == row.end()) {
                best = row.begin();
                for (auto other = row.begin(); other != row.end(); ++other) {
                    const bool is_better = is_largest ? is_less(*best, *other, x.dtype())
                                                      : is_less(*other, *best, x.dtype());
                    best = is_better ? other : best;
                }
            }
            result.values.push_back({0, best - row.begin()});
        }
        return std::vector<Expected>{result};
    });
}

void Run::along() {
    const Tracked x = any();
    const char* const name = input_.one_of({"cumsum", "softmax", "log_softmax"});
    const bool sums = name[0] == 'c';
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    if (!sums && !is_real(x.dtype())) {
        verdict = Verdict::wrong;
    }
    check(name, {x.tensor, std::int64_t{dimension}}, verdict, [&] {
        std::vector<std::vector<Number>> rows = rows_of(x, wrap(dimension, x.tensor));
        std::vector<std::vector<Number>> slacks;
        for (std::vector<Number>& row : rows) {
            std::vector<Number>& slack = slacks.emplace_back(row.size());
            if (sums) {
                std::vector<Number> so_far;
                std::vector<Number> totals;
                for (std::size_t i = 0; i < row.size(); ++i) {
                    so_far.push_back(row[i]);
                    const Reduced total = sum_of(so_far, x.dtype());
                    totals.push_back(total.value);
                    slack[i].real = total.slack;
                }
                row = totals;
                continue;
            }
            // Beside an infinite one nothing is left to divide.
            const LogSumExp parts = parts_of_logsumexp(row, x.dtype());
            const double most = std::isinf(parts.most) ? kUnknown : parts.most;
            const double unit = x.dtype() == DType::float64 ? 1e-12 : 1e-6;
            const double size = largest_size(row);
            for (std::size_t i = 0; i < row.size(); ++i) {
                const double logarithm = row[i].real - most - parts.log_of_sum;
                const double tolerance = unit * (1 + (std::isfinite(size) ? size : 0));
                row[i].real = name[0] == 'l' ? logarithm : std::exp(logarithm);
                slack[i].real = name[0] == 'l' && std::isinf(logarithm) ? 0 : tolerance;
            }
        }
        const DType dtype = is_real(x.dtype()) ? x.dtype() : DType::int64;
        const std::int64_t length = x.shape().empty() ? 1 : x.tensor.size(dimension);
        const std::size_t d = wrap(dimension, x.tensor);
        Expected result = joined(rows, x.shape(), d, length, dtype);
        for (const Number slack : joined(slacks, x.shape(), d, length, DType::float64).values) {
            result.slack.push_back(slack.real);
        }
        return std::vector<Expected>{result};
    });
}

void Run::sort() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    const bool descending = input_.rarely(2);
    const std::int64_t length = x.shape().empty()           ? 1
                                : verdict == Verdict::right ? x.tensor.size(dimension)
                                                            : 0;
    const std::size_t what = input_.below(3);
    const std::int64_t count = what == 2 ? around(length) : length;
    const bool is_fitting = count >= 0 && count <= length;
    if (!is_fitting) {
        verdict = Verdict::wrong;
    }
    std::vector<Argument> arguments = {x.tensor, std::int64_t{dimension}, descending};
    if (what == 2) {
        arguments.insert(arguments.begin() + 1, count);
        verdict = x.shape().empty() && count != 1 ? Verdict::open : verdict;
    }
    constexpr const char* kNames[] = {"sort", "argsort", "topk"};
    check(kNames[what], std::move(arguments), verdict, [&] {
        std::vector<std::vector<Number>> rows = rows_of(x, wrap(dimension, x.tensor));
        std::vector<std::vector<Number>> places;
        for (std::vector<Number>& row : rows) {
            std::vector<std::size_t> order(row.size());
            std::iota(order.begin(), order.end(), std::size_t{0});
            // Equal ones stay in their order.
            std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
                const bool is_before = is_less(row[a], row[b], x.dtype());
                const bool is_behind = is_less(row[b], row[a], x.dtype());
                return is_before == is_behind ? a < b : descending ? is_behind : is_before;
            });
            std::vector<Number>& place = places.emplace_back();
            std::vector<Number> sorted;
            for (const std::size_t i : order) {
                place.push_back({0, static_cast<std::int64_t>(i)});
                sorted.push_back(row[i]);
            }
            row = sorted;
        }
        const std::size_t d = wrap(dimension, x.tensor);
        std::vector<Expected> results = {joined(rows, x.shape(), d, count, x.dtype()),
                                         joined(places, x.shape(), d, count, DType::int64)};
        if (what == 1) {
            results.erase(results.begin());
        }
        return results;
    });
}

// ---- Products

void Run::matmul() {
    const Tracked a = any();
    const Tracked b = any();
    Shape left = a.shape();
    Shape right = b.shape();
    Shape batch;
    bool is_right =
        a.dtype() == b.dtype() && a.dtype() != DType::boolean && !left.empty() && !right.empty();
    if (is_right) {
        left.insert(left.begin(), left.size() == 1 ? 1 : 0, 1);
        right.insert(right.end(), right.size() == 1 ? 1 : 0, 1);
        is_right =
            left.back() == *(right.end() - 2) &&
            broadcasts({Shape(left.begin(), left.end() - 2), Shape(right.begin(), right.end() - 2)},
                       batch);
    }
    check("matmul", {a.tensor, b.tensor}, right_if(is_right), [&] {
        Expected result = {a.dtype(), batch, {}};
        Shape full = batch;
        full.push_back(*(left.end() - 2));
        full.push_back(right.back());
        result.shape.insert(result.shape.end(), a.shape().size() == 1 ? 0 : 1, full.end()[-2]);
        result.shape.insert(result.shape.end(), b.shape().size() == 1 ? 0 : 1, full.back());
        const bool is_double = a.dtype() == DType::float64;
        const double unit = is_double ? 0x1p-51 : 0x1p-22;
        const double range = format(is_double ? DType::float64 : DType::float32).largest;
        const auto at = [](const Tracked& x, const Shape& shape, Index index) {
            index.erase(index.begin(), index.end() - static_cast<std::ptrdiff_t>(shape.size()));
            for (std::size_t d = 0; d + 2 < shape.size(); ++d) {
                index[d] = shape[d] == 1 ? 0 : index[d];
            }
            return x.at(position(shape, index));
        };
        for_each_index(full, [&](const Index& index) {
            Sum sum;
            std::uint64_t integers = 0;
            const auto terms = static_cast<std::size_t>(left.back());
            for (std::int64_t k = 0; k < left.back(); ++k) {
                Index row = index;
                Index column = index;
                row.back() = k;
                column.end()[-2] = k;
                const Number x = at(a, left, row);
                const Number y = at(b, right, column);
                sum.add(x.real * y.real, unit);
                integers += bits(x.integer) * bits(y.integer);
            }
            const auto total = static_cast<std::int64_t>(integers);
            result.values.push_back(
                {sum.value, is_real(a.dtype()) ? 0 : wrapped(total, a.dtype())});
            // Products may fall below the smallest number.
            result.slack.push_back(sum.known_slack(terms, unit, range) +
                                   (is_double ? 1e-300 : 1e-37));
        });
        return std::vector<Expected>{result};
    });
}

// ---- Elements elsewhere

void Run::index_select() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    verdict = verdict == Verdict::open ? Verdict::wrong : verdict;
    const std::int64_t bound = verdict == Verdict::right ? x.tensor.size(dimension) : 1;
    Verdict indexed = verdict;
    Tracked index = indices({static_cast<std::int64_t>(input_.below(4))}, bound, indexed);
    if (input_.rarely(16)) {
        index = any();
        indexed = verdict == Verdict::right && index.dtype() == DType::int64 ? Verdict::open
                                                                             : Verdict::wrong;
    }
    check("index_select", {x.tensor, std::int64_t{dimension}, index.tensor}, indexed, [&] {
        Expected result = {x.dtype(), x.shape(), {}};
        const std::size_t d = wrap(dimension, x.tensor);
        result.shape[d] = index.tensor.numel();
        for_each_index(result.shape, [&](Index place) {
            place[d] = index.at(static_cast<std::size_t>(place[d])).integer;
            result.values.push_back(x.at(place));
        });
        return std::vector<Expected>{result};
    });
}

// The shape of an index for gather and its like.
Shape smaller(const Shape& shape, Input& input) {
    Shape result = shape;
    for (std::int64_t& size : result) {
        size = input.rarely(4)
                   ? static_cast<std::int64_t>(input.below(static_cast<std::size_t>(size) + 1))
                   : size;
    }
    return result;
}

void Run::gather() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    if (verdict == Verdict::wrong || x.shape().empty()) {
        return;
    }
    const std::size_t d = wrap(dimension, x.tensor);
    Shape shape = smaller(x.shape(), input_);
    shape[d] = static_cast<std::int64_t>(input_.below(4));
    const Tracked index = indices(shape, x.shape()[d], verdict);
    check("gather", {x.tensor, std::int64_t{dimension}, index.tensor}, verdict, [&] {
        Expected result = {x.dtype(), shape, {}};
        for_each_index(shape, [&](Index place) {
            place[d] = index.at(place).integer;
            result.values.push_back(x.at(place));
        });
        return std::vector<Expected>{result};
    });
}

void Run::add_at() {
    Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    if (verdict == Verdict::wrong || x.shape().empty()) {
        return;
    }
    const std::size_t d = wrap(dimension, x.tensor);
    const Tracked source = any();
    const bool slices = input_.rarely(2);
    Shape shape = source.shape();
    bool fits = shape.size() == x.shape().size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) {
        fits = i == d || (slices ? shape[i] == x.shape()[i] : shape[i] <= x.shape()[i]);
    }
    fits = fits && source.dtype() == x.dtype() && x.dtype() != DType::boolean;
    const Shape index_shape = !slices ? shape : Shape{fits ? shape[d] : 1};
    const Tracked index = indices(index_shape, x.shape()[d], verdict);
    verdict = fits ? verdict : Verdict::wrong;
    const auto reference = [&] {
        Expected result = {x.dtype(), x.shape(), x.values()};
        std::vector<Sum> sums(result.values.size());
        for (std::size_t i = 0; i < sums.size(); ++i) {
            sums[i].add(result.values[i].real, 0x1p-22);
        }
        for_each_index(shape, [&](const Index& from) {
            Index to = from;
            to[d] = index.at(slices ? static_cast<std::size_t>(from[d]) : position(shape, from))
                        .integer;
            const std::size_t i = position(x.shape(), to);
            const Number added = source.at(from);
            sums[i].add(added.real, 0x1p-22);
            result.values[i].integer = wrapped(
                static_cast<std::int64_t>(bits(result.values[i].integer) + bits(added.integer)),
                x.dtype());
        });
        for (std::size_t i = 0; i < sums.size(); ++i) {
            result.values[i].real = sums[i].value;
            const double range = format(compute_dtype(x.dtype())).largest;
            result.slack.push_back(sums[i].known_slack(source.places.size(), 0x1p-22, range));
        }
        return result;
    };
    const std::string name = slices ? "index_add" : "scatter_add";
    const std::vector<Argument> arguments = {std::int64_t{dimension}, index.tensor, source.tensor};
    if (input_.rarely(2)) {
        check_in_place(name + '_', x, arguments, verdict, reference);
    } else {
        check(name, {x.tensor, arguments[0], arguments[1], arguments[2]}, verdict,
              [&] { return std::vector<Expected>{reference()}; });
    }
}

void Run::scatter() {
    Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    if (verdict == Verdict::wrong || x.shape().empty()) {
        return;
    }
    const std::size_t d = wrap(dimension, x.tensor);
    const Value source = operand();
    Shape shape = source.tracked != nullptr ? source.shape() : smaller(x.shape(), input_);
    bool fits = shape.size() == x.shape().size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) {
        fits = i == d || shape[i] <= x.shape()[i];
    }
    fits = fits && (source.tracked != nullptr
                        ? source.dtype() == x.dtype()
                        : source.fits(x.dtype()) && kind(source.dtype()) <= kind(x.dtype()));
    const Tracked index = indices(shape, x.shape()[d], verdict);
    verdict = fits ? verdict : Verdict::wrong;
    const auto reference = [&] {
        Expected result = {x.dtype(), x.shape(), x.values()};
        for_each_index(shape, [&](const Index& from) {
            Index to = from;
            to[d] = index.at(from).integer;
            result.values[position(x.shape(), to)] = source.at(from, x.dtype());
        });
        return result;
    };
    if (input_.rarely(2)) {
        check_in_place("scatter_", x, {std::int64_t{dimension}, index.tensor, source.argument()},
                       verdict, reference);
    } else {
        check("scatter", {x.tensor, std::int64_t{dimension}, index.tensor, source.argument()},
              verdict, [&] { return std::vector<Expected>{reference()}; });
    }
}

void Run::join() {
    std::vector<Tracked> parts(1 + input_.below(3));
    std::ranges::generate(parts, [this] { return any(); });
    const bool stacks = input_.rarely(2);
    Verdict verdict = Verdict::right;
    const Tensor& first = parts[0].tensor;
    const int rank = first.rank();
    const int dimension = stacks
                              ? static_cast<int>(input_.below(static_cast<std::size_t>(rank) + 1))
                              : this->dimension(first, verdict);
    verdict = verdict == Verdict::open ? Verdict::wrong : verdict;
    const std::size_t d = wrap(dimension, first);
    DType dtype = first.dtype();
    std::vector<Tensor> tensors;
    for (const Tracked& part : parts) {
        Shape shape = part.shape();
        if (verdict == Verdict::right && !stacks && shape.size() == first.shape().size()) {
            shape[d] = first.shape()[d];
        }
        verdict = shape == first.shape() ? verdict : Verdict::wrong;
        dtype = common_dtype(dtype, part.dtype());
        tensors.push_back(part.tensor);
    }
    check(stacks ? "stack" : "cat", {tensors, std::int64_t{dimension}}, verdict, [&] {
        Expected result = {dtype, first.shape(), {}};
        if (stacks) {
            result.shape.insert(result.shape.begin() + static_cast<std::ptrdiff_t>(d),
                                static_cast<std::int64_t>(parts.size()));
        } else {
            result.shape[d] = 0;
            for (const Tracked& part : parts) {
                result.shape[d] += part.shape()[d];
            }
        }
        for_each_index(result.shape, [&](Index index) {
            auto part = parts.begin();
            if (stacks) {
                part += static_cast<std::ptrdiff_t>(index[d]);
                index.erase(index.begin() + static_cast<std::ptrdiff_t>(d));
            } else {
                for (; index[d] >= part->shape()[d]; ++part) {
                    index[d] -= part->shape()[d];
                }
            }
            result.values.push_back(converted(part->at(index), part->dtype(), dtype));
        });
        return std::vector<Expected>{result};
    });
}

void Run::move() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    if (x.shape().empty()) {
        return;
    }
    const std::size_t d = verdict == Verdict::right ? wrap(dimension, x.tensor) : 0;
    const std::int64_t size = x.shape()[d];
    Expected result = {x.dtype(), x.shape(), {}};
    const auto from = [&](const std::function<void(Index&)>& source) {
        for_each_index(result.shape, [&](Index index) {
            source(index);
            result.values.push_back(x.at(index));
        });
        return std::vector<Expected>{result};
    };
    switch (input_.below(3)) {
    case 0:
        check("flip", {x.tensor, Shape{dimension}}, verdict,
              [&] { return from([&](Index& index) { index[d] = size - 1 - index[d]; }); });
        break;
    case 1: {
        const std::int64_t shift = around(size);
        check("roll", {x.tensor, Shape{shift}, Shape{dimension}}, verdict, [&] {
            return from(
                [&](Index& index) { index[d] = ((index[d] - shift % size) % size + size) % size; });
        });
        break;
    }
    default: {
        Shape counts(x.shape().size() + input_.below(2));
        std::ranges::generate(counts,
                              [this] { return static_cast<std::int64_t>(input_.below(3)); });
        const bool is_wrong = input_.rarely(32);
        counts[0] = is_wrong ? -1 : counts[0];
        check("repeat", {x.tensor, counts}, right_if(!is_wrong), [&] {
            result.shape.insert(result.shape.begin(), counts.size() - x.shape().size(), 1);
            for (std::size_t i = 0; i < counts.size(); ++i) {
                result.shape[i] *= counts[i];
            }
            return from([&](Index& index) {
                index.erase(index.begin(),
                            index.end() - static_cast<std::ptrdiff_t>(x.shape().size()));
                for (std::size_t i = 0; i < index.size(); ++i) {
                    index[i] %= x.shape()[i];
                }
            });
        });
        break;
    }
    }
}

void Run::pad() {
    const Tracked x = any();
    if (x.shape().empty()) {
        return;
    }
    const std::int64_t size = x.shape().back();
    const std::int64_t before = around(2);
    const std::int64_t after = around(2);
    const std::size_t mode = input_.below(4);
    const Value value = {.number = input_.rarely(2) ? Scalar(true) : Scalar(std::int64_t{1})};
    // What is left of the dimension, and what is added to its ends.
    const auto taken = [](std::int64_t amount) { return amount < 0 ? -(amount + 1) : -1; };
    bool is_right = taken(before) < size && taken(after) < size && before < 100 && after < 100;
    std::int64_t left = 0;
    if (is_right) {
        left = size + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
        is_right = left >= 0;
    }
    const std::int64_t added = std::max(before, after);
    if (mode == 0) {
        is_right = is_right && kind(value.dtype()) <= kind(x.dtype());
    } else if (added > 0) {
        is_right = is_right && (mode == 1 ? added < size : mode == 3 ? added <= left : size > 0);
    }
    const bool is_huge = before > 100 || after > 100;
    if (is_huge) {
        return; // as much memory as that is another fuzzer's subject
    }
    check("pad",
          {x.tensor, Shape{before, after}, value.argument(), static_cast<std::int64_t>(mode)},
          right_if(is_right), [&] {
              Expected result = {x.dtype(), x.shape(), {}};
              result.shape.back() = size + before + after;
              const std::int64_t first = std::max<std::int64_t>(-before, 0);
              for_each_index(result.shape, [&](Index index) {
                  const std::int64_t place = index.back() - before;
                  const bool is_inside = place >= first && place < first + left;
                  if (mode == 0 && !is_inside) {
                      result.values.push_back(value.at(index, x.dtype()));
                      return;
                  }
                  std::int64_t source = place;
                  if (mode == 1) {
                      source = place < 0 ? -place : place >= size ? 2 * (size - 1) - place : place;
                  } else if (mode == 2) {
                      source = std::clamp<std::int64_t>(place, 0, size - 1);
                  } else if (mode == 3) {
                      source = is_inside ? place : place < first ? place + left : place - left;
                  }
                  index.back() = source;
                  result.values.push_back(x.at(index));
              });
              return std::vector<Expected>{result};
          });
}

void Run::select_by_mask() {
    const Tracked x = any();
    if (input_.rarely(2)) {
        check("nonzero", {x.tensor}, Verdict::right, [&] {
            Expected result = {DType::int64, {0, x.tensor.rank()}, {}};
            for_each_index(x.shape(), [&](const Index& index) {
                if (is_true(x.at(index), x.dtype())) {
                    ++result.shape[0];
                    for (const std::int64_t i : index) {
                        result.values.push_back({0, i});
                    }
                }
            });
            return std::vector<Expected>{result};
        });
        return;
    }
    const Tracked mask = any();
    Shape shape;
    const bool is_right =
        broadcasts({x.shape(), mask.shape()}, shape) && mask.dtype() == DType::boolean;
    check("masked_select", {x.tensor, mask.tensor}, right_if(is_right), [&] {
        Expected result = {x.dtype(), {0}, {}};
        for_each_index(shape, [&](const Index& index) {
            if (mask.broadcast(index).integer != 0) {
                ++result.shape[0];
                result.values.push_back(x.broadcast(index));
            }
        });
        return std::vector<Expected>{result};
    });
}

// ---- The sequence

// In the order of the corpus: a new one goes to the end.
const Run::Step Run::kSteps[] = {
    &Run::make,        &Run::rearrange,   &Run::slice,          &Run::pick,
    &Run::resize,      &Run::reshape,     &Run::divide,         &Run::diagonal,
    &Run::elementwise, &Run::elementwise, &Run::where,          &Run::masked_fill,
    &Run::convert,     &Run::copy_over,   &Run::reduce,         &Run::place_of_extreme,
    &Run::along,       &Run::sort,        &Run::matmul,         &Run::index_select,
    &Run::gather,      &Run::add_at,      &Run::scatter,        &Run::join,
    &Run::move,        &Run::pad,         &Run::select_by_mask,
};

void Run::run() {
    make();
    for (int i = 0; i < kMostSteps && !input_.finished(); ++i) {
        (this->*kSteps[input_.below(std::size(kSteps))])();
        require_all_same();
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Run(Input(data, size)).run();
    return 0;
}
