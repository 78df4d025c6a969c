#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/allocator.h"
#include "kael/error.h"
#include "kael/tensor.h"

#include "message_of.h"

namespace {

using kael::DType;
using kael::Shape;
using kael::Storage;
using kael::Tensor;
using kael::test::message_of;

constexpr std::array<DType, 9> kTypes = {DType::float32,  DType::float64, DType::float16,
                                         DType::bfloat16, DType::int64,   DType::int32,
                                         DType::int8,     DType::uint8,   DType::boolean};
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(DType, SizesAndNames) {
    const std::array<std::int64_t, 9> sizes = {4, 8, 2, 2, 8, 4, 1, 1, 1};
    const std::array<std::string, 9> names = {"float32", "float64", "float16", "bfloat16", "int64",
                                              "int32",   "int8",    "uint8",   "bool"};
    for (std::size_t i = 0; i < kTypes.size(); ++i) {
        EXPECT_EQ(kael::item_size(kTypes[i]), sizes[i]);
        EXPECT_EQ(kael::name(kTypes[i]), names[i]);
        EXPECT_EQ(kael::is_floating_point(kTypes[i]), i < 4);
    }
}

TEST(DType, AnUnknownValueIsRefused) {
    for (const int value : {-1, 9, 1000}) {
        EXPECT_THROW(static_cast<void>(kael::item_size(static_cast<DType>(value))), kael::Error);
        EXPECT_THROW(static_cast<void>(Tensor::zeros({1}, static_cast<DType>(value))), kael::Error);
    }
}

TEST(Shape, CountsAndStridesAreTheRowMajorOnes) {
    EXPECT_EQ(kael::element_count({}), 1);
    EXPECT_EQ(kael::element_count({2, 3, 4}), 24);
    EXPECT_EQ(kael::byte_count({2, 3, 4}, DType::float64), 192);
    EXPECT_EQ(kael::contiguous_strides({2, 3, 4}), (Shape{12, 4, 1}));
    EXPECT_EQ(kael::contiguous_strides({}), Shape{});
    EXPECT_EQ(kael::contiguous_strides({2, 0, 4}), (Shape{4, 4, 1}));
    EXPECT_EQ(kael::to_string(Shape{}), "[]");
    EXPECT_EQ(kael::to_string({2, 3}), "[2, 3]");
}

TEST(Shape, KB067ProductsThatDoNotFitAreErrors) {
    const std::int64_t two_to_62 = std::int64_t{1} << 62;
    EXPECT_EQ(kael::element_count({65536, 65536}), std::int64_t{1} << 32);
    EXPECT_THROW(static_cast<void>(kael::element_count(Shape(16, 65536))), kael::Error);
    EXPECT_THROW(static_cast<void>(kael::element_count({4294967296, 4294967296})), kael::Error);
    EXPECT_EQ(kael::element_count({two_to_62}), two_to_62);
    EXPECT_THROW(static_cast<void>(kael::byte_count({two_to_62}, DType::float32)), kael::Error);
    EXPECT_THROW(static_cast<void>(kael::byte_count({4611686018427387906}, DType::float32)),
                 kael::Error);
    EXPECT_THROW(static_cast<void>(Tensor::zeros({4294967296, 4294967296}, DType::int8)),
                 kael::Error);
}

TEST(Shape, KB068AZeroDoesNotHideTheOverflowOfOtherDimensions) {
    for (const Shape& shape : {Shape{kMost, 2, 0}, Shape{0, kMost, 2}, Shape{kMost, 0, kMost}}) {
        EXPECT_THROW(static_cast<void>(kael::element_count(shape)), kael::Error);
        EXPECT_THROW(static_cast<void>(kael::contiguous_strides(shape)), kael::Error);
        EXPECT_THROW(static_cast<void>(Tensor::zeros(shape, DType::int8)), kael::Error);
    }
    const Tensor tensor = Tensor::zeros({0, std::numeric_limits<std::int32_t>::max()}, DType::int8);
    EXPECT_EQ(tensor.numel(), 0);
    EXPECT_EQ(tensor.strides(), (Shape{std::numeric_limits<std::int32_t>::max(), 1}));
}

TEST(Shape, NegativeDimensionsAndTooManyAreRefusedByName) {
    try {
        static_cast<void>(kael::element_count({2, -1}));
        FAIL();
    } catch (const kael::Error& error) {
        EXPECT_EQ(error.message(),
                  "the shape [2, -1] has a negative dimension, expected sizes of 0 or more");
    }
    EXPECT_EQ(kael::element_count(Shape(16, 1)), 1);
    EXPECT_THROW(static_cast<void>(kael::element_count(Shape(17, 1))), kael::Error);
    EXPECT_THROW(static_cast<void>(Tensor::empty(Shape(1'000'000, 1), DType::int8)), kael::Error);
}

TEST(Tensor, AFreshTensorIsContiguousAndItsMemoryReturnsWithTheLastView) {
    const std::int64_t before = kael::allocator_statistics().allocated_bytes;
    {
        Tensor view;
        {
            Tensor tensor = Tensor::zeros({3, 5}, DType::float64);
            EXPECT_TRUE(tensor.is_contiguous());
            EXPECT_EQ(tensor.nbytes(), 120);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data<double>()) % 64, 0U);
            EXPECT_EQ(std::accumulate(tensor.data<double>(), tensor.data<double>() + 15, 0.0), 0.0);
            *tensor.mutable_data<double>() = 7;
            view = tensor.slice(0, 0, 1);
        }
        EXPECT_EQ(*view.data<double>(), 7);
        EXPECT_GT(kael::allocator_statistics().allocated_bytes, before);
    }
    EXPECT_EQ(kael::allocator_statistics().allocated_bytes, before);
}

TEST(Tensor, BytesMustBeExactlyAsManyAsTheShapeNeeds) {
    const std::array<std::int32_t, 3> values = {1, -2, 3};
    const Tensor tensor = Tensor::from_bytes(values.data(), 12, {3}, DType::int32);
    EXPECT_EQ(tensor.data<std::int32_t>()[1], -2);
    try {
        static_cast<void>(Tensor::from_bytes(values.data(), 12, {4}, DType::int32));
        FAIL();
    } catch (const kael::Error& error) {
        EXPECT_EQ(error.message(), "12 bytes for shape [4] and dtype int32, expected 16");
    }
    EXPECT_THROW(static_cast<void>(Tensor::from_bytes(nullptr, 4, {1}, DType::int32)), kael::Error);
    EXPECT_THROW(static_cast<void>(Tensor::from_bytes(values.data(), -4, {1}, DType::int32)),
                 kael::Error);
    EXPECT_EQ(Tensor::from_bytes(nullptr, 0, {0}, DType::int32).numel(), 0);
    EXPECT_EQ(Tensor::from_bytes(values.data(), 4, {}, DType::int32).rank(), 0);
}

TEST(Tensor, ElementsAreReadAsTheTypeThatTheyHaveAndNoOther) {
    const Tensor tensor = Tensor::zeros({2}, DType::float32);
    EXPECT_NO_THROW(static_cast<void>(tensor.data<float>()));
    EXPECT_THROW(static_cast<void>(tensor.data<std::int32_t>()), kael::Error) << "the size agrees";
    EXPECT_EQ(message_of([&] { static_cast<void>(tensor.data<double>()); }),
              "a tensor of dtype float32 read as another type, expected its own");
    EXPECT_THROW(static_cast<void>(Tensor().data<float>()), kael::Error);
    EXPECT_NO_THROW(static_cast<void>(Tensor::zeros({1}, DType::bfloat16).data<std::uint16_t>()));
    EXPECT_NO_THROW(static_cast<void>(Tensor::zeros({1}, DType::boolean).data<std::uint8_t>()));
}

TEST(Tensor, AForeignViewMustLieInsideItsStorage) {
    const std::shared_ptr<Storage> storage = Storage::allocate(48); // 12 floats
    const auto view = [&](Shape shape, Shape strides, std::int64_t offset) {
        return Tensor::from_storage(storage, DType::float32, std::move(shape), std::move(strides),
                                    offset);
    };
    EXPECT_EQ(view({3, 4}, {4, 1}, 0).numel(), 12);
    EXPECT_EQ(view({2, 2}, {1, 1}, 9).numel(), 4) << "elements may share memory";
    EXPECT_EQ(view({5, 12}, {0, 1}, 0).numel(), 60);
    EXPECT_EQ(view({}, {}, 11).numel(), 1);
    EXPECT_EQ(view({0}, {kMost}, 12).numel(), 0);
    EXPECT_EQ(view({1}, {kMost}, 11).unsqueeze(0).slice(1, 1, 1).numel(), 0);

    EXPECT_EQ(message_of([&] { static_cast<void>(view({3, 4}, {4, 1}, 1)); }),
              "a tensor of dtype float32, shape [3, 4], strides [4, 1] and offset 1 leaves its "
              "storage, expected to stay within its 12 elements");
    EXPECT_THROW(view({13}, {1}, 0), kael::Error);
    EXPECT_THROW(view({2}, {12}, 0), kael::Error);
    EXPECT_THROW(view({}, {}, 12), kael::Error);
    EXPECT_EQ(message_of([&] { static_cast<void>(view({0}, {1}, 13)); }),
              "an empty tensor of dtype float32 at element 13 of its storage, expected 0 to 12");
    EXPECT_THROW(view({1}, {1}, -1), kael::Error);
    EXPECT_EQ(message_of([&] { static_cast<void>(view({2}, {-1}, 1)); }),
              "the strides [-1] with offset 1 have a negative one, expected 0 or more");
    EXPECT_THROW(view({2, 2}, {1}, 0), kael::Error);
    EXPECT_THROW(view({3}, {kMost}, 0), kael::Error) << "2 * stride does not fit";
    EXPECT_THROW(view({2, 2}, {kMost, kMost}, 0), kael::Error) << "the sum does not fit";
    EXPECT_THROW(view({kMost, 2}, {0, 0}, 0), kael::Error);
    EXPECT_EQ(message_of([] {
                  static_cast<void>(Tensor::from_storage(nullptr, DType::int8, {1}, {1}, 0));
              }),
              "a tensor without storage, expected one");
}

TEST(Tensor, BorrowedMemoryIsKeptAliveByItsTensors) {
    auto owner = std::make_shared<std::vector<float>>(4, 2.5F);
    const std::weak_ptr<std::vector<float>> watch = owner;
    auto* data = reinterpret_cast<std::byte*>(owner->data());
    Tensor tensor = Tensor::from_storage(
        Storage::borrow(data, 16, std::move(owner), true, "a test"), DType::float32, {4}, {1}, 0);
    const Tensor view = tensor.slice(0, 3, 4);
    tensor = Tensor();
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(*view.data<float>(), 2.5F);
    EXPECT_EQ(view.clone().storage()->origin(), "");
    const auto refusal = [](std::byte* memory, std::int64_t bytes, std::shared_ptr<void> keeper) {
        return message_of([&] {
            static_cast<void>(Storage::borrow(memory, bytes, std::move(keeper), false, "a test"));
        });
    };
    EXPECT_EQ(refusal(data, 16, nullptr),
              "borrow: memory without an owner, expected one that keeps it alive");
    EXPECT_EQ(refusal(data, -1, std::make_shared<int>()),
              "borrow: a storage of -1 bytes, expected 0 or more");
    EXPECT_EQ(refusal(nullptr, 4, std::make_shared<int>()),
              "borrow: a storage of 4 bytes without memory, expected its address");
}

TEST(Tensor, BorrowedMemoryIsReleasedWithTheLastView) {
    auto owner = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = owner;
    auto* data = reinterpret_cast<std::byte*>(owner.get());
    {
        const std::shared_ptr<Storage> storage =
            Storage::borrow(data, sizeof(int), std::move(owner), false, "a test");
        EXPECT_FALSE(watch.expired());
    }
    EXPECT_TRUE(watch.expired());
}

TEST(Tensor, ReadOnlyMemoryCanBeReadAndCopiedButNotWritten) {
    static std::int32_t value = 5;
    Tensor tensor = Tensor::from_storage(
        Storage::borrow(reinterpret_cast<std::byte*>(&value), 4, std::make_shared<int>(0), true,
                        "mapped from model.safetensors at byte 8192"),
        DType::int32, {1}, {1}, 0);
    EXPECT_EQ(*tensor.data<std::int32_t>(), 5);
    try {
        static_cast<void>(tensor.mutable_data<std::int32_t>());
        FAIL();
    } catch (const kael::Error& error) {
        EXPECT_EQ(error.message(),
                  "the tensor's memory is read-only (mapped from model.safetensors at byte 8192), "
                  "expected memory that may be written: write into a clone");
    }
    Tensor copy = tensor.clone();
    *copy.mutable_data<std::int32_t>() = 6;
    EXPECT_EQ(value, 5);
}

TEST(Tensor, KB016AMisalignedAddressIsRefusedAsATypedTensor) {
    auto owner = std::make_shared<std::array<std::byte, 16>>();
    std::byte* odd = owner->data() + 1;
    const std::shared_ptr<Storage> storage = Storage::borrow(odd, 12, owner, false, "a test");
    EXPECT_EQ(message_of([&] {
                  static_cast<void>(Tensor::from_storage(storage, DType::float32, {1}, {1}, 0));
              }),
              "a tensor of dtype float32 on memory that is not aligned, expected an address that "
              "is a multiple of 4");
    EXPECT_NO_THROW(static_cast<void>(Tensor::from_storage(storage, DType::int8, {1}, {1}, 0)));
}

TEST(Tensor, CopiesOfEveryElementSizeKeepTheBytes) {
    for (const DType dtype : kTypes) {
        const std::int64_t item = kael::item_size(dtype);
        std::vector<unsigned char> bytes(static_cast<std::size_t>(6 * item));
        std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
        const Tensor tensor = Tensor::from_bytes(bytes.data(), 6 * item, {2, 3}, dtype);
        const Tensor back = tensor.transpose(0, 1).clone().transpose(0, 1).contiguous();
        EXPECT_NE(back.storage(), tensor.storage());
        EXPECT_EQ(std::memcmp(back.data_ptr_raw(), bytes.data(), bytes.size()), 0)
            << kael::name(dtype);
    }
}

TEST(Tensor, AContiguousTensorIsItsOwnContiguousCopy) {
    const Tensor row = Tensor::zeros({4, 3}, DType::float32).select(0, 2);
    EXPECT_EQ(row.contiguous().storage(), row.storage());
    EXPECT_EQ(row.contiguous().offset(), 6);
    EXPECT_NE(row.clone().storage(), row.storage());
    EXPECT_EQ(row.clone().offset(), 0);
}

} // namespace
