// What autograd keeps of a tensor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kael/autograd.h"

namespace kael::autograd {

// What a view needs to follow its base when that is written.
struct ViewOf {
    ViewOf(Tensor of, bool recorded, std::uint64_t so_far)
        : base(std::move(of)), is_recorded(recorded), writes(so_far) {}

    Tensor base;      // of a recorded view itself none
    bool is_recorded; // not when it was made inside no_grad
    // Of the base, when the node of this view was made. Threads that read the view may find that it
    // is behind: the node is written before the count.
    std::atomic<std::uint64_t> writes;
};

// A hook on the gradient of a tensor that is no leaf. The node that it hangs on stays in the graph
// when an in-place operator gives the tensor another one.
struct HungHook {
    std::uint64_t number;
    std::weak_ptr<Node> node;
};

struct State {
    bool requires_grad = false;      // of a leaf: what its owner wishes
    Edge node;                       // what made the tensor; null for a leaf
    std::weak_ptr<Node> accumulator; // of a leaf, once it was used
    Tensor gradient;                 // of a leaf
    GradientHooks hooks;             // of a leaf
    std::vector<HungHook> hung;      // of what is none
    std::unique_ptr<ViewOf> view;    // null for what is no view, or was not recorded as one
    std::uint64_t writes = 0;        // recorded in-place writes to this tensor or a view of it
};

// Made when it is first asked for.
State& state_of(const Tensor& tensor);

} // namespace kael::autograd
