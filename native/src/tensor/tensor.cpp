#include "kael/tensor.h"

#include <cstring>

#include "kael/error.h"

#include "base/checked_arithmetic.h"
#include "tensor/layout.h"

namespace kael {

namespace {

// The offset of the last element, in elements; refuses strides that cannot be walked in 64 bits,
// also where a dimension of 0 leaves nothing to walk.
std::int64_t last_offset(const Shape& shape, const Shape& strides, std::int64_t offset) {
    KAEL_CHECK(strides.size() == shape.size(), strides.size()
                                                   << " strides for the shape " << to_string(shape)
                                                   << ", expected " << shape.size());
    KAEL_CHECK(offset >= 0, "the offset " << offset << " is negative");
    std::int64_t last = offset;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        KAEL_CHECK(strides[i] >= 0, "the strides " << to_string(strides) << " have a negative one");
        const std::int64_t dimension = std::max<std::int64_t>(shape[i], 1);
        const std::optional<std::int64_t> reach = try_multiply(dimension, strides[i]);
        const std::optional<std::int64_t> sum =
            reach.has_value() ? try_add(last, *reach - strides[i]) : std::nullopt;
        KAEL_CHECK(sum.has_value(), "the shape " << to_string(shape) << " with strides "
                                                 << to_string(strides)
                                                 << " reaches beyond 64 bits");
        last = *sum;
    }
    return last;
}

} // namespace

Tensor Tensor::empty(Shape shape, DType dtype) {
    Tensor tensor;
    const std::int64_t bytes = kael::byte_count(shape, dtype);
    tensor.storage_ = Storage::allocate(bytes);
    tensor.dtype_ = dtype;
    tensor.strides_ = contiguous_strides(shape);
    tensor.numel_ = bytes / item_size(dtype);
    tensor.shape_ = std::move(shape);
    return tensor;
}

Tensor Tensor::zeros(Shape shape, DType dtype) {
    Tensor tensor = empty(std::move(shape), dtype);
    std::memset(tensor.storage_->data(), 0, static_cast<std::size_t>(tensor.nbytes()));
    return tensor;
}

Tensor Tensor::from_bytes(const void* bytes, std::int64_t count, Shape shape, DType dtype) {
    const std::int64_t wanted = kael::byte_count(shape, dtype);
    KAEL_CHECK(count == wanted, count << " bytes for a " << name(dtype) << " tensor of shape "
                                      << to_string(shape) << ", expected " << wanted);
    KAEL_CHECK(bytes != nullptr || count == 0, count << " bytes at a null address");
    Tensor tensor = empty(std::move(shape), dtype);
    if (count > 0) {
        std::memcpy(tensor.storage_->data(), bytes, static_cast<std::size_t>(count));
    }
    return tensor;
}

Tensor Tensor::from_storage(std::shared_ptr<Storage> storage, DType dtype, Shape shape,
                            Shape strides, std::int64_t offset) {
    KAEL_CHECK(storage != nullptr, "a tensor without storage");
    const std::int64_t item = item_size(dtype);
    const std::int64_t numel = kael::byte_count(shape, dtype) / item;
    const std::int64_t last = last_offset(shape, strides, offset);
    // An empty tensor may point at the end of its storage, not beyond.
    const std::int64_t room = storage->byte_count() / item;
    KAEL_CHECK(numel == 0 ? offset <= room : last < room,
               "a " << name(dtype) << " tensor of shape " << to_string(shape) << ", strides "
                    << to_string(strides) << " and offset " << offset << " reaches element "
                    << (numel == 0 ? offset : last) << " of a storage with room for " << room);
    const auto address = reinterpret_cast<std::uintptr_t>(storage->data());
    KAEL_CHECK(numel == 0 || address % static_cast<std::uintptr_t>(item) == 0,
               "a " << name(dtype) << " tensor on memory that is not aligned to " << item
                    << " bytes");
    Tensor tensor;
    tensor.storage_ = std::move(storage);
    tensor.dtype_ = dtype;
    tensor.shape_ = std::move(shape);
    tensor.strides_ = std::move(strides);
    tensor.offset_ = offset;
    tensor.numel_ = numel;
    return tensor;
}

std::int64_t Tensor::size(int dimension) const {
    return shape_[static_cast<std::size_t>(wrap_dimension(dimension))];
}

bool Tensor::is_contiguous() const noexcept {
    if (numel_ == 0) {
        return true;
    }
    std::int64_t expected = 1;
    for (std::size_t i = shape_.size(); i-- > 0;) {
        if (shape_[i] != 1 && strides_[i] != expected) {
            return false;
        }
        expected *= shape_[i];
    }
    return true;
}

const std::byte* Tensor::data_ptr_raw() const noexcept {
    return defined() ? storage_->data() + offset_ * item_size(dtype_) : nullptr;
}

Tensor Tensor::contiguous() const {
    return is_contiguous() ? *this : clone();
}

Tensor Tensor::clone() const {
    KAEL_CHECK(defined(), "an undefined tensor");
    Tensor copy = empty(shape_, dtype_);
    copy_strided(data_ptr_raw(), shape_, strides_, item_size(dtype_), copy.storage_->data());
    return copy;
}

void Tensor::check_type(bool matches) const {
    KAEL_CHECK(defined(), "an undefined tensor");
    KAEL_CHECK(matches, "a " << name(dtype_) << " tensor read as another type");
}

void Tensor::check_writable() const {
    KAEL_CHECK(!storage_->is_read_only(),
               "the tensor's memory is read-only: "
                   << (storage_->origin().empty() ? "borrowed" : storage_->origin()));
}

} // namespace kael
