#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "kael/error.h"

#include "base/input_file.h"
#include "base/mapped_file.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace {

namespace fs = std::filesystem;
using kael::ErrorCode;
using kael::MappedFile;
using kael::test::message_of;

std::string_view text(const std::shared_ptr<const MappedFile>& file) {
    return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

// Both ways to read a file must refuse it with `code` and name it.
void expect_refused(const fs::path& path, ErrorCode code) {
    const auto check = [&](auto action) {
        try {
            action();
            ADD_FAILURE() << path << " was read";
        } catch (const kael::Error& error) {
            EXPECT_EQ(error.code(), code) << error.message();
            EXPECT_NE(error.message().find(path.string()), std::string::npos) << error.message();
        }
    };
    check([&] { static_cast<void>(MappedFile::open(path)); });
    check([&] { static_cast<void>(kael::read_file(path, 1000)); });
}

class MappedFiles : public testing::Test {
protected:
    const kael::test::TemporaryFolder folder_;
};

TEST_F(MappedFiles, BothWaysGiveTheBytesOfTheFile) {
    std::string content(100'000, '\0');
    for (std::size_t i = 0; i < content.size(); ++i) {
        content[i] = static_cast<char>(i * 7);
    }
    const fs::path path = folder_.write("data", content);
    EXPECT_EQ(text(MappedFile::open(path)), content);
    EXPECT_EQ(kael::read_file(path, content.size()), content);
}

TEST_F(MappedFiles, AnEmptyFileHasNoBytes) {
    const fs::path path = folder_.write("empty", "");
    EXPECT_TRUE(MappedFile::open(path)->bytes().empty());
    EXPECT_EQ(kael::read_file(path, 0), "");
}

TEST_F(MappedFiles, WhatIsNoRegularFileIsRefusedAtOnce) {
    expect_refused(folder_.path() / "missing", ErrorCode::not_found);
    expect_refused(folder_.write("file", "x") / "below", ErrorCode::not_found);
    expect_refused(folder_.path(), ErrorCode::io_error);
    expect_refused("/dev/null", ErrorCode::io_error);
    const fs::path pipe = folder_.path() / "pipe"; // opening it would wait for a writer
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    expect_refused(pipe, ErrorCode::io_error);
}

TEST_F(MappedFiles, OfALinkThatLeadsNowhereTheErrorSaysWhereItLeads) {
    const fs::path link = folder_.path() / "link";
    fs::create_symlink("gone", link);
    expect_refused(link, ErrorCode::not_found);
    try {
        static_cast<void>(kael::read_file(link, 1000));
    } catch (const kael::Error& error) {
        EXPECT_NE(error.message().find(", a link to gone: "), std::string::npos) << error.message();
    }
}

TEST_F(MappedFiles, WhateverHasANameIsThere) {
    const fs::path link = folder_.path() / "link";
    fs::create_symlink("gone", link);
    EXPECT_TRUE(kael::is_there(link));
    EXPECT_TRUE(kael::is_there(folder_.path()));
    EXPECT_TRUE(kael::is_there(folder_.write("file", "x")));
    EXPECT_FALSE(kael::is_there(folder_.path() / "gone"));
    EXPECT_TRUE(kael::is_there(folder_.path() / std::string(5000, 'x'))) << "opening it says why";
}

TEST_F(MappedFiles, AFileLargerThanTheLimitIsRefusedBeforeItIsRead) {
    const fs::path path = folder_.write("data", "");
    fs::resize_file(path, std::uintmax_t{1} << 40); // a hole: more than there is memory for
    try {
        static_cast<void>(kael::read_file(path, 1000));
        FAIL();
    } catch (const kael::Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_file);
        EXPECT_NE(error.message().find("1099511627776 bytes, expected at most 1000"),
                  std::string::npos)
            << error.message();
    }
}

TEST_F(MappedFiles, KB013AMappingOutlivesItsFileBeingReplacedOrRemoved) {
    const fs::path path = folder_.write("data", "before");
    const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
    fs::rename(folder_.write("other", "after!"), path);
    EXPECT_EQ(text(file), "before");
    fs::remove(path);
    EXPECT_EQ(text(file), "before");
}

TEST_F(MappedFiles, AFileCutAfterItWasOpenedIsAnErrorNotAShortRead) {
    const fs::path path = folder_.write("data", std::string(1000, 'x'));
    const kael::InputFile file(path);
    EXPECT_EQ(file.size(), 1000U);
    fs::resize_file(path, 600);
    std::byte buffer[1000];
    EXPECT_THROW(file.read(0, buffer), kael::Error);
    file.read(100, std::span(buffer).first(500));
    EXPECT_EQ(buffer[499], std::byte{'x'});
}

// The files of /sys are regular and have a size, but no memory to map.
TEST_F(MappedFiles, AFileThatHasNoMemoryIsRefused) {
    const fs::path path = "/sys/kernel/mm/transparent_hugepage/enabled";
    if (!fs::exists(path)) {
        GTEST_SKIP() << "there is no " << path << " on this system";
    }
    EXPECT_EQ(message_of([&] { static_cast<void>(MappedFile::open(path)); }, ErrorCode::io_error),
              "cannot map " + path.string() + " (4096 bytes): No such device");
}

// Nothing is mapped at the first address of a process.
TEST_F(MappedFiles, AByteThatCannotBeReadIsNamed) {
    const fs::path path = "/proc/self/mem";
    if (!fs::exists(path)) {
        GTEST_SKIP() << "there is no " << path << " on this system";
    }
    const kael::InputFile file(path);
    std::byte buffer[1];
    EXPECT_EQ(message_of([&] { file.read(0, buffer); }, ErrorCode::io_error),
              "cannot read /proc/self/mem at byte 0: Input/output error");
}

TEST_F(MappedFiles, NoDescriptorStaysOpen) {
    const fs::path path = folder_.write("data", "content");
    const int before = dup(0);
    ASSERT_GE(before, 0);
    close(before);
    const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
    static_cast<void>(kael::read_file(path, 100));
    expect_refused(folder_.path(), ErrorCode::io_error);
    const int after = dup(0);
    close(after);
    EXPECT_EQ(after, before) << "the lowest free number is the same as before";
}

} // namespace
