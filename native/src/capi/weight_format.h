// kael_weight_format.
#pragma once

#include "kael/error.h"
#include "kael/gpt.h"
#include "kael/kael.h"

namespace kael::capi {

[[nodiscard]] inline gpt::WeightFormat from_c(kael_weight_format format) {
    KAEL_CHECK_AS(ErrorCode::unsupported,
                  format >= KAEL_WEIGHTS_FLOAT32 && format <= KAEL_WEIGHTS_INT4,
                  "the weight format is "
                      << format << ", expected 0 (float32), 1 (bfloat16), 2 (int8) or 3 (int4)");
    return static_cast<gpt::WeightFormat>(format);
}

} // namespace kael::capi
