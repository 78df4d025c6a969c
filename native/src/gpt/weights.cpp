#include "gpt/weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include "kael/error.h"
#include "kael/random.h"
#include "kael/threads.h"

#include "base/in_quotes.h"

namespace kael::gpt {

namespace {

constexpr std::string_view kTokenEmbedding = "wte.weight";
constexpr std::string_view kHead = "lm_head.weight";

enum class Start { normal, residual, zero, one };

// One tensor of a model: its name in GPT-2's files, its place, its shape and how it starts.
struct Slot {
    std::string name;
    Tensor* tensor;
    Shape shape;
    Start start;
};

void add_layer_slots(const Config& config, std::int64_t index, LayerWeights& layer,
                     std::vector<Slot>& slots) {
    const std::int64_t width = config.dimension;
    const std::int64_t inner = config.mlp_dimension();
    const std::string prefix = "h." + std::to_string(index) + ".";
    const auto add = [&](const char* name, Tensor& tensor, Shape shape, Start start) {
        slots.push_back({prefix + name, &tensor, std::move(shape), start});
    };
    add("ln_1.weight", layer.ln_1_weight, {width}, Start::one);
    add("ln_1.bias", layer.ln_1_bias, {width}, Start::zero);
    add("attn.c_attn.weight", layer.attn_qkv_weight, {width, 3 * width}, Start::normal);
    add("attn.c_attn.bias", layer.attn_qkv_bias, {3 * width}, Start::zero);
    add("attn.c_proj.weight", layer.attn_proj_weight, {width, width}, Start::residual);
    add("attn.c_proj.bias", layer.attn_proj_bias, {width}, Start::zero);
    add("ln_2.weight", layer.ln_2_weight, {width}, Start::one);
    add("ln_2.bias", layer.ln_2_bias, {width}, Start::zero);
    add("mlp.c_fc.weight", layer.mlp_fc_weight, {width, inner}, Start::normal);
    add("mlp.c_fc.bias", layer.mlp_fc_bias, {inner}, Start::zero);
    add("mlp.c_proj.weight", layer.mlp_proj_weight, {inner, width}, Start::residual);
    add("mlp.c_proj.bias", layer.mlp_proj_bias, {width}, Start::zero);
}

// Every tensor of the model; the head only where it is one of its own. `weights.layers` gets its
// size here.
std::vector<Slot> slots_of(const Config& config, Weights& weights) {
    const std::int64_t width = config.dimension;
    weights.layers.resize(static_cast<std::size_t>(config.layers));
    std::vector<Slot> slots;
    slots.push_back({std::string(kTokenEmbedding),
                     &weights.token_embedding,
                     {config.vocab_size, width},
                     Start::normal});
    slots.push_back(
        {"wpe.weight", &weights.position_embedding, {config.max_positions, width}, Start::normal});
    for (std::int64_t index = 0; index < config.layers; ++index) {
        add_layer_slots(config, index, weights.layers[static_cast<std::size_t>(index)], slots);
    }
    slots.push_back({"ln_f.weight", &weights.ln_f_weight, {width}, Start::one});
    slots.push_back({"ln_f.bias", &weights.ln_f_bias, {width}, Start::zero});
    if (!config.tie_word_embeddings) {
        slots.push_back(
            {std::string(kHead), &weights.head, {config.vocab_size, width}, Start::normal});
    }
    return slots;
}

// What does not fit, for one message; only the first few are spelled out.
class Misfits {
public:
    void add(const std::string& text) {
        if (count_++ < kShown) {
            texts_ += (texts_.empty() ? "" : "; ") + text;
        }
    }
    void check(const std::string& origin, const std::string& config_origin) const {
        KAEL_CHECK_AS(ErrorCode::invalid_file, count_ == 0,
                      origin << " does not fit " << config_origin << ": " << texts_
                             << (count_ > kShown
                                     ? "; and " + std::to_string(count_ - kShown) + " more"
                                     : ""));
    }

private:
    static constexpr int kShown = 8;
    std::int64_t count_ = 0;
    std::string texts_;
};

// Old checkpoints hold the causal mask: exactly h.N.attn.bias and h.N.attn.masked_bias, N a layer.
bool is_mask_buffer(std::string_view name, std::int64_t layers) {
    if (!name.starts_with("h.")) {
        return false;
    }
    name.remove_prefix(2);
    std::int64_t layer = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    const std::string_view rest(end, static_cast<std::size_t>(name.data() + name.size() - end));
    return error == std::errc() && layer >= 0 && layer < layers &&
           (rest == ".attn.bias" || rest == ".attn.masked_bias");
}

// A file's tensors by their names without prefix, each to be taken once.
class NamedPool {
public:
    NamedPool(const NamedTensors& tensors, std::int64_t layers, Misfits& misfits) {
        constexpr std::string_view kPrefix = "transformer.";
        for (const auto& [full_name, tensor] : tensors) {
            std::string_view name = full_name;
            if (name.starts_with(kPrefix)) {
                name.remove_prefix(kPrefix.size());
            }
            if (!is_mask_buffer(name, layers) && !tensors_.emplace(name, &tensor).second) {
                misfits.add(in_quotes(name) + " is given both with and without \"transformer.\"");
            }
        }
    }

    [[nodiscard]] bool holds(std::string_view name) const { return tensors_.contains(name); }
    // nullptr when there is none, or no longer one.
    [[nodiscard]] const Tensor* take(std::string_view name) {
        const auto found = tensors_.find(name);
        if (found == tensors_.end()) {
            return nullptr;
        }
        const Tensor* tensor = found->second;
        tensors_.erase(found);
        return tensor;
    }
    [[nodiscard]] const std::map<std::string_view, const Tensor*>& rest() const { return tensors_; }

private:
    std::map<std::string_view, const Tensor*> tensors_;
};

bool is_weight_dtype(DType dtype) {
    return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
}

void fill(const Slot& slot, std::string_view name, const Tensor* tensor, Misfits& misfits) {
    if (tensor == nullptr) {
        misfits.add(in_quotes(name) + " is missing, expected " + to_string(slot.shape));
    } else if (tensor->shape() != slot.shape) {
        misfits.add(in_quotes(name) + " is " + to_string(tensor->shape()) + ", expected " +
                    to_string(slot.shape));
    } else if (!is_weight_dtype(tensor->dtype())) {
        misfits.add(in_quotes(name) + " is " + std::string(kael::name(tensor->dtype())) +
                    ", expected float32, float16 or bfloat16");
    } else {
        *slot.tensor = *tensor;
    }
}

// A tied checkpoint may hold the one matrix under both names; two different ones would leave open
// which of them counts.
void check_tied_pair(const Slot& embedding, const Tensor* head, Misfits& misfits) {
    const Tensor& kept = *embedding.tensor;
    if (head == nullptr || !kept.defined()) {
        return;
    }
    const bool same = head->shape() == kept.shape() && head->dtype() == kept.dtype() &&
                      std::memcmp(head->data_ptr_raw(), kept.data_ptr_raw(),
                                  static_cast<std::size_t>(kept.nbytes())) == 0;
    if (!same) {
        misfits.add(in_quotes(kHead) + " differs from " + in_quotes(kTokenEmbedding) +
                    ", expected one matrix for both since tie_word_embeddings is true");
    }
}

// One block of random numbers: its own stream, so that blocks may be filled in any order.
struct NormalBlock {
    float* data;
    std::int64_t count;
    double deviation;
    std::uint64_t seed;
};

void add_blocks(const Slot& slot, double deviation, RandomStream& seeds,
                std::vector<NormalBlock>& blocks) {
    constexpr std::int64_t kBlock = 65536;
    float* data = slot.tensor->mutable_data<float>();
    const std::int64_t count = slot.tensor->numel();
    for (std::int64_t first = 0; first < count; first += kBlock) {
        blocks.push_back(
            {data + first, std::min(kBlock, count - first), deviation, seeds.next_bits()});
    }
}

void fill_block(const NormalBlock& block) {
    RandomStream stream(block.seed);
    for (std::int64_t index = 0; index < block.count; ++index) {
        block.data[index] = static_cast<float>(stream.next_normal() * block.deviation);
    }
}

} // namespace

Weights take_weights(const Config& config, const NamedTensors& tensors, const std::string& origin,
                     const std::string& config_origin) {
    Weights weights;
    Misfits misfits;
    std::vector<Slot> slots = slots_of(config, weights);
    NamedPool pool(tensors, config.layers, misfits);
    // Either name of a tied pair may stand for both.
    const bool head_stands_for_both =
        config.tie_word_embeddings && !pool.holds(kTokenEmbedding) && pool.holds(kHead);
    for (const Slot& slot : slots) {
        const bool is_embedding = slot.tensor == &weights.token_embedding;
        const std::string_view name =
            is_embedding && head_stands_for_both ? kHead : std::string_view(slot.name);
        fill(slot, name, pool.take(name), misfits);
    }
    if (config.tie_word_embeddings) {
        check_tied_pair(slots.front(), pool.take(kHead), misfits);
    }
    for (const auto& [name, tensor] : pool.rest()) {
        misfits.add(in_quotes(name) + " " + to_string(tensor->shape()) +
                    " is not part of the model");
    }
    misfits.check(origin, config_origin);
    if (config.tie_word_embeddings) {
        weights.head = weights.token_embedding;
    }
    return weights;
}

void widen_weights(const Config& config, Weights& weights) {
    for (const Slot& slot : slots_of(config, weights)) {
        *slot.tensor = slot.tensor->to(DType::float32).contiguous();
    }
    if (config.tie_word_embeddings) {
        weights.head = weights.token_embedding;
    }
}

Weights random_weights(const Config& config, std::uint64_t seed) {
    constexpr double kDeviation = 0.02;
    Weights weights;
    RandomStream seeds(seed);
    std::vector<NormalBlock> blocks;
    for (const Slot& slot : slots_of(config, weights)) {
        *slot.tensor = Tensor::empty(slot.shape, DType::float32);
        float* data = slot.tensor->mutable_data<float>();
        switch (slot.start) {
        case Start::normal:
            add_blocks(slot, kDeviation, seeds, blocks);
            break;
        case Start::residual:
            add_blocks(slot, kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers)),
                       seeds, blocks);
            break;
        case Start::zero:
            std::fill_n(data, slot.tensor->numel(), 0.0F);
            break;
        case Start::one:
            std::fill_n(data, slot.tensor->numel(), 1.0F);
            break;
        }
    }
    parallel_for(0, static_cast<std::int64_t>(blocks.size()), 1,
                 [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t index = first; index < last; ++index) {
                         fill_block(blocks[static_cast<std::size_t>(index)]);
                     }
                 });
    if (config.tie_word_embeddings) {
        weights.head = weights.token_embedding;
    }
    return weights;
}

void check_weights(const Config& config, const Weights& weights) {
    KAEL_CHECK(static_cast<std::int64_t>(weights.layers.size()) == config.layers,
               "there are weights for " << weights.layers.size() << " layers, expected "
                                        << config.layers);
    Weights copy = weights; // of the handles
    for (const Slot& slot : slots_of(config, copy)) {
        const Tensor& tensor = *slot.tensor;
        KAEL_CHECK(tensor.defined(), in_quotes(slot.name)
                                         << " is undefined, expected contiguous float32 "
                                         << to_string(slot.shape));
        KAEL_CHECK(tensor.shape() == slot.shape && tensor.dtype() == DType::float32 &&
                       tensor.is_contiguous(),
                   in_quotes(slot.name)
                       << " is " << kael::name(tensor.dtype()) << " " << to_string(tensor.shape())
                       << (tensor.is_contiguous() ? "" : " with gaps")
                       << ", expected contiguous float32 " << to_string(slot.shape));
    }
    KAEL_CHECK(
        !config.tie_word_embeddings ||
            (weights.head.defined() &&
             weights.head.data_ptr_raw() == weights.token_embedding.data_ptr_raw()),
        "the head is a tensor of its own, expected the token embedding, which it is tied to");
}

NamedTensors named_weights(const Config& config, const Weights& weights) {
    Weights handles = weights;
    NamedTensors tensors;
    for (const Slot& slot : slots_of(config, handles)) {
        tensors.emplace_back(slot.name, *slot.tensor);
    }
    return tensors;
}

std::int64_t parameter_count(const Config& config) {
    Weights none;
    std::int64_t count = 0;
    for (const Slot& slot : slots_of(config, none)) {
        count += byte_count(slot.shape, DType::float32) / item_size(DType::float32);
    }
    return count;
}

} // namespace kael::gpt
