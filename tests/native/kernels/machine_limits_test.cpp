#include <string>

#include <gtest/gtest.h>

#include "kael/error.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/machine_limits.h"

namespace {

using kael::kernels::measure_read_bandwidth;

double measure_multiply_add(int threads, int repeats) {
    return kael::kernels::measure_multiply_add(kael::kernels::cpu_kernels().multiply_add_loop,
                                               threads, repeats);
}

TEST(MachineLimits, ArePlausible) {
    // Any machine reads between 100 MB and 10 TB a second, sanitized builds and busy ones included.
    const double bandwidth = measure_read_bandwidth(2, 1);
    EXPECT_GT(bandwidth, 1e8);
    EXPECT_LT(bandwidth, 1e13);
    const double operations = measure_multiply_add(2, 1);
    EXPECT_GT(operations, 1e7);
    EXPECT_LT(operations, 1e14);
}

TEST(MachineLimits, RefuseCountsOutOfRangeByName) {
    const auto message = [](auto measure, int threads, int repeats) -> std::string {
        try {
            static_cast<void>(measure(threads, repeats));
        } catch (const kael::Error& error) {
            return error.message();
        }
        return "no error";
    };
    for (const int threads : {-1, 0, 257}) {
        const std::string expected =
            "threads is " + std::to_string(threads) + ", expected 1 to 256";
        EXPECT_EQ(message(measure_read_bandwidth, threads, 1), expected);
        EXPECT_EQ(message(measure_multiply_add, threads, 1), expected);
    }
    for (const int repeats : {-1, 0, 1001}) {
        const std::string expected =
            "repeats is " + std::to_string(repeats) + ", expected 1 to 1000";
        EXPECT_EQ(message(measure_read_bandwidth, 1, repeats), expected);
        EXPECT_EQ(message(measure_multiply_add, 1, repeats), expected);
    }
}

} // namespace
