#include "tensor/layout.h"

#include <algorithm>
#include <cstring>

#include "kael/error.h"
#include "kael/threads.h"

namespace kael {

namespace {

// Elements that a thread must have to copy for it to be worth waking.
constexpr std::int64_t kCopyGrain = 32768;

// Copies rows [first, last) of the innermost dimension.
template <typename Item>
void copy_rows(const Item* source, const Layout& layout, std::int64_t first, std::int64_t last,
               Item* target) {
    const std::size_t outer = layout.shape.size() - 1;
    const std::int64_t length = layout.shape[outer];
    const std::int64_t step = layout.strides[outer];
    Shape index(outer, 0);
    std::int64_t offset = 0;
    std::int64_t rest = first;
    for (std::size_t i = outer; i-- > 0;) {
        index[i] = rest % layout.shape[i];
        rest /= layout.shape[i];
        offset += index[i] * layout.strides[i];
    }
    for (std::int64_t row = first; row < last; ++row) {
        const Item* from = source + offset;
        Item* to = target + row * length;
        if (step == 1) {
            std::memcpy(to, from, static_cast<std::size_t>(length) * sizeof(Item));
        } else {
            for (std::int64_t i = 0; i < length; ++i) {
                to[i] = from[i * step];
            }
        }
        for (std::size_t i = outer; i-- > 0;) {
            offset += layout.strides[i];
            if (++index[i] < layout.shape[i]) {
                break;
            }
            offset -= index[i] * layout.strides[i];
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
    if (layout.shape.empty()) {
        layout = {{1}, {1}};
    }
    switch (item_bytes) {
    case 1:
        return copy_items<std::uint8_t>(source, layout, target);
    case 2:
        return copy_items<std::uint16_t>(source, layout, target);
    case 4:
        return copy_items<std::uint32_t>(source, layout, target);
    case 8:
        return copy_items<std::uint64_t>(source, layout, target);
    default:
        KAEL_CHECK_AS(ErrorCode::internal, false,
                      "elements of " << item_bytes << " bytes, expected 1, 2, 4 or 8");
    }
}

} // namespace kael
