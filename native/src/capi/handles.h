// What stands behind the opaque handles of kael.h that several areas share.
#pragma once

#include "kael/kael.h"
#include "kael/tensor.h"

struct kael_tensor {
    kael::Tensor tensor;
};
