// Operators by name, with arguments whose types are known only when they run: what the C interface
// calls.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kael/promotion.h"
#include "kael/tensor.h"

namespace kael {

// An absent argument is a monostate.
using Argument =
    std::variant<std::monostate, Tensor, std::vector<Tensor>, bool, std::int64_t, double, Shape>;

// The arguments of one call, by position. An argument of another kind than asked for is an error
// that names the operator and the position.
class Arguments {
public:
    Arguments(std::string name, std::vector<Argument> values)
        : name_(std::move(name)), values_(std::move(values)) {}

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] std::size_t size() const noexcept { return values_.size(); }
    void check_count(std::size_t least, std::size_t most) const;

    // Absent, or beyond the last.
    [[nodiscard]] bool is_absent(std::size_t position) const;
    [[nodiscard]] Tensor tensor(std::size_t position) const;
    [[nodiscard]] std::vector<Tensor> tensors(std::size_t position) const;
    // Those of every argument.
    [[nodiscard]] std::vector<Tensor> all_tensors() const;
    [[nodiscard]] Operand operand(std::size_t position) const;
    [[nodiscard]] bool flag(std::size_t position) const;
    [[nodiscard]] std::int64_t integer(std::size_t position) const;
    [[nodiscard]] double real(std::size_t position) const; // or an integer
    [[nodiscard]] Scalar number(std::size_t position) const;
    [[nodiscard]] Shape integers(std::size_t position) const;
    [[nodiscard]] std::string text(std::size_t position) const; // integers: its bytes
    [[nodiscard]] int dimension(std::size_t position) const;
    [[nodiscard]] std::vector<int> dimensions(std::size_t position) const;
    [[nodiscard]] DType dtype(std::size_t position) const; // its number

private:
    template <typename T>
    const T* find(std::size_t position) const;
    [[noreturn]] void refuse(std::size_t position, const char* expected) const;

    std::string name_;
    std::vector<Argument> values_;
};

// A name that ends in "_" writes its first argument, and answers nothing.
struct Operator {
    std::string name;
    std::function<std::vector<Tensor>(const Arguments&)> run;
};

// Every operator: one function for each file that defines some.
[[nodiscard]] std::vector<Operator> elementwise_operators();
[[nodiscard]] std::vector<Operator> view_operators();
[[nodiscard]] std::vector<Operator> reduce_operators();
[[nodiscard]] std::vector<Operator> along_operators();
[[nodiscard]] std::vector<Operator> matmul_operators();
[[nodiscard]] std::vector<Operator> creation_operators();
[[nodiscard]] std::vector<Operator> indexing_operators();
[[nodiscard]] std::vector<Operator> layer_operators();
[[nodiscard]] std::vector<Operator> optim_operators();

// not_found for a name that none has.
[[nodiscard]] const Operator& find_operator(std::string_view name);
[[nodiscard]] const std::vector<Operator>& all_operators();

// Applies it, and checks what it made where anomaly detection asks for that.
[[nodiscard]] std::vector<Tensor> apply(const Operator& applied, std::vector<Argument> arguments);

} // namespace kael
