// GPT-2: models, logits, generation, sampling.
#include "kael/gpt.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/structs.h"
#include "capi/weight_format.h"

using kael::gpt::GPT;

struct kael_gpt {
    GPT model;
};

namespace {

// sizeof each struct in the first header of this version of the interface.
constexpr std::size_t kSmallestConfig = sizeof(kael_gpt_config);
constexpr std::size_t kSmallestOptions = offsetof(kael_generate_options, speculate);
constexpr std::size_t kSmallestResult = offsetof(kael_generate_result, cached_tokens);

kael_gpt_config to_c(const kael::gpt::Config& config) {
    kael_gpt_config result = {};
    result.struct_size = sizeof(result);
    result.vocab_size = config.vocab_size;
    result.max_positions = config.max_positions;
    result.layers = config.layers;
    result.heads = config.heads;
    result.dimension = config.dimension;
    result.inner_dimension = config.inner_dimension;
    result.layer_norm_epsilon = config.layer_norm_epsilon;
    result.activation = static_cast<kael_activation>(config.activation);
    result.scale_attention = config.scale_attention ? 1 : 0;
    result.scale_attention_by_inverse_layer = config.scale_attention_by_inverse_layer ? 1 : 0;
    result.tie_word_embeddings = config.tie_word_embeddings ? 1 : 0;
    return result;
}

kael::gpt::Config from_c(const kael_gpt_config& config) {
    kael::gpt::Config result;
    result.vocab_size = config.vocab_size;
    result.max_positions = config.max_positions;
    result.layers = config.layers;
    result.heads = config.heads;
    result.dimension = config.dimension;
    result.inner_dimension = config.inner_dimension;
    result.layer_norm_epsilon = config.layer_norm_epsilon;
    result.activation = static_cast<kael::gpt::Activation>(config.activation);
    result.scale_attention = config.scale_attention != 0;
    result.scale_attention_by_inverse_layer = config.scale_attention_by_inverse_layer != 0;
    result.tie_word_embeddings = config.tie_word_embeddings != 0;
    return result;
}

kael_generate_options default_options() {
    const kael::gpt::GenerateOptions defaults;
    kael_generate_options options = {};
    options.struct_size = sizeof(options);
    options.max_tokens = defaults.max_tokens;
    options.repetition_penalty = defaults.repetition_penalty;
    options.presence_penalty = defaults.presence_penalty;
    options.frequency_penalty = defaults.frequency_penalty;
    options.temperature = defaults.temperature;
    options.top_k = defaults.top_k;
    options.top_p = defaults.top_p;
    options.min_p = defaults.min_p;
    options.use_cache = defaults.use_cache ? 1 : 0;
    options.reuse_prefix = defaults.reuse_prefix ? 1 : 0;
    options.speculate = defaults.speculate;
    return options;
}

// An array that a caller hands over; null where it is empty.
template <typename Element>
std::span<const Element> array(const Element* data, int64_t count, const char* name,
                               const char* count_name) {
    KAEL_CHECK(count >= 0, count_name << " is " << count << ", expected 0 or more");
    KAEL_CHECK(data != nullptr || count == 0, "the argument " << name << " is null");
    return {data, static_cast<std::size_t>(count)};
}

void read_sampling(const kael_generate_options& options, kael::gpt::SamplingOptions& result) {
    for (const kael_logit_bias& entry : array(options.logit_biases, options.logit_bias_count,
                                              "options->logit_biases", "logit_bias_count")) {
        result.logit_bias.push_back({entry.token, entry.bias});
    }
    result.repetition_penalty = options.repetition_penalty;
    result.presence_penalty = options.presence_penalty;
    result.frequency_penalty = options.frequency_penalty;
    result.temperature = options.temperature;
    result.top_k = options.top_k;
    result.top_p = options.top_p;
    result.min_p = options.min_p;
}

// The options without their callbacks and what is written through them.
kael::gpt::GenerateOptions from_c(const kael_generate_options& options) {
    kael::gpt::GenerateOptions result;
    read_sampling(options, result);
    result.max_tokens = options.max_tokens;
    if (options.has_seed != 0) {
        result.seed = options.seed;
    }
    const auto stop_tokens = array(options.stop_tokens, options.stop_token_count,
                                   "options->stop_tokens", "stop_token_count");
    result.stop_tokens.assign(stop_tokens.begin(), stop_tokens.end());
    result.top_logprobs = options.top_logprobs;
    result.use_cache = options.use_cache != 0;
    result.reuse_prefix = options.reuse_prefix != 0;
    result.speculate = options.speculate;
    return result;
}

// The caller's rows: the two structs are one.
kael::gpt::TokenLogprob* rows(kael_token_logprob* given) {
    static_assert(sizeof(kael_token_logprob) == sizeof(kael::gpt::TokenLogprob) &&
                  offsetof(kael_token_logprob, logprob) ==
                      offsetof(kael::gpt::TokenLogprob, logprob));
    return reinterpret_cast<kael::gpt::TokenLogprob*>(given);
}

kael::gpt::TokenAnswer ask(const kael_generate_options& options, int64_t token) {
    const int32_t answer = options.on_token == nullptr ? KAEL_TOKEN_CONTINUE
                                                       : options.on_token(options.user_data, token);
    if (answer < 0) {
        return kael::gpt::TokenAnswer::failed;
    }
    return answer == KAEL_TOKEN_STOP ? kael::gpt::TokenAnswer::stop
                                     : kael::gpt::TokenAnswer::proceed;
}

// Announces each token after it has been written, so that what was announced is there whatever
// happens next; `result.count` counts along.
void generate(GPT& model, const int64_t* ids, int64_t count, const kael_generate_options& given,
              int64_t* tokens, kael_generate_result& result) {
    kael::gpt::GenerateOptions options = from_c(given);
    options.logprobs = rows(given.logprobs);
    options.prompt_logprobs = rows(given.prompt_logprobs);
    const auto on_token = [&](int64_t token) {
        tokens[result.count++] = token;
        return ask(given, token);
    };
    options.on_token.emplace(on_token);
    const auto should_stop = [&] { return given.should_stop(given.user_data) != 0; };
    if (given.should_stop != nullptr) {
        options.should_stop.emplace(should_stop);
    }
    const kael::gpt::GenerateResult generated = model.generate(ids, count, options);
    result.prompt_seconds = generated.prompt_seconds;
    result.decode_seconds = generated.decode_seconds;
    result.seed = generated.seed;
    result.cached_tokens = generated.cached_tokens;
    result.guessed_tokens = generated.guessed_tokens;
    result.finish_reason = static_cast<kael_finish_reason>(generated.finish_reason);
}

} // namespace

extern "C" {

void kael_gpt_config_default(kael_gpt_config* config) {
    if (config != nullptr) {
        *config = to_c(kael::gpt::Config());
    }
}

kael_status kael_gpt_create(const kael_gpt_config* config, kael_gpt** gpt) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        const kael_gpt_config given =
            kael::capi::read_struct(config, to_c(kael::gpt::Config()), kSmallestConfig, "config");
        *gpt = new kael_gpt{GPT(from_c(given))};
    });
}

kael_status kael_gpt_load(const char* folder, int64_t folder_length, kael_weight_format format,
                          kael_gpt** gpt) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        const kael::gpt::WeightFormat wanted = kael::capi::from_c(format);
        *gpt = new kael_gpt{
            GPT::from_pretrained(kael::capi::path(folder, folder_length, "folder"), wanted)};
    });
}

kael_status kael_gpt_load_weights(kael_gpt* gpt, const char* path, int64_t path_length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        gpt->model.load_weights(kael::capi::path(path, path_length, "path"));
    });
}

kael_status kael_gpt_get_config(const kael_gpt* gpt, kael_gpt_config* config) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        kael::capi::write_struct(to_c(gpt->model.config()), kSmallestConfig, config, "config");
    });
}

kael_status kael_gpt_parameter_count(const kael_gpt* gpt, int64_t* count) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        KAEL_REQUIRE(count);
        *count = gpt->model.parameter_count();
    });
}

kael_status kael_gpt_parameters(const kael_gpt* gpt, kael_tensor_map** parameters) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        KAEL_REQUIRE(parameters);
        auto map = std::make_unique<kael_tensor_map>();
        map->tensors = gpt->model.parameters();
        *parameters = map.release();
    });
}

kael_status kael_gpt_make_parameters_writable(kael_gpt* gpt) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        gpt->model.make_parameters_writable();
    });
}

kael_status kael_gpt_set_dropout(kael_gpt* gpt, double share) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        gpt->model.set_dropout(share);
    });
}

kael_status kael_gpt_logits(kael_gpt* gpt, const int64_t* ids, int64_t batch, int64_t length,
                            kael_tensor** logits) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        KAEL_REQUIRE(ids);
        KAEL_REQUIRE(logits);
        *logits = new kael_tensor{gpt->model.logits(ids, batch, length)};
    });
}

kael_status kael_gpt_activations(kael_gpt* gpt, const int64_t* ids, int64_t length,
                                 kael_tensor_map** activations) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(gpt);
        KAEL_REQUIRE(ids);
        KAEL_REQUIRE(activations);
        auto map = std::make_unique<kael_tensor_map>();
        gpt->model.forward(ids, length, [&](std::string_view name, const kael::Tensor& value) {
            map->tensors.emplace_back(name, value);
        });
        *activations = map.release();
    });
}

void kael_generate_options_default(kael_generate_options* options) {
    if (options != nullptr) {
        *options = default_options();
    }
}

kael_status kael_gpt_generate(kael_gpt* gpt, const int64_t* ids, int64_t count,
                              const kael_generate_options* options, int64_t* tokens,
                              kael_generate_result* result) {
    return kael::capi::guard([&] {
        kael_generate_result written = {};
        kael::capi::write_struct(written, kSmallestResult, result, "result");
        KAEL_REQUIRE(gpt);
        KAEL_CHECK(ids != nullptr || count == 0, "the argument ids is null");
        const kael_generate_options given =
            kael::capi::read_struct(options, default_options(), kSmallestOptions, "options");
        KAEL_CHECK(tokens != nullptr || given.max_tokens <= 0, "the argument tokens is null");
        try {
            generate(gpt->model, ids, count, given, tokens, written);
        } catch (...) {
            kael::capi::write_struct(written, kSmallestResult, result, "result");
            throw;
        }
        kael::capi::write_struct(written, kSmallestResult, result, "result");
    });
}

void kael_gpt_free(kael_gpt* gpt) {
    delete gpt;
}

kael_status kael_sample_next(const float* logits, int64_t count,
                             const kael_generate_options* options, const int64_t* prompt,
                             int64_t prompt_count, const int64_t* generated,
                             int64_t generated_count, double draw, int64_t* token) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(logits);
        KAEL_REQUIRE(token);
        kael::gpt::SamplingOptions sampling;
        read_sampling(
            kael::capi::read_struct(options, default_options(), kSmallestOptions, "options"),
            sampling);
        const kael::gpt::TokenHistory history = {
            array(prompt, prompt_count, "prompt", "prompt_count"),
            array(generated, generated_count, "generated", "generated_count")};
        *token = kael::gpt::sample_next(logits, count, sampling, draw, history);
    });
}
}
