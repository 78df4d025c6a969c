#include "gpt/prompt_pass.h"

#include <algorithm>
#include <atomic>
#include <limits>

namespace kael::gpt {

namespace {

constexpr std::int64_t kRowBlock = 16;   // rows of a step that goes row by row
constexpr std::int64_t kQueryBlock = 64; // queries of one head
constexpr std::int64_t kVocabularyBlock = 256;

std::int64_t blocks(std::int64_t count, std::int64_t size) {
    return (count + size - 1) / size;
}

// Multiplications below which a pass takes less time than waking a second thread may.
constexpr std::int64_t kProductsForTeam = std::int64_t{1} << 23;

} // namespace

PromptPass::PromptPass(const ModelView& model, const KeyValueCache& cache, std::int64_t rows,
                       PassMemory& memory, int threads)
    : model_(model), kernels_(model.kernels), cache_(cache) {
    const std::int64_t wide = std::max(3 * model.width, model.inner);
    const std::int64_t prepared =
        model.packed_kernels == nullptr
            ? 0
            : rows * model.packed_kernels->prepared_size(std::max(model.width, model.inner)) /
                  static_cast<std::int64_t>(sizeof(float));
    memory.rows.reserve(3 * FloatParts::padded(rows * model.width) +
                        FloatParts::padded(rows * wide) + prepared);
    FloatParts parts(memory.rows.data());
    residual_ = parts.take(rows * model.width);
    normalized_ = parts.take(rows * model.width);
    product_ = parts.take(rows * model.width);
    wide_ = parts.take(rows * wide);
    prepared_ = reinterpret_cast<std::uint8_t*>(parts.take(prepared));

    scratch_each_ = FloatParts::padded(
        std::max({kernels_.matmul_scratch(model.width), kernels_.matmul_scratch(model.inner),
                  kernels_.attention_scratch(cache.capacity())}));
    scratch_count_ = threads;
    memory.scratch.reserve(scratch_each_ * scratch_count_);
    scratch_ = memory.scratch.data();
}

// Calls body(unit, scratch) for each unit in [0, units), on several threads and in no fixed order:
// whoever is free takes the next one.
template <typename Body>
void PromptPass::for_each_unit(std::int64_t units, Body body) {
    if (scratch_count_ == 1 || count_ * model_.weights_read() < kProductsForTeam) {
        for (std::int64_t unit = 0; unit < units; ++unit) {
            body(unit, scratch_);
        }
        return;
    }
    std::atomic<std::int64_t> next{0};
    run_team([&](const TeamMember& member) {
        // Threads beyond those there is scratch for came after this pass began.
        if (member.index() < scratch_count_) {
            float* scratch = scratch_ + member.index() * scratch_each_;
            for (std::int64_t unit = next++; unit < units; unit = next++) {
                body(unit, scratch);
            }
        }
    });
}

// y = x W + bias for rows [0, rows), then finish(first column, last column) for each panel as it
// becomes ready.
template <typename Finish>
void PromptPass::multiply(const Product& product, Finish finish) {
    // Several panels at a time: the weights are read in longer runs, and the next panel is fetched
    // while one is used. For a few rows reading is all, so everyone gets one piece.
    const std::int64_t pieces = std::int64_t{get_num_threads()} * (product.rows > 16 ? 4 : 1);
    const LinearView& linear = product.linear;
    const kernels::PackedKernels* const packed = model_.packed_kernels;
    const std::int64_t panel = packed != nullptr ? kernels::kPackedPanel : kernels_.matmul_panel;
    const std::int64_t columns = blocks(blocks(linear.columns, pieces), panel) * panel;
    if (packed != nullptr) {
        prepare(product);
    }
    for_each_unit(blocks(linear.columns, columns), [&](std::int64_t unit, float* scratch) {
        const std::int64_t n0 = unit * columns;
        const std::int64_t n1 = std::min(n0 + columns, linear.columns);
        if (packed != nullptr) {
            packed->multiply(prepared_, product.rows, linear.packed, linear.bias, n0, n1, product.y,
                             linear.columns);
        } else {
            kernels_.matmul(product.x, linear.depth, product.rows,
                            {linear.weight, linear.columns, 1}, linear.depth, linear.bias, n0, n1,
                            product.y, linear.columns, scratch);
        }
        finish(n0, n1);
    });
}

void PromptPass::prepare(const Product& product) {
    const std::int64_t depth = product.linear.depth;
    const std::int64_t size = model_.packed_kernels->prepared_size(depth);
    for_each_unit(blocks(product.rows, kRowBlock), [&](std::int64_t unit, float* /*scratch*/) {
        const std::int64_t last = std::min((unit + 1) * kRowBlock, product.rows);
        for (std::int64_t row = unit * kRowBlock; row < last; ++row) {
            model_.packed_kernels->prepare(product.x + row * depth, depth, prepared_ + row * size);
        }
    });
}

bool PromptPass::run(const std::int64_t* ids, std::int64_t count, std::int64_t first,
                     PassLogits wanted, float* logits, const StopQuestion& should_stop) {
    count_ = count;
    first_ = first;
    embed(ids);
    const std::int64_t layers = static_cast<std::int64_t>(model_.layers.size());
    // The last layer gives what only the logits need: rows without logits end at its keys and
    // values.
    const std::int64_t kept = wanted == PassLogits::all    ? 0
                              : wanted == PassLogits::last ? count - 1
                                                           : count;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
        if (should_stop && (*should_stop)()) {
            return false;
        }
        run_layer(layer, layer + 1 == layers ? kept : 0);
    }
    if (kept < count) {
        write_logits(kept, logits);
    }
    return true;
}

void PromptPass::embed(const std::int64_t* ids) {
    for_each_unit(blocks(count_, kRowBlock), [&](std::int64_t unit, float* /*scratch*/) {
        const std::int64_t last = std::min((unit + 1) * kRowBlock, count_);
        for (std::int64_t row = unit * kRowBlock; row < last; ++row) {
            model_.embed(ids[row], first_ + row, residual_ + row * model_.width);
        }
    });
    show_embeddings(ids);
}

void PromptPass::run_layer(std::int64_t index, std::int64_t kept) {
    const LayerView& layer = model_.layers[static_cast<std::size_t>(index)];
    const std::int64_t width = model_.width;
    layer_ = index;

    normalize(residual_, layer.ln_1_gain, layer.ln_1_bias, count_);
    show_layer("ln_1", normalized_, width);
    multiply({normalized_, layer.qkv, count_, wide_}, [](std::int64_t, std::int64_t) {});
    show_layer("attn.c_attn", wide_, 3 * width);
    store_keys_and_values();
    const std::int64_t rows = count_ - kept;
    if (rows == 0) {
        return;
    }
    float* residual = residual_ + kept * width;
    attend(layer.score_scale, kept);
    add_product({normalized_, layer.proj, rows, product_}, residual);
    show_layer("attn.c_proj", product_, width);
    show_layer("residual", residual, width);

    normalize(residual, layer.ln_2_gain, layer.ln_2_bias, rows);
    show_layer("ln_2", normalized_, width);
    activate({normalized_, layer.fc, rows, wide_});
    add_product({wide_, layer.mlp_proj, rows, product_}, residual);
    show_layer("mlp.c_proj", product_, width);
    show_layer("", residual, width);
}

void PromptPass::normalize(const float* x, const float* gain, const float* bias,
                           std::int64_t rows) {
    const std::int64_t width = model_.width;
    for_each_unit(blocks(rows, kRowBlock), [&](std::int64_t unit, float* /*scratch*/) {
        const std::int64_t last = std::min((unit + 1) * kRowBlock, rows);
        for (std::int64_t row = unit * kRowBlock; row < last; ++row) {
            kernels_.layer_norm(x + row * width, gain, bias, model_.epsilon, width,
                                normalized_ + row * width);
        }
    });
}

// From wide_, where each row is query, key and value of all heads.
void PromptPass::store_keys_and_values() {
    const std::int64_t width = model_.width;
    const std::int64_t size = model_.head_dimension;
    for_each_unit(model_.heads, [&](std::int64_t head, float* /*scratch*/) {
        float* keys = cache_.keys(layer_, head);
        float* values = cache_.values(layer_, head);
        for (std::int64_t row = 0; row < count_; ++row) {
            const float* key = wide_ + row * 3 * width + width + head * size;
            kernels_.store_key(key, size, first_ + row, keys);
            std::copy_n(key + width, size, values + (first_ + row) * size);
        }
    });
}

// The queries of the rows from `kept` on, from wide_ to normalized_.
void PromptPass::attend(float scale, std::int64_t kept) {
    if (observer_) {
        attend_observed(scale);
        return;
    }
    const std::int64_t width = model_.width;
    const std::int64_t size = model_.head_dimension;
    const std::int64_t rows = count_ - kept;
    const std::int64_t row_blocks = blocks(rows, kQueryBlock);
    // The last queries see the most positions: the longest units come first.
    for_each_unit(row_blocks * model_.heads, [&](std::int64_t unit, float* scratch) {
        const std::int64_t head = unit % model_.heads;
        const std::int64_t begin = (row_blocks - 1 - unit / model_.heads) * kQueryBlock;
        kernels_.attention_rows(wide_ + (kept + begin) * 3 * width + head * size, 3 * width,
                                std::min(kQueryBlock, rows - begin), first_ + kept + begin,
                                cache_.keys(layer_, head), cache_.values(layer_, head), size, size,
                                scale, normalized_ + begin * width + head * size, width, scratch);
    });
}

void PromptPass::activate(const Product& product) {
    const auto apply = [&](std::int64_t n0, std::int64_t n1) {
        for (std::int64_t row = 0; row < product.rows; ++row) {
            model_.activation(product.y + row * product.linear.columns + n0, n1 - n0);
        }
    };
    if (!observer_) {
        multiply(product, apply); // while the panel is still in the cache
        return;
    }
    multiply(product, [](std::int64_t, std::int64_t) {});
    show_layer("mlp.c_fc", product.y, product.linear.columns);
    apply(0, product.linear.columns);
    show_layer("mlp.act", product.y, product.linear.columns);
}

void PromptPass::add_product(const Product& product, float* residual) {
    multiply(product, [&](std::int64_t n0, std::int64_t n1) {
        for (std::int64_t row = 0; row < product.rows; ++row) {
            const std::int64_t start = row * product.linear.columns + n0;
            kernels_.add(residual + start, product.y + start, n1 - n0);
        }
    });
}

void PromptPass::write_logits(std::int64_t kept, float* logits) {
    const std::int64_t width = model_.width;
    const std::int64_t rows = count_ - kept;
    normalize(residual_ + kept * width, model_.ln_f_gain, model_.ln_f_bias, rows);
    show("ln_f", normalized_, width);
    if (model_.packed_kernels != nullptr) {
        multiply({normalized_, model_.head, rows, logits}, [](std::int64_t, std::int64_t) {});
    } else {
        for_each_unit(blocks(model_.vocabulary, kVocabularyBlock), [&](std::int64_t unit,
                                                                       float* /*scratch*/) {
            const std::int64_t v0 = unit * kVocabularyBlock;
            kernels_.matmul_rows(normalized_, width, rows, model_.head.weight, width, v0,
                                 std::min(v0 + kVocabularyBlock, model_.vocabulary), logits,
                                 model_.vocabulary);
        });
    }
    show("logits", logits, model_.vocabulary);
    show_probabilities(logits);
}

// ---- For an observer ------------------------------------------------------------------------

// The three steps of attention_rows one by one; kernels.h promises the same bits.
void PromptPass::attend_observed(float scale) {
    const std::int64_t width = model_.width;
    const std::int64_t size = model_.head_dimension;
    const std::int64_t positions = first_ + count_;
    show_heads("attn.query", wide_);
    show_heads("attn.key", wide_ + width);
    show_heads("attn.value", wide_ + 2 * width);
    Tensor scores = Tensor::empty({model_.heads, count_, positions}, DType::float32);
    Tensor weights = Tensor::zeros({model_.heads, count_, positions}, DType::float32);
    std::fill_n(scores.mutable_data<float>(), scores.numel(),
                -std::numeric_limits<float>::infinity());
    for (std::int64_t head = 0; head < model_.heads; ++head) {
        for (std::int64_t row = 0; row < count_; ++row) {
            const std::int64_t seen = first_ + row + 1;
            const std::int64_t place = (head * count_ + row) * positions;
            float* work = scratch_;
            kernels_.attention_scores(wide_ + row * 3 * width + head * size,
                                      cache_.keys(layer_, head), size, seen, scale, work);
            std::copy_n(work, seen, scores.mutable_data<float>() + place);
            kernels_.softmax(work, seen);
            std::copy_n(work, seen, weights.mutable_data<float>() + place);
            kernels_.attention_mix(work, cache_.values(layer_, head), size, size, seen,
                                   normalized_ + row * width + head * size);
        }
    }
    show_layer_tensor("attn.scores", scores);
    show_layer_tensor("attn.weights", weights);
    show_layer("attn.mixed", normalized_, width);
}

void PromptPass::show(std::string_view name, const float* rows, std::int64_t columns) const {
    if (observer_) {
        const auto bytes = count_ * columns * static_cast<std::int64_t>(sizeof(float));
        (*observer_)(name, Tensor::from_bytes(rows, bytes, {count_, columns}, DType::float32));
    }
}

void PromptPass::show_layer(std::string_view name, const float* rows, std::int64_t columns) const {
    if (observer_) {
        show(layer_name(name), rows, columns);
    }
}

void PromptPass::show_layer_tensor(std::string_view name, const Tensor& value) const {
    (*observer_)(layer_name(name), value);
}

std::string PromptPass::layer_name(std::string_view name) const {
    std::string full = "h." + std::to_string(layer_);
    return name.empty() ? full : full + "." + std::string(name);
}

// One third of wide_, as [heads, rows, head dimension].
void PromptPass::show_heads(std::string_view name, const float* third) const {
    const std::int64_t size = model_.head_dimension;
    Tensor value = Tensor::empty({model_.heads, count_, size}, DType::float32);
    float* out = value.mutable_data<float>();
    for (std::int64_t head = 0; head < model_.heads; ++head) {
        for (std::int64_t row = 0; row < count_; ++row) {
            out = std::copy_n(third + row * 3 * model_.width + head * size, size, out);
        }
    }
    show_layer_tensor(name, value);
}

void PromptPass::show_embeddings(const std::int64_t* ids) const {
    if (!observer_) {
        return;
    }
    const std::int64_t width = model_.width;
    Tensor tokens = Tensor::empty({count_, width}, DType::float32);
    float* out = tokens.mutable_data<float>();
    for (std::int64_t row = 0; row < count_; ++row) {
        model_.embed_token(ids[row], out + row * width);
    }
    (*observer_)("wte", tokens);
    show("wpe", model_.position_embedding + first_ * width, width);
    show("embedding", residual_, width);
}

void PromptPass::show_probabilities(const float* logits) const {
    if (!observer_) {
        return;
    }
    const std::int64_t vocabulary = model_.vocabulary;
    Tensor probabilities = Tensor::empty({count_, vocabulary}, DType::float32);
    const FloatBuffer row_memory(FloatParts::padded(vocabulary)); // softmax clears whole blocks
    for (std::int64_t row = 0; row < count_; ++row) {
        std::copy_n(logits + row * vocabulary, vocabulary, row_memory.data());
        kernels_.softmax(row_memory.data(), vocabulary);
        std::copy_n(row_memory.data(), vocabulary,
                    probabilities.mutable_data<float>() + row * vocabulary);
    }
    (*observer_)("probabilities", probabilities);
}

} // namespace kael::gpt
