// One input of fuzz_capi: what a sequence of calls has made, how bytes decide the arguments of a
// call, and what is required of its answer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <vector>

#include "kael/dlpack.h"
#include "kael/kael.h"

#include "../input.h"
#include "text/tokenizer_folder.h"

namespace kael::fuzz {

namespace dlpack = kael::dlpack;

// What is larger is freed at once, so that nothing grows along a sequence.
inline constexpr std::int64_t kMostElements = 64;

// No size, or one that no memory holds.
inline constexpr std::int64_t kWrongSizes[] = {-1,
                                               -2,
                                               17,
                                               std::int64_t{1} << 62,
                                               std::numeric_limits<std::int64_t>::max(),
                                               std::numeric_limits<std::int64_t>::max() - 1,
                                               std::numeric_limits<std::int64_t>::min(),
                                               std::numeric_limits<std::int64_t>::min() + 1};
inline constexpr double kReals[] = {0.0,
                                    1.0,
                                    -1.0,
                                    0.5,
                                    0.1,
                                    2.0,
                                    1e-9,
                                    -1e9,
                                    0x1p53,
                                    -0x1p63,
                                    1e300,
                                    -1e300,
                                    5e-324,
                                    std::numeric_limits<double>::infinity(),
                                    -std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::quiet_NaN()};

// What a result pointer holds before a call, and after one that failed.
template <typename Handle>
Handle* untouched() {
    static std::max_align_t place;
    return reinterpret_cast<Handle*>(&place);
}

std::int64_t item_size(kael_dtype dtype);

struct Sizes {
    std::array<std::int64_t, 20> values{};
    std::int32_t rank = 0;

    // 0 where there is none, or more than kMostElements.
    [[nodiscard]] std::int64_t elements() const {
        if (rank < 0 || rank > KAEL_MAX_RANK) {
            return 0;
        }
        std::int64_t count = 1;
        for (std::int32_t i = 0; i < rank; ++i) {
            const std::int64_t size = values[static_cast<std::size_t>(i)];
            count = size >= 0 && size <= kMostElements ? count * size : 0;
            count = count <= kMostElements ? count : 0;
        }
        return count;
    }
};

struct Text {
    const char* data;
    std::int64_t length;
};

// The producer's share of a ring goes first or last, and what was pushed comes out in order.
struct Ring {
    kael_token_ring* handle;
    bool has_producer = true;
    bool has_consumer = true;
    std::deque<std::int64_t> pushed;
};

// A struct of another library.
template <typename Managed>
struct Foreign {
    Managed managed{};
    std::array<double, 8> memory{};
    std::array<std::int64_t, 20> shape{};
    std::array<std::int64_t, 20> strides{};
    int times_given_back = 0;
};

class Session {
public:
    explicit Session(Input input) : input_(input) {
        kael_manual_seed(0);
        std::fill(std::begin(read_only_memory_), std::end(read_only_memory_), 1.5);
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    void run();

private:
    using Call = void (Session::*)();

    // ---- Decisions

    // `place`, or rarely null, with which the call must fail. Like what else stands among the
    // arguments of a call at most one decision is taken there, since their order is the compiler's.
    template <typename T>
    T* out(T& place) {
        const bool is_null = (nulls_ & 1U) != 0;
        nulls_ >>= 1;
        must_fail_ = must_fail_ || is_null;
        return is_null ? nullptr : &place;
    }

    // One of the handles, or where there is none, and rarely, null, with which the call must fail.
    template <typename Handle>
    Handle* one(const std::vector<Handle*>& handles) {
        const std::size_t choice = input_.byte();
        if (handles.empty() || choice == 255) {
            must_fail_ = true;
            return nullptr;
        }
        return handles[choice % handles.size()];
    }

    std::int64_t size();

    // Also of a dimension, which may count from the end.
    std::int64_t integer();

    Sizes sizes();

    kael_dtype dtype();

    double real() { return input_.rarely(8) ? input_.number<double>() : input_.one_of(kReals); }

    Text text();

    // Inside the folders of this process, or nowhere; the last two are no place to write to.
    Text path(bool is_written);

    // ---- Answers

    bool succeeded(kael_status status);

    void keep(kael_tensor* tensor);

    // Every element, so that a sanitizer sees one that is not there.
    void read(const kael_tensor_info& info);

    // By reference: what it holds after the call, whichever argument a compiler evaluates first.
    template <typename Handle, typename Keep>
    void take(kael_status status, Handle* const& made, Keep keep_it) {
        if (succeeded(status)) {
            require(made != nullptr && made != untouched<Handle>());
            keep_it(made);
        } else {
            require(made == untouched<Handle>());
        }
    }
    void take(kael_status status, kael_tensor* const& made) {
        take(status, made, [this](kael_tensor* tensor) { keep(tensor); });
    }
    template <typename Handle>
    void take(kael_status status, Handle* const& made, std::vector<Handle*>& handles) {
        take(status, made, [&](Handle* handle) { handles.push_back(handle); });
    }

    // ---- Callbacks

    static Session& of(void* user_data) { return *static_cast<Session*>(user_data); }

    static void release(void* user_data) { ++of(user_data).released_; }

    static std::int32_t on_gradient(kael_tensor* gradient, kael_tensor** replacement,
                                    void* user_data);

    static std::int32_t on_node(kael_tensor** gradients, std::int64_t count, kael_tensor* taken,
                                kael_tensor** replacements, std::uint8_t* replaces,
                                void* user_data);

    // Its user_data is one for all sessions, for the library keeps what it makes for each.
    static void on_line(const char* line, std::int64_t length, void* user_data);

    static std::int32_t on_call_site(char* text, std::int64_t capacity, std::int64_t* length,
                                     void* user_data);

    static std::int32_t on_token(void* user_data, std::int64_t /*token*/);

    static std::uint8_t should_stop(void* user_data);

    static std::int32_t push(void* user_data, std::int64_t token);

    static std::uint8_t is_stopping(void* user_data);

    kael_tensor* one_of_tensors() { return tensors_[input_.below(tensors_.size())]; }

    // ---- Calls

    void tensor_from_bytes();
    void tensor_from_memory();
    void share_by_dlpack();
    template <typename Managed>
    void adopt_by_dlpack(bool versioned);
    void adopt_by_dlpack();
    void end_capsule();
    void describe();
    void view();
    void free_tensor();
    void apply();
    void operator_names();
    void idx();
    void gradient_state();
    void set_requires_grad();
    void gradient();
    void detach_or_share();
    void hooks();
    void backward();
    void grad();
    void nodes();
    void texts();
    void traces();
    void recordings();
    void anomalies();
    void maps();
    void metadata();
    void files();
    void load_tokenizer();
    void encode();
    void decode();
    void create_gpt();
    void gpt_files();
    void gpt_state();
    void logits();
    void generate();
    void sample();
    void make_ring();
    void produce();
    void consume();
    void settings();
    void measure();

    void fill(kael_argument& argument, bool lists_are_text);
    void fill(kael_generate_options& options);
    std::vector<std::int64_t> ids();
    void finish();

    static const kael::text::TokenizerFolder tokenizer_;
    static const kael::test::TemporaryFolder files_;
    static const Call kCalls[];
    static Session* running_;

    Input input_;
    unsigned nulls_ = 0; // a bit for each result of the next call
    bool must_fail_ = false;
    bool has_saved_ = false;
    std::uint64_t bytes_read_ = 0;
    int promised_ = 0; // calls of release()
    int released_ = 0;
    alignas(16) double read_only_memory_[8] = {};
    alignas(16) double memory_[8] = {};
    std::deque<std::vector<char>> texts_;
    std::deque<std::vector<std::int64_t>> integers_;
    std::deque<std::vector<kael_tensor*>> lists_;
    std::deque<std::vector<kael_logit_bias>> biases_;
    std::deque<Foreign<dlpack::Managed>> foreign_;
    std::deque<Foreign<dlpack::ManagedVersioned>> foreign_versioned_;
    std::vector<dlpack::Managed*> shared_;
    std::vector<dlpack::ManagedVersioned*> shared_versioned_;
    std::vector<kael_tensor*> tensors_;
    std::vector<kael_node*> nodes_;
    std::vector<kael_memory_recording*> recordings_;
    std::vector<kael_tensor_map*> maps_;
    std::vector<kael_tokenizer*> tokenizers_;
    std::vector<kael_gpt*> gpts_;
    std::vector<Ring> rings_;
};

} // namespace kael::fuzz
