#include "base/mapped_file.h"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "kael/error.h"

namespace kael {

namespace {

std::string describe(int error_number) {
    return std::generic_category().message(error_number);
}

// Closes its descriptor at the end of the scope.
class Descriptor {
public:
    explicit Descriptor(int value) : value_(value) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (value_ >= 0) {
            ::close(value_);
        }
    }
    [[nodiscard]] int value() const noexcept { return value_; }

private:
    int value_;
};

int open_for_reading(const std::filesystem::path& path) {
    int descriptor = -1;
    do {
        // Without O_NONBLOCK a named pipe would wait here for a writer.
        descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (descriptor < 0 && errno == EINTR);
    const int failure = errno;
    const bool missing = failure == ENOENT || failure == ENOTDIR;
    KAEL_CHECK_AS(missing ? ErrorCode::not_found : ErrorCode::io_error, descriptor >= 0,
                  "cannot open " << path.string() << ": " << describe(failure));
    return descriptor;
}

std::size_t size_of_regular_file(const Descriptor& file, const std::filesystem::path& path) {
    struct stat status = {};
    const int result = ::fstat(file.value(), &status);
    KAEL_CHECK_AS(ErrorCode::io_error, result == 0,
                  "cannot ask for the size of " << path.string() << ": " << describe(errno));
    KAEL_CHECK_AS(ErrorCode::io_error, !S_ISDIR(status.st_mode),
                  path.string() << " is a folder, expected a file");
    KAEL_CHECK_AS(ErrorCode::io_error, S_ISREG(status.st_mode),
                  path.string() << " is not a regular file");
    return static_cast<std::size_t>(status.st_size);
}

} // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const Descriptor file(open_for_reading(path));
    const std::size_t size = size_of_regular_file(file, path);
    const std::shared_ptr<MappedFile> mapping(new MappedFile);
    if (size > 0) { // mmap refuses an empty range
        void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
        KAEL_CHECK_AS(ErrorCode::io_error, address != MAP_FAILED,
                      "cannot map " << path.string() << " (" << size
                                    << " bytes): " << describe(errno));
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

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
    const Descriptor file(open_for_reading(path));
    const std::size_t size = size_of_regular_file(file, path);
    KAEL_CHECK_AS(ErrorCode::invalid_file, size <= limit,
                  path.string() << " has " << size << " bytes, expected at most " << limit);
    std::string content(size, '\0');
    std::size_t done = 0;
    while (done < size) {
        const ssize_t count = ::read(file.value(), content.data() + done, size - done);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        KAEL_CHECK_AS(ErrorCode::io_error, count >= 0,
                      "cannot read " << path.string() << " at byte " << done << ": "
                                     << describe(errno));
        KAEL_CHECK_AS(ErrorCode::io_error, count > 0,
                      path.string() << " ended after " << done << " bytes of " << size
                                    << ": it was cut while it was read");
        done += static_cast<std::size_t>(count);
    }
    return content;
}

} // namespace kael
