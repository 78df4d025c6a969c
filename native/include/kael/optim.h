// Steps of optimizers, and what goes before them. Names and formulas are PyTorch's. Parameters,
// gradients and states are contiguous, of one shape, and all float32 or all float64; nothing is
// recorded. A parameter on read-only memory is an error.
#pragma once

#include <cstdint>
#include <vector>

#include "kael/tensor.h"

namespace kael::optim {

struct SgdOptions {
    double learning_rate = 1e-3;
    double momentum = 0.0;
    double weight_decay = 0.0; // added to the gradient, times the parameter
};

// velocity = momentum * velocity + gradient; parameter -= learning_rate * velocity. `velocity`
// starts as zeros, and is undefined without momentum.
void sgd_step(Tensor& parameter, const Tensor& gradient, Tensor& velocity,
              const SgdOptions& options);

struct AdamOptions {
    double learning_rate = 1e-3;
    double beta_1 = 0.9;
    double beta_2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.0;
    // AdamW: the parameter shrinks by learning_rate * weight_decay of itself; else the decay is
    // added to the gradient.
    bool decoupled_decay = true;
};

// Step number `step`, counted from 1. `mean` and `square`, the averages of the gradient and of its
// square, start as zeros. Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter, arXiv:1711.05101.
void adam_step(Tensor& parameter, const Tensor& gradient, Tensor& mean, Tensor& square,
               std::int64_t step, const AdamOptions& options);

// The L2 norm of all gradients together, in float64. Where it is above `max_norm` every gradient is
// scaled to bring it there; where it is not finite nothing is scaled.
double clip_grad_norm(const std::vector<Tensor>& gradients, double max_norm);

} // namespace kael::optim
