#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "run.h"

namespace kael::fuzz {

void Run::make() {
    const auto dtype = static_cast<DType>(input_.below(9));
    Shape shape(input_.below(4));
    std::ranges::generate(shape, [this] { return static_cast<std::int64_t>(input_.below(4)); });
    const auto item = static_cast<std::size_t>(bytes_of(dtype));
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = count_of(shape); i > 0; --i) {
        std::vector<std::uint8_t> one(item, 0);
        const std::uint8_t choice = input_.byte();
        if (choice >= 224) { // any bits, NaN and infinity among them
            one = input_.bytes<std::uint8_t>(item);
        } else if (is_real(dtype)) { // a few quarters
            const double value = (choice % 33 - 16) * 0.25;
            if (dtype == DType::float64) {
                std::memcpy(one.data(), &value, item);
            } else {
                // Exact in all formats: the upper bits of a float32 are those of a bfloat16.
                const auto narrow = static_cast<float>(value);
                std::uint32_t word = 0;
                std::memcpy(&word, &narrow, sizeof(word));
                if (dtype == DType::bfloat16) {
                    word >>= 16;
                } else if (dtype == DType::float16) {
                    const std::uint32_t magnitude = word & 0x7FFFFFFF;
                    word = (word >> 16 & 0x8000) |
                           (magnitude == 0 ? 0 : (magnitude - (112U << 23)) >> 13);
                }
                std::memcpy(one.data(), &word, item);
            }
        } else {
            const std::int64_t value = dtype == DType::boolean ? choice % 2
                                       : dtype == DType::uint8 ? choice % 33
                                                               : choice % 33 - 16;
            std::memcpy(one.data(), &value, item); // little-endian, as all that kael runs on
        }
        bytes.insert(bytes.end(), one.begin(), one.end());
    }
    const Tensor made =
        Tensor::from_bytes(bytes.data(), static_cast<std::int64_t>(bytes.size()), shape, dtype);
    Tracked tracked = track(made);
    for (std::size_t i = 0; i < tracked.places.size(); ++i) {
        require(is_close(
            tracked.at(i),
            decoded(reinterpret_cast<const std::byte*>(bytes.data()) + i * item, dtype), dtype, 0));
    }
    keep(std::move(tracked));
}

} // namespace kael::fuzz
