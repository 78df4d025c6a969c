// Files that are written whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kael {

// Writes to a new file beside `path` and, in commit, renames it over `path`: readers and mappings
// of an older file keep it intact, and whoever opens `path` finds the old content or the new one,
// never a part. The permissions of an older file are kept. A symbolic link at `path` is itself
// replaced: what it points to stays as it is. Without a commit the new file is removed. Failures
// are io_error and name the path.
class ReplacedFile {
public:
    // `path` must be free or a regular file.
    explicit ReplacedFile(std::filesystem::path path);
    ReplacedFile(const ReplacedFile&) = delete;
    ReplacedFile& operator=(const ReplacedFile&) = delete;
    ~ReplacedFile();

    void write(std::span<const std::byte> bytes);
    // Waits until the content and then the new name are on the disk.
    void commit();

private:
    std::filesystem::path path_;
    std::filesystem::path temporary_; // empty once it has been renamed
    int descriptor_ = -1;
};

} // namespace kael
