// AVX-512 (F, BW, DQ, VL), products of bytes (VNNI) and of bfloat16 (BF16); compiled with the flags
// in instruction_sets.cmake.
#if defined(__x86_64__)
#define KAEL_INSTRUCTION_SET x86_64_v4_bf16
#include "kernels/cpu/lanes/table.h"
#include "kernels/cpu/tables.h"

namespace kael::kernels {

constexpr CpuKernels kX86V4Bf16Kernels = x86_64_v4_bf16::make_table("x86-64-v4-bf16");

} // namespace kael::kernels
#endif
