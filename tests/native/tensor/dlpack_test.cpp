// Memory that is shared with other libraries: who keeps it, and what is refused.
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "kael/dlpack.h"

#include "message_of.h"

namespace {

namespace dlpack = kael::dlpack;
using kael::DType;
using kael::Shape;
using kael::Tensor;
using kael::test::message_of;

// A library with one tensor, int32 [2, 2], that counts how often its deleter is called.
struct Producer {
    std::int32_t elements[4] = {1, 2, 3, 4};
    std::int64_t shape[2] = {2, 2};
    std::int64_t strides[2] = {1, 2};
    int given_back = 0;
    dlpack::ManagedVersioned managed{
        dlpack::kVersion,
        this,
        [](dlpack::ManagedVersioned* self) { ++static_cast<Producer*>(self->context)->given_back; },
        0,
        {elements, {dlpack::kCpu, 0}, 2, {0, 32, 1}, shape, strides, 0}};
};

TEST(Dlpack, SharesTheMemoryOfATensorUntilItIsGivenBack) {
    Tensor tensor = Tensor::zeros({3, 2}, DType::bfloat16);
    std::weak_ptr<kael::Storage> storage = tensor.storage();
    const Tensor part = tensor.slice(0, 1, 3).transpose(0, 1);
    dlpack::ManagedVersioned* const managed = dlpack::share_versioned(part, true);
    EXPECT_EQ(managed->version.major, 1U);
    EXPECT_EQ(managed->flags, dlpack::kCopied);
    EXPECT_EQ(managed->view.data, static_cast<const void*>(part.data_ptr_raw()));
    EXPECT_EQ(managed->view.byte_offset, 0U);
    EXPECT_EQ(Shape(managed->view.shape, managed->view.shape + 2), (Shape{2, 2}));
    EXPECT_EQ(Shape(managed->view.strides, managed->view.strides + 2), (Shape{1, 2}));
    EXPECT_EQ(managed->view.dtype.code, 4);
    EXPECT_EQ(managed->view.dtype.bits, 16);
    const Tensor again = dlpack::adopt(managed);
    EXPECT_EQ(again.data_ptr_raw(), part.data_ptr_raw());
    EXPECT_EQ(again.strides(), part.strides());
    EXPECT_GT(storage.use_count(), 1);
}

TEST(Dlpack, KeepsTheMemoryAfterTheTensorIsGone) {
    std::weak_ptr<kael::Storage> storage;
    dlpack::Managed* managed = nullptr;
    {
        const Tensor tensor = Tensor::zeros({2}, DType::float64);
        storage = tensor.storage();
        managed = dlpack::share(tensor);
    }
    EXPECT_FALSE(storage.expired());
    managed->deleter(managed);
    EXPECT_TRUE(storage.expired());
}

TEST(Dlpack, GivesForeignMemoryBackWithTheLastTensorOnIt) {
    Producer producer;
    {
        const Tensor view = dlpack::adopt(&producer.managed).select(0, 1);
        EXPECT_EQ(view.data<std::int32_t>()[0], 2);
        EXPECT_EQ(producer.given_back, 0);
    }
    EXPECT_EQ(producer.given_back, 1);
}

TEST(Dlpack, GivesForeignMemoryBackWhenItIsRefused) {
    Producer producer;
    producer.managed.version.major = 2;
    EXPECT_EQ(
        message_of([&] { return dlpack::adopt(&producer.managed); }, kael::ErrorCode::unsupported),
        "from_dlpack: version 2.0 of DLPack, expected 1.0 or a later one of it");
    producer.managed.version.major = 1;
    producer.strides[1] = -2;
    EXPECT_EQ(message_of([&] { return dlpack::adopt(&producer.managed); }),
              "from_dlpack: the stride -2 in dimension 1, expected 0 or more: share a copy");
    EXPECT_EQ(producer.given_back, 2);
    dlpack::ManagedVersioned* const nothing = nullptr;
    EXPECT_EQ(message_of([&] { return dlpack::adopt(nothing); }),
              "from_dlpack: no tensor, expected one");
}

TEST(Dlpack, SharesNoUndefinedTensor) {
    const char* const message = "to_dlpack: an undefined tensor, expected a defined one";
    EXPECT_EQ(message_of([] { return dlpack::share(Tensor()); }), message);
    EXPECT_EQ(message_of([] { return dlpack::share_versioned(Tensor(), false); }), message);
}

TEST(Dlpack, NeedsNoDeleter) {
    Producer producer;
    producer.managed.deleter = nullptr;
    EXPECT_EQ(dlpack::adopt(&producer.managed).numel(), 4);
}

TEST(Dlpack, CannotSayBeforeVersion1ThatMemoryIsReadOnly) {
    Producer producer;
    producer.managed.flags = dlpack::kReadOnly;
    const Tensor tensor = dlpack::adopt(&producer.managed);
    EXPECT_EQ(message_of([&] { return dlpack::share(tensor); }),
              "to_dlpack: the tensor's memory is read-only, which DLPack before version 1 cannot "
              "say, expected memory that may be written: share a copy");
    dlpack::ManagedVersioned* const shared = dlpack::share_versioned(tensor, false);
    EXPECT_EQ(shared->flags, dlpack::kReadOnly);
    shared->deleter(shared);
}

} // namespace
