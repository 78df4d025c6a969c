// The elements of strided tensors in row-major order, a block at a time: what inner loops read and
// write is contiguous, of the dtype that they compute in, and small enough for the first-level
// cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kael/tensor.h"

#include "tensor/layout.h"

namespace kael {

// Elements of a block; no dtype is wider than 8 bytes.
inline constexpr std::int64_t kBlock = 512;
using BlockBuffer = std::array<std::byte, static_cast<std::size_t>(kBlock) * 8>;

// Calls body(first, count) for the blocks of [begin, end).
template <typename Body>
void for_each_block(std::int64_t begin, std::int64_t end, Body&& body) {
    for (std::int64_t first = begin; first < end; first += kBlock) {
        body(first, first + kBlock < end ? kBlock : end - first);
    }
}

// Calls body(Item{}) with an unsigned type of `bytes` bytes.
template <typename Body>
void with_item(std::int64_t bytes, Body&& body) {
    switch (bytes) {
    case 1:
        return body(std::uint8_t{});
    case 2:
        return body(std::uint16_t{});
    case 4:
        return body(std::uint32_t{});
    default:
        return body(std::uint64_t{});
    }
}

// Converts contiguous elements by the rules of Tensor::to.
void convert_elements(DType from, const std::byte* source, std::int64_t count, DType to,
                      std::byte* target);

// Where the elements of a tensor stand, counted from its first, with as few dimensions as possible.
class Elements {
public:
    // Of a tensor seen in `shape`, to which it must broadcast. An empty shape has no elements to
    // ask for.
    Elements(const Tensor& tensor, const Shape& shape);
    explicit Elements(const Tensor& tensor) : Elements(tensor, tensor.shape()) {}

    [[nodiscard]] DType dtype() const noexcept { return dtype_; }
    [[nodiscard]] bool is_constant() const noexcept { return constant_; }
    // How far into the tensor, in bytes, elements [first, first + count) begin; nothing where gaps
    // are between them.
    [[nodiscard]] std::optional<std::int64_t> contiguous(std::int64_t first,
                                                         std::int64_t count) const;
    // Copies elements [first, first + count) between contiguous memory and the tensor that begins
    // at `base`.
    void gather(const std::byte* base, std::int64_t first, std::int64_t count,
                std::byte* target) const;
    void scatter(std::byte* base, std::int64_t first, std::int64_t count,
                 const std::byte* source) const;

private:
    DType dtype_;
    std::int64_t item_ = 0;
    Layout layout_;
    bool constant_ = false; // every element is the same one
};

// Reads blocks of a tensor as elements of another dtype. One per thread and operand.
class BlockReader {
public:
    // `base` is the first element. Elements are rounded to `common` on the way to `wanted`.
    BlockReader(const Elements& elements, const std::byte* base, DType common, DType wanted)
        : elements_(elements), base_(base), common_(common), wanted_(wanted) {}

    // Elements [first, first + count), count at most kBlock, until the next call.
    [[nodiscard]] const std::byte* read(std::int64_t first, std::int64_t count);

private:
    const std::byte* convert(const std::byte* block, std::int64_t count);

    const Elements& elements_;
    const std::byte* base_;
    DType common_;
    DType wanted_;
    std::int64_t repeated_ = 0; // of a constant: how often the buffer holds it
    alignas(64) BlockBuffer buffers_[2];
};

// Writes blocks of `produced` elements into a tensor. One per thread.
class BlockWriter {
public:
    // `base` is the first element. `buffered`: what is read while a block is made may be what it
    // replaces.
    BlockWriter(const Elements& elements, std::byte* base, DType produced, bool buffered)
        : elements_(elements), base_(base), produced_(produced), buffered_(buffered) {}

    // Where a block is to be put before commit() is called for it.
    [[nodiscard]] std::byte* prepare(std::int64_t first, std::int64_t count);
    void commit();

private:
    const Elements& elements_;
    std::byte* base_;
    DType produced_;
    bool buffered_;
    bool direct_ = false; // the present block was made where it belongs
    std::int64_t first_ = 0;
    std::int64_t count_ = 0;
    alignas(64) BlockBuffer buffers_[2];
};

} // namespace kael
