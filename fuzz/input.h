// What the fuzzers share: an assertion, and how bytes become decisions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <vector>

namespace kael::fuzz {

// An assertion that stays in every build.
inline void require(bool holds,
                    const std::source_location& where = std::source_location::current()) {
    if (!holds) {
        std::fprintf(stderr, "%s:%u: what this line requires does not hold\n", where.file_name(),
                     static_cast<unsigned>(where.line()));
        std::abort();
    }
}

// The input of a fuzzer, byte for byte; zeros after its end.
class Input {
public:
    Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

    [[nodiscard]] bool finished() const { return left_ == 0; }

    std::uint8_t byte() {
        if (left_ == 0) {
            return 0;
        }
        --left_;
        return *data_++;
    }

    // From 0 to `count` - 1.
    std::size_t below(std::size_t count) { return byte() % count; }

    // The rarer, the larger `rarity` is; never after the end.
    bool rarely(std::size_t rarity) { return below(rarity) == rarity - 1; }

    template <typename Element, std::size_t Count>
    Element one_of(const Element (&elements)[Count]) {
        return elements[below(Count)];
    }

    template <typename Number>
    Number number() {
        std::uint8_t bytes[sizeof(Number)];
        std::generate(std::begin(bytes), std::end(bytes), [this] { return byte(); });
        Number value;
        std::memcpy(&value, bytes, sizeof(Number));
        return value;
    }

    // Exactly as large as asked for, so that a sanitizer sees what is read beyond.
    template <typename Byte = char>
    std::vector<Byte> bytes(std::size_t count) {
        std::vector<Byte> taken(count);
        std::generate(taken.begin(), taken.end(), [this] { return static_cast<Byte>(byte()); });
        return taken;
    }

private:
    const std::uint8_t* data_;
    std::size_t left_;
};

} // namespace kael::fuzz
