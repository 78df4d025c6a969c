// The machine's limits.
#include <cstdint>

#include "capi/guard.h"
#include "capi/weight_format.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/machine_limits.h"

namespace {

std::int64_t (*multiply_add_loop(kael::gpt::WeightFormat format))(std::int64_t) {
    const kael::kernels::CpuKernels& kernels = kael::kernels::cpu_kernels();
    switch (format) {
    case kael::gpt::WeightFormat::bfloat16:
        return kernels.bfloat16.multiply_add_loop;
    case kael::gpt::WeightFormat::int8:
        return kernels.int8.multiply_add_loop;
    case kael::gpt::WeightFormat::int4:
        return kernels.int4.multiply_add_loop;
    case kael::gpt::WeightFormat::float32:
        break;
    }
    return kernels.multiply_add_loop;
}

} // namespace

extern "C" {

kael_status kael_measure_read_bandwidth(int32_t threads, int32_t repeats,
                                        double* bytes_per_second) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(bytes_per_second);
        *bytes_per_second = kael::kernels::measure_read_bandwidth(threads, repeats);
    });
}

kael_status kael_measure_multiply_add(kael_weight_format format, int32_t threads, int32_t repeats,
                                      double* operations_per_second) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(operations_per_second);
        *operations_per_second = kael::kernels::measure_multiply_add(
            multiply_add_loop(kael::capi::from_c(format)), threads, repeats);
    });
}
}
