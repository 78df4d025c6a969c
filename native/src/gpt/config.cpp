// Config: limits, and config.json as Hugging Face transformers writes it
// (https://huggingface.co/docs/transformers/model_doc/gpt2, GPT2Config).
#include <cmath>
#include <initializer_list>
#include <limits>
#include <sstream>

#include "kael/error.h"
#include "kael/gpt.h"

#include "base/in_quotes.h"
#include "io/json.h"

namespace kael::gpt {

namespace {

using io::JsonKind;
using io::JsonValue;

// Wide enough for any model, and small enough that no product below leaves int64.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 24;
constexpr std::int64_t kMaxLayers = std::int64_t{1} << 12;
constexpr double kMaxElements = 0x1p56;

void check_size(const char* name, std::int64_t value, std::int64_t limit) {
    KAEL_CHECK(value >= 1 && value <= limit,
               name << " is " << value << ", expected 1 to " << limit);
}

// Elements of the weights and of a full cache of keys and values. In double, which cannot overflow.
double estimated_elements(const Config& config) {
    const auto dimension = static_cast<double>(config.dimension);
    const auto positions = static_cast<double>(config.max_positions);
    const auto layers = static_cast<double>(config.layers);
    const double layer =
        dimension * (4 * dimension + 2 * static_cast<double>(config.mlp_dimension()) + 16);
    const double embeddings = dimension * (2 * static_cast<double>(config.vocab_size) + positions);
    return layers * layer + embeddings + 2 * layers * positions * dimension;
}

// One config.json. A getter answers nothing for a key that is absent.
class ConfigFile {
public:
    explicit ConfigFile(const std::filesystem::path& path)
        : path_(path.string()), root_(io::read_json_file(path)) {
        KAEL_CHECK_AS(ErrorCode::invalid_file, root_.kind == JsonKind::object,
                      path_ << " is " << name(root_.kind) << ", expected an object");
    }

    // The size that goes by any of `keys`; where several are given they must agree.
    [[nodiscard]] std::optional<std::int64_t>
    size(std::initializer_list<std::string_view> keys) const {
        std::optional<std::int64_t> found;
        std::string_view found_key;
        for (const std::string_view key : keys) {
            const JsonValue* value = root_.find(key);
            if (value == nullptr) {
                continue;
            }
            const bool fits = value->kind == JsonKind::unsigned_integer &&
                              value->unsigned_integer >= 1 &&
                              value->unsigned_integer <= static_cast<std::uint64_t>(kMaxSize);
            if (!fits) {
                refuse(
                    key, *value,
                    "expected an integer from 1 to " + std::to_string(kMaxSize) +
                        (value->kind == JsonKind::real ? ", without fraction and exponent" : ""));
            }
            const auto size = static_cast<std::int64_t>(value->unsigned_integer);
            KAEL_CHECK_AS(ErrorCode::invalid_file, !found || *found == size,
                          path_ << ": " << in_quotes(key) << " is " << size << ", but "
                                << in_quotes(found_key) << " is " << *found
                                << ", expected the same value");
            found = size;
            found_key = key;
        }
        return found;
    }

    // The same, where null stands for absent.
    [[nodiscard]] std::optional<std::int64_t> size_or_null(std::string_view key) const {
        const JsonValue* value = root_.find(key);
        return value != nullptr && value->kind == JsonKind::null ? std::nullopt : size({key});
    }

    [[nodiscard]] std::optional<bool> flag(std::string_view key) const {
        const JsonValue* value = root_.find(key);
        if (value == nullptr) {
            return std::nullopt;
        }
        if (value->kind != JsonKind::boolean) {
            refuse(key, *value, "expected true or false");
        }
        return value->boolean;
    }

    [[nodiscard]] std::optional<double> number(std::string_view key) const {
        const JsonValue* value = root_.find(key);
        if (value == nullptr) {
            return std::nullopt;
        }
        const bool is_number = value->kind == JsonKind::unsigned_integer ||
                               value->kind == JsonKind::negative_integer ||
                               value->kind == JsonKind::real;
        if (!is_number) {
            refuse(key, *value, "expected a number");
        }
        return value->number;
    }

    [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const {
        const JsonValue* value = root_.find(key);
        if (value == nullptr) {
            return std::nullopt;
        }
        if (value->kind != JsonKind::string) {
            refuse(key, *value, "expected a string");
        }
        return value->string;
    }

    // Refuses by name what would change the result and kael does not do: anything but null, false
    // or an empty list or object.
    void require_off(std::string_view key) const {
        const JsonValue* value = root_.find(key);
        if (value == nullptr || value->kind == JsonKind::null ||
            (value->kind == JsonKind::boolean && !value->boolean)) {
            return;
        }
        const bool is_container = value->kind == JsonKind::array || value->kind == JsonKind::object;
        if (is_container && value->elements.empty() && value->members.empty()) {
            return;
        }
        if (!is_container && value->kind != JsonKind::boolean) {
            refuse(key, *value, "expected true or false");
        }
        KAEL_CHECK_AS(ErrorCode::unsupported, false,
                      path_ << ": " << in_quotes(key) << " is " << shown(*value)
                            << ", which is not supported; expected it to be absent or off");
    }

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    static std::string shown(const JsonValue& value) {
        std::ostringstream text;
        switch (value.kind) {
        case JsonKind::boolean:
            text << (value.boolean ? "true" : "false");
            break;
        case JsonKind::unsigned_integer:
            text << value.unsigned_integer;
            break;
        case JsonKind::negative_integer:
        case JsonKind::real:
            text << value.number;
            break;
        case JsonKind::string:
            text << in_quotes(value.string);
            break;
        default:
            text << name(value.kind);
        }
        return text.str();
    }

    [[noreturn]] void refuse(std::string_view key, const JsonValue& value,
                             const std::string& expectation) const {
        std::ostringstream message;
        message << path_ << ": " << in_quotes(key) << " is " << shown(value) << ", " << expectation;
        throw Error(ErrorCode::invalid_file, __FILE__, __LINE__, "a usable value", message.str());
    }

    std::string path_; // for messages
    JsonValue root_;
};

Activation read_activation(const ConfigFile& file) {
    const std::string_view name = file.text("activation_function").value_or("gelu_new");
    if (name == "gelu_new" || name == "gelu_pytorch_tanh") {
        return Activation::gelu_tanh;
    }
    if (name == "gelu") {
        return Activation::gelu_erf;
    }
    KAEL_CHECK_AS(ErrorCode::unsupported, name == "relu",
                  file.path() << ": \"activation_function\" is " << in_quotes(name)
                              << ", expected \"gelu_new\", \"gelu_pytorch_tanh\", \"gelu\" or "
                                 "\"relu\"");
    return Activation::relu;
}

void refuse_other_architectures(const ConfigFile& file) {
    const std::string_view type = file.text("model_type").value_or("gpt2");
    KAEL_CHECK_AS(ErrorCode::unsupported, type == "gpt2",
                  file.path() << ": \"model_type\" is " << in_quotes(type)
                              << ", expected \"gpt2\"");
    for (const std::string_view key :
         {"reorder_and_upcast_attn", "add_cross_attention", "is_encoder_decoder", "pruned_heads",
          "quantization_config"}) {
        file.require_off(key);
    }
}

} // namespace

void Config::validate() const {
    check_size("vocab_size", vocab_size, kMaxSize);
    check_size("max_positions (n_positions)", max_positions, kMaxSize);
    check_size("layers (n_layer)", layers, kMaxLayers);
    check_size("dimension (n_embd)", dimension, kMaxWidth);
    check_size("heads (n_head)", heads, dimension);
    KAEL_CHECK(dimension % heads == 0, "dimension (n_embd) "
                                           << dimension << " is not a multiple of heads (n_head) "
                                           << heads);
    KAEL_CHECK(inner_dimension >= 0 && inner_dimension <= kMaxWidth * 4,
               "inner_dimension (n_inner) is " << inner_dimension << ", expected 0 to "
                                               << kMaxWidth * 4);
    KAEL_CHECK(estimated_elements(*this) <= kMaxElements,
               "a model of vocab_size " << vocab_size << ", max_positions " << max_positions
                                        << ", layers " << layers << ", dimension " << dimension
                                        << ", inner_dimension " << mlp_dimension()
                                        << " is larger than 2^56 numbers");
    KAEL_CHECK(layer_norm_epsilon >= static_cast<double>(std::numeric_limits<float>::min()) &&
                   layer_norm_epsilon <= 1,
               "layer_norm_epsilon is " << layer_norm_epsilon << ", expected 1.2e-38 to 1");
    KAEL_CHECK(activation == Activation::gelu_tanh || activation == Activation::gelu_erf ||
                   activation == Activation::relu,
               "activation is " << static_cast<int>(activation) << ", expected 0, 1 or 2");
}

Config read_config(const std::filesystem::path& path) {
    const ConfigFile file(path);
    refuse_other_architectures(file);

    Config config;
    config.vocab_size = file.size({"vocab_size"}).value_or(config.vocab_size);
    config.max_positions = file.size({"n_positions", "n_ctx", "max_position_embeddings"})
                               .value_or(config.max_positions);
    config.dimension = file.size({"n_embd", "hidden_size"}).value_or(config.dimension);
    config.layers = file.size({"n_layer", "num_hidden_layers"}).value_or(config.layers);
    config.heads = file.size({"n_head", "num_attention_heads"}).value_or(config.heads);
    config.inner_dimension = file.size_or_null("n_inner").value_or(0);
    config.layer_norm_epsilon =
        file.number("layer_norm_epsilon").value_or(config.layer_norm_epsilon);
    config.activation = read_activation(file);
    config.scale_attention = file.flag("scale_attn_weights").value_or(true);
    config.scale_attention_by_inverse_layer =
        file.flag("scale_attn_by_inverse_layer_idx").value_or(false);
    config.tie_word_embeddings = file.flag("tie_word_embeddings").value_or(true);
    try {
        config.validate();
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_file, __FILE__, __LINE__, "config.validate()",
                    file.path() + ": " + error.message());
    }
    return config;
}

} // namespace kael::gpt
