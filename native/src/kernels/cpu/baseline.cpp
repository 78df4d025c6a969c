// What every processor of the architecture runs: SSE2 on x86-64, NEON on arm64.
#define KAEL_INSTRUCTION_SET baseline
#include "kernels/cpu/lanes/table.h"
#include "kernels/cpu/tables.h"

namespace kael::kernels {

constexpr CpuKernels kBaselineKernels = baseline::make_table("baseline");

} // namespace kael::kernels
