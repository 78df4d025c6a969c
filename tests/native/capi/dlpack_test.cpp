// DLPack through the C interface, and the end of capsules, called as an interpreter calls it.
#include <cstdint>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "kael/dlpack.h"
#include "kael/kael.h"

namespace {

namespace dlpack = kael::dlpack;

std::string last_message() {
    std::int64_t length = -1;
    const char* text = kael_last_error_message(&length);
    return {text, static_cast<std::size_t>(length)};
}

kael_tensor* make_tensor() {
    const std::int64_t shape[] = {2};
    const float values[] = {1, 2};
    kael_tensor* tensor = nullptr;
    EXPECT_EQ(kael_tensor_from_bytes(KAEL_FLOAT32, shape, 1, values, 8, &tensor), KAEL_OK);
    return tensor;
}

// What an interpreter keeps of a capsule.
struct Capsule {
    const char* name;
    void* pointer;
};

int32_t is_valid(void* capsule, const char* name) {
    return std::strcmp(static_cast<Capsule*>(capsule)->name, name) == 0 ? 1 : 0;
}

void* pointer_of(void* capsule, const char* name) {
    EXPECT_EQ(is_valid(capsule, name), 1);
    return static_cast<Capsule*>(capsule)->pointer;
}

// Counts the calls of its deleter.
template <typename M>
struct Counted {
    M managed{};
    int given_back = 0;
    Counted() {
        managed.context = this;
        managed.deleter = [](M* self) { ++static_cast<Counted*>(self->context)->given_back; };
    }
};

TEST(CDlpack, GoesOutAndComesBack) {
    kael_tensor* const tensor = make_tensor();
    for (const std::uint8_t versioned : {std::uint8_t{0}, std::uint8_t{1}}) {
        void* managed = nullptr;
        ASSERT_EQ(kael_tensor_to_dlpack(tensor, versioned, 0, &managed), KAEL_OK);
        kael_tensor* again = nullptr;
        ASSERT_EQ(kael_tensor_from_dlpack(managed, versioned, &again), KAEL_OK);
        kael_tensor_info info = {};
        info.struct_size = sizeof(info);
        ASSERT_EQ(kael_tensor_describe(again, &info), KAEL_OK);
        EXPECT_EQ(static_cast<const float*>(info.data)[1], 2.0F);
        kael_tensor_free(again);
    }
    kael_tensor_free(tensor);
}

TEST(CDlpack, BadArgumentsAreNamedAndNothingIsKept) {
    kael_tensor* const tensor = make_tensor();
    void* managed = nullptr;
    EXPECT_EQ(kael_tensor_to_dlpack(nullptr, 1, 0, &managed), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(last_message(), "the argument tensor is null");
    EXPECT_EQ(kael_tensor_to_dlpack(tensor, 1, 0, nullptr), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(last_message(), "the argument managed is null");
    kael_tensor* again = nullptr;
    EXPECT_EQ(kael_tensor_from_dlpack(nullptr, 0, &again), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(last_message(), "from_dlpack: no tensor, expected one");
    ASSERT_EQ(kael_tensor_to_dlpack(tensor, 1, 0, &managed), KAEL_OK);
    EXPECT_EQ(kael_tensor_from_dlpack(managed, 1, nullptr), KAEL_INVALID_ARGUMENT);
    EXPECT_EQ(last_message(), "the argument tensor is null");
    kael_tensor_free(tensor);
}

TEST(CDlpack, ACapsuleThatNobodyConsumedGivesBackWhatItCarries) {
    Counted<dlpack::ManagedVersioned> versioned;
    Counted<dlpack::Managed> before;
    Capsule capsules[] = {{"dltensor_versioned", &versioned.managed},
                          {"dltensor", &before.managed},
                          {"used_dltensor_versioned", &versioned.managed},
                          {"used_dltensor", &before.managed},
                          {"dltensor", nullptr}};
    const auto end_all = [&] {
        for (Capsule& capsule : capsules) {
            kael_dlpack_end_capsule(&capsule);
        }
    };
    kael_dlpack_set_capsule_functions(nullptr, nullptr); // nothing is known of capsules
    end_all();
    EXPECT_EQ(versioned.given_back + before.given_back, 0);
    kael_dlpack_set_capsule_functions(is_valid, pointer_of);
    end_all();
    EXPECT_EQ(versioned.given_back, 1);
    EXPECT_EQ(before.given_back, 1);
    kael_dlpack_set_capsule_functions(nullptr, nullptr);
}

} // namespace
