// Operators that are made of others, which record what gradients need.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kael/creation.h"
#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/record.h"
#include "base/checked_arithmetic.h"
#include "tensor/defined.h"
#include "tensor/dimensions.h"

namespace kael {

namespace {

// A dimension that is there; a tensor without any has none.
int dimension_of(const Tensor& x, int dimension, const std::string& name) {
    dimension = wrap_dimension(x, dimension, name);
    KAEL_CHECK(x.rank() > 0, name << ": a tensor without dimensions, expected one or more");
    return dimension;
}

} // namespace

Tensor narrow(const Tensor& x, int dimension, std::int64_t start, std::int64_t length) {
    dimension = dimension_of(x, dimension, "narrow");
    const std::int64_t size = x.size(dimension);
    const std::int64_t first = start < 0 ? start + size : start;
    KAEL_CHECK(first >= 0 && first <= size, "narrow: the start "
                                                << start << " in dimension " << dimension
                                                << " of a tensor of shape " << to_string(x.shape())
                                                << ", expected " << -size << " to " << size);
    KAEL_CHECK(length >= 0 && length <= size - first,
               "narrow: " << length << " elements from " << start << " on, in dimension "
                          << dimension << " of a tensor of shape " << to_string(x.shape())
                          << ", expected 0 to " << size - first);
    return x.slice(dimension, first, first + length);
}

std::vector<Tensor> split(const Tensor& x, const Shape& sizes, int dimension) {
    dimension = dimension_of(x, dimension, "split");
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) {
        KAEL_CHECK(size >= 0, "split: the sizes " << to_string(sizes)
                                                  << " have a negative one, expected 0 or more");
        total = checked_add(total, size, "split: the sum of sizes");
    }
    KAEL_CHECK(total == x.size(dimension),
               "split: the sizes " << to_string(sizes) << " add up to " << total << ", expected "
                                   << x.size(dimension) << ", the size of dimension " << dimension);
    std::vector<Tensor> parts;
    std::int64_t start = 0;
    for (const std::int64_t size : sizes) {
        parts.push_back(x.slice(dimension, start, start + size));
        start += size;
    }
    return parts;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int dimension) {
    dimension = dimension_of(x, dimension, "chunk");
    KAEL_CHECK(count >= 1, "chunk: " << count << " parts, expected 1 or more");
    const std::int64_t size = x.size(dimension);
    const std::int64_t part = std::max<std::int64_t>(size / count + (size % count != 0 ? 1 : 0), 1);
    Shape sizes;
    for (std::int64_t rest = size; rest > 0; rest -= part) {
        sizes.push_back(std::min(part, rest));
    }
    if (sizes.empty()) {
        sizes.push_back(0);
    }
    return split(x, sizes, dimension);
}

Tensor flatten(const Tensor& x, int first, int last) {
    first = wrap_dimension(x, first, "flatten");
    last = wrap_dimension(x, last, "flatten");
    KAEL_CHECK(first <= last, "flatten: from dimension " << first << " to " << last
                                                         << ", expected an ascending pair");
    if (x.rank() == 0) {
        return x.reshape({1});
    }
    const auto begin = x.shape().begin();
    Shape shape(begin, begin + first);
    shape.push_back(element_count(Shape(begin + first, begin + last + 1)));
    shape.insert(shape.end(), begin + last + 1, x.shape().end());
    return x.reshape(shape);
}

Tensor squeeze(const Tensor& x, const std::vector<int>& dimensions) {
    Tensor result = x;
    const std::vector<int> wrapped =
        dimensions.empty() ? std::vector<int>{} : wrap_dimensions(x, dimensions, "squeeze");
    // From the last on, so that those before it stay where they are.
    for (auto dimension = wrapped.rbegin(); dimension != wrapped.rend(); ++dimension) {
        result = result.squeeze(*dimension);
    }
    return result;
}

namespace {

// Values are gathered, which records; indices have no gradient.
Sorted sorted(const std::string& name, const Tensor& x, int dimension, bool descending,
              std::optional<std::int64_t> count) {
    Tensor indices = autograd::without_recording(
        [&] { return forward::argsort(x, dimension, descending, count, name); });
    Tensor values = gather(x, dimension, indices);
    return {std::move(values), std::move(indices)};
}

} // namespace

Tensor argsort(const Tensor& x, int dimension, bool descending) {
    return autograd::without_recording([&] { return forward::argsort(x, dimension, descending); });
}

Sorted sort(const Tensor& x, int dimension, bool descending) {
    return sorted("sort", x, dimension, descending, std::nullopt);
}

Sorted topk(const Tensor& x, std::int64_t count, int dimension, bool largest) {
    return sorted("topk", x, dimension, largest, count);
}

Tensor stack(const std::vector<Tensor>& tensors, int dimension) {
    KAEL_CHECK(!tensors.empty(), "stack: no tensors, expected at least one");
    std::vector<Tensor> rows;
    for (const Tensor& tensor : tensors) {
        check_defined(tensor, "stack");
        KAEL_CHECK(tensor.shape() == tensors[0].shape(),
                   "stack: the shapes " << to_string(tensors[0].shape()) << " and "
                                        << to_string(tensor.shape()) << ", expected equal ones");
        rows.push_back(tensor.unsqueeze(dimension));
    }
    return cat(rows, dimension);
}

Tensor flip(const Tensor& x, const std::vector<int>& dimensions) {
    check_defined(x, "flip");
    Tensor result = x;
    const std::vector<int> wrapped =
        dimensions.empty() ? std::vector<int>{} : wrap_dimensions(x, dimensions, "flip");
    for (const int dimension : wrapped) {
        const std::int64_t size = x.size(dimension);
        // From the last to the first; of nothing, nothing.
        const Tensor index = size == 0 ? Tensor::zeros({0}, DType::int64)
                                       : arange(size - 1, std::int64_t{-1}, std::int64_t{-1});
        result = index_select(result, dimension, index);
    }
    return result.is_same(x) ? x.clone() : result;
}

Tensor roll(const Tensor& x, const Shape& shifts, const std::vector<int>& dimensions) {
    check_defined(x, "roll");
    if (dimensions.empty()) {
        KAEL_CHECK(shifts.size() == 1,
                   "roll: " << shifts.size() << " shifts without dimensions, expected one");
        return roll(x.reshape({x.numel()}), shifts, {0}).reshape(x.shape());
    }
    KAEL_CHECK(shifts.size() == dimensions.size(), "roll: " << shifts.size() << " shifts for "
                                                            << dimensions.size()
                                                            << " dimensions, expected as many");
    Tensor result = x;
    for (std::size_t i = 0; i < shifts.size(); ++i) {
        const int dimension = dimension_of(x, dimensions[i], "roll");
        const std::int64_t size = x.size(dimension);
        if (size == 0) {
            continue;
        }
        const std::int64_t shift = (shifts[i] % size + size) % size;
        result = cat(
            {result.slice(dimension, size - shift, size), result.slice(dimension, 0, size - shift)},
            dimension);
    }
    return result.is_same(x) ? x.clone() : result;
}

Tensor repeat(const Tensor& x, const Shape& counts) {
    check_defined(x, "repeat");
    KAEL_CHECK(counts.size() >= x.shape().size(),
               "repeat: " << counts.size() << " counts for a tensor of shape "
                          << to_string(x.shape()) << ", expected at least " << x.rank());
    Shape shape(counts.size() - x.shape().size(), 1);
    shape.insert(shape.end(), x.shape().begin(), x.shape().end());
    Tensor result = x.reshape(shape);
    for (std::size_t i = 0; i < counts.size(); ++i) {
        KAEL_CHECK(counts[i] >= 0, "repeat: the counts "
                                       << to_string(counts)
                                       << " have a negative one, expected 0 or more");
        Shape repeated = result.shape();
        repeated.insert(repeated.begin() + static_cast<std::ptrdiff_t>(i), counts[i]);
        Shape joined = result.shape();
        joined[i] = checked_multiply(joined[i], counts[i], "repeat: the size");
        result = result.unsqueeze(static_cast<int>(i)).expand(repeated).reshape(joined);
    }
    // What was copied on the way may be repeated as a view since.
    return result.storage() == x.storage() ? result.clone() : result.contiguous();
}

namespace {

constexpr const char* kTakenAway = "pad: the elements to take away";

// How many elements an amount takes from its end.
std::int64_t taken_away(std::int64_t amount) {
    return amount < 0 ? checked_subtract(0, amount, kTakenAway) : 0;
}

// One dimension of x with `before` and `after` elements, which x has, added at its ends.
Tensor extended(const Tensor& x, int dimension, std::int64_t before, std::int64_t after,
                PadMode mode) {
    const std::int64_t size = x.size(dimension);
    const std::int64_t first = taken_away(before);
    const std::int64_t left = size - first - taken_away(after);
    const std::int64_t added = std::max(before, after);
    const std::int64_t most = mode == PadMode::reflect    ? std::max<std::int64_t>(size - 1, 0)
                              : mode == PadMode::circular ? left
                              : size > 0                  ? std::numeric_limits<std::int64_t>::max()
                                                          : 0;
    KAEL_CHECK(added <= most, "pad: " << added << " elements to add in dimension " << dimension
                                      << " of a tensor of shape " << to_string(x.shape())
                                      << ", expected at most " << most << " in this mode");
    Tensor places = Tensor::empty(
        {checked_add(checked_add(size, before, "pad: the size"), after, "pad: the size")},
        DType::int64);
    std::int64_t* const to = places.mutable_data<std::int64_t>();
    for (std::int64_t i = 0; i < places.numel(); ++i) {
        const std::int64_t place = i - before;
        if (mode == PadMode::circular) {
            to[i] = first + (place - first + left) % left;
        } else if (mode == PadMode::replicate) {
            to[i] = std::clamp<std::int64_t>(place, 0, size - 1);
        } else {
            to[i] = size - 1 - std::abs(size - 1 - std::abs(place));
        }
    }
    return index_select(x, dimension, places);
}

} // namespace

Tensor pad(const Tensor& x, const Shape& amounts, const Scalar& value, PadMode mode) {
    check_defined(x, "pad");
    KAEL_CHECK(amounts.size() % 2 == 0 && amounts.size() <= 2 * x.shape().size(),
               "pad: " << amounts.size() << " amounts for a tensor of shape "
                       << to_string(x.shape()) << ", expected two for each of at most " << x.rank()
                       << " dimensions");
    if (mode == PadMode::constant) {
        check_fits(value, x.dtype(), "pad");
        KAEL_CHECK(can_store(Operand(value).dtype(), x.dtype()),
                   "pad: the value " << to_string(value) << " for a tensor of dtype "
                                     << name(x.dtype()) << ", expected " << storable(x.dtype()));
    }
    Tensor result = x;
    for (std::size_t i = 0; i < amounts.size(); i += 2) {
        const int dimension = x.rank() - 1 - static_cast<int>(i / 2);
        const std::int64_t before = amounts[i];
        const std::int64_t after = amounts[i + 1];
        const std::int64_t size = x.size(dimension);
        const std::int64_t first = taken_away(before);
        const std::int64_t last = taken_away(after);
        const std::int64_t taken = checked_add(first, last, kTakenAway);
        KAEL_CHECK(taken <= size, "pad: " << taken << " elements to take away in dimension "
                                          << dimension << " of a tensor of shape "
                                          << to_string(x.shape()) << ", expected at most " << size);
        if (mode != PadMode::constant) {
            result = before == 0 && after == 0 ? result
                                               : extended(result, dimension, before, after, mode);
            continue;
        }
        result = result.slice(dimension, first, size - last);
        const auto border = [&](std::int64_t amount) {
            Shape shape = result.shape();
            shape[static_cast<std::size_t>(dimension)] = std::max<std::int64_t>(amount, 0);
            return full(shape, value, x.dtype());
        };
        result = cat({border(before), result, border(after)}, dimension);
    }
    return result.is_same(x) ? x.clone() : result;
}

Tensor& index_add_(Tensor& x, int dimension, const Tensor& index, const Tensor& source) {
    return copy_(x, index_add(x, dimension, index, source));
}

Tensor& scatter_add_(Tensor& x, int dimension, const Tensor& index, const Tensor& source) {
    return copy_(x, scatter_add(x, dimension, index, source));
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
    check_defined(x, "masked_select");
    check_defined(mask, "masked_select");
    KAEL_CHECK(mask.dtype() == DType::boolean,
               "masked_select: a mask of dtype " << name(mask.dtype()) << ", expected bool");
    const Shape shapes[] = {x.shape(), mask.shape()};
    const Shape shape = broadcast_shapes(shapes, "masked_select");
    const Tensor places = nonzero(mask.expand(shape).reshape({-1})).select(1, 0);
    return index_select(x.expand(shape).reshape({-1}), 0, places);
}

namespace {

Tensor filled(const std::string& name, const Tensor& x, const Tensor& mask, const Operand& value) {
    check_defined(x, name);
    check_defined(mask, name);
    if (!value.is_number()) {
        check_defined(value.tensor(), name);
    }
    KAEL_CHECK(value.shape().empty(),
               name << ": a value of shape " << to_string(value.shape()) << ", expected a number");
    Tensor result = where(mask, value, x);
    KAEL_CHECK(result.dtype() == x.dtype(),
               name << ": a value of dtype " << kael::name(value.dtype())
                    << " for a tensor of dtype " << kael::name(x.dtype())
                    << ", expected one that promotes to it");
    return result;
}

} // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value) {
    return filled("masked_fill", x, mask, value);
}

Tensor& masked_fill_(Tensor& x, const Tensor& mask, const Operand& value) {
    return copy_(x, filled("masked_fill_", x, mask, value));
}

} // namespace kael
