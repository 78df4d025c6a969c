// The C interface: a sequence of calls, right ones and wrong ones. Whatever it is, each call
// answers with a status, an error with one line of UTF-8, and what was handed over is given back
// once. Not tried is what the header leaves undefined: a handle that was freed, less room than was
// said.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kael/dlpack.h"
#include "kael/kael.h"

#include "base/utf8.h"
#include "input.h"
#include "text/tokenizer_folder.h"

namespace {

namespace dlpack = kael::dlpack;

using kael::fuzz::Input;
using kael::fuzz::require;

// What is larger is freed at once, so that nothing grows along a sequence.
constexpr std::int64_t kMostElements = 64;
constexpr int kMostCalls = 48;

// No size, or one that no memory holds.
constexpr std::int64_t kWrongSizes[] = {-1,
                                        -2,
                                        17,
                                        std::int64_t{1} << 62,
                                        std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::max() - 1,
                                        std::numeric_limits<std::int64_t>::min(),
                                        std::numeric_limits<std::int64_t>::min() + 1};
constexpr double kReals[] = {0.0,
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

bool is_one_line_of_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const kael::Utf8Character character = kael::decode_utf8(text, i);
        if (character.code_point == kael::kInvalidCharacter || character.code_point == '\n') {
            return false;
        }
        i += character.length;
    }
    return !text.empty();
}

std::int64_t item_size(kael_dtype dtype) {
    constexpr std::int64_t kSizes[] = {4, 8, 2, 2, 8, 4, 1, 1, 1};
    return dtype >= 0 && dtype < 9 ? kSizes[dtype] : 1;
}

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

template <typename Managed>
void give_back(Managed* managed) {
    ++static_cast<Foreign<Managed>*>(managed->context)->times_given_back;
}

struct Capsule {
    const char* name;
    void* managed;
};

std::int32_t capsule_is_valid(void* capsule, const char* name) {
    return std::strcmp(static_cast<Capsule*>(capsule)->name, name) == 0 ? 1 : 0;
}

void* capsule_pointer(void* capsule, const char* /*name*/) {
    return static_cast<Capsule*>(capsule)->managed;
}

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

    std::int64_t size() {
        const std::uint8_t choice = input_.byte();
        return choice < 240 ? choice % 4 : kWrongSizes[choice % std::size(kWrongSizes)];
    }

    // Also of a dimension, which may count from the end.
    std::int64_t integer() {
        const std::uint8_t choice = input_.byte();
        return choice < 240 ? choice % 8 - 2 : kWrongSizes[choice % std::size(kWrongSizes)];
    }

    Sizes sizes() {
        Sizes result;
        const std::uint8_t choice = input_.byte();
        result.rank = choice < 240 ? choice % 5
                      : choice < 244
                          ? KAEL_MAX_RANK
                          : static_cast<std::int32_t>(kWrongSizes[choice % std::size(kWrongSizes)]);
        const int given = std::clamp(result.rank, 0, 20);
        for (int i = 0; i < given; ++i) {
            // A shape of many dimensions must stay small.
            const std::int64_t value = size();
            result.values[static_cast<std::size_t>(i)] =
                i < 4 || value < 0 || value > 3 ? value : 1;
        }
        return result;
    }

    kael_dtype dtype() {
        const std::uint8_t choice = input_.byte();
        return choice < 250 ? choice % 9
                            : static_cast<kael_dtype>(kWrongSizes[choice % std::size(kWrongSizes)]);
    }

    double real() { return input_.rarely(8) ? input_.number<double>() : input_.one_of(kReals); }

    Text text() {
        const std::uint8_t choice = input_.byte();
        if (choice == 255) {
            must_fail_ = true;
            return {nullptr, 3};
        }
        if (choice == 254) {
            must_fail_ = true;
            return {"text", std::numeric_limits<std::int64_t>::min()};
        }
        if (choice == 253) {
            return {nullptr, 0};
        }
        const std::vector<char>& kept = texts_.emplace_back(input_.bytes(choice % 24));
        return {kept.data(), static_cast<std::int64_t>(kept.size())};
    }

    // Inside the folders of this process, or nowhere; the last two are no place to write to.
    Text path(bool is_written) {
        // With the configuration of the model that kael_gpt_load may find there.
        static const std::string folder =
            files_
                .write("config.json", R"({"vocab_size": 4, "n_positions": 4, "n_embd": 2,
                                          "n_layer": 1, "n_head": 1, "n_inner": 1})")
                .parent_path()
                .string();
        static const std::string paths[] = {folder + "/model.safetensors",
                                            folder + "/other",
                                            folder,
                                            folder + "/missing/file",
                                            folder + "/\xFF\n",
                                            folder + std::string("/a\0b", 4),
                                            folder + '/' + std::string(300, 'x'),
                                            "",
                                            tokenizer_.vocab_path().string(),
                                            tokenizer_.merges_path().string()};
        const std::uint8_t choice = input_.byte();
        if (choice >= 250) {
            must_fail_ = true;
            return choice % 2 == 0 ? Text{nullptr, 3} : Text{folder.data(), -1};
        }
        const std::string& chosen = paths[choice % (std::size(paths) - (is_written ? 2 : 0))];
        return {chosen.data(), static_cast<std::int64_t>(chosen.size())};
    }

    // ---- Answers

    bool succeeded(kael_status status) {
        require(status >= KAEL_OK && status <= KAEL_ANOMALY && status != KAEL_INTERNAL);
        const bool must_fail = std::exchange(must_fail_, false);
        if (status == KAEL_OK) {
            require(!must_fail);
            return true;
        }
        std::int64_t length = -1;
        const char* const message = kael_last_error_message(&length);
        require(is_one_line_of_utf8({message, static_cast<std::size_t>(length)}));
        const char* const whole = kael_last_error(&length);
        require(is_one_line_of_utf8({whole, static_cast<std::size_t>(length)}));
        require(kael_last_error_message(nullptr) == message);
        kael_last_anomaly(&length);
        require((length > 0) == (status == KAEL_ANOMALY));
        return false;
    }

    void keep(kael_tensor* tensor) {
        kael_tensor_info info = {};
        info.struct_size = sizeof(info);
        require(succeeded(kael_tensor_describe(tensor, &info)));
        require(info.rank >= 0 && info.rank <= KAEL_MAX_RANK);
        require((info.data == nullptr) == (info.element_count == 0));
        if (info.element_count <= kMostElements) {
            read(info);
            tensors_.push_back(tensor);
        } else {
            kael_tensor_free(tensor);
        }
    }

    // Every element, so that a sanitizer sees one that is not there.
    void read(const kael_tensor_info& info) {
        std::vector<std::int64_t> index(static_cast<std::size_t>(info.rank));
        const auto* const data = static_cast<const std::uint8_t*>(info.data);
        for (std::int64_t i = 0; i < info.element_count; ++i) {
            std::int64_t rest = i;
            std::int64_t place = 0;
            for (std::size_t d = index.size(); d-- > 0;) {
                place += rest % info.shape[d] * info.strides[d];
                rest /= info.shape[d];
            }
            for (std::int64_t byte = 0; byte < item_size(info.dtype); ++byte) {
                bytes_read_ += data[place * item_size(info.dtype) + byte];
            }
        }
    }

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
                                    void* user_data) {
        Session& session = of(user_data);
        kael_tensor_free(gradient);
        if (!session.tensors_.empty() && session.input_.rarely(4)) {
            kael_tensor_share(session.one_of_tensors(), replacement);
        }
        return session.input_.rarely(16) ? 1 : 0;
    }

    static std::int32_t on_node(kael_tensor** gradients, std::int64_t count, kael_tensor* taken,
                                kael_tensor** replacements, std::uint8_t* replaces,
                                void* user_data) {
        Session& session = of(user_data);
        std::for_each(gradients, gradients + count, kael_tensor_free);
        *replaces = session.input_.rarely(4) ? 1 : 0;
        if (*replaces != 0 && count > 0) {
            kael_tensor_share(taken,
                              &replacements[session.input_.below(static_cast<std::size_t>(count))]);
        }
        kael_tensor_free(taken);
        return session.input_.rarely(16) ? -1 : 0;
    }

    // Its user_data is one for all sessions, for the library keeps what it makes for each.
    static void on_line(const char* line, std::int64_t length, void* user_data) {
        require(line != nullptr && length > 0);
        Session& session = **static_cast<Session**>(user_data);
        session.bytes_read_ += static_cast<std::uint8_t>(line[length - 1]);
    }

    static std::int32_t on_call_site(char* text, std::int64_t capacity, std::int64_t* length,
                                     void* user_data) {
        Session& session = of(user_data);
        *length = session.input_.rarely(8) ? session.integer() : 6;
        std::memcpy(text, "a.c:\xFF\n",
                    static_cast<std::size_t>(std::min<std::int64_t>(6, capacity)));
        return session.input_.rarely(16) ? 1 : 0;
    }

    static std::int32_t on_token(void* user_data, std::int64_t /*token*/) {
        Session& session = of(user_data);
        return session.input_.rarely(8) ? static_cast<std::int32_t>(session.integer())
                                        : KAEL_TOKEN_CONTINUE;
    }

    static std::uint8_t should_stop(void* user_data) {
        return of(user_data).input_.rarely(16) ? 1 : 0;
    }

    static std::int32_t push(void* user_data, std::int64_t token) {
        Ring& ring = *static_cast<Ring*>(user_data);
        const std::int32_t answer = kael_token_ring_push(ring.handle, token);
        if (answer == KAEL_TOKEN_CONTINUE) {
            ring.pushed.push_back(token);
        }
        return answer;
    }

    static std::uint8_t is_stopping(void* user_data) {
        return kael_token_ring_stopping(static_cast<Ring*>(user_data)->handle);
    }

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

const kael::text::TokenizerFolder
    Session::tokenizer_(kael::text::byte_vocabulary({{"t", "h"}, {"th", "e"}}),
                        kael::text::merges_file({{"t", "h"}, {"th", "e"}}));
const kael::test::TemporaryFolder Session::files_;
Session* Session::running_ = nullptr;

// ---- Tensors

void Session::tensor_from_bytes() {
    const kael_dtype dtype = this->dtype();
    const Sizes shape = sizes();
    const std::vector<char> bytes =
        input_.bytes(static_cast<std::size_t>(shape.elements() * item_size(dtype)));
    auto count = static_cast<std::int64_t>(bytes.size());
    if (input_.rarely(16)) {
        count = input_.one_of(kWrongSizes);
        must_fail_ = true;
    }
    kael_tensor* made = untouched<kael_tensor>();
    const kael_status status =
        kael_tensor_from_bytes(dtype, input_.rarely(32) ? nullptr : shape.values.data(), shape.rank,
                               bytes.data(), count, out(made));
    take(status, made);
}

void Session::tensor_from_memory() {
    const kael_dtype dtype = this->dtype();
    const Sizes shape = sizes();
    Sizes strides = sizes();
    const bool read_only = input_.rarely(2);
    double* const memory = read_only ? read_only_memory_ : memory_;
    const std::size_t skipped = input_.rarely(4) ? input_.below(8) : 0;
    std::byte* const data = reinterpret_cast<std::byte*>(memory) + skipped;
    std::int64_t count = static_cast<std::int64_t>(sizeof(memory_) - skipped);
    if (input_.rarely(16)) {
        count = input_.rarely(2) ? -1 : static_cast<std::int64_t>(input_.below(64 - skipped));
    }
    kael_tensor* made = untouched<kael_tensor>();
    const bool has_release = !input_.rarely(32);
    must_fail_ = !has_release;
    const kael_status status =
        kael_tensor_from_memory(dtype, shape.values.data(), strides.values.data(), shape.rank,
                                input_.rarely(32) ? nullptr : data, count, read_only ? 1 : 0,
                                has_release ? release : nullptr, this, out(made));
    promised_ += status == KAEL_OK ? 1 : 0;
    take(status, made);
}

void Session::share_by_dlpack() {
    const kael_tensor* const tensor = one(tensors_);
    const bool versioned = input_.rarely(2);
    void* managed = untouched<void>();
    const kael_status status =
        kael_tensor_to_dlpack(tensor, versioned ? 1 : 0, input_.byte() % 2, out(managed));
    if (!succeeded(status)) {
        require(managed == untouched<void>());
    } else if (input_.rarely(2)) { // consumed here, else by finish()
        kael_tensor* made = untouched<kael_tensor>();
        take(kael_tensor_from_dlpack(managed, versioned ? 1 : 0, out(made)), made);
    } else if (versioned) {
        shared_versioned_.push_back(static_cast<dlpack::ManagedVersioned*>(managed));
    } else {
        shared_.push_back(static_cast<dlpack::Managed*>(managed));
    }
}

template <typename Managed>
void Session::adopt_by_dlpack(bool versioned) {
    Foreign<Managed>* foreign = nullptr;
    if constexpr (std::is_same_v<Managed, dlpack::Managed>) {
        foreign = &foreign_.emplace_back();
    } else {
        foreign = &foreign_versioned_.emplace_back();
        foreign->managed.version = {input_.rarely(8) ? 2U : 1U, input_.rarely(8) ? 9U : 0U};
        foreign->managed.flags = input_.one_of<std::uint64_t>({0, 1, 2, 3, 0, 1, 2, ~0ULL});
    }
    foreign->managed.context = foreign;
    foreign->managed.deleter = give_back<Managed>;
    dlpack::View& described = foreign->managed.view;
    described.data = foreign->memory.data();
    described.device = {input_.rarely(16) ? 2 : dlpack::kCpu, input_.rarely(16) ? 7 : 0};
    described.rank = input_.rarely(16)
                         ? input_.one_of<std::int32_t>({-1, 17, std::numeric_limits<int>::min(),
                                                        std::numeric_limits<int>::max()})
                         : static_cast<std::int32_t>(input_.below(4));
    described.dtype = {input_.one_of<std::uint8_t>({0, 1, 2, 4, 6, 3, 5, 255}),
                       input_.one_of<std::uint8_t>({8, 16, 32, 64, 1, 128, 0, 255}),
                       static_cast<std::uint16_t>(input_.rarely(16) ? input_.below(4) : 1)};
    // Of 64 bytes no more than all are seen: 2 * 2 * 2 elements of at most 8 bytes.
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < foreign->shape.size(); ++i) {
        foreign->shape[i] = static_cast<std::int64_t>(input_.below(3));
        foreign->shape[i] = input_.rarely(32) ? -1 : foreign->shape[i];
        foreign->strides[i] = input_.rarely(32) ? -1 : stride;
        stride *= i < 3 ? 2 : 0;
    }
    described.shape = input_.rarely(32) ? nullptr : foreign->shape.data();
    described.strides = input_.rarely(4) ? nullptr : foreign->strides.data();
    described.byte_offset = 0;
    kael_tensor* made = untouched<kael_tensor>();
    take(kael_tensor_from_dlpack(&foreign->managed, versioned ? 1 : 0, out(made)), made);
}

void Session::adopt_by_dlpack() {
    if (input_.rarely(32)) {
        kael_tensor* made = untouched<kael_tensor>();
        must_fail_ = true;
        take(kael_tensor_from_dlpack(nullptr, input_.byte() % 2, &made), made);
    } else if (input_.rarely(2)) {
        adopt_by_dlpack<dlpack::ManagedVersioned>(true);
    } else {
        adopt_by_dlpack<dlpack::Managed>(false);
    }
}

void Session::end_capsule() {
    const bool knows = !input_.rarely(8);
    kael_dlpack_set_capsule_functions(knows ? capsule_is_valid : nullptr, capsule_pointer);
    Foreign<dlpack::Managed> foreign;
    foreign.managed.context = &foreign;
    const bool has_deleter = !input_.rarely(8);
    foreign.managed.deleter = has_deleter ? give_back<dlpack::Managed> : nullptr;
    const bool is_consumed = input_.rarely(4);
    const bool is_null = input_.rarely(8);
    Capsule capsule = {is_consumed ? "used_dltensor" : "dltensor",
                       is_null ? nullptr : &foreign.managed};
    kael_dlpack_end_capsule(&capsule);
    const bool given_back = knows && has_deleter && !is_consumed && !is_null;
    require(foreign.times_given_back == (given_back ? 1 : 0));
    kael_dlpack_set_capsule_functions(nullptr, nullptr);
}

void Session::describe() {
    struct {
        kael_tensor_info info;
        std::array<std::uint8_t, 64> beyond;
    } place = {};
    const std::int64_t own = sizeof(place.info);
    place.info.struct_size = input_.one_of<std::int64_t>({own, own + 1, own + 64, own - 1, 0, -1});
    must_fail_ = place.info.struct_size < own;
    place.beyond.fill(7);
    const kael_tensor* const tensor = one(tensors_);
    const bool described = succeeded(kael_tensor_describe(tensor, out(place.info)));
    require(std::ranges::all_of(place.beyond, [](std::uint8_t byte) { return byte == 7; }));
    require(described || place.info.rank == 0);
}

void Session::view() {
    const kael_tensor* const tensor = one(tensors_);
    const Sizes shape = sizes();
    kael_tensor* made = untouched<kael_tensor>();
    take(kael_tensor_view(tensor, shape.values.data(), shape.rank, out(made)), made);
}

// A gradient that was recorded and a leaf may hold each other; a leaf stays until finish() parts
// them.
void Session::free_tensor() {
    kael_tensor_free(nullptr);
    if (tensors_.empty()) {
        return;
    }
    const std::size_t place = input_.below(tensors_.size());
    std::uint8_t requires_grad = 0;
    std::uint8_t is_leaf = 0;
    require(succeeded(kael_tensor_gradient_state(tensors_[place], &requires_grad, &is_leaf)));
    if (requires_grad == 0) {
        require(succeeded(kael_tensor_set_grad(tensors_[place], nullptr)));
        kael_tensor_free(tensors_[place]);
        tensors_.erase(tensors_.begin() + static_cast<std::ptrdiff_t>(place));
    }
}

// ---- Operators

void Session::fill(kael_argument& argument, bool lists_are_text) {
    constexpr kael_argument_kind kKinds[] = {
        KAEL_ARGUMENT_TENSOR,   KAEL_ARGUMENT_TENSOR,  KAEL_ARGUMENT_TENSOR,
        KAEL_ARGUMENT_INTEGER,  KAEL_ARGUMENT_INTEGER, KAEL_ARGUMENT_INTEGERS,
        KAEL_ARGUMENT_INTEGERS, KAEL_ARGUMENT_REAL,    KAEL_ARGUMENT_REAL,
        KAEL_ARGUMENT_BOOL,     KAEL_ARGUMENT_TENSORS, KAEL_ARGUMENT_NONE};
    const std::uint8_t choice = input_.byte();
    argument.kind = choice < 252 ? kKinds[choice % std::size(kKinds)] : choice - 250;
    switch (argument.kind) {
    case KAEL_ARGUMENT_TENSOR:
        argument.tensor = one(tensors_);
        break;
    case KAEL_ARGUMENT_TENSORS: {
        std::vector<kael_tensor*>& list = lists_.emplace_back(input_.below(4));
        std::generate(list.begin(), list.end(), [this] { return one(tensors_); });
        argument.tensors = list.data();
        argument.count = input_.rarely(32) ? -1 : static_cast<std::int64_t>(list.size());
        break;
    }
    case KAEL_ARGUMENT_BOOL:
        argument.integer = input_.byte() % 2;
        break;
    case KAEL_ARGUMENT_INTEGER:
        argument.integer = integer();
        break;
    case KAEL_ARGUMENT_REAL:
        argument.real = real();
        break;
    case KAEL_ARGUMENT_INTEGERS: {
        std::vector<std::int64_t>& list = integers_.emplace_back();
        if (lists_are_text) {
            const std::vector<std::uint8_t> bytes = input_.bytes<std::uint8_t>(input_.below(16));
            list.assign(bytes.begin(), bytes.end());
        } else {
            const Sizes sizes = this->sizes();
            list.assign(sizes.values.begin(), sizes.values.begin() + std::clamp(sizes.rank, 0, 20));
        }
        argument.integers = list.data();
        argument.count = input_.rarely(32) ? -1 : static_cast<std::int64_t>(list.size());
        break;
    }
    default:
        break;
    }
}

void Session::apply() {
    std::int64_t operators = 0;
    kael_operator_count(&operators);
    Text name = {};
    if (input_.rarely(32)) {
        name = text();
    } else {
        require(kael_operator_name(
                    static_cast<std::int64_t>(input_.below(static_cast<std::size_t>(operators))),
                    &name.data, &name.length) == KAEL_OK);
    }
    const std::string_view chosen(name.data, name.data == nullptr || name.length < 0
                                                 ? 0
                                                 : static_cast<std::size_t>(name.length));
    std::vector<kael_argument> arguments(input_.below(12));
    for (kael_argument& argument : arguments) {
        fill(argument, chosen == "einsum");
    }
    std::array<kael_tensor*, 16> results{};
    results.fill(untouched<kael_tensor>());
    const std::int64_t capacity =
        input_.rarely(16) ? input_.one_of<std::int64_t>({0, 1, -1, 2}) : std::int64_t{16};
    std::int64_t count = -1;
    const kael_status status =
        kael_apply(name.data, name.length, arguments.data(),
                   input_.rarely(32) ? -1 : static_cast<std::int64_t>(arguments.size()),
                   results.data(), capacity, out(count));
    // An entry that is null is refused, but an operator that does not exist before it.
    if (succeeded(status)) {
        require(count >= 0 && count <= std::max<std::int64_t>(capacity, 0));
        require(!chosen.ends_with('_') || count == 0);
    } else {
        require(count == -1);
    }
    for (std::int64_t i = 0; i < 16; ++i) {
        kael_tensor* const result = results[static_cast<std::size_t>(i)];
        require((i < count) == (result != untouched<kael_tensor>()));
        if (i < count) {
            keep(result);
        }
    }
}

void Session::operator_names() {
    std::int64_t operators = 0;
    kael_operator_count(&operators);
    kael_operator_count(nullptr);
    const char* name = nullptr;
    std::int64_t length = -1;
    const std::int64_t index = input_.rarely(4) ? integer() : input_.byte();
    const kael_status status = kael_operator_name(index, out(name), out(length));
    if (succeeded(status)) {
        require(index >= 0 && index < operators);
        require(name[length] == '\0' && length > 0);
    } else {
        require(name == nullptr && length == -1);
    }
}

void Session::idx() {
    const std::vector<char> bytes = input_.bytes(input_.below(40));
    auto count = static_cast<std::int64_t>(bytes.size());
    if (input_.rarely(16)) {
        count = -1;
        must_fail_ = true;
    }
    const Text origin = text();
    kael_tensor* made = untouched<kael_tensor>();
    if (input_.rarely(2)) {
        take(kael_idx_images(bytes.data(), count, origin.data, origin.length, out(made)), made);
    } else {
        take(kael_idx_labels(bytes.data(), count, origin.data, origin.length, out(made)), made);
    }
}

// ---- Gradients

void Session::gradient_state() {
    std::uint8_t requires_grad = 7;
    std::uint8_t is_leaf = 7;
    const kael_tensor* const tensor = one(tensors_);
    const bool told =
        succeeded(kael_tensor_gradient_state(tensor, out(requires_grad), out(is_leaf)));
    require(told == (requires_grad <= 1) && told == (is_leaf <= 1));
    const char* name = nullptr;
    std::int64_t length = -1;
    if (succeeded(kael_tensor_grad_fn(one(tensors_), out(name), out(length)))) {
        require(name[length] == '\0');
    }
}

void Session::set_requires_grad() {
    kael_set_grad_enabled(input_.rarely(16) ? 0 : 1);
    require(kael_grad_enabled() <= 1);
    const std::uint8_t wanted = input_.rarely(4) ? 0 : 1;
    succeeded(kael_tensor_set_requires_grad(one(tensors_), wanted));
}

void Session::gradient() {
    if (input_.rarely(2)) {
        kael_tensor* const tensor = one(tensors_);
        succeeded(kael_tensor_set_grad(
            tensor, tensors_.empty() || input_.rarely(4) ? nullptr : one_of_tensors()));
        return;
    }
    kael_tensor* found = untouched<kael_tensor>();
    const kael_status status = kael_tensor_grad(one(tensors_), out(found));
    if (!succeeded(status)) {
        require(found == untouched<kael_tensor>());
    } else if (found != nullptr) {
        keep(found);
    }
}

void Session::detach_or_share() {
    const kael_tensor* const tensor = one(tensors_);
    kael_tensor* made = untouched<kael_tensor>();
    if (input_.rarely(2)) {
        take(kael_tensor_share(tensor, out(made)), made);
    } else {
        take(kael_tensor_detach(tensor, out(made)), made);
    }
}

void Session::hooks() {
    std::int64_t number = -1;
    const bool has_hook = !input_.rarely(32);
    const bool has_release = !input_.rarely(4);
    const kael_release_callback given = has_release ? release : nullptr;
    promised_ += has_release ? 1 : 0;
    must_fail_ = !has_hook;
    if (input_.rarely(2)) {
        kael_tensor* const tensor = one(tensors_);
        if (succeeded(kael_tensor_add_hook(tensor, has_hook ? on_gradient : nullptr, given, this,
                                           out(number))) &&
            input_.rarely(4)) {
            require(succeeded(kael_tensor_remove_hook(tensor, number)));
            succeeded(kael_tensor_remove_hook(one(tensors_), number));
        }
        return;
    }
    kael_node* const node = one(nodes_);
    const bool added = input_.rarely(2)
                           ? succeeded(kael_node_add_prehook(node, has_hook ? on_gradient : nullptr,
                                                             given, this, out(number)))
                           : succeeded(kael_node_add_hook(node, has_hook ? on_node : nullptr, given,
                                                          this, out(number)));
    if (added && input_.rarely(4)) {
        require(succeeded(kael_node_remove_hook(node, number)));
        succeeded(kael_node_remove_hook(one(nodes_), number));
    }
}

void Session::backward() {
    std::vector<kael_tensor*> roots(1 + input_.below(2));
    std::generate(roots.begin(), roots.end(), [this] { return one(tensors_); });
    std::vector<kael_tensor*> gradients(roots.size());
    const bool has_gradients = input_.rarely(4);
    for (kael_tensor*& gradient : gradients) {
        gradient = has_gradients && !tensors_.empty() ? one_of_tensors() : nullptr;
    }
    const bool is_negative = input_.rarely(32);
    must_fail_ = must_fail_ || is_negative;
    const auto count = static_cast<std::int64_t>(roots.size());
    const auto flags = static_cast<std::int32_t>(
        input_.rarely(16) ? integer() : static_cast<std::int64_t>(input_.below(4)));
    succeeded(kael_backward(input_.rarely(32) ? nullptr : roots.data(),
                            has_gradients ? gradients.data() : nullptr,
                            is_negative ? -count : count, flags));
}

void Session::grad() {
    std::vector<kael_tensor*> roots = {one(tensors_)};
    std::vector<kael_tensor*> inputs(1 + input_.below(2));
    std::generate(inputs.begin(), inputs.end(), [this] { return one(tensors_); });
    std::vector<kael_tensor*> results(inputs.size(), untouched<kael_tensor>());
    kael_tensor* gradient = tensors_.empty() || !input_.rarely(4) ? nullptr : one_of_tensors();
    const auto flags = static_cast<std::int32_t>(input_.below(9));
    const kael_status status = kael_grad(roots.data(), gradient != nullptr ? &gradient : nullptr, 1,
                                         inputs.data(), static_cast<std::int64_t>(inputs.size()),
                                         flags, input_.rarely(32) ? nullptr : results.data());
    const bool found = succeeded(status);
    for (kael_tensor* const result : results) {
        require(found == (result != untouched<kael_tensor>()));
        if (found && result != nullptr) {
            keep(result);
        }
    }
}

void Session::nodes() {
    kael_node* node = untouched<kael_node>();
    if (const kael_status status = kael_tensor_node(one(tensors_), out(node)); !succeeded(status)) {
        require(node == untouched<kael_node>());
    } else if (node != nullptr) {
        nodes_.push_back(node);
    }
    const kael_node* const chosen = one(nodes_);
    std::array<kael_node*, 8> next{};
    next.fill(untouched<kael_node>());
    std::int64_t count = -1;
    const std::int64_t capacity = input_.one_of<std::int64_t>({8, 8, 8, 0, -1, 1});
    if (succeeded(kael_node_next(chosen, next.data(), capacity, out(count))) && capacity >= count) {
        for (std::int64_t i = 0; i < count; ++i) {
            if (kael_node* const found = next[static_cast<std::size_t>(i)]; found != nullptr) {
                nodes_.push_back(found);
            }
        }
        std::fill_n(next.begin(), count, untouched<kael_node>());
    }
    require(std::ranges::all_of(next, [](kael_node* e) { return e == untouched<kael_node>(); }));
    std::int64_t identity = 0;
    succeeded(kael_node_identity(one(nodes_), out(identity)));
    const char* name = nullptr;
    std::int64_t length = -1;
    if (succeeded(kael_node_name(one(nodes_), out(name), out(length)))) {
        require(length > 0 && name[length] == '\0');
    }
}

// ---- Debugging

void Session::texts() {
    constexpr decltype(&kael_explain) kTexts[] = {kael_explain, kael_autograd_graph,
                                                  kael_autograd_graph_saved, kael_explain_json,
                                                  kael_autograd_graph_json};
    const auto function = input_.one_of(kTexts);
    const char* text = nullptr;
    std::int64_t length = -1;
    if (succeeded(function(one(tensors_), out(text), out(length)))) {
        require(length > 0 && text[length] == '\0');
    } else {
        require(text == nullptr && length == -1);
    }
}

void Session::traces() {
    const kael_trace_callback callback = input_.rarely(4) ? nullptr : on_line;
    require(succeeded(input_.rarely(2) ? kael_set_backward_records(callback, &running_)
                                       : kael_set_backward_trace(callback, &running_)));
}

void Session::recordings() {
    kael_memory_recording* made = untouched<kael_memory_recording>();
    if (input_.rarely(2)) {
        const std::int64_t events = input_.rarely(8) ? integer() : input_.byte();
        take(kael_memory_recording_start(events, out(made)), made, recordings_);
    } else if (input_.rarely(2)) {
        succeeded(kael_memory_recording_stop(one(recordings_)));
    } else {
        const char* text = nullptr;
        std::int64_t length = -1;
        if (succeeded(kael_memory_recording_json(one(recordings_), out(text), out(length)))) {
            require(length > 0 && text[0] == '{');
        }
    }
}

void Session::anomalies() {
    if (input_.rarely(2)) {
        require(succeeded(kael_set_call_site(input_.rarely(4) ? nullptr : on_call_site, this)));
    } else {
        succeeded(kael_set_anomaly_detection(input_.rarely(8)
                                                 ? static_cast<std::int32_t>(integer())
                                                 : static_cast<std::int32_t>(input_.below(8))));
    }
}

// ---- Named tensors and files

void Session::maps() {
    if (maps_.empty() || input_.rarely(8)) {
        kael_tensor_map* made = untouched<kael_tensor_map>();
        take(kael_tensor_map_create(out(made)), made, maps_);
        return;
    }
    kael_tensor_map* const map = one(maps_);
    if (input_.rarely(2)) {
        const Text name = text();
        succeeded(kael_tensor_map_add(map, name.data, name.length, one(tensors_)));
        return;
    }
    std::int64_t count = -1;
    if (!succeeded(kael_tensor_map_size(map, out(count)))) {
        require(count == -1);
        return;
    }
    const std::int64_t index = input_.rarely(8) ? integer() : input_.byte() % (count + 1);
    const char* name = nullptr;
    std::int64_t length = -1;
    kael_tensor* made = untouched<kael_tensor>();
    const kael_status status = kael_tensor_map_get(map, index, out(name), out(length), out(made));
    require(status != KAEL_OK || (index >= 0 && index < count && name[length] == '\0'));
    take(status, made);
}

void Session::metadata() {
    kael_tensor_map* const map = one(maps_);
    if (input_.rarely(2)) {
        const Text key = text();
        const Text value = text();
        succeeded(
            kael_tensor_map_add_metadata(map, key.data, key.length, value.data, value.length));
        return;
    }
    std::int64_t count = -1;
    succeeded(kael_tensor_map_metadata_size(map, out(count)));
    const char* key = nullptr;
    const char* value = nullptr;
    std::int64_t key_length = -1;
    std::int64_t value_length = -1;
    const std::int64_t index = integer();
    if (succeeded(kael_tensor_map_get_metadata(one(maps_), index, out(key), out(key_length),
                                               out(value), out(value_length)))) {
        require(index >= 0 && key[key_length] == '\0' && value[value_length] == '\0');
    } else {
        require(key == nullptr && value_length == -1);
    }
}

void Session::files() {
    const bool saves = input_.rarely(2);
    const Text file = path(saves);
    if (saves) {
        has_saved_ = true;
        succeeded(kael_safetensors_save(one(maps_), file.data, file.length));
        return;
    }
    const std::int32_t mode = input_.rarely(16) ? static_cast<std::int32_t>(integer())
                                                : static_cast<std::int32_t>(input_.below(2));
    kael_tensor_map* made = untouched<kael_tensor_map>();
    take(kael_safetensors_load(file.data, file.length, mode, out(made)), made, maps_);
}

// ---- Tokenizers

void Session::load_tokenizer() {
    const std::string vocab = tokenizer_.vocab_path().string();
    const std::string merges = tokenizer_.merges_path().string();
    const Text first = input_.rarely(4)
                           ? path(false)
                           : Text{vocab.data(), static_cast<std::int64_t>(vocab.size())};
    const Text second = input_.rarely(4)
                            ? path(false)
                            : Text{merges.data(), static_cast<std::int64_t>(merges.size())};
    kael_tokenizer* made = untouched<kael_tokenizer>();
    take(kael_tokenizer_load(first.data, first.length, second.data, second.length, out(made)), made,
         tokenizers_);
}

void Session::encode() {
    const kael_tokenizer* const tokenizer = one(tokenizers_);
    std::int64_t number = -7;
    if (input_.rarely(8)) {
        succeeded(input_.rarely(2) ? kael_tokenizer_vocabulary_size(tokenizer, out(number))
                                   : kael_tokenizer_end_of_text(tokenizer, out(number)));
        return;
    }
    const Text given = text();
    std::vector<std::int64_t> ids(
        input_.rarely(4) ? input_.below(4)
                         : static_cast<std::size_t>(std::max<std::int64_t>(given.length, 0)));
    const bool is_null = input_.rarely(32);
    must_fail_ = must_fail_ || (is_null && !ids.empty());
    std::int64_t count = -1;
    const std::uint8_t allow_special = input_.byte() % 2;
    const kael_status status = kael_tokenizer_encode(
        tokenizer, given.data, given.length, allow_special, is_null ? nullptr : ids.data(),
        input_.rarely(32) ? -1 : static_cast<std::int64_t>(ids.size()), out(count));
    if (succeeded(status)) {
        require(count >= 0 && count <= given.length);
    } else {
        require(count == -1);
    }
}

void Session::decode() {
    const kael_tokenizer* const tokenizer = one(tokenizers_);
    std::vector<std::int64_t> ids(input_.below(8));
    for (std::int64_t& id : ids) {
        id = input_.rarely(16) ? integer() : 4 * input_.byte() % 259;
    }
    std::vector<char> bytes(input_.below(32));
    const bool is_null = input_.rarely(32);
    must_fail_ = must_fail_ || (is_null && !bytes.empty());
    std::int64_t length = -1;
    const kael_status status = kael_tokenizer_decode(
        tokenizer, ids.data(), input_.rarely(32) ? -1 : static_cast<std::int64_t>(ids.size()),
        is_null ? nullptr : bytes.data(), static_cast<std::int64_t>(bytes.size()), out(length));
    require(succeeded(status) == (length >= 0));
}

// ---- GPT-2

void Session::create_gpt() {
    kael_gpt_config config = {};
    kael_gpt_config_default(nullptr);
    kael_gpt_config_default(&config);
    config.heads = 1 + input_.byte() % 2;
    config.dimension = config.heads * (1 + input_.byte() % 3);
    config.vocab_size = 1 + input_.byte() % 8;
    config.max_positions = 1 + input_.byte() % 8;
    config.layers = 1 + input_.byte() % 2;
    config.inner_dimension = input_.byte() % 4;
    config.activation = static_cast<kael_activation>(input_.below(3));
    config.scale_attention = input_.byte() % 2;
    config.scale_attention_by_inverse_layer = input_.byte() % 2;
    config.tie_word_embeddings = input_.byte() % 2;
    if (input_.rarely(4)) {
        std::int64_t* const fields[] = {
            &config.struct_size, &config.vocab_size, &config.max_positions,  &config.layers,
            &config.heads,       &config.dimension,  &config.inner_dimension};
        *input_.one_of(fields) = input_.one_of(kWrongSizes);
    }
    if (input_.rarely(8)) {
        config.layer_norm_epsilon = real();
        config.activation = static_cast<kael_activation>(integer());
    }
    // Beyond the struct there must be what struct_size says, up to a page.
    alignas(kael_gpt_config) std::array<std::byte, 4096> place{};
    place.back() = static_cast<std::byte>(input_.rarely(8) ? 1 : 0);
    config.struct_size = input_.rarely(8) ? 4096 : config.struct_size;
    std::memcpy(place.data(), &config, sizeof(config));
    kael_gpt* made = untouched<kael_gpt>();
    take(kael_gpt_create(input_.rarely(32) ? nullptr
                                           : reinterpret_cast<const kael_gpt_config*>(place.data()),
                         out(made)),
         made, gpts_);
}

void Session::gpt_files() {
    const Text file = path(false);
    if (input_.rarely(2)) {
        succeeded(kael_gpt_load_weights(one(gpts_), file.data, file.length));
        return;
    }
    kael_gpt* made = untouched<kael_gpt>();
    take(kael_gpt_load(file.data, file.length, static_cast<kael_weight_format>(input_.below(5)),
                       out(made)),
         made, gpts_);
}

void Session::gpt_state() {
    kael_gpt* const gpt = one(gpts_);
    switch (input_.below(5)) {
    case 0: {
        kael_gpt_config config = {};
        config.struct_size = input_.rarely(8) ? integer() : std::int64_t{sizeof(config)};
        succeeded(kael_gpt_get_config(gpt, out(config)));
        break;
    }
    case 1: {
        std::int64_t count = -1;
        const bool told = succeeded(kael_gpt_parameter_count(gpt, out(count)));
        require(told == (count > 0));
        break;
    }
    case 2: {
        kael_tensor_map* made = untouched<kael_tensor_map>();
        take(kael_gpt_parameters(gpt, out(made)), made, maps_);
        break;
    }
    case 3:
        succeeded(kael_gpt_make_parameters_writable(gpt));
        break;
    default:
        succeeded(kael_gpt_set_dropout(gpt, real()));
        break;
    }
}

std::vector<std::int64_t> Session::ids() {
    std::vector<std::int64_t> result(input_.below(12));
    for (std::int64_t& id : result) {
        id = input_.rarely(32) ? integer() : static_cast<std::int64_t>(input_.below(5));
    }
    return result;
}

void Session::logits() {
    kael_gpt* const gpt = one(gpts_);
    const std::vector<std::int64_t> ids = this->ids();
    const auto count = static_cast<std::int64_t>(ids.size());
    if (input_.rarely(2)) {
        kael_tensor_map* made = untouched<kael_tensor_map>();
        take(kael_gpt_activations(gpt, ids.data(), input_.rarely(32) ? -1 : count, out(made)), made,
             maps_);
        return;
    }
    const std::int64_t batch = input_.rarely(4) ? 2 : 1;
    kael_tensor* made = untouched<kael_tensor>();
    const bool is_wrong = input_.rarely(16);
    take(kael_gpt_logits(gpt, ids.data(), is_wrong ? input_.one_of(kWrongSizes) : batch,
                         is_wrong ? std::numeric_limits<std::int64_t>::max() : count / batch,
                         out(made)),
         made);
}

void Session::fill(kael_generate_options& options) {
    kael_generate_options_default(nullptr);
    kael_generate_options_default(&options);
    options.max_tokens = input_.rarely(32) ? -1 : static_cast<std::int64_t>(input_.below(12));
    if (input_.rarely(2)) {
        double* const fields[] = {&options.repetition_penalty,
                                  &options.presence_penalty,
                                  &options.frequency_penalty,
                                  &options.temperature,
                                  &options.top_p,
                                  &options.min_p};
        for (std::size_t i = 0; i < 3; ++i) {
            *input_.one_of(fields) = real();
        }
        options.top_k = integer();
    }
    if (input_.rarely(4)) {
        std::vector<kael_logit_bias>& biases = biases_.emplace_back(input_.below(4));
        for (kael_logit_bias& bias : biases) {
            bias = {integer(), real()};
        }
        options.logit_biases = biases.data();
        options.logit_bias_count =
            input_.rarely(16) ? -1 : static_cast<std::int64_t>(biases.size());
    }
    if (input_.rarely(4)) {
        const std::vector<std::int64_t>& stops = integers_.emplace_back(ids());
        options.stop_tokens = stops.data();
        options.stop_token_count = input_.rarely(16) ? -1 : static_cast<std::int64_t>(stops.size());
    }
    options.seed = input_.byte();
    options.has_seed = input_.byte() % 2;
    options.use_cache = input_.rarely(4) ? 0 : 1;
    options.reuse_prefix = input_.rarely(4) ? 0 : 1;
    options.speculate = input_.rarely(32)  ? integer()
                        : input_.rarely(2) ? static_cast<std::int64_t>(input_.below(9))
                                           : 0;
    options.struct_size = input_.rarely(32) ? integer() : options.struct_size;
}

void Session::generate() {
    kael_gpt* const gpt = one(gpts_);
    const std::vector<std::int64_t> prompt = ids();
    kael_generate_options options = {};
    fill(options);
    const std::size_t room =
        static_cast<std::size_t>(std::max<std::int64_t>(options.max_tokens, 0));
    std::vector<kael_token_logprob> logprobs;
    std::vector<kael_token_logprob> prompt_logprobs;
    if (input_.rarely(4)) {
        options.top_logprobs = input_.rarely(8) ? input_.one_of<std::int64_t>({-1, 1'000'001})
                                                : static_cast<std::int64_t>(input_.below(4));
        const std::size_t row =
            1 + (options.top_logprobs < 4
                     ? static_cast<std::size_t>(std::max<std::int64_t>(options.top_logprobs, 0))
                     : 0);
        logprobs.resize(room * row);
        prompt_logprobs.resize(prompt.size() * row);
        options.logprobs = logprobs.data();
        options.prompt_logprobs = input_.rarely(2) ? prompt_logprobs.data() : nullptr;
    }
    options.on_token = input_.rarely(2) ? on_token : nullptr;
    options.should_stop = input_.rarely(2) ? should_stop : nullptr;
    options.user_data = this;
    const auto ring = std::ranges::find_if(rings_, &Ring::has_producer);
    if (ring != rings_.end() && input_.rarely(2)) {
        options.on_token = push;
        options.should_stop = is_stopping;
        options.user_data = &*ring;
    }
    std::vector<std::int64_t> tokens(room);
    kael_generate_result result = {};
    result.struct_size = input_.rarely(32) ? integer() : std::int64_t{sizeof(result)};
    const auto count = static_cast<std::int64_t>(prompt.size());
    const bool is_negative = input_.rarely(32);
    must_fail_ = must_fail_ || is_negative;
    succeeded(kael_gpt_generate(gpt, prompt.data(), is_negative ? -1 : count,
                                input_.rarely(32) ? nullptr : &options, tokens.data(),
                                out(result)));
    require(result.count >= 0 && result.count <= static_cast<std::int64_t>(room));
}

void Session::sample() {
    std::vector<float> logits(input_.below(8));
    for (float& logit : logits) {
        logit = static_cast<float>(std::clamp(real(), -3e38, 3e38));
    }
    kael_generate_options options = {};
    fill(options);
    const std::vector<std::int64_t> prompt = ids();
    const std::vector<std::int64_t> generated = ids();
    std::int64_t token = -1;
    const double draw = real();
    const bool is_negative = input_.rarely(32);
    must_fail_ = must_fail_ || is_negative;
    const kael_status status =
        kael_sample_next(logits.data(), is_negative ? -1 : static_cast<std::int64_t>(logits.size()),
                         input_.rarely(32) ? nullptr : &options, prompt.data(),
                         static_cast<std::int64_t>(prompt.size()), generated.data(),
                         static_cast<std::int64_t>(generated.size()), draw, out(token));
    require(succeeded(status) == (token >= 0));
    require(token < static_cast<std::int64_t>(logits.size()));
}

// ---- Token rings

void Session::make_ring() {
    kael_token_ring* made = untouched<kael_token_ring>();
    const std::int64_t most = input_.rarely(8) ? integer() : input_.byte() % 4;
    take(kael_token_ring_create(most, out(made)), made, [this](kael_token_ring* ring) {
        require(kael_token_ring_descriptor(ring) >= 0);
        rings_.push_back({.handle = ring, .pushed = {}});
    });
}

void Session::produce() {
    require(kael_token_ring_push(nullptr, 1) == KAEL_TOKEN_FAILED);
    kael_token_ring_stopping(nullptr);
    kael_token_ring_finish(nullptr);
    if (rings_.empty()) {
        return;
    }
    Ring& ring = rings_[input_.below(rings_.size())];
    if (!ring.has_producer) {
        return;
    }
    const std::int64_t token = integer();
    switch (input_.below(8)) {
    case 0:
        kael_token_ring_finish(ring.handle);
        ring.has_producer = false;
        break;
    case 1:
        require(kael_token_ring_stopping(ring.handle) <= 1);
        break;
    default:
        push(&ring, token);
        break;
    }
}

void Session::consume() {
    require(kael_token_ring_descriptor(nullptr) == -1);
    kael_token_ring_stop(nullptr);
    kael_token_ring_free(nullptr);
    const bool is_null = rings_.empty() || input_.rarely(32);
    Ring nothing = {.handle = nullptr, .has_producer = false, .pushed = {}};
    Ring& ring = is_null ? nothing : rings_[input_.below(rings_.size())];
    must_fail_ = is_null;
    if (!ring.has_consumer) {
        return;
    }
    const std::size_t choice = input_.below(8);
    if (choice == 7 && !is_null) {
        kael_token_ring_free(ring.handle);
        ring.has_consumer = false;
        return;
    }
    if (choice == 6 && !is_null) {
        kael_token_ring_stop(ring.handle);
        require(!ring.has_producer || kael_token_ring_stopping(ring.handle) == 1);
        return;
    }
    std::vector<kael_token_record> records(choice);
    std::int64_t count = -1;
    std::uint8_t done = 7;
    const kael_status status = kael_token_ring_drain(
        ring.handle, records.data(), input_.rarely(32) ? -1 : static_cast<std::int64_t>(choice),
        out(count), out(done));
    if (succeeded(status)) {
        require(count == std::min(static_cast<std::int64_t>(choice),
                                  static_cast<std::int64_t>(ring.pushed.size())));
        for (std::int64_t i = 0; i < count; ++i) {
            require(records[static_cast<std::size_t>(i)].token == ring.pushed.front());
            ring.pushed.pop_front();
        }
        require((done == 1) == (!ring.has_producer && ring.pushed.empty()));
    } else {
        require(count == -1 && done == 7);
    }
}

// ---- Settings

void Session::settings() {
    const std::int64_t threads = input_.rarely(4) ? integer() : 1 + input_.byte() % 3;
    if (succeeded(kael_set_num_threads(static_cast<std::int32_t>(threads)))) {
        require(kael_get_num_threads() == static_cast<std::int32_t>(threads));
    }
    std::uint64_t seed = 0;
    std::uint64_t position = 0;
    if (succeeded(kael_random_state(out(seed), out(position)))) {
        seed = input_.rarely(2) ? input_.number<std::uint64_t>() : seed;
        position = input_.rarely(2) ? input_.number<std::uint64_t>() : position;
        kael_set_random_state(seed, position);
    }
    require(kael_caching_allocator_enabled() <= 1);
}

// Wrong arguments alone: a measurement takes too long.
void Session::measure() {
    double speed = -1;
    must_fail_ = true;
    const auto wrong = static_cast<std::int32_t>(input_.one_of<std::int64_t>({0, -1, INT32_MIN}));
    const bool threads = input_.rarely(2);
    succeeded(input_.rarely(2)
                  ? kael_measure_read_bandwidth(threads ? wrong : 1, threads ? 1 : wrong, &speed)
                  : kael_measure_multiply_add(KAEL_WEIGHTS_FLOAT32, threads ? wrong : 1,
                                              threads ? 1 : wrong, &speed));
    require(speed == -1);
}

// ---- The sequence

// In the order of the corpus: a new one goes to the end.
const Session::Call Session::kCalls[] = {
    &Session::tensor_from_bytes,
    &Session::tensor_from_memory,
    &Session::share_by_dlpack,
    &Session::adopt_by_dlpack,
    &Session::end_capsule,
    &Session::describe,
    &Session::view,
    &Session::free_tensor,
    &Session::operator_names,
    &Session::idx,
    &Session::gradient_state,
    &Session::set_requires_grad,
    &Session::gradient,
    &Session::detach_or_share,
    &Session::hooks,
    &Session::backward,
    &Session::grad,
    &Session::nodes,
    &Session::texts,
    &Session::traces,
    &Session::recordings,
    &Session::anomalies,
    &Session::maps,
    &Session::metadata,
    &Session::files,
    &Session::load_tokenizer,
    &Session::encode,
    &Session::decode,
    &Session::create_gpt,
    &Session::gpt_files,
    &Session::gpt_state,
    &Session::logits,
    &Session::generate,
    &Session::sample,
    &Session::make_ring,
    &Session::produce,
    &Session::consume,
    &Session::settings,
    &Session::measure,
};

void Session::run() {
    running_ = this;
    for (int i = 0; i < kMostCalls && !input_.finished(); ++i) {
        const std::uint8_t choice = input_.byte();
        nulls_ = input_.rarely(8) ? input_.byte() : 0U;
        if (choice >= 128) {
            apply();
        } else {
            (this->*kCalls[choice % std::size(kCalls)])();
        }
        require(!must_fail_);
    }
    finish();
}

void Session::finish() {
    require(kael_set_backward_trace(nullptr, nullptr) == KAEL_OK);
    require(kael_set_backward_records(nullptr, nullptr) == KAEL_OK);
    require(kael_set_anomaly_detection(0) == KAEL_OK);
    require(kael_set_call_site(nullptr, nullptr) == KAEL_OK);
    require(kael_set_num_threads(1) == KAEL_OK);
    kael_set_grad_enabled(1);

    // The library keeps its last answers for the caller: short ones, for libFuzzer counts blocks.
    const float number = 0;
    kael_tensor* leaf = nullptr;
    require(kael_tensor_from_bytes(KAEL_FLOAT32, nullptr, 0, &number, 4, &leaf) == KAEL_OK);
    const char* text = nullptr;
    std::int64_t length = 0;
    require(kael_tensor_grad_fn(leaf, &text, &length) == KAEL_OK && length == 0);
    require(kael_tensor_grad_fn(nullptr, &text, &length) == KAEL_INVALID_ARGUMENT);
    tensors_.push_back(leaf);

    for (kael_tensor* const tensor : tensors_) {
        require(kael_tensor_set_grad(tensor, nullptr) == KAEL_OK);
    }
    // Null too, with which nothing happens.
    const auto free_all = [](auto& handles, auto free) {
        handles.push_back(nullptr);
        std::for_each(handles.begin(), handles.end(), free);
    };
    free_all(nodes_, kael_node_free);
    free_all(tensors_, kael_tensor_free);
    free_all(recordings_, kael_memory_recording_free);
    free_all(maps_, kael_tensor_map_free);
    free_all(tokenizers_, kael_tokenizer_free);
    free_all(gpts_, kael_gpt_free);
    for (dlpack::Managed* const managed : shared_) {
        managed->deleter(managed);
    }
    for (dlpack::ManagedVersioned* const managed : shared_versioned_) {
        managed->deleter(managed);
    }
    for (const Ring& ring : rings_) {
        if (ring.has_producer) {
            kael_token_ring_finish(ring.handle);
        }
        if (ring.has_consumer) {
            kael_token_ring_free(ring.handle);
        }
    }
    require(released_ == promised_);
    require(std::ranges::all_of(foreign_, [](const auto& f) { return f.times_given_back == 1; }));
    require(std::ranges::all_of(foreign_versioned_,
                                [](const auto& f) { return f.times_given_back == 1; }));
    require(std::ranges::all_of(read_only_memory_, [](double value) { return value == 1.5; }));
    if (has_saved_) {
        for (const auto& entry : std::filesystem::directory_iterator(files_.path())) {
            if (entry.path().filename() != "config.json") {
                std::filesystem::remove(entry.path());
            }
        }
    }
}

} // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__has_feature)
// More memory than there is must be refused by the library and not by the sanitizer.
extern "C" const char* __asan_default_options() {
    return "allocator_may_return_null=1";
}
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Session(Input(data, size)).run();
    return 0;
}
