// The C interface: a sequence of calls, right ones and wrong ones. Whatever it is, each call
// answers with a status, an error with one line of UTF-8, and what was handed over is given back
// once. Not tried is what the header leaves undefined: a handle that was freed, less room than was
// said.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>

#include "capi/session.h"

namespace kael::fuzz {

namespace {

constexpr int kMostCalls = 48;

void require_floats_of_gradients(const kael_tensor* tensor) {
    std::uint8_t requires_grad = 0;
    std::uint8_t is_leaf = 0;
    kael_tensor_info info = {};
    info.struct_size = sizeof(info);
    require(kael_tensor_gradient_state(tensor, &requires_grad, &is_leaf) == KAEL_OK);
    require(kael_tensor_describe(tensor, &info) == KAEL_OK);
    require(requires_grad == 0 || info.dtype <= KAEL_BFLOAT16);
}

} // namespace

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
        require_floats_of_gradients(tensor);
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

} // namespace kael::fuzz

#if defined(__SANITIZE_ADDRESS__) || defined(__has_feature)
// More memory than there is must be refused by the library and not by the sanitizer.
extern "C" const char* __asan_default_options() {
    return "allocator_may_return_null=1";
}
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    kael::fuzz::Session(kael::fuzz::Input(data, size)).run();
    return 0;
}
