// What the C interface of named tensors and safetensors files refuses; capi_test.c shows what it
// does.
#include <cstdint>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kael/kael.h"

#include "io/safetensors_file.h"
#include "temporary_folder.h"

namespace {

using testing::HasSubstr;

std::int64_t length_of(std::string_view text) {
    return static_cast<std::int64_t>(text.size());
}

std::string last_message() {
    std::int64_t length = -1;
    const char* text = kael_last_error_message(&length);
    return {text, static_cast<std::size_t>(length)};
}

class CTensorMap : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(kael_tensor_map_create(&map_), KAEL_OK);
        const std::int64_t shape[] = {2};
        const float values[] = {1.5F, -2.0F};
        ASSERT_EQ(kael_tensor_from_bytes(KAEL_FLOAT32, shape, 1, values, sizeof values, &tensor_),
                  KAEL_OK);
    }
    void TearDown() override {
        kael_tensor_map_free(map_);
        kael_tensor_free(tensor_);
    }

    kael_status add(std::string_view name) const {
        return kael_tensor_map_add(map_, name.data(), length_of(name), tensor_);
    }
    kael_status add_metadata(std::string_view key, std::string_view value) const {
        return kael_tensor_map_add_metadata(map_, key.data(), length_of(key), value.data(),
                                            length_of(value));
    }
    kael_status load(std::string_view path, std::int32_t mode, kael_tensor_map** map) const {
        return kael_safetensors_load(path.data(), length_of(path), mode, map);
    }

    kael_tensor_map* map_ = nullptr;
    kael_tensor* tensor_ = nullptr;
    kael::test::TemporaryFolder folder_;
};

TEST_F(CTensorMap, RefusesNamesAndKeysThatAreThere) {
    ASSERT_EQ(add("a"), KAEL_OK);
    EXPECT_EQ(add("a"), KAEL_INVALID_ARGUMENT);
    EXPECT_THAT(last_message(), HasSubstr("the tensor name \"a\" is there already"));
    ASSERT_EQ(add_metadata("", ""), KAEL_OK);
    EXPECT_EQ(add_metadata("", "x"), KAEL_INVALID_ARGUMENT);
    EXPECT_THAT(last_message(), HasSubstr("the metadata key \"\" is there already"));
}

TEST_F(CTensorMap, RefusesANameThatALoadedFileHolds) {
    const std::string path =
        folder_
            .write("f", kael::test::safetensors_file(
                            R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1"))
            .string();
    kael_tensor_map* loaded = nullptr;
    ASSERT_EQ(load(path, KAEL_LOAD_COPY, &loaded), KAEL_OK) << last_message();
    EXPECT_EQ(kael_tensor_map_add(loaded, "a", 1, tensor_), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(kael_tensor_map_add(loaded, "b", 1, tensor_), KAEL_OK);
    EXPECT_EQ(kael_tensor_map_add(loaded, "b", 1, tensor_), KAEL_INVALID_ARGUMENT);
    kael_tensor_map_free(loaded);
}

TEST_F(CTensorMap, RefusesAnIndexOutsideIt) {
    ASSERT_EQ(add("a"), KAEL_OK);
    const char* name = nullptr;
    std::int64_t length = -1;
    kael_tensor* tensor = nullptr;
    for (const std::int64_t index : {std::int64_t{-1}, std::int64_t{1}, INT64_MAX, INT64_MIN}) {
        EXPECT_EQ(kael_tensor_map_get(map_, index, &name, &length, &tensor), KAEL_INVALID_ARGUMENT);
        EXPECT_THAT(last_message(), HasSubstr("expected at least 0 and less than 1"));
        EXPECT_EQ(kael_tensor_map_get_metadata(map_, index, &name, &length, &name, &length),
                  KAEL_INVALID_ARGUMENT);
    }
    EXPECT_EQ(name, nullptr); // results are written only on success
    EXPECT_EQ(length, -1);
    EXPECT_EQ(tensor, nullptr);
}

TEST_F(CTensorMap, TellsTheKindOfEachFailure) {
    kael_tensor_map* loaded = nullptr;
    const std::string missing = (folder_.path() / "none").string();
    EXPECT_EQ(load(missing, KAEL_LOAD_COPY, &loaded), KAEL_NOT_FOUND);
    EXPECT_THAT(last_message(), HasSubstr(missing));
    EXPECT_EQ(load(folder_.path().string(), KAEL_LOAD_COPY, &loaded), KAEL_IO_ERROR);
    EXPECT_EQ(load(folder_.write("short", "1234").string(), KAEL_LOAD_MAPPED, &loaded),
              KAEL_INVALID_FILE);
    const std::string unsupported =
        folder_
            .write("u16", kael::test::safetensors_file(
                              R"({"a":{"dtype":"U16","shape":[1],"data_offsets":[0,2]}})", "12"))
            .string();
    EXPECT_EQ(load(unsupported, KAEL_LOAD_COPY, &loaded), KAEL_UNSUPPORTED);
    EXPECT_EQ(load(missing, 2, &loaded), KAEL_INVALID_ARGUMENT);
    EXPECT_THAT(last_message(), HasSubstr("the load mode is 2"));
    EXPECT_EQ(load("", KAEL_LOAD_COPY, &loaded), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(load({"a\0b", 3}, KAEL_LOAD_COPY, &loaded), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(loaded, nullptr);
    const std::string nowhere = (folder_.path() / "none" / "f").string();
    EXPECT_EQ(kael_safetensors_save(map_, nowhere.data(), length_of(nowhere)), KAEL_NOT_FOUND);
}

TEST_F(CTensorMap, RefusesNullByName) {
    const char* text = nullptr;
    std::int64_t number = 0;
    kael_tensor* tensor = nullptr;
    const auto refused = [](kael_status status, const char* argument) {
        EXPECT_EQ(status, KAEL_INVALID_ARGUMENT);
        EXPECT_THAT(last_message(), HasSubstr(argument));
    };
    refused(kael_safetensors_load("f", 1, KAEL_LOAD_COPY, nullptr), "map");
    refused(kael_safetensors_load(nullptr, 1, KAEL_LOAD_COPY, &map_), "path");
    refused(kael_safetensors_load("f", -1, KAEL_LOAD_COPY, &map_), "path");
    refused(kael_safetensors_save(nullptr, "f", 1), "map");
    refused(kael_tensor_map_create(nullptr), "map");
    refused(kael_tensor_map_add(nullptr, "a", 1, tensor_), "map");
    refused(kael_tensor_map_add(map_, nullptr, 1, tensor_), "name");
    refused(kael_tensor_map_add(map_, "a", 1, nullptr), "tensor");
    refused(kael_tensor_map_add_metadata(map_, nullptr, 1, "v", 1), "key");
    refused(kael_tensor_map_add_metadata(map_, "k", 1, nullptr, 1), "value");
    refused(kael_tensor_map_size(nullptr, &number), "map");
    refused(kael_tensor_map_size(map_, nullptr), "count");
    refused(kael_tensor_map_get(nullptr, 0, &text, &number, &tensor), "map");
    refused(kael_tensor_map_get(map_, 0, nullptr, &number, &tensor), "name");
    refused(kael_tensor_map_get(map_, 0, &text, nullptr, &tensor), "name_length");
    refused(kael_tensor_map_get(map_, 0, &text, &number, nullptr), "tensor");
    refused(kael_tensor_map_metadata_size(map_, nullptr), "count");
    refused(kael_tensor_map_get_metadata(map_, 0, &text, &number, nullptr, &number), "value");
    kael_tensor_map_free(nullptr);
}

} // namespace
