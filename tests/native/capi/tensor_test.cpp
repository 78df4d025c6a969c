// The C interface of tensors and settings, called as a foreign program calls it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kael/kael.h"

namespace {

std::string last_message() {
    std::int64_t length = -1;
    const char* text = kael_last_error_message(&length);
    return {text, static_cast<std::size_t>(length)};
}

kael_tensor* make(const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
    kael_tensor* tensor = nullptr;
    EXPECT_EQ(kael_tensor_from_bytes(KAEL_FLOAT32, shape.data(),
                                     static_cast<std::int32_t>(shape.size()), values.data(),
                                     static_cast<std::int64_t>(values.size() * 4), &tensor),
              KAEL_OK)
        << last_message();
    return tensor;
}

TEST(CTensor, DescribesWhatItWasMadeFrom) {
    kael_tensor* tensor = make({2, 3}, {1, 2, 3, 4, 5, 6});
    kael_tensor_info info = {};
    info.struct_size = sizeof(info);
    ASSERT_EQ(kael_tensor_describe(tensor, &info), KAEL_OK);
    EXPECT_EQ(info.struct_size, static_cast<std::int64_t>(sizeof(info)));
    EXPECT_EQ(info.dtype, KAEL_FLOAT32);
    EXPECT_EQ(info.rank, 2);
    EXPECT_EQ(info.shape[0], 2);
    EXPECT_EQ(info.shape[1], 3);
    EXPECT_EQ(info.strides[0], 3);
    EXPECT_EQ(info.strides[1], 1);
    EXPECT_EQ(info.offset, 0);
    EXPECT_EQ(info.element_count, 6);
    EXPECT_EQ(info.byte_count, 24);
    EXPECT_EQ(info.is_contiguous, 1);
    EXPECT_EQ(info.is_read_only, 0);
    EXPECT_EQ(static_cast<const float*>(info.data)[5], 6.0F);
    kael_tensor_free(tensor);
}

TEST(CTensor, AScalarAndAnEmptyTensorNeedNoShapeAndNoBytes) {
    const float value = 3;
    kael_tensor* scalar = nullptr;
    ASSERT_EQ(kael_tensor_from_bytes(KAEL_FLOAT32, nullptr, 0, &value, 4, &scalar), KAEL_OK);
    kael_tensor* empty = nullptr;
    const std::int64_t zero = 0;
    ASSERT_EQ(kael_tensor_from_bytes(KAEL_INT8, &zero, 1, nullptr, 0, &empty), KAEL_OK);
    kael_tensor_info info = {};
    info.struct_size = sizeof(info);
    ASSERT_EQ(kael_tensor_describe(empty, &info), KAEL_OK);
    EXPECT_EQ(info.data, nullptr);
    kael_tensor_free(scalar);
    kael_tensor_free(empty);
    kael_tensor_free(nullptr);
}

TEST(CTensor, BadArgumentsAreNamedAndLeaveTheResultAlone) {
    const std::array<std::int64_t, 2> shape = {1, 1};
    const std::array<std::int64_t, 1> huge = {std::numeric_limits<std::int64_t>::max()};
    const float value = 1;
    auto* const untouched = reinterpret_cast<kael_tensor*>(std::uintptr_t{16});
    kael_tensor* tensor = untouched;
    const auto refused = [&](kael_dtype dtype, const std::int64_t* dimensions, std::int32_t rank,
                             const void* bytes, std::int64_t count) {
        EXPECT_EQ(kael_tensor_from_bytes(dtype, dimensions, rank, bytes, count, &tensor),
                  KAEL_INVALID_ARGUMENT);
        EXPECT_EQ(tensor, untouched);
        return last_message();
    };
    EXPECT_EQ(refused(KAEL_FLOAT32, nullptr, 2, &value, 4), "the argument shape is null");
    EXPECT_EQ(refused(KAEL_FLOAT32, shape.data(), 17, &value, 4),
              "the rank is 17, expected 0 to 16");
    EXPECT_EQ(refused(KAEL_FLOAT32, shape.data(), -1, &value, 4),
              "the rank is -1, expected 0 to 16");
    EXPECT_EQ(refused(9, shape.data(), 2, &value, 4), "the dtype 9 is unknown, expected 0 to 8");
    EXPECT_EQ(refused(KAEL_FLOAT32, shape.data(), 2, &value, 3),
              "3 bytes for shape [1, 1] and dtype float32, expected 4");
    EXPECT_EQ(refused(KAEL_FLOAT32, shape.data(), 2, nullptr, 4),
              "4 bytes at a null address, expected where they are");
    EXPECT_EQ(refused(KAEL_FLOAT32, huge.data(), 1, &value, -4),
              "the shape [9223372036854775807] is too large: its bytes do not fit in 64 bits, "
              "expected fewer than 2^63");
    EXPECT_EQ(kael_tensor_from_bytes(KAEL_FLOAT32, shape.data(), 2, &value, 4, nullptr),
              KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(last_message(), "the argument tensor is null");
}

TEST(CTensor, MoreThanThereIsMemoryForIsOutOfMemory) {
    // The sanitizers' allocators give up the process at sizes that they call impossible: one that
    // is refused before it reaches them.
    const std::int64_t length = std::int64_t{1} << 48;
    std::vector<std::byte> one(1);
    kael_tensor* tensor = nullptr;
    EXPECT_EQ(kael_tensor_from_bytes(KAEL_INT8, &length, 1, one.data(), length, &tensor),
              KAEL_OUT_OF_MEMORY);
    EXPECT_NE(last_message().find("281474976710656"), std::string::npos) << last_message();
}

TEST(CTensor, AnOlderCallerGetsTheFieldsThatItKnowsAndANewerOneKeepsItsOwn) {
    kael_tensor* tensor = make({1}, {1});
    struct Newer {
        kael_tensor_info known;
        std::int64_t added;
    } newer = {};
    newer.known.struct_size = sizeof(newer);
    newer.added = 77;
    ASSERT_EQ(kael_tensor_describe(tensor, &newer.known), KAEL_OK);
    EXPECT_EQ(newer.known.struct_size, static_cast<std::int64_t>(sizeof(newer)));
    EXPECT_EQ(newer.known.element_count, 1);
    EXPECT_EQ(newer.added, 77);

    kael_tensor_info forgotten = {};
    EXPECT_EQ(kael_tensor_describe(tensor, &forgotten), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(last_message().find("the struct_size of info is 0, expected at least "), 0U);
    EXPECT_EQ(kael_tensor_describe(tensor, nullptr), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(kael_tensor_describe(nullptr, &forgotten), KAEL_INVALID_ARGUMENT);
    kael_tensor_free(tensor);
}

TEST(CTensor, AHandleMayBeFreedOnAnotherThread) {
    kael_tensor* tensor = make({4}, {1, 2, 3, 4});
    std::thread([tensor] { kael_tensor_free(tensor); }).join();
}

TEST(CSettings, VersionsAreThoseOfTheHeader) {
    EXPECT_EQ(kael_abi_version(), KAEL_ABI_VERSION);
    EXPECT_STREQ(kael_version(), KAEL_VERSION_STRING);
    const std::string build = kael_build_info();
    EXPECT_TRUE(build.starts_with("x86-64-v") || build.starts_with("baseline")) << build;
    EXPECT_NE(build.find(", "), std::string::npos);
    EXPECT_STREQ(kael_build_info(), build.c_str());
}

TEST(CSettings, ThreadsAreSetReadAndChecked) {
    const std::int32_t before = kael_get_num_threads();
    EXPECT_EQ(kael_set_num_threads(3), KAEL_OK);
    EXPECT_EQ(kael_get_num_threads(), 3);
    EXPECT_EQ(kael_set_num_threads(0), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(last_message(), "0 threads, expected 1 to 256");
    EXPECT_EQ(kael_set_num_threads(257), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(kael_get_num_threads(), 3);
    EXPECT_EQ(kael_set_num_threads(before), KAEL_OK);
}

TEST(CErrors, AreKeptPerThreadAndInFull) {
    EXPECT_EQ(kael_set_num_threads(1000), KAEL_INVALID_ARGUMENT);
    std::thread([] {
        EXPECT_STREQ(kael_last_error(nullptr), "");
        EXPECT_EQ(kael_set_num_threads(-7), KAEL_INVALID_ARGUMENT);
        EXPECT_EQ(last_message(), "-7 threads, expected 1 to 256");
    }).join();
    EXPECT_EQ(last_message(), "1000 threads, expected 1 to 256");
    std::int64_t length = 0;
    const std::string text = kael_last_error(&length);
    EXPECT_EQ(static_cast<std::int64_t>(text.size()), length);
    EXPECT_TRUE(text.starts_with("kael error at native/src/base/threads.cpp:")) << text;
}

} // namespace
