// Two threads may use two handles at the same time, always; and the child of a fork may use kael.
#include <array>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kael/kael.h"

#include "capi/owned_handle.h"
#include "child_process.h"
#include "temporary_folder.h"
#include "text/tokenizer_folder.h"

namespace {

using kael::test::GptHandle;
using kael::test::MapHandle;
using kael::test::TensorHandle;
using kael::test::TokenizerHandle;

constexpr int kThreads = 4;
constexpr int kRounds = 10;
constexpr std::string_view kText = "the other";
using Ids = std::vector<std::int64_t>;

void call(kael_status status) {
    if (status != KAEL_OK) {
        throw std::runtime_error(kael_last_error_message(nullptr));
    }
}

std::int64_t length(std::string_view text) {
    return std::ssize(text);
}

// What an instance of everything gives, made, used and freed.
class CThreads : public testing::Test {
protected:
    void SetUp() override {
        call(kael_set_num_threads(2)); // the pool, for which the threads compete
        load(shared_tokenizer_);
    }
    void TearDown() override { call(kael_set_num_threads(count_)); }

    void load(TokenizerHandle& tokenizer) const {
        const std::string vocab = tokenizer_.vocab_path().string();
        const std::string merges = tokenizer_.merges_path().string();
        call(kael_tokenizer_load(vocab.data(), length(vocab), merges.data(), length(merges),
                                 &tokenizer));
    }

    static Ids encode(const kael_tokenizer* tokenizer) {
        Ids ids(kText.size());
        std::int64_t count = 0;
        call(kael_tokenizer_encode(tokenizer, kText.data(), length(kText), 0, ids.data(),
                                   std::ssize(ids), &count));
        ids.resize(static_cast<std::size_t>(count));
        return ids;
    }

    static void generate(GptHandle& gpt, const Ids& prompt) {
        kael_generate_options options;
        kael_generate_options_default(&options);
        options.max_tokens = 8;
        std::array<std::int64_t, 8> tokens = {};
        kael_generate_result result = {};
        result.struct_size = sizeof result;
        call(kael_gpt_generate(gpt, prompt.data(), std::ssize(prompt), &options, tokens.data(),
                               &result));
        if (result.count != options.max_tokens) {
            throw std::runtime_error("not every token was generated");
        }
    }

    static void create(GptHandle& gpt) {
        kael_gpt_config config;
        kael_gpt_config_default(&config);
        config.vocab_size = 259;
        config.max_positions = 16;
        config.layers = 1;
        config.heads = 2;
        config.dimension = 8;
        call(kael_gpt_create(&config, &gpt));
    }

    // The gradient of the sum of x * x, through a file.
    static float gradient_through(const std::filesystem::path& path) {
        const std::array<float, 1> number = {3};
        TensorHandle x;
        call(kael_tensor_from_bytes(KAEL_FLOAT32, nullptr, 0, number.data(), sizeof number, &x));
        MapHandle written;
        call(kael_tensor_map_create(&written));
        call(kael_tensor_map_add(written, "x", 1, x));
        const std::string name = path.string();
        call(kael_safetensors_save(written, name.data(), length(name)));
        MapHandle read;
        call(kael_safetensors_load(name.data(), length(name), KAEL_LOAD_COPY, &read));
        const char* key = nullptr;
        std::int64_t key_length = 0;
        TensorHandle leaf;
        call(kael_tensor_map_get(read, 0, &key, &key_length, &leaf));
        call(kael_tensor_set_requires_grad(leaf, 1));
        kael_argument argument = {};
        argument.kind = KAEL_ARGUMENT_TENSOR;
        argument.tensor = leaf;
        TensorHandle square;
        std::int64_t count = 0;
        call(kael_apply("square", 6, &argument, 1, &square, 1, &count));
        call(kael_backward(&square, nullptr, 1, 0));
        TensorHandle gradient;
        call(kael_tensor_grad(leaf, &gradient));
        kael_tensor_info info = {};
        info.struct_size = sizeof info;
        call(kael_tensor_describe(gradient, &info));
        return *static_cast<const float*>(info.data);
    }

    const std::int32_t count_ = kael_get_num_threads();
    const kael::text::BytePairs merges_ = {{"t", "h"}, {"th", "e"}};
    const kael::text::TokenizerFolder tokenizer_{kael::text::byte_vocabulary(merges_),
                                                 kael::text::merges_file(merges_)};
    const kael::test::TemporaryFolder folder_;
    TokenizerHandle shared_tokenizer_;
};

TEST_F(CThreads, EachMakesUsesAndFreesItsOwn) {
    const Ids ids = encode(shared_tokenizer_);
    std::vector<std::thread> threads;
    std::array<std::string, kThreads> errors;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            try {
                for (int round = 0; round < kRounds; ++round) {
                    TokenizerHandle tokenizer;
                    load(tokenizer);
                    GptHandle gpt;
                    create(gpt);
                    generate(gpt, ids);
                    const auto file = folder_.path() / std::to_string(thread);
                    if (encode(tokenizer) != ids || encode(shared_tokenizer_) != ids ||
                        gradient_through(file) != 6) {
                        throw std::runtime_error("another result than with one thread");
                    }
                }
            } catch (const std::exception& error) {
                errors[thread] = error.what();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(errors, (std::array<std::string, kThreads>{}));
}

TEST_F(CThreads, TheLastErrorIsThatOfItsThread) {
    ASSERT_EQ(kael_tensor_describe(nullptr, nullptr), KAEL_INVALID_ARGUMENT);
    const std::string own = kael_last_error_message(nullptr);
    std::string others = "none";
    std::thread([&] { others = kael_last_error_message(nullptr); }).join();
    EXPECT_EQ(others, "");
    EXPECT_EQ(kael_last_error_message(nullptr), own);
}

TEST_F(CThreads, TheChildOfAForkUsesWhatItsParentMade) { // B134
    const Ids ids = encode(shared_tokenizer_);
    GptHandle gpt;
    create(gpt);
    generate(gpt, ids); // on the pool, whose threads the child will not have
    EXPECT_EQ(kael::test::exit_code_of_child([&] {
                  try {
                      generate(gpt, ids);
                      const bool is_right = encode(shared_tokenizer_) == ids &&
                                            gradient_through(folder_.path() / "child") == 6;
                      return is_right ? 7 : 1;
                  } catch (const std::exception&) {
                      return 2;
                  }
              }),
              7);
    generate(gpt, ids);
}

} // namespace
