// Views: new shape, strides and offset over the same storage. Each is derived from a valid view by
// steps that cannot leave it, so nothing is checked twice. Products of a dimension and its stride
// stay below four times the storage's bytes, or the 63 bits of contiguous_strides.
#include <algorithm>

#include "kael/error.h"
#include "kael/tensor.h"

#include "base/checked_arithmetic.h"
#include "tensor/layout.h"

namespace kael {

namespace {

std::size_t at(int dimension) {
    return static_cast<std::size_t>(dimension);
}

// Replaces the one -1 of `shape` by what `numel` leaves for it.
Shape complete(Shape shape, const Tensor& tensor) {
    const auto unknown = std::find(shape.begin(), shape.end(), -1);
    if (unknown == shape.end()) {
        return shape;
    }
    KAEL_CHECK(std::find(unknown + 1, shape.end(), -1) == shape.end(),
               "the shape " << to_string(shape) << " has more than one -1");
    *unknown = 1;
    const std::int64_t known = element_count(shape);
    *unknown = -1;
    KAEL_CHECK(known != 0, "the -1 in the shape " << to_string(shape)
                                                  << " could be anything beside a dimension of 0");
    KAEL_CHECK(tensor.numel() % known == 0,
               "the shape " << to_string(shape) << " does not divide the " << tensor.numel()
                            << " elements of shape " << to_string(tensor.shape()));
    *unknown = tensor.numel() / known;
    return shape;
}

// `shape` without -1, with as many elements as `tensor`.
Shape complete_and_check(const Shape& shape, const Tensor& tensor) {
    KAEL_CHECK(tensor.defined(), "an undefined tensor");
    const Shape target = complete(shape, tensor);
    const std::int64_t count = byte_count(target, tensor.dtype()) / item_size(tensor.dtype());
    KAEL_CHECK(count == tensor.numel(), "the shape " << to_string(target) << " has " << count
                                                     << " elements, the tensor of shape "
                                                     << to_string(tensor.shape()) << " has "
                                                     << tensor.numel());
    return target;
}

} // namespace

int Tensor::wrap_dimension(int dimension) const {
    KAEL_CHECK(defined(), "an undefined tensor");
    KAEL_CHECK(rank() > 0, "dimension " << dimension << " of a tensor without dimensions");
    KAEL_CHECK(dimension >= -rank() && dimension < rank(),
               "dimension " << dimension << " of a tensor of shape " << to_string(body_->shape)
                            << ", expected " << -rank() << " to " << rank() - 1);
    return dimension < 0 ? dimension + rank() : dimension;
}

Tensor Tensor::derive(Shape shape, Shape strides, std::int64_t offset) const {
    const std::int64_t count = element_count(shape);
    // Nothing bounds where an empty view would begin or how far apart its elements would be.
    const bool empty = count == 0;
    if (empty) {
        strides = contiguous_strides(shape);
    }
    return Tensor(Body{.storage = body_->storage,
                       .dtype = body_->dtype,
                       .shape = std::move(shape),
                       .strides = std::move(strides),
                       .offset = empty ? body_->offset : offset,
                       .numel = count});
}

Tensor Tensor::transpose(int first, int second) const {
    const std::size_t a = at(wrap_dimension(first));
    const std::size_t b = at(wrap_dimension(second));
    Shape shape = body_->shape;
    Shape strides = body_->strides;
    std::swap(shape[a], shape[b]);
    std::swap(strides[a], strides[b]);
    return derive(std::move(shape), std::move(strides), body_->offset);
}

Tensor Tensor::permute(const std::vector<int>& dimensions) const {
    KAEL_CHECK(defined(), "an undefined tensor");
    KAEL_CHECK(dimensions.size() == body_->shape.size(),
               "a permutation of " << dimensions.size() << " dimensions for a tensor of shape "
                                   << to_string(body_->shape));
    Shape shape;
    Shape strides;
    std::vector<bool> seen(body_->shape.size(), false);
    for (const int dimension : dimensions) {
        const std::size_t source = at(wrap_dimension(dimension));
        KAEL_CHECK(!seen[source], "dimension " << dimension << " twice in a permutation");
        seen[source] = true;
        shape.push_back(body_->shape[source]);
        strides.push_back(body_->strides[source]);
    }
    return derive(std::move(shape), std::move(strides), body_->offset);
}

Tensor Tensor::slice(int dimension, std::int64_t start, std::int64_t end, std::int64_t step) const {
    const std::size_t sliced = at(wrap_dimension(dimension));
    KAEL_CHECK(step >= 1, "a slice with step " << step << ", expected 1 or more");
    const std::int64_t size = body_->shape[sliced];
    const auto clamp = [size](std::int64_t index) {
        return std::clamp<std::int64_t>(index < 0 ? index + size : index, 0, size);
    };
    const std::int64_t first = clamp(start);
    const std::int64_t last = std::max(clamp(end), first);
    // A step beyond the size takes one element like the size itself, and cannot overflow below.
    const std::int64_t stride = std::min(step, std::max<std::int64_t>(size, 1));
    Shape shape = body_->shape;
    Shape strides = body_->strides;
    shape[sliced] = (last - first + stride - 1) / stride;
    strides[sliced] *= stride;
    return derive(std::move(shape), std::move(strides),
                  body_->offset + first * body_->strides[sliced]);
}

Tensor Tensor::select(int dimension, std::int64_t index) const {
    const std::size_t selected = at(wrap_dimension(dimension));
    const std::int64_t size = body_->shape[selected];
    KAEL_CHECK(index >= -size && index < size, "index " << index << " of dimension " << selected
                                                        << " of a tensor of shape "
                                                        << to_string(body_->shape));
    const std::int64_t position = index < 0 ? index + size : index;
    Shape shape = body_->shape;
    Shape strides = body_->strides;
    const auto place = static_cast<std::ptrdiff_t>(selected);
    shape.erase(shape.begin() + place);
    strides.erase(strides.begin() + place);
    return derive(std::move(shape), std::move(strides),
                  body_->offset + position * body_->strides[selected]);
}

Tensor Tensor::unsqueeze(int dimension) const {
    KAEL_CHECK(defined(), "an undefined tensor");
    KAEL_CHECK(rank() < kMaxRank, "a new dimension for a tensor that has " << kMaxRank);
    KAEL_CHECK(dimension >= -rank() - 1 && dimension <= rank(),
               "a new dimension at " << dimension << " of a tensor of shape "
                                     << to_string(body_->shape) << ", expected " << -rank() - 1
                                     << " to " << rank());
    const std::size_t place = at(dimension < 0 ? dimension + rank() + 1 : dimension);
    const std::int64_t stride =
        place < body_->shape.size() ? body_->shape[place] * body_->strides[place] : 1;
    Shape shape = body_->shape;
    Shape strides = body_->strides;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
    strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(place), stride);
    return derive(std::move(shape), std::move(strides), body_->offset);
}

Tensor Tensor::squeeze(int dimension) const {
    const std::size_t place = at(wrap_dimension(dimension));
    return body_->shape[place] == 1 ? select(dimension, 0) : *this;
}

Tensor Tensor::expand(const Shape& shape) const {
    KAEL_CHECK(defined(), "an undefined tensor");
    KAEL_CHECK(shape.size() >= body_->shape.size(),
               "cannot expand the shape " << to_string(body_->shape) << " to " << to_string(shape)
                                          << ": it has fewer dimensions");
    const std::size_t added = shape.size() - body_->shape.size();
    Shape target = shape;
    Shape strides(shape.size(), 0);
    for (std::size_t i = 0; i < body_->shape.size(); ++i) {
        std::int64_t& size = target[added + i];
        size = size == -1 ? body_->shape[i] : size;
        KAEL_CHECK(size == body_->shape[i] || body_->shape[i] == 1,
                   "cannot expand the shape "
                       << to_string(body_->shape) << " to " << to_string(shape) << ": dimension "
                       << i << " has " << body_->shape[i] << " elements, expected 1 or " << size);
        strides[added + i] = size == body_->shape[i] ? body_->strides[i] : 0;
    }
    static_cast<void>(byte_count(target, body_->dtype)); // must fit
    return derive(std::move(target), std::move(strides), body_->offset);
}

Tensor Tensor::view(const Shape& shape) const {
    Shape target = complete_and_check(shape, *this);
    std::optional<Shape> strides = view_strides(body_->shape, body_->strides, target);
    KAEL_CHECK(strides.has_value(),
               "no view of shape " << to_string(target) << " of a tensor of shape "
                                   << to_string(body_->shape) << " and strides "
                                   << to_string(body_->strides) << ": use reshape, which copies");
    return derive(std::move(target), *std::move(strides), body_->offset);
}

Tensor Tensor::reshape(const Shape& shape) const {
    Shape target = complete_and_check(shape, *this);
    std::optional<Shape> strides = view_strides(body_->shape, body_->strides, target);
    if (!strides.has_value()) {
        return clone().view(target);
    }
    return derive(std::move(target), *std::move(strides), body_->offset);
}

} // namespace kael
