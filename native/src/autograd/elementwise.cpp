// Elementwise operators: the derivative of each, as one row of a table.
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string_view>
#include <utility>
#include <vector>

#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/record.h"
#include "tensor/layers.h"

namespace kael {

namespace {

using autograd::Backward;
using autograd::GradientList;

constexpr std::size_t kMostOperands = 3;

// What a formula may look at. Only what its row asks for is there.
struct Values {
    const Tensor& gradient;
    std::array<Operand, kMostOperands> operands;
    Tensor result;

    [[nodiscard]] const Operand& x() const { return operands[0]; }
    [[nodiscard]] const Operand& y() const { return operands[1]; }
    [[nodiscard]] const Operand& z() const { return operands[2]; }
};

enum Need : unsigned { kNothing = 0, kX = 1, kY = 2, kZ = 4, kResult = 8 };

// How the gradient of the result becomes that of one operand.
struct Path {
    unsigned needs = kNothing;
    Tensor (*formula)(const Values&) = nullptr; // null: no gradient passes
};

struct Rule {
    std::string_view operation;
    const char* node;
    std::array<Path, kMostOperands> paths;
};

Tensor passes(const Values& v) {
    return v.gradient;
}

// Steps have no slope.
Tensor is_zero(const Values& v) {
    return Tensor::zeros(v.gradient.shape(), v.gradient.dtype());
}

// The gradient where `condition` holds. Not a product: 0 times an infinite gradient is NaN.
Tensor only_where(const Tensor& condition, const Tensor& gradient) {
    return where(condition, gradient, 0.0);
}

Tensor gelu_slope(const Operand& x) {
    constexpr double kDensity = std::numbers::inv_sqrtpi / std::numbers::sqrt2; // at 0
    const Tensor cumulative = (erf(x / std::numbers::sqrt2) + 1.0) * 0.5;
    return cumulative + x * exp(square(x) * -0.5) * kDensity;
}

Tensor gelu_tanh_slope(const Operand& x) {
    constexpr double kCubic = 0.044715;
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const Tensor squared = square(x);
    const Tensor tangent = tanh(x * (squared * kCubic + 1.0) * scale);
    const Tensor inner = (squared * (3.0 * kCubic) + 1.0) * scale;
    return (tangent + 1.0) * 0.5 + x * 0.5 * (1.0 - square(tangent)) * inner;
}

// Where it is to be differentiated again, of recorded operators; else in one pass.
Tensor gelu_tanh_gradient(const Values& v) {
    return grad_enabled() ? v.gradient * gelu_tanh_slope(v.x())
                          : forward::gelu_tanh_gradient(v.gradient, v.x().tensor());
}

// x^(y-1) is infinite at 0 for y = 0, where the slope is 0.
Tensor power_base(const Values& v) {
    const Tensor slope = v.y() * pow(v.x(), v.y() - 1.0);
    return v.gradient * where(eq(v.y(), 0.0), 0.0, slope);
}

// log 0 is infinite, but 0^y stays 0 for y > 0.
Tensor power_exponent(const Values& v) {
    const Tensor vanishes = logical_and(eq(v.x(), 0.0), ge(v.y(), 0.0));
    return v.gradient * where(vanishes, 0.0, v.result * log(v.x()));
}

// Of maximum and minimum: all to the one that was taken, halves where both were.
Tensor taken(const Tensor& takes, const Operand& x, const Operand& y, const Tensor& gradient) {
    return where(eq(x, y), gradient * 0.5, where(takes, gradient, 0.0));
}

const Rule kRules[] = {
    // ---- One operand
    {"neg", "NegBackward", {{{kNothing, [](const Values& v) { return neg(v.gradient); }}}}},
    {"abs", "AbsBackward", {{{kX, [](const Values& v) { return v.gradient * sign(v.x()); }}}}},
    {"sign", "SignBackward", {{{kNothing, is_zero}}}},
    {"floor", "FloorBackward", {{{kNothing, is_zero}}}},
    {"ceil", "CeilBackward", {{{kNothing, is_zero}}}},
    {"round", "RoundBackward", {{{kNothing, is_zero}}}},
    {"trunc", "TruncBackward", {{{kNothing, is_zero}}}},
    {"relu",
     "ReluBackward",
     {{{kResult, [](const Values& v) { return where(le(v.result, 0.0), 0.0, v.gradient); }}}}},
    {"square",
     "SquareBackward",
     {{{kX, [](const Values& v) { return v.gradient * (v.x() * 2.0); }}}}},
    {"exp", "ExpBackward", {{{kResult, [](const Values& v) { return v.gradient * v.result; }}}}},
    {"expm1",
     "Expm1Backward",
     {{{kResult, [](const Values& v) { return v.gradient * (v.result + 1.0); }}}}},
    {"log", "LogBackward", {{{kX, [](const Values& v) { return v.gradient / v.x(); }}}}},
    {"log1p",
     "Log1pBackward",
     {{{kX, [](const Values& v) { return v.gradient / (v.x() + 1.0); }}}}},
    {"sqrt",
     "SqrtBackward",
     {{{kResult, [](const Values& v) { return v.gradient / (v.result * 2.0); }}}}},
    {"rsqrt",
     "RsqrtBackward",
     {{{kResult, [](const Values& v) { return v.gradient * (pow(v.result, 3.0) * -0.5); }}}}},
    {"reciprocal",
     "ReciprocalBackward",
     {{{kResult, [](const Values& v) { return neg(v.gradient * square(v.result)); }}}}},
    {"sin", "SinBackward", {{{kX, [](const Values& v) { return v.gradient * cos(v.x()); }}}}},
    {"cos", "CosBackward", {{{kX, [](const Values& v) { return neg(v.gradient * sin(v.x())); }}}}},
    {"tanh",
     "TanhBackward",
     {{{kResult, [](const Values& v) { return v.gradient * (1.0 - square(v.result)); }}}}},
    {"sigmoid",
     "SigmoidBackward",
     {{{kResult, [](const Values& v) { return v.gradient * (v.result * (1.0 - v.result)); }}}}},
    {"erf",
     "ErfBackward",
     {{{kX,
        [](const Values& v) {
            return v.gradient * (exp(neg(square(v.x()))) * (2.0 * std::numbers::inv_sqrtpi));
        }}}}},
    {"gelu",
     "GeluBackward",
     {{{kX, [](const Values& v) { return v.gradient * gelu_slope(v.x()); }}}}},
    {"gelu_tanh", "GeluTanhBackward", {{{kX, gelu_tanh_gradient}}}},
    // ---- Two operands
    {"add", "AddBackward", {{{kNothing, passes}, {kNothing, passes}}}},
    {"sub",
     "SubBackward",
     {{{kNothing, passes}, {kNothing, [](const Values& v) { return neg(v.gradient); }}}}},
    {"mul",
     "MulBackward",
     {{{kY, [](const Values& v) { return v.gradient * v.y(); }},
       {kX, [](const Values& v) { return v.gradient * v.x(); }}}}},
    {"div",
     "DivBackward",
     {{{kY, [](const Values& v) { return v.gradient / v.y(); }},
       {kY | kResult, [](const Values& v) { return neg(v.gradient * v.result / v.y()); }}}}},
    {"floor_divide", "FloorDivideBackward", {{{kNothing, is_zero}, {kNothing, is_zero}}}},
    {"trunc_divide", "TruncDivideBackward", {{{kNothing, is_zero}, {kNothing, is_zero}}}},
    {"remainder",
     "RemainderBackward",
     {{{kNothing, passes},
       {kX | kY, [](const Values& v) { return neg(v.gradient * floor_divide(v.x(), v.y())); }}}}},
    {"fmod",
     "FmodBackward",
     {{{kNothing, passes},
       {kX | kY, [](const Values& v) { return neg(v.gradient * trunc_divide(v.x(), v.y())); }}}}},
    {"pow", "PowBackward", {{{kX | kY, power_base}, {kX | kY | kResult, power_exponent}}}},
    {"maximum",
     "MaximumBackward",
     {{{kX | kY, [](const Values& v) { return taken(gt(v.x(), v.y()), v.x(), v.y(), v.gradient); }},
       {kX | kY,
        [](const Values& v) { return taken(lt(v.x(), v.y()), v.x(), v.y(), v.gradient); }}}}},
    {"minimum",
     "MinimumBackward",
     {{{kX | kY, [](const Values& v) { return taken(lt(v.x(), v.y()), v.x(), v.y(), v.gradient); }},
       {kX | kY,
        [](const Values& v) { return taken(gt(v.x(), v.y()), v.x(), v.y(), v.gradient); }}}}},
    {"clamp_min",
     "ClampMinBackward",
     {{{kX | kY, [](const Values& v) { return only_where(ge(v.x(), v.y()), v.gradient); }},
       {kX | kY, [](const Values& v) { return only_where(lt(v.x(), v.y()), v.gradient); }}}}},
    {"clamp_max",
     "ClampMaxBackward",
     {{{kX | kY, [](const Values& v) { return only_where(le(v.x(), v.y()), v.gradient); }},
       {kX | kY, [](const Values& v) { return only_where(gt(v.x(), v.y()), v.gradient); }}}}},
    // ---- Three operands
    {"clamp",
     "ClampBackward",
     {{{kX | kY | kZ,
        [](const Values& v) {
            return only_where(logical_and(ge(v.x(), v.y()), le(v.x(), v.z())), v.gradient);
        }},
       {kX | kY | kZ,
        [](const Values& v) {
            return only_where(logical_and(lt(v.x(), v.y()), lt(v.y(), v.z())), v.gradient);
        }},
       {kX | kY | kZ,
        [](const Values& v) {
            return only_where(logical_or(gt(v.x(), v.z()), ge(v.y(), v.z())), v.gradient);
        }}}}},
    {"where",
     "WhereBackward",
     {{{kNothing, nullptr},
       {kX, [](const Values& v) { return where(v.x(), v.gradient, 0.0); }},
       {kX, [](const Values& v) { return where(v.x(), 0.0, v.gradient); }}}}},
    {"copy", "CopyBackward", {{{kNothing, is_zero}, {kNothing, passes}}}},
    // ---- Bools, which have no gradients
    {"logical_not", "", {}},
    {"isnan", "", {}},
    {"isinf", "", {}},
    {"isfinite", "", {}},
    {"eq", "", {}},
    {"ne", "", {}},
    {"lt", "", {}},
    {"le", "", {}},
    {"gt", "", {}},
    {"ge", "", {}},
    {"logical_and", "", {}},
    {"logical_or", "", {}},
    {"logical_xor", "", {}},
};

const Rule& rule_of(std::string_view operation) {
    for (const Rule& rule : kRules) {
        if (rule.operation == operation) {
            return rule;
        }
    }
    KAEL_CHECK_AS(ErrorCode::internal, false, "no derivative is known of " << operation);
    return kRules[0]; // not reached
}

using Operands = std::vector<Operand>;

std::vector<Tensor> tensors_of(const Operands& operands) {
    std::vector<Tensor> tensors;
    for (const Operand& operand : operands) {
        if (!operand.is_number()) {
            tensors.push_back(operand.tensor());
        }
    }
    return tensors;
}

bool wants_gradient(const Operand& operand) {
    return !operand.is_number() && operand.tensor().requires_grad();
}

// What the gradients that are wanted look at.
unsigned needs_of(const Rule& rule, const Operands& operands) {
    unsigned needs = kNothing;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (wants_gradient(operands[i])) {
            needs |= rule.paths[i].needs;
        }
    }
    return needs;
}

// A node's view of its operator: numbers as they are, tensors as inputs in order, and those that
// are needed saved in the same order, the result last.
struct Recipe {
    const Rule& rule;
    unsigned needs;
    Operands operands; // only the numbers are kept; a tensor is replaced by an undefined one

    [[nodiscard]] GradientList operator()(const Backward& context) const {
        Values values{context.gradient(), {Tensor(), Tensor(), Tensor()}, Tensor()};
        std::size_t saved = 0;
        for (std::size_t i = 0; i < operands.size(); ++i) {
            if (operands[i].is_number()) {
                values.operands[i] = operands[i];
            } else if ((needs & (1U << i)) != 0) {
                values.operands[i] = context.saved(saved++);
            }
        }
        if ((needs & kResult) != 0) {
            values.result = context.saved(saved);
        }
        GradientList gradients;
        for (std::size_t i = 0; i < operands.size(); ++i) {
            if (operands[i].is_number()) {
                continue;
            }
            const bool wanted = context.needs(gradients.size()) && rule.paths[i].formula != nullptr;
            gradients.push_back(wanted ? rule.paths[i].formula(values) : Tensor());
        }
        return gradients;
    }
};

Recipe recipe_of(const Rule& rule, unsigned needs, const Operands& operands) {
    Operands kept;
    for (const Operand& operand : operands) {
        kept.push_back(operand.is_number() ? operand : Operand(Tensor()));
    }
    return {rule, needs, std::move(kept)};
}

std::vector<Tensor> saved_of(unsigned needs, const Operands& operands, const Tensor& result) {
    std::vector<Tensor> saved;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if ((needs & (1U << i)) != 0 && !operands[i].is_number()) {
            saved.push_back(operands[i].tensor());
        }
    }
    if ((needs & kResult) != 0) {
        saved.push_back(result);
    }
    return saved;
}

template <typename Compute>
Tensor recorded(const Rule& rule, const Operands& operands, Compute compute) {
    Tensor result = autograd::without_recording(compute);
    if (rule.paths[0].formula != nullptr || rule.paths[1].formula != nullptr) {
        if (const std::vector<Tensor> inputs = tensors_of(operands);
            autograd::needs_recording(result, inputs)) {
            const unsigned needs = needs_of(rule, operands);
            autograd::record(rule.node, result, inputs, saved_of(needs, operands, result),
                             recipe_of(rule, needs, operands));
        }
    }
    return result;
}

// operands[0] is the tensor that is written.
template <typename Write>
Tensor& recorded_in_place(const Rule& rule, const char* name, Tensor& x, Operands operands,
                          Write write) {
    autograd::InPlaceWrite in_place(name, rule.node, tensors_of(operands));
    if (!in_place.is_recorded()) {
        in_place.run(write);
        return x;
    }
    const unsigned needs = needs_of(rule, operands);
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if ((needs & (1U << i)) != 0 && !operands[i].is_number()) {
            operands[i] = in_place.kept(operands[i].tensor());
        }
    }
    // Later writes to x must not reach a result that was saved.
    const bool saves_result = (needs & kResult) != 0;
    Tensor value = saves_result ? Tensor::empty(x.shape(), x.dtype()) : x.detach();
    in_place.run([&] {
        write();
        if (saves_result) {
            forward::copy_(value, x);
        }
    });
    in_place.record(value, saved_of(needs, operands, value), recipe_of(rule, needs, operands));
    return x;
}

} // namespace

#define KAEL_DEFINE_UNARY(name)                                                                    \
    Tensor name(const Operand& x) {                                                                \
        static const Rule& rule = rule_of(#name);                                                  \
        return recorded(rule, {x}, [&] { return forward::name(x); });                              \
    }                                                                                              \
    Tensor& name##_(Tensor& x) {                                                                   \
        static const Rule& rule = rule_of(#name);                                                  \
        return recorded_in_place(rule, #name "_", x, {x}, [&] { forward::name##_(x); });           \
    }
KAEL_UNARY_OPERATORS(KAEL_DEFINE_UNARY)
#undef KAEL_DEFINE_UNARY

#define KAEL_DEFINE_BINARY(name)                                                                   \
    Tensor name(const Operand& x, const Operand& y) {                                              \
        static const Rule& rule = rule_of(#name);                                                  \
        return recorded(rule, {x, y}, [&] { return forward::name(x, y); });                        \
    }                                                                                              \
    Tensor& name##_(Tensor& x, const Operand& y) {                                                 \
        static const Rule& rule = rule_of(#name);                                                  \
        return recorded_in_place(rule, #name "_", x, {x, y}, [&] { forward::name##_(x, y); });     \
    }
KAEL_BINARY_OPERATORS(KAEL_DEFINE_BINARY)
#undef KAEL_DEFINE_BINARY

Tensor clamp(const Operand& x, const Operand& least, const Operand& most) {
    static const Rule& rule = rule_of("clamp");
    return recorded(rule, {x, least, most}, [&] { return forward::clamp(x, least, most); });
}

Tensor& clamp_(Tensor& x, const Operand& least, const Operand& most) {
    static const Rule& rule = rule_of("clamp");
    return recorded_in_place(rule, "clamp_", x, {x, least, most},
                             [&] { forward::clamp_(x, least, most); });
}

Tensor where(const Operand& condition, const Operand& x, const Operand& y) {
    static const Rule& rule = rule_of("where");
    return recorded(rule, {condition, x, y}, [&] { return forward::where(condition, x, y); });
}

Tensor& copy_(Tensor& x, const Operand& source) {
    static const Rule& rule = rule_of("copy");
    return recorded_in_place(rule, "copy_", x, {x, source}, [&] { forward::copy_(x, source); });
}

} // namespace kael
