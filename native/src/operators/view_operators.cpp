// Views and plain copies by name; Tensor's own methods do the work.
#include "kael/operators.h"

#include "operators/operator.h"
#include "tensor/dimensions.h"

namespace kael {

namespace {

std::vector<Tensor> one(Tensor tensor) {
    return {std::move(tensor)};
}

} // namespace

std::vector<Operator> view_operators() {
    return {
        {"transpose",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return one(a.tensor(0).transpose(a.dimension(1), a.dimension(2)));
         }},
        {"permute",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return one(a.tensor(0).permute(a.dimensions(1)));
         }},
        {"slice",
         [](const Arguments& a) {
             a.check_count(5, 5);
             return one(
                 a.tensor(0).slice(a.dimension(1), a.integer(2), a.integer(3), a.integer(4)));
         }},
        {"select",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return one(a.tensor(0).select(a.dimension(1), a.integer(2)));
         }},
        {"unsqueeze",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return one(a.tensor(0).unsqueeze(a.dimension(1)));
         }},
        {"squeeze",
         [](const Arguments& a) {
             a.check_count(1, 2);
             const Tensor x = a.tensor(0);
             return one(
                 squeeze(x, a.is_absent(1) ? wrap_dimensions(x, {}, a.name()) : a.dimensions(1)));
         }},
        {"expand",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return one(a.tensor(0).expand(a.integers(1)));
         }},
        {"reshape",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return one(a.tensor(0).reshape(a.integers(1)));
         }},
        {"contiguous",
         [](const Arguments& a) {
             a.check_count(1, 1);
             return one(a.tensor(0).contiguous());
         }},
        {"clone",
         [](const Arguments& a) {
             a.check_count(1, 1);
             return one(a.tensor(0).clone());
         }},
        {"to",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return one(a.tensor(0).to(a.dtype(1)));
         }},
    };
}

} // namespace kael
