// Reductions, and what works along one dimension, by name.
#include <optional>

#include "kael/operators.h"

#include "operators/operator.h"

namespace kael {

std::vector<Operator> reduce_operators() {
    // dimensions and keep, from `position` on.
    const auto over = [](const Arguments& a, std::size_t position) {
        return Over{a.is_absent(position) ? std::vector<int>{} : a.dimensions(position),
                    !a.is_absent(position + 1) && a.flag(position + 1)};
    };
    std::vector<Operator> operators;
    const auto plain = [&](const char* name, Tensor (*function)(const Tensor&, const Over&)) {
        operators.push_back({name, [=](const Arguments& a) {
                                 a.check_count(1, 3);
                                 return std::vector<Tensor>{function(a.tensor(0), over(a, 1))};
                             }});
    };
    plain("sum", sum);
    plain("prod", prod);
    plain("mean", mean);
    plain("logsumexp", logsumexp);
    plain("amax", amax);
    plain("amin", amin);
    plain("any", any);
    plain("all", all);
    const auto spread = [&](const char* name,
                            Tensor (*function)(const Tensor&, const Over&, double)) {
        operators.push_back({name, [=](const Arguments& a) {
                                 a.check_count(1, 4);
                                 return std::vector<Tensor>{function(
                                     a.tensor(0), over(a, 1), a.is_absent(3) ? 1 : a.real(3))};
                             }});
    };
    spread("var", var);
    spread("std", std_deviation);
    operators.push_back({"norm", [=](const Arguments& a) {
                             a.check_count(1, 4);
                             return std::vector<Tensor>{
                                 norm(a.tensor(0), a.is_absent(1) ? 2 : a.real(1), over(a, 2))};
                         }});
    const auto place = [&](const char* name,
                           Tensor (*function)(const Tensor&, std::optional<int>, bool)) {
        operators.push_back({name, [=](const Arguments& a) {
                                 a.check_count(1, 3);
                                 return std::vector<Tensor>{function(
                                     a.tensor(0),
                                     a.is_absent(1) ? std::nullopt : std::optional(a.dimension(1)),
                                     !a.is_absent(2) && a.flag(2))};
                             }});
    };
    place("argmax", argmax);
    place("argmin", argmin);
    return operators;
}

std::vector<Operator> along_operators() {
    std::vector<Operator> operators;
    const auto define = [&](const char* name, Tensor (*function)(const Tensor&, int)) {
        operators.push_back({name, [function](const Arguments& a) {
                                 a.check_count(2, 2);
                                 return std::vector<Tensor>{function(a.tensor(0), a.dimension(1))};
                             }});
    };
    define("cumsum", cumsum);
    define("softmax", softmax);
    define("log_softmax", log_softmax);
    return operators;
}

} // namespace kael
