// Which table runs: the widest that the processor has, or the one that KAEL_ISA names.
#include "kernels/cpu/dispatch.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "kael/error.h"

#include "base/environment.h"
#include "base/in_quotes.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/tables.h"

namespace kael::kernels {

namespace {

constexpr std::string_view kKnownNames[] = {"baseline", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni",
                                            "x86-64-v4-bf16"};

#if defined(__x86_64__)
// __builtin_cpu_supports also asks whether the operating system saves the registers.
bool runs_x86_v3() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool runs_x86_v4() {
    return runs_x86_v3() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

bool runs_x86_v4_vnni() {
    return runs_x86_v4() && __builtin_cpu_supports("avx512vnni");
}

bool runs_x86_v4_bf16() {
    return runs_x86_v4_vnni() && __builtin_cpu_supports("avx512bf16");
}
#endif

} // namespace

CpuKernelTables available_cpu_kernels() {
    CpuKernelTables available{};
#if defined(__x86_64__)
    if (runs_x86_v4_bf16()) {
        available.tables[available.count++] = &kX86V4Bf16Kernels;
    }
    if (runs_x86_v4_vnni()) {
        available.tables[available.count++] = &kX86V4VnniKernels;
    }
    if (runs_x86_v4()) {
        available.tables[available.count++] = &kX86V4Kernels;
    }
    if (runs_x86_v3()) {
        available.tables[available.count++] = &kX86V3Kernels;
    }
#endif
    available.tables[available.count++] = &kBaselineKernels;
    return available;
}

const CpuKernels& select_cpu_kernels(std::string_view wanted) {
    const CpuKernelTables available = available_cpu_kernels();
    if (wanted.empty()) {
        return *available.tables[0];
    }
    std::string names;
    for (int i = 0; i < available.count; ++i) {
        if (wanted == available.tables[i]->name) {
            return *available.tables[i];
        }
        names += i == 0 ? "" : ", ";
        names += available.tables[i]->name;
    }
    const bool known = std::ranges::find(kKnownNames, wanted) != std::end(kKnownNames);
    KAEL_CHECK_AS(known ? ErrorCode::unsupported : ErrorCode::invalid_argument, false,
                  "the environment variable KAEL_ISA is "
                      << in_quotes(wanted) << ", "
                      << (known ? "which this processor or build does not run"
                                : "which is no instruction set of kael")
                      << "; expected one of: " << names);
    return *available.tables[0];
}

const CpuKernels& cpu_kernels() {
    static const CpuKernels& chosen =
        select_cpu_kernels(environment_variable("KAEL_ISA").value_or(""));
    return chosen;
}

} // namespace kael::kernels
