// kael.h: each call answers with a status, and a handle that it did not give need not be freed.
#include <array>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include "kael/allocator.h"
#include "kael/kael.h"

#include "capi/owned_handle.h"
#include "digest.h"
#include "fault_injection.h"
#include "files.h"

namespace {

using kael::test::Digest;
using kael::test::expect_clean_failures;
using kael::test::Fault;
using kael::test::GptHandle;
using kael::test::MapHandle;
using kael::test::TensorHandle;
using kael::test::TokenizerHandle;

void call(kael_status status) {
    if (status != KAEL_OK) {
        throw kael::test::Refused{status};
    }
}

std::int64_t length(std::string_view text) {
    return std::ssize(text);
}

// Of a contiguous tensor.
std::uint64_t digest_of(const kael_tensor* tensor) {
    kael_tensor_info info = {};
    info.struct_size = sizeof info;
    call(kael_tensor_describe(tensor, &info));
    return Digest().add(info.data, info.byte_count).value();
}

class CInterfaceFaults : public testing::Test {
protected:
    // What this thread keeps for the text of its last error is there from now on.
    void SetUp() override {
        const std::string path(1000, 'a');
        kael_tensor_map* map = nullptr;
        ASSERT_NE(kael_safetensors_load(path.data(), length(path), KAEL_LOAD_COPY, &map), KAEL_OK);
    }

    static void expect_clean(std::initializer_list<Fault> faults,
                             const std::function<std::uint64_t()>& body) {
        for (const Fault fault : faults) {
            SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)));
            expect_clean_failures(fault, [&] {
                kael::release_cached_memory();
                const std::uint64_t result = body();
                kael::release_cached_memory();
                return result;
            });
            if (HasFatalFailure()) {
                return;
            }
        }
    }

    const kael::test::Files files_;
    const std::string tensors_ = files_.tensors.string();
    const std::string written_ = files_.written.string();
    const std::string vocab_ = files_.vocab.string();
    const std::string merges_ = files_.merges.string();
    const std::string model_ = files_.model.string();
};

constexpr std::initializer_list<Fault> kMemory = {Fault::allocation, Fault::no_memory};
constexpr std::initializer_list<Fault> kFiles = {Fault::allocation, Fault::no_memory,
                                                 Fault::open_refused, Fault::size_refused};

kael_argument argument(kael_tensor* tensor) {
    kael_argument argument = {};
    argument.kind = KAEL_ARGUMENT_TENSOR;
    argument.tensor = tensor;
    return argument;
}

TEST_F(CInterfaceFaults, OfTensorsAndGradients) {
    expect_clean(kMemory, [] {
        const std::array<float, 6> numbers = {1, 2, 3, 4, 5, 6};
        const std::array<std::int64_t, 2> shape = {2, 3};
        const std::array<std::int64_t, 2> other_shape = {3, 2};
        TensorHandle x;
        TensorHandle y;
        TensorHandle product;
        TensorHandle gradient;
        call(kael_tensor_from_bytes(KAEL_FLOAT32, shape.data(), 2, numbers.data(), sizeof numbers,
                                    &x));
        call(kael_tensor_set_requires_grad(x, 1));
        call(kael_tensor_view(x, other_shape.data(), 2, &y));
        const std::array<kael_argument, 2> arguments = {argument(x), argument(y)};
        std::int64_t count = 0;
        call(kael_apply("matmul", 6, arguments.data(), 2, &product, 1, &count));
        const std::array<float, 4> ones = {1, 1, 1, 1};
        const std::array<std::int64_t, 2> square = {2, 2};
        TensorHandle seed;
        call(kael_tensor_from_bytes(KAEL_FLOAT32, square.data(), 2, ones.data(), sizeof ones,
                                    &seed));
        call(kael_backward(&product, &seed, 1, 0));
        const char* text = nullptr;
        std::int64_t text_length = 0;
        call(kael_autograd_graph(product, &text, &text_length));
        call(kael_explain(product, &text, &text_length));
        call(kael_tensor_grad(x, &gradient));
        return digest_of(gradient);
    });
}

// The results, and the gradient of x, of an operator on x [2, 2] or on x and x.
std::uint64_t apply(const std::string& name, std::int64_t argument_count) {
    const std::array<float, 4> numbers = {0.5F, 0.25F, 0.75F, 0.125F};
    const std::array<std::int64_t, 2> shape = {2, 2};
    TensorHandle x;
    call(kael_tensor_from_bytes(KAEL_FLOAT32, shape.data(), 2, numbers.data(), sizeof numbers, &x));
    call(kael_tensor_set_requires_grad(x, name.ends_with('_') ? 0 : 1));
    const std::array<kael_argument, 2> arguments = {argument(x), argument(x)};
    TensorHandle result;
    std::int64_t count = 0;
    call(kael_apply(name.data(), std::ssize(name), arguments.data(), argument_count, &result, 1,
                    &count));
    std::uint8_t is_recorded = 0;
    std::uint8_t is_leaf = 0;
    if (count == 1) {
        call(kael_tensor_gradient_state(result, &is_recorded, &is_leaf));
    }
    TensorHandle gradient;
    if (is_recorded != 0) {
        TensorHandle square;
        TensorHandle total;
        const kael_argument of_result = argument(result);
        call(kael_apply("square", 6, &of_result, 1, &square, 1, &count));
        const kael_argument of_square = argument(square);
        call(kael_apply("sum", 3, &of_square, 1, &total, 1, &count));
        call(kael_backward(&total, nullptr, 1, 0));
        call(kael_tensor_grad(x, &gradient));
    }
    return digest_of(gradient != nullptr ? gradient : count == 1 ? result : x);
}

TEST_F(CInterfaceFaults, OfEveryOperatorThatTakesSquareMatrices) {
    std::int64_t operator_count = 0;
    kael_operator_count(&operator_count);
    std::int64_t tried = 0;
    for (std::int64_t index = 0; index < operator_count; ++index) {
        const char* text = nullptr;
        std::int64_t text_length = 0;
        call(kael_operator_name(index, &text, &text_length));
        const std::string name(text, static_cast<std::size_t>(text_length));
        for (const std::int64_t argument_count : {1, 2}) {
            try {
                apply(name, argument_count);
            } catch (const kael::test::Refused&) {
                continue; // it takes other arguments, or has more results
            }
            SCOPED_TRACE(name + " of " + std::to_string(argument_count));
            expect_clean({Fault::allocation}, [&] { return apply(name, argument_count); });
            ASSERT_FALSE(HasFailure());
            ++tried;
        }
    }
    EXPECT_GT(tried, 100);
}

TEST_F(CInterfaceFaults, OfNamedTensors) {
    expect_clean(
        {Fault::allocation, Fault::no_memory, Fault::open_refused, Fault::size_refused,
         Fault::read_refused, Fault::read_at_the_end, Fault::read_short, Fault::write_refused,
         Fault::write_short, Fault::sync_refused},
        [&] {
            MapHandle map;
            call(kael_safetensors_load(tensors_.data(), length(tensors_), KAEL_LOAD_COPY, &map));
            call(kael_safetensors_save(map, written_.data(), length(written_)));
            TensorHandle tensor;
            const char* name = nullptr;
            std::int64_t name_length = 0;
            call(kael_tensor_map_get(map, 1, &name, &name_length, &tensor));
            return digest_of(tensor);
        });
}

// A name that was refused for want of memory can be added again.
TEST_F(CInterfaceFaults, OfAddingToNamedTensors) {
    expect_clean(kMemory, [] {
        const std::int64_t size = 1;
        const float number = 1;
        TensorHandle tensor;
        call(kael_tensor_from_bytes(KAEL_FLOAT32, &size, 1, &number, sizeof number, &tensor));
        MapHandle map;
        call(kael_tensor_map_create(&map));
        kael_status failure = KAEL_OK;
        const auto try_twice = [&](auto add) {
            kael_status status = add();
            if (status == KAEL_OUT_OF_MEMORY) {
                failure = status;
                status = add();
            }
            EXPECT_TRUE(status == KAEL_OK || status == KAEL_OUT_OF_MEMORY)
                << kael_last_error_message(nullptr);
        };
        for (const std::string_view name : {"of the first one", "of the second one", "third"}) {
            try_twice([&] { return kael_tensor_map_add(map, name.data(), length(name), tensor); });
            try_twice([&] {
                return kael_tensor_map_add_metadata(map, name.data(), length(name), "value", 5);
            });
        }
        call(failure);
        std::int64_t count = 0;
        call(kael_tensor_map_size(map, &count));
        return static_cast<std::uint64_t>(count);
    });
}

TEST_F(CInterfaceFaults, OfATokenizer) {
    expect_clean(kFiles, [&] {
        TokenizerHandle tokenizer;
        call(kael_tokenizer_load(vocab_.data(), length(vocab_), merges_.data(), length(merges_),
                                 &tokenizer));
        std::array<std::int64_t, 16> ids = {};
        std::int64_t count = 0;
        call(kael_tokenizer_encode(tokenizer, "the other", 9, 0, ids.data(), ids.size(), &count));
        std::array<char, 16> bytes = {};
        std::int64_t byte_count = 0;
        call(kael_tokenizer_decode(tokenizer, ids.data(), count, bytes.data(), bytes.size(),
                                   &byte_count));
        return Digest().add(bytes.data(), byte_count).value();
    });
}

// What a callback has seen of a generation.
struct Announced {
    Digest digest;
    std::int64_t count = 0;

    static std::int32_t add(void* user_data, std::int64_t token) {
        auto& announced = *static_cast<Announced*>(user_data);
        announced.digest.add(&token, sizeof token);
        ++announced.count;
        return KAEL_TOKEN_CONTINUE;
    }
};

TEST_F(CInterfaceFaults, OfAModel) {
    expect_clean({Fault::allocation, Fault::no_memory, Fault::open_refused, Fault::size_refused,
                  Fault::read_refused, Fault::map_refused},
                 [&] {
                     GptHandle gpt;
                     call(kael_gpt_load(model_.data(), length(model_), KAEL_FLOAT32, &gpt));
                     Announced announced;
                     kael_generate_options options;
                     kael_generate_options_default(&options);
                     options.max_tokens = 12;
                     options.has_seed = 1;
                     options.on_token = Announced::add;
                     options.user_data = &announced;
                     const std::array<std::int64_t, 3> prompt = {1, 2, 3};
                     std::array<std::int64_t, 12> tokens = {};
                     kael_generate_result result = {};
                     result.struct_size = sizeof result;
                     const kael_status status = kael_gpt_generate(gpt, prompt.data(), prompt.size(),
                                                                  &options, tokens.data(), &result);
                     // Whatever has happened, that many have been announced.
                     if (result.count != announced.count) {
                         throw kael::test::Refused{KAEL_INTERNAL};
                     }
                     call(status);
                     return announced.digest.value();
                 });
}

TEST_F(CInterfaceFaults, LeaveAnErrorItsStatusAndSomeText) {
    expect_clean(kMemory, [] {
        const std::string path = "/" + std::string(100, 'a');
        kael_status status = KAEL_OK;
        bool has_text = false;
        std::thread([&] { // which has kept no text yet, and so needs memory for it
            kael_tensor_map* map = nullptr;
            status = kael_safetensors_load(path.data(), length(path), KAEL_LOAD_COPY, &map);
            has_text = *kael_last_error(nullptr) != 0 && *kael_last_error_message(nullptr) != 0;
        })
            .join();
        if (status == KAEL_OUT_OF_MEMORY) {
            throw std::bad_alloc();
        }
        return static_cast<std::uint64_t>(status == KAEL_NOT_FOUND && has_text);
    });
}

TEST_F(CInterfaceFaults, OfATokenRing) {
    expect_clean({Fault::allocation, Fault::no_memory, Fault::event_refused}, [] {
        kael_token_ring* ring = nullptr;
        call(kael_token_ring_create(4, &ring));
        kael_token_ring_push(ring, 7);
        kael_token_ring_finish(ring);
        std::array<kael_token_record, 4> records = {};
        std::int64_t count = 0;
        std::uint8_t done = 0;
        const kael_status status =
            kael_token_ring_drain(ring, records.data(), records.size(), &count, &done);
        kael_token_ring_free(ring);
        call(status);
        return static_cast<std::uint64_t>(records[0].token) + done;
    });
}

} // namespace
