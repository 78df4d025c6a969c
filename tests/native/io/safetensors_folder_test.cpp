#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/safetensors.h"

#include "io/safetensors_file.h"
#include "temporary_folder.h"

namespace {

using kael::ErrorCode;
using kael::io::LoadMode;
using kael::io::read_safetensors_folder;
using kael::io::SafeTensors;
using kael::test::safetensors_file;
using kael::test::TemporaryFolder;

// A file with one U8 tensor of that name and value.
std::string one_tensor(const std::string& name, char value) {
    return safetensors_file(R"({"__metadata__":{"format":"pt"},")" + name +
                                R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                            std::string(1, value));
}

void expect_refusal(const std::filesystem::path& folder, ErrorCode code,
                    const std::string& reason) {
    for (const LoadMode mode : {LoadMode::Copy, LoadMode::Mapped}) {
        try {
            (void)read_safetensors_folder(folder, mode);
            ADD_FAILURE() << "accepted";
        } catch (const kael::Error& error) {
            EXPECT_EQ(error.code(), code) << error.message();
            EXPECT_NE(error.message().find(reason), std::string::npos) << error.message();
            EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.message();
        }
    }
}

// A folder with two shards, "a" in one and "b" in the other, and this index.
class SafeTensorsFolder : public testing::Test {
protected:
    SafeTensorsFolder() {
        folder_.write("model-00001-of-00002.safetensors", one_tensor("a", '1'));
        folder_.write("model-00002-of-00002.safetensors", one_tensor("b", '2'));
    }
    void write_index(const std::string& index) const {
        folder_.write("model.safetensors.index.json", index);
    }
    void expect(ErrorCode code, const std::string& reason) const {
        expect_refusal(folder_.path(), code, reason);
    }

    TemporaryFolder folder_;
};

TEST_F(SafeTensorsFolder, ReadsTheShardsThatTheIndexLists) {
    write_index(
        R"({"metadata":{"total_size":2},"weight_map":{)"
        R"("b":"model-00002-of-00002.safetensors","a":"model-00001-of-00002.safetensors"}})");
    for (const LoadMode mode : {LoadMode::Copy, LoadMode::Mapped}) {
        const SafeTensors loaded = read_safetensors_folder(folder_.path(), mode);
        ASSERT_EQ(loaded.tensors.size(), 2U);
        EXPECT_EQ(loaded.tensors[0].first, "a");
        EXPECT_EQ(*loaded.find("b")->data<std::uint8_t>(), '2');
        ASSERT_EQ(loaded.metadata.size(), 1U); // the shards say the same
        EXPECT_EQ(loaded.metadata[0].second, "pt");
    }
}

TEST_F(SafeTensorsFolder, CountsTheMisalignedTensorsOfAllShards) {
    const auto misaligned = [](const std::string& name) {
        std::string header = R"({"byte of )" + name +
                             R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},")" + name +
                             R"(":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
        header.append((8 - header.size() % 8) % 8, ' ');
        return safetensors_file(header, std::string(5, '\0'));
    };
    folder_.write("model-00001-of-00002.safetensors", misaligned("a"));
    folder_.write("model-00002-of-00002.safetensors", misaligned("b"));
    write_index(R"({"weight_map":{"a":"model-00001-of-00002.safetensors",)"
                R"("byte of a":"model-00001-of-00002.safetensors",)"
                R"("b":"model-00002-of-00002.safetensors",)"
                R"("byte of b":"model-00002-of-00002.safetensors"}})");
    const SafeTensors loaded = read_safetensors_folder(folder_.path(), LoadMode::Mapped);
    EXPECT_EQ(loaded.copied_tensors, 2);
    EXPECT_EQ(loaded.copied_bytes, 8);
}

TEST_F(SafeTensorsFolder, PrefersTheWholeFile) {
    write_index("not JSON");
    folder_.write("model.safetensors", one_tensor("whole", '3'));
    EXPECT_EQ(read_safetensors_folder(folder_.path(), LoadMode::Copy).tensors[0].first, "whole");
}

TEST_F(SafeTensorsFolder, WithoutEitherFileNamesBoth) {
    expect(ErrorCode::not_found,
           folder_.path().string() +
               " holds neither model.safetensors nor model.safetensors.index.json");
    expect_refusal(folder_.path() / "none", ErrorCode::not_found, "does not exist");
    expect_refusal(folder_.write("file", ""), ErrorCode::not_found, "is not a folder");
}

TEST_F(SafeTensorsFolder, ShardsMustLieBesideTheIndex) { // KB019
    for (const char* shard :
         {"../x.safetensors", "../../x.safetensors", "/etc/passwd", "a/b.safetensors", "./x", "..",
          ".", "", "..\\\\x", "C:x", "x\\u0000.safetensors", "x\\n"}) {
        SCOPED_TRACE(shard);
        write_index(R"({"weight_map":{"w":")" + std::string(shard) + R"("}})");
        expect(ErrorCode::invalid_file, "expected the name of a file beside the index");
    }
}

TEST_F(SafeTensorsFolder, NamesAMissingShard) {
    write_index(
        R"({"weight_map":{"a":"model-00001-of-00002.safetensors","c":"gone.safetensors"}})");
    expect(ErrorCode::not_found, "gone.safetensors does not exist");
    expect(ErrorCode::not_found, "names it for the tensor \"c\"");
}

// Not the next best file, and not "there is none".
TEST_F(SafeTensorsFolder, ALinkThatLeadsNowhereIsAnError) {
    const auto link = [&](const char* name) {
        std::filesystem::create_symlink("gone", folder_.path() / name);
    };
    link("model.safetensors.index.json");
    expect(ErrorCode::not_found, "model.safetensors.index.json, a link to gone: ");
    std::filesystem::remove(folder_.path() / "model.safetensors.index.json");
    write_index(R"({"weight_map":{"a":"linked.safetensors"}})");
    link("linked.safetensors");
    expect(ErrorCode::not_found, "linked.safetensors, a link to gone: ");
    link("model.safetensors");
    expect(ErrorCode::not_found, "model.safetensors, a link to gone: ");
}

TEST_F(SafeTensorsFolder, NamesATensorThatItsShardLacks) {
    write_index(
        R"({"weight_map":{"a":"model-00001-of-00002.safetensors",)"
        R"("b":"model-00002-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}})");
    expect(ErrorCode::invalid_file, "model-00002-of-00002.safetensors lacks the tensor \"c\"");
}

TEST_F(SafeTensorsFolder, NamesATensorThatTheIndexLacks) {
    folder_.write("model-00001-of-00002.safetensors",
                  safetensors_file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                   R"("x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                   "12"));
    write_index(R"({"weight_map":{"a":"model-00001-of-00002.safetensors"}})");
    expect(ErrorCode::invalid_file, "model-00001-of-00002.safetensors holds the tensor \"x\"");
}

TEST_F(SafeTensorsFolder, NamesATensorThatLiesInTheWrongShard) {
    write_index(R"({"weight_map":{"a":"model-00002-of-00002.safetensors",)"
                R"("b":"model-00002-of-00002.safetensors"}})");
    expect(ErrorCode::invalid_file, "model-00002-of-00002.safetensors lacks the tensor \"a\"");
}

TEST_F(SafeTensorsFolder, RefusesAnIndexOfAnotherForm) {
    for (const char* index :
         {"[]", "{}", R"({"weight_map":[]})", R"({"weight_map":null})", "null"}) {
        SCOPED_TRACE(index);
        write_index(index);
        expect(ErrorCode::invalid_file, "expected an object with the object \"weight_map\"");
    }
    write_index(R"({"weight_map":{"a":1}})");
    expect(ErrorCode::invalid_file, "the tensor \"a\" an unsigned integer");
    write_index(R"({"weight_map":{"a":"x","a":"y"}})");
    expect(ErrorCode::invalid_file, "the key \"a\" is given twice");
    write_index("");
    expect(ErrorCode::invalid_file, "syntax error");
}

TEST_F(SafeTensorsFolder, NamesADamagedShard) {
    folder_.write("model-00001-of-00002.safetensors", "12345");
    write_index(R"({"weight_map":{"a":"model-00001-of-00002.safetensors"}})");
    expect(ErrorCode::invalid_file, "model-00001-of-00002.safetensors: expected at least 8 bytes");
}

TEST_F(SafeTensorsFolder, FollowsLinksLikeThoseOfADownloadCache) {
    std::filesystem::create_directory(folder_.path() / "blobs");
    folder_.write("blobs/0123", one_tensor("a", '9'));
    std::filesystem::create_symlink("blobs/0123", folder_.path() / "model.safetensors");
    EXPECT_EQ(
        *read_safetensors_folder(folder_.path(), LoadMode::Mapped).find("a")->data<std::uint8_t>(),
        '9');
}

} // namespace
