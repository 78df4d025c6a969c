#include <algorithm>
#include <memory>
#include <vector>

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
    Storage* const self = this;
    make_writable({&self, 1});
}

void Storage::make_writable(std::span<Storage* const> storages) {
    struct Release {
        std::int64_t bytes;
        void operator()(std::byte* block) const { process_allocator().release(block, bytes); }
    };
    using Block = std::unique_ptr<std::byte, Release>;
    std::vector<Block> copies;
    copies.reserve(storages.size());
    for (const Storage* storage : storages) {
        const std::int64_t bytes = storage->byte_count_;
        copies.emplace_back(storage->read_only_ ? process_allocator().allocate(bytes) : nullptr,
                            Release{bytes});
    }
    for (std::size_t i = 0; i < storages.size(); ++i) { // from here on nothing fails
        Storage& storage = *storages[i];
        if (!storage.read_only_) { // also one that was moved a moment ago
            continue;
        }
        std::copy_n(storage.data_, storage.byte_count_, copies[i].get());
        storage.data_ = copies[i].release();
        storage.is_own_ = true;
        storage.read_only_ = false;
        storage.origin_.clear();
        storage.file_.reset();
    }
}

Storage::~Storage() {
    if (is_own_ && data_ != nullptr) {
        process_allocator().release(data_, byte_count_);
    }
}

} // namespace kael
