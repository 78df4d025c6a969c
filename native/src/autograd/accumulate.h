// The end of a path: what adds to a leaf's gradient.
#pragma once

#include "kael/autograd.h"

namespace kael::autograd {

class AccumulateGrad final : public Node {
public:
    explicit AccumulateGrad(const Tensor& leaf);

    [[nodiscard]] GradientHooks& hooks() noexcept override;
    // Answers nothing: it has no inputs.
    GradientList apply(const Tensor& gradient) override;

private:
    Tensor leaf_;
};

} // namespace kael::autograd
