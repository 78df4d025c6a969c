// Operators that put elements elsewhere, by name.
#include "kael/error.h"
#include "kael/operators.h"

#include "operators/operator.h"

namespace kael {

namespace {

PadMode pad_mode(const Arguments& a, std::size_t position) {
    if (a.is_absent(position)) {
        return PadMode::constant;
    }
    const std::int64_t mode = a.integer(position);
    KAEL_CHECK(mode >= 0 && mode <= static_cast<std::int64_t>(PadMode::circular),
               a.name() << ": the mode " << mode << " is unknown, expected 0 to 3");
    return static_cast<PadMode>(mode);
}

} // namespace

std::vector<Operator> indexing_operators() {
    using Results = std::vector<Tensor>;
    return {
        {"cat",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return Results{cat(a.tensors(0), a.dimension(1))};
         }},
        {"stack",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return Results{stack(a.tensors(0), a.dimension(1))};
         }},
        {"index_select",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{index_select(a.tensor(0), a.dimension(1), a.tensor(2))};
         }},
        {"index_add",
         [](const Arguments& a) {
             a.check_count(4, 4);
             return Results{index_add(a.tensor(0), a.dimension(1), a.tensor(2), a.tensor(3))};
         }},
        {"gather",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{gather(a.tensor(0), a.dimension(1), a.tensor(2))};
         }},
        {"scatter_add",
         [](const Arguments& a) {
             a.check_count(4, 4);
             return Results{scatter_add(a.tensor(0), a.dimension(1), a.tensor(2), a.tensor(3))};
         }},
        {"index_add_",
         [](const Arguments& a) {
             a.check_count(4, 4);
             Tensor x = a.tensor(0);
             index_add_(x, a.dimension(1), a.tensor(2), a.tensor(3));
             return Results{};
         }},
        {"scatter_add_",
         [](const Arguments& a) {
             a.check_count(4, 4);
             Tensor x = a.tensor(0);
             scatter_add_(x, a.dimension(1), a.tensor(2), a.tensor(3));
             return Results{};
         }},
        {"scatter",
         [](const Arguments& a) {
             a.check_count(4, 4);
             return Results{scatter(a.tensor(0), a.dimension(1), a.tensor(2), a.operand(3))};
         }},
        {"scatter_",
         [](const Arguments& a) {
             a.check_count(4, 4);
             Tensor x = a.tensor(0);
             scatter_(x, a.dimension(1), a.tensor(2), a.operand(3));
             return Results{};
         }},
        {"nonzero",
         [](const Arguments& a) {
             a.check_count(1, 1);
             return Results{nonzero(a.tensor(0))};
         }},
        {"index",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{index(a.tensor(0), a.dimensions(1), a.tensors(2))};
         }},
        {"index_put_",
         [](const Arguments& a) {
             a.check_count(4, 4);
             Tensor x = a.tensor(0);
             index_put_(x, a.dimensions(1), a.tensors(2), a.operand(3));
             return Results{};
         }},
        {"masked_select",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return Results{masked_select(a.tensor(0), a.tensor(1))};
         }},
        {"argsort",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{argsort(a.tensor(0), a.dimension(1), a.flag(2))};
         }},
        {"sort",
         [](const Arguments& a) {
             a.check_count(3, 3);
             const Sorted sorted = sort(a.tensor(0), a.dimension(1), a.flag(2));
             return Results{sorted.values, sorted.indices};
         }},
        {"topk",
         [](const Arguments& a) {
             a.check_count(4, 4);
             const Sorted sorted = topk(a.tensor(0), a.integer(1), a.dimension(2), a.flag(3));
             return Results{sorted.values, sorted.indices};
         }},
        {"split",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return split(a.tensor(0), a.integers(1), a.dimension(2));
         }},
        {"chunk",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return chunk(a.tensor(0), a.integer(1), a.dimension(2));
         }},
        {"narrow",
         [](const Arguments& a) {
             a.check_count(4, 4);
             return Results{narrow(a.tensor(0), a.dimension(1), a.integer(2), a.integer(3))};
         }},
        {"flatten",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{flatten(a.tensor(0), a.dimension(1), a.dimension(2))};
         }},
        {"diagonal",
         [](const Arguments& a) {
             a.check_count(4, 4);
             return Results{diagonal(a.tensor(0), a.integer(1), a.dimension(2), a.dimension(3))};
         }},
        {"flip",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return Results{flip(a.tensor(0), a.dimensions(1))};
         }},
        {"roll",
         [](const Arguments& a) {
             a.check_count(2, 3);
             return Results{roll(a.tensor(0), a.integers(1),
                                 a.is_absent(2) ? std::vector<int>{} : a.dimensions(2))};
         }},
        {"repeat",
         [](const Arguments& a) {
             a.check_count(2, 2);
             return Results{repeat(a.tensor(0), a.integers(1))};
         }},
        {"pad",
         [](const Arguments& a) {
             a.check_count(3, 4);
             return Results{pad(a.tensor(0), a.integers(1), a.number(2), pad_mode(a, 3))};
         }},
        {"masked_fill",
         [](const Arguments& a) {
             a.check_count(3, 3);
             return Results{masked_fill(a.tensor(0), a.tensor(1), a.operand(2))};
         }},
        {"masked_fill_",
         [](const Arguments& a) {
             a.check_count(3, 3);
             Tensor x = a.tensor(0);
             masked_fill_(x, a.tensor(1), a.operand(2));
             return Results{};
         }},
    };
}

} // namespace kael
