// AVX-512 (F, BW, DQ, VL) and products of bytes (VNNI); compiled with the flags in
// instruction_sets.cmake.
#if defined(__x86_64__)
#define KAEL_INSTRUCTION_SET x86_64_v4_vnni
#include "kernels/cpu/lanes/table.h"
#include "kernels/cpu/tables.h"

namespace kael::kernels {

constexpr CpuKernels kX86V4VnniKernels = x86_64_v4_vnni::make_table("x86-64-v4-vnni");

} // namespace kael::kernels
#endif
