// Operators that put elements elsewhere, recorded. Those that gather and those that add where
// others gather are each other's derivatives.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/record.h"
#include "tensor/defined.h"
#include "tensor/dimensions.h"
#include "tensor/places.h"

namespace kael {

namespace {

using autograd::Backward;
using autograd::GradientList;
using autograd::without_recording;

// 0, 1, ... in row-major order.
Tensor numbered(const Shape& shape) {
    Tensor numbers = Tensor::empty(shape, DType::int64);
    std::iota(numbers.mutable_data<std::int64_t>(),
              numbers.mutable_data<std::int64_t>() + numbers.numel(), std::int64_t{0});
    return numbers;
}

// Of a write to some places of a tensor: the gradient of what the tensor was before, and that of
// the values, where they stay.
struct PlaceGradients {
    std::function<Tensor(const Backward&)> rest;
    std::function<Tensor(const Backward&)> values;
};

// Runs `write`, which writes `values` to the places of x that `saved` names.
template <typename Write>
Tensor& write_places(const char* name, const char* node, Tensor& x, const Operand& values,
                     std::vector<Tensor> saved, const PlaceGradients& of, Write write) {
    std::vector<Tensor> inputs = {x};
    if (!values.is_number()) {
        inputs.push_back(values.tensor());
    }
    autograd::InPlaceWrite in_place(name, node, inputs);
    if (in_place.is_recorded()) {
        std::transform(saved.begin(), saved.end(), saved.begin(),
                       [&](const Tensor& index) { return in_place.kept(index); });
    }
    in_place.run(write);
    if (in_place.is_recorded()) {
        in_place.record(x.detach(), saved, [of, count = inputs.size()](const Backward& context) {
            GradientList gradients(count);
            gradients[0] = context.needs(0) ? of.rest(context) : Tensor();
            if (count > 1 && context.needs(1)) {
                gradients[1] = of.values(context);
            }
            return gradients;
        });
    }
    return x;
}

} // namespace

Tensor cat(const std::vector<Tensor>& tensors, int dimension) {
    Tensor result = without_recording([&] { return forward::cat(tensors, dimension); });
    if (autograd::needs_recording(result, tensors)) {
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
    if (autograd::needs_recording(result, {x})) {
        autograd::record(
            "IndexSelectBackward", result, {x}, {index},
            [dimension, shape = x.shape()](const Backward& context) {
                const Tensor& gradient = context.gradient();
                const Tensor& places = context.saved(0);
                if (!grad_enabled()) {
                    return GradientList{forward::index_sum(shape, dimension, places, gradient)};
                }
                return GradientList{
                    index_add(Tensor::zeros(shape, gradient.dtype()), dimension, places, gradient)};
            });
    }
    return result;
}

Tensor index_add(const Tensor& x, int dimension, const Tensor& index, const Tensor& source) {
    Tensor result =
        without_recording([&] { return forward::index_add(x, dimension, index, source); });
    if (autograd::needs_recording(result, {x, source})) {
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
    if (autograd::needs_recording(result, {x})) {
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
    if (autograd::needs_recording(result, {x, source})) {
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

Tensor scatter(const Tensor& x, int dimension, const Tensor& index, const Operand& source) {
    check_defined(x, "scatter");
    Tensor result = x.clone();
    return scatter_(result, dimension, index, source);
}

Tensor& scatter_(Tensor& x, int dimension, const Tensor& index, const Operand& source) {
    const PlaceGradients gradients = {
        [=](const Backward& context) {
            return scatter(context.gradient(), dimension, context.saved(0), 0);
        },
        [=](const Backward& context) {
            const Tensor& places = context.saved(0);
            const Tensor order = numbered(places.shape());
            const Tensor last = scatter(Tensor::zeros(context.gradient().shape(), DType::int64),
                                        dimension, places, order);
            return where(eq(gather(last, dimension, places), order),
                         gather(context.gradient(), dimension, places), 0);
        }};
    return write_places("scatter_", "ScatterBackward", x, source, {index}, gradients,
                        [&] { forward::scatter_(x, dimension, index, source); });
}

Tensor nonzero(const Tensor& x) {
    return forward::nonzero(x);
}

Tensor index(const Tensor& x, const std::vector<int>& dimensions,
             const std::vector<Tensor>& indices) {
    const Places places = find_places(x, dimensions, indices, "index");
    const Shape shape = places.picked(x.shape());
    const int first = places.front();
    const int last = first + static_cast<int>(places.dimensions.size()) - 1;
    const Tensor moved = places.are_adjacent() ? x : x.permute(places.order(x.rank()));
    return index_select(flatten(moved, first, last), first, places.joined(x.shape()))
        .reshape(shape);
}

Tensor& index_put_(Tensor& x, const std::vector<int>& dimensions,
                   const std::vector<Tensor>& indices, const Operand& value) {
    const Places places = find_places(x, dimensions, indices, "index_put_");
    Tensor source;
    if (value.is_number()) {
        source = Tensor::empty({}, x.dtype());
        forward::copy_(source, value);
    } else {
        source = value.tensor();
        check_defined(source, "index_put_");
    }
    const std::vector<int> picked = places.dimensions;
    const PlaceGradients gradients = {
        [picked](const Backward& context) {
            Tensor rest = context.gradient().clone();
            return index_put_(rest, picked, context.all_saved(), 0);
        },
        [picked, first = places.front()](const Backward& context) {
            const std::vector<Tensor>& saved = context.all_saved();
            const Tensor part = index(context.gradient(), picked, saved);
            Shape sizes;
            std::vector<int> all;
            for (const int dimension : picked) {
                all.push_back(static_cast<int>(sizes.size()));
                sizes.push_back(context.gradient().size(dimension));
            }
            const Tensor order = numbered(saved[0].shape());
            Tensor last = Tensor::zeros(sizes, DType::int64);
            index_put_(last, all, saved, order);
            Tensor stays = eq(index(last, all, saved), order);
            // Beside the dimensions of `part` that stand for the indices.
            Shape aligned = stays.shape();
            aligned.resize(part.shape().size() - static_cast<std::size_t>(first), 1);
            return where(stays.reshape(aligned), part, 0);
        }};
    return write_places("index_put_", "IndexPutBackward", x, value, places.indices, gradients,
                        [&] { forward::put_(x, places, source, "index_put_"); });
}

} // namespace kael
