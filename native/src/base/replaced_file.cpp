#include "base/replaced_file.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
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

std::filesystem::path folder_of(const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Short, so that it fits beside a name of the longest length; unique among the threads and
// processes of this machine. A name that a killed process left behind is passed over.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
    static std::atomic<std::uint64_t> count{0};
    return folder_of(path) /
           (".kael-" + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".tmp");
}

void sync_folder(const std::filesystem::path& path) {
    const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return; // a folder that may be written but not read: the new name reaches the disk later
    }
    const int failure = ::fsync(folder) == 0 ? 0 : errno;
    ::close(folder);
    // File systems that cannot sync a folder say EINVAL.
    KAEL_CHECK_AS(ErrorCode::io_error, failure == 0 || failure == EINVAL,
                  "cannot sync the folder of " << path.string() << ": " << describe(failure));
}

} // namespace

ReplacedFile::ReplacedFile(std::filesystem::path path) : path_(std::move(path)) {
    struct stat old = {};
    const bool exists = ::stat(path_.c_str(), &old) == 0;
    KAEL_CHECK_AS(ErrorCode::io_error, !exists || S_ISREG(old.st_mode),
                  "cannot write " << path_.string() << ": it is "
                                  << (S_ISDIR(old.st_mode) ? "a folder" : "not a regular file"));
    const mode_t mode = exists ? old.st_mode & 07777 : 0666;
    int failure = EEXIST;
    while (descriptor_ < 0 && (failure == EEXIST || failure == EINTR)) {
        temporary_ = temporary_beside(path_);
        descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        failure = errno;
    }
    const bool missing = failure == ENOENT || failure == ENOTDIR;
    KAEL_CHECK_AS(missing ? ErrorCode::not_found : ErrorCode::io_error, descriptor_ >= 0,
                  "cannot write into the folder of " << path_.string() << ": "
                                                     << describe(failure));
    if (exists) {
        // open() takes the umask away. A file system that cannot set permissions has none to lose.
        static_cast<void>(::fchmod(descriptor_, mode));
    }
}

ReplacedFile::~ReplacedFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
    if (!temporary_.empty()) {
        ::unlink(temporary_.c_str());
    }
}

void ReplacedFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        KAEL_CHECK_AS(ErrorCode::io_error, written >= 0,
                      "cannot write " << path_.string() << ": " << describe(errno));
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void ReplacedFile::commit() {
    KAEL_CHECK_AS(ErrorCode::io_error, ::fsync(descriptor_) == 0,
                  "cannot write " << path_.string() << " to the disk: " << describe(errno));
    const int closed = ::close(std::exchange(descriptor_, -1));
    KAEL_CHECK_AS(ErrorCode::io_error, closed == 0,
                  "cannot close " << path_.string() << ": " << describe(errno));
    KAEL_CHECK_AS(ErrorCode::io_error, ::rename(temporary_.c_str(), path_.c_str()) == 0,
                  "cannot rename " << temporary_.string() << " to " << path_.string() << ": "
                                   << describe(errno));
    temporary_.clear();
    sync_folder(path_);
}

} // namespace kael
