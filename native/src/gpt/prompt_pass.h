// Many positions through the model at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kael/gpt.h"
#include "kael/threads.h"

#include "gpt/float_buffer.h"
#include "gpt/kv_cache.h"
#include "gpt/model_view.h"

namespace kael::gpt {

using StopQuestion = std::optional<FunctionRef<bool()>>;

// What a pass leaves behind, besides keys and values in the cache.
enum class PassLogits {
    none, // only keys and values count
    last, // logits[vocabulary] of the last position
    all,  // logits[count, vocabulary]
};

// Kept from pass to pass: in a window that slides, every token is a pass.
struct PassMemory {
    FloatBuffer rows;
    FloatBuffer scratch; // for each thread
};

class PromptPass {
public:
    // For passes of at most `rows` positions on at most `threads`, one PromptPass at a time in
    // `memory`.
    PromptPass(const ModelView& model, const KeyValueCache& cache, std::int64_t rows,
               PassMemory& memory, int threads);

    // Shows intermediate results from now on.
    void observe(const ActivationObserver& observer) { observer_ = observer; }

    // Runs ids[count] at the positions from `first` on, which the cache has room for. False when
    // `should_stop`, asked before each layer, said yes.
    [[nodiscard]] bool run(const std::int64_t* ids, std::int64_t count, std::int64_t first,
                           PassLogits wanted, float* logits, const StopQuestion& should_stop);

private:
    // y[rows, columns] = x[rows, depth] W + bias
    struct Product {
        const float* x;
        const LinearView& linear;
        std::int64_t rows;
        float* y;
    };

    template <typename Body>
    void for_each_unit(std::int64_t units, Body body);
    template <typename Finish>
    void multiply(const Product& product, Finish finish);
    void prepare(const Product& product);

    void embed(const std::int64_t* ids);
    void run_layer(std::int64_t index, std::int64_t kept);
    void normalize(const float* x, const float* gain, const float* bias, std::int64_t rows);
    void store_keys_and_values();
    void attend(float scale, std::int64_t kept);
    void attend_observed(float scale);
    void activate(const Product& product);
    void add_product(const Product& product, float* residual);
    void write_logits(std::int64_t kept, float* logits);

    void show(std::string_view name, const float* rows, std::int64_t columns) const;
    void show_layer(std::string_view name, const float* rows, std::int64_t columns) const;
    void show_layer_tensor(std::string_view name, const Tensor& value) const;
    void show_heads(std::string_view name, const float* third) const;
    void show_embeddings(const std::int64_t* ids) const;
    void show_probabilities(const float* logits) const;
    [[nodiscard]] std::string layer_name(std::string_view name) const;

    const ModelView& model_;
    const kernels::CpuKernels& kernels_;
    const KeyValueCache& cache_;
    std::optional<ActivationObserver> observer_;

    std::int64_t count_ = 0; // positions of this pass
    std::int64_t first_ = 0; // the first of them
    std::int64_t layer_ = 0; // the one at work

    float* residual_;        // [rows, width]
    float* normalized_;      // [rows, width], later what the heads give
    float* product_;         // [rows, width], what is added to the residual stream
    float* wide_;            // [rows, max(3 * width, inner)]
    std::uint8_t* prepared_; // rows of max(width, inner), for packed weights
    float* scratch_;         // for each thread
    std::int64_t scratch_each_ = 0;
    int scratch_count_ = 0;
};

} // namespace kael::gpt
