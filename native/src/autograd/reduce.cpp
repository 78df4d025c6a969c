// Reductions and what works along one dimension, recorded, each with its derivative.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/record.h"
#include "tensor/defined.h"
#include "tensor/dimensions.h"

namespace kael {

namespace {

using autograd::Backward;
using autograd::GradientList;
using autograd::without_recording;

// What a reduction did to the shape of its operand.
struct Reduced {
    std::vector<int> dimensions; // ascending
    bool kept;
    Shape shape;            // of the operand
    std::int64_t count = 1; // elements that became one

    Reduced(const Tensor& x, const Over& over, const std::string& name)
        : dimensions(wrap_dimensions(x, over.dimensions, name)), kept(over.keep), shape(x.shape()) {
        for (const int dimension : dimensions) {
            count *= shape[static_cast<std::size_t>(dimension)];
        }
    }

    // A tensor of the result's shape, repeated to that of the operand.
    [[nodiscard]] Tensor spread(Tensor result) const {
        if (!kept) {
            for (const int dimension : dimensions) {
                result = result.unsqueeze(dimension);
            }
        }
        return result.expand(shape);
    }

    [[nodiscard]] Over keeping() const { return {dimensions, true}; }

    // Sums over the reduced dimensions and repeats: of nothing reduced, the tensor itself.
    [[nodiscard]] Tensor spread_sum(const Tensor& tensor) const {
        return dimensions.empty() ? tensor : sum(tensor, keeping()).expand(shape);
    }
};

// The gradient of `result`, where it chose elements: shared evenly among those that are equal to
// it.
Tensor share_among_equals(const Reduced& reduced, const Tensor& gradient, const Tensor& x,
                          const Tensor& result) {
    const Tensor chosen = eq(x, reduced.spread(result)).to(gradient.dtype());
    return reduced.spread(gradient) * chosen / reduced.spread_sum(chosen);
}

// 0 where `zero` holds: there the quotient has no limit, and 0 is PyTorch's choice.
Tensor zero_where(const Tensor& zero, const Tensor& quotient) {
    return where(zero, 0.0, quotient);
}

// Each element gets the product of the others. Zeros are left out of the product and counted: with
// one, it alone gets something; with two, none does.
Tensor others_product(const Reduced& reduced, const Tensor& gradient, const Tensor& x) {
    const Tensor is_zero = eq(x, 0.0);
    const Tensor zeros = reduced.spread_sum(is_zero.to(gradient.dtype()));
    const Tensor without = where(is_zero, 1.0, x);
    const Tensor product = reduced.spread(
        reduced.dimensions.empty() ? without : prod(without, {reduced.dimensions, reduced.kept}));
    const Tensor slope = where(eq(zeros, 0.0), product / without,
                               where(logical_and(eq(zeros, 1.0), is_zero), product, 0.0));
    return reduced.spread(gradient) * slope;
}

Tensor norm_slope(const Reduced& reduced, const Tensor& gradient, const Tensor& x,
                  const Tensor& result, double p) {
    if (p == 0) {
        return Tensor::zeros(x.shape(), gradient.dtype());
    }
    if (p == 1) {
        return reduced.spread(gradient) * sign(x);
    }
    if (std::isinf(p)) {
        return sign(x) * share_among_equals(reduced, gradient, abs(x), result);
    }
    const Tensor total = reduced.spread(result);
    const Tensor scaled = p == 2 ? x / total : sign(x) * pow(abs(x) / total, p - 1.0);
    return reduced.spread(gradient) * zero_where(eq(total, 0.0), scaled);
}

template <typename Derivative>
Tensor recorded(const char* node, const Tensor& x, Tensor result, const std::vector<Tensor>& saved,
                Derivative derivative) {
    if (autograd::needs_recording(result, {x})) {
        autograd::record(node, result, {x}, saved,
                         [derivative = std::move(derivative)](const Backward& context) {
                             return GradientList{derivative(context)};
                         });
    }
    return result;
}

} // namespace

Tensor sum(const Tensor& x, const Over& over) {
    return recorded("SumBackward", x, without_recording([&] { return forward::sum(x, over); }), {},
                    [reduced = Reduced(x, over, "sum")](const Backward& context) {
                        return reduced.spread(context.gradient());
                    });
}

Tensor prod(const Tensor& x, const Over& over) {
    return recorded("ProdBackward", x, without_recording([&] { return forward::prod(x, over); }),
                    {x}, [reduced = Reduced(x, over, "prod")](const Backward& context) {
                        return others_product(reduced, context.gradient(), context.saved(0));
                    });
}

Tensor mean(const Tensor& x, const Over& over) {
    return recorded("MeanBackward", x, without_recording([&] { return forward::mean(x, over); }),
                    {}, [reduced = Reduced(x, over, "mean")](const Backward& context) {
                        return reduced.spread(context.gradient()) /
                               static_cast<double>(reduced.count);
                    });
}

Tensor var(const Tensor& x, const Over& over, double correction) {
    return recorded("VarBackward", x,
                    without_recording([&] { return forward::var(x, over, correction); }), {x},
                    [reduced = Reduced(x, over, "var"), correction](const Backward& context) {
                        const Tensor& values = context.saved(0);
                        const double degrees = static_cast<double>(reduced.count) - correction;
                        return reduced.spread(context.gradient()) *
                               (values - mean(values, reduced.keeping())) * (2.0 / degrees);
                    });
}

Tensor std_deviation(const Tensor& x, const Over& over, double correction) {
    const Tensor result =
        without_recording([&] { return forward::std_deviation(x, over, correction); });
    return recorded("StdBackward", x, result, {x, result},
                    [reduced = Reduced(x, over, "std"), correction](const Backward& context) {
                        const Tensor& values = context.saved(0);
                        const Tensor deviation = reduced.spread(context.saved(1));
                        const double degrees = static_cast<double>(reduced.count) - correction;
                        const Tensor slope = (values - mean(values, reduced.keeping())) / deviation;
                        return reduced.spread(context.gradient()) *
                               zero_where(eq(deviation, 0.0), slope) * (1.0 / degrees);
                    });
}

Tensor norm(const Tensor& x, double p, const Over& over) {
    const Tensor result = without_recording([&] { return forward::norm(x, p, over); });
    return recorded("NormBackward", x, result, {x, result},
                    [reduced = Reduced(x, over, "norm"), p](const Backward& context) {
                        return norm_slope(reduced, context.gradient(), context.saved(0),
                                          context.saved(1), p);
                    });
}

Tensor logsumexp(const Tensor& x, const Over& over) {
    const Tensor result = without_recording([&] { return forward::logsumexp(x, over); });
    return recorded("LogsumexpBackward", x, result, {x, result},
                    [reduced = Reduced(x, over, "logsumexp")](const Backward& context) {
                        // Where all are -infinity none has a share: 0, and not PyTorch's NaN.
                        const Tensor total = reduced.spread(context.saved(1));
                        const Tensor shares =
                            zero_where(eq(total, -std::numeric_limits<double>::infinity()),
                                       exp(context.saved(0) - total));
                        return reduced.spread(context.gradient()) * shares;
                    });
}

Tensor amax(const Tensor& x, const Over& over) {
    const Tensor result = without_recording([&] { return forward::amax(x, over); });
    return recorded("AmaxBackward", x, result, {x, result},
                    [reduced = Reduced(x, over, "amax")](const Backward& context) {
                        return share_among_equals(reduced, context.gradient(), context.saved(0),
                                                  context.saved(1));
                    });
}

Tensor amin(const Tensor& x, const Over& over) {
    const Tensor result = without_recording([&] { return forward::amin(x, over); });
    return recorded("AminBackward", x, result, {x, result},
                    [reduced = Reduced(x, over, "amin")](const Backward& context) {
                        return share_among_equals(reduced, context.gradient(), context.saved(0),
                                                  context.saved(1));
                    });
}

Tensor any(const Tensor& x, const Over& over) {
    return without_recording([&] { return forward::any(x, over); });
}

Tensor all(const Tensor& x, const Over& over) {
    return without_recording([&] { return forward::all(x, over); });
}

Tensor argmax(const Tensor& x, std::optional<int> dimension, bool keep) {
    return without_recording([&] { return forward::argmax(x, dimension, keep); });
}

Tensor argmin(const Tensor& x, std::optional<int> dimension, bool keep) {
    return without_recording([&] { return forward::argmin(x, dimension, keep); });
}

Tensor cumsum(const Tensor& x, int dimension) {
    return recorded("CumsumBackward", x,
                    without_recording([&] { return forward::cumsum(x, dimension); }), {},
                    [dimension](const Backward& context) {
                        // The sum of an element and all after it. Not of all less those before it:
                        // a difference loses what is small beside them, and of infinities it is
                        // NaN.
                        const Tensor& gradient = context.gradient();
                        if (gradient.rank() == 0) {
                            return gradient;
                        }
                        return flip(cumsum(flip(gradient, {dimension}), dimension), {dimension});
                    });
}

Tensor softmax(const Tensor& x, int dimension) {
    const Tensor result = without_recording([&] { return forward::softmax(x, dimension); });
    return recorded("SoftmaxBackward", x, result, {result}, [dimension](const Backward& context) {
        const Tensor& shares = context.saved(0);
        const Tensor weighted = context.gradient() * shares;
        return weighted - shares * sum(weighted, {{dimension}, true});
    });
}

Tensor log_softmax(const Tensor& x, int dimension) {
    const Tensor result = without_recording([&] { return forward::log_softmax(x, dimension); });
    return recorded(
        "LogSoftmaxBackward", x, result, {result}, [dimension](const Backward& context) {
            const Tensor& gradient = context.gradient();
            return gradient - exp(context.saved(0)) * sum(gradient, {{dimension}, true});
        });
}

Tensor sum_to_shape(const Tensor& x, const Shape& shape) {
    check_defined(x, "sum_to_shape");
    KAEL_CHECK(x.rank() >= static_cast<int>(shape.size()),
               "sum_to_shape: the shape " << to_string(x.shape()) << " to " << to_string(shape)
                                          << ", expected at most " << x.rank() << " dimensions");
    const std::size_t added = x.shape().size() - shape.size();
    Over over{{}, true};
    for (std::size_t i = 0; i < x.shape().size(); ++i) {
        const std::int64_t size = x.shape()[i];
        KAEL_CHECK(i < added || shape[i - added] == size || shape[i - added] == 1,
                   "sum_to_shape: the shape " << to_string(x.shape()) << " is no broadcast of "
                                              << to_string(shape)
                                              << ", expected dimensions that are equal or 1");
        if (i < added || shape[i - added] != size) {
            over.dimensions.push_back(static_cast<int>(i));
        }
    }
    return over.dimensions.empty() ? x : sum(x, over).reshape(shape);
}

} // namespace kael
