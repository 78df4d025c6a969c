#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/safetensors.h"

#include "io/safetensors_file.h"
#include "temporary_folder.h"

namespace {

using kael::DType;
using kael::ErrorCode;
using kael::NamedTensors;
using kael::Tensor;
using kael::io::LoadMode;
using kael::io::read_safetensors;
using kael::io::write_safetensors;
using kael::test::read_whole;
using kael::test::TemporaryFolder;

using namespace std::string_literals;

template <typename T>
Tensor tensor_of(const std::vector<T>& values, kael::Shape shape, DType dtype) {
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(values.size() * sizeof(T)),
                              std::move(shape), dtype);
}

std::size_t files_in(const std::filesystem::path& folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

void expect_refusal(const std::filesystem::path& path, const NamedTensors& tensors,
                    const std::vector<std::pair<std::string, std::string>>& metadata,
                    ErrorCode code, const std::string& reason) {
    try {
        write_safetensors(path, tensors, metadata);
        ADD_FAILURE() << "accepted";
    } catch (const kael::Error& error) {
        EXPECT_EQ(error.code(), code) << error.message();
        EXPECT_NE(error.message().find(reason), std::string::npos) << error.message();
    }
}

// The bytes that the Python package safetensors 0.8.0 writes for these tensors and this metadata:
// see reference_tensors. tests/py compares with the package itself.
const std::string kReferenceHeader =
    R"({"__metadata__":{"format":"pt"},"i":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
    R"("e":{"dtype":"F32","shape":[0],"data_offsets":[8,8]},)"
    R"("f":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},)"
    R"("n\"\n)"
    "\x7F\xC3\xA9"
    R"(":{"dtype":"I8","shape":[1],"data_offsets":[16,17]},)"
    R"("u":{"dtype":"U8","shape":[2],"data_offsets":[17,19]},)"
    R"("b":{"dtype":"BOOL","shape":[1],"data_offsets":[19,20]}})";
const std::string kReferenceData = "\7\0\0\0\0\0\0\0\0\0\x80?\0\0\0\xC0\xFF\1\2\1"s;

NamedTensors reference_tensors() {
    return {{"u", tensor_of<std::uint8_t>({1, 2}, {2}, DType::uint8)},
            {"f", tensor_of<float>({1, -2}, {2, 1}, DType::float32)},
            {"e", tensor_of<float>({}, {0}, DType::float32)},
            {"i", tensor_of<std::int64_t>({7}, {}, DType::int64)},
            {"b", tensor_of<std::uint8_t>({1}, {1}, DType::boolean)},
            {"n\"\n\x7F\xC3\xA9", tensor_of<std::int8_t>({-1}, {1}, DType::int8)}};
}

TEST(SafeTensorsWrite, WritesTheBytesOfTheReference) {
    const TemporaryFolder folder;
    const auto path = folder.path() / "f.safetensors";
    write_safetensors(path, reference_tensors(), {{"format", "pt"}});
    const std::string padding((8 - kReferenceHeader.size() % 8) % 8, ' ');
    EXPECT_EQ(read_whole(path),
              kael::test::safetensors_file(kReferenceHeader + padding, kReferenceData));
    EXPECT_EQ(files_in(folder.path()), 1U);
    write_safetensors(path, {}, {});
    EXPECT_EQ(read_whole(path), kael::test::safetensors_file("{}      ", ""));
}

TEST(SafeTensorsWrite, WhatIsWrittenReadsBackWithoutACopy) {
    const TemporaryFolder folder;
    const auto path = folder.path() / "f.safetensors";
    const NamedTensors tensors = reference_tensors();
    write_safetensors(path, tensors, {{"format", "pt"}, {"empty", ""}});
    for (const LoadMode mode : {LoadMode::Copy, LoadMode::Mapped}) {
        const auto loaded = read_safetensors(path, mode);
        EXPECT_EQ(loaded.tensors.size(), tensors.size());
        EXPECT_EQ(loaded.metadata.size(), 2U);
        EXPECT_EQ(loaded.copied_tensors, 0);
        for (const auto& [name, tensor] : tensors) {
            const Tensor* read = loaded.find(name);
            ASSERT_NE(read, nullptr) << name;
            EXPECT_EQ(read->dtype(), tensor.dtype());
            EXPECT_EQ(read->shape(), tensor.shape());
            EXPECT_EQ(std::memcmp(read->data_ptr_raw(), tensor.data_ptr_raw(),
                                  static_cast<std::size_t>(tensor.nbytes())),
                      0);
        }
    }
}

TEST(SafeTensorsWrite, PadsTheHeaderByLessThanEightBytes) {
    const TemporaryFolder folder;
    for (std::size_t length = 0; length < 9; ++length) {
        write_safetensors(folder.path() / "f", {}, {{"k", std::string(length, 'v')}});
        const std::size_t header = std::string(R"({"__metadata__":{"k":""}})").size() + length;
        EXPECT_EQ(std::filesystem::file_size(folder.path() / "f"), 8 + (header + 7) / 8 * 8);
    }
}

TEST(SafeTensorsWrite, ViewsAreWrittenInTheirOwnOrder) {
    const TemporaryFolder folder;
    const Tensor matrix = tensor_of<std::int32_t>({1, 2, 3, 4, 5, 6}, {2, 3}, DType::int32);
    write_safetensors(folder.path() / "f", {{"t", matrix.transpose(0, 1)}}, {});
    const Tensor read = *read_safetensors(folder.path() / "f", LoadMode::Copy).find("t");
    EXPECT_EQ(read.shape(), (kael::Shape{3, 2}));
    EXPECT_EQ(read.data<std::int32_t>()[1], 4);
}

// In memory every byte but 0 is true, in a file 1 alone.
TEST(SafeTensorsWrite, WritesBoolsAsZerosAndOnes) {
    const TemporaryFolder folder;
    const auto path = folder.path() / "f.safetensors";
    const Tensor bools = tensor_of<std::uint8_t>({0, 2, 1, 255, 0, 128}, {2, 3}, DType::boolean);
    write_safetensors(path, {{"b", bools}, {"turned", bools.transpose(0, 1)}}, {});
    for (const LoadMode mode : {LoadMode::Copy, LoadMode::Mapped}) {
        const auto loaded = read_safetensors(path, mode);
        const auto bytes = [&](const char* name) {
            const auto* data = loaded.find(name)->data<std::uint8_t>();
            return std::vector<std::uint8_t>(data, data + 6);
        };
        EXPECT_EQ(loaded.find("b")->dtype(), DType::boolean);
        EXPECT_EQ(bytes("b"), (std::vector<std::uint8_t>{0, 1, 1, 1, 0, 1}));
        EXPECT_EQ(bytes("turned"), (std::vector<std::uint8_t>{0, 1, 1, 0, 1, 1}));
    }
    EXPECT_EQ(bools.data<std::uint8_t>()[1], 2); // untouched
}

TEST(SafeTensorsWrite, SavingOverAMappedFileLeavesTheMappingIntact) { // KB013, KB014
    const TemporaryFolder folder;
    const auto path = folder.path() / "f.safetensors";
    write_safetensors(path, {{"t", tensor_of<float>({1, 2, 3}, {3}, DType::float32)}}, {});
    const auto mapped = read_safetensors(path, LoadMode::Mapped);
    write_safetensors(path, mapped.tensors, {{"saved", "again"}});
    EXPECT_EQ(mapped.find("t")->data<float>()[2], 3.0F);
    const auto again = read_safetensors(path, LoadMode::Mapped);
    EXPECT_EQ(again.find("t")->data<float>()[2], 3.0F);
    EXPECT_EQ(again.metadata.size(), 1U);
}

TEST(SafeTensorsWrite, RefusesNamesThatNoFileCanHold) {
    const TemporaryFolder folder;
    const auto path = folder.path() / "f";
    const Tensor tensor = tensor_of<std::uint8_t>({1}, {1}, DType::uint8);
    expect_refusal(path, {{"a", tensor}, {"a", tensor}}, {}, ErrorCode::invalid_argument,
                   "the tensor name \"a\" is given twice");
    expect_refusal(path, {{"__metadata__", tensor}}, {}, ErrorCode::invalid_argument,
                   "safetensors keeps that name");
    expect_refusal(path, {{"a\xFF", tensor}}, {}, ErrorCode::invalid_argument,
                   "\"a\\xff\" is not UTF-8");
    expect_refusal(path, {}, {{"k", "\xFF"}}, ErrorCode::invalid_argument, "is not UTF-8");
    expect_refusal(path, {}, {{"k", "1"}, {"k", "2"}}, ErrorCode::invalid_argument,
                   "the metadata key \"k\" is given twice");
    expect_refusal(path, {{"a", Tensor()}}, {}, ErrorCode::invalid_argument, "is undefined");
    EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(SafeTensorsWrite, RefusesAHeaderThatNoReaderTakes) {
    const TemporaryFolder folder;
    // With {"__metadata__":{"k":""}} around it, up to a multiple of 8.
    expect_refusal(folder.path() / "f", {}, {{"k", std::string(100'000'000, 'x')}},
                   ErrorCode::invalid_argument,
                   "the header would take 100000032 bytes, safetensors allows 100000000");
    EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(SafeTensorsWrite, RefusesPlacesWhereNoFileCanBe) {
    const TemporaryFolder folder;
    expect_refusal(folder.path() / "none" / "f", {}, {}, ErrorCode::not_found,
                   "No such file or directory");
    expect_refusal(folder.path(), {}, {}, ErrorCode::io_error, "it is a folder");
    const auto pipe = folder.path() / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    expect_refusal(pipe, {}, {}, ErrorCode::io_error, "it is not a regular file");
    expect_refusal(folder.write("file", "") / "f", {}, {}, ErrorCode::not_found, "Not a directory");
    EXPECT_EQ(files_in(folder.path()), 2U);
}

TEST(SafeTensorsWrite, KeepsThePermissionsOfTheFileThatItReplaces) {
    const TemporaryFolder folder;
    const auto path = folder.write("f.safetensors", "");
    for (const mode_t mode : {0400U, 0666U}) { // less and more than a new file gets
        ASSERT_EQ(::chmod(path.c_str(), mode), 0);
        write_safetensors(path, {}, {});
        struct stat status = {};
        ASSERT_EQ(::stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777, mode);
    }
}

// As on a full disk, the limit stops a write in the middle.
TEST(SafeTensorsWrite, FailedWriteLeavesTheOldFileAndNoOther) {
    const TemporaryFolder folder;
    const auto path = folder.path() / "f.safetensors";
    write_safetensors(path, {{"old", tensor_of<std::uint8_t>({1}, {1}, DType::uint8)}}, {});
    const std::string before = read_whole(path);

    rlimit saved = {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &saved), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limited = {4096, saved.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
    std::string message;
    try {
        write_safetensors(path, {{"new", Tensor::zeros({100000}, DType::float32)}}, {});
    } catch (const kael::Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io_error);
        message = error.message();
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &saved), 0);
    std::signal(SIGXFSZ, handler);

    EXPECT_EQ(message, "cannot write " + path.string() + ": File too large");
    EXPECT_EQ(read_whole(path), before);
    EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(SafeTensorsWrite, WorksForANameOfTheGreatestLengthAndARelativePath) {
    const TemporaryFolder folder;
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder.path());
    const std::string name(255, 'x');
    write_safetensors(name, {}, {{"k", "v"}});
    EXPECT_EQ(read_safetensors(name, LoadMode::Copy).metadata[0].second, "v");
    std::filesystem::current_path(before);
}

} // namespace
