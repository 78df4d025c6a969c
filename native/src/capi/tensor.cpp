// Tensors: made from bytes or on foreign memory, described, viewed, freed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/structs.h"

namespace {

// sizeof kael_tensor_info in the first version of the interface.
constexpr std::size_t kSmallestTensorInfo = sizeof(kael_tensor_info);

kael::Shape shape_of(const int64_t* shape, int32_t rank) {
    KAEL_CHECK(rank >= 0 && rank <= kael::kMaxRank,
               "the rank is " << rank << ", expected 0 to " << kael::kMaxRank);
    KAEL_CHECK(shape != nullptr || rank == 0, "the argument shape is null");
    return rank == 0 ? kael::Shape{} : kael::Shape(shape, shape + rank);
}

// Calls `release` when the last storage on it is gone, once the tensor was made.
struct Borrowed {
    kael_release_callback release;
    void* user_data;
    bool armed = false;

    Borrowed(kael_release_callback callback, void* data) : release(callback), user_data(data) {}
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() {
        if (armed) {
            release(user_data);
        }
    }
};

kael_tensor_info describe(const kael::Tensor& tensor) {
    static_assert(kael::kMaxRank == KAEL_MAX_RANK);
    kael_tensor_info info = {};
    info.dtype = static_cast<kael_dtype>(tensor.dtype());
    info.rank = tensor.rank();
    std::copy(tensor.shape().begin(), tensor.shape().end(), info.shape);
    std::copy(tensor.strides().begin(), tensor.strides().end(), info.strides);
    info.offset = tensor.offset();
    info.element_count = tensor.numel();
    info.byte_count = tensor.nbytes();
    info.data = tensor.numel() == 0 ? nullptr : const_cast<std::byte*>(tensor.data_ptr_raw());
    info.is_contiguous = tensor.is_contiguous() ? 1 : 0;
    info.is_read_only = tensor.storage()->is_read_only() ? 1 : 0;
    return info;
}

} // namespace

extern "C" {

kael_status kael_tensor_from_bytes(kael_dtype dtype, const int64_t* shape, int32_t rank,
                                   const void* bytes, int64_t byte_count, kael_tensor** tensor) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        *tensor = new kael_tensor{kael::Tensor::from_bytes(bytes, byte_count, shape_of(shape, rank),
                                                           static_cast<kael::DType>(dtype))};
    });
}

kael_status kael_tensor_from_memory(kael_dtype dtype, const int64_t* shape, const int64_t* strides,
                                    int32_t rank, void* data, int64_t byte_count, uint8_t read_only,
                                    kael_release_callback release, void* user_data,
                                    kael_tensor** tensor) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(release);
        KAEL_REQUIRE(tensor);
        KAEL_CHECK(strides != nullptr || rank == 0, "the argument strides is null");
        const auto owner = std::make_shared<Borrowed>(release, user_data);
        auto storage = kael::Storage::borrow(static_cast<std::byte*>(data), byte_count, owner,
                                             read_only != 0, "borrowed from the caller");
        auto made = std::make_unique<kael_tensor>(kael_tensor{
            kael::Tensor::from_storage(std::move(storage), static_cast<kael::DType>(dtype),
                                       shape_of(shape, rank), shape_of(strides, rank), 0)});
        owner->armed = true; // from here on nothing fails
        *tensor = made.release();
    });
}

kael_status kael_tensor_describe(const kael_tensor* tensor, kael_tensor_info* info) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        kael::capi::write_struct(describe(tensor->tensor), kSmallestTensorInfo, info, "info");
    });
}

kael_status kael_tensor_view(const kael_tensor* tensor, const int64_t* shape, int32_t rank,
                             kael_tensor** view) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        KAEL_REQUIRE(view);
        *view = new kael_tensor{tensor->tensor.view(shape_of(shape, rank))};
    });
}

void kael_tensor_free(kael_tensor* tensor) {
    delete tensor;
}
}
