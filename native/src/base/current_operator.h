// The operator that this thread is in, for tools that say who did something.
#pragma once

#include <string_view>

namespace kael {

// Empty outside of operators.
[[nodiscard]] std::string_view current_operator() noexcept;

// Names the operator until the end of the scope; an inner scope names another meanwhile. `name`
// must outlive the scope.
class OperatorScope {
public:
    explicit OperatorScope(std::string_view name) noexcept;
    ~OperatorScope();
    OperatorScope(const OperatorScope&) = delete;
    OperatorScope& operator=(const OperatorScope&) = delete;

private:
    std::string_view before_;
};

} // namespace kael
