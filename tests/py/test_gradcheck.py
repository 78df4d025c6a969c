"""kael.gradcheck accepts right derivatives and names wrong ones."""

from __future__ import annotations

import numpy as np
import pytest

import kael


@pytest.fixture
def x():
    values = np.random.default_rng(5).uniform(0.5, 1.5, (3, 2))
    return kael.tensor(values, requires_grad=True)


def test_right_derivatives_pass(x):
    w = kael.tensor([0.3, 0.7], dtype="float64", requires_grad=True)
    assert kael.gradcheck(lambda x, w: (x * w).exp() / (x + w), (x, w))
    assert kael.gradcheck(lambda x: (x.sum(0), x.softmax(1)), x)
    assert kael.gradcheck(lambda x, c: x * c, (x, kael.tensor([2.0, 3.0], dtype="float64")))


def test_empty_inputs_and_outputs_pass():
    assert kael.gradcheck(lambda x: x * 2.0, kael.tensor(np.empty((0, 3)), requires_grad=True))


def test_a_wrong_derivative_is_named(x):
    with pytest.raises(
        kael.Error,
        match=r"gradcheck, inputs as given: the gradient of element 0 of output 0 with respect to element 0 "
        r"of input 0 is 1\.305\d*, expected the difference of the function, 2\.61\d*$",
    ):
        kael.gradcheck(lambda x: x * x.detach(), x)
    with pytest.raises(kael.Error, match="gradcheck, inputs as given"):
        kael.gradcheck(lambda x: (x * 2.0) + x.detach() * 0.5, x)


def test_a_derivative_that_is_wrong_for_one_layout_is_found(x):
    def function(x):
        return x * 2.0 if x.is_contiguous() else x * 2.0 + x.detach()

    with pytest.raises(kael.Error, match="gradcheck, inputs not contiguous"):
        kael.gradcheck(function, x)
    assert kael.gradcheck(function, x, variants=False)


def test_a_backward_pass_that_writes_its_gradient_is_found(x):
    def function(x):
        result = x * 2.0
        if result.requires_grad:
            result.register_hook(lambda gradient: gradient.mul_(0.5))
        return result

    with pytest.raises(
        kael.Error, match="a backward pass has changed the gradient that it was given, expected"
    ):
        kael.gradcheck(function, x)


def test_a_backward_pass_that_misreads_an_expanded_gradient_is_found(x):
    def function(x):
        result = x * 2.0
        if result.requires_grad:
            result.register_hook(lambda gradient: gradient if gradient.is_contiguous() else gradient * 3.0)
        return result

    with pytest.raises(
        kael.Error, match="an expanded gradient gives another result than a contiguous one, expected"
    ):
        kael.gradcheck(function, x)


def test_what_takes_no_input_without_dimensions_passes(x):
    assert kael.gradcheck(lambda x: x[0], x)


def test_wrong_arguments_are_named(x):
    with pytest.raises(kael.Error, match="input 0 is of dtype float32, expected float64"):
        kael.gradcheck(lambda x: x, kael.tensor([1.0], requires_grad=True))
    with pytest.raises(kael.Error, match="none of the inputs requires a gradient, expected at least one"):
        kael.gradcheck(lambda x: x, kael.tensor([1.0], dtype="float64"))
    with pytest.raises(TypeError, match=r"input 1 must be a kael\.Tensor, not float"):
        kael.gradcheck(lambda x, y: x, (x, 1.0))
    with pytest.raises(ValueError, match="mine"):
        kael.gradcheck(lambda x: (_ for _ in ()).throw(ValueError("mine")), x)
