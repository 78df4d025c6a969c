#include "kael/elementwise.h"

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "kael/error.h"
#include "kael/threads.h"

#include "tensor/blocks.h"
#include "tensor/defined.h"
#include "tensor/elementwise_kernels.h"
#include "tensor/forward_views.h"
#include "tensor/layout.h"
#include "tensor/overlap.h"

namespace kael::forward {

namespace {

// Elements that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 16384;

constexpr int kMaxArity = 3;

struct Computation {
    DType common;  // the operands are rounded to it
    DType compute; // what the kernel works on
    DType produced;
    DType result;
    ElementwiseKernel kernel;
};

DType compute_type(DType common) {
    if (!is_floating_point(common)) {
        return DType::int64;
    }
    return common == DType::float64 ? DType::float64 : DType::float32;
}

Computation plan(const ElementwiseRow& row, std::span<const Operand> operands) {
    Computation plan{};
    plan.common = result_type(operands);
    KAEL_CHECK(row.bools == Bools::accepted || plan.common != DType::boolean,
               row.name << ": operands of dtype bool, expected numbers");
    if (row.result == ResultKind::real && !is_floating_point(plan.common)) {
        plan.common = kDefaultFloat;
    }
    plan.compute = compute_type(plan.common);
    plan.kernel = plan.compute == DType::float32   ? row.kernels.float32
                  : plan.compute == DType::float64 ? row.kernels.float64
                                                   : row.kernels.int64;
    KAEL_CHECK(plan.kernel != nullptr, row.name << ": operands of dtype " << name(plan.common)
                                                << ", expected a floating-point one");
    plan.result = row.result == ResultKind::boolean ? DType::boolean : plan.common;
    plan.produced = row.result == ResultKind::boolean ? DType::boolean : plan.compute;
    return plan;
}

// The number as a tensor that holds all of its digits.
Tensor tensor_of(const Scalar& number) {
    return std::visit(
        [](auto value) {
            using T = decltype(value);
            constexpr DType kType = std::is_same_v<T, bool>     ? DType::boolean
                                    : std::is_same_v<T, double> ? DType::float64
                                                                : DType::int64;
            return Tensor::from_bytes(&value, sizeof(value), {}, kType);
        },
        number);
}

// One operand, ready to be read.
struct Input {
    Tensor tensor;
    DType rounded; // what its elements are rounded to before the kernel's type
    DType wanted;
};

// On one thread, so that the first of several wrong ones is named.
void check_integers(const ElementwiseRow& row, const Input& input) {
    const Elements elements(input.tensor);
    BlockReader reader(elements, input.tensor.data_ptr_raw(), input.rounded, input.wanted);
    for_each_block(0, input.tensor.numel(), [&](std::int64_t first, std::int64_t count) {
        const auto* const values = reinterpret_cast<const std::int64_t*>(reader.read(first, count));
        for (std::int64_t i = 0; i < count; ++i) {
            KAEL_CHECK(row.rule != IntegerRule::not_zero || values[i] != 0,
                       row.name << ": an integer divided by 0 (of dtype " << name(input.rounded)
                                << "), expected another divisor, or a floating-point dtype");
            KAEL_CHECK(row.rule != IntegerRule::not_negative || values[i] >= 0,
                       row.name << ": an integer to the power " << values[i]
                                << ", expected 0 or more, or a floating-point dtype");
        }
    });
}

// A large tensor that the inner loop would cross at a stride, row for row over the same cache
// lines, in the order in which it is read: copying it in squares costs less.
Tensor readable(const Tensor& x) {
    constexpr std::int64_t kLarge = 16384;
    if (x.numel() < kLarge || x.is_contiguous()) {
        return x;
    }
    const Layout layout = coalesce(x.shape(), x.strides());
    return layout.shape.size() > 1 && layout.strides.back() > 1 ? clone(x) : x;
}

std::vector<Input> make_inputs(const ElementwiseRow& row, std::span<const Operand> operands,
                               const Computation& plan, bool has_results) {
    std::vector<Input> inputs;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const Operand& operand = operands[i];
        const bool condition = row.first_is_condition && i == 0;
        Input input;
        input.wanted = condition ? DType::boolean : plan.compute;
        if (operand.is_number()) {
            if (!condition && row.result != ResultKind::boolean) {
                check_fits(operand.number(), plan.common, row.name);
            }
            input.tensor = tensor_of(operand.number());
            // Arithmetic uses a number as it is; a comparison sees what the tensor could hold.
            const bool rounds = row.result == ResultKind::boolean && is_floating_point(plan.common);
            input.rounded = rounds ? plan.common : input.wanted;
        } else {
            input.tensor = readable(operand.tensor());
            input.rounded = condition ? DType::boolean : plan.common;
        }
        inputs.push_back(std::move(input));
    }
    if (row.rule != IntegerRule::none && plan.compute == DType::int64 && has_results) {
        check_integers(row, inputs[1]);
    }
    return inputs;
}

// Writes the result over the elements of `target`, whose storage may be written.
void run(const Computation& plan, const std::vector<Input>& inputs, const Tensor& target,
         bool in_place) {
    std::vector<Elements> elements;
    elements.reserve(inputs.size());
    for (const Input& input : inputs) {
        elements.emplace_back(input.tensor, target.shape());
    }
    const Elements results(target);
    std::byte* const base = target.storage()->data() + target.offset() * item_size(target.dtype());
    parallel_for(0, target.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        // On the stack: blocks of this size and alignment would leave the heap full of holes.
        std::array<std::optional<BlockReader>, kMaxArity> readers;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            readers[i].emplace(elements[i], inputs[i].tensor.data_ptr_raw(), inputs[i].rounded,
                               inputs[i].wanted);
        }
        BlockWriter writer(results, base, plan.produced, in_place);
        for_each_block(begin, end, [&](std::int64_t first, std::int64_t count) {
            const std::byte* blocks[kMaxArity] = {};
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                blocks[i] = readers[i]->read(first, count);
            }
            plan.kernel(blocks, writer.prepare(first, count), count);
            writer.commit();
        });
    });
}

Shape result_shape(std::span<const Operand> operands, const std::string& name) {
    std::vector<Shape> shapes;
    for (const Operand& operand : operands) {
        if (!operand.is_number()) {
            check_defined(operand.tensor(), name);
        }
        shapes.push_back(operand.shape());
    }
    return broadcast_shapes(shapes, name);
}

Computation checked_plan(const ElementwiseRow& row, std::span<const Operand> operands) {
    if (!row.first_is_condition) {
        return plan(row, operands);
    }
    KAEL_CHECK(operands[0].dtype() == DType::boolean, row.name << ": a condition of dtype "
                                                               << name(operands[0].dtype())
                                                               << ", expected bool");
    return plan(row, operands.subspan(1));
}

Tensor evaluate(const ElementwiseRow& row, std::span<const Operand> operands) {
    const Shape shape = result_shape(operands, row.name);
    const Computation computation = checked_plan(row, operands);
    Tensor result = Tensor::empty(shape, computation.result);
    const std::vector<Input> inputs = make_inputs(row, operands, computation, result.numel() > 0);
    run(computation, inputs, result, false);
    return result;
}

void write_over(const std::string& name, const Computation& computation, std::vector<Input> inputs,
                Tensor& target, const Shape& shape) {
    KAEL_CHECK(shape == target.shape(), name << ": a result of shape " << to_string(shape)
                                             << " does not fit into a tensor of shape "
                                             << to_string(target.shape())
                                             << ", expected operands that broadcast to it");
    check_destination(target, name);
    for (Input& input : inputs) {
        if (spoils(target, input.tensor)) {
            input.tensor = input.tensor.clone();
        }
    }
    run(computation, inputs, target, true);
    target.storage()->bump_version();
}

void evaluate_in_place(const ElementwiseRow& row, Tensor& target,
                       std::span<const Operand> operands) {
    const std::string own_name = std::string(row.name) + "_";
    const Shape shape = result_shape(operands, own_name);
    const Computation computation = checked_plan(row, operands);
    KAEL_CHECK(computation.result == DType::boolean ||
                   can_store(computation.result, target.dtype()),
               own_name << ": a result of dtype " << name(computation.result)
                        << " does not fit into a tensor of dtype " << name(target.dtype())
                        << ", expected " << storable(target.dtype()));
    write_over(own_name, computation, make_inputs(row, operands, computation, target.numel() > 0),
               target, shape);
}

const ElementwiseRow& row_of(std::string_view name) {
    for (const ElementwiseRow& row : elementwise_rows()) {
        if (row.name == name) {
            return row;
        }
    }
    KAEL_CHECK_AS(ErrorCode::internal, false, "no elementwise operator " << name);
    __builtin_unreachable();
}

template <std::size_t Bytes>
void copy_bytes(const std::byte* const* inputs, std::byte* output, std::int64_t count) {
    std::memcpy(output, inputs[0], static_cast<std::size_t>(count) * Bytes);
}

ElementwiseKernel copy_kernel(std::int64_t item_bytes) {
    switch (item_bytes) {
    case 1:
        return copy_bytes<1>;
    case 2:
        return copy_bytes<2>;
    case 4:
        return copy_bytes<4>;
    default:
        return copy_bytes<8>;
    }
}

} // namespace

#define KAEL_DEFINE_UNARY(name)                                                                    \
    Tensor name(const Operand& x) {                                                                \
        static const ElementwiseRow& row = row_of(#name);                                          \
        return evaluate(row, std::initializer_list<Operand>{x});                                   \
    }                                                                                              \
    Tensor& name##_(Tensor& x) {                                                                   \
        static const ElementwiseRow& row = row_of(#name);                                          \
        evaluate_in_place(row, x, std::initializer_list<Operand>{x});                              \
        return x;                                                                                  \
    }
KAEL_UNARY_OPERATORS(KAEL_DEFINE_UNARY)
#undef KAEL_DEFINE_UNARY

#define KAEL_DEFINE_BINARY(name)                                                                   \
    Tensor name(const Operand& x, const Operand& y) {                                              \
        static const ElementwiseRow& row = row_of(#name);                                          \
        return evaluate(row, std::initializer_list<Operand>{x, y});                                \
    }                                                                                              \
    Tensor& name##_(Tensor& x, const Operand& y) {                                                 \
        static const ElementwiseRow& row = row_of(#name);                                          \
        evaluate_in_place(row, x, std::initializer_list<Operand>{x, y});                           \
        return x;                                                                                  \
    }
KAEL_BINARY_OPERATORS(KAEL_DEFINE_BINARY)
#undef KAEL_DEFINE_BINARY

Tensor clamp(const Operand& x, const Operand& least, const Operand& most) {
    return evaluate(row_of("clamp"), std::initializer_list<Operand>{x, least, most});
}

Tensor& clamp_(Tensor& x, const Operand& least, const Operand& most) {
    evaluate_in_place(row_of("clamp"), x, std::initializer_list<Operand>{x, least, most});
    return x;
}

Tensor where(const Operand& condition, const Operand& x, const Operand& y) {
    return evaluate(row_of("where"), std::initializer_list<Operand>{condition, x, y});
}

Tensor& copy_(Tensor& x, const Operand& source) {
    const std::string own_name = "copy_";
    const Operand operands[] = {x, source};
    const Shape shape = result_shape(operands, own_name);
    if (source.is_number()) {
        check_fits(source.number(), x.dtype(), own_name);
    }
    const Tensor read = source.is_number() ? tensor_of(source.number()) : source.tensor();
    const Computation computation = {x.dtype(), x.dtype(), x.dtype(), x.dtype(),
                                     copy_kernel(item_size(x.dtype()))};
    write_over(own_name, computation, {{read, x.dtype(), x.dtype()}}, x, shape);
    return x;
}

} // namespace kael::forward
