#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "session.h"

namespace kael::fuzz {

void Session::create_gpt() {
    kael_gpt_config config = {};
    kael_gpt_config_default(nullptr);
    kael_gpt_config_default(&config);
    config.heads = 1 + input_.byte() % 2;
    config.dimension = config.heads * (1 + input_.byte() % 3);
    config.vocab_size = 1 + input_.byte() % 8;
    config.max_positions = 1 + input_.byte() % 8;
    config.layers = 1 + input_.byte() % 2;
    config.inner_dimension = input_.byte() % 4;
    config.activation = static_cast<kael_activation>(input_.below(3));
    config.scale_attention = input_.byte() % 2;
    config.scale_attention_by_inverse_layer = input_.byte() % 2;
    config.tie_word_embeddings = input_.byte() % 2;
    if (input_.rarely(4)) {
        std::int64_t* const fields[] = {
            &config.struct_size, &config.vocab_size, &config.max_positions,  &config.layers,
            &config.heads,       &config.dimension,  &config.inner_dimension};
        *input_.one_of(fields) = input_.one_of(kWrongSizes);
    }
    if (input_.rarely(8)) {
        config.layer_norm_epsilon = real();
        config.activation = static_cast<kael_activation>(integer());
    }
    // Beyond the struct there must be what struct_size says, up to a page.
    alignas(kael_gpt_config) std::array<std::byte, 4096> place{};
    place.back() = static_cast<std::byte>(input_.rarely(8) ? 1 : 0);
    config.struct_size = input_.rarely(8) ? 4096 : config.struct_size;
    std::memcpy(place.data(), &config, sizeof(config));
    kael_gpt* made = untouched<kael_gpt>();
    take(kael_gpt_create(input_.rarely(32) ? nullptr
                                           : reinterpret_cast<const kael_gpt_config*>(place.data()),
                         out(made)),
         made, gpts_);
}

void Session::gpt_files() {
    const Text file = path(false);
    if (input_.rarely(2)) {
        succeeded(kael_gpt_load_weights(one(gpts_), file.data, file.length));
        return;
    }
    kael_gpt* made = untouched<kael_gpt>();
    take(kael_gpt_load(file.data, file.length, static_cast<kael_weight_format>(input_.below(5)),
                       out(made)),
         made, gpts_);
}

void Session::gpt_state() {
    kael_gpt* const gpt = one(gpts_);
    switch (input_.below(5)) {
    case 0: {
        kael_gpt_config config = {};
        config.struct_size = input_.rarely(8) ? integer() : std::int64_t{sizeof(config)};
        succeeded(kael_gpt_get_config(gpt, out(config)));
        break;
    }
    case 1: {
        std::int64_t count = -1;
        const bool told = succeeded(kael_gpt_parameter_count(gpt, out(count)));
        require(told == (count > 0));
        break;
    }
    case 2: {
        kael_tensor_map* made = untouched<kael_tensor_map>();
        take(kael_gpt_parameters(gpt, out(made)), made, maps_);
        break;
    }
    case 3:
        succeeded(kael_gpt_make_parameters_writable(gpt));
        break;
    default:
        succeeded(kael_gpt_set_dropout(gpt, real()));
        break;
    }
}

std::vector<std::int64_t> Session::ids() {
    std::vector<std::int64_t> result(input_.below(12));
    for (std::int64_t& id : result) {
        id = input_.rarely(32) ? integer() : static_cast<std::int64_t>(input_.below(5));
    }
    return result;
}

void Session::logits() {
    kael_gpt* const gpt = one(gpts_);
    const std::vector<std::int64_t> ids = this->ids();
    const auto count = static_cast<std::int64_t>(ids.size());
    if (input_.rarely(2)) {
        kael_tensor_map* made = untouched<kael_tensor_map>();
        take(kael_gpt_activations(gpt, ids.data(), input_.rarely(32) ? -1 : count, out(made)), made,
             maps_);
        return;
    }
    const std::int64_t batch = input_.rarely(4) ? 2 : 1;
    kael_tensor* made = untouched<kael_tensor>();
    const bool is_wrong = input_.rarely(16);
    take(kael_gpt_logits(gpt, ids.data(), is_wrong ? input_.one_of(kWrongSizes) : batch,
                         is_wrong ? std::numeric_limits<std::int64_t>::max() : count / batch,
                         out(made)),
         made);
}

void Session::fill(kael_generate_options& options) {
    kael_generate_options_default(nullptr);
    kael_generate_options_default(&options);
    options.max_tokens = input_.rarely(32) ? -1 : static_cast<std::int64_t>(input_.below(12));
    if (input_.rarely(2)) {
        double* const fields[] = {&options.repetition_penalty,
                                  &options.presence_penalty,
                                  &options.frequency_penalty,
                                  &options.temperature,
                                  &options.top_p,
                                  &options.min_p};
        for (std::size_t i = 0; i < 3; ++i) {
            *input_.one_of(fields) = real();
        }
        options.top_k = integer();
    }
    if (input_.rarely(4)) {
        std::vector<kael_logit_bias>& biases = biases_.emplace_back(input_.below(4));
        for (kael_logit_bias& bias : biases) {
            bias = {integer(), real()};
        }
        options.logit_biases = biases.data();
        options.logit_bias_count =
            input_.rarely(16) ? -1 : static_cast<std::int64_t>(biases.size());
    }
    if (input_.rarely(4)) {
        const std::vector<std::int64_t>& stops = integers_.emplace_back(ids());
        options.stop_tokens = stops.data();
        options.stop_token_count = input_.rarely(16) ? -1 : static_cast<std::int64_t>(stops.size());
    }
    options.seed = input_.byte();
    options.has_seed = input_.byte() % 2;
    options.use_cache = input_.rarely(4) ? 0 : 1;
    options.reuse_prefix = input_.rarely(4) ? 0 : 1;
    options.speculate = input_.rarely(32)  ? integer()
                        : input_.rarely(2) ? static_cast<std::int64_t>(input_.below(9))
                                           : 0;
    options.struct_size = input_.rarely(32) ? integer() : options.struct_size;
}

void Session::generate() {
    kael_gpt* const gpt = one(gpts_);
    const std::vector<std::int64_t> prompt = ids();
    kael_generate_options options = {};
    fill(options);
    const std::size_t room =
        static_cast<std::size_t>(std::max<std::int64_t>(options.max_tokens, 0));
    std::vector<kael_token_logprob> logprobs;
    std::vector<kael_token_logprob> prompt_logprobs;
    if (input_.rarely(4)) {
        options.top_logprobs = input_.rarely(8) ? input_.one_of<std::int64_t>({-1, 1'000'001})
                                                : static_cast<std::int64_t>(input_.below(4));
        const std::size_t row =
            1 + (options.top_logprobs < 4
                     ? static_cast<std::size_t>(std::max<std::int64_t>(options.top_logprobs, 0))
                     : 0);
        logprobs.resize(room * row);
        prompt_logprobs.resize(prompt.size() * row);
        options.logprobs = logprobs.data();
        options.prompt_logprobs = input_.rarely(2) ? prompt_logprobs.data() : nullptr;
    }
    options.on_token = input_.rarely(2) ? on_token : nullptr;
    options.should_stop = input_.rarely(2) ? should_stop : nullptr;
    options.user_data = this;
    const auto ring = std::ranges::find_if(rings_, &Ring::has_producer);
    if (ring != rings_.end() && input_.rarely(2)) {
        options.on_token = push;
        options.should_stop = is_stopping;
        options.user_data = &*ring;
    }
    std::vector<std::int64_t> tokens(room);
    kael_generate_result result = {};
    result.struct_size = input_.rarely(32) ? integer() : std::int64_t{sizeof(result)};
    const auto count = static_cast<std::int64_t>(prompt.size());
    const bool is_negative = input_.rarely(32);
    must_fail_ = must_fail_ || is_negative;
    succeeded(kael_gpt_generate(gpt, prompt.data(), is_negative ? -1 : count,
                                input_.rarely(32) ? nullptr : &options, tokens.data(),
                                out(result)));
    require(result.count >= 0 && result.count <= static_cast<std::int64_t>(room));
}

void Session::sample() {
    std::vector<float> logits(input_.below(8));
    for (float& logit : logits) {
        logit = static_cast<float>(std::clamp(real(), -3e38, 3e38));
    }
    kael_generate_options options = {};
    fill(options);
    const std::vector<std::int64_t> prompt = ids();
    const std::vector<std::int64_t> generated = ids();
    std::int64_t token = -1;
    const double draw = real();
    const bool is_negative = input_.rarely(32);
    must_fail_ = must_fail_ || is_negative;
    const kael_status status =
        kael_sample_next(logits.data(), is_negative ? -1 : static_cast<std::int64_t>(logits.size()),
                         input_.rarely(32) ? nullptr : &options, prompt.data(),
                         static_cast<std::int64_t>(prompt.size()), generated.data(),
                         static_cast<std::int64_t>(generated.size()), draw, out(token));
    require(succeeded(status) == (token >= 0));
    require(token < static_cast<std::int64_t>(logits.size()));
}

} // namespace kael::fuzz
