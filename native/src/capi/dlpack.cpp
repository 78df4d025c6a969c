// Tensors shared with other libraries by DLPack, and the capsules of Python that carry them.
#include "kael/dlpack.h"

#include <atomic>

#include "capi/guard.h"
#include "capi/handles.h"

namespace {

namespace dlpack = kael::dlpack;

// Of the interpreter that has loaded this library.
std::atomic<kael_capsule_is_valid> capsule_is_valid = nullptr;
std::atomic<kael_capsule_pointer> capsule_pointer = nullptr;

template <typename Managed>
void give_back(Managed* managed) {
    if (managed != nullptr && managed->deleter != nullptr) {
        managed->deleter(managed);
    }
}

} // namespace

extern "C" {

kael_status kael_tensor_to_dlpack(const kael_tensor* tensor, uint8_t versioned, uint8_t is_copied,
                                  void** managed) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(tensor);
        KAEL_REQUIRE(managed);
        if (versioned != 0) {
            *managed = dlpack::share_versioned(tensor->tensor, is_copied != 0);
        } else {
            *managed = dlpack::share(tensor->tensor);
        }
    });
}

kael_status kael_tensor_from_dlpack(void* managed, uint8_t versioned, kael_tensor** tensor) {
    return kael::capi::guard([&] {
        const kael::Tensor adopted =
            versioned != 0 ? dlpack::adopt(static_cast<dlpack::ManagedVersioned*>(managed))
                           : dlpack::adopt(static_cast<dlpack::Managed*>(managed));
        KAEL_REQUIRE(tensor);
        *tensor = new kael_tensor{adopted};
    });
}

void kael_dlpack_set_capsule_functions(kael_capsule_is_valid is_valid,
                                       kael_capsule_pointer pointer) {
    capsule_is_valid = is_valid;
    capsule_pointer = pointer;
}

void kael_dlpack_end_capsule(void* capsule) {
    const kael_capsule_is_valid is_valid = capsule_is_valid;
    const kael_capsule_pointer pointer = capsule_pointer;
    if (is_valid == nullptr || pointer == nullptr) {
        return;
    }
    // Who consumes a capsule gives it another name.
    if (is_valid(capsule, "dltensor_versioned") != 0) {
        give_back(static_cast<dlpack::ManagedVersioned*>(pointer(capsule, "dltensor_versioned")));
    } else if (is_valid(capsule, "dltensor") != 0) {
        give_back(static_cast<dlpack::Managed*>(pointer(capsule, "dltensor")));
    }
}
}
