"""New tensors against NumPy, PyTorch and what their distributions promise."""

from __future__ import annotations

import math

import layouts
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kael


@pytest.mark.parametrize("dtype", layouts.DTYPES)
def test_one_number_everywhere(dtype):
    for tensor, number in (
        (kael.zeros(2, 3, dtype=dtype), 0),
        (kael.ones((2, 3), dtype=dtype), 1),
        (kael.full([2, 3], 1, dtype=dtype), 1),
        (kael.zeros_like(kael.ones(2, 3, dtype=dtype)), 0),
        (kael.ones_like(kael.zeros(2, 3), dtype=dtype), 1),
    ):
        assert tensor.dtype == dtype
        assert tensor.tolist() == [[number] * 3] * 2
        assert tensor.is_contiguous()


def test_a_number_has_a_dtype_of_its_own():
    assert (kael.full((), 1.5).dtype, kael.full((2,), 2).dtype, kael.full(0, True).dtype) == (
        "float32",
        "int64",
        "bool",
    )
    assert kael.full((2,), 2**62 + 1).tolist() == [2**62 + 1] * 2
    assert kael.full((1,), math.nan, dtype="float16").isnan().item()
    with pytest.raises(
        kael.Error, match="full: the number 256 does not fit the dtype uint8, expected 0 to 255"
    ):
        kael.full((1,), 256, dtype="uint8")
    with pytest.raises(kael.Error, match="full: the number 2 does not fit the dtype bool, expected 0 to 1"):
        kael.full((1,), 2, dtype="bool")


integers = st.integers(-30, 30)


@given(integers, integers, integers)
def test_ranges_of_integers_are_those_of_python(start, end, step):
    if step == 0 or (end - start) * step < 0:
        with pytest.raises(
            kael.Error, match=r"arange: .* expected a step that leads from the start to the end"
        ):
            kael.arange(start, end, step)
    else:
        tensor = kael.arange(start, end, step)
        assert tensor.dtype == "int64"
        assert tensor.tolist() == list(range(start, end, step))


def test_ranges_at_the_ends_of_int64():
    most = 2**63 - 1
    assert kael.arange(most - 2, most, 1).tolist() == [most - 2, most - 1]
    assert kael.arange(-most - 1, most, most).tolist() == [-most - 1, -1, most - 1]
    with pytest.raises(kael.Error, match=r"arange: .* numbers, expected fewer than 2\^63"):
        kael.arange(-most - 1, most)


@given(st.integers(-40, 40), st.integers(0, 100), st.sampled_from([0.1, 0.25, 1 / 3, 2.5]))
def test_ranges_of_floats_are_those_of_pytorch(start, length, step):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    first, last = start / 8, start / 8 + length / 16
    for dtype in ("float32", "float64"):
        expected = torch.arange(first, last, step, dtype=getattr(torch, dtype))
        tensor = kael.arange(first, last, step, dtype=dtype)
        layouts.assert_same(tensor, expected, 2, 1e-6 if dtype == "float32" else 1e-14)
        exact = first + np.arange(len(tensor)) * np.float64(step)
        np.testing.assert_array_equal(tensor.numpy(), exact.astype(dtype))


def test_ranges_count_what_they_should():
    assert kael.arange(0, 1, 0.1).shape == (10,)
    assert kael.arange(3).tolist() == [0, 1, 2]
    assert kael.arange(3.0).dtype == "float32"
    assert kael.arange(3, dtype="float16").tolist() == [0, 1, 2]
    assert kael.arange(2, 2).shape == (0,)
    for arguments, message in (
        ((0, 1, 0.0), "expected a step that leads"),
        ((0, 1, -0.5), "expected a step that leads"),
        ((0, math.inf), "expected finite numbers"),
        ((0, 1e300, 1e-300), r"are inf numbers, expected fewer than 2\^62"),
    ):
        with pytest.raises(kael.Error, match=f"arange: .*{message}"):
            kael.arange(*arguments)
    with pytest.raises(kael.Error, match="arange: of floats: the dtype int64, expected a floating-point one"):
        kael.arange(0, 1, 0.5, dtype="int64")
    with pytest.raises(kael.Error, match="arange: the number 299 does not fit the dtype uint8"):
        kael.arange(300, dtype="uint8")
    with pytest.raises(kael.Error, match="arange: the dtype bool"):
        kael.arange(2, dtype="bool")


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 50))
def test_equal_distances_are_those_of_numpy_and_the_ends_exact(start, end, count):
    tensor = kael.linspace(start, end, count, dtype="float64")
    np.testing.assert_allclose(tensor.numpy(), np.linspace(start, end, count), rtol=1e-12, atol=1e-9)
    if count:
        assert tensor[0].item() == start
    if count > 1:
        assert tensor[-1].item() == end


def test_equal_distances_of_other_kinds():
    assert kael.linspace(0, 10, 5, dtype="int64").tolist() == [0, 2, 5, 7, 10]
    assert kael.linspace(0, 1, 1).tolist() == [0]
    assert np.isfinite(kael.linspace(-1.7e308, 1.7e308, 3, dtype="float64").numpy()).all()
    with pytest.raises(kael.Error, match="linspace: steps is -1"):
        kael.linspace(0, 1, -1)
    with pytest.raises(kael.Error, match="linspace: the dtype bool"):
        kael.linspace(0, 1, 2, dtype="bool")


@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 2), (0, 4), (4, 0)])
def test_ones_stand_on_the_diagonal(shape):
    np.testing.assert_array_equal(kael.eye(*shape).numpy(), np.eye(*shape))
    assert kael.eye(2, dtype="bool").tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("dtype", layouts.FLOATS)
def test_random_numbers_are_below_one_and_spread_evenly(dtype):
    kael.manual_seed(1)
    numbers = layouts.numbers_of(kael.rand(200_000, dtype=dtype))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    # Six standard deviations; a bfloat16 is cut to 8 binary digits.
    assert abs(numbers.mean(dtype=np.float64) - 0.5) < 0.004 + 2.0**-8
    histogram = np.histogram(numbers, bins=8, range=(0, 1))[0]
    assert abs(histogram - 25_000).max() < 6 * math.sqrt(25_000)


@pytest.mark.parametrize("dtype", layouts.FLOATS)
def test_normal_numbers_have_the_moments_of_the_normal_distribution(dtype):
    kael.manual_seed(2)
    numbers = layouts.numbers_of(kael.randn(400, 500, dtype=dtype)).astype(np.float64)
    assert numbers.shape == (400, 500)
    assert abs(numbers.mean()) < 0.015
    assert abs(numbers.std() - 1) < 0.01
    assert abs((numbers**3).mean()) < 0.04
    assert abs((numbers**4).mean() - 3) < 0.15


@pytest.mark.usefixtures("threads_restored")
@pytest.mark.parametrize("create", [kael.rand, kael.randn])
def test_a_seed_gives_the_same_numbers_and_the_stream_goes_on(create):
    kael.manual_seed(3)
    first, second = create(1000).tolist(), create(1000).tolist()
    kael.set_num_threads(1)
    kael.manual_seed(3)
    assert create(1000).tolist() == first
    assert create(1000).tolist() == second
    assert first != second
    with pytest.raises(kael.Error, match=r"rand.*: the dtype int64, expected a floating-point one"):
        create(2, dtype="int64")


def test_shapes_too_large_or_negative_are_refused():
    for create in (kael.zeros, kael.ones, kael.rand, kael.randn):
        with pytest.raises(
            kael.Error, match=r"the shape \[-1\] has a negative dimension, expected sizes of 0 or more"
        ):
            create(-1)
        with pytest.raises(TypeError, match="a size must be an integer, not float"):
            create(1.5)
    with pytest.raises(kael.Error, match="eye: n is -1, expected 0 to"):
        kael.eye(-1)
    with pytest.raises(TypeError, match="zeros_like: argument 1 is list"):
        kael.zeros_like([1])


def test_kb067_kb068_counts_that_overflow_are_refused():
    for shape in ((2**31, 2**32), (2**62,), (2**62, 2, 0)):
        with pytest.raises(kael.Error, match="too large: its bytes do not fit in 64 bits"):
            kael.zeros(*shape)
    assert kael.zeros(0, 2**31 - 1).numel() == 0
