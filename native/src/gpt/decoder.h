// A GPT-2 at work: its cache of keys and values, and the two ways through the model.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kael/gpt.h"

#include "gpt/float_buffer.h"
#include "gpt/kv_cache.h"
#include "gpt/model_view.h"
#include "gpt/prompt_pass.h"
#include "gpt/token_step.h"

namespace kael::gpt {

using LogitsObserver = FunctionRef<void(std::int64_t index, const float* logits)>;

// Ids are those of tokens of the vocabulary, and positions never pass the model's: callers check.
// Results do not depend on the number of threads, on how positions are divided among calls, or on
// whether a position came alone or with others. `weights` and `packed`, which is
// null for float32, outlive the decoder.
class Decoder {
public:
    Decoder(const Config& config, const Weights& weights, const PackedWeights* packed);
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    // Reads the float32 weights, the same numbers as before, from where they have moved to. Needs
    // no memory.
    void find_weights(const Config& config, const Weights& weights) {
        model_.find_weights(config, weights, nullptr);
    }

    // How many positions there are keys and values for, in the order of their ids.
    [[nodiscard]] std::int64_t position() const noexcept { return std::ssize(ids_); }
    // With how many ids of `ids` those begin.
    [[nodiscard]] std::int64_t shared_prefix(std::span<const std::int64_t> ids) const;
    // Forgets all but the first `count` positions.
    void keep(std::int64_t count);
    // Memory grows with the positions used; this saves growing in steps.
    void reserve(std::int64_t positions);

    // Continues with `count` ids, at least one. Afterwards logits() are those of the last of them.
    // False when `should_stop`, asked before each layer that several ids pass, said yes: then there
    // are no logits, and the positions are those of the passes that came to their end.
    [[nodiscard]] bool advance(const std::int64_t* ids, std::int64_t count,
                               const StopQuestion& should_stop);
    // The same, and calls show(index, logits) for each of the ids in order.
    [[nodiscard]] bool advance_showing(const std::int64_t* ids, std::int64_t count,
                                       const StopQuestion& should_stop, LogitsObserver show);
    [[nodiscard]] const float* logits() const noexcept { return logits_.data(); }
    // The same, but the logits of each of the ids go to `logits`, [count, vocabulary].
    void all_logits(const std::int64_t* ids, std::int64_t count, float* logits);

    [[nodiscard]] std::int64_t id_at(std::int64_t position) const {
        return ids_[static_cast<std::size_t>(position)];
    }

    // Forgets everything, then runs one pass that shows every intermediate result.
    void observe(const std::int64_t* ids, std::int64_t count, const ActivationObserver& observer);

    // The right to use the decoder; a second call at the same time, also one from within on_token,
    // is refused instead of mixing its positions with those of the first.
    class Use {
    public:
        explicit Use(Decoder& decoder);
        ~Use() { busy_.clear(std::memory_order_release); }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

    private:
        std::atomic_flag& busy_;
    };

private:
    [[nodiscard]] int threads_for(std::int64_t rows) const;

    ModelView model_;
    KeyValueCache cache_;
    TokenStep step_;
    PassMemory pass_memory_;
    FloatBuffer logits_;
    std::vector<std::int64_t> ids_; // whose keys and values the cache holds
    std::atomic_flag busy_;
};

} // namespace kael::gpt
