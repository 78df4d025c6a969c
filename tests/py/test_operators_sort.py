"""Sorting against PyTorch, which sorts stably when asked to, and NumPy."""

from __future__ import annotations

import math

import layouts
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kael


@settings(max_examples=120)
@given(data=st.data())
def test_elements_are_sorted_as_pytorch_sorts_stably(data):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    x = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES))))
    dim = data.draw(st.integers(-max(x.ndim, 1), max(x.ndim, 1) - 1))
    descending = data.draw(st.booleans())
    expected = torch.sort(layouts.torch_of(x), dim=dim, descending=descending, stable=True)
    values, indices = kael.sort(x, dim, descending)
    layouts.assert_same(values, expected.values)
    layouts.assert_same(indices, expected.indices)
    layouts.assert_same(x.argsort(dim, descending), expected.indices)
    count = data.draw(st.integers(0, x.shape[dim] if x.ndim else 1))
    top = x.topk(count, dim, largest=descending)
    if x.ndim:
        layouts.assert_same(top.values, expected.values.narrow(dim, 0, count))
        layouts.assert_same(top.indices, expected.indices.narrow(dim, 0, count))


def test_nothing_of_a_scalar_is_the_scalar():
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    for count in (0, 1):
        for found, expected in zip(kael.tensor(3.0).topk(count), torch.tensor(3.0).topk(count), strict=True):
            layouts.assert_same(found, expected)
    with pytest.raises(kael.Error, match="expected 0 to 1"):
        kael.tensor(3.0).topk(2)


def test_nan_is_the_largest_and_ties_stay_in_order():
    x = kael.tensor([math.nan, 1.0, -math.inf, math.inf])
    assert x.argsort().tolist() == [2, 1, 3, 0]
    assert x.argsort(descending=True).tolist() == [0, 3, 1, 2]
    ties = kael.tensor([1, 2, 2, 2, 3])
    assert ties.topk(2).indices.tolist() == [4, 1]
    assert ties.topk(2, largest=False).indices.tolist() == [0, 1]
    assert ties.sort(descending=True).indices.tolist() == [4, 1, 2, 3, 0]


@pytest.mark.usefixtures("threads_restored")
@pytest.mark.parametrize("shape", [(20_000,), (300, 70), (70, 300)])
def test_long_rows_are_sorted_by_any_number_of_threads(shape):
    values = np.random.default_rng(0).integers(0, 50, shape)
    for threads in (1, 2, 7):
        kael.set_num_threads(threads)
        for dim in range(len(shape)):
            found = kael.tensor(values).argsort(dim)
            np.testing.assert_array_equal(found.numpy(), values.argsort(dim, kind="stable"))


def test_gradients_go_where_the_elements_stood():
    x = kael.tensor([3.0, 1.0, 2.0], requires_grad=True)
    (x.sort().values * kael.tensor([10.0, 20.0, 30.0])).sum().backward()
    assert x.grad.tolist() == [30, 10, 20]
    y = kael.tensor([3.0, 1.0, 2.0], requires_grad=True)
    y.topk(2).values.sum().backward()
    assert y.grad.tolist() == [1, 0, 1]


def test_counts_that_are_not_there_are_refused():
    x = kael.zeros(2, 3)
    with pytest.raises(
        kael.Error, match=r"topk: 4 elements of dimension 1 of a tensor of shape \[2, 3\], expected 0"
    ):
        x.topk(4)
    with pytest.raises(kael.Error, match=r"topk: k is -1"):
        x.topk(-1)
    with pytest.raises(kael.Error, match=" sort: dimension 2 of a tensor of shape"):
        x.sort(2)
    with pytest.raises(TypeError, match="sort: descending must be True or False"):
        x.sort(0, 1)
