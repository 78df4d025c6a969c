#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "run.h"

namespace kael::fuzz {

// In place, `target` is the dtype that is written.
Expected Run::elementwise_result(const Elementwise& row, const std::vector<Value>& values,
                                 const Shape& shape, std::optional<DType> target) {
    DType common = result_dtype(values);
    if (row.produces == Produces::real && !is_real(common)) {
        common = DType::float32;
    }
    const DType compute = compute_dtype(common);
    const DType produced = row.produces == Produces::boolean ? DType::boolean : compute;
    Expected result = {
        target.value_or(row.produces == Produces::boolean ? DType::boolean : common), shape, {}};
    for_each_index(shape, [&](const Index& index) {
        double reals[3] = {};
        std::int64_t integers[3] = {};
        for (std::size_t i = 0; i < values.size(); ++i) {
            const Number value = values[i].at(index, common);
            reals[i] = value.real;
            integers[i] = value.integer;
        }
        Number value;
        if (!is_real(compute)) {
            value.integer = row.integer(integers);
        } else if (row.produces == Produces::boolean) {
            value.integer = row.real(reals) != 0 ? 1 : 0;
        } else {
            value.real = row.real(reals);
        }
        const bool is_loose = !row.is_exact && is_real(compute);
        if (is_loose) {
            const double size = std::abs(value.real);
            result.slack.push_back(row.slack +
                                   (std::isfinite(size)
                                        ? std::ldexp(size, compute == DType::float64 ? -48 : -20)
                                        : 0) +
                                   std::ldexp(1.0, format(compute).least + 3));
            // The result may be rounded to either side.
            result.values.push_back(
                is_real(result.dtype) ? value : converted(value, compute, result.dtype));
            return;
        }
        if (is_real(produced)) {
            value.real = rounded(value.real, produced);
        }
        result.values.push_back(converted(value, produced, result.dtype));
    });
    return result;
}

void Run::elementwise() {
    const Elementwise& row = kElementwise[input_.below(std::size(kElementwise))];
    const bool in_place = input_.rarely(2);
    std::vector<Value> values;
    for (std::size_t i = 0; i < row.arity; ++i) {
        values.push_back(i == 0 && in_place ? Value{.tracked = &any()} : operand());
    }
    Shape shape;
    Verdict verdict = right_if(broadcasts(
        [&] {
            std::vector<Shape> shapes;
            for (const Value& value : values) {
                shapes.push_back(value.shape());
            }
            return shapes;
        }(),
        shape));
    const DType common = result_dtype(values);
    const DType computed =
        row.produces == Produces::real && !is_real(common) ? DType::float32 : common;
    if ((common == DType::boolean && !row.takes_bools) ||
        (row.integer == nullptr && !is_real(computed))) {
        verdict = Verdict::wrong;
    }
    const bool fit =
        std::ranges::all_of(values, [&](const Value& value) { return value.fits(computed); });
    if (row.produces != Produces::boolean && !fit) {
        verdict = Verdict::wrong;
    }
    if (verdict == Verdict::right && row.rule != Rule::none && !is_real(computed)) {
        for_each_index(shape, [&](const Index& index) {
            const std::int64_t y = values[1].at(index, computed).integer;
            if (row.rule == Rule::not_zero ? y == 0 : y < 0) {
                verdict = Verdict::wrong;
            }
        });
    }
    std::vector<Argument> arguments;
    for (std::size_t i = in_place ? 1 : 0; i < values.size(); ++i) {
        arguments.push_back(values[i].argument());
    }
    if (!in_place) {
        check(row.name, std::move(arguments), verdict,
              [&] { return std::vector<Expected>{elementwise_result(row, values, shape, {})}; });
        return;
    }
    Tracked x = *values[0].tracked;
    if (shape != x.shape() ||
        (row.produces != Produces::boolean && kind(computed) > kind(x.dtype()))) {
        verdict = Verdict::wrong;
    }
    check_in_place(std::string(row.name) + '_', x, std::move(arguments), verdict,
                   [&] { return elementwise_result(row, values, shape, x.dtype()); });
}

void Run::where() {
    Tracked& condition = any();
    const Value x = operand();
    const Value y = operand();
    Shape shape;
    const DType common = result_dtype({x, y});
    const bool is_right = broadcasts({condition.shape(), x.shape(), y.shape()}, shape) &&
                          condition.dtype() == DType::boolean && x.fits(common) && y.fits(common);
    check("where", {condition.tensor, x.argument(), y.argument()}, right_if(is_right), [&] {
        Expected result = {common, shape, {}};
        for_each_index(shape, [&](const Index& index) {
            const Value& chosen = condition.broadcast(index).integer != 0 ? x : y;
            const Number value = chosen.at(index, common);
            result.values.push_back(converted(value, common, common));
        });
        return std::vector<Expected>{result};
    });
}

void Run::masked_fill() {
    Tracked x = any();
    const Tracked mask = any();
    const Value value = operand();
    Shape shape;
    bool is_right = broadcasts({x.shape(), mask.shape()}, shape) && value.shape().empty() &&
                    mask.dtype() == DType::boolean;
    const DType common = result_dtype({value, {.tracked = &x}});
    is_right = is_right && common == x.dtype() && value.fits(x.dtype());
    const auto reference = [&] {
        Expected result = {x.dtype(), shape, {}};
        for_each_index(shape, [&](const Index& index) {
            result.values.push_back(mask.broadcast(index).integer != 0 ? value.at(index, x.dtype())
                                                                       : x.broadcast(index));
        });
        return result;
    };
    if (input_.rarely(2)) {
        is_right = is_right && shape == x.shape();
        check_in_place("masked_fill_", x, {mask.tensor, value.argument()}, right_if(is_right),
                       reference);
    } else {
        check("masked_fill", {x.tensor, mask.tensor, value.argument()}, right_if(is_right),
              [&] { return std::vector<Expected>{reference()}; });
    }
}

void Run::convert() {
    const Tracked x = any();
    const auto same = [&] {
        return std::vector<ExpectedView>{{x.shape(), [](const Index& index) { return index; }}};
    };
    const std::int64_t wanted = input_.rarely(32) ? 9 : static_cast<std::int64_t>(input_.below(9));
    if (input_.rarely(4)) {
        check_views(x.tensor.is_contiguous() ? "contiguous" : "reshape", x,
                    x.tensor.is_contiguous() ? std::vector<Argument>{}
                                             : std::vector<Argument>{x.shape()},
                    Verdict::right, same);
    } else if (wanted < 9 && static_cast<DType>(wanted) == x.dtype()) {
        check_views("to", x, {wanted}, Verdict::right, same);
    } else if (input_.rarely(4)) {
        check("clone", {x.tensor}, Verdict::right,
              [&] { return std::vector<Expected>{{x.dtype(), x.shape(), x.values()}}; });
    } else {
        check("to", {x.tensor, wanted}, right_if(wanted < 9), [&] {
            const auto dtype = static_cast<DType>(wanted);
            Expected result = {dtype, x.shape(), {}};
            for (const Number value : x.values()) {
                result.values.push_back(converted(value, x.dtype(), dtype));
            }
            return std::vector<Expected>{result};
        });
    }
}

void Run::copy_over() {
    Tracked x = any();
    const Value source = operand();
    Shape shape;
    const bool is_right = broadcasts({x.shape(), source.shape()}, shape) && shape == x.shape() &&
                          source.fits(x.dtype());
    check_in_place("copy_", x, {source.argument()}, right_if(is_right), [&] {
        Expected result = {x.dtype(), shape, {}};
        for_each_index(shape, [&](const Index& index) {
            // A number is converted with all of its digits.
            const DType from = source.tracked != nullptr          ? source.dtype()
                               : source.dtype() == DType::float32 ? DType::float64
                                                                  : source.dtype();
            result.values.push_back(converted(source.at(index, from), from, x.dtype()));
        });
        return result;
    });
}

} // namespace kael::fuzz
