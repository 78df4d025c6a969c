"""Layer normalisation and cross-entropy, in the corners where implementations have failed."""

from __future__ import annotations

import numpy as np
import pytest

import kael
from kael._apply import apply
from kael.nn.functional import cross_entropy, layer_norm


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_row_of_equal_values_is_normalised_to_zeros_with_a_tiny_epsilon(dtype):  # KB053
    x = kael.full([2, 8], 3.0).to(dtype).requires_grad_()
    weight, bias = kael.full([8], 1.0).to(dtype), kael.zeros(8).to(dtype)
    y = layer_norm(x, 8, weight, bias, eps=1e-12)
    assert y.dtype == dtype
    assert y.tolist() == [[0.0] * 8] * 2
    y.sum().backward()
    assert np.isfinite(x.grad.to("float32").numpy()).all()


@pytest.mark.parametrize("width", [1, 7, 768, 1023, 1024, 1280, 1600])
def test_layer_norm_and_its_gradient_take_any_width(width):  # KB086
    generator = np.random.default_rng(width)
    values, weight, bias, seed = (
        generator.normal(size=size) for size in ((3, width), width, width, (3, width))
    )
    x, w, b = (kael.tensor(array, dtype="float64", requires_grad=True) for array in (values, weight, bias))
    y = layer_norm(x, width, w, b, 1e-5)
    centred = values - values.mean(1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    normal = centred * scale
    np.testing.assert_allclose(y.detach().numpy(), normal * weight + bias, rtol=1e-9, atol=1e-9)
    (y * kael.tensor(seed)).sum().backward()
    inner = seed * weight
    expected = scale * (
        inner - inner.mean(1, keepdims=True) - normal * (inner * normal).mean(1, keepdims=True)
    )
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(w.grad.numpy(), (seed * normal).sum(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(b.grad.numpy(), seed.sum(0), rtol=1e-9, atol=1e-9)


def layer_norm_inputs():
    generator = np.random.default_rng(5)
    return [kael.tensor(generator.normal(size=size), requires_grad=True) for size in ((3, 4), 4, 4)]


def normalized(x, weight, bias):
    return layer_norm(x, 4, weight, bias)


def slopes(function, inputs, wanted):
    """The squares of the gradients, recorded also where gradcheck takes differences without a record."""
    with kael.enable_grad():
        leaves = [x if x.requires_grad else x.detach().requires_grad_() for x in inputs]
        found = kael.grad(function(*leaves), leaves[:wanted], create_graph=True)
        return [gradient.square().sum() for gradient in found]


@pytest.mark.parametrize("which", [0, 1])
def test_layer_norm_can_be_differentiated_twice(which):
    seed = kael.tensor(np.random.default_rng(6).normal(size=(3, 4)))

    def total(*inputs):
        return (normalized(*inputs) * seed).sum()

    inputs = layer_norm_inputs()
    if which == 0:
        assert kael.gradcheck(lambda *inputs: slopes(total, inputs, 1)[0], inputs)
    else:  # the slope of the bias is a constant, that of the weight does not depend on the bias
        assert kael.gradcheck(lambda x, w: slopes(total, (x, w, inputs[2]), 2)[1], inputs[:2])


@pytest.mark.parametrize("targets", [[0, 2, 1], [0, -100, 1], [-100, -100, 2]])
def test_cross_entropy_can_be_differentiated_twice(targets):
    logits = kael.tensor(np.random.default_rng(5).normal(size=(3, 4)), requires_grad=True)
    labels = kael.tensor(targets)

    def loss(logits):
        return cross_entropy(logits, labels) * 1.5

    assert kael.gradcheck(loss, logits)
    assert kael.gradcheck(lambda logits: slopes(loss, [logits], 1)[0], logits)


@pytest.mark.parametrize("create_graph", [False, True])
def test_both_ways_to_a_gradient_give_the_same(create_graph):
    inputs = layer_norm_inputs()
    labels = kael.tensor([1, -100, 3])
    found = kael.grad(cross_entropy(normalized(*inputs), labels), inputs, create_graph=create_graph)
    x, w, b = (tensor.detach().numpy() for tensor in inputs)
    scale = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    normal = (x - x.mean(1, keepdims=True)) * scale
    powers = np.exp(normal * w + b)
    slope = (powers / powers.sum(1, keepdims=True) - np.eye(4)[[1, 0, 3]]) / 2 * [[1], [0], [1]]
    inner = slope * w
    expected = [
        scale * (inner - inner.mean(1, keepdims=True) - normal * (inner * normal).mean(1, keepdims=True)),
        (slope * normal).sum(0),
        slope.sum(0),
    ]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-9, atol=1e-12)


def test_a_loss_without_targets_is_nan_and_its_gradient_zero():
    logits = kael.tensor([[1.0, 2.0]], requires_grad=True)
    loss = cross_entropy(logits, kael.tensor([-100]))
    assert np.isnan(loss.item())
    loss.backward()
    assert logits.grad.tolist() == [[0, 0]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_losses_far_apart_neither_overflow_nor_vanish(dtype):
    logits = kael.tensor([[1000.0, 0.0], [0.0, 1000.0]]).to(dtype).requires_grad_()
    loss = cross_entropy(logits, kael.tensor([1, 1]))
    assert loss.item() == 500.0
    loss.backward()
    assert logits.grad.tolist() == [[0.5, -0.5], [0.0, 0.0]]


def test_what_layers_and_losses_do_not_take_is_named():
    x = kael.zeros(2, 3)
    with pytest.raises(kael.Error, match=r"embedding: a table of shape \[3\], expected two dimensions"):
        kael.nn.functional.embedding(kael.tensor([0]), kael.zeros(3))
    for reduction in ("mean", "none"):
        with pytest.raises(kael.Error, match="target 1 is 3, expected 0 to 2, or -100 to leave it out"):
            cross_entropy(x, kael.tensor([0, 3]), reduction=reduction)
    integers = kael.zeros(2, 3).to("int64")
    with pytest.raises(
        kael.Error, match="layer_norm: a tensor of dtype int64, expected a floating-point one"
    ):
        apply("layer_norm", integers, [3], None, None, 1e-5)
    with pytest.raises(kael.Error, match="mse_loss: the reduction 7 is unknown, expected 0"):
        apply("mse_loss", x, x, 7)
