// AVX2 and FMA; compiled with the flags in instruction_sets.cmake.
#if defined(__x86_64__)
#define KAEL_INSTRUCTION_SET x86_64_v3
#include "kernels/cpu/lanes/table.h"
#include "kernels/cpu/tables.h"

namespace kael::kernels {

constexpr CpuKernels kX86V3Kernels = x86_64_v3::make_table("x86-64-v3");

} // namespace kael::kernels
#endif
