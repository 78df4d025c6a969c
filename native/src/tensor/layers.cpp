#include "tensor/layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>
#include <vector>

#include "kael/error.h"
#include "kael/threads.h"

#include "kernels/cpu/kernels.h"
#include "tensor/reductions.h"

namespace kael::forward {

namespace {

// Elements that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 8192;

DType compute_type(const char* name, const Tensor& x) {
    KAEL_CHECK(is_floating_point(x.dtype()), name << ": a tensor of dtype " << kael::name(x.dtype())
                                                  << ", expected a floating-point one");
    return x.dtype() == DType::float64 ? DType::float64 : DType::float32;
}

// Calls body(zero) with a zero of the type that is computed in.
template <typename Body>
void with_type(DType compute, Body&& body) {
    if (compute == DType::float64) {
        body(double{0});
    } else {
        body(float{0});
    }
}

// The elements in order, in the type that is computed in.
Tensor prepared(const Tensor& x, DType compute) {
    return x.to(compute).contiguous();
}

template <typename T>
const T* elements(const Tensor& x) {
    return reinterpret_cast<const T*>(x.data_ptr_raw());
}
template <typename T>
T* writable(const Tensor& x) {
    return reinterpret_cast<T*>(x.storage()->data());
}

std::int64_t rows_of(const Tensor& x) {
    return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1);
}

// ---- Layer normalisation

// The differences from a mean that was rounded do not sum to 0: what is left of them corrects it,
// and the variance. Of equal elements, however large, the differences are then 0. The mean of
// float32 needs none of that, for it is a float64.
template <typename T>
void normalize_row(const T* x, const T* weight, const T* bias, double epsilon, std::int64_t width,
                   T* y, T& mean, T& scale) {
    const auto count = static_cast<double>(width);
    const double center =
        reductions::sum_lanes<double>(x, width, [](T value) { return double{value}; }) / count;
    double residue = 0;
    if constexpr (std::is_same_v<T, double>) {
        residue = reductions::sum_lanes<double>(x, width,
                                                [center](double value) { return value - center; }) /
                  count;
    }
    const double squares = reductions::sum_lanes<double>(x, width,
                                                         [center](T value) {
                                                             const double distance =
                                                                 double{value} - center;
                                                             return distance * distance;
                                                         }) /
                           count;
    const double variance = squares - residue * residue;
    mean = static_cast<T>(center + residue);
    scale = static_cast<T>(1.0 / std::sqrt((variance < 0 ? 0 : variance) + epsilon));
    for (std::int64_t i = 0; i < width; ++i) {
        y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
    }
}

template <typename T>
void gradient_row(const T* gradient, const T* x, T mean, T scale, const T* weight,
                  std::int64_t width, T* out) {
    const auto count = static_cast<double>(width);
    double sum = 0;
    double product = 0;
    for (std::int64_t i = 0; i < width; ++i) {
        const double inner = double{gradient[i]} * double{weight[i]};
        sum += inner;
        product += inner * double{(x[i] - mean) * scale};
    }
    const T average = static_cast<T>(sum / count);
    const T slope = static_cast<T>(product / count);
    for (std::int64_t i = 0; i < width; ++i) {
        const T normal = (x[i] - mean) * scale;
        out[i] = (gradient[i] * weight[i] - average - normal * slope) * scale;
    }
}

// Columns [first, last) of the sums over all rows, in their order.
template <typename T>
void gradient_columns(const T* gradient, const T* x, const T* mean, const T* scale,
                      std::int64_t rows, std::int64_t width, std::int64_t first, std::int64_t last,
                      T* weight, T* bias) {
    std::vector<double> weights(static_cast<std::size_t>(last - first));
    std::vector<double> biases(weights.size());
    for (std::int64_t row = 0; row < rows; ++row) {
        const T* const g = gradient + row * width + first;
        const T* const values = x + row * width + first;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            biases[i] += double{g[i]};
            weights[i] += double{g[i] * ((values[i] - mean[row]) * scale[row])};
        }
    }
    std::transform(weights.begin(), weights.end(), weight + first,
                   [](double sum) { return static_cast<T>(sum); });
    std::transform(biases.begin(), biases.end(), bias + first,
                   [](double sum) { return static_cast<T>(sum); });
}

// ---- Cross-entropy

// The logarithm of the sum of exp(x) over a row, in two parts: beside a large one the other would
// be lost.
struct LogSum {
    double largest; // x
    double rest;    // log(sum of exp(x - largest))
};

// Turns a row into exp(x) / sum of exp(x). The kernel wants room up to the next multiple of 16, and
// answers zeros where all elements are -infinity.
LogSum to_shares(float* row, std::int64_t width) {
    const std::int64_t top = std::max_element(row, row + width) - row;
    const double largest = double{row[top]};
    kernels::cpu_kernels().softmax(row, width);
    if (largest == -std::numeric_limits<double>::infinity()) {
        std::fill(row, row + width, std::numeric_limits<float>::quiet_NaN());
    }
    return {largest, -std::log(double{row[top]})};
}

LogSum to_shares(double* row, std::int64_t width) {
    const double largest = *std::max_element(row, row + width);
    for (std::int64_t i = 0; i < width; ++i) {
        row[i] = std::exp(row[i] - largest);
    }
    const double sum =
        reductions::sum_lanes<double>(row, width, [](double value) { return value; });
    for (std::int64_t i = 0; i < width; ++i) {
        row[i] /= sum;
    }
    return {largest, std::log(sum)};
}

// ---- GELU

// Far from 0 the second term vanishes before its factors overflow.
double gelu_tanh_slope(double x) {
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const double near = std::clamp(x, -20.0, 20.0);
    const double tangent = std::tanh(scale * (near + 0.044715 * near * near * near));
    return 0.5 * (1.0 + tangent) +
           0.5 * near * (1.0 - tangent * tangent) * scale * (1.0 + 3.0 * 0.044715 * near * near);
}

std::size_t padded(std::int64_t width) {
    return static_cast<std::size_t>((width + 15) / 16 * 16);
}

// Those that are not left out, after a look at all of them.
std::int64_t count_targets(const Tensor& targets, std::int64_t classes, std::int64_t ignored) {
    const std::int64_t* const ids = targets.data<std::int64_t>();
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < targets.numel(); ++i) {
        KAEL_CHECK(ids[i] == ignored || (ids[i] >= 0 && ids[i] < classes),
                   "cross_entropy: target " << i << " is " << ids[i] << ", expected 0 to "
                                            << classes - 1 << ", or " << ignored
                                            << " to leave it out");
        counted += ids[i] == ignored ? 0 : 1;
    }
    return counted;
}

} // namespace

NormalizedRows layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                          double epsilon) {
    const DType compute = compute_type("layer_norm", x);
    const Shape width = {x.size(-1)};
    const std::int64_t rows = rows_of(x);
    const Tensor from = prepared(x, compute);
    const Tensor gain = prepared(weight, compute);
    const Tensor shift = prepared(bias, compute);
    const Tensor result = Tensor::empty(x.shape(), compute);
    const Tensor mean = Tensor::empty({rows}, compute);
    const Tensor scale = Tensor::empty({rows}, compute);
    with_type(compute, [&](auto zero) {
        using T = decltype(zero);
        parallel_for(0, rows, kGrain / std::max<std::int64_t>(width[0], 1) + 1,
                     [&](std::int64_t first, std::int64_t last) {
                         for (std::int64_t row = first; row < last; ++row) {
                             normalize_row(elements<T>(from) + row * width[0], elements<T>(gain),
                                           elements<T>(shift), epsilon, width[0],
                                           writable<T>(result) + row * width[0],
                                           writable<T>(mean)[row], writable<T>(scale)[row]);
                         }
                     });
    });
    return {result.to(x.dtype()), mean, scale};
}

LayerNormGradients layer_norm_gradients(const Tensor& gradient, const Tensor& x, const Tensor& mean,
                                        const Tensor& scale, const Tensor& weight, bool of_x,
                                        bool of_parameters) {
    const DType compute = mean.dtype();
    const std::int64_t rows = mean.numel();
    const std::int64_t width = x.size(-1);
    const Tensor incoming = prepared(gradient, compute);
    const Tensor from = prepared(x, compute);
    const Tensor gain = prepared(weight, compute);
    LayerNormGradients result;
    if (of_x) {
        const Tensor out = Tensor::empty(x.shape(), compute);
        with_type(compute, [&](auto zero) {
            using T = decltype(zero);
            parallel_for(0, rows, kGrain / std::max<std::int64_t>(width, 1) + 1,
                         [&](std::int64_t first, std::int64_t last) {
                             for (std::int64_t row = first; row < last; ++row) {
                                 gradient_row(elements<T>(incoming) + row * width,
                                              elements<T>(from) + row * width,
                                              elements<T>(mean)[row], elements<T>(scale)[row],
                                              elements<T>(gain), width,
                                              writable<T>(out) + row * width);
                             }
                         });
        });
        result.x = out.to(x.dtype());
    }
    if (of_parameters) {
        const Tensor weights = Tensor::empty({width}, compute);
        const Tensor biases = Tensor::empty({width}, compute);
        with_type(compute, [&](auto zero) {
            using T = decltype(zero);
            parallel_for(0, width, kGrain / std::max<std::int64_t>(rows, 1) + 1,
                         [&](std::int64_t first, std::int64_t last) {
                             gradient_columns(elements<T>(incoming), elements<T>(from),
                                              elements<T>(mean), elements<T>(scale), rows, width,
                                              first, last, writable<T>(weights),
                                              writable<T>(biases));
                         });
        });
        result.weight = weights.to(weight.dtype());
        result.bias = biases.to(weight.dtype());
    }
    return result;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, std::int64_t ignored) {
    const DType compute = compute_type("cross_entropy", logits);
    const std::int64_t width = logits.size(1);
    const Tensor wanted = targets.contiguous();
    const std::int64_t counted = count_targets(wanted, width, ignored);
    const Tensor from = prepared(logits, compute);
    const std::int64_t* const ids = wanted.data<std::int64_t>();
    std::vector<double> losses(static_cast<std::size_t>(wanted.numel()));
    with_type(compute, [&](auto zero) {
        using T = decltype(zero);
        parallel_for(0, wanted.numel(), kGrain / std::max<std::int64_t>(width, 1) + 1,
                     [&](std::int64_t first, std::int64_t last) {
                         std::vector<T> shares(padded(width));
                         for (std::int64_t row = first; row < last; ++row) {
                             if (ids[row] != ignored) {
                                 const T* const x = elements<T>(from) + row * width;
                                 std::copy(x, x + width, shares.begin());
                                 const LogSum sum = to_shares(shares.data(), width);
                                 losses[static_cast<std::size_t>(row)] =
                                     (sum.largest - double{x[ids[row]]}) + sum.rest;
                             }
                         }
                     });
    });
    const double total = reductions::sum_lanes<double>(losses.data(), wanted.numel(),
                                                       [](double loss) { return loss; });
    const Tensor result = Tensor::empty({}, DType::float64);
    *writable<double>(result) = counted == 0 ? std::numeric_limits<double>::quiet_NaN()
                                             : total / static_cast<double>(counted);
    return result.to(logits.dtype());
}

Tensor cross_entropy_gradient(const Tensor& gradient, const Tensor& logits, const Tensor& targets,
                              std::int64_t ignored) {
    const DType compute = compute_type("cross_entropy", logits);
    const std::int64_t width = logits.size(1);
    const Tensor wanted = targets.contiguous();
    const std::int64_t counted = count_targets(wanted, width, ignored);
    const Tensor from = prepared(logits, compute);
    const std::int64_t* const ids = wanted.data<std::int64_t>();
    const double incoming = *elements<double>(gradient.to(DType::float64));
    const Tensor result = Tensor::empty(logits.shape(), compute);
    with_type(compute, [&](auto zero) {
        using T = decltype(zero);
        const T factor = static_cast<T>(incoming / static_cast<double>(counted));
        parallel_for(0, wanted.numel(), kGrain / std::max<std::int64_t>(width, 1) + 1,
                     [&](std::int64_t first, std::int64_t last) {
                         std::vector<T> shares(padded(width));
                         for (std::int64_t row = first; row < last; ++row) {
                             T* const out = writable<T>(result) + row * width;
                             if (ids[row] == ignored) {
                                 std::fill(out, out + width, T{0});
                                 continue;
                             }
                             const T* const x = elements<T>(from) + row * width;
                             std::copy(x, x + width, shares.begin());
                             to_shares(shares.data(), width);
                             std::transform(shares.begin(), shares.begin() + width, out,
                                            [factor](T share) { return share * factor; });
                             out[ids[row]] -= factor;
                         }
                     });
    });
    return result.to(logits.dtype());
}

Tensor gelu_tanh_gradient(const Tensor& gradient, const Tensor& x) {
    const DType compute = compute_type("gelu_tanh", x);
    const Tensor incoming = prepared(gradient, compute);
    const Tensor from = prepared(x, compute);
    const Tensor result = Tensor::empty(x.shape(), compute);
    parallel_for(0, x.numel(), kGrain, [&](std::int64_t first, std::int64_t last) {
        if (compute == DType::float32) {
            kernels::cpu_kernels().gelu_tanh_gradient(elements<float>(incoming) + first,
                                                      elements<float>(from) + first, last - first,
                                                      writable<float>(result) + first);
            return;
        }
        std::transform(elements<double>(incoming) + first, elements<double>(incoming) + last,
                       elements<double>(from) + first, writable<double>(result) + first,
                       [](double g, double value) { return g * gelu_tanh_slope(value); });
    });
    return result.to(x.dtype());
}

} // namespace kael::forward
