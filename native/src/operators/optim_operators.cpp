// Steps of optimizers by name.
#include "kael/optim.h"

#include "operators/operator.h"

namespace kael {

std::vector<Operator> optim_operators() {
    using Results = std::vector<Tensor>;
    return {
        // parameter, gradient, velocity or nothing, learning rate, momentum, weight decay
        {"sgd_step_",
         [](const Arguments& a) {
             a.check_count(6, 6);
             Tensor parameter = a.tensor(0);
             Tensor velocity = a.is_absent(2) ? Tensor() : a.tensor(2);
             optim::sgd_step(
                 parameter, a.tensor(1), velocity,
                 {.learning_rate = a.real(3), .momentum = a.real(4), .weight_decay = a.real(5)});
             return Results{};
         }},
        // parameter, gradient, mean, square, step, learning rate, beta 1, beta 2, epsilon, weight
        // decay, whether the decay is decoupled
        {"adam_step_",
         [](const Arguments& a) {
             a.check_count(11, 11);
             Tensor parameter = a.tensor(0);
             Tensor mean = a.tensor(2);
             Tensor square = a.tensor(3);
             optim::adam_step(parameter, a.tensor(1), mean, square, a.integer(4),
                              {.learning_rate = a.real(5),
                               .beta_1 = a.real(6),
                               .beta_2 = a.real(7),
                               .epsilon = a.real(8),
                               .weight_decay = a.real(9),
                               .decoupled_decay = a.flag(10)});
             return Results{};
         }},
        // gradients, largest norm; the norm before, as float64
        {"clip_grad_norm",
         [](const Arguments& a) {
             a.check_count(2, 2);
             const double total = optim::clip_grad_norm(a.tensors(0), a.real(1));
             return Results{Tensor::from_bytes(&total, sizeof(total), {}, DType::float64)};
         }},
    };
}

} // namespace kael
