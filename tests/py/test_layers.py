"""Layer normalisation, in the corners where implementations have failed."""

from __future__ import annotations

import numpy as np
import pytest

import kael
from kael.nn.functional import layer_norm


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_row_of_equal_values_is_normalised_to_zeros_with_a_tiny_epsilon(dtype):  # KB053
    x = kael.full([2, 8], 3.0).to(dtype).requires_grad_()
    weight, bias = kael.full([8], 1.0).to(dtype), kael.zeros(8).to(dtype)
    y = layer_norm(x, weight, bias, eps=1e-12)
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
    y = layer_norm(x, w, b, 1e-5)
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
