// One token through the model, reading every weight once: the loop that decides how fast text is
// generated.
//
// Each product with float32 weights is divided into two halves of its depth (kernels.h, "linear"),
// and these into blocks of columns. Two threads take one half each, so that both read whole rows of
// the matrix: with a share of each row, hardware prefetching overshoots and a quarter of the
// memory's bandwidth is lost. Packed weights lie in memory as they are read, so a share of the
// columns is as good. Residual stream and layer norm are small and computed by every thread for
// itself, which leaves four barriers a layer.
#pragma once

#include <cstdint>
#include <vector>

#include "kael/threads.h"

#include "gpt/float_buffer.h"
#include "gpt/kv_cache.h"
#include "gpt/model_view.h"
#include "gpt/team_watch.h"

namespace kael::gpt {

class TokenStep {
public:
    explicit TokenStep(const ModelView& model);

    // Puts token `id` at `position`, which must be the first free one of the cache, and leaves the
    // logits of the next token in logits[vocabulary]. Allocates only when there are more threads or
    // a longer cache than before.
    void run(std::int64_t id, std::int64_t position, const KeyValueCache& cache, float* logits);

    // Whether one thread is faster at the moment, since other processes have the processors.
    [[nodiscard]] bool is_alone() const noexcept { return watch_.is_alone(); }

private:
    // What the threads share, as the halves of products or whole.
    struct Shared {
        float* qkv_halves;      // [2][3 * width]; of packed weights the first half is the product
        float* mixed;           // [width], what the heads give
        float* proj_halves;     // [2][width]
        float* fc_halves;       // [2][inner]
        float* activated;       // [inner]
        float* mlp_proj_halves; // [2][width]
    };
    // What each thread has for itself.
    struct Own {
        float* residual;        // [width]
        float* normalized;      // [width]
        float* qkv;             // [3 * width]
        float* scores;          // [capacity of the cache]
        std::uint8_t* prepared; // a row of max(width, inner), for packed weights
    };
    class Member;

    // Returns the seconds it took.
    double run_alone(std::int64_t id, std::int64_t position, const KeyValueCache& cache,
                     float* logits);
    void reserve(int members, std::int64_t capacity);
    [[nodiscard]] Own own(int member) const;

    const ModelView& model_;
    FloatBuffer shared_memory_;
    FloatBuffer own_memory_;
    Shared shared_{};
    std::int64_t prepared_floats_ = 0; // that a prepared row takes the room of
    int members_ = 0;
    std::vector<double> busy_seconds_; // of each member, in the last token
    TeamWatch watch_;
    std::int64_t capacity_ = 0;
};

} // namespace kael::gpt
