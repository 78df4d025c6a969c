#include "base/environment.h"

#include <charconv>
#include <cstdlib>

#include "kael/error.h"

#include "base/in_quotes.h"

namespace kael {

std::optional<std::string> environment_variable(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr) {
        return std::nullopt;
    }
    return std::string(value);
}

std::optional<int> environment_integer(const char* name, int least, int most) {
    const std::optional<std::string> text = environment_variable(name);
    if (!text.has_value() || text->empty()) {
        return std::nullopt;
    }
    int number = 0;
    const char* end = text->data() + text->size();
    const auto [stop, failure] = std::from_chars(text->data(), end, number);
    KAEL_CHECK(failure == std::errc{} && stop == end && number >= least && number <= most,
               "the environment variable " << name << " is " << in_quotes(*text)
                                           << ", expected a whole number from " << least << " to "
                                           << most);
    return number;
}

} // namespace kael
