// Environment variables. Each is read once and kept by whoever it configures: a later setenv in a
// process with threads would be a race.
#pragma once

#include <optional>
#include <string>

namespace kael {

// The value, which may be empty; nothing when the variable is not set.
[[nodiscard]] std::optional<std::string> environment_variable(const char* name);

// A whole number in [least, most], in decimal digits; nothing when the variable is not set or
// empty. Anything else is a kael::Error that names the variable, its value and the range.
[[nodiscard]] std::optional<int> environment_integer(const char* name, int least, int most);

} // namespace kael
