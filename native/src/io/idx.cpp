#include "kael/idx.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>

#include "kael/error.h"

#include "base/checked_arithmetic.h"
#include "base/input_file.h"

namespace kael::data {

namespace {

constexpr std::size_t kMostDimensions = 3;
constexpr std::size_t kFieldBytes = 4;

// What a kind of file must begin with: two zeros, 8 for unsigned bytes, the number of dimensions.
struct Kind {
    const char* name;
    std::size_t dimensions;

    [[nodiscard]] std::uint32_t magic() const {
        return 0x800U + static_cast<std::uint32_t>(dimensions);
    }
    [[nodiscard]] std::size_t header_bytes() const { return kFieldBytes * (1 + dimensions); }
};
constexpr Kind kImages = {"images", 3};
constexpr Kind kLabels = {"labels", 1};

std::uint32_t field(std::span<const std::byte> header, std::size_t index) {
    std::uint32_t value = 0;
    for (const std::byte byte : header.subspan(index * kFieldBytes, kFieldBytes)) {
        value = value << 8U | std::to_integer<std::uint32_t>(byte);
    }
    return value;
}

std::string hexadecimal(std::uint32_t value) {
    std::array<char, 11> text{};
    std::snprintf(text.data(), text.size(), "0x%08x", value);
    return text.data();
}

// The shape of a file of `size` bytes that begins with `header`.
Shape shape_of(const Kind& kind, std::span<const std::byte> header, std::uint64_t size,
               const std::string& origin) {
    const std::uint32_t magic = field(header, 0);
    constexpr std::uint32_t kGzip = 0x1f8b; // RFC 1952
    KAEL_CHECK_AS(ErrorCode::invalid_file, magic >> 16U != kGzip,
                  origin << " is packed by gzip: unpack it first");
    KAEL_CHECK_AS(ErrorCode::invalid_file, magic == kind.magic(),
                  origin << " begins with " << hexadecimal(magic) << ", expected "
                         << hexadecimal(kind.magic()) << ", an IDX file of " << kind.name);
    Shape shape;
    std::optional<std::int64_t> count = 1;
    for (std::size_t i = 1; i <= kind.dimensions; ++i) {
        shape.push_back(field(header, i));
        count = count.has_value() ? try_multiply(*count, shape.back()) : std::nullopt;
    }
    // A size of 0 does not excuse the others: their product must fit too, as in every shape.
    KAEL_CHECK_AS(ErrorCode::invalid_file, count.has_value(),
                  origin << " says that it has the shape " << to_string(shape)
                         << ", which is more than any file holds");
    const std::uint64_t expected = kind.header_bytes() + static_cast<std::uint64_t>(*count);
    KAEL_CHECK_AS(ErrorCode::invalid_file, size == expected,
                  origin << " has " << size << " bytes, expected " << expected << " for "
                         << kind.name << " of shape " << to_string(shape));
    return shape;
}

void check_header(const Kind& kind, std::uint64_t size, const std::string& origin) {
    KAEL_CHECK_AS(ErrorCode::invalid_file, size >= kind.header_bytes(),
                  origin << " has " << size << " bytes, expected at least " << kind.header_bytes()
                         << ", the header of an IDX file of " << kind.name);
}

Tensor read(const Kind& kind, const std::filesystem::path& path) {
    const InputFile file(path);
    check_header(kind, file.size(), path.string());
    std::array<std::byte, kFieldBytes * (1 + kMostDimensions)> buffer{};
    const std::span<std::byte> header = std::span(buffer).first(kind.header_bytes());
    file.read(0, header);
    const Tensor tensor =
        Tensor::empty(shape_of(kind, header, file.size(), path.string()), DType::uint8);
    file.read(header.size(), {tensor.storage()->data(), static_cast<std::size_t>(tensor.nbytes())});
    return tensor;
}

Tensor parse(const Kind& kind, std::span<const std::byte> bytes, const std::string& origin) {
    check_header(kind, bytes.size(), origin);
    const std::span<const std::byte> header = bytes.first(kind.header_bytes());
    Shape shape = shape_of(kind, header, bytes.size(), origin);
    const std::span<const std::byte> data = bytes.subspan(header.size());
    return Tensor::from_bytes(data.data(), static_cast<std::int64_t>(data.size()), std::move(shape),
                              DType::uint8);
}

} // namespace

Tensor read_idx_images(const std::filesystem::path& path) {
    return read(kImages, path);
}

Tensor read_idx_labels(const std::filesystem::path& path) {
    return read(kLabels, path);
}

Tensor parse_idx_images(std::span<const std::byte> bytes, const std::string& origin) {
    return parse(kImages, bytes, origin);
}

Tensor parse_idx_labels(std::span<const std::byte> bytes, const std::string& origin) {
    return parse(kLabels, bytes, origin);
}

} // namespace kael::data
