// The version, and what holds for the whole process: threads, the random stream, the allocator.
#include <cstdint>
#include <string>

#include "kael/allocator.h"
#include "kael/matmul.h"
#include "kael/random.h"
#include "kael/threads.h"

#include "capi/guard.h"
#include "kernels/cpu/kernels.h"

namespace {

std::string instruction_set() {
    try {
        return kael::kernels::cpu_kernels().name;
    } catch (const kael::Error&) { // whoever computes gets the error; a description has none
        return "no instruction set";
    }
}

std::string describe_build() {
#if defined(__clang__)
    const std::string compiler = "clang " __clang_version__;
#else
    const std::string compiler = "gcc " __VERSION__;
#endif
    return instruction_set() + ", " + compiler + ", " KAEL_BUILD_TYPE;
}

} // namespace

extern "C" {

int32_t kael_abi_version(void) {
    return KAEL_ABI_VERSION;
}

const char* kael_version(void) {
    return KAEL_VERSION_STRING;
}

const char* kael_build_info(void) {
    const char* text = "";
    kael::capi::guard([&] {
        static const std::string* const description = new std::string(describe_build());
        text = description->c_str();
    });
    return text;
}

kael_status kael_set_num_threads(int32_t count) {
    return kael::capi::guard([&] { kael::set_num_threads(count); });
}

int32_t kael_get_num_threads(void) {
    int32_t count = 0;
    kael::capi::guard([&] { count = kael::get_num_threads(); });
    return count;
}

kael_status kael_set_float32_matmul_precision(kael_matmul_precision precision) {
    return kael::capi::guard([&] {
        KAEL_CHECK(precision == KAEL_MATMUL_HIGHEST || precision == KAEL_MATMUL_MEDIUM,
                   "the precision of matrix products is "
                       << precision << ", expected 0 (highest) or 1 (medium)");
        kael::set_float32_matmul_precision(static_cast<kael::MatmulPrecision>(precision));
    });
}

kael_matmul_precision kael_get_float32_matmul_precision(void) {
    return static_cast<kael_matmul_precision>(kael::float32_matmul_precision());
}

void kael_manual_seed(uint64_t seed) {
    kael::capi::guard([&] { kael::manual_seed(seed); });
}

kael_status kael_random_state(uint64_t* seed, uint64_t* position) {
    return kael::capi::guard([&] {
        KAEL_CHECK(seed != nullptr && position != nullptr, "seed or position is null");
        const kael::RandomState state = kael::random_state();
        *seed = state.seed;
        *position = state.position;
    });
}

void kael_set_random_state(uint64_t seed, uint64_t position) {
    kael::capi::guard([&] { kael::set_random_state({seed, position}); });
}

uint8_t kael_caching_allocator_enabled(void) {
    uint8_t enabled = 0;
    kael::capi::guard([&] { enabled = kael::caching_allocator_enabled() ? 1 : 0; });
    return enabled;
}
}
