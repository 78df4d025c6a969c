#include "kael/tensor.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <pthread.h>

#include "kael/error.h"

#include "base/checked_arithmetic.h"
#include "tensor/defined.h"
#include "tensor/forward_views.h"
#include "tensor/layout.h"

namespace kael {

namespace {

// Guards the lists of tensors of all storages: held for a few instructions.
std::mutex& list_mutex() {
    static auto* const mutex = new std::mutex; // outlives every tensor
    return *mutex;
}

void lock_lists() {
    list_mutex().lock();
}
void unlock_lists() {
    list_mutex().unlock();
}
// So that no child inherits it locked by a thread that it lacks.
[[maybe_unused]] const int kForkHandlers = pthread_atfork(lock_lists, unlock_lists, unlock_lists);

// The offset of the last element, in elements; nothing when that does not fit in 64 bits.
std::optional<std::int64_t> last_offset(const Shape& shape, const Shape& strides,
                                        std::int64_t offset) {
    std::optional<std::int64_t> last = offset;
    for (std::size_t i = 0; i < shape.size() && last.has_value(); ++i) {
        const std::optional<std::int64_t> reach = try_multiply(shape[i] - 1, strides[i]);
        last = reach.has_value() ? try_add(*last, *reach) : std::nullopt;
    }
    return last;
}

} // namespace

const Tensor::Body Tensor::kUndefined;

struct Tensor::ListedBody : Body, StorageLink {
    explicit ListedBody(Body&& body) : Body(std::move(body)) {
        StorageLink& ends = storage->tensors_;
        const std::lock_guard lock(list_mutex());
        next = &ends;
        previous = ends.previous;
        previous->next = this;
        ends.previous = this;
    }
    ListedBody(const ListedBody&) = delete;
    ListedBody& operator=(const ListedBody&) = delete;
    ~ListedBody() {
        const std::lock_guard lock(list_mutex());
        previous->next = next;
        next->previous = previous;
    }
};

Tensor::Tensor(Body body) : body_(std::make_shared<ListedBody>(std::move(body))) {}

std::vector<Storage::View> Storage::views() const {
    std::vector<View> views;
    const std::lock_guard lock(list_mutex());
    for (const StorageLink* link = tensors_.next; link != &tensors_; link = link->next) {
        const auto& body = static_cast<const Tensor::ListedBody&>(*link);
        views.push_back({body.dtype, body.shape, body.strides, body.offset});
    }
    return views;
}

Tensor Tensor::empty(Shape shape, DType dtype) {
    const std::int64_t bytes = kael::byte_count(shape, dtype);
    Shape strides = contiguous_strides(shape);
    return Tensor(Body{.storage = Storage::allocate(bytes),
                       .dtype = dtype,
                       .shape = std::move(shape),
                       .strides = std::move(strides),
                       .offset = 0,
                       .numel = bytes / item_size(dtype)});
}

Tensor Tensor::zeros(Shape shape, DType dtype) {
    Tensor tensor = empty(std::move(shape), dtype);
    std::memset(tensor.storage()->data(), 0, static_cast<std::size_t>(tensor.nbytes()));
    return tensor;
}

Tensor Tensor::from_bytes(const void* bytes, std::int64_t count, Shape shape, DType dtype) {
    const std::int64_t wanted = kael::byte_count(shape, dtype);
    KAEL_CHECK(count == wanted, count << " bytes for shape " << to_string(shape) << " and dtype "
                                      << name(dtype) << ", expected " << wanted);
    KAEL_CHECK(bytes != nullptr || count == 0,
               count << " bytes at a null address, expected where they are");
    Tensor tensor = empty(std::move(shape), dtype);
    if (count > 0) {
        std::memcpy(tensor.storage()->data(), bytes, static_cast<std::size_t>(count));
    }
    return tensor;
}

Tensor Tensor::from_storage(std::shared_ptr<Storage> storage, DType dtype, Shape shape,
                            Shape strides, std::int64_t offset) {
    KAEL_CHECK(storage != nullptr, "a tensor without storage, expected one");
    KAEL_CHECK(strides.size() == shape.size(), strides.size()
                                                   << " strides for the shape " << to_string(shape)
                                                   << ", expected " << shape.size());
    const bool forwards =
        offset >= 0 && std::all_of(strides.begin(), strides.end(), [](auto s) { return s >= 0; });
    KAEL_CHECK(forwards, "the strides " << to_string(strides) << " with offset " << offset
                                        << " have a negative one, expected 0 or more");
    const std::int64_t item = item_size(dtype);
    const std::int64_t numel = kael::byte_count(shape, dtype) / item;
    const std::int64_t room = storage->byte_count() / item;
    if (numel == 0) {
        strides = contiguous_strides(shape);
        KAEL_CHECK(offset <= room, "an empty tensor of dtype "
                                       << name(dtype) << " at element " << offset
                                       << " of its storage, expected 0 to " << room);
    } else {
        const std::optional<std::int64_t> last = last_offset(shape, strides, offset);
        KAEL_CHECK(last.has_value() && *last < room,
                   "a tensor of dtype "
                       << name(dtype) << ", shape " << to_string(shape) << ", strides "
                       << to_string(strides) << " and offset " << offset
                       << " leaves its storage, expected to stay within its " << room
                       << " elements");
        // A stride that is never walked may be anything: bounded, no later product overflows.
        std::transform(strides.begin(), strides.end(), strides.begin(),
                       [room](std::int64_t stride) { return std::min(stride, room); });
        const auto address = reinterpret_cast<std::uintptr_t>(storage->data());
        KAEL_CHECK(
            address % static_cast<std::uintptr_t>(item) == 0,
            "a tensor of dtype "
                << name(dtype)
                << " on memory that is not aligned, expected an address that is a multiple of "
                << item);
    }
    return Tensor(Body{.storage = std::move(storage),
                       .dtype = dtype,
                       .shape = std::move(shape),
                       .strides = std::move(strides),
                       .offset = offset,
                       .numel = numel});
}

Tensor Tensor::from_derived(std::shared_ptr<Storage> storage, DType dtype, Shape shape,
                            Shape strides, std::int64_t offset) {
    const std::int64_t count = element_count(shape);
    return Tensor(Body{.storage = std::move(storage),
                       .dtype = dtype,
                       .shape = std::move(shape),
                       .strides = std::move(strides),
                       .offset = offset,
                       .numel = count});
}

std::int64_t Tensor::size(int dimension) const {
    return body_->shape[static_cast<std::size_t>(existing_dimension(*this, dimension, "size"))];
}

bool Tensor::is_sole_owner() const noexcept {
    return body_.use_count() == 1 && storage().use_count() == 1 && is_contiguous() &&
           nbytes() == storage()->byte_count();
}

bool Tensor::is_contiguous() const noexcept {
    if (body_->numel == 0) {
        return true;
    }
    std::int64_t expected = 1;
    for (std::size_t i = body_->shape.size(); i-- > 0;) {
        if (body_->shape[i] != 1 && body_->strides[i] != expected) {
            return false;
        }
        expected *= body_->shape[i];
    }
    return true;
}

const std::byte* Tensor::data_ptr_raw() const noexcept {
    return defined() ? body_->storage->data() + body_->offset * item_size(body_->dtype) : nullptr;
}

void check_defined(const Tensor& x, std::string_view name) {
    KAEL_CHECK(x.defined(), name << ": an undefined tensor, expected a defined one");
}

Tensor forward::clone(const Tensor& x) {
    check_defined(x, "clone");
    const Tensor copy = Tensor::empty(x.shape(), x.dtype());
    copy_strided(x.data_ptr_raw(), x.shape(), x.strides(), item_size(x.dtype()),
                 copy.storage()->data());
    return copy;
}

void Tensor::check_type(bool matches) const {
    check_defined(*this, "data");
    KAEL_CHECK(matches, "a tensor of dtype " << name(body_->dtype)
                                             << " read as another type, expected its own");
}

void Tensor::check_writable() const {
    KAEL_CHECK(!body_->storage->is_read_only(),
               "the tensor's memory is read-only ("
                   << (body_->storage->origin().empty() ? "borrowed" : body_->storage->origin())
                   << "), expected memory that may be written: write into a clone");
}

} // namespace kael
