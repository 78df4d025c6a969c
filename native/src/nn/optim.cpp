#include "kael/optim.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "kael/error.h"
#include "kael/operators.h"
#include "kael/threads.h"

#include "kernels/cpu/kernels.h"
#include "tensor/overlap.h"
#include "tensor/reductions.h"

namespace kael::optim {

namespace {

// Elements that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 16384;

// `what` is one of the tensors that a step works on beside `parameter`.
void check_like(const Tensor& parameter, const Tensor& other, const char* what,
                const std::string& step) {
    KAEL_CHECK(other.defined(), step << ": no " << what << ", expected a tensor");
    KAEL_CHECK(other.shape() == parameter.shape() && other.dtype() == parameter.dtype(),
               step << ": the " << what << " is " << name(other.dtype()) << " "
                    << to_string(other.shape()) << ", expected " << name(parameter.dtype()) << " "
                    << to_string(parameter.shape()) << " like the parameter");
    KAEL_CHECK(other.is_contiguous(),
               step << ": the " << what << " is not contiguous, expected a tensor without gaps");
}

void check_parameter(const Tensor& parameter, const std::string& step) {
    KAEL_CHECK(parameter.defined(), step << ": no parameter, expected a tensor");
    KAEL_CHECK(parameter.dtype() == DType::float32 || parameter.dtype() == DType::float64,
               step << ": a parameter of dtype " << name(parameter.dtype())
                    << ", expected float32 or float64");
    KAEL_CHECK(parameter.is_contiguous(),
               step << ": the parameter is not contiguous, expected a tensor without gaps");
    KAEL_CHECK(
        !parameter.storage()->is_read_only(),
        step << ": the parameter's memory is read-only ("
             << (parameter.storage()->origin().empty() ? "borrowed" : parameter.storage()->origin())
             << "), expected memory that may be written: train() of a model makes it so");
}

// Calls body(T{}, [begin, end)) for parts of the elements, T being float or double.
template <typename Body>
void for_each_part(const Tensor& parameter, const Body& body) {
    const auto run = [&](auto zero) {
        parallel_for(0, parameter.numel(), kGrain,
                     [&](std::int64_t begin, std::int64_t end) { body(zero, begin, end); });
    };
    parameter.dtype() == DType::float32 ? run(float{}) : run(double{});
}

// In blocks, so that it does not depend on the number of threads.
template <typename T>
double sum_of_squares_of(const Tensor& tensor) {
    const T* const elements = tensor.data<T>();
    const std::int64_t count = tensor.numel();
    std::vector<double> sums(static_cast<std::size_t>((count + kGrain - 1) / kGrain));
    parallel_for(0, std::ssize(sums), 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t block = first; block < last; ++block) {
            const std::int64_t begin = block * kGrain;
            sums[static_cast<std::size_t>(block)] = reductions::sum_lanes<double>(
                elements + begin, std::min(kGrain, count - begin),
                [](T value) { return double{value} * double{value}; });
        }
    });
    return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double sum_of_squares(const Tensor& tensor) {
    if (tensor.dtype() == DType::float32) {
        return sum_of_squares_of<float>(tensor.contiguous());
    }
    return sum_of_squares_of<double>(tensor.to(DType::float64).contiguous());
}

void mark_written(const Tensor& tensor, std::string_view step) {
    tensor.storage()->bump_version();
    tensor.storage()->set_last_writer(step);
}

} // namespace

void sgd_step(Tensor& parameter, const Tensor& gradient, Tensor& velocity,
              const SgdOptions& options) {
    check_parameter(parameter, "sgd_step");
    check_like(parameter, gradient, "gradient", "sgd_step");
    const bool has_momentum = options.momentum != 0.0;
    if (has_momentum) {
        check_like(parameter, velocity, "velocity", "sgd_step");
    }
    for_each_part(parameter, [&](auto zero, std::int64_t begin, std::int64_t end) {
        using T = decltype(zero);
        T* const p = parameter.mutable_data<T>();
        const T* const g = gradient.data<T>();
        T* const v = has_momentum ? velocity.mutable_data<T>() : nullptr;
        const T rate = static_cast<T>(options.learning_rate);
        const T momentum = static_cast<T>(options.momentum);
        const T decay = static_cast<T>(options.weight_decay);
        for (std::int64_t i = begin; i < end; ++i) {
            T change = g[i] + decay * p[i];
            if (v != nullptr) {
                change = v[i] = momentum * v[i] + change;
            }
            p[i] -= rate * change;
        }
    });
    mark_written(parameter, "sgd_step");
    if (has_momentum) {
        mark_written(velocity, "sgd_step");
    }
}

void adam_step(Tensor& parameter, const Tensor& gradient, Tensor& mean, Tensor& square,
               std::int64_t step, const AdamOptions& options) {
    check_parameter(parameter, "adam_step");
    check_like(parameter, gradient, "gradient", "adam_step");
    check_like(parameter, mean, "mean", "adam_step");
    check_like(parameter, square, "square", "adam_step");
    KAEL_CHECK(step >= 1, "adam_step: the step is " << step << ", expected 1 or more");
    const double count = static_cast<double>(step);
    const double mean_share = 1.0 - std::pow(options.beta_1, count);
    const double square_share = 1.0 - std::pow(options.beta_2, count);
    // The correction of the square is drawn out of the root.
    const double root_share = std::sqrt(square_share);
    const double rate = options.learning_rate / mean_share * root_share;
    const double epsilon = options.epsilon * root_share;
    const double decay = options.decoupled_decay ? 0.0 : options.weight_decay;
    const double kept =
        options.decoupled_decay ? 1.0 - options.learning_rate * options.weight_decay : 1.0;
    if (parameter.dtype() == DType::float32) {
        const kernels::AdamFactors factors = {
            static_cast<float>(decay),
            static_cast<float>(options.beta_1),
            static_cast<float>(1.0 - options.beta_1),
            static_cast<float>(options.beta_2),
            static_cast<float>(1.0 - options.beta_2),
            static_cast<float>(kept),
            static_cast<float>(rate),
            static_cast<float>(epsilon),
        };
        float* const p = parameter.mutable_data<float>();
        const float* const g = gradient.data<float>();
        float* const m = mean.mutable_data<float>();
        float* const s = square.mutable_data<float>();
        parallel_for(0, parameter.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
            kernels::cpu_kernels().adam(p + begin, g + begin, m + begin, s + begin, end - begin,
                                        factors);
        });
    } else {
        double* const p = parameter.mutable_data<double>();
        const double* const g = gradient.data<double>();
        double* const m = mean.mutable_data<double>();
        double* const s = square.mutable_data<double>();
        parallel_for(0, parameter.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const double change = g[i] + decay * p[i];
                m[i] = options.beta_1 * m[i] + (1.0 - options.beta_1) * change;
                s[i] = options.beta_2 * s[i] + (1.0 - options.beta_2) * change * change;
                p[i] = kept * p[i] - rate * m[i] / (std::sqrt(s[i]) + epsilon);
            }
        });
    }
    for (const Tensor& written : {parameter, mean, square}) {
        mark_written(written, "adam_step");
    }
}

double clip_grad_norm(const std::vector<Tensor>& gradients, double max_norm) {
    KAEL_CHECK(max_norm >= 0.0,
               "clip_grad_norm: the largest norm is " << max_norm << ", expected 0 or more");
    const NoGrad guard;
    double squares = 0.0;
    for (const Tensor& gradient : gradients) {
        squares += sum_of_squares(gradient);
    }
    const double total = std::sqrt(squares);
    if (std::isfinite(total) && total > max_norm) {
        for (const Tensor& gradient : gradients) { // all or none
            check_destination(gradient, "clip_grad_norm");
        }
        for (Tensor gradient : gradients) {
            mul_(gradient, max_norm / total);
        }
    }
    return total;
}

} // namespace kael::optim
