// A number that stands for results (FNV-1a), computed without an allocation.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kael/tensor.h"

namespace kael::test {

class Digest {
public:
    Digest& add(std::string_view bytes) {
        for (const char byte : bytes) {
            value_ = (value_ ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3U;
        }
        return *this;
    }
    Digest& add(const void* bytes, std::int64_t count) {
        return add({static_cast<const char*>(bytes), static_cast<std::size_t>(count)});
    }
    Digest& add(const Tensor& tensor) { return add(tensor.data_ptr_raw(), tensor.nbytes()); }
    Digest& add(const std::vector<std::int64_t>& ids) {
        return add(ids.data(), std::ssize(ids) * std::int64_t{sizeof(std::int64_t)});
    }

    [[nodiscard]] std::uint64_t value() const { return value_; }

private:
    std::uint64_t value_ = 0xCBF29CE484222325U;
};

} // namespace kael::test
