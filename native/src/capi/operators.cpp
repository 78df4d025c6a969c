// Operators, applied by name.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capi/guard.h"
#include "capi/handles.h"
#include "operators/operator.h"

namespace {

const kael::Tensor& tensor_of(const kael_tensor* handle, const std::string& operation,
                              std::size_t position) {
    KAEL_CHECK(handle != nullptr,
               operation << ": the tensor of argument " << position << " is null");
    return handle->tensor;
}

kael::Argument argument_of(const kael_argument& given, const std::string& operation,
                           std::size_t position) {
    const bool is_list =
        given.kind == KAEL_ARGUMENT_TENSORS || given.kind == KAEL_ARGUMENT_INTEGERS;
    KAEL_CHECK(!is_list || given.count >= 0, operation << ": argument " << position << " has "
                                                       << given.count
                                                       << " entries, expected 0 or more");
    switch (given.kind) {
    case KAEL_ARGUMENT_NONE:
        return {};
    case KAEL_ARGUMENT_TENSOR:
        return tensor_of(given.tensor, operation, position);
    case KAEL_ARGUMENT_TENSORS: {
        KAEL_CHECK(given.tensors != nullptr || given.count == 0,
                   operation << ": the tensors of argument " << position << " are null");
        std::vector<kael::Tensor> tensors;
        tensors.reserve(static_cast<std::size_t>(given.count));
        for (std::int64_t i = 0; i < given.count; ++i) {
            tensors.push_back(tensor_of(given.tensors[i], operation, position));
        }
        return tensors;
    }
    case KAEL_ARGUMENT_BOOL:
        return given.integer != 0;
    case KAEL_ARGUMENT_INTEGER:
        return given.integer;
    case KAEL_ARGUMENT_REAL:
        return given.real;
    case KAEL_ARGUMENT_INTEGERS:
        KAEL_CHECK(given.integers != nullptr || given.count == 0,
                   operation << ": the integers of argument " << position << " are null");
        return kael::Shape(given.integers, given.integers + given.count);
    default:
        KAEL_CHECK(false, operation << ": argument " << position << " is of the unknown kind "
                                    << given.kind << ", expected 0 to 6");
        return {};
    }
}

} // namespace

extern "C" {

kael_status kael_apply(const char* name, int64_t name_length, const kael_argument* arguments,
                       int64_t argument_count, kael_tensor** results, int64_t capacity,
                       int64_t* count) {
    return kael::capi::guard([&] {
        const kael::Operator& applied =
            kael::find_operator(kael::capi::text(name, name_length, "name"));
        KAEL_CHECK(argument_count >= 0,
                   "the argument argument_count is " << argument_count << ", expected 0 or more");
        KAEL_CHECK(arguments != nullptr || argument_count == 0, "the argument arguments is null");
        KAEL_CHECK(results != nullptr || capacity <= 0, "the argument results is null");
        KAEL_REQUIRE(count);
        std::vector<kael::Argument> values;
        values.reserve(static_cast<std::size_t>(argument_count));
        for (int64_t i = 0; i < argument_count; ++i) {
            values.push_back(
                argument_of(arguments[i], applied.name, static_cast<std::size_t>(i) + 1));
        }
        const std::vector<kael::Tensor> tensors = kael::apply(applied, std::move(values));
        const auto made = static_cast<int64_t>(tensors.size());
        KAEL_CHECK(made <= capacity,
                   applied.name << ": " << made << " results, and room for " << capacity);
        std::vector<std::unique_ptr<kael_tensor>> handles;
        handles.reserve(tensors.size());
        for (const kael::Tensor& tensor : tensors) {
            handles.push_back(std::make_unique<kael_tensor>(kael_tensor{tensor}));
        }
        for (std::size_t i = 0; i < handles.size(); ++i) {
            results[i] = handles[i].release();
        }
        *count = made;
    });
}

void kael_operator_count(int64_t* count) {
    kael::capi::guard([&] {
        KAEL_REQUIRE(count);
        *count = static_cast<int64_t>(kael::all_operators().size());
    });
}

kael_status kael_operator_name(int64_t index, const char** name, int64_t* name_length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(name);
        KAEL_REQUIRE(name_length);
        const auto& all = kael::all_operators();
        KAEL_CHECK(index >= 0 && index < static_cast<int64_t>(all.size()),
                   "the index " << index << " of an operator, expected 0 to " << all.size() - 1);
        const std::string& found = all[static_cast<std::size_t>(index)].name;
        *name = found.c_str();
        *name_length = static_cast<int64_t>(found.size());
    });
}
}
