// Files as bytes: mapped read-only, or read whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace kael {

// A private read-only mapping of a whole file. The descriptor is closed once it is mapped; the size
// is taken once, from that same descriptor. If the file is truncated afterwards, touching the lost
// pages ends the process (SIGBUS).
class MappedFile {
public:
    [[nodiscard]] static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

private:
    MappedFile() = default;
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

// Gives back the memory of the whole pages in a part of a mapping; touching them reads the file
// again.
void release_pages(std::span<const std::byte> mapped) noexcept;

// Reads a regular file of at most `limit` bytes. A missing file, a folder, a larger file, a short
// read: kael::Error that names the path.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::size_t limit);

} // namespace kael
