#include "gpt/decoder.h"

#include <algorithm>

#include "kael/error.h"
#include "kael/threads.h"

namespace kael::gpt {

namespace {

// Positions that pass through together: enough that reading the weights costs little beside
// multiplying with them, few enough that working memory stays small beside the weights.
constexpr std::int64_t kMostRows = 512;

// So many take about as long as one token: reading the weights is most of it, and threads wait for
// each other as often.
constexpr std::int64_t kFewRows = 16;

// Positions whose logits are in memory at once where all are shown: 13 MB of GPT-2's.
constexpr std::int64_t kShownRows = 64;

// Rows of each of the passes that `count` positions take: as few passes as possible, of about
// equal size, which is a multiple of the kernels' tiles.
std::int64_t rows_of_pass(std::int64_t count) {
    const std::int64_t passes = (count + kMostRows - 1) / kMostRows;
    const std::int64_t rows = (count + passes - 1) / passes;
    return std::min((rows + 7) / 8 * 8, count);
}

} // namespace

Decoder::Decoder(const Config& config, const Weights& weights, const PackedWeights* packed)
    : model_(config, weights, packed), cache_(config), step_(model_), logits_(config.vocab_size) {}

Decoder::Use::Use(Decoder& decoder) : busy_(decoder.busy_) {
    KAEL_CHECK(!busy_.test_and_set(std::memory_order_acquire),
               "the model is in use by another call, expected one call at a time");
}

std::int64_t Decoder::shared_prefix(std::span<const std::int64_t> ids) const {
    return std::ranges::mismatch(ids_, ids).in1 - ids_.begin();
}

void Decoder::keep(std::int64_t count) {
    ids_.resize(static_cast<std::size_t>(std::min(count, position())));
}

int Decoder::threads_for(std::int64_t rows) const {
    return rows <= kFewRows && step_.is_alone() ? 1 : get_num_threads();
}

void Decoder::reserve(std::int64_t positions) {
    cache_.reserve(std::min(positions, model_.positions), position());
}

bool Decoder::advance(const std::int64_t* ids, std::int64_t count,
                      const StopQuestion& should_stop) {
    reserve(position() + count);
    if (count == 1) {
        step_.run(ids[0], position(), cache_, logits_.data());
        ids_.push_back(ids[0]);
        return true;
    }
    const std::int64_t rows = rows_of_pass(count);
    PromptPass pass(model_, cache_, rows, pass_memory_, threads_for(rows));
    for (std::int64_t done = 0; done < count; done += rows) {
        const std::int64_t now = std::min(rows, count - done);
        const PassLogits wanted = done + now == count ? PassLogits::last : PassLogits::none;
        if (!pass.run(ids + done, now, position(), wanted, logits_.data(), should_stop)) {
            return false;
        }
        ids_.insert(ids_.end(), ids + done, ids + done + now);
    }
    return true;
}

bool Decoder::advance_showing(const std::int64_t* ids, std::int64_t count,
                              const StopQuestion& should_stop, LogitsObserver show) {
    reserve(position() + count);
    const std::int64_t rows = std::min(kShownRows, count);
    PromptPass pass(model_, cache_, rows, pass_memory_, threads_for(rows));
    const FloatBuffer shown(rows * model_.vocabulary);
    for (std::int64_t done = 0; done < count; done += rows) {
        const std::int64_t now = std::min(rows, count - done);
        if (!pass.run(ids + done, now, position(), PassLogits::all, shown.data(), should_stop)) {
            return false;
        }
        ids_.insert(ids_.end(), ids + done, ids + done + now);
        for (std::int64_t row = 0; row < now; ++row) {
            show(done + row, shown.data() + row * model_.vocabulary);
        }
        std::copy_n(shown.data() + (now - 1) * model_.vocabulary, model_.vocabulary,
                    logits_.data());
    }
    return true;
}

void Decoder::all_logits(const std::int64_t* ids, std::int64_t count, float* logits) {
    reserve(position() + count);
    const std::int64_t rows = rows_of_pass(count);
    PromptPass pass(model_, cache_, rows, pass_memory_, threads_for(rows));
    for (std::int64_t done = 0; done < count; done += rows) {
        const std::int64_t now = std::min(rows, count - done);
        static_cast<void>(pass.run(ids + done, now, position(), PassLogits::all,
                                   logits + done * model_.vocabulary, std::nullopt));
        ids_.insert(ids_.end(), ids + done, ids + done + now);
    }
}

void Decoder::observe(const std::int64_t* ids, std::int64_t count,
                      const ActivationObserver& observer) {
    keep(0);
    reserve(count);
    PromptPass pass(model_, cache_, count, pass_memory_, get_num_threads());
    pass.observe(observer);
    const FloatBuffer logits(count * model_.vocabulary);
    static_cast<void>(pass.run(ids, count, 0, PassLogits::all, logits.data(), std::nullopt));
    ids_.assign(ids, ids + count);
}

} // namespace kael::gpt
