// config.json: any bytes are a valid configuration or a kael::Error of one line that names the
// file, and what was read is read again from a file that says it plainly.
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "kael/error.h"
#include "kael/gpt.h"

#include "input.h"
#include "temporary_folder.h"

namespace {

using kael::ErrorCode;
using kael::fuzz::require;
using kael::gpt::Activation;
using kael::gpt::Config;

std::optional<Config> read(std::string_view text) {
    static const kael::test::TemporaryFolder folder;
    const std::filesystem::path path = folder.write("config.json", text);
    try {
        return kael::gpt::read_config(path);
    } catch (const kael::Error& error) {
        require(error.code() == ErrorCode::invalid_file || error.code() == ErrorCode::unsupported);
        require(error.message().starts_with(path.string()));
        require(error.message().find('\n') == std::string::npos);
        return std::nullopt;
    }
}

std::string_view name(Activation activation) {
    switch (activation) {
    case Activation::gelu_tanh:
        return "gelu_new";
    case Activation::gelu_erf:
        return "gelu";
    case Activation::relu:
        return "relu";
    }
    require(false);
    return "";
}

// The shortest decimal number that is read as `value`.
std::string shown(double value) {
    char digits[32];
    const auto [end, failure] = std::to_chars(digits, digits + sizeof digits, value);
    require(failure == std::errc());
    return {digits, end};
}

std::string written(const Config& config) {
    std::string text = "{";
    const auto add = [&](const char* key, std::string_view value) {
        text.append(text.size() > 1 ? ", \"" : "\"").append(key).append("\": ").append(value);
    };
    const auto flag = [](bool value) { return value ? "true" : "false"; };
    add("vocab_size", std::to_string(config.vocab_size));
    add("n_positions", std::to_string(config.max_positions));
    add("n_layer", std::to_string(config.layers));
    add("n_head", std::to_string(config.heads));
    add("n_embd", std::to_string(config.dimension));
    add("n_inner", config.inner_dimension == 0 ? "null" : std::to_string(config.inner_dimension));
    add("layer_norm_epsilon", shown(config.layer_norm_epsilon));
    add("activation_function", '"' + std::string(name(config.activation)) + '"');
    add("scale_attn_weights", flag(config.scale_attention));
    add("scale_attn_by_inverse_layer_idx", flag(config.scale_attention_by_inverse_layer));
    add("tie_word_embeddings", flag(config.tie_word_embeddings));
    return text + '}';
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto config = read({reinterpret_cast<const char*>(data), size});
    if (config) {
        config->validate();
        require(config->head_dimension() * config->heads == config->dimension);
        require(config->mlp_dimension() > 0);
        const std::string text = written(*config);
        const auto again = read(text);
        require(again.has_value() && written(*again) == text);
    }
    return 0;
}
