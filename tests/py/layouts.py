"""Tensors of equal values in memory of different layouts, and PyTorch as an oracle for them."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import kael

# For tests that draw their examples: a skip inside them would keep the example alive.
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch, the oracle of this test, is not installed"
)

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int8", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool")


def contiguous(array: np.ndarray, dtype: str) -> kael.Tensor:
    return kael.tensor(array, dtype=dtype)


def transposed(array: np.ndarray, dtype: str) -> kael.Tensor:
    return kael.tensor(array.T, dtype=dtype).T


def sliced(array: np.ndarray, dtype: str) -> kael.Tensor:
    """Every second element of a larger tensor, from the second one on."""
    if array.ndim == 0:
        return kael.tensor(np.stack([array, array]), dtype=dtype)[1]
    wide = np.repeat(array, 2, axis=-1)
    return kael.tensor(wide, dtype=dtype)[..., 1::2]


def expanded(array: np.ndarray, dtype: str) -> kael.Tensor:
    """The first row, repeated by a stride of 0."""
    if array.ndim == 0 or array.shape[0] == 0:
        return kael.tensor(array, dtype=dtype)
    return kael.tensor(array[:1], dtype=dtype).expand(array.shape)


LAYOUTS = (contiguous, transposed, sliced, expanded)


def shapes(max_dims: int = 3, max_side: int = 4) -> st.SearchStrategy:
    """Shapes with none to ``max_dims`` dimensions, some of them empty."""
    return st_numpy.array_shapes(min_dims=0, max_dims=max_dims, min_side=0, max_side=max_side)


def elements(dtype: str) -> st.SearchStrategy:
    if dtype == "bool":
        return st.booleans()
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        return st.sampled_from([limits.min, limits.max, 0, 1, 2, 3, 7, 100]) | st.integers(
            max(limits.min, -20), min(limits.max, 20)
        )
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 1e-3, 60.0, -60.0]
    return st.sampled_from(special) | st.integers(-400, 400).map(lambda n: n / 16)


def arrays(dtype: str, shape: tuple[int, ...]) -> st.SearchStrategy:
    stored = "float32" if dtype == "bfloat16" else dtype
    return st_numpy.arrays(stored, shape, elements=elements(dtype), fill=st.nothing())


@st.composite
def tensors(
    draw: Any, dtype: str, shape: tuple[int, ...] | None = None, layouts: Any = LAYOUTS
) -> kael.Tensor:
    """A tensor of a drawn shape, layout and values, which every dtype here holds exactly."""
    array = draw(arrays(dtype, draw(shapes()) if shape is None else shape))
    return draw(st.sampled_from(layouts))(array, dtype)


def torch_of(tensor: kael.Tensor) -> Any:
    """The same values as a contiguous tensor of PyTorch; skips where that is not installed."""
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    if tensor.dtype == "bfloat16":
        return torch.from_numpy(np.array(tensor.float().numpy())).bfloat16()
    return torch.from_numpy(np.array(tensor.numpy()))


def numbers_of(value: Any) -> np.ndarray:
    """The elements as an array that NumPy knows: those of bfloat16 as float32."""
    if isinstance(value, kael.Tensor):
        return value.float().numpy() if value.dtype == "bfloat16" else value.numpy()
    return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()


# Units in the last place of the dtype, as a relative error.
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
# The distance of neighbours among the smallest numbers, where the relative error says nothing.
SMALLEST = {"float32": 2.0**-149, "float64": 2.0**-1074, "float16": 2.0**-24, "bfloat16": 2.0**-133}


def assert_same(actual: kael.Tensor, expected: Any, units: float = 0, absolute: float = 0) -> None:
    """Equal dtype, shape and values; floats may differ by so many units in the last place."""
    assert actual.dtype == str(expected.dtype).removeprefix("torch.")
    assert actual.shape == tuple(expected.shape)
    epsilon = EPSILON.get(actual.dtype, 0)
    absolute = max(absolute, units * SMALLEST.get(actual.dtype, 0))
    np.testing.assert_allclose(
        numbers_of(actual), numbers_of(expected), rtol=units * epsilon, atol=absolute, equal_nan=True
    )
