#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "run.h"

namespace kael::fuzz {

namespace {

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

} // namespace

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
    check_either_way(name, x, {std::int64_t{dimension}, index.tensor, source.tensor}, verdict,
                     reference);
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
    check_either_way("scatter", x, {std::int64_t{dimension}, index.tensor, source.argument()},
                     verdict, reference);
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

} // namespace kael::fuzz
