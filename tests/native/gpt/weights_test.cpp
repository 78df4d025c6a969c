// Checkpoints: the names and layouts that are read, and what is said of those that do not fit.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/gpt.h"
#include "kael/safetensors.h"

#include "gpt/weights.h"
#include "message_of.h"
#include "small_models.h"
#include "temporary_folder.h"

namespace kael::gpt {

namespace {

Config config() {
    Config config;
    config.vocab_size = 11;
    config.max_positions = 6;
    config.layers = 2;
    config.heads = 2;
    config.dimension = 4;
    return config;
}

// A checkpoint under GPT-2's names, each preceded by `prefix`.
NamedTensors named(const Weights& weights, const std::string& prefix) {
    NamedTensors tensors = {{prefix + "wte.weight", weights.token_embedding},
                            {prefix + "wpe.weight", weights.position_embedding}};
    for (std::size_t index = 0; index < weights.layers.size(); ++index) {
        const LayerWeights& layer = weights.layers[index];
        const std::string start = prefix + "h." + std::to_string(index) + ".";
        tensors.emplace_back(start + "ln_1.weight", layer.ln_1_weight);
        tensors.emplace_back(start + "ln_1.bias", layer.ln_1_bias);
        tensors.emplace_back(start + "attn.c_attn.weight", layer.attn_qkv_weight);
        tensors.emplace_back(start + "attn.c_attn.bias", layer.attn_qkv_bias);
        tensors.emplace_back(start + "attn.c_proj.weight", layer.attn_proj_weight);
        tensors.emplace_back(start + "attn.c_proj.bias", layer.attn_proj_bias);
        tensors.emplace_back(start + "ln_2.weight", layer.ln_2_weight);
        tensors.emplace_back(start + "ln_2.bias", layer.ln_2_bias);
        tensors.emplace_back(start + "mlp.c_fc.weight", layer.mlp_fc_weight);
        tensors.emplace_back(start + "mlp.c_fc.bias", layer.mlp_fc_bias);
        tensors.emplace_back(start + "mlp.c_proj.weight", layer.mlp_proj_weight);
        tensors.emplace_back(start + "mlp.c_proj.bias", layer.mlp_proj_bias);
    }
    tensors.emplace_back(prefix + "ln_f.weight", weights.ln_f_weight);
    tensors.emplace_back(prefix + "ln_f.bias", weights.ln_f_bias);
    return tensors;
}

std::vector<float> logits(const Config& of, const Weights& weights) {
    GPT model(of, weights);
    const std::int64_t ids[] = {3, 10, 0, 7};
    const Tensor result = model.logits(ids, 1, 4);
    return {result.data<float>(), result.data<float>() + result.numel()};
}

class Checkpoint : public ::testing::Test {
protected:
    [[nodiscard]] std::vector<float> taken() const {
        Weights weights = take_weights(config_, tensors_, "FILE", "CONFIG");
        widen_weights(config_, weights);
        return logits(config_, weights);
    }
    [[nodiscard]] std::vector<float> expected() const { return logits(config_, weights_); }

    [[nodiscard]] std::string refusal() const {
        try {
            (void)take_weights(config_, tensors_, "FILE", "CONFIG");
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::invalid_file);
            const std::string start = "FILE does not fit CONFIG: ";
            EXPECT_TRUE(error.message().starts_with(start)) << error.message();
            return error.message().substr(start.size());
        }
        return "accepted";
    }

    Tensor& tensor(const std::string& name) {
        const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                        [&](const auto& entry) { return entry.first == name; });
        return found->second;
    }
    void remove(const std::string& name) {
        std::erase_if(tensors_, [&](const auto& entry) { return entry.first == name; });
    }
    void untie() {
        config_.tie_word_embeddings = false;
        weights_ = testing::spread_weights(config_, 3);
        tensors_ = named(weights_, "");
    }

    Config config_ = config();
    Weights weights_ = testing::spread_weights(config_, 3);
    NamedTensors tensors_ = named(weights_, "");
};

// KB100
TEST_F(Checkpoint, NamesMayHaveThePrefixOrNot) {
    EXPECT_EQ(taken(), expected());
    tensors_ = named(weights_, "transformer.");
    EXPECT_EQ(taken(), expected());
    std::reverse(tensors_.begin(), tensors_.end());
    EXPECT_EQ(taken(), expected());
}

TEST_F(Checkpoint, Float32WeightsAreSharedAndNotCopied) {
    const Weights weights = take_weights(config_, tensors_, "FILE", "CONFIG");
    EXPECT_EQ(weights.token_embedding.data_ptr_raw(), tensor("wte.weight").data_ptr_raw());
    EXPECT_EQ(weights.layers[1].mlp_fc_weight.data_ptr_raw(),
              tensor("h.1.mlp.c_fc.weight").data_ptr_raw());
}

TEST_F(Checkpoint, HalfPrecisionIsWidened) {
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
        NamedTensors rounded;
        for (auto& [name, tensor] : tensors_) {
            rounded.emplace_back(name, tensor.to(dtype).to(DType::float32));
            tensor = tensor.to(dtype);
        }
        const std::vector<float> actual = taken();
        tensors_ = rounded;
        EXPECT_EQ(actual, taken());
    }
}

// KB101: exactly these names; "attn.bias" as a part of a name would take attn.c_attn.bias as well.
TEST_F(Checkpoint, MaskBuffersAreLeftOut) {
    for (const char* prefix : {"h.0.", "transformer.h.1."}) {
        tensors_.emplace_back(prefix + std::string("attn.bias"),
                              Tensor::zeros({1, 1, 6, 6}, DType::boolean));
        tensors_.emplace_back(prefix + std::string("attn.masked_bias"),
                              Tensor::zeros({}, DType::float32));
    }
    EXPECT_EQ(taken(), expected());
    remove("h.1.attn.c_attn.bias");
    EXPECT_EQ(refusal(), "\"h.1.attn.c_attn.bias\" is missing, expected [12]");
}

TEST_F(Checkpoint, OtherBuffersAreNotPartOfTheModel) {
    for (const char* name :
         {"h.2.attn.bias", "h.x.attn.bias", "h.0.attn.bias2", "h.-1.attn.bias", "attn.bias",
          "h.0.crossattention.bias", "h.18446744073709551616.attn.bias"}) {
        tensors_.emplace_back(name, Tensor::zeros({2}, DType::float32));
        EXPECT_EQ(refusal(), std::string("\"") + name + "\" [2] is not part of the model");
        remove(name);
    }
}

TEST_F(Checkpoint, AHeadOfItsOwnIsUsedWhereItIsNotTied) {
    untie();
    tensors_.emplace_back("lm_head.weight", weights_.head);
    EXPECT_EQ(taken(), expected());
    remove("lm_head.weight");
    EXPECT_EQ(refusal(), "\"lm_head.weight\" is missing, expected [11, 4]");
}

TEST_F(Checkpoint, ATiedHeadMayBeThereAsWell) {
    tensors_.emplace_back("lm_head.weight", weights_.token_embedding.clone());
    EXPECT_EQ(taken(), expected());
    tensor("lm_head.weight").mutable_data<float>()[7] += 1;
    EXPECT_EQ(refusal(), "\"lm_head.weight\" differs from \"wte.weight\", expected one matrix for "
                         "both since tie_word_embeddings is true");
}

// KB020
TEST_F(Checkpoint, EitherNameOfATiedPairWillDo) {
    remove("wte.weight");
    EXPECT_EQ(refusal(), "\"wte.weight\" is missing, expected [11, 4]");
    tensors_.emplace_back("lm_head.weight", weights_.token_embedding);
    EXPECT_EQ(taken(), expected());
}

TEST_F(Checkpoint, AnUntiedHeadDoesNotStandForTheEmbedding) {
    untie();
    tensors_.emplace_back("lm_head.weight", weights_.head);
    remove("wte.weight");
    EXPECT_EQ(refusal(), "\"wte.weight\" is missing, expected [11, 4]");
}

TEST_F(Checkpoint, EverythingThatDoesNotFitIsNamed) {
    remove("h.0.ln_2.bias");
    tensor("h.1.attn.c_attn.weight") = Tensor::zeros({12, 4}, DType::float32); // transposed
    tensor("wpe.weight") = Tensor::zeros({6, 4}, DType::float64);
    tensors_.emplace_back("score.weight", Tensor::zeros({2, 4}, DType::float32));
    EXPECT_EQ(refusal(), "\"wpe.weight\" is float64, expected float32, float16 or bfloat16; "
                         "\"h.0.ln_2.bias\" is missing, expected [4]; "
                         "\"h.1.attn.c_attn.weight\" is [12, 4], expected [4, 12]; "
                         "\"score.weight\" [2, 4] is not part of the model");
}

TEST_F(Checkpoint, ALongListIsCut) {
    tensors_.clear();
    const std::string message = refusal();
    EXPECT_TRUE(message.starts_with("\"wte.weight\" is missing, expected [11, 4]; ")) << message;
    EXPECT_TRUE(message.ends_with("; and 20 more")) << message;
}

TEST_F(Checkpoint, ANameThatIsGivenTwiceIsRefused) {
    tensors_.emplace_back("transformer.wte.weight", weights_.token_embedding);
    EXPECT_EQ(refusal(), "\"wte.weight\" is given both with and without \"transformer.\"");
}

TEST(Weights, OfTheWrongShapeAreRefused) {
    Weights weights = testing::spread_weights(config(), 3);
    weights.layers[1].ln_2_bias = Tensor::zeros({5}, DType::float32);
    EXPECT_EQ(test::message_of([&] { (void)GPT(config(), weights); }),
              "\"h.1.ln_2.bias\" is float32 [5], expected contiguous float32 [4]");
}

TEST(Weights, ThatAreNotThoseOfTheConfigurationAreRefused) {
    const Weights weights = testing::spread_weights(config(), 3);
    const auto refusal = [](const Weights& given) {
        return test::message_of([&] { (void)GPT(config(), given); });
    };
    Weights fewer = weights;
    fewer.layers.pop_back();
    EXPECT_EQ(refusal(fewer), "there are weights for 1 layers, expected 2");
    Weights without = weights;
    without.layers[1].ln_2_bias = Tensor();
    EXPECT_EQ(refusal(without), "\"h.1.ln_2.bias\" is undefined, expected contiguous float32 [4]");
    Weights untied = weights;
    untied.head = weights.token_embedding.clone();
    EXPECT_EQ(refusal(untied), "the head is a tensor of its own, expected the token embedding, "
                               "which it is tied to");
}

TEST(Weights, AreCountedOnceWhereTheHeadIsTied) {
    const Config tied = config();
    EXPECT_EQ(GPT(tied, testing::spread_weights(tied, 1)).parameter_count(),
              11 * 4 + 6 * 4 + 2 * (4 * 12 + 12 + 4 * 4 + 4 + 4 * 16 + 16 + 16 * 4 + 4 + 16) + 8);
    Config untied = config();
    untied.tie_word_embeddings = false;
    EXPECT_EQ(GPT(untied, testing::spread_weights(untied, 1)).parameter_count(),
              GPT(tied, testing::spread_weights(tied, 1)).parameter_count() + 44);
}

class Folder : public ::testing::Test {
protected:
    void write(const char* name, const std::string& text) { folder_.write(name, text); }

    std::string refusal() {
        try {
            (void)GPT::from_pretrained(path_);
        } catch (const Error& error) {
            return error.message();
        }
        return "accepted";
    }

    const test::TemporaryFolder folder_;
    const std::filesystem::path& path_ = folder_.path();
    const Weights weights_ = testing::spread_weights(config(), 3);
    const std::string config_text_ =
        R"({"vocab_size": 11, "n_positions": 6, "n_layer": 2, "n_head": 2, "n_embd": 4})";
};

TEST_F(Folder, WithConfigurationAndWeightsIsAModel) {
    write("config.json", config_text_);
    io::write_safetensors(path_ / "model.safetensors", named(weights_, "transformer."), {});
    GPT model = GPT::from_pretrained(path_);
    EXPECT_EQ(logits(model.config(), model.weights()), logits(config(), weights_));
    EXPECT_TRUE(model.weights().layers[0].mlp_fc_weight.storage()->is_read_only()); // mapped
}

TEST_F(Folder, WhoseConfigurationDisagreesNamesBoth) {
    write("config.json", R"({"vocab_size": 11, "n_positions": 6, "n_layer": 2, "n_head": 2,
                             "n_embd": 4, "n_inner": 20})");
    io::write_safetensors(path_ / "model.safetensors", named(weights_, ""), {});
    EXPECT_EQ(refusal(), "the checkpoint in " + path_.string() + " does not fit " +
                             (path_ / "config.json").string() +
                             ": \"h.0.mlp.c_fc.weight\" is [4, 16], expected [4, 20]; "
                             "\"h.0.mlp.c_fc.bias\" is [16], expected [20]; "
                             "\"h.0.mlp.c_proj.weight\" is [16, 4], expected [20, 4]; "
                             "\"h.1.mlp.c_fc.weight\" is [4, 16], expected [4, 20]; "
                             "\"h.1.mlp.c_fc.bias\" is [16], expected [20]; "
                             "\"h.1.mlp.c_proj.weight\" is [16, 4], expected [20, 4]");
}

TEST_F(Folder, WithoutAConfigurationIsTakenForGpt2Small) {
    io::write_safetensors(path_ / "model.safetensors", named(weights_, ""), {});
    EXPECT_TRUE(refusal().starts_with(
        "the checkpoint in " + path_.string() +
        " does not fit GPT-2 small, which is assumed without a config.json: \"wte.weight\" is "
        "[11, 4], expected [50257, 768]; "))
        << refusal();
}

// GPT-2 small would be a wrong guess.
TEST_F(Folder, WhoseConfigurationIsALinkThatLeadsNowhereIsRefused) {
    std::filesystem::create_symlink("gone", path_ / "config.json");
    io::write_safetensors(path_ / "model.safetensors", named(weights_, ""), {});
    EXPECT_TRUE(refusal().starts_with("cannot open " + (path_ / "config.json").string() +
                                      ", a link to gone: "))
        << refusal();
}

TEST_F(Folder, WithoutWeightsOrAbsentIsNamed) {
    EXPECT_NE(refusal().find("model.safetensors"), std::string::npos) << refusal();
    std::filesystem::remove_all(path_);
    EXPECT_NE(refusal().find(path_.string()), std::string::npos) << refusal();
}

TEST_F(Folder, LoadWeightsReplacesThemOrChangesNothing) {
    const std::filesystem::path good = path_ / "good.safetensors";
    const std::filesystem::path bad = path_ / "bad.safetensors";
    io::write_safetensors(good, named(weights_, ""), {});
    io::write_safetensors(bad, {{"wte.weight", weights_.token_embedding}}, {});
    GPT model(config(), testing::spread_weights(config(), 99));
    const std::vector<float> before = logits(model.config(), model.weights());
    EXPECT_THROW(model.load_weights(bad), Error);
    EXPECT_EQ(logits(model.config(), model.weights()), before);
    model.load_weights(good);
    EXPECT_EQ(logits(model.config(), model.weights()), logits(config(), weights_));
}

} // namespace

} // namespace kael::gpt
