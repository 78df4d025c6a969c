// Sums of products over named dimensions, made of recorded operators.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kael/error.h"
#include "kael/operators.h"

#include "base/in_quotes.h"
#include "tensor/defined.h"

namespace kael {

namespace {

// A dimension by name: a letter, or, below those, how far from the last one a dimension stands that
// "..." is for.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kFirstLetter = kMaxRank;

struct Term {
    Labels before; // "..."
    Labels after;
    bool has_ellipsis = false;
};

struct Equation {
    std::vector<Term> inputs;
    Term output;
    bool has_output = false;
};

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string name_of(Label label) {
    return label < kFirstLetter
               ? "dimension -" + std::to_string(label + 1) + " of '...'"
               : std::string("subscript '") + static_cast<char>(label - kFirstLetter) + "'";
}

Equation parse(std::string_view text) {
    Equation equation;
    equation.inputs.emplace_back();
    for (std::size_t i = 0; i < text.size(); ++i) {
        Term& term = equation.has_output ? equation.output : equation.inputs.back();
        if (text[i] == ' ') {
            continue;
        }
        if (is_letter(text[i])) {
            (term.has_ellipsis ? term.after : term.before)
                .push_back(kFirstLetter + static_cast<unsigned char>(text[i]));
        } else if (text.substr(i, 3) == "..." && !term.has_ellipsis) {
            term.has_ellipsis = true;
            i += 2;
        } else if (text.substr(i, 2) == "->" && !equation.has_output) {
            equation.has_output = true;
            ++i;
        } else if (text[i] == ',' && !equation.has_output) {
            equation.inputs.emplace_back();
        } else {
            KAEL_CHECK(false, "einsum: " << in_quotes(text.substr(i, 1)) << " at position " << i
                                         << " of the equation " << in_quotes(text)
                                         << ", expected letters, at most one '...' in a term, ',' "
                                            "between operands and one '->' behind them");
        }
    }
    return equation;
}

// A tensor with a name for each dimension.
struct Named {
    Tensor tensor;
    Labels labels;

    [[nodiscard]] int find(Label label) const {
        const auto found = std::find(labels.begin(), labels.end(), label);
        return found == labels.end() ? -1 : static_cast<int>(found - labels.begin());
    }
    [[nodiscard]] bool has(Label label) const { return find(label) >= 0; }
};

// Of an operand, whose number is `position`: repeated labels are taken for the diagonal.
Named name_dimensions(const Term& term, const Tensor& operand, std::size_t position,
                      std::string_view text) {
    const auto count = static_cast<int>(term.before.size() + term.after.size());
    KAEL_CHECK(term.has_ellipsis ? operand.rank() >= count : operand.rank() == count,
               "einsum: operand " << position << " of the equation " << in_quotes(text)
                                  << " has shape " << to_string(operand.shape()) << ", expected "
                                  << count << (term.has_ellipsis ? " or more" : "")
                                  << " dimensions");
    Named result{operand, term.before};
    for (int i = operand.rank() - count; i-- > 0;) {
        result.labels.push_back(i);
    }
    result.labels.insert(result.labels.end(), term.after.begin(), term.after.end());
    for (std::size_t i = 0; i < result.labels.size();) {
        const Label label = result.labels[i];
        const auto again = std::find(result.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                     result.labels.end(), label);
        if (again == result.labels.end()) {
            ++i;
            continue;
        }
        const auto first = static_cast<int>(i);
        const auto second = static_cast<int>(again - result.labels.begin());
        KAEL_CHECK(result.tensor.size(first) == result.tensor.size(second),
                   "einsum: the " << name_of(label) << " has the sizes "
                                  << result.tensor.size(first) << " and "
                                  << result.tensor.size(second) << " in operand " << position
                                  << ", expected equal ones");
        result.tensor = diagonal(result.tensor, 0, first, second);
        result.labels.erase(again);
        result.labels.erase(result.labels.begin() + first);
        result.labels.push_back(label);
    }
    return result;
}

// The labels of the result. Without "->" those of "...", then the letters that occur once.
Labels labels_of_result(const Equation& equation, const std::vector<Named>& operands,
                        std::string_view text) {
    std::array<int, kFirstLetter + 128> counts{};
    for (const Term& term : equation.inputs) {
        for (const Labels* labels : {&term.before, &term.after}) {
            for (const Label label : *labels) {
                ++counts[static_cast<std::size_t>(label)];
            }
        }
    }
    Labels dots;
    for (Label label = kFirstLetter; label-- > 0;) {
        if (std::any_of(operands.begin(), operands.end(),
                        [&](const Named& operand) { return operand.has(label); })) {
            dots.push_back(label);
        }
    }
    if (!equation.has_output) {
        Labels result = std::move(dots);
        for (std::size_t i = kFirstLetter; i < counts.size(); ++i) {
            if (counts[i] == 1) {
                result.push_back(static_cast<Label>(i));
            }
        }
        return result;
    }
    Labels result;
    const auto add = [&](const Labels& labels) {
        for (const Label label : labels) {
            KAEL_CHECK(counts[static_cast<std::size_t>(label)] > 0,
                       "einsum: the " << name_of(label) << " of the result is in no operand of "
                                      << in_quotes(text) << ", expected one of theirs");
            KAEL_CHECK(std::find(result.begin(), result.end(), label) == result.end(),
                       "einsum: the " << name_of(label) << " is twice in the result of "
                                      << in_quotes(text) << ", expected each once at most");
            result.push_back(label);
        }
    };
    add(equation.output.before);
    if (equation.output.has_ellipsis) {
        result.insert(result.end(), dots.begin(), dots.end());
    }
    add(equation.output.after);
    return result;
}

// A dimension of size 1 goes with any size.
void check_sizes(const std::vector<Named>& operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
        for (std::size_t j = 0; j < operands[i].labels.size(); ++j) {
            const Label label = operands[i].labels[j];
            const std::int64_t size = operands[i].tensor.size(static_cast<int>(j));
            for (std::size_t k = 0; k < i; ++k) {
                const int place = operands[k].find(label);
                const std::int64_t other = place < 0 ? 1 : operands[k].tensor.size(place);
                KAEL_CHECK(size == other || size == 1 || other == 1,
                           "einsum: the " << name_of(label) << " has size " << other
                                          << " in operand " << k + 1 << " and " << size
                                          << " in operand " << i + 1
                                          << ", expected equal sizes or 1");
            }
        }
    }
}

// The dimensions in the order of `labels`, all of which it has.
Tensor ordered(const Named& named, const Labels& labels) {
    std::vector<int> order;
    order.reserve(labels.size());
    for (const Label label : labels) {
        order.push_back(named.find(label));
    }
    return named.tensor.permute(order);
}

// Without the dimensions that `is_needed` refuses, which are summed.
template <typename IsNeeded>
Named summed(const Named& named, IsNeeded is_needed) {
    Named result;
    Over over;
    for (std::size_t i = 0; i < named.labels.size(); ++i) {
        if (is_needed(named.labels[i])) {
            result.labels.push_back(named.labels[i]);
        } else {
            over.dimensions.push_back(static_cast<int>(i));
        }
    }
    result.tensor =
        over.dimensions.empty() ? named.tensor : sum(named.tensor, over).to(named.tensor.dtype());
    return result;
}

// With dimensions of size 1 as large as the other's of that name.
Tensor stretched(const Named& named, const Named& other) {
    Shape shape = named.tensor.shape();
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const int place = other.find(named.labels[i]);
        if (place >= 0 && shape[i] == 1) {
            shape[i] = other.tensor.size(place);
        }
    }
    return named.tensor.expand(shape);
}

// The product of both, summed over the dimensions that both have and `is_needed` refuses.
template <typename IsNeeded>
Named contracted(Named left, Named right, IsNeeded is_needed) {
    left = summed(left, [&](Label label) { return is_needed(label) || right.has(label); });
    right = summed(right, [&](Label label) { return is_needed(label) || left.has(label); });
    Tensor stretched_left = stretched(left, right);
    right.tensor = stretched(right, left);
    left.tensor = std::move(stretched_left);

    Labels shared;
    Labels gone;
    Labels only_left;
    Labels only_right;
    for (const Label label : left.labels) {
        (!right.has(label) ? only_left : is_needed(label) ? shared : gone).push_back(label);
    }
    for (const Label label : right.labels) {
        if (!left.has(label)) {
            only_right.push_back(label);
        }
    }
    const auto joined = [](const Labels& a, const Labels& b, const Labels& c) {
        Labels all = a;
        all.insert(all.end(), b.begin(), b.end());
        all.insert(all.end(), c.begin(), c.end());
        return all;
    };
    const auto sizes = [](const Named& named, const Labels& labels) {
        Shape shape;
        for (const Label label : labels) {
            shape.push_back(named.tensor.size(named.find(label)));
        }
        return shape;
    };
    const Tensor rows = ordered(left, joined(shared, only_left, gone));
    const Tensor columns = ordered(right, joined(shared, gone, only_right));
    Shape shape = sizes(left, joined(shared, only_left, {}));
    for (const std::int64_t size : sizes(right, only_right)) {
        shape.push_back(size);
    }
    const std::int64_t batch = element_count(sizes(left, shared));
    const std::int64_t inner = element_count(sizes(left, gone));
    const Tensor a = rows.reshape({batch, element_count(sizes(left, only_left)), inner});
    const Tensor b = columns.reshape({batch, inner, element_count(sizes(right, only_right))});
    return {(gone.empty() ? mul(a, b) : matmul(a, b)).reshape(shape),
            joined(shared, only_left, only_right)};
}

} // namespace

Tensor einsum(const std::string& text, const std::vector<Tensor>& operands) {
    const Equation equation = parse(text);
    KAEL_CHECK(equation.inputs.size() == operands.size(),
               "einsum: " << operands.size() << " operands for the equation " << in_quotes(text)
                          << ", expected " << equation.inputs.size());
    std::vector<Named> named;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        check_defined(operands[i], "einsum");
        KAEL_CHECK(operands[i].dtype() == operands[0].dtype() &&
                       operands[i].dtype() != DType::boolean,
                   "einsum: operands of dtype " << name(operands[0].dtype()) << " and "
                                                << name(operands[i].dtype())
                                                << ", expected numbers of one dtype");
        named.push_back(name_dimensions(equation.inputs[i], operands[i], i + 1, text));
    }
    check_sizes(named);
    const Labels labels = labels_of_result(equation, named, text);
    const auto is_needed_after = [&](std::size_t position) {
        return [&, position](Label label) {
            return std::find(labels.begin(), labels.end(), label) != labels.end() ||
                   std::any_of(named.begin() + static_cast<std::ptrdiff_t>(position) + 1,
                               named.end(),
                               [&](const Named& operand) { return operand.has(label); });
        };
    };
    Named result = named[0];
    for (std::size_t i = 1; i < named.size(); ++i) {
        result = contracted(std::move(result), named[i], is_needed_after(i));
    }
    return ordered(summed(result, is_needed_after(named.size() - 1)), labels);
}

} // namespace kael
