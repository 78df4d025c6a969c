// GPT-2: configuration, weights, logits and generation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kael/random.h"
#include "kael/tensor.h"
#include "kael/threads.h"

namespace kael::gpt {

// What the matrices of a model are kept and multiplied in. All but float32 are for inference alone.
// docs/formats/packed-weights.md gives them bit by bit. The values
// are those of kael_weight_format in kael.h.
enum class WeightFormat : std::int32_t {
    float32 = 0,
    bfloat16 = 1,
    int8 = 2, // whole numbers of 8 bits with a scale for each 64
    int4 = 3, // and of 4 bits with a scale for each 32
};
[[nodiscard]] std::string_view name(WeightFormat format) noexcept;

// The values are those of kael_activation in kael.h.
enum class Activation : std::int32_t { gelu_tanh = 0, gelu_erf = 1, relu = 2 };

// GPT-2 small by default.
struct Config {
    std::int64_t vocab_size = 50257;
    std::int64_t max_positions = 1024;
    std::int64_t layers = 12;
    std::int64_t heads = 12;
    std::int64_t dimension = 768;
    std::int64_t inner_dimension = 0; // 0 means 4 * dimension
    double layer_norm_epsilon = 1e-5;
    Activation activation = Activation::gelu_tanh;
    bool scale_attention = true;                   // by 1 / sqrt(dimension / heads)
    bool scale_attention_by_inverse_layer = false; // and by 1 / (layer + 1)
    bool tie_word_embeddings = true;

    [[nodiscard]] std::int64_t head_dimension() const { return dimension / heads; }
    [[nodiscard]] std::int64_t mlp_dimension() const {
        return inner_dimension != 0 ? inner_dimension : 4 * dimension;
    }

    // Throws for sizes that are not positive, that do not divide or whose products overflow.
    void validate() const;
};

// config.json of a GPT-2 checkpoint. Keys that change the result are honoured or refused by name,
// never ignored.
[[nodiscard]] Config read_config(const std::filesystem::path& path);

// All float32, contiguous; of a model in another format the matrices are undefined. Linear weights
// are [in, out], as GPT-2's files have them (y = x W + b).
struct LayerWeights {
    Tensor ln_1_weight, ln_1_bias;
    Tensor attn_qkv_weight, attn_qkv_bias;   // [D, 3D], [3D]
    Tensor attn_proj_weight, attn_proj_bias; // [D, D], [D]
    Tensor ln_2_weight, ln_2_bias;
    Tensor mlp_fc_weight, mlp_fc_bias;     // [D, M], [M]
    Tensor mlp_proj_weight, mlp_proj_bias; // [M, D], [D]
};
struct Weights {
    Tensor token_embedding;    // [V, D]
    Tensor position_embedding; // [P, D]
    std::vector<LayerWeights> layers;
    Tensor ln_f_weight, ln_f_bias;
    Tensor head; // [V, D]; the same tensor as token_embedding when tied
};

// The value of `name` is passed once per intermediate result, in order of computation
// (docs/activations.md).
using ActivationObserver = FunctionRef<void(std::string_view name, const Tensor& value)>;

enum class FinishReason : std::int32_t { length = 0, stop_token = 1, callback = 2, stopped = 3 };
enum class TokenAnswer : std::int32_t { failed = -1, stop = 0, proceed = 1 };

struct LogitBias {
    std::int64_t token;
    double bias;
};

// How a token is picked from logits; the steps in this order, the defaults leave each out.
struct SamplingOptions {
    // Added to the logits of single tokens: of -1e9 a token is never picked. In the range of
    // float32; a token may stand here twice.
    std::vector<LogitBias> logit_bias;
    // Logits of tokens in the prompt or among those generated: divided by it where they are 0 or
    // more, else multiplied. Above 0.
    double repetition_penalty = 1.0;
    // Taken from the logits of tokens that were generated: once, and as often as they were.
    double presence_penalty = 0.0;
    double frequency_penalty = 0.0;
    // 0: argmax, ties to the lowest id, and what follows does not matter. Else at least 0.001.
    double temperature = 1.0;
    // Only the so many most likely; 0, or at least the vocabulary size: all. Here and below, of
    // equally likely ones those of lower ids first.
    std::int64_t top_k = 0;
    // Of those, the fewest whose probabilities sum to at least so much: 0 (the most likely) to 1
    // (all).
    double top_p = 1.0;
    // Of those, the ones at least so many times as likely as the most likely: 0 (all) to 1.
    double min_p = 0.0;
};

// The logarithm of the probability that the model itself gives to a token: before biases,
// penalties, temperature and filters.
struct TokenLogprob {
    std::int64_t token;
    double logprob;
};
// Fills rows where the vocabulary has fewer tokens than were asked for.
constexpr TokenLogprob kNoTokenLogprob = {-1, -std::numeric_limits<double>::infinity()};

struct GenerateOptions : SamplingOptions {
    std::int64_t max_tokens = 64;
    std::optional<std::uint64_t> seed;
    std::vector<std::int64_t> stop_tokens; // each in the vocabulary
    bool use_cache = true;                 // false recomputes every position for every token
    // Whether the ids with which the prompt begins as those of the call before did (its prompt and
    // its new tokens) keep what was computed for them: the same bits, sooner. Never for
    // prompt_logprobs, which ask about every position, and never once somebody has a parameter that
    // can be written: then they may have changed in between.
    bool reuse_prefix = true;
    // At most so many tokens (0 to 64) are guessed from what followed earlier where the text was
    // the same as at its end, and tried in one pass. The answer is the same to the bit; it comes
    // sooner where the text repeats itself. 0: none.
    std::int64_t speculate = 0;
    // Called with each new token. May be empty. An exception passes through generate unchanged.
    std::optional<FunctionRef<TokenAnswer(std::int64_t)>> on_token;
    // Asked between the layers of a prompt and between tokens. May be empty. Must not throw.
    std::optional<FunctionRef<bool()>> should_stop;
    // Where rows of 1 + top_logprobs entries go: the token itself, then the most likely ones in
    // order. Null where none are wanted. `logprobs` has room for max_tokens rows, each of which is
    // there before its token is announced; `prompt_logprobs` for the prompt but its first token,
    // which nothing comes before, and is there before the first token.
    TokenLogprob* logprobs = nullptr;
    TokenLogprob* prompt_logprobs = nullptr; // the prompt must fit the context
    std::int64_t top_logprobs = 0;
};

struct GenerateResult {
    std::vector<std::int64_t> tokens;
    FinishReason finish_reason = FinishReason::length;
    double prompt_seconds = 0; // to the first token
    double decode_seconds = 0; // from the first token to the end
    std::uint64_t seed = 0;
    std::int64_t cached_tokens = 0;  // of the prompt, for which reuse_prefix saved the work
    std::int64_t guessed_tokens = 0; // new ones that were guessed right, and took no pass
};

class Decoder;
class PackedWeights;

// One call at a time.
class GPT {
public:
    explicit GPT(const Config& config); // random weights from the stream of manual_seed
    GPT(const Config& config, Weights weights);
    ~GPT();
    GPT(GPT&&) noexcept;
    GPT& operator=(GPT&&) noexcept;

    // A folder with model.safetensors (or an index and its shards) and, where there is one,
    // config.json. As float32, float32 weights stay mapped and others are widened; for another
    // format all are read and packed, and the file is no longer needed.
    [[nodiscard]] static GPT from_pretrained(const std::filesystem::path& folder,
                                             WeightFormat format = WeightFormat::float32);
    // Replaces the weights, under the same configuration and in the same format.
    void load_weights(const std::filesystem::path& path);

    [[nodiscard]] const Config& config() const noexcept { return config_; }
    [[nodiscard]] const Weights& weights() const noexcept {
        parameters_given_ = true;
        return weights_;
    }
    [[nodiscard]] WeightFormat weight_format() const noexcept;
    [[nodiscard]] std::int64_t parameter_count() const;

    // Every parameter under its name in GPT-2's files; a tied head once. The model's own tensors:
    // they may need gradients, and what is written into them is what it computes with. Those of a
    // mapped file are read-only. An error for a model that is not in float32.
    [[nodiscard]] NamedTensors parameters() const;

    // Copies the parameters of a mapped file, all or none, to memory that may be written, which
    // training does. They stay the same tensors. An error for a model that is not in float32.
    void make_parameters_writable();

    // For training: from now on logits() sets each element of the embeddings, and of what attention
    // and MLP add to them, to 0 with a probability of `share`, from 0 to below 1, and scales the
    // others by 1 / (1 - share). Each call draws a seed from the stream of manual_seed. Nothing
    // else drops out, and at first, with a share of 0, nothing does.
    void set_dropout(double share);

    // ids row-major [batch, length] to float32 [batch, length, vocab_size]. Recorded, and slower,
    // where a parameter needs a gradient and this thread records; as slow with dropout.
    [[nodiscard]] Tensor logits(const std::int64_t* ids, std::int64_t batch, std::int64_t length);
    // One forward pass over ids [length] that shows every intermediate; the same bits as logits.
    void forward(const std::int64_t* ids, std::int64_t length, ActivationObserver observer);

    [[nodiscard]] GenerateResult generate(const std::int64_t* ids, std::int64_t count,
                                          const GenerateOptions& options);

private:
    GPT(const Config& config, Weights weights, std::unique_ptr<const PackedWeights> packed);
    // `tensors` of a checkpoint, in place; the strings are for messages.
    [[nodiscard]] static GPT assemble(const Config& config, WeightFormat format,
                                      const NamedTensors& tensors, const std::string& origin,
                                      const std::string& config_origin);
    void check_is_float32() const;
    [[nodiscard]] bool parameters_may_change() const;

    Config config_;
    Weights weights_;
    std::unique_ptr<const PackedWeights> packed_; // null: float32
    std::unique_ptr<Decoder> decoder_;
    double dropout_ = 0;
    mutable bool parameters_given_ = true; // somebody else has, or had, handles of them
};

// The text so far, of which penalties take notice.
struct TokenHistory {
    std::span<const std::int64_t> prompt;
    std::span<const std::int64_t> generated;
};

// Picks a token by `options`. What they leave is drawn from by `draw`, a number in [0, 1), which
// cuts the sum of probabilities in float64 in order of id. A token of probability 0 is never
// picked; NaN, or nothing finite, is an error.
[[nodiscard]] std::int64_t sample_next(const float* logits, std::int64_t count,
                                       const SamplingOptions& options, double draw,
                                       const TokenHistory& history = {});

} // namespace kael::gpt
