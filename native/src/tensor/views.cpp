// Views: new shape, strides and offset over the same storage. Each is derived from a valid view by
// steps that cannot leave it, so nothing is checked twice. Products of a dimension and its stride
// stay below four times the storage's bytes, or the 63 bits of contiguous_strides.
#include <algorithm>

#include "kael/error.h"
#include "kael/tensor.h"

#include "base/checked_arithmetic.h"
#include "tensor/defined.h"
#include "tensor/dimensions.h"
#include "tensor/forward_views.h"
#include "tensor/layout.h"

namespace kael {

namespace {

std::size_t at(int dimension) {
    return static_cast<std::size_t>(dimension);
}

// Replaces the one -1 of `shape` by what `numel` leaves for it.
Shape complete(Shape shape, const Tensor& tensor, std::string_view name) {
    const auto unknown = std::find(shape.begin(), shape.end(), -1);
    if (unknown == shape.end()) {
        return shape;
    }
    KAEL_CHECK(std::find(unknown + 1, shape.end(), -1) == shape.end(),
               name << ": the shape " << to_string(shape)
                    << " has more than one -1, expected one at most");
    *unknown = 1;
    const std::int64_t known = element_count(shape);
    *unknown = -1;
    KAEL_CHECK(known != 0,
               name << ": the -1 in the shape " << to_string(shape)
                    << " could be anything beside a dimension of 0, expected a size for it");
    KAEL_CHECK(tensor.numel() % known == 0,
               name << ": the shape " << to_string(shape) << " does not divide the "
                    << tensor.numel() << " elements of shape " << to_string(tensor.shape())
                    << ", expected sizes that do");
    *unknown = tensor.numel() / known;
    return shape;
}

// `shape` without -1, with as many elements as `tensor`.
Shape complete_and_check(const Shape& shape, const Tensor& tensor, std::string_view name) {
    check_defined(tensor, name);
    const Shape target = complete(shape, tensor, name);
    const std::int64_t count = byte_count(target, tensor.dtype()) / item_size(tensor.dtype());
    KAEL_CHECK(count == tensor.numel(), name << ": the shape " << to_string(target) << " has "
                                             << count << " elements, expected the "
                                             << tensor.numel() << " of the tensor of shape "
                                             << to_string(tensor.shape()));
    return target;
}

} // namespace

int existing_dimension(const Tensor& x, int dimension, std::string_view name) {
    check_defined(x, name);
    KAEL_CHECK(x.rank() > 0, name << ": dimension " << dimension
                                  << " of a tensor without dimensions, expected one or more");
    KAEL_CHECK(dimension >= -x.rank() && dimension < x.rank(),
               name << ": dimension " << dimension << " of a tensor of shape "
                    << to_string(x.shape()) << ", expected " << -x.rank() << " to "
                    << x.rank() - 1);
    return dimension < 0 ? dimension + x.rank() : dimension;
}

namespace {

Tensor derive(const Tensor& x, Shape shape, Shape strides, std::int64_t offset) {
    if (element_count(shape) == 0) {
        strides = contiguous_strides(shape);
        offset = x.offset(); // nothing bounds where an empty view would begin
    }
    return Tensor::from_derived(x.storage(), x.dtype(), std::move(shape), std::move(strides),
                                offset);
}

} // namespace

namespace forward {

Tensor transpose(const Tensor& x, int first, int second) {
    const std::size_t a = at(wrap_dimension(x, first, "transpose"));
    const std::size_t b = at(wrap_dimension(x, second, "transpose"));
    if (x.rank() == 0) {
        return x;
    }
    Shape shape = x.shape();
    Shape strides = x.strides();
    std::swap(shape[a], shape[b]);
    std::swap(strides[a], strides[b]);
    return derive(x, std::move(shape), std::move(strides), x.offset());
}

Tensor permute(const Tensor& x, const std::vector<int>& dimensions) {
    check_defined(x, "permute");
    KAEL_CHECK(dimensions.size() == x.shape().size(),
               "permute: a permutation of " << dimensions.size()
                                            << " dimensions for a tensor of shape "
                                            << to_string(x.shape()) << ", expected " << x.rank());
    Shape shape;
    Shape strides;
    std::vector<bool> seen(x.shape().size(), false);
    for (const int dimension : dimensions) {
        const std::size_t source = at(existing_dimension(x, dimension, "permute"));
        KAEL_CHECK(!seen[source], "permute: dimension "
                                      << dimension
                                      << " twice in a permutation, expected each once");
        seen[source] = true;
        shape.push_back(x.shape()[source]);
        strides.push_back(x.strides()[source]);
    }
    return derive(x, std::move(shape), std::move(strides), x.offset());
}

Tensor slice(const Tensor& x, int dimension, std::int64_t start, std::int64_t end,
             std::int64_t step) {
    const std::size_t sliced = at(existing_dimension(x, dimension, "slice"));
    KAEL_CHECK(step >= 1, "slice: a step of " << step << ", expected 1 or more");
    const std::int64_t size = x.shape()[sliced];
    const auto clamp = [size](std::int64_t index) {
        return std::clamp<std::int64_t>(index < 0 ? index + size : index, 0, size);
    };
    const std::int64_t first = clamp(start);
    const std::int64_t last = std::max(clamp(end), first);
    // A step beyond the size takes one element like the size itself, and cannot overflow below.
    const std::int64_t stride = std::min(step, std::max<std::int64_t>(size, 1));
    Shape shape = x.shape();
    Shape strides = x.strides();
    shape[sliced] = first == last ? 0 : (last - first - 1) / stride + 1;
    strides[sliced] *= stride;
    return derive(x, std::move(shape), std::move(strides),
                  x.offset() + first * x.strides()[sliced]);
}

Tensor select(const Tensor& x, int dimension, std::int64_t index) {
    const std::size_t selected = at(existing_dimension(x, dimension, "select"));
    const std::int64_t size = x.shape()[selected];
    KAEL_CHECK(index >= -size && index < size,
               "select: index " << index << " of dimension " << selected << " of a tensor of shape "
                                << to_string(x.shape()) << ", expected "
                                << (size == 0 ? std::string("one with elements there")
                                              : std::to_string(-size) + " to " +
                                                    std::to_string(size - 1)));
    const std::int64_t position = index < 0 ? index + size : index;
    Shape shape = x.shape();
    Shape strides = x.strides();
    const auto place = static_cast<std::ptrdiff_t>(selected);
    shape.erase(shape.begin() + place);
    strides.erase(strides.begin() + place);
    return derive(x, std::move(shape), std::move(strides),
                  x.offset() + position * x.strides()[selected]);
}

Tensor unsqueeze(const Tensor& x, int dimension) {
    check_defined(x, "unsqueeze");
    KAEL_CHECK(x.rank() < kMaxRank, "unsqueeze: a new dimension for a tensor that has "
                                        << kMaxRank << ", expected at most " << kMaxRank - 1);
    KAEL_CHECK(dimension >= -x.rank() - 1 && dimension <= x.rank(),
               "unsqueeze: a new dimension at " << dimension << " of a tensor of shape "
                                                << to_string(x.shape()) << ", expected "
                                                << -x.rank() - 1 << " to " << x.rank());
    const std::size_t place = at(dimension < 0 ? dimension + x.rank() + 1 : dimension);
    const std::int64_t stride =
        place < x.shape().size() ? x.shape()[place] * x.strides()[place] : 1;
    Shape shape = x.shape();
    Shape strides = x.strides();
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
    strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(place), stride);
    return derive(x, std::move(shape), std::move(strides), x.offset());
}

Tensor squeeze(const Tensor& x, int dimension) {
    const std::size_t place = at(wrap_dimension(x, dimension, "squeeze"));
    return x.rank() > 0 && x.shape()[place] == 1 ? select(x, dimension, 0) : x;
}

Tensor expand(const Tensor& x, const Shape& shape) {
    check_defined(x, "expand");
    KAEL_CHECK(shape.size() >= x.shape().size(),
               "expand: cannot expand the shape "
                   << to_string(x.shape()) << " to " << to_string(shape)
                   << ": it has fewer dimensions, expected at least " << x.rank());
    const std::size_t added = shape.size() - x.shape().size();
    Shape target = shape;
    Shape strides(shape.size(), 0);
    for (std::size_t i = 0; i < x.shape().size(); ++i) {
        std::int64_t& size = target[added + i];
        size = size == -1 ? x.shape()[i] : size;
        KAEL_CHECK(size == x.shape()[i] || x.shape()[i] == 1,
                   "expand: cannot expand the shape "
                       << to_string(x.shape()) << " to " << to_string(shape) << ": dimension " << i
                       << " has " << x.shape()[i] << " elements, expected 1 or " << size);
        strides[added + i] = size == x.shape()[i] ? x.strides()[i] : 0;
    }
    static_cast<void>(byte_count(target, x.dtype())); // must fit
    return derive(x, std::move(target), std::move(strides), x.offset());
}

Tensor diagonal(const Tensor& x, std::int64_t offset, int first, int second) {
    const std::size_t a = at(existing_dimension(x, first, "diagonal"));
    const std::size_t b = at(existing_dimension(x, second, "diagonal"));
    KAEL_CHECK(a != b, "diagonal: dimension " << a << " twice, expected two different ones");
    const std::int64_t rows = x.shape()[a];
    const std::int64_t columns = x.shape()[b];
    KAEL_CHECK(offset >= -rows && offset <= columns,
               "diagonal: " << offset << " beside the main one of dimensions " << a << " and " << b
                            << " of a tensor of shape " << to_string(x.shape()) << ", expected "
                            << -rows << " to " << columns);
    const std::int64_t down = std::max<std::int64_t>(-offset, 0);
    const std::int64_t right = std::max<std::int64_t>(offset, 0);
    Shape shape = x.shape();
    Shape strides = x.strides();
    for (const std::size_t gone : {std::max(a, b), std::min(a, b)}) {
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(gone));
        strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    shape.push_back(std::min(rows - down, columns - right));
    strides.push_back(x.strides()[a] + x.strides()[b]);
    return derive(x, std::move(shape), std::move(strides),
                  x.offset() + down * x.strides()[a] + right * x.strides()[b]);
}

Tensor view(const Tensor& x, const Shape& shape) {
    Shape target = complete_and_check(shape, x, "view");
    std::optional<Shape> strides = view_strides(x.shape(), x.strides(), target);
    KAEL_CHECK(strides.has_value(),
               "view: no view of shape "
                   << to_string(target) << " of a tensor of shape " << to_string(x.shape())
                   << " and strides " << to_string(x.strides())
                   << ", expected a shape that they allow: use reshape, which copies");
    return derive(x, std::move(target), *std::move(strides), x.offset());
}

Tensor reshape(const Tensor& x, const Shape& shape) {
    Shape target = complete_and_check(shape, x, "reshape");
    std::optional<Shape> strides = view_strides(x.shape(), x.strides(), target);
    if (!strides.has_value()) {
        return view(clone(x), target);
    }
    return derive(x, std::move(target), *std::move(strides), x.offset());
}

} // namespace forward
} // namespace kael
