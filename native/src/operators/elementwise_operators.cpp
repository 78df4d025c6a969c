// Elementwise operators by name.
#include "kael/operators.h"

#include "operators/operator.h"

namespace kael {

namespace {

using Results = std::vector<Tensor>;

// Each in-place form: what `write` does to the first argument.
template <typename Write>
Results in_place(const Arguments& arguments, std::size_t count, Write write) {
    arguments.check_count(count, count);
    Tensor target = arguments.tensor(0);
    write(target);
    return {};
}

} // namespace

std::vector<Operator> elementwise_operators() {
    std::vector<Operator> operators = {
        {"clamp",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{clamp(a.operand(0), a.operand(1), a.operand(2))};
         }},
        {"clamp_",
         [](const Arguments& a) {
             return in_place(a, 3, [&](Tensor& x) { clamp_(x, a.operand(1), a.operand(2)); });
         }},
        {"where",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{where(a.operand(0), a.operand(1), a.operand(2))};
         }},
        {"copy_",
         [](const Arguments& a) {
             return in_place(a, 2, [&](Tensor& x) { copy_(x, a.operand(1)); });
         }},
    };
#define KAEL_ADD_UNARY(name)                                                                       \
    operators.push_back({#name, [](const Arguments& a) {                                           \
                             a.check_count(1, 1);                                                  \
                             return Results{name(a.operand(0))};                                   \
                         }});                                                                      \
    operators.push_back({#name "_", [](const Arguments& a) {                                       \
                             return in_place(a, 1, [](Tensor& x) { name##_(x); });                 \
                         }});
    KAEL_UNARY_OPERATORS(KAEL_ADD_UNARY)
#undef KAEL_ADD_UNARY
#define KAEL_ADD_BINARY(name)                                                                      \
    operators.push_back({#name, [](const Arguments& a) {                                           \
                             a.check_count(2, 2);                                                  \
                             return Results{name(a.operand(0), a.operand(1))};                     \
                         }});                                                                      \
    operators.push_back({#name "_", [](const Arguments& a) {                                       \
                             return in_place(a, 2, [&](Tensor& x) { name##_(x, a.operand(1)); });  \
                         }});
    KAEL_BINARY_OPERATORS(KAEL_ADD_BINARY)
#undef KAEL_ADD_BINARY
    return operators;
}

} // namespace kael
