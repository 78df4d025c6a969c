// Working memory of the decoder.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace kael::gpt {

// Uninitialised floats, aligned to a cache line. Not from the caching allocator: it is held as long
// as the model is, or too large to be kept for later.
class FloatBuffer {
public:
    FloatBuffer() = default;
    explicit FloatBuffer(std::int64_t count)
        : data_(static_cast<float*>(
              ::operator new(static_cast<std::size_t>(count) * sizeof(float), kAlignment))),
          count_(count) {}

    [[nodiscard]] float* data() const noexcept { return data_.get(); }
    [[nodiscard]] std::int64_t count() const noexcept { return count_; }

    // At least `count` floats; what was there is lost when it grows.
    void reserve(std::int64_t count) {
        if (count > count_) {
            *this = FloatBuffer(); // never both at once
            *this = FloatBuffer(count);
        }
    }

private:
    static constexpr std::align_val_t kAlignment{64};
    struct Free {
        void operator()(float* data) const noexcept { ::operator delete(data, kAlignment); }
    };

    std::unique_ptr<float, Free> data_;
    std::int64_t count_ = 0;
};

// Hands out consecutive parts of a buffer, each aligned to a cache line.
class FloatParts {
public:
    explicit FloatParts(float* data) : next_(data) {}

    [[nodiscard]] static std::int64_t padded(std::int64_t count) noexcept {
        return (count + kLine - 1) / kLine * kLine;
    }
    [[nodiscard]] float* take(std::int64_t count) noexcept {
        return std::exchange(next_, next_ + padded(count));
    }

private:
    static constexpr std::int64_t kLine = 16;
    float* next_;
};

} // namespace kael::gpt
