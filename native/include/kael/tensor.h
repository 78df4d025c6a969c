// Tensors: a shared handle to storage, with dtype, shape, strides and offset. Views share storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kael/dtype.h"

namespace kael {

inline constexpr int kMaxRank = 16;

using Shape = std::vector<std::int64_t>;

// "[2, 3]"
[[nodiscard]] std::string to_string(const Shape& shape);

// Products of dimensions in checked arithmetic. A negative dimension, a rank above kMaxRank, or a
// product beyond 63 bits throws, also when a dimension is 0: the product of the others must fit, so
// that the strides of every shape do.
[[nodiscard]] std::int64_t element_count(const Shape& shape);
[[nodiscard]] std::int64_t byte_count(const Shape& shape, DType dtype);

// Row-major strides in elements. A dimension of 0 counts as 1.
[[nodiscard]] Shape contiguous_strides(const Shape& shape);

namespace autograd {
class Node;
struct State; // what autograd keeps of a tensor
} // namespace autograd

// A place in the list of the tensors on one storage.
struct StorageLink {
    StorageLink* previous = this;
    StorageLink* next = this;
};

// A block of bytes that tensors share. Freed with its last tensor.
class Storage {
public:
    // The file that borrowed memory is a part of.
    struct File {
        std::string path;
        std::int64_t offset; // in bytes, of the first byte of the storage
    };
    // How a tensor reads the storage.
    struct View {
        DType dtype;
        Shape shape;
        Shape strides;
        std::int64_t offset;
    };

    // Uninitialised memory of the caching allocator, aligned to 64 bytes.
    [[nodiscard]] static std::shared_ptr<Storage> allocate(std::int64_t bytes);
    // Memory that someone else owns and `owner` keeps alive. `origin` says where it came from, for
    // people: "mapped from model.safetensors at byte 8192"; `file` is the mapped file, if any.
    [[nodiscard]] static std::shared_ptr<Storage> borrow(std::byte* data, std::int64_t bytes,
                                                         std::shared_ptr<const void> owner,
                                                         bool read_only, std::string origin,
                                                         std::optional<File> file = {});

    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;
    ~Storage();

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::int64_t byte_count() const noexcept { return byte_count_; }
    [[nodiscard]] bool is_read_only() const noexcept { return read_only_; }
    [[nodiscard]] const std::string& origin() const noexcept { return origin_; }
    [[nodiscard]] const std::optional<File>& file() const noexcept { return file_; }
    // Whether the memory is the allocator's; else it is borrowed.
    [[nodiscard]] bool is_own() const noexcept { return is_own_; }

    // Every tensor on the storage now, those that a graph saved included, in the order of their
    // making. Any thread, also while others make and drop tensors.
    [[nodiscard]] std::vector<View> views() const;

    // Moves read-only memory to memory of its own that may be written; every tensor on the storage
    // follows. What had the old address still reads the old memory. Nobody may use the storage
    // meanwhile.
    void make_writable();
    // Each of them, or none where there is no memory for all.
    static void make_writable(std::span<Storage* const> storages);

    // Counts in-place writes; every view of the storage sees the same count.
    [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
    void bump_version() noexcept { ++version_; }
    // The operator of the last such write that said its name; empty before one has.
    [[nodiscard]] std::string_view last_writer() const noexcept { return last_writer_; }
    // `name` must live as long as the process.
    void set_last_writer(std::string_view name) noexcept { last_writer_ = name; }

private:
    friend class Tensor;
    Storage() = default;

    std::byte* data_ = nullptr;
    std::int64_t byte_count_ = 0;
    bool read_only_ = false;
    std::uint64_t version_ = 0;
    std::string_view last_writer_;
    std::string origin_;
    std::optional<File> file_;
    StorageLink tensors_;               // both ends of the list of tensors
    bool is_own_ = true;                // from the allocator
    std::shared_ptr<const void> owner_; // of memory that is, or was, borrowed
};

// Copying a Tensor copies the handle: both are the same tensor. A default-constructed Tensor is
// undefined: only defined() may be asked.
class Tensor {
public:
    Tensor() = default;

    [[nodiscard]] static Tensor empty(Shape shape, DType dtype);
    [[nodiscard]] static Tensor zeros(Shape shape, DType dtype);
    // Copies row-major bytes; there must be exactly as many as shape and dtype need.
    [[nodiscard]] static Tensor from_bytes(const void* bytes, std::int64_t count, Shape shape,
                                           DType dtype);
    // A view of existing storage; every element must lie inside it and be aligned for `dtype`, no
    // stride may be negative. Several elements may share memory. An empty tensor has the strides
    // of contiguous_strides, whatever is given.
    [[nodiscard]] static Tensor from_storage(std::shared_ptr<Storage> storage, DType dtype,
                                             Shape shape, Shape strides, std::int64_t offset);

    // The same without a check, for a place that was derived from a valid view by steps that cannot
    // leave it.
    [[nodiscard]] static Tensor from_derived(std::shared_ptr<Storage> storage, DType dtype,
                                             Shape shape, Shape strides, std::int64_t offset);

    [[nodiscard]] bool defined() const noexcept { return body_->storage != nullptr; }
    [[nodiscard]] DType dtype() const noexcept { return body_->dtype; }
    [[nodiscard]] const Shape& shape() const noexcept { return body_->shape; }
    [[nodiscard]] const Shape& strides() const noexcept { return body_->strides; } // in elements
    [[nodiscard]] std::int64_t offset() const noexcept { return body_->offset; }   // in elements
    [[nodiscard]] int rank() const noexcept { return static_cast<int>(shape().size()); }
    // Negative dimensions count from the end.
    [[nodiscard]] std::int64_t size(int dimension) const;
    [[nodiscard]] std::int64_t numel() const noexcept { return body_->numel; }
    [[nodiscard]] std::int64_t nbytes() const noexcept { return numel() * item_size(dtype()); }
    [[nodiscard]] bool is_contiguous() const noexcept;
    [[nodiscard]] const std::shared_ptr<Storage>& storage() const noexcept {
        return body_->storage;
    }

    // The first element. `T` must be a C++ type of dtype(), as is_element_type says. `data` of a
    // tensor on read-only storage may be read only; `mutable_data` refuses it.
    template <typename T>
    [[nodiscard]] const T* data() const {
        check_type(defined() && is_element_type<T>(dtype()));
        return reinterpret_cast<const T*>(data_ptr_raw());
    }
    template <typename T>
    [[nodiscard]] T* mutable_data() {
        check_type(defined() && is_element_type<T>(dtype()));
        check_writable();
        return reinterpret_cast<T*>(storage()->data() + offset() * item_size(dtype()));
    }
    // Null for an undefined tensor.
    [[nodiscard]] const std::byte* data_ptr_raw() const noexcept;

    // Gradients: kael/autograd.h. A leaf is what no recorded operator made.
    [[nodiscard]] bool requires_grad() const;
    Tensor& set_requires_grad(bool wanted); // floats only
    [[nodiscard]] bool is_leaf() const;
    [[nodiscard]] std::shared_ptr<autograd::Node> grad_fn() const; // null for a leaf
    [[nodiscard]] Tensor grad() const;                             // undefined before backward()
    void set_grad(const Tensor& gradient);                         // undefined clears it
    // The same memory without a graph; in-place writes are seen on both sides.
    [[nodiscard]] Tensor detach() const;
    // Adds to the grad() of every leaf that this tensor, of one element, was computed from.
    void backward() const;

    // Views: the same storage, no copy. Negative dimensions count from the end; slice clamps like
    // Python.
    [[nodiscard]] Tensor transpose(int first, int second) const;
    [[nodiscard]] Tensor permute(const std::vector<int>& dimensions) const;
    [[nodiscard]] Tensor slice(int dimension, std::int64_t start, std::int64_t end,
                               std::int64_t step = 1) const;
    [[nodiscard]] Tensor select(int dimension, std::int64_t index) const;
    [[nodiscard]] Tensor unsqueeze(int dimension) const;
    [[nodiscard]] Tensor squeeze(int dimension) const;
    [[nodiscard]] Tensor expand(const Shape& shape) const;
    // One dimension may be -1. view refuses a layout that would need a copy; reshape copies then.
    [[nodiscard]] Tensor view(const Shape& shape) const;
    [[nodiscard]] Tensor reshape(const Shape& shape) const;

    // Copies.
    [[nodiscard]] Tensor contiguous() const; // itself when it is contiguous already
    [[nodiscard]] Tensor clone() const;      // contiguous, own storage
    // Itself when the dtype is the same. Rounds to nearest even; NaN stays NaN; float to integer as
    // docs/tensors.md says.
    [[nodiscard]] Tensor to(DType dtype) const;

    // Whether nobody else has a handle of this tensor or a view of its memory, all of which it is.
    [[nodiscard]] bool is_sole_owner() const noexcept;
    // Whether both are handles of one tensor.
    [[nodiscard]] bool is_same(const Tensor& other) const noexcept { return body_ == other.body_; }
    // For autograd. Null before it has anything to keep.
    [[nodiscard]] const std::shared_ptr<autograd::State>& autograd_state() const noexcept {
        return body_->autograd;
    }
    void set_autograd_state(std::shared_ptr<autograd::State> state) const noexcept {
        body_->autograd = std::move(state);
    }

private:
    friend class Storage; // lists its tensors
    void check_type(bool matches) const;
    void check_writable() const;

    struct Body {
        std::shared_ptr<Storage> storage;
        DType dtype = DType::float32;
        Shape shape;
        Shape strides;
        std::int64_t offset = 0;
        std::int64_t numel = 0;
        mutable std::shared_ptr<autograd::State> autograd{};
    };
    struct ListedBody; // stands in the list of its storage
    explicit Tensor(Body body);
    static const Body kUndefined;

    // Never null; an undefined tensor owns nothing.
    std::shared_ptr<const Body> body_{std::shared_ptr<const Body>(), &kUndefined};
};

// Ordered by insertion, as in a file; names are unique.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

} // namespace kael
