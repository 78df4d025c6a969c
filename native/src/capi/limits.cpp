// The machine's limits.
#include <cstdint>

#include "capi/guard.h"
#include "kernels/cpu/machine_limits.h"

extern "C" {

kael_status kael_measure_read_bandwidth(int32_t threads, int32_t repeats,
                                        double* bytes_per_second) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(bytes_per_second);
        *bytes_per_second = kael::kernels::measure_read_bandwidth(threads, repeats);
    });
}

kael_status kael_measure_multiply_add(int32_t threads, int32_t repeats,
                                      double* operations_per_second) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(operations_per_second);
        *operations_per_second = kael::kernels::measure_multiply_add(threads, repeats);
    });
}
}
