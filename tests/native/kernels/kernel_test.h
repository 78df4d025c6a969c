// What the kernel tests share: every table that this processor runs, memory with guard pages, bits.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/kernels.h"
#include "kernels/scalar_model.h"

namespace kael::kernels {

// Room for `count` floats that touches a page without access: behind it, or before it when
// `at_end` is false, so that one float too far is a crash.
class GuardedFloats {
public:
    explicit GuardedFloats(std::int64_t count, bool at_end = true) : count_(count) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
        const std::size_t room = (bytes + page - 1) / page * page;
        size_ = room + 2 * page;
        base_ =
            static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        EXPECT_NE(static_cast<void*>(base_), MAP_FAILED);
        if (room > 0) {
            EXPECT_EQ(mprotect(base_ + page, room, PROT_READ | PROT_WRITE), 0);
        }
        data_ = reinterpret_cast<float*>(base_ + page + (at_end ? room - bytes : 0));
    }
    GuardedFloats(const GuardedFloats&) = delete;
    GuardedFloats& operator=(const GuardedFloats&) = delete;
    ~GuardedFloats() { munmap(base_, size_); }

    float* data() { return data_; }
    float& operator[](std::int64_t i) { return data_[i]; }
    [[nodiscard]] std::int64_t size() const { return count_; }

private:
    char* base_ = nullptr;
    std::size_t size_ = 0;
    float* data_ = nullptr;
    std::int64_t count_;
};

inline std::string bits_of(float value) {
    std::ostringstream text;
    text << std::hexfloat << value << std::hex << " (0x" << std::bit_cast<std::uint32_t>(value)
         << ")";
    return text.str();
}

inline ::testing::AssertionResult same_bits(const float* actual, const float* expected,
                                            std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        if (std::bit_cast<std::uint32_t>(actual[i]) != std::bit_cast<std::uint32_t>(expected[i])) {
            return ::testing::AssertionFailure()
                   << "element " << i << " of " << count << " is " << bits_of(actual[i])
                   << ", expected " << bits_of(expected[i]);
        }
    }
    return ::testing::AssertionSuccess();
}

class KernelTest : public ::testing::TestWithParam<const CpuKernels*> {
protected:
    [[nodiscard]] const CpuKernels& kernels() const { return *GetParam(); }

    // Only x86's baseline lacks a fused multiply-add.
    [[nodiscard]] model::Arithmetic arithmetic() const {
#if defined(__x86_64__)
        return {std::string(kernels().name) != "baseline"};
#else
        return {true};
#endif
    }

    std::int64_t integer(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(generator_);
    }

    // Values whose sums round at almost every step.
    void fill(float* data, std::int64_t count) {
        std::normal_distribution<float> normal;
        for (std::int64_t i = 0; i < count; ++i) {
            data[i] = normal(generator_);
        }
    }

    std::unique_ptr<GuardedFloats> random(std::int64_t count) {
        auto floats = std::make_unique<GuardedFloats>(count, integer(0, 1) == 0);
        fill(floats->data(), count);
        return floats;
    }

    std::mt19937_64 generator_{20240607};
};

inline std::vector<const CpuKernels*> every_table() {
    const CpuKernelTables available = available_cpu_kernels();
    return {available.tables, available.tables + available.count};
}

inline std::string table_name(const ::testing::TestParamInfo<const CpuKernels*>& info) {
    std::string name = info.param->name;
    for (char& c : name) {
        c = c == '-' ? '_' : c;
    }
    return name;
}

} // namespace kael::kernels

#define KAEL_FOR_EVERY_TABLE(suite)                                                                \
    INSTANTIATE_TEST_SUITE_P(Cpu, suite, ::testing::ValuesIn(::kael::kernels::every_table()),      \
                             ::kael::kernels::table_name)
