// The tables that this build has; dispatch.cpp says which of them the processor runs.
#pragma once

#include "kernels/cpu/kernels.h"

namespace kael::kernels {

extern const CpuKernels kBaselineKernels;
#if defined(__x86_64__)
extern const CpuKernels kX86V3Kernels;
extern const CpuKernels kX86V4Kernels;
extern const CpuKernels kX86V4VnniKernels;
extern const CpuKernels kX86V4Bf16Kernels;
#endif

} // namespace kael::kernels
