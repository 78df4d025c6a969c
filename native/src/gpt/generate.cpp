// GPT::generate: the loop from prompt to tokens.
#include <algorithm>
#include <chrono>
#include <span>
#include <sstream>

#include "kael/error.h"
#include "kael/gpt.h"

#include "gpt/decoder.h"
#include "gpt/logit_adjustments.h"
#include "gpt/logprobs.h"
#include "gpt/prompt.h"
#include "gpt/prompt_lookup.h"
#include "gpt/sampler.h"

namespace kael::gpt {

namespace {

// New positions that the cache gets room for at once.
constexpr std::int64_t kExpectedTokens = 128;
// Tokens that the lists of ids get room for at once.
constexpr std::int64_t kReservedTokens = 65536;

// More would need memory for logits that a caller has not thought of.
constexpr std::int64_t kMostGuesses = 64;

// More would make rows whose size a caller has not thought of.
constexpr std::int64_t kMostTopLogprobs = 1'000'000;

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
    return std::chrono::duration<double>(end - start).count();
}

class Generation {
public:
    Generation(const Config& config, Decoder& decoder, const std::int64_t* ids, std::int64_t count,
               const GenerateOptions& options)
        : config_(config), decoder_(decoder), options_(options),
          seed_(options.seed ? *options.seed : draw_seed()), stream_(seed_), adjustments_(options),
          lookup_(options.use_cache ? options.speculate : 0) {
        adjustments_.add_prompt({ids, static_cast<std::size_t>(count)}, config.vocab_size);
        // Earlier ids are never looked at: the window slides past them.
        const std::int64_t seen = std::min(count, config.max_positions);
        const std::int64_t room = std::min(options.max_tokens, kReservedTokens);
        history_.reserve(static_cast<std::size_t>(seen + room));
        history_.assign(ids + (count - seen), ids + count);
        result_.tokens.reserve(static_cast<std::size_t>(room));
    }

    GenerateResult run() {
        started_ = first_token_ = Clock::now();
        result_.seed = seed_;
        result_.finish_reason = options_.max_tokens == 0 ? look_at_prompt() : generate();
        const Clock::time_point ended = Clock::now();
        const bool has_tokens = !result_.tokens.empty();
        result_.prompt_seconds = seconds_between(started_, has_tokens ? first_token_ : ended);
        result_.decode_seconds = has_tokens ? seconds_between(first_token_, ended) : 0;
        return std::move(result_);
    }

private:
    std::int64_t pick() {
        try {
            return sampler_.pick(adjustments_.apply(logits_, config_.vocab_size),
                                 config_.vocab_size, options_, stream_.next_uniform());
        } catch (const Error& failure) {
            std::ostringstream message;
            message << "at new token " << result_.tokens.size() + 1 << ", " << failure.message()
                    << ": python -m kael inspect counts the weights that are no numbers";
            throw Error(failure.code(), __FILE__, __LINE__, "logits to choose from", message.str());
        }
    }

    // No tokens take no forward pass, unless the prompt itself is asked about.
    FinishReason look_at_prompt() {
        if (options_.prompt_logprobs == nullptr) {
            return FinishReason::length;
        }
        begin();
        return compute_logits() ? FinishReason::length : FinishReason::stopped;
    }

    FinishReason generate() {
        begin();
        while (true) {
            if (should_stop() || !compute_logits()) {
                return FinishReason::stopped;
            }
            const std::int64_t token = pick();
            if (result_.tokens.empty()) {
                first_token_ = Clock::now();
            }
            if (options_.logprobs != nullptr) {
                write_logprobs(logits_, token, options_.logprobs, std::ssize(result_.tokens));
            }
            history_.push_back(token);
            adjustments_.add_generated(token, config_.vocab_size);
            result_.tokens.push_back(token);
            const bool goes_on = announce(token);
            if (std::find(options_.stop_tokens.begin(), options_.stop_tokens.end(), token) !=
                options_.stop_tokens.end()) {
                return FinishReason::stop_token;
            }
            if (!goes_on) {
                return FinishReason::callback;
            }
            if (static_cast<std::int64_t>(result_.tokens.size()) == options_.max_tokens) {
                return FinishReason::length;
            }
        }
    }

    [[nodiscard]] bool should_stop() const {
        return options_.should_stop && (*options_.should_stop)();
    }

    // The last of the ids that the model can see at once.
    [[nodiscard]] std::span<const std::int64_t> window() const {
        const std::int64_t seen = std::min(std::ssize(history_), config_.max_positions);
        return std::span(history_).last(static_cast<std::size_t>(seen));
    }

    // Keeps of what the decoder has seen earlier that with which the prompt begins. Its last id
    // passes again in any case: logits are not kept.
    void begin() {
        const std::int64_t known = decoder_.shared_prefix(window().first(window().size() - 1));
        decoder_.keep(known);
        decoder_.reserve(std::ssize(window()) + std::min(options_.max_tokens, kExpectedTokens));
        result_.cached_tokens = known;
    }

    // Logits for the token that follows the history. The ids that are new to the decoder pass; or
    // all of the window, when it has slid: each then stands at another position than before, and
    // nothing that was computed for it holds any more.
    [[nodiscard]] bool compute_logits() {
        if (was_guessed()) {
            return true;
        }
        logits_ = decoder_.logits();
        if (!options_.use_cache || decoder_.position() == config_.max_positions) {
            decoder_.keep(0);
        }
        if (options_.prompt_logprobs != nullptr && result_.tokens.empty()) {
            return compute_prompt_logprobs();
        }
        const auto ids = window().subspan(static_cast<std::size_t>(decoder_.position()));
        if (ids.size() == 1 && try_guesses()) {
            return true;
        }
        return decoder_.advance(ids.data(), std::ssize(ids), options_.should_stop);
    }

    // One pass over the last token and what may follow it. Its logits for each are those that the
    // token alone would give, and the next ones are there already where a guess is right. Not
    // stopped by should_stop: it takes little longer than one token.
    [[nodiscard]] bool try_guesses() {
        const auto text = window();
        // The token after the last guess comes with it.
        const std::int64_t room = std::min(options_.max_tokens - std::ssize(result_.tokens) - 1,
                                           config_.max_positions - std::ssize(text));
        const auto guess = lookup_.guess(text, room);
        if (guess.empty()) {
            return false;
        }
        tried_.assign(1, text.back());
        tried_.insert(tried_.end(), guess.begin(), guess.end());
        guess_logits_.reserve((1 + options_.speculate) * config_.vocab_size);
        first_tried_ = decoder_.position();
        decoder_.all_logits(tried_.data(), std::ssize(tried_), guess_logits_.data());
        logits_ = guess_logits_.data();
        return true;
    }

    // Whether the decoder has come as far as the history by a guess that was right. What it has of
    // a wrong one is forgotten.
    [[nodiscard]] bool was_guessed() {
        const std::int64_t last = std::ssize(history_) - 1;
        if (last >= decoder_.position()) {
            return false;
        }
        if (decoder_.id_at(last) != history_.back()) {
            decoder_.keep(last);
            return false;
        }
        logits_ = guess_logits_.data() + (last - first_tried_) * config_.vocab_size;
        ++result_.guessed_tokens;
        return true;
    }

    // The prompt, position by position, with what each says of the next.
    [[nodiscard]] bool compute_prompt_logprobs() {
        const std::int64_t count = std::ssize(history_);
        const auto show = [&](std::int64_t index, const float* logits) {
            if (index + 1 < count) {
                write_logprobs(logits, history_[static_cast<std::size_t>(index + 1)],
                               options_.prompt_logprobs, index);
            }
        };
        return decoder_.advance_showing(history_.data(), count, options_.should_stop, show);
    }

    void write_logprobs(const float* logits, std::int64_t token, TokenLogprob* rows,
                        std::int64_t index) {
        logprob_writer_.write(logits, config_.vocab_size, token, options_.top_logprobs,
                              rows + index * (1 + options_.top_logprobs));
    }

    [[nodiscard]] bool announce(std::int64_t token) const {
        if (!options_.on_token) {
            return true;
        }
        const TokenAnswer answer = (*options_.on_token)(token);
        KAEL_CHECK_AS(ErrorCode::callback_failed, answer != TokenAnswer::failed,
                      "on_token failed at new token " << result_.tokens.size());
        return answer != TokenAnswer::stop;
    }

    const Config& config_;
    Decoder& decoder_;
    const GenerateOptions& options_;
    const std::uint64_t seed_;
    RandomStream stream_;
    LogitAdjustments adjustments_;
    Sampler sampler_;
    LogprobWriter logprob_writer_;
    PromptLookup lookup_;
    std::vector<std::int64_t> tried_; // ids of the last pass over guesses
    std::int64_t first_tried_ = 0;    // the position of the first of them
    FloatBuffer guess_logits_;
    const float* logits_ = nullptr;     // for the token that follows the history
    std::vector<std::int64_t> history_; // what the model may look at, and more once it slides
    GenerateResult result_;
    Clock::time_point started_;
    Clock::time_point first_token_;
};

} // namespace

GenerateResult GPT::generate(const std::int64_t* ids, std::int64_t count,
                             const GenerateOptions& options) {
    KAEL_CHECK(count >= 1, "the prompt is empty, expected at least one token id");
    check_ids(config_, ids, count);
    for (const std::int64_t token : options.stop_tokens) {
        KAEL_CHECK(token >= 0 && token < config_.vocab_size,
                   "the stop token " << token << ", expected 0 to " << config_.vocab_size - 1);
    }
    KAEL_CHECK(options.max_tokens >= 0,
               "max_tokens is " << options.max_tokens << ", expected 0 or more");
    KAEL_CHECK(options.speculate >= 0 && options.speculate <= kMostGuesses,
               "speculate is " << options.speculate << ", expected 0 to " << kMostGuesses);
    check_sampling(options, config_.vocab_size);
    KAEL_CHECK(options.top_logprobs >= 0 && options.top_logprobs <= kMostTopLogprobs,
               "top_logprobs is " << options.top_logprobs << ", expected 0 to "
                                  << kMostTopLogprobs);
    KAEL_CHECK(options.prompt_logprobs == nullptr || count <= config_.max_positions,
               "prompt_logprobs of " << count << " tokens, expected at most the context of "
                                     << config_.max_positions);
    const Decoder::Use use(*decoder_);
    if (!options.reuse_prefix || !options.use_cache || options.prompt_logprobs != nullptr ||
        parameters_may_change()) {
        decoder_->keep(0);
    }
    return Generation(config_, *decoder_, ids, count, options).run();
}

} // namespace kael::gpt
