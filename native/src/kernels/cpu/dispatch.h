#pragma once

#include <string_view>

#include "kernels/cpu/kernels.h"

namespace kael::kernels {

// The table that KAEL_ISA asks for, the widest one when `wanted` is empty; an error that lists the
// names when this processor runs none of that name.
[[nodiscard]] const CpuKernels& select_cpu_kernels(std::string_view wanted);

} // namespace kael::kernels
