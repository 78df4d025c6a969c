// Foreign text inside an error message.
#pragma once

#include <string>
#include <string_view>

namespace kael {

// `text` in double quotes, fit for one line of a message: control characters, quotes, backslashes
// and bytes that are not UTF-8 are escaped as in C ("\n", "\x00"), and a long text is cut after
// about 120 bytes, with its full length behind it.
[[nodiscard]] std::string in_quotes(std::string_view text);

} // namespace kael
