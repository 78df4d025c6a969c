#include "base/mapped_file.h"

#include <cerrno>
#include <cstdint>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

#include "kael/error.h"

#include "base/input_file.h"

namespace kael {

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const InputFile file(path);
    const auto size = static_cast<std::size_t>(file.size());
    const std::shared_ptr<MappedFile> mapping(new MappedFile);
    if (size > 0) { // mmap refuses an empty range
        void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
        KAEL_CHECK_AS(ErrorCode::io_error, address != MAP_FAILED,
                      "cannot map " << path.string() << " (" << size
                                    << " bytes): " << std::generic_category().message(errno));
#if defined(__linux__)
        // A hint: file systems with large folios then read a cold file, and map it, 2 MiB at a
        // time, and weights are read with fewer misses of the TLB. Elsewhere it changes nothing.
        ::madvise(address, size, MADV_HUGEPAGE);
#endif
        mapping->data_ = static_cast<const std::byte*>(address);
        mapping->size_ = size;
    }
    return mapping;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
        ::munmap(const_cast<std::byte*>(data_), size_);
    }
}

void release_pages(std::span<const std::byte> mapped) noexcept {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
    // The whole pages inside.
    const std::uintptr_t skipped = (page - begin % page) % page;
    if (skipped + page <= mapped.size()) {
        const std::uintptr_t size = (mapped.size() - skipped) / page * page;
        ::madvise(const_cast<std::byte*>(mapped.data() + skipped), size, MADV_DONTNEED);
    }
}

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
    const InputFile file(path);
    KAEL_CHECK_AS(ErrorCode::invalid_file, file.size() <= limit,
                  path.string() << " has " << file.size() << " bytes, expected at most " << limit);
    std::string content(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(content)));
    return content;
}

} // namespace kael
