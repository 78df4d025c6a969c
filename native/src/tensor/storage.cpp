#include <algorithm>

#include "kael/error.h"
#include "kael/tensor.h"

#include "base/allocator.h"

namespace kael {

std::shared_ptr<Storage> Storage::allocate(std::int64_t bytes) {
    const std::shared_ptr<Storage> storage(new Storage);
    storage->data_ = process_allocator().allocate(bytes);
    storage->byte_count_ = bytes;
    return storage;
}

std::shared_ptr<Storage> Storage::borrow(std::byte* data, std::int64_t bytes,
                                         std::shared_ptr<const void> owner, bool read_only,
                                         std::string origin, std::optional<File> file) {
    KAEL_CHECK(bytes >= 0, "borrow: a storage of " << bytes << " bytes, expected 0 or more");
    KAEL_CHECK(data != nullptr || bytes == 0,
               "borrow: a storage of " << bytes << " bytes without memory, expected its address");
    KAEL_CHECK(owner != nullptr,
               "borrow: memory without an owner, expected one that keeps it alive");
    const std::shared_ptr<Storage> storage(new Storage);
    storage->data_ = data;
    storage->byte_count_ = bytes;
    storage->read_only_ = read_only;
    storage->is_own_ = false;
    storage->origin_ = std::move(origin);
    storage->file_ = std::move(file);
    storage->owner_ = std::move(owner);
    return storage;
}

void Storage::make_writable() {
    if (!read_only_) {
        return;
    }
    std::byte* const own = process_allocator().allocate(byte_count_);
    std::copy_n(data_, byte_count_, own);
    data_ = own;
    is_own_ = true;
    read_only_ = false;
    origin_.clear();
    file_.reset();
}

Storage::~Storage() {
    if (is_own_ && data_ != nullptr) {
        process_allocator().release(data_, byte_count_);
    }
}

} // namespace kael
