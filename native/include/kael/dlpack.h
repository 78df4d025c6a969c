// Tensors that other libraries share without a copy, by the DLPack protocol
// (https://dmlc.github.io/dlpack, version 1): its structs, and what makes tensors of them.
#pragma once

#include <cstdint>

#include "kael/tensor.h"

namespace kael::dlpack {

// The layouts are the protocol's.
struct Device {
    std::int32_t type;
    std::int32_t id;
};
inline constexpr std::int32_t kCpu = 1;

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct View {
    void* data;
    Device device;
    std::int32_t rank;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides; // in elements; may be null for row-major elements without gaps
    std::uint64_t byte_offset;
};

// A view, and how to give it back: by one call of `deleter`, on any thread. Null when nothing has
// to be given back.
struct Managed { // before version 1
    View view;
    void* context;
    void (*deleter)(Managed* self);
};

struct Version {
    std::uint32_t major;
    std::uint32_t minor;
};
// The oldest with all that is used here.
inline constexpr Version kVersion = {1, 0};

struct ManagedVersioned {
    Version version;
    void* context;
    void (*deleter)(ManagedVersioned* self);
    std::uint64_t flags;
    View view;
};
inline constexpr std::uint64_t kReadOnly = 1;
inline constexpr std::uint64_t kCopied = 2; // nobody else sees the memory

// The memory of the tensor, which stays until the deleter is called. Before version 1 nothing can
// say that it is read-only: such a tensor is an error.
[[nodiscard]] Managed* share(const Tensor& tensor);
[[nodiscard]] ManagedVersioned* share_versioned(const Tensor& tensor, bool is_copied);

// A tensor on that memory, which is given back when no tensor uses it any more, or before the error
// is thrown. Refused are another major version, device, a dtype that tensors do not have, vectors
// as elements, negative strides and an address that is not aligned for the dtype.
[[nodiscard]] Tensor adopt(Managed* managed);
[[nodiscard]] Tensor adopt(ManagedVersioned* managed);

} // namespace kael::dlpack
