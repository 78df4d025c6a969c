// IDX files: what is read, and what is said of others.
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "kael/idx.h"

#include "message_of.h"
#include "temporary_folder.h"

namespace kael::data {
namespace {

using namespace std::string_literals;

const std::string kImages = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\x01\x02\x03\xff"s;
const std::string kLabels = "\0\0\x08\x01\0\0\0\x03\x07\x08\x09"s;

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

std::string images_error(const std::string& content) {
    return test::message_of([&] { (void)parse_idx_images(bytes_of(content), "FILE"); },
                            ErrorCode::invalid_file);
}

TEST(Idx, FilesAndMemoryGiveTheSame) {
    const test::TemporaryFolder folder;
    for (const Tensor& images : {read_idx_images(folder.write("images", kImages)),
                                 parse_idx_images(bytes_of(kImages), "memory")}) {
        EXPECT_EQ(images.shape(), (Shape{2, 1, 2}));
        EXPECT_EQ(images.dtype(), DType::uint8);
        EXPECT_EQ(images.data<std::uint8_t>()[3], 255);
    }
    for (const Tensor& labels : {read_idx_labels(folder.write("labels", kLabels)),
                                 parse_idx_labels(bytes_of(kLabels), "memory")}) {
        EXPECT_EQ(labels.shape(), (Shape{3}));
        EXPECT_EQ(labels.data<std::uint8_t>()[2], 9);
    }
}

TEST(Idx, TheSeedsOfTheFuzzerAreFiles) {
    const std::filesystem::path seeds = KAEL_SOURCE_DIR "/fuzz/corpus/fuzz_idx";
    EXPECT_EQ(read_idx_images(seeds / "images").shape(), (Shape{2, 2, 2}));
    EXPECT_EQ(read_idx_labels(seeds / "labels").shape(), (Shape{3}));
}

TEST(Idx, NoImagesAreAnEmptyTensor) {
    EXPECT_EQ(parse_idx_images(bytes_of("\0\0\x08\x03\0\0\0\0\0\0\0\x1c\0\0\0\x1c"s), "x").shape(),
              (Shape{0, 28, 28}));
}

TEST(Idx, OtherFilesAreNamed) { // KB025, KB026
    EXPECT_EQ(images_error("\x1f\x8b\x08\x08"s + std::string(12, 'x')),
              "FILE is packed by gzip: unpack it first");
    EXPECT_EQ(images_error(""),
              "FILE has 0 bytes, expected at least 16, the header of an IDX file of images");
    EXPECT_EQ(images_error(std::string(16, 'x')),
              "FILE begins with 0x78787878, expected 0x00000803, an IDX file of images");
    EXPECT_EQ(images_error(kLabels + std::string(9, '\0')),
              "FILE begins with 0x00000801, expected 0x00000803, an IDX file of images");
    EXPECT_EQ(images_error(kImages.substr(0, kImages.size() - 1)),
              "FILE has 19 bytes, expected 20 for images of shape [2, 1, 2]");
    EXPECT_EQ(images_error(kImages + "x"),
              "FILE has 21 bytes, expected 20 for images of shape [2, 1, 2]");
    EXPECT_EQ(images_error("\0\0\x08\x03"s + std::string(12, '\xff')),
              "FILE says that it has the shape [4294967295, 4294967295, 4294967295], which is more "
              "than any file holds");
    EXPECT_NE(
        test::message_of([&] { (void)read_idx_labels("/nowhere/labels"); }, ErrorCode::not_found)
            .find("/nowhere/labels"),
        std::string::npos);
}

} // namespace
} // namespace kael::data
