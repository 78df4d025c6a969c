#include "kael/dlpack.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "kael/error.h"

#include "base/checked_arithmetic.h"
#include "tensor/defined.h"

namespace kael::dlpack {

namespace {

// Kinds of elements.
constexpr std::uint8_t kInt = 0;
constexpr std::uint8_t kUnsigned = 1;
constexpr std::uint8_t kFloat = 2;
constexpr std::uint8_t kBfloat = 4;
constexpr std::uint8_t kBool = 6;

constexpr DType kDTypes[] = {DType::float32,  DType::float64, DType::float16,
                             DType::bfloat16, DType::int64,   DType::int32,
                             DType::int8,     DType::uint8,   DType::boolean};

DataType data_type(DType dtype) {
    std::uint8_t code = kInt;
    if (dtype == DType::bfloat16) {
        code = kBfloat;
    } else if (is_floating_point(dtype)) {
        code = kFloat;
    } else if (dtype == DType::uint8) {
        code = kUnsigned;
    } else if (dtype == DType::boolean) {
        code = kBool;
    }
    return {code, static_cast<std::uint8_t>(8 * item_size(dtype)), 1};
}

DType dtype_of(const DataType& type) {
    for (const DType dtype : kDTypes) {
        const DataType known = data_type(dtype);
        if (known.code == type.code && known.bits == type.bits && known.lanes == type.lanes) {
            return dtype;
        }
    }
    std::string known;
    for (const DType dtype : kDTypes) {
        known += (known.empty() ? "" : ", ") + std::string(name(dtype));
    }
    KAEL_CHECK(false, "from_dlpack: elements of type code "
                          << int{type.code} << " with " << int{type.bits} << " bits and "
                          << type.lanes << " lanes, expected one lane of one of " << known);
    __builtin_unreachable();
}

// A tensor that others use, with what they see of it.
template <typename M>
struct Shared {
    M managed{};
    Tensor tensor;
    Shape shape;
    Shape strides;

    explicit Shared(const Tensor& shared)
        : tensor(shared), shape(shared.shape()), strides(shared.strides()) {
        managed.context = this;
        managed.deleter = [](M* self) { delete static_cast<Shared*>(self->context); };
        // An empty tensor has no memory to point to.
        std::byte* const first =
            shared.storage()->data() + shared.offset() * item_size(shared.dtype());
        managed.view = {shared.numel() == 0 ? nullptr : first,
                        {kCpu, 0},
                        shared.rank(),
                        data_type(shared.dtype()),
                        shape.data(),
                        strides.data(),
                        0};
    }
};

// Gives the memory back with the last tensor on it.
template <typename M>
std::shared_ptr<M> owner_of(M* managed) {
    KAEL_CHECK(managed != nullptr, "from_dlpack: no tensor, expected one");
    return {managed, [](M* own) {
                if (own->deleter != nullptr) {
                    own->deleter(own);
                }
            }};
}

// Strides of dimensions that no step is taken in mean nothing, and may be anything.
Shape strides_of(const View& view, const Shape& shape) {
    Shape strides = contiguous_strides(shape);
    const bool is_empty = element_count(shape) == 0;
    for (std::size_t i = 0; view.strides != nullptr && !is_empty && i < shape.size(); ++i) {
        if (shape[i] > 1) {
            strides[i] = view.strides[i];
            KAEL_CHECK(strides[i] >= 0, "from_dlpack: the stride "
                                            << strides[i] << " in dimension " << i
                                            << ", expected 0 or more: share a copy");
        }
    }
    return strides;
}

// The bytes from the first element to behind the last one.
std::int64_t extent(const Shape& shape, const Shape& strides, DType dtype) {
    constexpr const char* kWhat = "from_dlpack: the bytes of the tensor";
    if (element_count(shape) == 0) {
        return 0;
    }
    std::int64_t last = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        last = checked_add(last, checked_multiply(shape[i] - 1, strides[i], kWhat), kWhat);
    }
    return checked_multiply(checked_add(last, 1, kWhat), item_size(dtype), kWhat);
}

Tensor adopt_view(const View& view, std::shared_ptr<const void> owner, bool read_only) {
    KAEL_CHECK_AS(ErrorCode::unsupported, view.device.type == kCpu,
                  "from_dlpack: memory of a device of type " << view.device.type << ", expected "
                                                             << kCpu << ", the CPU");
    const DType dtype = dtype_of(view.dtype);
    KAEL_CHECK(view.rank >= 0 && view.rank <= kMaxRank,
               "from_dlpack: " << view.rank << " dimensions, expected 0 to " << kMaxRank);
    KAEL_CHECK(view.shape != nullptr || view.rank == 0,
               "from_dlpack: a tensor without a shape, expected the sizes of its "
                   << view.rank << " dimensions");
    const Shape shape(view.shape, view.shape + view.rank);
    const Shape strides = strides_of(view, shape);
    const std::int64_t bytes = extent(shape, strides, dtype);
    KAEL_CHECK(view.data != nullptr || bytes == 0,
               "from_dlpack: a tensor of shape " << to_string(shape) << " without memory, expected "
                                                 << bytes << " bytes");
    std::byte* const first =
        bytes == 0 ? nullptr : static_cast<std::byte*>(view.data) + view.byte_offset;
    return Tensor::from_storage(
        Storage::borrow(first, bytes, std::move(owner), read_only, "shared by DLPack"), dtype,
        shape, strides, 0);
}

} // namespace

Managed* share(const Tensor& tensor) {
    check_defined(tensor, "to_dlpack");
    KAEL_CHECK(!tensor.storage()->is_read_only(),
               "to_dlpack: the tensor's memory is read-only, which DLPack before version 1 cannot "
               "say, expected memory that may be written: share a copy");
    return &(new Shared<Managed>(tensor))->managed;
}

ManagedVersioned* share_versioned(const Tensor& tensor, bool is_copied) {
    check_defined(tensor, "to_dlpack");
    ManagedVersioned& managed = (new Shared<ManagedVersioned>(tensor))->managed;
    managed.version = kVersion;
    managed.flags = (tensor.storage()->is_read_only() ? kReadOnly : 0) | (is_copied ? kCopied : 0);
    return &managed;
}

Tensor adopt(Managed* managed) {
    const std::shared_ptr<Managed> owner = owner_of(managed);
    return adopt_view(owner->view, owner, false);
}

Tensor adopt(ManagedVersioned* managed) {
    const std::shared_ptr<ManagedVersioned> owner = owner_of(managed);
    // Of another major version nothing but the deleter is where it is known to be.
    KAEL_CHECK_AS(ErrorCode::unsupported, owner->version.major == kVersion.major,
                  "from_dlpack: version " << owner->version.major << '.' << owner->version.minor
                                          << " of DLPack, expected " << kVersion.major
                                          << ".0 or a later one of it");
    return adopt_view(owner->view, owner, (owner->flags & kReadOnly) != 0);
}

} // namespace kael::dlpack
