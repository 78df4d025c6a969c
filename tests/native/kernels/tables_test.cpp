// The tables among each other, and the probes.
#include <algorithm>

#include "kael/error.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/kernel_test.h"

namespace kael::kernels {

namespace {

class Tables : public KernelTest {};

TEST_P(Tables, ReadStreamDependsOnEveryFloat) {
    for (const bool fetch_ahead : {false, true}) {
        const auto data = random(8192);
        std::fill_n(data->data(), 8192, 0.0f);
        const float before = kernels().read_stream(data->data(), 8192, fetch_ahead);
        for (std::int64_t i = 0; i < 8192; i += 7) {
            (*data)[i] = 1.0f;
            EXPECT_NE(kernels().read_stream(data->data(), 8192, fetch_ahead), before) << i;
            (*data)[i] = 0.0f;
        }
    }
}

TEST_P(Tables, MultiplyAddLoopCountsOperations) {
    EXPECT_GT(kernels().multiply_add_loop(10), 0);
    EXPECT_EQ(kernels().multiply_add_loop(10) % 2, 0);
}

TEST_P(Tables, PanelsDivideTheWidthsOfGpt2) {
    for (const std::int64_t width : {768, 2304, 3072}) {
        EXPECT_EQ(width % kernels().matmul_panel, 0);
    }
}

KAEL_FOR_EVERY_TABLE(Tables);

TEST(CpuKernels, TheBaselineIsAlwaysThere) {
    const CpuKernelTables available = available_cpu_kernels();
    ASSERT_GE(available.count, 1);
    EXPECT_STREQ(available.tables[available.count - 1]->name, "baseline");
}

TEST(CpuKernels, TheWidestTableRunsUnlessOneIsNamed) {
    const CpuKernelTables available = available_cpu_kernels();
    EXPECT_EQ(&select_cpu_kernels(""), available.tables[0]);
    for (int i = 0; i < available.count; ++i) {
        EXPECT_EQ(&select_cpu_kernels(available.tables[i]->name), available.tables[i]);
    }
}

TEST(CpuKernels, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
    try {
        static_cast<void>(select_cpu_kernels("avx512"));
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        const std::string& text = error.message();
        EXPECT_TRUE(text.starts_with("the environment variable KAEL_ISA is \"avx512\", which is no "
                                     "instruction set of kael; expected one of: "))
            << text;
        EXPECT_TRUE(text.ends_with("baseline")) << text;
    }
}

TEST(CpuKernels, ANameThatThisProcessorDoesNotRunIsUnsupported) {
    const CpuKernelTables available = available_cpu_kernels();
    if (std::string(available.tables[0]->name) == "x86-64-v4-bf16") {
        GTEST_SKIP()
            << "this processor runs every instruction set that kael has, so none is left to refuse";
    }
    try {
        static_cast<void>(select_cpu_kernels("x86-64-v4-bf16"));
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        EXPECT_NE(error.message().find("which this processor or build does not run"),
                  std::string::npos);
    }
}

// With fused multiply-adds a result is the same on every processor.
TEST(CpuKernels, FusedTablesAgreeToTheBit) {
#if !defined(__x86_64__)
    GTEST_SKIP() << "this architecture has one instruction set, and nothing to compare it with";
#endif
    const std::vector<const CpuKernels*> tables = every_table();
    if (tables.size() < 3) {
        GTEST_SKIP() << "this processor runs fewer than two tables with fused multiply-adds";
    }
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    std::vector<float> input(20000);
    std::generate(input.begin(), input.end(), [&] { return normal(generator) * 4.0f; });
    const auto run = [&](const CpuKernels& kernels) {
        std::vector<float> result = input;
        kernels.gelu_tanh(result.data(), 5000);
        kernels.gelu_erf(result.data() + 5000, 5000);
        kernels.gelu_tanh_gradient(input.data(), input.data() + 5000, 1000, result.data() + 16000);
        kernels.softmax(result.data() + 10000, 1000);
        kernels.layer_norm(result.data() + 12000, input.data(), input.data() + 3000, 1e-5f, 1001,
                           result.data() + 14000);
        return result;
    };
    const std::vector<float> widest = run(*tables[0]);
    for (std::size_t i = 1; i + 1 < tables.size(); ++i) { // the last one has no such instructions
        const std::vector<float> narrower = run(*tables[i]);
        EXPECT_TRUE(
            same_bits(narrower.data(), widest.data(), static_cast<std::int64_t>(input.size())))
            << tables[i]->name;
    }
}

} // namespace

} // namespace kael::kernels
