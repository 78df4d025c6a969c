"""Reductions, and what works along one dimension, against PyTorch, NumPy and exact sums."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import layouts
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kael

# Units in the last place by which PyTorch, which sums in float32, may differ from sums in float64.
OVER_DIMENSIONS = {
    "sum": 8, "prod": 8, "mean": 8, "logsumexp": 4, "amax": 0, "amin": 0, "any": 0, "all": 0, "var": 16,
    "std": 16, "norm": 8,
}  # fmt: skip
OVER_ONE = {"argmax": 0, "argmin": 0, "cumsum": 8, "softmax": 4, "log_softmax": 4}
# What PyTorch has no answer for.
REFUSED_THERE = {("any", "uint8"), ("all", "uint8"), ("argmax", "bool"), ("argmin", "bool")}


def torch_result(name, *arguments, **options):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a variance without enough elements
        if name == "norm":  # torch.norm takes a matrix for something else
            return torch.linalg.vector_norm(*arguments, ord=options.pop("p", 2), **options)
        if name == "prod" and arguments[0].is_floating_point():  # rounded at each step there
            exact = torch.prod(arguments[0].double(), *arguments[1:], **options)
            return exact.to(arguments[0].dtype)
        return getattr(torch, name)(*arguments, **options)


def compare(name, tensor, units, options):
    """kael's answer is PyTorch's, and where PyTorch refuses kael does."""
    reference = layouts.torch_of(tensor)
    try:
        expected = torch_result(name, reference, **options)
    except (RuntimeError, IndexError, NotImplementedError):
        with pytest.raises(kael.Error, match=name):
            getattr(kael, name)(tensor, **options)
        return
    finite = [abs(x) for x in np.ravel(layouts.numbers_of(tensor)).tolist() if math.isfinite(x)]
    absolute = layouts.EPSILON.get(expected.dtype.__str__().removeprefix("torch."), 0) * sum(finite)
    # Sums whose parts cancel are as exact as the parts are large.
    absolute *= 4 if name in ("sum", "mean", "cumsum", "logsumexp", "log_softmax") else 0
    if name in ("var", "std"):
        absolute = 1e-3 if tensor.dtype != "float64" else 1e-12
    for answer in (getattr(kael, name)(tensor, **options), getattr(tensor, name)(**options)):
        layouts.assert_same(answer, expected, units, absolute)


@st.composite
def tensors_and_dimensions(draw, dtypes):
    tensor = draw(layouts.tensors(draw(st.sampled_from(dtypes))))
    rank = max(tensor.ndim, 1)
    number = st.integers(-rank, rank - 1)
    # Hypothesis keeps its strategies, and with them what their functions know, beyond the interpreter's end.
    several = st.lists(number, unique_by=lambda n: n % rank, min_size=1, max_size=3).map(tuple)
    return tensor, draw(number | several)


@layouts.needs_torch
@pytest.mark.parametrize("name", OVER_DIMENSIONS)
@settings(max_examples=80)
@given(data=st.data())
def test_reductions_are_those_of_pytorch(name, data):
    tensor, dim = data.draw(tensors_and_dimensions(layouts.DTYPES))
    if (name, tensor.dtype) in REFUSED_THERE:
        tensor = tensor.to("int32")
    if name == "prod" and isinstance(dim, tuple):
        dim = dim[0]  # one at a time in PyTorch
    options = {"dim": dim, "keepdim": data.draw(st.booleans())}
    compare(name, tensor, OVER_DIMENSIONS[name], options)


@layouts.needs_torch
@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "amax", "any", "all", "var", "std", "norm", "argmin"]
)
@settings(max_examples=40)
@given(data=st.data())
def test_reductions_of_everything_are_those_of_pytorch(name, data):
    tensor = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.FLOATS))))
    compare(name, tensor, OVER_DIMENSIONS.get(name, 0), {})


@layouts.needs_torch
@pytest.mark.parametrize("name", OVER_ONE)
@settings(max_examples=80)
@given(data=st.data())
def test_what_works_along_one_dimension_is_that_of_pytorch(name, data):
    tensor = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES))))
    if (name, tensor.dtype) in REFUSED_THERE:
        tensor = tensor.to("int32")
    if name.endswith("softmax") and tensor.numel() == 0:
        tensor = tensor.float()  # PyTorch takes integers when there are none
    dim = data.draw(st.integers(-max(tensor.ndim, 1), max(tensor.ndim, 1) - 1))
    options = {"dim": dim}
    if name.startswith("arg"):
        options["keepdim"] = data.draw(st.booleans())
    compare(name, tensor, OVER_ONE[name], options)


@layouts.needs_torch
@settings(max_examples=60)
@given(data=st.data())
def test_correction_and_power_are_those_of_pytorch(data):
    tensor = data.draw(layouts.tensors(data.draw(st.sampled_from(("float32", "float64")))))
    compare("var", tensor, 16, {"correction": data.draw(st.sampled_from([0, 1, 2, 5]))})
    power = data.draw(st.sampled_from([0, 0.5, 1, 2, 3, math.inf, -math.inf]))
    compare("norm", tensor, 16, {"p": power})


# ---- Without PyTorch -----------------------------------------------


def exact_sum(values):
    return float(sum(map(Fraction, values.tolist())))


@pytest.mark.parametrize("size", [1, 511, 512, 513, 16384, 16385, 100_003])
def test_sums_of_float32_are_rounded_once(size):
    values = np.random.default_rng(size).normal(size=size).astype(np.float32) * np.float32(1e3)
    x = kael.tensor(values)
    assert x.sum().item() == np.float32(exact_sum(values))
    assert x.mean().item() == np.float32(exact_sum(values) / size)
    assert x.double().sum().item() == pytest.approx(exact_sum(values), rel=1e-13, abs=1e-9)


def test_sums_of_float64_are_at_least_pairwise():
    tenths = kael.tensor(np.full(1_000_000, 0.1), dtype="float64")
    assert abs(tenths.sum().item() - 1_000_000 * float(Fraction(0.1))) < 1e-9
    assert kael.tensor(np.full(10_000, 0.1), dtype="float16").sum().item() == 1000.0


@pytest.mark.usefixtures("threads_restored")
@pytest.mark.parametrize("name", [*OVER_DIMENSIONS, "argmax", "cumsum", "softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(70_001,), (3, 40_000), (300, 130), (5, 64, 65)])
def test_bits_depend_on_neither_threads_nor_layout(name, shape):
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    made = (layouts.contiguous, layouts.transposed, layouts.sliced)
    for dim in range(len(shape)):
        results = set()
        for threads, layout in itertools.product([1, 2, 7], made):
            kael.set_num_threads(threads)
            answer = getattr(kael, name)(layout(values, "float32"), dim=dim)
            results.add(answer.numpy().tobytes())
        assert len(results) == 1


@pytest.mark.parametrize("shape", [(100_000,), (17, 3, 900), (2, 33_000), (33_000, 2)])
def test_long_rows_are_those_of_numpy(shape):
    values = np.random.default_rng(2).integers(-1000, 1000, shape)
    x = kael.tensor(values)
    for dim in range(len(shape)):
        for name, expected in (
            ("sum", values.sum(dim)),
            ("argmax", values.argmax(dim)),
            ("amin", values.min(dim)),
        ):
            np.testing.assert_array_equal(getattr(x, name)(dim).numpy(), expected)
        np.testing.assert_allclose(x.double().var(dim).numpy(), values.var(dim, ddof=1), rtol=1e-12)
        np.testing.assert_array_equal(x.cumsum(dim).numpy(), values.cumsum(dim))


def test_kb062_integers_and_bools_are_summed_as_int64():
    assert kael.tensor(np.ones(5000, bool)).sum().item() == 5000
    total = kael.tensor([200, 100], dtype="uint8").sum()
    assert (total.dtype, total.item()) == ("int64", 300)
    assert kael.tensor([2**62, 2**62]).sum().item() == -(2**63)
    assert kael.tensor([True, False]).prod().dtype == "int64"
    assert kael.tensor([100, 100], dtype="int8").cumsum(0).tolist() == [100, 200]


def test_kb064_the_mean_of_integers_is_refused():
    with pytest.raises(kael.Error, match="mean: a tensor of dtype int64, expected a floating-point one"):
        kael.tensor([1, 2]).mean()


def test_kb059_kb061_the_extreme_of_nan_is_nan_and_where_it_stands():
    x = kael.tensor([3.0, math.nan, 1.0, 5.0, math.nan])
    for name in ("amax", "amin", "max", "min"):
        assert math.isnan(getattr(x, name)().item())
    assert x.argmax().item() == 1
    assert x.argmin().item() == 1
    assert x.max(0).indices.item() == 1
    assert kael.tensor([2, 2, 1, 1]).argmin().item() == 2
    long = np.zeros(50_000, np.float32)
    long[[20_001, 40_000]] = np.nan
    assert kael.tensor(long).argmax().item() == 20_001


def test_extremes_of_int64_are_exact():
    x = kael.tensor([2**62 + 1, 2**62 + 3, 2**62 + 2])
    assert x.max().item() == 2**62 + 3
    values, indices = x.min(0)
    assert (values.item(), indices.item()) == (2**62 + 1, 0)


def test_nothing_has_a_sum_and_no_extreme():
    nothing = kael.tensor(np.zeros((0, 4), np.float32))
    assert nothing.sum().item() == 0
    assert nothing.prod().item() == 1
    assert math.isnan(nothing.mean().item())
    assert math.isnan(nothing.var().item())
    assert nothing.logsumexp().item() == -math.inf
    assert nothing.norm().item() == 0
    assert (nothing.any().item(), nothing.all().item()) == (False, True)
    assert nothing.sum(0).tolist() == [0, 0, 0, 0]
    assert nothing.sum(()).item() == 0  # no dimension named is all of them
    assert nothing.amax(1).shape == nothing.argmax(1).shape == nothing.max(1).values.shape == (0,)
    for name in ("amax", "amin", "argmax", "argmin"):
        for arguments in ((), (0,)):
            with pytest.raises(
                kael.Error, match=rf"{name}: no element to choose from, .* of shape \[0, 4\], expected one"
            ):
                getattr(nothing, name)(*arguments)
    with pytest.raises(kael.Error, match="norm: no element to choose from"):
        nothing.norm(math.inf)
    for name in ("cumsum", "softmax", "log_softmax"):
        assert getattr(nothing, name)(0).shape == (0, 4)


def test_a_tensor_without_dimensions_reduces_like_one_element():
    x = kael.tensor(7.0)
    assert x.sum(0).item() == x.sum(-1).item() == x.sum().item() == 7
    assert x.argmax().item() == 0
    assert x.softmax(0).item() == 1
    with pytest.raises(kael.Error, match=r"sum: dimension 1 of a tensor of shape \[\], expected -1 to 0"):
        x.sum(1)
    assert math.isnan(x.var().item())
    assert x.var(correction=0).item() == 0


def test_variances_far_from_zero_are_exact():
    assert kael.tensor([40000.0, 40001.0, 40002.0, 40003.0]).var().item() == pytest.approx(5 / 3, rel=1e-6)
    far = kael.tensor(np.arange(100_000) + 1e9, dtype="float64")
    assert far.var(correction=0).item() == pytest.approx((100_000**2 - 1) / 12, rel=1e-10)


def test_kb049_kb050_logsumexp_and_softmax_at_infinity():
    infinity = math.inf
    for values, expected in (
        ([-infinity, -infinity], -infinity),
        ([infinity, 1], infinity),
        ([infinity, -infinity], infinity),
        ([1000, 1000], 1000 + math.log(2)),
        ([-1000, -1000], -1000 + math.log(2)),
    ):
        assert kael.tensor(values, dtype="float32").logsumexp().item() == pytest.approx(expected)
    assert math.isnan(kael.tensor([infinity, math.nan]).logsumexp().item())
    # In blocks of their own.
    rows = np.full(3000, -infinity)
    rows[[0, 2999]] = 5
    assert kael.tensor(rows).logsumexp().item() == pytest.approx(5 + math.log(2))
    for dtype in ("float32", "float64"):
        for masked in ("softmax", "log_softmax"):
            assert np.isnan(
                getattr(kael.tensor([-infinity, -infinity], dtype=dtype), masked)(0).numpy()
            ).all()
            assert np.isnan(getattr(kael.tensor([infinity, 0], dtype=dtype), masked)(0).numpy()).all()
        assert kael.tensor([-infinity, 0], dtype=dtype).softmax(0).tolist() == [0, 1]
        assert kael.tensor([-infinity, 0], dtype=dtype).log_softmax(0).tolist() == [-infinity, 0]


def test_kb058_a_norm_of_large_float32_does_not_overflow():
    assert kael.tensor(np.full(128, 1e19, np.float32)).norm().item() == pytest.approx(
        1e19 * math.sqrt(128), rel=1e-6
    )


def test_an_expanded_tensor_is_reduced_where_it_stands():
    huge = kael.tensor([1.5]).expand(3_000_000)
    assert huge.sum().item() == 4_500_000
    assert kael.tensor([[1.0], [2.0]]).expand(2, 5).sum(0).tolist() == [3.0] * 5


def test_wrong_dimensions_are_named():
    x = kael.tensor(np.zeros((2, 3)))
    with pytest.raises(
        kael.Error, match=r"mean: dimension 2 of a tensor of shape \[2, 3\], expected -2 to 1"
    ):
        x.mean((0, 2))
    with pytest.raises(kael.Error, match="sum: dimension 1 is named twice, expected each once at most"):
        x.sum((1, -1))
    with pytest.raises(kael.Error, match="norm: p is NaN"):
        x.norm(math.nan)
    with pytest.raises(TypeError, match="sum: a dimension must be an integer, not float"):
        x.sum(0.0)
    with pytest.raises(TypeError, match="sum: keepdim must be True or False"):
        x.sum(0, 1)
    with pytest.raises(TypeError, match="max: a dimension must be an integer, not list"):
        x.max([0])


def test_the_power_of_a_norm_is_any_number():
    x = kael.tensor([3.0, 4.0])
    for p in (2, 2.0, np.float32(2), np.int64(2)):
        assert x.norm(p=p).item() == 5
    with pytest.raises(kael.Error, match="norm: p is inf, expected a finite number"):
        x.norm(p=10**400)
    for p in (True, "2", [2]):
        with pytest.raises(TypeError, match="norm: p must be a number"):
            x.norm(p=p)


@pytest.mark.parametrize("dtype", layouts.FLOATS)
def test_the_first_nan_is_the_largest_and_the_smallest(dtype):  # KB059, KB061
    x = kael.tensor([3.0, math.nan, 1.0, 5.0, math.nan], dtype=dtype)
    assert (x.argmax().item(), x.argmin().item()) == (1, 1)
    assert math.isnan(x.amax().item())
    assert math.isnan(x.amin().item())


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8"])
def test_sums_of_small_integers_do_not_wrap(dtype):  # KB062
    total = kael.ones(5000, dtype=dtype).sum()
    assert (total.dtype, total.item()) == ("int64", 5000)


def test_the_mean_of_integers_asks_for_floats():  # KB064
    with pytest.raises(kael.Error, match="mean: a tensor of dtype int64, expected a floating-point one"):
        kael.tensor([1, 2]).mean()


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "softmax", "log_softmax"])
def test_a_dtype_is_that_of_the_elements_and_of_the_result(name):
    x = kael.tensor([[100, 27, 3], [1, 2, 100]], dtype="int8")
    for dtype in layouts.FLOATS:
        result = getattr(x, name)(1, dtype=dtype)
        layouts.assert_same(result, getattr(x.to(dtype), name)(1))
        assert result.dtype == dtype
    y = kael.tensor([1.5, 2.5], requires_grad=True)
    getattr(y, name)(0, dtype="float64")[..., None][0].sum().backward()
    assert y.grad.dtype == "float32"
    with pytest.raises(kael.Error, match=f"{name}: dtype is 'float', expected one of float32"):
        getattr(x, name)(0, dtype="float")
    with pytest.raises(TypeError, match=f"{name}: dtype must be a str, not int"):
        getattr(x, name)(0, dtype=7)


def test_a_sum_in_an_integer_dtype_is_one_of_it():
    hundreds = kael.tensor([100, 100])
    for dtype, total in (("int8", -56), ("uint8", 200), ("int32", 200), ("bool", 1)):
        assert hundreds.sum(dtype=dtype).dtype == dtype
        assert hundreds.cumsum(0, dtype=dtype)[1].item() == total
    assert kael.tensor([1.75, 1.75]).sum(dtype="int64").item() == 2


def test_the_extremes_of_two_tensors_are_their_maximum_and_minimum():
    x, y = kael.tensor([[1, 5], [7, 2]]), kael.tensor(3)
    assert kael.max(x, y).tolist() == x.max(y).tolist() == [[3, 5], [7, 3]]
    assert kael.min(x, y).tolist() == x.min(y).tolist() == [[1, 3], [3, 2]]


@settings(max_examples=60)
@given(
    shape=st.one_of(
        st.tuples(st.integers(1, 1600), st.integers(1, 140)),
        st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 70)),
    ),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_of_columns_have_the_same_bits_however_the_rows_lie(shape, dtype, seed):
    array = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    dense = kael.tensor(array)
    apart = kael.tensor(np.concatenate([array, array], axis=-1))[..., : shape[-1]]
    for dims in ([0], list(range(len(shape) - 1))):
        for keepdim in (False, True):
            ours, other = (x.sum(dims, keepdim=keepdim) for x in (dense, apart))
            assert ours.tolist() == other.tolist()
            expected = array.sum(axis=tuple(dims), keepdims=keepdim, dtype="float64")
            assert ours.shape == expected.shape
            np.testing.assert_allclose(ours.numpy(), expected.astype(dtype), rtol=1e-6, atol=1e-6)
