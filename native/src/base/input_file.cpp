#include "base/input_file.h"

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "kael/error.h"

namespace kael {

namespace {

std::string describe(int error_number) {
    return std::generic_category().message(error_number);
}

// The path, and of a link also where it leads: a link that leads nowhere looks like a file.
std::string described_path(const std::filesystem::path& path) {
    std::error_code is_no_link;
    const std::filesystem::path target = std::filesystem::read_symlink(path, is_no_link);
    return is_no_link ? path.string() : path.string() + ", a link to " + target.string();
}

int open_for_reading(const std::filesystem::path& path) {
    int descriptor = -1;
    do {
        // Without O_NONBLOCK a named pipe would wait here for a writer.
        descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (descriptor < 0 && errno == EINTR);
    const int failure = errno;
    const bool missing = failure == ENOENT || failure == ENOTDIR;
    KAEL_CHECK_AS(missing ? ErrorCode::not_found : ErrorCode::io_error, descriptor >= 0,
                  "cannot open " << described_path(path) << ": " << describe(failure));
    return descriptor;
}

std::uint64_t size_of_regular_file(int descriptor, const std::filesystem::path& path) {
    struct stat status = {};
    const int result = ::fstat(descriptor, &status);
    KAEL_CHECK_AS(ErrorCode::io_error, result == 0,
                  "cannot ask for the size of " << path.string() << ": " << describe(errno));
    KAEL_CHECK_AS(ErrorCode::io_error, !S_ISDIR(status.st_mode),
                  path.string() << " is a folder, expected a file");
    KAEL_CHECK_AS(ErrorCode::io_error, S_ISREG(status.st_mode),
                  path.string() << " is not a regular file");
    return static_cast<std::uint64_t>(status.st_size);
}

} // namespace

Descriptor::~Descriptor() {
    if (value_ >= 0) {
        ::close(value_);
    }
}

InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open_for_reading(path_)),
      size_(size_of_regular_file(descriptor_.value(), path_)) {}

bool is_there(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::symlink_status(path, ignored).type() !=
           std::filesystem::file_type::not_found;
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> buffer) const {
    while (!buffer.empty()) {
        const ssize_t count =
            ::pread(descriptor_.value(), buffer.data(), buffer.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        KAEL_CHECK_AS(ErrorCode::io_error, count >= 0,
                      "cannot read " << path_.string() << " at byte " << offset << ": "
                                     << describe(errno));
        KAEL_CHECK_AS(ErrorCode::io_error, count > 0,
                      path_.string() << " ended after " << offset << " bytes of " << size_
                                     << ": it was cut while it was read");
        offset += static_cast<std::uint64_t>(count);
        buffer = buffer.subspan(static_cast<std::size_t>(count));
    }
}

} // namespace kael
