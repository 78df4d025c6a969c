// GPT: making, loading, logits.
#include "kael/gpt.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kael/autograd.h"
#include "kael/error.h"
#include "kael/safetensors.h"

#include "base/input_file.h"
#include "gpt/decoder.h"
#include "gpt/packed_weights.h"
#include "gpt/prompt.h"
#include "gpt/recorded_pass.h"
#include "gpt/weights.h"

namespace kael::gpt {

namespace {

Weights validated_random_weights(const Config& config) {
    config.validate();
    return random_weights(config, draw_seed());
}

bool needs_gradient(const NamedTensors& tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const auto& entry) { return entry.second.requires_grad(); });
}

} // namespace

std::string_view name(WeightFormat format) noexcept {
    switch (format) {
    case WeightFormat::bfloat16:
        return "bfloat16";
    case WeightFormat::int8:
        return "int8";
    case WeightFormat::int4:
        return "int4";
    case WeightFormat::float32:
        break;
    }
    return "float32";
}

GPT::GPT(const Config& config) : GPT(config, validated_random_weights(config)) {
    parameters_given_ = false;
}

GPT::GPT(const Config& config, Weights weights) : config_(config), weights_(std::move(weights)) {
    config_.validate();
    check_weights(config_, weights_);
    decoder_ = std::make_unique<Decoder>(config_, weights_, nullptr);
}

GPT::GPT(const Config& config, Weights weights, std::unique_ptr<const PackedWeights> packed)
    : config_(config), weights_(std::move(weights)), packed_(std::move(packed)),
      decoder_(std::make_unique<Decoder>(config_, weights_, packed_.get())),
      parameters_given_(false) {}

GPT::~GPT() = default;
GPT::GPT(GPT&&) noexcept = default;
GPT& GPT::operator=(GPT&&) noexcept = default;

GPT GPT::assemble(const Config& config, WeightFormat format, const NamedTensors& tensors,
                  const std::string& origin, const std::string& config_origin) {
    Weights weights = take_weights(config, tensors, origin, config_origin);
    if (format == WeightFormat::float32) {
        widen_weights(config, weights);
        GPT model(config, std::move(weights));
        model.parameters_given_ = false;
        return model;
    }
    auto packed = std::make_unique<const PackedWeights>(config, format, weights);
    return {config, std::move(weights), std::move(packed)};
}

GPT GPT::from_pretrained(const std::filesystem::path& folder, WeightFormat format) {
    const std::filesystem::path config_path = folder / "config.json";
    const bool has_config = is_there(config_path);
    const Config config = has_config ? read_config(config_path) : Config();
    const io::SafeTensors file = io::read_safetensors_folder(folder, io::LoadMode::Mapped);
    return assemble(config, format, file.tensors, "the checkpoint in " + folder.string(),
                    has_config ? config_path.string()
                               : "GPT-2 small, which is assumed without a config.json");
}

void GPT::load_weights(const std::filesystem::path& path) {
    {
        const Decoder::Use use(*decoder_);
    }
    const io::SafeTensors file = io::read_safetensors(path, io::LoadMode::Mapped);
    GPT loaded = assemble(config_, weight_format(), file.tensors, path.string(),
                          "the configuration of the model");
    loaded.dropout_ = dropout_;
    *this = std::move(loaded);
}

WeightFormat GPT::weight_format() const noexcept {
    return packed_ == nullptr ? WeightFormat::float32 : packed_->format();
}

void GPT::check_is_float32() const {
    KAEL_CHECK_AS(ErrorCode::unsupported, packed_ == nullptr,
                  "the model was loaded with the dtype "
                      << name(weight_format())
                      << ", packed for generation and logits alone; expected one loaded with the "
                         "dtype float32 to read, save or train its parameters");
}

NamedTensors GPT::parameters() const {
    check_is_float32();
    parameters_given_ = true;
    return named_weights(config_, weights_);
}

// Not every write can be seen: one through a plain pointer, as NumPy's are, leaves no trace.
bool GPT::parameters_may_change() const {
    const NamedTensors tensors = named_weights(config_, weights_);
    return parameters_given_ && std::any_of(tensors.begin(), tensors.end(), [](const auto& entry) {
               return entry.second.defined() && !entry.second.storage()->is_read_only();
           });
}

void GPT::make_parameters_writable() {
    check_is_float32();
    const Decoder::Use use(*decoder_);
    const NamedTensors tensors = named_weights(config_, weights_);
    std::vector<Storage*> storages;
    storages.reserve(tensors.size());
    for (const auto& [name, tensor] : tensors) {
        storages.push_back(tensor.storage().get());
    }
    Storage::make_writable(storages);
    decoder_->find_weights(config_, weights_);
}

void GPT::set_dropout(double share) {
    KAEL_CHECK(share >= 0 && share < 1, "dropout is " << share << ", expected 0 to below 1");
    if (share > 0) {
        check_is_float32();
    }
    dropout_ = share;
}

std::int64_t GPT::parameter_count() const {
    return gpt::parameter_count(config_);
}

Tensor GPT::logits(const std::int64_t* ids, std::int64_t batch, std::int64_t length) {
    KAEL_CHECK(batch >= 1, "the batch is " << batch << ", expected at least 1");
    check_length(config_, length);
    const Shape shape = {batch, length, config_.vocab_size};
    static_cast<void>(byte_count(shape, DType::float32)); // must fit, and then all below does
    check_ids(config_, ids, batch * length);
    const Decoder::Use use(*decoder_);
    if (dropout_ > 0 || (packed_ == nullptr && grad_enabled() &&
                         needs_gradient(named_weights(config_, weights_)))) {
        const Tensor rows = Tensor::from_bytes(ids, batch * length * item_size(DType::int64),
                                               {batch, length}, DType::int64);
        return recorded_logits(config_, weights_, rows,
                               Dropout(dropout_, dropout_ > 0 ? draw_seed() : 0));
    }
    Tensor logits = Tensor::empty(shape, DType::float32);
    for (std::int64_t row = 0; row < batch; ++row) {
        decoder_->keep(0);
        decoder_->all_logits(ids + row * length, length,
                             logits.mutable_data<float>() + row * length * config_.vocab_size);
    }
    return logits;
}

void GPT::forward(const std::int64_t* ids, std::int64_t length, ActivationObserver observer) {
    check_length(config_, length);
    check_ids(config_, ids, length);
    const Decoder::Use use(*decoder_);
    decoder_->observe(ids, length, observer);
}

} // namespace kael::gpt
