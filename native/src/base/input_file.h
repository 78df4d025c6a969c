// Regular files, opened for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace kael {

// Closes a file descriptor at the end of its life.
class Descriptor {
public:
    explicit Descriptor(int value) : value_(value) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor();

    [[nodiscard]] int value() const noexcept { return value_; }

private:
    int value_;
};

// An open regular file. Its size is taken once, when it is opened. Errors name the path: not_found
// for a missing file and for a link to one; io_error for a folder, a pipe, a device, and whatever
// the system refuses.
class InputFile {
public:
    explicit InputFile(std::filesystem::path path);

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] int descriptor() const noexcept { return descriptor_.value(); }

    // Fills `buffer` with the bytes at `offset`. A file that has become shorter is an io_error.
    void read(std::uint64_t offset, std::span<std::byte> buffer) const;

private:
    std::filesystem::path path_;
    Descriptor descriptor_;
    std::uint64_t size_;
};

// Whether something has that name: a file, a folder, a link that leads nowhere. Also where that
// cannot be known, so that opening it says why.
[[nodiscard]] bool is_there(const std::filesystem::path& path);

} // namespace kael
