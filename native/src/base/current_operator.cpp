#include "base/current_operator.h"

namespace kael {

namespace {

thread_local std::string_view current;

} // namespace

std::string_view current_operator() noexcept {
    return current;
}

OperatorScope::OperatorScope(std::string_view name) noexcept : before_(current) {
    current = name;
}

OperatorScope::~OperatorScope() {
    current = before_;
}

} // namespace kael
