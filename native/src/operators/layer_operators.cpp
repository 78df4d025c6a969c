// What layers and losses need, by name.
#include "kael/operators.h"

#include "operators/operator.h"

namespace kael {

std::vector<Operator> layer_operators() {
    using Results = std::vector<Tensor>;
    return {
        {"embedding",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return Results{embedding(a.tensor(0), a.tensor(1))};
         }},
        {"layer_norm",
         [](const Arguments& a) {
             a.check_count(4, 4);
             return Results{layer_norm(a.tensor(0), a.tensor(1), a.tensor(2), a.real(3))};
         }},
        {"cross_entropy",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{cross_entropy(a.tensor(0), a.tensor(1), a.integer(2))};
         }},
        {"mse_loss",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return Results{mse_loss(a.tensor(0), a.tensor(1))};
         }},
    };
}

} // namespace kael
