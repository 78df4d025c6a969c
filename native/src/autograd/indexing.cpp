// Operators that put elements elsewhere, recorded. Those that gather and those that add where
// others gather are each other's derivatives.
#include <utility>
#include <vector>

#include "kael/operators.h"

#include "autograd/record.h"
#include "tensor/dimensions.h"

namespace kael {

namespace {

using autograd::Backward;
using autograd::GradientList;
using autograd::without_recording;

bool is_recorded(const Tensor& result, const std::vector<Tensor>& inputs) {
    return is_floating_point(result.dtype()) && autograd::needs_recording(inputs);
}

} // namespace

Tensor cat(const std::vector<Tensor>& tensors, int dimension) {
    Tensor result = without_recording([&] { return forward::cat(tensors, dimension); });
    if (is_recorded(result, tensors)) {
        const int place = wrap_dimension(result, dimension, "cat");
        Shape sizes;
        for (const Tensor& tensor : tensors) {
            sizes.push_back(tensor.size(place));
        }
        autograd::record("CatBackward", result, tensors, {},
                         [place, sizes = std::move(sizes)](const Backward& context) {
                             GradientList gradients(sizes.size());
                             std::int64_t start = 0;
                             for (std::size_t i = 0; i < sizes.size(); ++i) {
                                 const std::int64_t end = start + sizes[i];
                                 if (context.needs(i)) {
                                     gradients[i] = context.gradient().slice(place, start, end);
                                 }
                                 start = end;
                             }
                             return gradients;
                         });
    }
    return result;
}

Tensor index_select(const Tensor& x, int dimension, const Tensor& index) {
    Tensor result = without_recording([&] { return forward::index_select(x, dimension, index); });
    if (is_recorded(result, {x})) {
        autograd::record("IndexSelectBackward", result, {x}, {index},
                         [dimension, shape = x.shape()](const Backward& context) {
                             const Tensor& gradient = context.gradient();
                             return GradientList{index_add(Tensor::zeros(shape, gradient.dtype()),
                                                           dimension, context.saved(0), gradient)};
                         });
    }
    return result;
}

Tensor index_add(const Tensor& x, int dimension, const Tensor& index, const Tensor& source) {
    Tensor result =
        without_recording([&] { return forward::index_add(x, dimension, index, source); });
    if (is_recorded(result, {x, source})) {
        autograd::record(
            "IndexAddBackward", result, {x, source}, {index}, [dimension](const Backward& context) {
                GradientList gradients(2);
                gradients[0] = context.gradient();
                if (context.needs(1)) {
                    gradients[1] = index_select(context.gradient(), dimension, context.saved(0));
                }
                return gradients;
            });
    }
    return result;
}

Tensor gather(const Tensor& x, int dimension, const Tensor& index) {
    Tensor result = without_recording([&] { return forward::gather(x, dimension, index); });
    if (is_recorded(result, {x})) {
        autograd::record("GatherBackward", result, {x}, {index},
                         [dimension, shape = x.shape()](const Backward& context) {
                             const Tensor& gradient = context.gradient();
                             return GradientList{scatter_add(Tensor::zeros(shape, gradient.dtype()),
                                                             dimension, context.saved(0),
                                                             gradient)};
                         });
    }
    return result;
}

Tensor scatter_add(const Tensor& x, int dimension, const Tensor& index, const Tensor& source) {
    Tensor result =
        without_recording([&] { return forward::scatter_add(x, dimension, index, source); });
    if (is_recorded(result, {x, source})) {
        autograd::record("ScatterAddBackward", result, {x, source}, {index},
                         [dimension](const Backward& context) {
                             GradientList gradients(2);
                             gradients[0] = context.gradient();
                             if (context.needs(1)) {
                                 gradients[1] =
                                     gather(context.gradient(), dimension, context.saved(0));
                             }
                             return gradients;
                         });
    }
    return result;
}

} // namespace kael
