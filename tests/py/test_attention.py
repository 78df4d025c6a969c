"""causal_attention: the attention of GPT-2, computed in blocks for float32."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import needs_torch

import kael
from kael._apply import apply
from kael.nn.functional import causal_attention, scaled_dot_product_attention


def random_tensor(shape, dtype="float64", seed=0):
    return kael.tensor(np.random.default_rng(seed).normal(size=shape), dtype=dtype, requires_grad=True)


def attended_by_head(qkv, heads, scale=None):
    """The same by scaled_dot_product_attention, from parts that are cut out."""
    batch, positions, row = qkv.shape
    query, key, value = (
        part.reshape(batch, positions, heads, row // 3 // heads).transpose(1, 2) for part in qkv.chunk(3, -1)
    )
    mixed = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
    return mixed.transpose(1, 2).reshape(batch, positions, row // 3)


@given(
    batch=st.integers(1, 3),
    positions=st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 130]),
    heads=st.integers(1, 3),
    size=st.integers(1, 20),
    seed=st.integers(0, 2**32),
)
def test_float32_agrees_with_attention_in_float64(batch, positions, heads, size, seed):
    exact = random_tensor((batch, positions, 3 * heads * size), seed=seed)
    fast = exact.detach().float().requires_grad_()
    incoming = random_tensor((batch, positions, heads * size), seed=seed + 1).detach()
    expected = attended_by_head(exact, heads)
    result = causal_attention(fast, heads)
    assert result.dtype == "float32"
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    (expected * incoming).sum().backward()
    (result * incoming.float()).sum().backward()
    np.testing.assert_allclose(fast.grad.numpy(), exact.grad.numpy(), rtol=1e-3, atol=2e-5)


@needs_torch
@pytest.mark.parametrize("positions", [1, 70])
def test_it_is_pytorchs_attention(positions):
    import torch

    qkv = random_tensor((2, positions, 3 * 4 * 8), "float32")
    theirs = torch.from_numpy(qkv.detach().numpy()).requires_grad_()
    parts = (part.view(2, positions, 4, 8).transpose(1, 2) for part in theirs.chunk(3, -1))
    expected = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
    expected = expected.transpose(1, 2).reshape(2, positions, 32)
    result = causal_attention(qkv, 4)
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    expected.square().sum().backward()
    result.square().sum().backward()
    np.testing.assert_allclose(qkv.grad.numpy(), theirs.grad.numpy(), rtol=1e-3, atol=2e-5)


def test_gradients_are_those_of_finite_differences():
    assert kael.gradcheck(lambda qkv: causal_attention(qkv, 2, 0.7), (random_tensor((2, 5, 12)),))


def test_the_gradient_in_blocks_can_be_differentiated_again():
    exact = random_tensor((1, 6, 12))
    fast = exact.detach().float().requires_grad_()
    (first,) = kael.grad(attended_by_head(exact, 2).square().sum(), [exact], create_graph=True)
    (expected,) = kael.grad(first.square().sum(), [exact])
    (first,) = kael.grad(causal_attention(fast, 2).square().sum(), [fast], create_graph=True)
    (result,) = kael.grad(first.square().sum(), [fast])
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=2e-3, atol=1e-3)


def test_a_position_does_not_depend_on_those_after_it():
    qkv = random_tensor((1, 100, 24), "float32")
    causal_attention(qkv, 2)[0, 40].sum().backward()
    gradient = qkv.grad.numpy()[0]
    assert (gradient[41:] == 0).all()
    assert (gradient[:41] != 0).any(axis=1).all()


def test_the_bits_do_not_depend_on_the_number_of_threads():
    qkv = random_tensor((3, 90, 3 * 4 * 16), "float32")
    threads = kael.get_num_threads()
    found = set()
    try:
        for count in (1, 2, 3):
            kael.set_num_threads(count)
            qkv.grad = None
            result = causal_attention(qkv, 4)
            result.square().sum().backward()
            found.add((result.detach().numpy().tobytes(), qkv.grad.numpy().tobytes()))
    finally:
        kael.set_num_threads(threads)
    assert len(found) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(0, 4, 12), (2, 0, 12), (2, 4, 0)])
def test_nothing_to_attend_to_gives_nothing(dtype, shape):
    qkv = random_tensor(shape, dtype)
    result = causal_attention(qkv, 2)
    assert result.shape == (shape[0], shape[1], shape[2] // 3)
    result.sum().backward()
    assert qkv.grad.shape == shape


def test_a_view_with_gaps_is_read_as_its_copy_is():
    wide = random_tensor((2, 24, 70), "float32").detach().transpose(1, 2)[:, :, ::2]
    assert not wide.is_contiguous()
    assert (causal_attention(wide, 2) == causal_attention(wide.contiguous(), 2)).all()


def test_nan_reaches_those_that_see_it_and_no_other():
    qkv = random_tensor((1, 80, 12), "float32").detach()
    qkv[0, 70, 4] = math.nan  # a key
    seen = np.isnan(causal_attention(qkv, 1).numpy()).any(axis=2)[0]
    assert seen[70:].all()
    assert not seen[:70].any()


@pytest.mark.parametrize(("dtype", "large"), [("float32", 1e30), ("float64", 1e200)])
def test_scores_that_overflow_are_nan_and_not_nothing(dtype, large):
    qkv = kael.tensor([[[large, -large, 1.0]] * 3], dtype=dtype, requires_grad=True)
    result = causal_attention(qkv, 1)
    assert np.isnan(result.detach().numpy()).all()
    result.sum().backward()
    assert np.isnan(qkv.grad.numpy()[..., 0]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: causal_attention(kael.zeros(4, 12), 2), r"shape \[4, 12\], expected three dimensions"),
        (lambda: causal_attention(kael.zeros(1, 4, 14), 2), "the last one a multiple of 3 [*] 2"),
        (lambda: causal_attention(kael.zeros(1, 4, 12), 0), "heads is 0, expected 1"),
        (lambda: causal_attention(kael.zeros(1, 4, 12, dtype="int64"), 2), "dtype int64"),
        (lambda: apply("causal_attention", kael.zeros(1, 4, 12), 0, 1.0), "0 heads, expected 1 or more"),
    ],
)
def test_what_does_not_fit_is_an_error(make, message):
    with pytest.raises(kael.Error, match=message):
        make()


def test_a_mask_and_the_causal_one_exclude_each_other():
    x = kael.zeros(1, 1, 2, 4)
    with pytest.raises(kael.Error, match="attn_mask and is_causal, expected one of them"):
        scaled_dot_product_attention(x, x, x, attn_mask=kael.ones(2, 2), is_causal=True)
