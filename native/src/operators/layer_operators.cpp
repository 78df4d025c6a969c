// What layers and losses need, by name.
#include <optional>

#include "kael/error.h"
#include "kael/operators.h"

#include "operators/operator.h"

namespace kael {

namespace {

std::optional<Tensor> optional_tensor(const Arguments& a, std::size_t position) {
    return a.is_absent(position) ? std::nullopt : std::optional(a.tensor(position));
}

// By its number.
Reduction reduction(const Arguments& a, std::size_t position) {
    const std::int64_t number = a.integer(position);
    KAEL_CHECK(number >= 0 && number <= static_cast<std::int64_t>(Reduction::sum),
               a.name() << ": the reduction " << number
                        << " is unknown, expected 0 (none), 1 (mean) or 2 (sum)");
    return static_cast<Reduction>(number);
}

} // namespace

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
             a.check_count(5, 5);
             return Results{layer_norm(a.tensor(0), a.integers(1), optional_tensor(a, 2),
                                       optional_tensor(a, 3), a.real(4))};
         }},
        {"causal_attention",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{causal_attention(a.tensor(0), a.integer(1), a.real(2))};
         }},
        {"nll_loss",
         [](const Arguments& a) {
             a.check_count(5, 5);
             return Results{nll_loss(a.tensor(0), a.tensor(1), a.integer(2), optional_tensor(a, 3),
                                     reduction(a, 4))};
         }},
        {"cross_entropy",
         [](const Arguments& a) {
             a.check_count(5, 5);
             return Results{cross_entropy(a.tensor(0), a.tensor(1), a.integer(2),
                                          optional_tensor(a, 3), reduction(a, 4))};
         }},
        {"mse_loss",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{mse_loss(a.tensor(0), a.tensor(1), reduction(a, 2))};
         }},
    };
}

} // namespace kael
