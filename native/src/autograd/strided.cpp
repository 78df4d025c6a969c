#include "autograd/strided.h"

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "kael/operators.h"

#include "autograd/record.h"

namespace kael::autograd {

namespace {

// On memory of its own, which also covers what is between the elements.
Tensor empty_with_strides(const Shape& shape, const Shape& strides, DType dtype) {
    std::int64_t count = element_count(shape) == 0 ? 0 : 1;
    for (std::size_t i = 0; i < shape.size() && count > 0; ++i) {
        count += (shape[i] - 1) * strides[i];
    }
    return Tensor::from_derived(Storage::allocate(count * item_size(dtype)), dtype, shape, strides,
                                0);
}

// The gradient of a base whose part at `place` has this gradient, recorded.
Tensor gradient_of_base(const Tensor& gradient, Strided place, const Shape& shape,
                        const Shape& strides) {
    // Elements that expand() repeated are one in the base.
    Over repeated{{}, true};
    for (std::size_t i = 0; i < place.shape.size(); ++i) {
        if (place.strides[i] == 0 && place.shape[i] > 1) {
            repeated.dimensions.push_back(static_cast<int>(i));
            place.shape[i] = 1;
        }
    }
    Tensor whole = empty_with_strides(shape, strides, gradient.dtype());
    std::memset(whole.storage()->data(), 0,
                static_cast<std::size_t>(whole.storage()->byte_count()));
    Tensor part = as_strided(whole, place);
    copy_(part, repeated.dimensions.empty() ? gradient : sum(gradient, repeated));
    return whole;
}

} // namespace

Strided place_in(const Tensor& base, const Tensor& view) {
    return {view.shape(), view.strides(), view.offset() - base.offset()};
}

Tensor as_strided(const Tensor& base, const Strided& place) {
    Tensor view = Tensor::from_derived(base.storage(), base.dtype(), place.shape, place.strides,
                                       base.offset() + place.offset);
    register_view(base, view);
    if (needs_recording(view, {base})) {
        record("AsStridedBackward", view, {base}, {},
               [place, shape = base.shape(), strides = base.strides()](const Backward& context) {
                   return GradientList{gradient_of_base(context.gradient(), place, shape, strides)};
               });
    }
    return view;
}

Tensor copy_with_strides(const Tensor& tensor, const Shape& strides) {
    Tensor copy = empty_with_strides(tensor.shape(), strides, tensor.dtype());
    return copy_(copy, tensor);
}

} // namespace kael::autograd
