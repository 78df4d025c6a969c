// Products of matrices by name.
#include "kael/operators.h"

#include "operators/operator.h"

namespace kael {

std::vector<Operator> matmul_operators() {
    return {
        {"matmul",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return std::vector<Tensor>{matmul(a.tensor(0), a.tensor(1))};
         }},
        {"einsum",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return std::vector<Tensor>{einsum(a.text(0), a.tensors(1))};
         }},
    };
}

} // namespace kael
