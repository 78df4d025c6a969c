#include "tensor/blocks.h"

#include <algorithm>
#include <cstring>

#include "kael/error.h"

namespace kael {

namespace {

// Calls row(offset in the layout, stride, count, done) for the runs along the last dimension that
// make up the elements [first, first + count); `done` is how many elements came before.
template <typename Row>
void for_each_row(const Layout& layout, std::int64_t first, std::int64_t count, Row&& row) {
    const std::size_t rank = layout.shape.size();
    if (rank == 0) {
        row(0, 1, count, 0);
        return;
    }
    std::array<std::int64_t, kMaxRank> index{};
    std::int64_t offset = 0;
    std::int64_t rest = first;
    for (std::size_t i = rank; i-- > 0;) {
        index[i] = rest % layout.shape[i];
        rest /= layout.shape[i];
        offset += index[i] * layout.strides[i];
    }
    const std::size_t last = rank - 1;
    for (std::int64_t done = 0; done < count;) {
        const std::int64_t length = std::min(layout.shape[last] - index[last], count - done);
        row(offset, layout.strides[last], length, done);
        done += length;
        offset += length * layout.strides[last];
        index[last] += length;
        for (std::size_t i = last; i > 0 && index[i] == layout.shape[i]; --i) {
            offset += layout.strides[i - 1] - layout.shape[i] * layout.strides[i];
            index[i] = 0;
            ++index[i - 1];
        }
    }
}

template <typename Item>
void repeat(std::byte* items, std::int64_t count) {
    Item* const all = reinterpret_cast<Item*>(items);
    std::fill(all + 1, all + count, all[0]);
}

} // namespace

Elements::Elements(const Tensor& tensor, const Shape& shape)
    : dtype_(tensor.dtype()), item_(item_size(tensor.dtype())) {
    const Tensor view = tensor.expand(shape);
    if (view.numel() > 0) {
        layout_ = coalesce(view.shape(), view.strides());
        constant_ = std::all_of(layout_.strides.begin(), layout_.strides.end(),
                                [](std::int64_t stride) { return stride == 0; });
    }
}

std::optional<std::int64_t> Elements::contiguous(std::int64_t first, std::int64_t count) const {
    const std::size_t rank = layout_.shape.size();
    if (rank == 0) {
        return 0;
    }
    if (layout_.strides.back() != 1) {
        return std::nullopt;
    }
    if (rank == 1) {
        return first * item_;
    }
    std::optional<std::int64_t> begin;
    if (first % layout_.shape.back() + count <= layout_.shape.back()) {
        for_each_row(layout_, first, count,
                     [&](std::int64_t offset, std::int64_t, std::int64_t, std::int64_t) {
                         begin = offset * item_;
                     });
    }
    return begin;
}

void Elements::gather(const std::byte* base, std::int64_t first, std::int64_t count,
                      std::byte* target) const {
    with_item(item_, [&](auto zero) {
        using Item = decltype(zero);
        const Item* const from = reinterpret_cast<const Item*>(base);
        Item* const to = reinterpret_cast<Item*>(target);
        for_each_row(
            layout_, first, count,
            [&](std::int64_t offset, std::int64_t stride, std::int64_t length, std::int64_t done) {
                const Item* const source = from + offset;
                if (stride == 1) {
                    std::copy(source, source + length, to + done);
                } else if (stride == 0) {
                    std::fill(to + done, to + done + length, *source);
                } else {
                    for (std::int64_t i = 0; i < length; ++i) {
                        to[done + i] = source[i * stride];
                    }
                }
            });
    });
}

void Elements::scatter(std::byte* base, std::int64_t first, std::int64_t count,
                       const std::byte* source) const {
    with_item(item_, [&](auto zero) {
        using Item = decltype(zero);
        const Item* const from = reinterpret_cast<const Item*>(source);
        Item* const to = reinterpret_cast<Item*>(base);
        for_each_row(
            layout_, first, count,
            [&](std::int64_t offset, std::int64_t stride, std::int64_t length, std::int64_t done) {
                if (stride == 1) {
                    std::copy(from + done, from + done + length, to + offset);
                } else {
                    for (std::int64_t i = 0; i < length; ++i) {
                        to[offset + i * stride] = from[done + i];
                    }
                }
            });
    });
}

const std::byte* BlockReader::read(std::int64_t first, std::int64_t count) {
    if (elements_.is_constant()) {
        std::byte* const buffer = buffers_[0].data();
        if (repeated_ < count) {
            elements_.gather(base_, 0, 1, buffers_[1].data());
            const std::byte* const converted = convert(buffers_[1].data(), 1);
            std::memmove(buffer, converted, static_cast<std::size_t>(item_size(wanted_)));
            with_item(item_size(wanted_),
                      [&](auto zero) { repeat<decltype(zero)>(buffer, count); });
            repeated_ = count;
        }
        return buffer;
    }
    if (const auto begin = elements_.contiguous(first, count); begin.has_value()) {
        return convert(base_ + *begin, count);
    }
    elements_.gather(base_, first, count, buffers_[1].data());
    return convert(buffers_[1].data(), count);
}

const std::byte* BlockReader::convert(const std::byte* block, std::int64_t count) {
    DType dtype = elements_.dtype();
    for (const DType next : {common_, wanted_}) {
        if (next != dtype) {
            std::byte* const target = buffers_[block == buffers_[0].data() ? 1 : 0].data();
            convert_elements(dtype, block, count, next, target);
            block = target;
            dtype = next;
        }
    }
    return block;
}

std::byte* BlockWriter::prepare(std::int64_t first, std::int64_t count) {
    first_ = first;
    count_ = count;
    direct_ = false;
    if (produced_ == elements_.dtype() && !buffered_) {
        if (const auto begin = elements_.contiguous(first, count); begin.has_value()) {
            direct_ = true;
            return base_ + *begin;
        }
    }
    return buffers_[0].data();
}

void BlockWriter::commit() {
    if (direct_) {
        return;
    }
    const std::byte* block = buffers_[0].data();
    if (produced_ != elements_.dtype()) {
        convert_elements(produced_, block, count_, elements_.dtype(), buffers_[1].data());
        block = buffers_[1].data();
    }
    elements_.scatter(base_, first_, count_, block);
}

} // namespace kael
