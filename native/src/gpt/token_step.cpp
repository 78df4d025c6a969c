#include "gpt/token_step.h"

#include <algorithm>
#include <chrono>

namespace kael::gpt {

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
}

struct Range {
    std::int64_t first;
    std::int64_t last;
};

Range part(std::int64_t count, int index, int parts) {
    return {count * index / parts, count * (index + 1) / parts};
}

// Columns, or rows of the head, that stay together: four cache lines.
constexpr std::int64_t kColumns = 64;

Range columns_of(Range blocks, std::int64_t columns) {
    return {std::min(blocks.first * kColumns, columns), std::min(blocks.last * kColumns, columns)};
}

std::int64_t blocks_of(std::int64_t columns) {
    return (columns + kColumns - 1) / kColumns;
}

// Below this many weights a token takes less time than waking a second thread may.
constexpr std::int64_t kWeightsForTeam = std::int64_t{1} << 20;

} // namespace

// One thread's part of a step.
class TokenStep::Member {
public:
    Member(const TokenStep& step, const KeyValueCache& cache, std::int64_t position,
           const TeamMember& member)
        : model_(step.model_), kernels_(model_.kernels), cache_(cache), position_(position),
          team_(member), shared_(step.shared_), own_(step.own(member.index())),
          // Two threads, each with one half of the heads: what a half of the projection needs.
          keeps_halves_(team_.size() == 1 || (model_.packed_kernels == nullptr &&
                                              team_.size() == 2 && model_.heads % 2 == 0)) {}

    // Returns the seconds that it did not wait for others.
    double run(std::int64_t id, float* logits) {
        const Clock::time_point begin = Clock::now();
        model_.embed(id, position_, own_.residual);
        for (std::int64_t layer = 0; layer < static_cast<std::int64_t>(model_.layers.size());
             ++layer) {
            run_layer(layer);
        }
        normalize(model_.ln_f_gain, model_.ln_f_bias);
        if (model_.packed_kernels != nullptr) {
            multiply_packed(own_.normalized, model_.head, logits);
        } else {
            const Range rows = panels_of(model_.vocabulary);
            kernels_.matmul_rows(own_.normalized, model_.width, 1, model_.head.weight, model_.width,
                                 rows.first, rows.last, logits, model_.vocabulary);
        }
        return seconds(Clock::now() - begin - waited_);
    }

private:
    void wait() {
        if (team_.size() > 1) {
            const Clock::time_point begin = Clock::now();
            team_.barrier();
            waited_ += Clock::now() - begin;
        }
    }

    // A buffer is written again only after a barrier that its readers have passed: that of the next
    // product but one.
    void run_layer(std::int64_t index) {
        const LayerView& layer = model_.layers[static_cast<std::size_t>(index)];

        normalize(layer.ln_1_gain, layer.ln_1_bias);
        multiply(own_.normalized, layer.qkv, shared_.qkv_halves);
        wait();
        attend(layer, index);
        if (!keeps_halves_) {
            wait();
        }
        multiply(shared_.mixed, layer.proj, shared_.proj_halves);
        wait();
        add_to_residual(shared_.proj_halves, layer.proj);

        normalize(layer.ln_2_gain, layer.ln_2_bias);
        multiply(own_.normalized, layer.fc, shared_.fc_halves);
        wait();
        activate(layer);
        if (team_.size() > 2 || model_.packed_kernels != nullptr) {
            wait();
        }
        multiply(shared_.activated, layer.mlp_proj, shared_.mlp_proj_halves);
        wait();
        add_to_residual(shared_.mlp_proj_halves, layer.mlp_proj);
    }

    void normalize(const float* gain, const float* bias) const {
        kernels_.layer_norm(own_.residual, gain, bias, model_.epsilon, model_.width,
                            own_.normalized);
    }

    // This member's blocks of columns, counted through the first half and then the second.
    void multiply(const float* x, const LinearView& linear, float* halves) const {
        if (model_.packed_kernels != nullptr) {
            multiply_packed(x, linear, halves);
            return;
        }
        const std::int64_t columns = linear.columns;
        const std::int64_t blocks = blocks_of(columns);
        const Range mine = part(2 * blocks, team_.index(), team_.size());
        const std::int64_t middle = linear.depth / 2;
        if (mine.first < blocks) {
            const Range range = columns_of({mine.first, std::min(mine.last, blocks)}, columns);
            kernels_.vector_matrix(x, linear.weight, columns, 0, middle, range.first, range.last,
                                   halves);
        }
        if (mine.last > blocks) {
            const Range range =
                columns_of({std::max(mine.first, blocks) - blocks, mine.last - blocks}, columns);
            kernels_.vector_matrix(x, linear.weight, columns, middle, linear.depth, range.first,
                                   range.last, second_half(halves, columns));
        }
    }

    // This member's panels of a product, or rows of the head.
    [[nodiscard]] Range panels_of(std::int64_t columns) const {
        return columns_of(part(blocks_of(columns), team_.index(), team_.size()), columns);
    }

    // The product in this member's panels, with their bias.
    void multiply_packed(const float* x, const LinearView& linear, float* y) const {
        const Range range = panels_of(linear.columns);
        const kernels::PackedKernels& packed = *model_.packed_kernels;
        packed.prepare(x, linear.depth, own_.prepared);
        packed.multiply(own_.prepared, 1, linear.packed, linear.bias, range.first, range.last, y,
                        linear.columns);
    }

    // out[range] = the product.
    void combine(const float* halves, const LinearView& linear, Range range, float* out) const {
        const std::int64_t count = range.last - range.first;
        if (model_.packed_kernels != nullptr) {
            std::copy_n(halves + range.first, count, out);
        } else {
            kernels_.add_halves(halves + range.first,
                                second_half(halves, linear.columns) + range.first,
                                linear.bias + range.first, count, out);
        }
    }

    template <typename Float>
    static Float* second_half(Float* halves, std::int64_t columns) {
        return halves + FloatParts::padded(columns);
    }

    void add_to_residual(const float* halves, const LinearView& linear) const {
        combine(halves, linear, {0, model_.width}, own_.normalized);
        kernels_.add(own_.residual, own_.normalized, model_.width);
    }

    void attend(const LayerView& layer, std::int64_t index) const {
        const std::int64_t width = model_.width;
        const std::int64_t size = model_.head_dimension;
        const Range heads = part(model_.heads, team_.index(), team_.size());
        for (std::int64_t third = 0; third < 3; ++third) {
            const Range columns = {third * width + heads.first * size,
                                   third * width + heads.last * size};
            combine(shared_.qkv_halves, layer.qkv, columns, own_.qkv + columns.first);
        }
        for (std::int64_t head = heads.first; head < heads.last; ++head) {
            const float* query = own_.qkv + head * size;
            float* keys = cache_.keys(index, head);
            float* values = cache_.values(index, head);
            kernels_.store_key(query + width, size, position_, keys);
            std::copy_n(query + 2 * width, size, values + position_ * size);
            kernels_.attention_scores(query, keys, size, position_ + 1, layer.score_scale,
                                      own_.scores);
            kernels_.softmax(own_.scores, position_ + 1);
            kernels_.attention_mix(own_.scores, values, size, size, position_ + 1,
                                   shared_.mixed + head * size);
        }
    }

    // With two threads these are the rows of its own half of the product that follows.
    void activate(const LayerView& layer) const {
        const Range range = part(model_.inner, team_.index(), team_.size());
        float* activated = shared_.activated + range.first;
        combine(shared_.fc_halves, layer.fc, range, activated);
        model_.activation(activated, range.last - range.first);
    }

    const ModelView& model_;
    const kernels::CpuKernels& kernels_;
    const KeyValueCache& cache_;
    const std::int64_t position_;
    const TeamMember team_;
    const Shared& shared_;
    const Own own_;
    const bool keeps_halves_;
    Clock::duration waited_{};
};

TokenStep::TokenStep(const ModelView& model) : model_(model) {
    const std::int64_t width = FloatParts::padded(model.width);
    const std::int64_t inner = FloatParts::padded(model.inner);
    const std::int64_t qkv = FloatParts::padded(3 * model.width);
    shared_memory_.reserve(2 * (qkv + width + inner + width) + width + inner);
    FloatParts parts(shared_memory_.data());
    shared_.qkv_halves = parts.take(2 * qkv);
    shared_.mixed = parts.take(width);
    shared_.proj_halves = parts.take(2 * width);
    shared_.fc_halves = parts.take(2 * inner);
    shared_.activated = parts.take(inner);
    shared_.mlp_proj_halves = parts.take(2 * width);
    if (model.packed_kernels != nullptr) {
        const std::int64_t deepest = std::max(model.width, model.inner);
        prepared_floats_ =
            model.packed_kernels->prepared_size(deepest) / static_cast<std::int64_t>(sizeof(float));
    }
}

void TokenStep::run(std::int64_t id, std::int64_t position, const KeyValueCache& cache,
                    float* logits) {
    if (model_.weights_read() < kWeightsForTeam) {
        run_alone(id, position, cache, logits);
        return;
    }
    if (watch_.is_alone()) {
        watch_.token_alone(run_alone(id, position, cache, logits));
        return;
    }
    // The number of threads may be changed at any time: when a larger team shows up, nobody works,
    // and a second team does.
    for (int needed = get_num_threads(); needed != 0;) {
        reserve(needed, cache.capacity());
        int size = 1;
        const Clock::time_point begin = Clock::now();
        run_team([&](const TeamMember& member) {
            const bool fits = member.size() <= members_;
            if (fits) {
                busy_seconds_[static_cast<std::size_t>(member.index())] =
                    Member(*this, cache, position, member).run(id, logits);
            }
            if (member.index() == 0) {
                needed = fits ? 0 : member.size();
                size = member.size();
            }
        });
        if (needed == 0 && size > 1) {
            const double quickest =
                *std::min_element(busy_seconds_.begin(), busy_seconds_.begin() + size);
            const double whole = seconds(Clock::now() - begin);
            watch_.token_of_team(whole, 1 - quickest / whole);
        }
    }
}

double TokenStep::run_alone(std::int64_t id, std::int64_t position, const KeyValueCache& cache,
                            float* logits) {
    reserve(1, cache.capacity());
    return Member(*this, cache, position, TeamMember(0, 1, nullptr)).run(id, logits);
}

void TokenStep::reserve(int members, std::int64_t capacity) {
    if (members > members_ || capacity > capacity_) {
        const int needed = std::max(members, members_);
        capacity_ = std::max(capacity, capacity_);
        const std::int64_t each = 2 * FloatParts::padded(model_.width) +
                                  FloatParts::padded(3 * model_.width) +
                                  FloatParts::padded(capacity_) + prepared_floats_;
        members_ = 0; // unless there is memory
        own_memory_.reserve(needed * each);
        busy_seconds_.resize(static_cast<std::size_t>(needed));
        members_ = needed;
    }
}

TokenStep::Own TokenStep::own(int member) const {
    const std::int64_t each = own_memory_.count() / members_;
    FloatParts parts(own_memory_.data() + member * each);
    return {.residual = parts.take(model_.width),
            .normalized = parts.take(model_.width),
            .qkv = parts.take(3 * model_.width),
            .scores = parts.take(capacity_),
            .prepared = reinterpret_cast<std::uint8_t*>(parts.take(prepared_floats_))};
}

} // namespace kael::gpt
