#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/safetensors.h"

#include "io/safetensors_file.h"
#include "temporary_folder.h"

namespace {

using kael::DType;
using kael::ErrorCode;
using kael::Shape;
using kael::io::LoadMode;
using kael::io::read_safetensors;
using kael::io::SafeTensors;
using kael::test::safetensors_file;
using kael::test::TemporaryFolder;

using namespace std::string_literals;

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string bytes_of(const kael::Tensor& tensor) {
    return {reinterpret_cast<const char*>(tensor.data_ptr_raw()),
            static_cast<std::size_t>(tensor.nbytes())};
}

ErrorCode code_of_refusal(const std::filesystem::path& path, LoadMode mode, std::string& message) {
    try {
        (void)read_safetensors(path, mode);
    } catch (const kael::Error& error) {
        message = error.message();
        return error.code();
    }
    message = "accepted";
    return ErrorCode::internal;
}

// Every test runs in both modes.
class SafeTensorsRead : public testing::TestWithParam<LoadMode> {
protected:
    [[nodiscard]] SafeTensors load(std::string_view header, std::string_view data) const {
        return read_safetensors(folder_.write("f.safetensors", safetensors_file(header, data)),
                                GetParam());
    }
    void expect_refusal(const std::filesystem::path& path, ErrorCode code,
                        const std::string& reason) const {
        std::string message;
        EXPECT_EQ(code_of_refusal(path, GetParam(), message), code) << message;
        EXPECT_NE(message.find(reason), std::string::npos) << message;
        EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    }

    TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Modes, SafeTensorsRead, testing::Values(LoadMode::Copy, LoadMode::Mapped),
                         [](const auto& mode) {
                             return mode.param == LoadMode::Copy ? "Copy" : "Mapped";
                         });

TEST_P(SafeTensorsRead, GivesEveryDtypeItsValuesAndShape) {
    struct Case {
        const char* name;
        DType dtype;
        std::string bytes;
    };
    const std::vector<Case> cases = {
        {"F64", DType::float64, bytes_of<double>({1.5, -2})},
        {"F32", DType::float32, bytes_of<float>({1.5F, -2})},
        {"F16", DType::float16, bytes_of<std::uint16_t>({0x3E00, 0xC000})},
        {"BF16", DType::bfloat16, bytes_of<std::uint16_t>({0x3FC0, 0xC000})},
        {"I64", DType::int64, bytes_of<std::int64_t>({INT64_MIN, 7})},
        {"I32", DType::int32, bytes_of<std::int32_t>({INT32_MIN, 7})},
        {"I8", DType::int8, bytes_of<std::int8_t>({-128, 7})},
        {"U8", DType::uint8, bytes_of<std::uint8_t>({255, 7})},
        {"BOOL", DType::boolean, "\0\1"s},
    };
    for (const Case& each : cases) {
        SCOPED_TRACE(each.name);
        const SafeTensors loaded = load(R"({"t":{"dtype":")" + std::string(each.name) +
                                            R"(","shape":[2,1],"data_offsets":[0,)" +
                                            std::to_string(each.bytes.size()) + "]}}",
                                        each.bytes);
        const kael::Tensor* tensor = loaded.find("t");
        ASSERT_NE(tensor, nullptr);
        EXPECT_EQ(tensor->dtype(), each.dtype);
        EXPECT_EQ(tensor->shape(), (Shape{2, 1}));
        EXPECT_TRUE(tensor->is_contiguous());
        EXPECT_EQ(bytes_of(*tensor), each.bytes);
    }
}

TEST_P(SafeTensorsRead, KeepsTheOrderOfTheDataAndTheMetadata) {
    const SafeTensors loaded = load(R"({"z":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                                    R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                    R"("":{"dtype":"I8","shape":[],"data_offsets":[3,4]},)"
                                    R"("__metadata__":{"format":"pt","b\u0000":"\u00e9"}})",
                                    "\1\2\3\4");
    ASSERT_EQ(loaded.tensors.size(), 3U);
    EXPECT_EQ(loaded.tensors[0].first, "a");
    EXPECT_EQ(loaded.tensors[1].first, "z");
    EXPECT_EQ(loaded.tensors[2].first, "");
    EXPECT_EQ(loaded.find("")->rank(), 0);
    EXPECT_EQ(loaded.find("b"), nullptr);
    using Pair = std::pair<std::string, std::string>;
    EXPECT_EQ(loaded.metadata, (std::vector<Pair>{{"format", "pt"}, {"b\0"s, "\xC3\xA9"}}));
}

TEST_P(SafeTensorsRead, TensorsOutliveTheResultAndTheName) {
    kael::Tensor kept;
    {
        const SafeTensors loaded =
            load(R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}  )",
                 bytes_of<std::int32_t>({77}));
        kept = loaded.tensors[0].second;
    }
    std::filesystem::remove(folder_.path() / "f.safetensors");
    EXPECT_EQ(*kept.data<std::int32_t>(), 77);
}

TEST_P(SafeTensorsRead, RefusesWhatIsNoFile) {
    expect_refusal(folder_.path() / "none", ErrorCode::not_found, "cannot open");
    expect_refusal(folder_.path(), ErrorCode::io_error, "is a folder");
    const std::filesystem::path pipe = folder_.path() / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    expect_refusal(pipe, ErrorCode::io_error, "is not a regular file"); // and does not wait
    const std::filesystem::path secret = folder_.write("secret", "{}");
    ASSERT_EQ(::chmod(secret.c_str(), 0), 0);
    if (::access(secret.c_str(), R_OK) != 0) { // root may read everything
        expect_refusal(secret, ErrorCode::io_error, "cannot open");
    }
}

TEST_P(SafeTensorsRead, RefusesEveryTruncationOfAFile) {
    const std::string whole =
        safetensors_file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        expect_refusal(folder_.write("cut", whole.substr(0, size)), ErrorCode::invalid_file,
                       "the file has " + std::to_string(size) + ": an incomplete download?");
    }
    (void)read_safetensors(folder_.write("cut", whole), GetParam());
}

TEST_P(SafeTensorsRead, HeaderThatClaimsAHugeLengthAllocatesNothing) {
    // KB008. A hole of 200 MB makes the length plausible; the header itself is not JSON.
    const std::filesystem::path path =
        folder_.write("huge", kael::test::length_prefix(100'000'001));
    std::filesystem::resize_file(path, 200'000'000);
    expect_refusal(path, ErrorCode::invalid_file, "expected at most 100000000");
}

TEST_P(SafeTensorsRead, LoadsAHundredThousandTensorsInTime) {
    constexpr int kCount = 100000;
    std::string header = "{";
    for (int i = 0; i < kCount; ++i) {
        const std::string begin = std::to_string(i);
        const std::string end = std::to_string(i + 1);
        header.append(i == 0 ? "\"" : ",\"").append("layer.").append(begin);
        header.append(R"(":{"dtype":"U8","shape":[1],"data_offsets":[)").append(begin);
        header.append(",").append(end).append("]}");
    }
    const SafeTensors loaded = load(header + "}", std::string(kCount, 'x'));
    EXPECT_EQ(loaded.tensors.size(), std::size_t{kCount});
    EXPECT_EQ(loaded.tensors.back().first, "layer.99999");
}

TEST(SafeTensorsMapped, SharesTheFileAndIsReadOnly) {
    const TemporaryFolder folder;
    // 54 + 2 + 8 bytes of header: the data begins at byte 64.
    const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )";
    const auto path = folder.write("f", safetensors_file(header, bytes_of<float>({1, 2})));
    SafeTensors loaded = read_safetensors(path, LoadMode::Mapped);
    kael::Tensor& tensor = loaded.tensors[0].second;
    EXPECT_TRUE(tensor.storage()->is_read_only());
    EXPECT_EQ(tensor.storage()->origin(), "mapped from " + path.string() + " at byte 64");
    EXPECT_THROW((void)tensor.mutable_data<float>(), kael::Error);
    EXPECT_EQ(loaded.copied_tensors, 0);
    EXPECT_EQ(loaded.copied_bytes, 0);
    EXPECT_FALSE(
        read_safetensors(path, LoadMode::Copy).tensors[0].second.storage()->is_read_only());
}

TEST(SafeTensorsMapped, CopiesMisalignedTensorsAloneAndCountsThem) { // KB016, KB017
    const TemporaryFolder folder;
    const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                               R"("b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},)"
                               R"("c":{"dtype":"BOOL","shape":[3],"data_offsets":[9,12]},)"
                               R"("d":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})";
    const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
    const std::string data =
        "\7"s + bytes_of<float>({1.5F, 2.5F}) + "\1\0\1"s + bytes_of<float>({3.5F});
    const SafeTensors loaded =
        read_safetensors(folder.write("f", safetensors_file(padded, data)), LoadMode::Mapped);
    EXPECT_EQ(loaded.copied_tensors, 1);
    EXPECT_EQ(loaded.copied_bytes, 8);
    const kael::Tensor& misaligned = *loaded.find("b");
    EXPECT_FALSE(misaligned.storage()->is_read_only());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(misaligned.data<float>()) % 4, 0U);
    EXPECT_EQ(misaligned.data<float>()[1], 2.5F);
    EXPECT_EQ(loaded.find("d")->data<float>()[0], 3.5F);
    EXPECT_TRUE(loaded.find("d")->storage()->is_read_only());
}

// The first seed of the fuzzer: two tensors that are not aligned for their dtype, and one that is.
TEST(SafeTensorsMapped, ReadsTheSeedOfTheFuzzer) {
    const std::filesystem::path seed = KAEL_SOURCE_DIR "/fuzz/corpus/fuzz_safetensors/seed1";
    EXPECT_EQ(std::filesystem::file_size(seed), 247U);
    const SafeTensors loaded = read_safetensors(seed, LoadMode::Mapped);
    ASSERT_EQ(loaded.tensors.size(), 3U);
    EXPECT_EQ(loaded.tensors[2].second.shape(), (Shape{1, 1}));
    EXPECT_EQ(loaded.copied_tensors, 2);
    EXPECT_EQ(loaded.copied_bytes, 16);
}

} // namespace
