// The views and plain copies of Tensor, recorded.
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "kael/operators.h"
#include "kael/tensor.h"

#include "autograd/record.h"
#include "tensor/dimensions.h"
#include "tensor/forward_views.h"

namespace kael {

namespace {

using autograd::Backward;
using autograd::GradientList;
using Derivative = std::function<Tensor(const Tensor& gradient)>;
using Locate = std::function<Tensor(const Tensor& whole)>; // answers with a part

Tensor recorded(const char* node, const Tensor& x, Tensor result, Derivative derivative) {
    if (result.is_same(x)) {
        return result;
    }
    if (result.storage() == x.storage()) {
        autograd::register_view(x, result);
    }
    if (autograd::needs_recording(result, {x})) {
        autograd::record(node, result, {x}, {},
                         [derivative = std::move(derivative)](const Backward& context) {
                             return GradientList{derivative(context.gradient())};
                         });
    }
    return result;
}

// Zeros of `shape`, with `part` at the place that `locate` answers with.
Tensor embed(const Tensor& part, const Shape& shape, Locate locate) {
    Tensor whole = Tensor::zeros(shape, part.dtype());
    {
        const NoGrad guard;
        Tensor place = locate(whole);
        forward::copy_(place, part);
    }
    if (autograd::needs_recording(whole, {part})) {
        autograd::record("EmbedBackward", whole, {part}, {},
                         [locate = std::move(locate)](const Backward& context) {
                             return GradientList{locate(context.gradient())};
                         });
    }
    return whole;
}

// For views that leave elements out, whose gradient is zero.
Tensor recorded_part(const char* node, const Tensor& x, Tensor result, Locate locate) {
    return recorded(node, x, std::move(result),
                    [shape = x.shape(), locate = std::move(locate)](const Tensor& gradient) {
                        return embed(gradient, shape, locate);
                    });
}

// The engine undoes what became of shape and dtype.
Tensor pass(const Tensor& gradient) {
    return gradient;
}

} // namespace

Tensor Tensor::transpose(int first, int second) const {
    return recorded("TransposeBackward", *this, forward::transpose(*this, first, second),
                    [=](const Tensor& gradient) { return gradient.transpose(first, second); });
}

Tensor Tensor::permute(const std::vector<int>& dimensions) const {
    return recorded(
        "PermuteBackward", *this, forward::permute(*this, dimensions), [=](const Tensor& gradient) {
            const int rank = gradient.rank();
            std::vector<int> inverse(dimensions.size());
            for (int i = 0; i < rank; ++i) {
                const int source = dimensions[static_cast<std::size_t>(i)];
                inverse[static_cast<std::size_t>(source < 0 ? source + rank : source)] = i;
            }
            return gradient.permute(inverse);
        });
}

Tensor Tensor::slice(int dimension, std::int64_t start, std::int64_t end, std::int64_t step) const {
    return recorded_part("SliceBackward", *this, forward::slice(*this, dimension, start, end, step),
                         [=](const Tensor& x) { return x.slice(dimension, start, end, step); });
}

Tensor Tensor::select(int dimension, std::int64_t index) const {
    return recorded_part("SelectBackward", *this, forward::select(*this, dimension, index),
                         [=](const Tensor& x) { return x.select(dimension, index); });
}

Tensor diagonal(const Tensor& x, std::int64_t offset, int first, int second) {
    return recorded_part(
        "DiagonalBackward", x, forward::diagonal(x, offset, first, second),
        [=](const Tensor& whole) { return diagonal(whole, offset, first, second); });
}

Tensor Tensor::unsqueeze(int dimension) const {
    return recorded("UnsqueezeBackward", *this, forward::unsqueeze(*this, dimension),
                    [=](const Tensor& gradient) { return gradient.squeeze(dimension); });
}

Tensor Tensor::squeeze(int dimension) const {
    const int place = wrap_dimension(*this, dimension, "squeeze");
    return recorded("SqueezeBackward", *this, forward::squeeze(*this, place),
                    [=](const Tensor& gradient) { return gradient.unsqueeze(place); });
}

Tensor Tensor::expand(const Shape& shape) const {
    return recorded("ExpandBackward", *this, forward::expand(*this, shape), pass);
}

Tensor Tensor::view(const Shape& shape) const {
    return recorded(
        "ViewBackward", *this, forward::view(*this, shape),
        [before = this->shape()](const Tensor& gradient) { return gradient.reshape(before); });
}

Tensor Tensor::reshape(const Shape& shape) const {
    return recorded(
        "ReshapeBackward", *this, forward::reshape(*this, shape),
        [before = this->shape()](const Tensor& gradient) { return gradient.reshape(before); });
}

Tensor Tensor::contiguous() const {
    return is_contiguous() ? *this : clone();
}

Tensor Tensor::clone() const {
    return recorded("CloneBackward", *this, forward::clone(*this), pass);
}

Tensor Tensor::to(DType dtype) const {
    return recorded("ToBackward", *this, forward::to(*this, dtype), pass);
}

} // namespace kael
