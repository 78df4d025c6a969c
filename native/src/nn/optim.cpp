#include "kael/optim.h"

#include <cmath>
#include <string>

#include "kael/error.h"
#include "kael/operators.h"
#include "kael/threads.h"

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
                    << to_string(other.shape()) << ", the parameter " << name(parameter.dtype())
                    << " " << to_string(parameter.shape()));
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
             << "): make it writable first, as train() of a model does");
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
    for_each_part(parameter, [&](auto zero, std::int64_t begin, std::int64_t end) {
        using T = decltype(zero);
        T* const p = parameter.mutable_data<T>();
        const T* const g = gradient.data<T>();
        T* const m = mean.mutable_data<T>();
        T* const s = square.mutable_data<T>();
        const T keep_1 = static_cast<T>(options.beta_1);
        const T take_1 = static_cast<T>(1.0 - options.beta_1);
        const T keep_2 = static_cast<T>(options.beta_2);
        const T take_2 = static_cast<T>(1.0 - options.beta_2);
        const T root_share = static_cast<T>(std::sqrt(square_share));
        const T epsilon = static_cast<T>(options.epsilon);
        const T rate = static_cast<T>(options.learning_rate / mean_share);
        const T decay = static_cast<T>(options.weight_decay);
        const T shrunk = static_cast<T>(1.0 - options.learning_rate * options.weight_decay);
        for (std::int64_t i = begin; i < end; ++i) {
            const T change = options.decoupled_decay ? g[i] : g[i] + decay * p[i];
            const T start = options.decoupled_decay ? p[i] * shrunk : p[i];
            m[i] = keep_1 * m[i] + take_1 * change;
            s[i] = keep_2 * s[i] + take_2 * change * change;
            p[i] = start - rate * m[i] / (std::sqrt(s[i]) / root_share + epsilon);
        }
    });
    mark_written(parameter, "adam_step");
}

double clip_grad_norm(const std::vector<Tensor>& gradients, double max_norm) {
    KAEL_CHECK(max_norm >= 0.0,
               "clip_grad_norm: the largest norm is " << max_norm << ", expected 0 or more");
    const NoGrad guard;
    double squares = 0.0;
    for (const Tensor& gradient : gradients) {
        const Tensor part = norm(gradient.to(DType::float64));
        squares += *part.data<double>() * *part.data<double>();
    }
    const double total = std::sqrt(squares);
    if (std::isfinite(total) && total > max_norm) {
        for (Tensor gradient : gradients) {
            mul_(gradient, max_norm / total);
        }
    }
    return total;
}

} // namespace kael::optim
