#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "session.h"

namespace kael::fuzz {

void Session::tensor_from_bytes() {
    const kael_dtype dtype = this->dtype();
    const Sizes shape = sizes();
    const std::vector<char> bytes =
        input_.bytes(static_cast<std::size_t>(shape.elements() * item_size(dtype)));
    auto count = static_cast<std::int64_t>(bytes.size());
    if (input_.rarely(16)) {
        count = input_.one_of(kWrongSizes);
        must_fail_ = true;
    }
    kael_tensor* made = untouched<kael_tensor>();
    const kael_status status =
        kael_tensor_from_bytes(dtype, input_.rarely(32) ? nullptr : shape.values.data(), shape.rank,
                               bytes.data(), count, out(made));
    take(status, made);
}

void Session::tensor_from_memory() {
    const kael_dtype dtype = this->dtype();
    const Sizes shape = sizes();
    Sizes strides = sizes();
    const bool read_only = input_.rarely(2);
    double* const memory = read_only ? read_only_memory_ : memory_;
    const std::size_t skipped = input_.rarely(4) ? input_.below(8) : 0;
    std::byte* const data = reinterpret_cast<std::byte*>(memory) + skipped;
    std::int64_t count = static_cast<std::int64_t>(sizeof(memory_) - skipped);
    if (input_.rarely(16)) {
        count = input_.rarely(2) ? -1 : static_cast<std::int64_t>(input_.below(64 - skipped));
    }
    kael_tensor* made = untouched<kael_tensor>();
    const bool has_release = !input_.rarely(32);
    must_fail_ = !has_release;
    const kael_status status =
        kael_tensor_from_memory(dtype, shape.values.data(), strides.values.data(), shape.rank,
                                input_.rarely(32) ? nullptr : data, count, read_only ? 1 : 0,
                                has_release ? release : nullptr, this, out(made));
    promised_ += status == KAEL_OK ? 1 : 0;
    take(status, made);
}

void Session::describe() {
    struct {
        kael_tensor_info info;
        std::array<std::uint8_t, 64> beyond;
    } place = {};
    const std::int64_t own = sizeof(place.info);
    place.info.struct_size = input_.one_of<std::int64_t>({own, own + 1, own + 64, own - 1, 0, -1});
    must_fail_ = place.info.struct_size < own;
    place.beyond.fill(7);
    const kael_tensor* const tensor = one(tensors_);
    const bool described = succeeded(kael_tensor_describe(tensor, out(place.info)));
    require(std::ranges::all_of(place.beyond, [](std::uint8_t byte) { return byte == 7; }));
    require(described || place.info.rank == 0);
}

void Session::view() {
    const kael_tensor* const tensor = one(tensors_);
    const Sizes shape = sizes();
    kael_tensor* made = untouched<kael_tensor>();
    take(kael_tensor_view(tensor, shape.values.data(), shape.rank, out(made)), made);
}

// A gradient that was recorded and a leaf may hold each other; a leaf stays until finish() parts
// them.
void Session::free_tensor() {
    kael_tensor_free(nullptr);
    if (tensors_.empty()) {
        return;
    }
    const std::size_t place = input_.below(tensors_.size());
    std::uint8_t requires_grad = 0;
    std::uint8_t is_leaf = 0;
    require(succeeded(kael_tensor_gradient_state(tensors_[place], &requires_grad, &is_leaf)));
    if (requires_grad == 0) {
        require(succeeded(kael_tensor_set_grad(tensors_[place], nullptr)));
        kael_tensor_free(tensors_[place]);
        tensors_.erase(tensors_.begin() + static_cast<std::ptrdiff_t>(place));
    }
}

} // namespace kael::fuzz
