// What stands behind the opaque handles of kael.h that several areas share.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kael/autograd.h"
#include "kael/kael.h"
#include "kael/tensor.h"

struct kael_tensor {
    kael::Tensor tensor;
};

struct kael_node {
    kael::autograd::Edge node;
};

struct kael_tensor_map {
    kael::NamedTensors tensors;
    std::vector<std::pair<std::string, std::string>> metadata;
    // The names in `tensors`, filled when a tensor is first added by name.
    std::unordered_set<std::string> names;
};
