// What a file that is replaced leaves behind when the last steps fail. Writes that fail are tested
// with the format that writes: tests/native/io/safetensors_write_test.cpp.
#include <filesystem>
#include <iterator>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/replaced_file.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace {

namespace fs = std::filesystem;
using kael::ErrorCode;
using kael::ReplacedFile;
using kael::test::message_of;
using kael::test::TemporaryFolder;

std::string commit(ReplacedFile& file) {
    return message_of([&] { file.commit(); }, ErrorCode::io_error);
}

std::ptrdiff_t files_in(const fs::path& folder) {
    return std::distance(fs::directory_iterator(folder), {});
}

TEST(ReplacedFile, AFolderThatTookTheNameMeanwhileStays) {
    const TemporaryFolder folder;
    const fs::path path = folder.path() / "f";
    {
        ReplacedFile file(path);
        fs::create_directory(path);
        const std::string message = commit(file);
        EXPECT_TRUE(message.starts_with("cannot rename ")) << message;
        EXPECT_TRUE(message.ends_with(" to " + path.string() + ": Is a directory")) << message;
    }
    EXPECT_TRUE(fs::is_directory(path));
    EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(ReplacedFile, WhatCannotReachTheDiskReplacesNothing) {
    const TemporaryFolder folder;
    const fs::path path = folder.write("f", "before");
    const int next = ::dup(0); // the lowest free number, which the file gets
    ASSERT_GE(next, 0);
    ::close(next);
    {
        ReplacedFile file(path);
        ASSERT_EQ(::close(next), 0);
        EXPECT_EQ(commit(file),
                  "cannot write " + path.string() + " to the disk: Bad file descriptor");
    }
    EXPECT_EQ(kael::test::read_whole(path), "before");
    EXPECT_EQ(files_in(folder.path()), 1);
}

} // namespace
