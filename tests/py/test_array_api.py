"""kael.array_api against array_api_strict: signatures, dtypes and values of every function that is there."""

from __future__ import annotations

import inspect
import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import kael
import kael.array_api as xp

strict = pytest.importorskip(
    "array_api_strict", reason="array-api-strict, the oracle of these tests, is not installed"
)

DTYPES = ("bool", "int8", "int32", "int64", "uint8", "float32", "float64")
FLOATS = ("float32", "float64")
FUNCTIONS = sorted(name for name in xp.__all__ if inspect.isfunction(getattr(xp, name)) and name[0] != "_")

# Functions of the standard that are not there, as docs/array-api.md lists them.
MISSING = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "conj", "copysign",
    "cosh", "cumulative_prod", "hypot", "imag", "isin", "log10", "log2", "logaddexp", "nextafter",
    "real", "searchsorted", "signbit", "sinh", "tan", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
}  # fmt: skip


def theirs(x):
    """The same array in the oracle."""
    return strict.asarray(x.numpy()) if isinstance(x, kael.Tensor) else x


def numbers(x):
    """An array of either as one of NumPy."""
    return x.numpy() if isinstance(x, kael.Tensor) else np.from_dlpack(x)


def assert_same(actual, expected, units=0):
    """Equal dtypes, shapes and elements; lists and tuples of arrays too."""
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for mine, other in zip(actual, expected, strict=True):
            assert_same(mine, other, units)
        return
    if not hasattr(expected, "__array_namespace__"):
        assert actual == expected
        return
    mine, other = numbers(actual), numbers(expected)
    assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
    epsilon = np.finfo(other.dtype).eps if other.dtype.kind == "f" else 0
    np.testing.assert_allclose(mine, other, rtol=units * epsilon, atol=units * epsilon, equal_nan=True)
    if other.dtype.kind == "f" and not units:
        np.testing.assert_array_equal(np.signbit(mine[mine == 0]), np.signbit(other[other == 0]))


def elements(dtype):
    if dtype == "bool":
        return st.booleans()
    if dtype in FLOATS:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 3.0, math.inf, -math.inf, math.nan]
        return st.sampled_from(special) | st.integers(-400, 400).map(lambda n: n / 16)
    least, most = (0, 9) if dtype == "uint8" else (-9, 9)
    return st.integers(least, most)


@st.composite
def arrays(draw, dtype, shape):
    made = kael.tensor(draw(st_numpy.arrays(dtype, shape, elements=elements(dtype), fill=st.nothing())))
    return made.T.clone().T if draw(st.booleans()) else made


def shapes(**limits):
    return st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3, **limits)


def parameters(function):
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


def test_what_is_missing_is_known_and_documented(root):
    dtypes = {"int16", "uint16", "uint32", "uint64"}
    own = {"ModuleType", "Device", "ArrayAPIStrictFlags"}
    there = {name for name in dir(strict) if not name.startswith("_") and "array_api_strict" not in name}
    assert there - set(xp.__all__) - own - dtypes == MISSING
    page = (root / "docs" / "array-api.md").read_text(encoding="utf-8")
    assert {name for name in MISSING | dtypes if f"`{name}`" not in page} == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_are_those_of_the_standard(name):
    ours, other = parameters(getattr(xp, name)), parameters(getattr(strict, name))
    # The oracle marks what is not given by an object of its own.
    undefined = inspect.signature(strict.from_dlpack).parameters["device"].default
    assert ours == [(name, kind, None if value is undefined else value) for name, kind, value in other]


# Where the standard leaves a dtype undefined the oracle raises, and nothing is compared.
def compared(name, units, *operands):
    others = [theirs(operand) for operand in operands]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NaN, infinity and means of nothing
            expected = getattr(strict, name)(*others)
    except TypeError:
        return
    assert_same(getattr(xp, name)(*operands), expected, units)


UNITS = dict.fromkeys(("exp", "expm1", "log", "log1p", "cos", "sin", "tanh", "sqrt", "reciprocal"), 4)
UNARY = [
    "abs", "ceil", "cos", "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log1p",
    "logical_not", "negative", "positive", "reciprocal", "round", "sign", "sin", "sqrt", "square",
    "tanh", "trunc",
]  # fmt: skip
BINARY = [
    "add", "divide", "equal", "floor_divide", "greater", "greater_equal", "less", "less_equal",
    "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "not_equal", "pow",
    "remainder", "subtract",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=40)
@given(data=st.data())
def test_functions_of_one_array(name, data):
    compared(
        name, UNITS.get(name, 0), data.draw(arrays(data.draw(st.sampled_from(DTYPES)), data.draw(shapes())))
    )


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=80)
@given(data=st.data())
def test_functions_of_two_arrays_or_an_array_and_a_number(name, data):
    drawn = data.draw(
        st_numpy.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3)
    )
    pairs = [pair for pair in itertools.product(DTYPES, DTYPES) if set(pair) != {"int8", "uint8"}]
    first, second = data.draw(st.sampled_from(pairs))
    x1, x2 = data.draw(arrays(first, drawn.input_shapes[0])), data.draw(arrays(second, drawn.input_shapes[1]))
    if data.draw(st.booleans()):
        x2 = data.draw(elements(first))
    divides = name in ("floor_divide", "remainder") and "int" in first
    if divides and (np.asarray(x2 if not isinstance(x2, kael.Tensor) else x2.numpy()) == 0).any():
        return
    if (
        name == "pow"
        and "int" in first
        and (np.asarray(numbers(x2) if isinstance(x2, kael.Tensor) else x2) < 0).any()
    ):
        return
    compared(name, 8 if name in ("pow", "divide") else 0, x1, x2)


def numbered(shape=(2, 3), dtype="float32"):
    return (np.arange(np.prod(shape)) * 5 % 7 - 2).reshape(shape).astype(dtype)


# By the same words in both namespaces: p has the functions, the rest are arrays of it.
CALLS = {
    "all": lambda p, x: [
        p.all(x),
        p.all(x, axis=1),
        p.all(x, axis=(0, -1), keepdims=True),
        p.all(x, axis=()),
    ],
    "any": lambda p, x: [
        p.any(x),
        p.any(x, axis=1),
        p.any(x, axis=(0, -1), keepdims=True),
        p.any(x, axis=()),
    ],
    "arange": lambda p, x: [
        p.arange(5),
        p.arange(1, 8, 3),
        p.arange(5, 1),
        p.arange(0, 1, 0.25, dtype=p.float64),
    ],
    "argmax": lambda p, x: [p.argmax(x), p.argmax(x, axis=0), p.argmax(x, axis=-1, keepdims=True)],
    "argmin": lambda p, x: [p.argmin(x), p.argmin(x, axis=0), p.argmin(x, keepdims=True)],
    "argsort": lambda p, x: [p.argsort(x), p.argsort(x, axis=0, descending=False)],
    "asarray": lambda p, x: [
        p.asarray(x),
        p.asarray(x, dtype=p.float64, copy=True),
        p.asarray([[1, 2]]),
        p.asarray([True]),
        p.asarray(2, dtype=p.int8),
    ],
    "astype": lambda p, x: [p.astype(x, p.int8), p.astype(x, p.float32, copy=False), p.astype(x, p.bool)],
    "broadcast_arrays": lambda p, x: p.broadcast_arrays(x, x[:1, ...], p.asarray(1)),
    "broadcast_shapes": lambda p, x: p.broadcast_shapes((2, 1), (3,), ()),
    "broadcast_to": lambda p, x: [p.broadcast_to(x, (4, 2, 3)), p.broadcast_to(x[:1, ...], (2, 3))],
    "can_cast": lambda p, x: [
        p.can_cast(getattr(p, a), getattr(p, b))
        for a, b in itertools.product(DTYPES, DTYPES)
        if {a, b} != {"int8", "uint8"}
    ],
    "clip": lambda p, x: [p.clip(x, -1, 1), p.clip(x, min=0), p.clip(x, max=x * 0), p.clip(x)],
    "concat": lambda p, x: [p.concat([x, x]), p.concat((x, x), axis=None), p.concat([x, x[:, :1]], axis=-1)],
    "count_nonzero": lambda p, x: [p.count_nonzero(x), p.count_nonzero(x, axis=1, keepdims=True)],
    "cumulative_sum": lambda p, x: [
        p.cumulative_sum(x, axis=0),
        p.cumulative_sum(x[0, ...]),
        p.cumulative_sum(x, axis=-1, include_initial=True),
        p.cumulative_sum(x, axis=1, dtype=p.float64),
    ],
    "diff": lambda p, x: [
        p.diff(x),
        p.diff(x, axis=0),
        p.diff(x, n=2),
        p.diff(x, prepend=x, append=x[:, :1]),
        p.diff(x, n=0),
    ],
    "empty": lambda p, x: p.empty((2, 0), dtype=p.int8),
    "empty_like": lambda p, x: p.empty_like(x[:0, ...]),
    "expand_dims": lambda p, x: [
        p.expand_dims(x, axis=1),
        p.expand_dims(x, axis=-1),
        p.expand_dims(x, axis=(0, 3)),
    ],
    "eye": lambda p, x: [
        p.eye(2, dtype=p.int8),
        p.eye(2, 4, k=1, dtype=p.float64),
        p.eye(3, k=-2, dtype=p.float32),
    ],
    "finfo": lambda p, x: [
        getattr(p.finfo(getattr(p, dtype)), limit)
        for dtype in FLOATS
        for limit in ("bits", "eps", "max", "min", "smallest_normal")
    ],
    "flip": lambda p, x: [p.flip(x), p.flip(x, axis=0), p.flip(x, axis=(0, 1))],
    "from_dlpack": lambda p, x: [p.from_dlpack(numbered()), p.from_dlpack(x, copy=True)],
    "full": lambda p, x: [p.full((2,), 3), p.full(2, True), p.full((), 2.5, dtype=p.float64)],
    "full_like": lambda p, x: [p.full_like(x, 2), p.full_like(x, 2, dtype=p.int8)],
    "iinfo": lambda p, x: [
        getattr(p.iinfo(getattr(p, dtype)), limit)
        for dtype in ("int8", "int32", "int64", "uint8")
        for limit in ("bits", "max", "min")
    ],
    "isdtype": lambda p, x: [
        p.isdtype(getattr(p, dtype), kind)
        for dtype in (*DTYPES, "complex64", "complex128")
        for kind in (
            "bool",
            "signed integer",
            "unsigned integer",
            "integral",
            "real floating",
            "complex floating",
            "numeric",
            p.float32,
            ("bool", p.int8),
        )
    ],
    "linspace": lambda p, x: [
        p.linspace(0, 1, 5, dtype=p.float64),
        p.linspace(0, 1, 4, endpoint=False, dtype=p.float64),
        p.linspace(1, 2, 1, dtype=p.float32),
        p.linspace(1, 2, 0, dtype=p.float32),
    ],
    "matmul": lambda p, x: [p.matmul(x, p.matrix_transpose(x)), p.matmul(x, x[0, ...])],
    "matrix_transpose": lambda p, x: p.matrix_transpose(x),
    "max": lambda p, x: [p.max(x), p.max(x, axis=0), p.max(x, axis=(0, 1), keepdims=True), p.max(x, axis=())],
    "mean": lambda p, x: [p.mean(x), p.mean(x, axis=0), p.mean(x, axis=1, keepdims=True), p.mean(x, axis=())],
    "meshgrid": lambda p, x: [
        *p.meshgrid(x[0, ...], x[1, :2], x[:, 0]),
        *p.meshgrid(x[0, ...], x[1, :2], indexing="ij"),
        *p.meshgrid(),
    ],
    "min": lambda p, x: [p.min(x), p.min(x, axis=0), p.min(x, axis=(0, 1), keepdims=True), p.min(x, axis=())],
    "moveaxis": lambda p, x: [p.moveaxis(x, 0, 1), p.moveaxis(x[None, ...], (0, 2), (-1, 0))],
    "nonzero": lambda p, x: p.nonzero(x),
    "ones": lambda p, x: [p.ones((2, 3), dtype=p.float32), p.ones(2, dtype=p.bool)],
    "ones_like": lambda p, x: [p.ones_like(x), p.ones_like(x, dtype=p.int64)],
    "permute_dims": lambda p, x: p.permute_dims(x[None, ...], (2, 0, 1)),
    "prod": lambda p, x: [
        p.prod(x),
        p.prod(x, axis=0),
        p.prod(p.astype(x, p.int8), axis=1),
        p.prod(x, dtype=p.float64),
        p.prod(x, axis=()),
    ],
    "repeat": lambda p, x: [
        p.repeat(x, 2),
        p.repeat(x, p.asarray([1, 0, 2]), axis=1),
        p.repeat(x, 3, axis=-2),
        p.repeat(x, p.asarray(2)),
    ],
    "reshape": lambda p, x: [
        p.reshape(x, (3, 2)),
        p.reshape(x, (-1,), copy=True),
        p.reshape(x, (6, 1), copy=False),
    ],
    "result_type": lambda p, x: [
        str(p.result_type(getattr(p, a), getattr(p, b))).rpartition(".")[2]
        for kind in (("int8", "int32", "int64"), ("uint8", "int32", "int64"), FLOATS)
        for a, b in itertools.product(kind, kind)
    ],
    "roll": lambda p, x: [p.roll(x, 1), p.roll(x, (1, -1), axis=(0, 1)), p.roll(x, 2, axis=(0, 1))],
    "sort": lambda p, x: [p.sort(x), p.sort(x, axis=0, descending=True)],
    "squeeze": lambda p, x: [p.squeeze(x[None, ...], 0), p.squeeze(x[None, :, :, None], (0, -1))],
    "stack": lambda p, x: [p.stack([x, x]), p.stack((x, x, x), axis=-1)],
    "std": lambda p, x: [p.std(x), p.std(x, axis=0, correction=1), p.std(x, axis=(0, 1), keepdims=True)],
    "sum": lambda p, x: [
        p.sum(x),
        p.sum(x, axis=0),
        p.sum(p.astype(x, p.int8), axis=(0, 1)),
        p.sum(x, dtype=p.float64),
        p.sum(x, axis=()),
        p.sum(x[:0, ...]),
    ],
    "take": lambda p, x: [p.take(x, p.asarray([2, 0]), axis=1), p.take(x[0, ...], p.asarray([1, 1]))],
    "take_along_axis": lambda p, x: [
        p.take_along_axis(x, p.asarray([[0, 2], [1, 1]])),
        p.take_along_axis(x, p.asarray([[1, 0, 1]]), axis=0),
    ],
    "tensordot": lambda p, x: [
        p.tensordot(x, x),
        p.tensordot(x, x, axes=0),
        p.tensordot(x, x, axes=((1,), (1,))),
        p.tensordot(x, p.matrix_transpose(x), axes=1),
        p.tensordot(x, x, axes=([-1, 0], [-1, 0])),
    ],
    "tile": lambda p, x: [p.tile(x, (2, 1)), p.tile(x, (2,)), p.tile(x, (2, 1, 3)), p.tile(x, ())],
    "tril": lambda p, x: [p.tril(x), p.tril(x, k=1), p.tril(x[None, ...], k=-1)],
    "triu": lambda p, x: [p.triu(x), p.triu(x, k=1), p.triu(x[None, ...], k=-1)],
    "unstack": lambda p, x: [*p.unstack(x), *p.unstack(x, axis=-1)],
    "var": lambda p, x: [p.var(x), p.var(x, axis=0, correction=1), p.var(x, axis=(0, 1), keepdims=True)],
    "vecdot": lambda p, x: [p.vecdot(x, x), p.vecdot(x, x[0, ...]), p.vecdot(x, x[:, :1], axis=-2)],
    "where": lambda p, x: [
        p.where(x > 0, x, x * 2),
        p.where(x > 0, x, p.asarray(1.0, dtype=p.float64)),
        p.where(x > 0, 1.0, x),
    ],
    "zeros": lambda p, x: [p.zeros((2, 3), dtype=p.float64), p.zeros((), dtype=p.uint8)],
    "zeros_like": lambda p, x: [p.zeros_like(x), p.zeros_like(x, dtype=p.bool)],
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_functions_mean_what_the_standard_means(name):
    units = 4 if name in ("mean", "std", "var", "matmul", "tensordot", "vecdot", "linspace") else 0
    array = numbered()
    assert_same(CALLS[name](xp, xp.asarray(array)), CALLS[name](strict, strict.asarray(array)), units)


def test_every_function_is_compared():
    assert {*CALLS, *UNARY, *BINARY} == set(FUNCTIONS)


@settings(max_examples=100)
@given(data=st.data())
def test_sums_and_extremes_over_every_axis(data):
    name = data.draw(st.sampled_from(["sum", "prod", "max", "min", "mean", "any", "all", "count_nonzero"]))
    shape = data.draw(shapes())
    x = data.draw(arrays(data.draw(st.sampled_from(FLOATS if name == "mean" else DTYPES)), shape))
    axis = data.draw(st.none() | (st_numpy.valid_tuple_axes(len(shape)) if shape else st.just(())))
    keep = data.draw(st.booleans())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NaN, infinity and means of nothing
            expected = getattr(strict, name)(theirs(x), axis=axis, keepdims=keep)
    except (TypeError, ValueError):  # undefined for the dtype; the extreme of nothing
        return
    # uint8 is summed in int64: there is no uint64.
    if name in ("sum", "prod") and x.dtype == "uint8":
        expected = strict.astype(expected, strict.int64)
    assert_same(getattr(xp, name)(x, axis=axis, keepdims=keep), expected, 8 if "float" in x.dtype else 0)


def test_arrays_name_their_namespace():
    x = xp.ones((2, 3))
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version=xp.__array_api_version__) is xp
    with pytest.raises(kael.Error, match=r"api_version is '1999\.12', expected one of 2021\.12"):
        x.__array_namespace__(api_version="1999.12")
    assert x.mT.shape == (3, 2)
    assert x.device == "cpu"
    assert x.to_device("cpu") is x
    with pytest.raises(kael.Error, match="to_device: 'cuda' with stream None, expected 'cpu'"):
        x.to_device("cuda")


def test_the_namespace_says_what_it_has():
    info = xp.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert info.devices() == ["cpu"]
    assert info.default_dtypes() == {
        "real floating": xp.zeros(1).dtype,
        "integral": xp.asarray(1).dtype,
        "indexing": xp.argmax(xp.zeros(1)).dtype,
    }
    assert list(info.dtypes()) == ["bool", "int8", "int32", "int64", "uint8", "float32", "float64"]
    assert info.dtypes(kind=("bool", "real floating")) == {
        name: name for name in ("bool", "float32", "float64")
    }
    assert info.dtypes(kind="complex floating") == {}
    assert info.capabilities()["boolean indexing"]
    with pytest.raises(kael.Error, match="kind is 'float', expected one of bool"):
        info.dtypes(kind="float")


def test_suites_that_look_for_complex_dtypes_find_their_names():  # KB112
    assert {xp.complex64, xp.complex128}.isdisjoint(xp.__array_namespace_info__().dtypes())
    assert xp.isdtype(xp.complex64, "complex floating")
    with pytest.raises(kael.Error, match="dtype is 'complex64', expected one of float32"):
        xp.zeros(1, dtype=xp.complex64)


def test_what_is_wrong_is_named():
    x = xp.ones((2, 3))
    for call, message in (
        (lambda: xp.zeros(1, device="cuda"), "zeros: device is 'cuda', expected 'cpu' or None"),
        (lambda: xp.isdtype("int16", "bool"), "isdtype: 'int16' is no dtype, expected one of float32"),
        (lambda: xp.result_type(), "result_type: no arrays and no dtypes"),
        (lambda: xp.squeeze(x, 0), r"squeeze: axis 0 of an array of shape \[2, 3\], expected size 1"),
        (lambda: xp.expand_dims(x, (0, 0)), "names an axis twice, expected each once"),
        (lambda: xp.moveaxis(x, (0, 1), 0), "moveaxis: from .* expected as many, each once"),
        (lambda: xp.reshape(xp.matrix_transpose(x), (6,), copy=False), "view"),
        (lambda: xp.repeat(x, xp.asarray([1, 2]), axis=1), "repeat: 2 counts for 3 slices"),
        (lambda: xp.take(x, xp.asarray([0])), "take: no axis for an array of shape"),
        (lambda: xp.take_along_axis(x, xp.asarray([0])), "take_along_axis: indices of 1 dimensions"),
        (lambda: xp.nonzero(xp.asarray(1)), "nonzero: an array without dimensions"),
        (lambda: xp.cumulative_sum(x), "cumulative_sum: no axis for an array of shape"),
        (lambda: xp.matrix_transpose(x[0]), "expected two dimensions"),
        (lambda: xp.tril(x[0]), "tril: an array of shape .*expected two dimensions or more"),
        (lambda: xp.tensordot(x, x, axes=1), "tensordot: axis 1 .* and axis 0 .*expected equal sizes"),
        (lambda: xp.tensordot(x, x, axes=((0,), ())), "tensordot: 1 and 0 axes, expected as many"),
        (lambda: xp.vecdot(x, x, axis=0), "vecdot: axis is 0, expected -2 to -1"),
        (lambda: xp.vecdot(x, x[:, :2]), "vecdot: axis -1 of shapes .*expected equal sizes"),
        (lambda: xp.finfo("int8"), "finfo: int8, expected a dtype of floats"),
        (lambda: xp.iinfo(x), "iinfo: float32, expected a dtype of integers"),
    ):  # fmt: skip
        with pytest.raises(kael.Error, match=message):
            call()
    for call in (
        lambda: xp.abs(1.0),
        lambda: xp.add(1, 2),
        lambda: xp.sum([1.0]),
        lambda: xp.isdtype(3, "bool"),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="becomes int8 by a copy alone, expected copy"):
        xp.asarray(x, dtype=xp.int8, copy=False)
    with pytest.raises(ValueError, match="a list is copied, expected copy"):
        xp.asarray([1.0], copy=False)
