#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "session.h"

namespace kael::fuzz {

void Session::fill(kael_argument& argument, bool lists_are_text) {
    constexpr kael_argument_kind kKinds[] = {
        KAEL_ARGUMENT_TENSOR,   KAEL_ARGUMENT_TENSOR,  KAEL_ARGUMENT_TENSOR,
        KAEL_ARGUMENT_INTEGER,  KAEL_ARGUMENT_INTEGER, KAEL_ARGUMENT_INTEGERS,
        KAEL_ARGUMENT_INTEGERS, KAEL_ARGUMENT_REAL,    KAEL_ARGUMENT_REAL,
        KAEL_ARGUMENT_BOOL,     KAEL_ARGUMENT_TENSORS, KAEL_ARGUMENT_NONE};
    const std::uint8_t choice = input_.byte();
    argument.kind = choice < 252 ? kKinds[choice % std::size(kKinds)] : choice - 250;
    switch (argument.kind) {
    case KAEL_ARGUMENT_TENSOR:
        argument.tensor = one(tensors_);
        break;
    case KAEL_ARGUMENT_TENSORS: {
        std::vector<kael_tensor*>& list = lists_.emplace_back(input_.below(4));
        std::generate(list.begin(), list.end(), [this] { return one(tensors_); });
        argument.tensors = list.data();
        argument.count = input_.rarely(32) ? -1 : static_cast<std::int64_t>(list.size());
        break;
    }
    case KAEL_ARGUMENT_BOOL:
        argument.integer = input_.byte() % 2;
        break;
    case KAEL_ARGUMENT_INTEGER:
        argument.integer = integer();
        break;
    case KAEL_ARGUMENT_REAL:
        argument.real = real();
        break;
    case KAEL_ARGUMENT_INTEGERS: {
        std::vector<std::int64_t>& list = integers_.emplace_back();
        if (lists_are_text) {
            const std::vector<std::uint8_t> bytes = input_.bytes<std::uint8_t>(input_.below(16));
            list.assign(bytes.begin(), bytes.end());
        } else {
            const Sizes sizes = this->sizes();
            list.assign(sizes.values.begin(), sizes.values.begin() + std::clamp(sizes.rank, 0, 20));
        }
        argument.integers = list.data();
        argument.count = input_.rarely(32) ? -1 : static_cast<std::int64_t>(list.size());
        break;
    }
    default:
        break;
    }
}

void Session::apply() {
    std::int64_t operators = 0;
    kael_operator_count(&operators);
    Text name = {};
    if (input_.rarely(32)) {
        name = text();
    } else {
        require(kael_operator_name(
                    static_cast<std::int64_t>(input_.below(static_cast<std::size_t>(operators))),
                    &name.data, &name.length) == KAEL_OK);
    }
    const std::string_view chosen(name.data, name.data == nullptr || name.length < 0
                                                 ? 0
                                                 : static_cast<std::size_t>(name.length));
    std::vector<kael_argument> arguments(input_.below(12));
    for (kael_argument& argument : arguments) {
        fill(argument, chosen == "einsum");
    }
    std::array<kael_tensor*, 16> results{};
    results.fill(untouched<kael_tensor>());
    const std::int64_t capacity =
        input_.rarely(16) ? input_.one_of<std::int64_t>({0, 1, -1, 2}) : std::int64_t{16};
    std::int64_t count = -1;
    const kael_status status =
        kael_apply(name.data, name.length, arguments.data(),
                   input_.rarely(32) ? -1 : static_cast<std::int64_t>(arguments.size()),
                   results.data(), capacity, out(count));
    // An entry that is null is refused, but an operator that does not exist before it.
    if (succeeded(status)) {
        require(count >= 0 && count <= std::max<std::int64_t>(capacity, 0));
        require(!chosen.ends_with('_') || count == 0);
    } else {
        require(count == -1);
    }
    for (std::int64_t i = 0; i < 16; ++i) {
        kael_tensor* const result = results[static_cast<std::size_t>(i)];
        require((i < count) == (result != untouched<kael_tensor>()));
        if (i < count) {
            keep(result);
        }
    }
}

void Session::operator_names() {
    std::int64_t operators = 0;
    kael_operator_count(&operators);
    kael_operator_count(nullptr);
    const char* name = nullptr;
    std::int64_t length = -1;
    const std::int64_t index = input_.rarely(4) ? integer() : input_.byte();
    const kael_status status = kael_operator_name(index, out(name), out(length));
    if (succeeded(status)) {
        require(index >= 0 && index < operators);
        require(name[length] == '\0' && length > 0);
    } else {
        require(name == nullptr && length == -1);
    }
}

void Session::idx() {
    const std::vector<char> bytes = input_.bytes(input_.below(40));
    auto count = static_cast<std::int64_t>(bytes.size());
    if (input_.rarely(16)) {
        count = -1;
        must_fail_ = true;
    }
    const Text origin = text();
    kael_tensor* made = untouched<kael_tensor>();
    if (input_.rarely(2)) {
        take(kael_idx_images(bytes.data(), count, origin.data, origin.length, out(made)), made);
    } else {
        take(kael_idx_labels(bytes.data(), count, origin.data, origin.length, out(made)), made);
    }
}

} // namespace kael::fuzz
