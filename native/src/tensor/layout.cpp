#include "tensor/layout.h"

#include <algorithm>
#include <cstring>

#include "kael/threads.h"

namespace kael {

namespace {

// Elements that a thread must have to copy for it to be worth waking.
constexpr std::int64_t kCopyGrain = 32768;

// Rows that are copied together, in squares: a transposed source is read along its cache lines.
constexpr std::int64_t kBand = 32;

// Copies `rows` rows of `length` elements to row-major `target`.
template <typename Item>
void copy_band(const Item* source, std::int64_t row_stride, std::int64_t stride, std::int64_t rows,
               std::int64_t length, Item* target) {
    if (stride == 1) {
        for (std::int64_t row = 0; row < rows; ++row) {
            std::memcpy(target + row * length, source + row * row_stride,
                        static_cast<std::size_t>(length) * sizeof(Item));
        }
        return;
    }
    for (std::int64_t begin = 0; begin < length; begin += kBand) {
        const std::int64_t end = std::min(begin + kBand, length);
        for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t i = begin; i < end; ++i) {
                target[row * length + i] = source[row * row_stride + i * stride];
            }
        }
    }
}

// Copies rows [first, last), a row being what the last dimension walks. There are two dimensions or
// more.
template <typename Item>
void copy_rows(const Item* source, const Layout& layout, std::int64_t first, std::int64_t last,
               Item* target) {
    const std::size_t row_dimension = layout.shape.size() - 2;
    const std::int64_t length = layout.shape.back();
    Shape index(row_dimension + 1, 0);
    std::int64_t offset = 0;
    std::int64_t rest = first;
    for (std::size_t i = index.size(); i-- > 0;) {
        index[i] = rest % layout.shape[i];
        rest /= layout.shape[i];
        offset += index[i] * layout.strides[i];
    }
    for (std::int64_t row = first; row < last;) {
        const std::int64_t rows =
            std::min({kBand, layout.shape[row_dimension] - index[row_dimension], last - row});
        copy_band(source + offset, layout.strides[row_dimension], layout.strides.back(), rows,
                  length, target + row * length);
        row += rows;
        index[row_dimension] += rows;
        offset += rows * layout.strides[row_dimension];
        for (std::size_t i = row_dimension; i > 0 && index[i] == layout.shape[i]; --i) {
            offset += layout.strides[i - 1] - index[i] * layout.strides[i];
            ++index[i - 1];
            index[i] = 0;
        }
    }
}

template <typename Item>
void copy_items(const std::byte* source, const Layout& layout, std::byte* target) {
    const Item* from = reinterpret_cast<const Item*>(source);
    Item* to = reinterpret_cast<Item*>(target);
    const std::int64_t length = layout.shape.back();
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < layout.shape.size(); ++i) {
        rows *= layout.shape[i];
    }
    parallel_for(0, rows, kCopyGrain / length, [&](std::int64_t first, std::int64_t last) {
        copy_rows(from, layout, first, last, to);
    });
}

} // namespace

Layout coalesce(const Shape& shape, const Shape& strides) {
    Layout layout;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 1) {
            continue;
        }
        if (!layout.shape.empty() && layout.strides.back() == strides[i] * shape[i]) {
            layout.shape.back() *= shape[i];
            layout.strides.back() = strides[i];
        } else {
            layout.shape.push_back(shape[i]);
            layout.strides.push_back(strides[i]);
        }
    }
    return layout;
}

std::optional<Shape> view_strides(const Shape& from, const Shape& strides, const Shape& to) {
    if (std::find(from.begin(), from.end(), 0) != from.end()) {
        return contiguous_strides(to);
    }
    const Layout layout = coalesce(from, strides);
    Shape result(to.size(), 1);
    std::size_t chunk = layout.shape.size(); // the one in use lies before it
    std::int64_t filled = 1;                 // elements of it that dimensions of `to` cover
    std::int64_t size = 1;
    std::int64_t stride = 1;
    for (std::size_t i = to.size(); i-- > 0;) {
        if (to[i] == 1) {
            result[i] = stride * filled;
            continue;
        }
        if (filled == size) {
            --chunk; // there is one, as the element counts agree
            size = layout.shape[chunk];
            stride = layout.strides[chunk];
            filled = 1;
        }
        if (size % (filled * to[i]) != 0) {
            return std::nullopt;
        }
        result[i] = stride * filled;
        filled *= to[i];
    }
    return result;
}

void copy_strided(const std::byte* source, const Shape& shape, const Shape& strides,
                  std::int64_t item_bytes, std::byte* target) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
        return;
    }
    Layout layout = coalesce(shape, strides);
    while (layout.shape.size() < 2) { // the copy wants rows
        layout.shape.insert(layout.shape.begin(), 1);
        layout.strides.insert(layout.strides.begin(), 1);
    }
    switch (item_bytes) {
    case 1:
        return copy_items<std::uint8_t>(source, layout, target);
    case 2:
        return copy_items<std::uint16_t>(source, layout, target);
    case 4:
        return copy_items<std::uint32_t>(source, layout, target);
    default:
        return copy_items<std::uint64_t>(source, layout, target);
    }
}

} // namespace kael
