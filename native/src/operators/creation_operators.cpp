// New tensors by name.
#include <optional>

#include "kael/creation.h"

#include "operators/operator.h"

namespace kael {

std::vector<Operator> creation_operators() {
    const auto dtype = [](const Arguments& a, std::size_t position) -> std::optional<DType> {
        return a.is_absent(position) ? std::nullopt : std::optional(a.dtype(position));
    };
    return {
        {"full",
         [=](const Arguments& a) {
             a.check_count(2, 3);
             return std::vector<Tensor>{full(a.integers(0), a.number(1), dtype(a, 2))};
         }},
        {"arange",
         [=](const Arguments& a) {
             a.check_count(3, 4);
             return std::vector<Tensor>{arange(a.number(0), a.number(1), a.number(2), dtype(a, 3))};
         }},
        {"linspace",
         [=](const Arguments& a) {
             a.check_count(3, 4);
             return std::vector<Tensor>{
                 linspace(a.real(0), a.real(1), a.integer(2), dtype(a, 3).value_or(kDefaultFloat))};
         }},
        {"eye",
         [=](const Arguments& a) {
             a.check_count(2, 3);
             return std::vector<Tensor>{
                 eye(a.integer(0), a.integer(1), dtype(a, 2).value_or(kDefaultFloat))};
         }},
        {"rand",
         [=](const Arguments& a) {
             a.check_count(1, 2);
             return std::vector<Tensor>{rand(a.integers(0), dtype(a, 1).value_or(kDefaultFloat))};
         }},
        {"randn",
         [=](const Arguments& a) {
             a.check_count(1, 2);
             return std::vector<Tensor>{randn(a.integers(0), dtype(a, 1).value_or(kDefaultFloat))};
         }},
    };
}

} // namespace kael
