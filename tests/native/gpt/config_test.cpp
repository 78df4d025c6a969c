// Configurations: what config.json may say, what it may not, and the limits of a model.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/gpt.h"

#include "message_of.h"
#include "temporary_folder.h"

namespace kael::gpt {

namespace {

class ConfigFile : public ::testing::Test {
protected:
    Config read(const std::string& text) {
        std::ofstream(path_) << text;
        return read_config(path_);
    }

    // The message without the path that it begins with.
    std::string refusal(const std::string& text,
                        ErrorCode expected_code = ErrorCode::invalid_file) {
        try {
            (void)read(text);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), expected_code) << error.message();
            EXPECT_TRUE(error.message().starts_with(path_.string() + ": ")) << error.message();
            EXPECT_EQ(error.message().find('\n'), std::string::npos);
            return error.message().substr(path_.string().size() + 2);
        }
        return "accepted";
    }

    const test::TemporaryFolder folder_;
    const std::filesystem::path path_ = folder_.path() / "config.json";
};

TEST_F(ConfigFile, AnEmptyObjectIsGpt2Small) {
    const Config config = read("{}");
    EXPECT_EQ(config.vocab_size, 50257);
    EXPECT_EQ(config.max_positions, 1024);
    EXPECT_EQ(config.layers, 12);
    EXPECT_EQ(config.heads, 12);
    EXPECT_EQ(config.dimension, 768);
    EXPECT_EQ(config.mlp_dimension(), 3072);
    EXPECT_EQ(config.layer_norm_epsilon, 1e-5);
    EXPECT_EQ(config.activation, Activation::gelu_tanh);
    EXPECT_TRUE(config.scale_attention);
    EXPECT_FALSE(config.scale_attention_by_inverse_layer);
    EXPECT_TRUE(config.tie_word_embeddings);
}

TEST_F(ConfigFile, EveryKeyThatChangesTheResultIsHonoured) {
    const Config config = read(R"({
        "model_type": "gpt2", "vocab_size": 300, "n_positions": 77, "n_ctx": 77, "n_embd": 48, "n_layer": 3,
        "n_head": 6, "n_inner": 100, "layer_norm_epsilon": 0.001, "activation_function": "relu",
        "scale_attn_weights": false, "scale_attn_by_inverse_layer_idx": true, "tie_word_embeddings": false})");
    EXPECT_EQ(config.vocab_size, 300);
    EXPECT_EQ(config.max_positions, 77);
    EXPECT_EQ(config.layers, 3);
    EXPECT_EQ(config.heads, 6);
    EXPECT_EQ(config.dimension, 48);
    EXPECT_EQ(config.mlp_dimension(), 100);
    EXPECT_EQ(config.layer_norm_epsilon, 0.001);
    EXPECT_EQ(config.activation, Activation::relu);
    EXPECT_FALSE(config.scale_attention);
    EXPECT_TRUE(config.scale_attention_by_inverse_layer);
    EXPECT_FALSE(config.tie_word_embeddings);
    EXPECT_EQ(read(R"({"n_ctx": 5})").max_positions, 5);
    EXPECT_EQ(read(R"({"n_inner": null})").mlp_dimension(), 3072);
    EXPECT_EQ(read(R"({"layer_norm_epsilon": 1})").layer_norm_epsilon, 1);
    const std::pair<const char*, Activation> names[] = {
        {"gelu_new", Activation::gelu_tanh},
        {"gelu_pytorch_tanh", Activation::gelu_tanh},
        {"gelu", Activation::gelu_erf},
        {"relu", Activation::relu},
    };
    for (const auto& [name, activation] : names) {
        EXPECT_EQ(read(R"({"activation_function": ")" + std::string(name) + "\"}").activation,
                  activation);
    }
}

TEST_F(ConfigFile, WhatDoesNotConcernInferenceIsIgnored) {
    EXPECT_EQ(
        read(
            R"({"bos_token_id": 50256, "eos_token_id": 70000, "pad_token_id": null, "vocab_size": 53,
        "attn_pdrop": 0.1, "use_cache": true, "torch_dtype": "float16", "is_decoder": true,
        "summary_use_proj": true, "task_specific_params": {"text-generation": {"do_sample": true}},
        "reorder_and_upcast_attn": false, "add_cross_attention": false, "pruned_heads": {},
        "quantization_config": null, "something_new": [1, 2]})")
            .vocab_size,
        53);
}

// KB104 and its like: what would change the result is never ignored.
TEST_F(ConfigFile, WhatIsNotImplementedIsRefusedByName) {
    const auto refused = [&](const std::string& text) {
        return refusal(text, ErrorCode::unsupported);
    };
    EXPECT_EQ(refused(R"({"reorder_and_upcast_attn": true})"),
              "\"reorder_and_upcast_attn\" is true, which is not supported; expected it to be "
              "absent or off");
    EXPECT_EQ(refused(R"({"add_cross_attention": true})"),
              "\"add_cross_attention\" is true, which is not supported; expected it to be absent "
              "or off");
    EXPECT_EQ(refused(R"({"pruned_heads": {"0": [1]}})"),
              "\"pruned_heads\" is an object, which is not supported; expected it to be absent or "
              "off");
    EXPECT_EQ(refused(R"({"model_type": "llama"})"),
              "\"model_type\" is \"llama\", expected \"gpt2\"");
    EXPECT_EQ(refused(R"({"activation_function": "swish"})"),
              "\"activation_function\" is \"swish\", expected \"gelu_new\", "
              "\"gelu_pytorch_tanh\", \"gelu\" or \"relu\"");
}

TEST_F(ConfigFile, WrongTypesAndRangesAreNamed) {
    const std::string integer = "expected an integer from 1 to 2147483648";
    EXPECT_EQ(refusal(R"({"n_head": 0})"), "\"n_head\" is 0, " + integer);
    EXPECT_EQ(refusal(R"({"n_head": -3})"), "\"n_head\" is -3, " + integer);
    EXPECT_EQ(refusal(R"({"n_head": 12.0})"),
              "\"n_head\" is 12, " + integer + ", without fraction and exponent");
    EXPECT_EQ(refusal(R"({"n_head": "12"})"), "\"n_head\" is \"12\", " + integer);
    EXPECT_EQ(refusal(R"({"n_head": null})"), "\"n_head\" is null, " + integer);
    EXPECT_EQ(refusal(R"({"n_head": true})"), "\"n_head\" is true, " + integer);
    EXPECT_EQ(refusal(R"({"vocab_size": 18446744073709551615})"),
              "\"vocab_size\" is 18446744073709551615, " + integer);
    EXPECT_EQ(refusal(R"({"n_inner": [4]})"), "\"n_inner\" is an array, " + integer);
    EXPECT_EQ(refusal(R"({"layer_norm_epsilon": "1e-5"})"),
              "\"layer_norm_epsilon\" is \"1e-5\", expected a number");
    EXPECT_EQ(refusal(R"({"layer_norm_epsilon": 0})"),
              "layer_norm_epsilon is 0, expected 1.2e-38 to 1");
    EXPECT_EQ(refusal(R"({"layer_norm_epsilon": 1e-60})"),
              "layer_norm_epsilon is 1e-60, expected 1.2e-38 to 1");
    EXPECT_EQ(refusal(R"({"scale_attn_weights": 1})"),
              "\"scale_attn_weights\" is 1, expected true or false");
    EXPECT_EQ(refusal(R"({"tie_word_embeddings": null})"),
              "\"tie_word_embeddings\" is null, expected true or false");
    EXPECT_EQ(refusal(R"({"reorder_and_upcast_attn": "yes"})"),
              "\"reorder_and_upcast_attn\" is \"yes\", expected true or false");
    EXPECT_EQ(refusal(R"({"activation_function": 1})"),
              "\"activation_function\" is 1, expected a string");
    EXPECT_EQ(refusal(R"({"n_positions": 10, "n_ctx": 20})"),
              "\"n_ctx\" is 20, but \"n_positions\" is 10, expected the same value");
    EXPECT_EQ(refusal(R"({"n_embd": 100, "n_head": 7})"),
              "dimension (n_embd) 100 is not a multiple of heads (n_head) 7");
    EXPECT_EQ(refusal(R"({"n_layer": 5000})"), "layers (n_layer) is 5000, expected 1 to 4096");
}

TEST_F(ConfigFile, AFileThatIsNoObjectOrNotThereIsNamed) {
    std::ofstream(path_) << "[1]";
    const auto message = [&](const std::filesystem::path& path, ErrorCode code) {
        return test::message_of([&] { (void)read_config(path); }, code);
    };
    EXPECT_EQ(message(path_, ErrorCode::invalid_file),
              path_.string() + " is an array, expected an object");
    EXPECT_NE(message(folder_.path() / "absent.json", ErrorCode::not_found).find("absent.json"),
              std::string::npos);
}

// The limits keep every product of sizes within int64.
TEST(Config, SizesThatNoModelHasAreRefused) {
    const auto refusal = [](void (*change)(Config&)) {
        Config config;
        change(config);
        return test::message_of([&] { config.validate(); });
    };
    EXPECT_EQ(refusal([](Config&) {}), "nothing was thrown");
    EXPECT_EQ(refusal([](Config& c) { c.vocab_size = 0; }),
              "vocab_size is 0, expected 1 to 2147483648");
    EXPECT_EQ(refusal([](Config& c) { c.max_positions = -1; }),
              "max_positions (n_positions) is -1, expected 1 to 2147483648");
    EXPECT_EQ(refusal([](Config& c) { c.layers = 0; }),
              "layers (n_layer) is 0, expected 1 to 4096");
    EXPECT_EQ(refusal([](Config& c) { c.dimension = std::int64_t{1} << 40; }),
              "dimension (n_embd) is 1099511627776, expected 1 to 16777216");
    EXPECT_EQ(refusal([](Config& c) { c.heads = 769; }),
              "heads (n_head) is 769, expected 1 to 768");
    EXPECT_EQ(refusal([](Config& c) { c.heads = 7; }),
              "dimension (n_embd) 768 is not a multiple of heads (n_head) 7");
    EXPECT_EQ(refusal([](Config& c) { c.inner_dimension = -4; }),
              "inner_dimension (n_inner) is -4, expected 0 to 67108864");
    EXPECT_EQ(refusal([](Config& c) { c.layer_norm_epsilon = 0; }),
              "layer_norm_epsilon is 0, expected 1.2e-38 to 1");
    EXPECT_EQ(refusal([](Config& c) { c.layer_norm_epsilon = std::nan(""); }),
              "layer_norm_epsilon is nan, expected 1.2e-38 to 1");
    EXPECT_EQ(refusal([](Config& c) { c.activation = static_cast<Activation>(3); }),
              "activation is 3, expected 0, 1 or 2");
    EXPECT_EQ(refusal([](Config& c) {
                  c.vocab_size = c.max_positions = std::int64_t{1} << 31;
                  c.dimension = std::int64_t{1} << 24;
                  c.layers = 4096;
                  c.heads = 1;
              }),
              "a model of vocab_size 2147483648, max_positions 2147483648, layers 4096, dimension "
              "16777216, inner_dimension 67108864 is larger than 2^56 numbers");
}

} // namespace

} // namespace kael::gpt
