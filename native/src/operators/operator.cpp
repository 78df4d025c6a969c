#include "operators/operator.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "kael/error.h"

#include "autograd/detection.h"
#include "base/current_operator.h"
#include "base/in_quotes.h"

namespace kael {

namespace {

const char* describe(const Argument& argument) {
    constexpr const char* kNames[] = {"nothing",    "a tensor", "a list of tensors", "a bool",
                                      "an integer", "a float",  "a list of integers"};
    return kNames[argument.index()];
}

std::vector<Operator> collect() {
    std::vector<Operator> all;
    for (auto* const table : {elementwise_operators, view_operators, reduce_operators,
                              along_operators, matmul_operators, creation_operators,
                              indexing_operators, layer_operators, optim_operators}) {
        for (Operator& entry : table()) {
            all.push_back(std::move(entry));
        }
    }
    return all;
}

} // namespace

void Arguments::check_count(std::size_t least, std::size_t most) const {
    KAEL_CHECK(size() >= least && size() <= most,
               name_ << ": " << size() << " arguments, expected " << least
                     << (most > least ? " to " + std::to_string(most) : ""));
}

bool Arguments::is_absent(std::size_t position) const {
    return position >= size() || std::holds_alternative<std::monostate>(values_[position]);
}

template <typename T>
const T* Arguments::find(std::size_t position) const {
    return position < size() ? std::get_if<T>(&values_[position]) : nullptr;
}

void Arguments::refuse(std::size_t position, const char* expected) const {
    KAEL_CHECK(false, name_ << ": argument " << position + 1 << " is "
                            << describe(position < size() ? values_[position] : Argument{})
                            << ", expected " << expected);
    __builtin_unreachable();
}

Tensor Arguments::tensor(std::size_t position) const {
    if (const Tensor* const value = find<Tensor>(position)) {
        return *value;
    }
    refuse(position, "a tensor");
}

std::vector<Tensor> Arguments::tensors(std::size_t position) const {
    if (const auto* const value = find<std::vector<Tensor>>(position)) {
        return *value;
    }
    refuse(position, "a list of tensors");
}

std::vector<Tensor> Arguments::all_tensors() const {
    std::vector<Tensor> all;
    for (const Argument& value : values_) {
        if (const auto* const tensor = std::get_if<Tensor>(&value)) {
            all.push_back(*tensor);
        } else if (const auto* const list = std::get_if<std::vector<Tensor>>(&value)) {
            all.insert(all.end(), list->begin(), list->end());
        }
    }
    return all;
}

Scalar Arguments::number(std::size_t position) const {
    if (const bool* const value = find<bool>(position)) {
        return *value;
    }
    if (const std::int64_t* const value = find<std::int64_t>(position)) {
        return *value;
    }
    if (const double* const value = find<double>(position)) {
        return *value;
    }
    refuse(position, "a number");
}

Operand Arguments::operand(std::size_t position) const {
    if (const Tensor* const value = find<Tensor>(position)) {
        return *value;
    }
    return number(position);
}

bool Arguments::flag(std::size_t position) const {
    if (const bool* const value = find<bool>(position)) {
        return *value;
    }
    refuse(position, "a bool");
}

std::int64_t Arguments::integer(std::size_t position) const {
    if (const std::int64_t* const value = find<std::int64_t>(position)) {
        return *value;
    }
    refuse(position, "an integer");
}

double Arguments::real(std::size_t position) const {
    if (const double* const value = find<double>(position)) {
        return *value;
    }
    return static_cast<double>(integer(position));
}

Shape Arguments::integers(std::size_t position) const {
    if (const Shape* const value = find<Shape>(position)) {
        return *value;
    }
    refuse(position, "a list of integers");
}

std::string Arguments::text(std::size_t position) const {
    std::string result;
    for (const std::int64_t byte : integers(position)) {
        KAEL_CHECK(byte >= 0 && byte <= 255,
                   name_ << ": argument " << position + 1 << " is no text, expected its bytes");
        result.push_back(static_cast<char>(byte));
    }
    return result;
}

int Arguments::dimension(std::size_t position) const {
    // Out of range either way, and the operator's error then shows a number.
    return static_cast<int>(std::clamp<std::int64_t>(
        integer(position), std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

std::vector<int> Arguments::dimensions(std::size_t position) const {
    std::vector<int> result;
    for (const std::int64_t value : integers(position)) {
        result.push_back(static_cast<int>(std::clamp<std::int64_t>(
            value, std::numeric_limits<int>::min(), std::numeric_limits<int>::max())));
    }
    return result;
}

DType Arguments::dtype(std::size_t position) const {
    const std::int64_t value = integer(position);
    KAEL_CHECK(value >= 0 && value <= static_cast<std::int64_t>(DType::boolean),
               name_ << ": the dtype " << value << " is unknown, expected 0 to 8");
    return static_cast<DType>(value);
}

const std::vector<Operator>& all_operators() {
    static const std::vector<Operator>* const all = new std::vector<Operator>(collect());
    return *all;
}

const Operator& find_operator(std::string_view name) {
    static const auto* const by_name = [] {
        auto* const map = new std::unordered_map<std::string_view, const Operator*>;
        for (const Operator& entry : all_operators()) {
            map->emplace(entry.name, &entry);
        }
        return map;
    }();
    const auto found = by_name->find(name);
    KAEL_CHECK_AS(ErrorCode::not_found, found != by_name->end(),
                  "there is no operator " << in_quotes(name) << ", expected one of the "
                                          << by_name->size() << " that kael_operator_name gives");
    return *found->second;
}

std::vector<Tensor> apply(const Operator& applied, std::vector<Argument> arguments) {
    const OperatorScope scope(applied.name);
    const Arguments given(applied.name, std::move(arguments));
    if (!autograd::checks_forward()) {
        return applied.run(given);
    }
    const std::vector<Tensor> operands = given.all_tensors();
    const std::vector<TensorSummary> before = autograd::summaries_of(operands);
    std::vector<Tensor> results = applied.run(given);
    if (!operands.empty()) { // else it was asked for what it made
        const bool in_place = applied.name.ends_with('_');
        autograd::check_results(applied.name, before,
                                in_place ? std::vector{operands.front()} : results);
    }
    return results;
}

} // namespace kael
