"""Elementwise operators against PyTorch, NumPy and what docs/tensors.md says."""

from __future__ import annotations

import itertools
import math
import operator
import re

import layouts
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kael
from kael import _library, _signatures

# Units in the last place by which the C library and PyTorch may differ; 0 where one rounding is prescribed.
UNARY = {
    "neg": 0, "abs": 0, "sign": 0, "floor": 0, "ceil": 0, "round": 0, "trunc": 0, "relu": 0, "square": 0,
    "exp": 2, "expm1": 2, "log": 2, "log1p": 2, "sqrt": 1, "rsqrt": 2, "reciprocal": 1, "sin": 2, "cos": 2,
    "tanh": 2, "sigmoid": 3, "logical_not": 0, "isnan": 0, "isinf": 0, "isfinite": 0,
}  # fmt: skip
BINARY = {
    "add": 0, "sub": 0, "mul": 0, "div": 0, "floor_divide": 0, "remainder": 0, "fmod": 0, "pow": 2,
    "maximum": 0, "minimum": 0, "eq": 0, "ne": 0, "lt": 0, "le": 0, "gt": 0, "ge": 0,
    "logical_and": 0, "logical_or": 0, "logical_xor": 0,
}  # fmt: skip
# Of float16 and bfloat16: PyTorch rounds between the steps of some operators.
HALF_UNITS = 1


def torch_function(name):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    return getattr(torch, name)


def units(table, name, *tensors):
    half = any(tensor.dtype in ("float16", "bfloat16") for tensor in tensors)
    return max(table[name], HALF_UNITS if half else 0)


def without(tensor, condition, instead):
    """The tensor with ``instead`` where NumPy's ``condition`` of its elements holds; contiguous."""
    array = np.array(layouts.numbers_of(tensor))
    return kael.tensor(np.where(condition(array), array.dtype.type(instead), array), dtype=tensor.dtype)


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=40)
@given(data=st.data())
def test_operators_of_one_tensor_are_those_of_pytorch(name, data):
    tensor = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES))))
    reference = layouts.torch_of(tensor)
    if name == "sign" and tensor.dtype in layouts.FLOATS:
        assert np.isnan(layouts.numbers_of(tensor.sign())).sum() == np.isnan(layouts.numbers_of(tensor)).sum()
        tensor = without(tensor, np.isnan, 0)  # PyTorch's sign of NaN is 0
        reference = layouts.torch_of(tensor)
    function = torch_function(name)
    try:
        expected = function(reference)
    except (RuntimeError, NotImplementedError):
        with pytest.raises(kael.Error, match=name):
            getattr(kael, name)(tensor)
        return
    if name == "square" and tensor.dtype == "bool":
        return  # an integer in PyTorch, refused here like every other power
    layouts.assert_same(getattr(kael, name)(tensor), expected, units(UNARY, name, tensor), 1e-37)
    layouts.assert_same(getattr(tensor, name)(), expected, units(UNARY, name, tensor), 1e-37)


def draw_pair(data):
    """Two tensors, or a tensor and a number, that broadcast."""
    shape = data.draw(layouts.shapes())
    first = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES)), shape))
    if data.draw(st.booleans()):
        other = tuple(1 if data.draw(st.booleans()) else size for size in shape)
        other = other[data.draw(st.integers(0, len(other))) :]
        return first, data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES)), other))
    number = st.booleans() | st.integers(0, 100) | st.sampled_from([0.5, -2.0, 1e30, math.inf, math.nan])
    return first, data.draw(number)


def has_int8_beside_uint8(*operands):
    return {"int8", "uint8"} <= {operand.dtype for operand in operands if isinstance(operand, kael.Tensor)}


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=80)
@given(data=st.data())
def test_operators_of_two_operands_are_those_of_pytorch(name, data):
    first, second = draw_pair(data)
    assume(not has_int8_beside_uint8(first, second))
    common = kael.add(first, second).dtype
    if name == "pow" and common in layouts.INTEGERS and isinstance(second, kael.Tensor):
        second = without(second, lambda array: array < 0, 2)  # refused here, 0 in PyTorch
    if name == "pow" and isinstance(second, float) and first.dtype in layouts.FLOATS:
        first = without(first, lambda array: array == -np.inf, 2)  # to the power 0.5 the root there: NaN
    if common in ("float16", "bfloat16"):
        # PyTorch does not round a tensor of one element to the common dtype.
        first, second = (
            x.to(common) if isinstance(x, kael.Tensor) and x.numel() == 1 else x for x in (first, second)
        )
    assume(name != "pow" or common != "bool")  # allowed there when the power is 0 or 1
    assume(name != "pow" or common != "float16" or isinstance(second, kael.Tensor) or second < 1e30)
    other = layouts.torch_of(second) if isinstance(second, kael.Tensor) else second
    if name in ("maximum", "minimum") or (name.startswith("logical") and other is second):
        other = torch_function("as_tensor")(other, dtype=torch_function(common))  # they take no number
    try:
        expected = torch_function(name)(layouts.torch_of(first), other)
    except (RuntimeError, NotImplementedError):
        assume(name != "sub" or common == "bool")  # PyTorch subtracts no bool at all
        with pytest.raises(kael.Error, match=name):
            getattr(kael, name)(first, second)
        return
    allowed = units(BINARY, name, *(x for x in (first, second) if isinstance(x, kael.Tensor)))
    layouts.assert_same(getattr(kael, name)(first, second), expected, allowed)
    layouts.assert_same(getattr(first, name)(second), expected, allowed)


SIGNS = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div",
    operator.floordiv: "floor_divide", operator.mod: "remainder", operator.pow: "pow", operator.eq: "eq",
    operator.ne: "ne", operator.lt: "lt", operator.le: "le", operator.gt: "gt", operator.ge: "ge",
}  # fmt: skip


@pytest.mark.parametrize("sign", SIGNS)
def test_signs_are_the_functions_of_their_names(sign):
    x, y = kael.tensor([3.0, -2.0, 5.0]), kael.tensor([2.0, -2.0, 7.0])
    function = getattr(kael, SIGNS[sign])
    assert sign(x, y).tolist() == function(x, y).tolist()
    assert sign(x, 2).tolist() == function(x, 2).tolist()
    assert sign(2, x).tolist() == function(2, x).tolist()
    assert sign(np.float64(2), x).tolist() == function(2, x).tolist()


def test_a_sign_with_assignment_writes_over_the_tensor():
    x = kael.tensor([7.0, 8.0])
    view = x[1:]
    x += 1
    x *= kael.tensor([2.0, 3.0])
    x -= 1
    x /= 2
    x //= 1
    x **= 2
    x %= 50
    assert x.tolist() == [49.0, 19.0]
    assert view.tolist() == [19.0]


def test_bools_combine_with_signs_and_nothing_else_does():
    yes, no = kael.tensor([True, True]), kael.tensor([True, False])
    assert (yes & no).tolist() == [True, False]
    assert (no | False).tolist() == [True, False]
    assert (True ^ no).tolist() == [False, True]
    assert (~no).tolist() == [False, True]
    with pytest.raises(kael.Error, match="& of int64, expected bool"):
        yes & kael.tensor([1, 2])
    with pytest.raises(kael.Error, match="~ of float32, expected bool"):
        ~kael.tensor([1.0])


@settings(max_examples=150)
@given(data=st.data())
def test_where_is_that_of_pytorch(data):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    first, second = draw_pair(data)
    assume(not has_int8_beside_uint8(first, second))
    condition = data.draw(layouts.tensors("bool", first.shape))
    other = layouts.torch_of(second) if isinstance(second, kael.Tensor) else second
    expected = torch.where(layouts.torch_of(condition), layouts.torch_of(first), other)
    layouts.assert_same(kael.where(condition, first, second), expected)


@settings(max_examples=150)
@given(data=st.data())
def test_clamp_is_that_of_pytorch(data):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    tensor = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES[:-1]))))
    bound = st.none() | st.integers(0, 100) | st.sampled_from([-2.5, 0.5, math.inf, math.nan])
    least, most = data.draw(bound), data.draw(bound)
    assume(least is not None or most is not None)
    expected = torch.clamp(layouts.torch_of(tensor), least, most)
    layouts.assert_same(kael.clamp(tensor, least, most), expected)
    layouts.assert_same(
        tensor.clone().to(kael.clamp(tensor, least, most).dtype).clamp_(least, most), expected
    )


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", layouts.FLOATS)
def test_gelu_is_that_of_pytorch_and_its_limit_at_minus_infinity(approximate, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    tensor = kael.tensor(np.linspace(-6, 6, 1000, dtype=np.float32), dtype=dtype)
    expected = torch.nn.functional.gelu(layouts.torch_of(tensor), approximate=approximate)
    absolute = 1e-6 if dtype != "float64" else 1e-14
    layouts.assert_same(kael.gelu(tensor, approximate), expected, 4, absolute)
    limits = kael.tensor([-math.inf, math.inf], dtype=dtype).gelu(approximate)
    assert layouts.numbers_of(limits).tolist() == [0, math.inf]


def test_kb071_the_two_gelus_are_different():
    assert kael.gelu(1.0).item() == pytest.approx(0.8413447, abs=1e-6)
    assert kael.gelu(1.0, "tanh").item() == pytest.approx(0.8411920, abs=1e-6)
    with pytest.raises(kael.Error, match="gelu: operands of dtype int64, expected a floating-point one"):
        kael.gelu(kael.tensor([1]))


# ---- Without PyTorch -----------------------------------------------


def test_division_of_integers_rounds_as_named():
    x, y = kael.tensor([-7, 7, -7, 7]), kael.tensor([2, -2, -2, 2])
    assert (x // y).tolist() == [-4, -4, 3, 3]
    assert x.div(y, rounding_mode="floor").tolist() == [-4, -4, 3, 3]
    assert x.div(y, rounding_mode="trunc").tolist() == [-3, -3, 3, 3]
    assert (x % y).tolist() == [1, -1, -1, 1]
    assert x.fmod(y).tolist() == [-1, 1, -1, 1]
    assert (kael.tensor([7]) / 2).tolist() == [3.5]
    with pytest.raises(kael.Error, match="rounding_mode is 'up', expected None, 'floor' or 'trunc'"):
        x.div(y, rounding_mode="up")
    with pytest.raises(TypeError, match="div: rounding_mode must be a str or None, not list"):
        x.div(y, rounding_mode=[])


@pytest.mark.parametrize("dtype", layouts.INTEGERS)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_an_integer_divided_by_zero_is_an_error_and_nothing_is_written(name, dtype):
    x = kael.tensor([4, 5, 6], dtype=dtype)
    divisor = kael.tensor([2, 0, 1], dtype=dtype)
    with pytest.raises(kael.Error, match=f"{name}: an integer divided by 0 .*, expected another divisor"):
        getattr(kael, name)(x, divisor)
    with pytest.raises(kael.Error, match=f"{name}: an integer divided by 0 .*, expected another divisor"):
        getattr(x, name + "_")(divisor)
    assert x.tolist() == [4, 5, 6]


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_the_most_negative_integer_wraps_where_its_opposite_does_not_exist(dtype):
    least = np.iinfo(dtype).min
    x = kael.tensor([least], dtype=dtype)
    for result in (-x, x.abs(), x // -1, x * -1, x.div(-1, rounding_mode="trunc")):
        assert result.dtype == dtype
        assert result.tolist() == [least]
    assert (x % -1).tolist() == [0]
    assert x.fmod(-1).tolist() == [0]


@pytest.mark.parametrize(
    ("dtype", "bits"), [("float16", 0x7C01), ("float32", 0x7F800001), ("float64", 0x7FF0000000000001)]
)
def test_a_power_of_zero_and_one_to_any_power_are_one_with_nans_that_signal_too(dtype, bits):
    size = np.dtype(dtype).itemsize
    nans = kael.tensor(np.array([bits, bits], dtype=f"uint{8 * size}").view(dtype))
    assert kael.isnan(nans).tolist() == [True, True]
    assert nans.pow(kael.tensor([False, False])).tolist() == [1, 1]
    assert kael.ones(2).to(dtype).pow(nans).tolist() == [1, 1]


def test_integers_wrap_and_negative_powers_are_refused():
    assert (kael.tensor([250], dtype="uint8") + kael.tensor([10], dtype="uint8")).tolist() == [4]
    assert (kael.tensor([1], dtype="uint8") - kael.tensor([2], dtype="uint8")).tolist() == [255]
    assert (-kael.tensor([1], dtype="uint8")).tolist() == [255]
    assert (kael.tensor([3]) ** 41).tolist() == [int(np.array(3**41 % 2**64, np.uint64).astype(np.int64))]
    for exponent in (-1, kael.tensor([2, -1])):
        with pytest.raises(kael.Error, match="pow: an integer to the power -1, expected 0 or more"):
            kael.tensor([2, 2]) ** exponent


def test_division_of_floats_by_zero_is_what_ieee_says():
    assert (kael.tensor([1.0, -1.0]) / 0).tolist() == [math.inf, -math.inf]
    for nothing in (kael.tensor([0.0]) / 0, kael.tensor([1.0]) % 0, kael.tensor([1.0]).fmod(0)):
        assert math.isnan(nothing.item())
    assert (kael.tensor([1.0]) // 0).item() == math.inf


def test_rounding_is_to_even_and_keeps_the_sign_of_zero():
    rounded = kael.tensor([0.5, 1.5, 2.5, -0.5, -1.5]).round().numpy()
    assert rounded.tolist() == [0, 2, 2, 0, -2]
    assert np.signbit(rounded).tolist() == [False, False, False, True, True]


def test_nan_goes_through_what_picks_one_of_two():
    nan = kael.tensor([math.nan, 1.0])
    for result in (
        nan.maximum(0), kael.maximum(0, nan), nan.minimum(0), nan.relu(), nan.sign(), nan.clamp(0, 1),
        nan.clamp(min=0),
    ):  # fmt: skip
        assert math.isnan(result[0].item())
        assert not math.isnan(result[1].item())


def test_the_upper_bound_of_clamp_wins_and_one_bound_is_needed():
    assert kael.tensor([0, 2, 9]).clamp(3, 1).tolist() == [1, 1, 1]
    with pytest.raises(kael.Error, match="clamp: neither min nor max"):
        kael.tensor([1]).clamp()


PROMOTIONS = [
    ("int64", "float16", "float16"),
    ("float16", "bfloat16", "float32"),
    ("uint8", "int8", "int32"),
    ("bool", "uint8", "uint8"),
    ("float32", "float64", "float64"),
    ("int32", "int8", "int32"),
]


@pytest.mark.parametrize(("first", "second", "result"), PROMOTIONS)
def test_tensors_are_promoted_to_what_holds_both(first, second, result):
    x, y = kael.tensor([1], dtype=first), kael.tensor([1], dtype=second)
    assert (x + y).dtype == (y + x).dtype == result


@pytest.mark.parametrize(("first", "second"), list(itertools.product(layouts.DTYPES, repeat=2)))
@pytest.mark.parametrize("shapes", list(itertools.product([(), (1,)], repeat=2)))
def test_promotion_is_that_of_pytorch(first, second, shapes):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    if shapes[0] == shapes[1] and {first, second} == {"int8", "uint8"}:
        return  # int16 in PyTorch, int32 here
    made = [
        kael.tensor(np.ones(shape), dtype=dtype) for shape, dtype in zip(shapes, (first, second), strict=True)
    ]
    expected = torch.result_type(*map(layouts.torch_of, made))
    assert (made[0] * made[1]).dtype == str(expected).removeprefix("torch.")


@pytest.mark.parametrize("dtype", layouts.DTYPES)
@pytest.mark.parametrize("number", [True, 1, 1.0])
def test_a_number_raises_the_kind_of_a_dtype_and_no_more(dtype, number):
    kinds = {"bool": 0, **dict.fromkeys(layouts.INTEGERS, 1), **dict.fromkeys(layouts.FLOATS, 2)}
    kind = {bool: 0, int: 1, float: 2}[type(number)]
    expected = dtype if kind <= kinds[dtype] else ("int64" if kind == 1 else "float32")
    assert (kael.tensor([1], dtype=dtype) * number).dtype == expected
    assert (number * kael.tensor(1, dtype=dtype)).dtype == expected


def test_an_integer_that_the_dtype_does_not_hold_is_refused_but_compares():
    x = kael.tensor([3, 250], dtype="uint8")
    for wrong in (300, -1):
        with pytest.raises(
            kael.Error, match=f"add: the number {wrong} does not fit the dtype uint8, expected 0 to 255"
        ):
            x + wrong
    assert (x < 300).tolist() == [True, True]
    assert (x > -1).tolist() == [True, True]
    assert (x == 250 + 256).tolist() == [False, False]
    with pytest.raises(kael.Error, match=r"does not fit int64, expected -2\^63 to 2\^63 - 1"):
        x + 2**63


def test_a_float_beyond_a_narrow_dtype_becomes_infinite():
    assert (kael.tensor([1.0], dtype="float16") + 1e6).tolist() == [math.inf]


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**400, -(10**400)])
def test_an_integer_beyond_int64_compares_and_is_refused_otherwise(number):
    names = ("eq", "ne", "lt", "le", "gt", "ge")
    for tensor in (kael.tensor([-(2**63), -1, 0, 2**63 - 1]), kael.tensor([True, False]), kael.tensor([1.5])):
        for name in names:
            truth = [getattr(operator, name)(value, number) for value in tensor.tolist()]
            mirrored = [getattr(operator, name)(number, value) for value in tensor.tolist()]
            assert getattr(operator, name)(tensor, number).tolist() == truth
            assert getattr(operator, name)(number, tensor).tolist() == mirrored
            assert getattr(kael, name)(tensor, number).tolist() == truth
            assert getattr(kael, name)(number, tensor).tolist() == mirrored
    assert (kael.tensor([2.0**70], dtype="float64") == 2**70).item()
    assert (kael.tensor([2**63 - 1, -(2**63)]) == -(2**63)).tolist() == [False, True]
    with pytest.raises(kael.Error, match=r"does not fit int64, expected -2\^63 to 2\^63 - 1"):
        kael.tensor([1]) + number


def test_a_number_beside_16_bit_floats_is_rounded_to_compare_and_not_to_compute():
    for dtype, number in (("float16", 0.1), ("bfloat16", 0.1), ("float16", 2049)):
        assert (kael.tensor([number], dtype=dtype) == number).item()
    # 1.003 is 1 as a bfloat16, but not here.
    assert (kael.tensor([384.0], dtype="bfloat16") * 1.003).item() == 386


def test_shapes_that_do_not_broadcast_are_shown():
    with pytest.raises(kael.Error) as caught:
        kael.tensor(np.zeros((2, 3))) + kael.tensor(np.zeros((4, 1, 2)))
    assert caught.value.message == (
        "add: the shapes [2, 3] and [4, 1, 2] do not broadcast: dimension -1 has 3 and 2, "
        "expected equal sizes or 1"
    )
    with pytest.raises(kael.Error, match=r"where: the shapes \[2\] and \[\] and \[3\] do not broadcast"):
        kael.where(kael.tensor([True, False]), 1, kael.tensor([1, 2, 3]))


def test_empty_dimensions_broadcast_from_one_alone():
    assert (kael.tensor(np.zeros((0, 3))) + kael.tensor(np.zeros((1, 3)))).shape == (0, 3)
    with pytest.raises(kael.Error, match="dimension -2 has 0 and 2"):
        kael.tensor(np.zeros((0, 3))) + kael.tensor(np.zeros((2, 3)))


# ---- In place -----------------------------------------------


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
@settings(max_examples=25)
@given(data=st.data())
def test_in_place_operators_write_what_the_others_answer(name, data):
    layout = (layouts.contiguous, layouts.transposed, layouts.sliced)
    shape = data.draw(layouts.shapes())
    dtype = data.draw(st.sampled_from(("float32", "float16", "bfloat16")))
    x = data.draw(layouts.tensors(dtype, shape, layout))
    others = [data.draw(layouts.tensors(dtype, shape))] if name in BINARY else []
    expected = getattr(kael, name)(x, *others).to(dtype)
    assert getattr(x, name + "_")(*others) is x
    np.testing.assert_array_equal(layouts.numbers_of(x), layouts.numbers_of(expected))


def test_kb028_elements_that_share_memory_are_not_written():
    x = kael.tensor([[1.0], [2.0]])
    with pytest.raises(
        kael.Error, match=r"add_: several elements .* share memory \(it was expanded\), expected"
    ):
        x.expand(2, 3).add_(kael.tensor(np.ones((2, 3), np.float32)))
    assert x.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("size", [3, 100])
def test_kb029_an_operand_that_overlaps_is_read_as_it_was(size):
    array = np.arange(size * size, dtype=np.float32).reshape(size, size)
    x = kael.tensor(array)
    x += x.T
    np.testing.assert_array_equal(x.numpy(), array + array.T)
    y = kael.tensor(np.arange(size))
    y[1:] += y[:-1]
    np.testing.assert_array_equal(y.numpy()[1:], np.arange(size)[1:] + np.arange(size)[:-1])
    z = kael.tensor(array)
    z *= z[0]
    np.testing.assert_array_equal(z.numpy(), array * array[0])


def test_in_place_results_must_fit_into_the_tensor():
    integers = kael.tensor([1, 2])
    with pytest.raises(
        kael.Error,
        match=r"add_: a result of dtype float32 does not fit .* int64, expected an integer or a bool",
    ):
        integers.add_(1.5)
    with pytest.raises(kael.Error, match="div_: a result of dtype float32"):
        integers /= 2
    with pytest.raises(
        kael.Error,
        match="add_: a result of dtype int64 does not fit into a tensor of dtype bool, expected a bool",
    ):
        kael.tensor([True]).add_(1)
    with pytest.raises(
        kael.Error,
        match=r"add_: a result of shape \[2, 2\] does not fit into .* shape \[2\], expected operands",
    ):
        integers.add_(kael.tensor([[1, 2], [3, 4]]))
    assert integers.tolist() == [1, 2]
    half = kael.tensor([1.0], dtype="float16")
    half += kael.tensor([0.5], dtype="float64")
    assert (half.dtype, half.tolist()) == ("float16", [1.5])


def test_memory_of_a_mapped_file_is_not_written(tmp_path):
    kael.save_safetensors(tmp_path / "x.safetensors", {"x": kael.tensor([1.0, 2.0])})
    mapped = kael.load_safetensors(tmp_path / "x.safetensors", mode="mapped")["x"]
    for write in (lambda: mapped.add_(1), lambda: mapped.zero_(), lambda: mapped.__setitem__(0, 1)):
        with pytest.raises(
            kael.Error,
            match=r"the tensor's memory is read-only \(mapped from .*x\.safetensors.*\), expected memory",
        ):
            write()
    assert (mapped + 1).tolist() == [2.0, 3.0]


def test_copy_converts_and_broadcasts():
    x = kael.tensor(np.zeros((2, 2)), dtype="uint8")
    assert x.copy_(kael.tensor([1.9, 300.0])) is x
    assert x.tolist() == [[1, 255], [1, 255]]
    x.fill_(7)
    assert x.tolist() == [[7, 7], [7, 7]]
    with pytest.raises(kael.Error, match="copy_: the number 256 does not fit the dtype uint8"):
        x.fill_(256)
    x.zero_()
    assert x.tolist() == [[0, 0], [0, 0]]


# ---- Whatever the threads, the layout and the size -----------------------------------------------


@pytest.mark.usefixtures("threads_restored")
def test_bits_depend_on_neither_threads_nor_layout():
    values = np.random.default_rng(0).normal(size=(300, 257)).astype(np.float32)
    results = []
    for threads, layout in itertools.product(
        [1, 2, 7], [layouts.contiguous, layouts.transposed, layouts.sliced]
    ):
        kael.set_num_threads(threads)
        x = layout(values, "float32")
        results.append(((x.exp() * x).tanh() / (x * x + 1)).gelu().numpy().tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("size", [511, 512, 513, 70_000])
def test_blocks_meet_without_a_seam(size):
    x = np.arange(size)
    np.testing.assert_array_equal((kael.tensor(x) * 3 + kael.tensor(x[::-1].copy())).numpy(), 3 * x + x[::-1])
    wide = np.arange(3 * size).reshape(size, 3)
    np.testing.assert_array_equal(
        (kael.tensor(wide.T.copy()).T + kael.tensor([1, 2, 3])).numpy(), wide + np.array([1, 2, 3])
    )


# ---- Arguments -----------------------------------------------


def test_operands_of_another_type_are_type_errors():
    x = kael.tensor([1.0])
    for wrong in ("1", None, [1.0], 1j):
        with pytest.raises(TypeError):
            x + wrong
    for mixed in (lambda: np.ones(1) + x, lambda: x + np.ones(1)):
        with pytest.raises(TypeError, match="an array of NumPy beside a tensor, expected two tensors"):
            mixed()
    with pytest.raises(TypeError, match="add: argument 2 is ndarray, expected a tensor or a number"):
        kael.add(x, np.ones(1))
    assert (x == "1") is False
    assert x != None  # noqa: E711  (the operator is meant)


def test_truth_and_conversion_need_one_element():
    assert bool(kael.tensor([2.0])) is True
    assert bool(kael.tensor(0)) is False
    assert (float(kael.tensor(2)), int(kael.tensor([2.5]))) == (2.0, 2)
    for shape in ((0,), (2,)):
        with pytest.raises(kael.Error, match="truth of a tensor of shape"):
            bool(kael.tensor(np.zeros(shape)))


def operator_names():
    kept = _library.native().kept
    count, length, name = _signatures.c_int64(), _signatures.c_int64(), _signatures.TextPointer()
    kept.kael_operator_count(count)
    names = []
    for index in range(count.value):
        _library.check_status(kept.kael_operator_name(index, name, length))
        names.append(_library.text_of(name, length.value))
    assert len(names) > 100
    assert len(set(names)) == len(names)
    return names


def test_every_operator_stands_in_the_documentation(root):
    page = (root / "docs" / "tensors.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+)`", page))
    # In-place forms are named after what they write.
    assert {name for name in operator_names() if not {name, name.removesuffix("_")} & listed} == set()


def test_the_package_reaches_every_operator_of_the_library(root):
    sources = "".join(path.read_text() for path in (root / "py" / "kael").glob("*.py"))
    called = {*dir(kael), *dir(kael.Tensor), *re.findall(r'"([a-z_0-9]+)"', sources)}
    # Names of operators that write are made of the others'.
    assert {name for name in operator_names() if not {name, name.removesuffix("_")} & called} == set()


def test_operators_of_numbers_refuse_bools():
    bools = kael.tensor([True, False])
    with pytest.raises(kael.Error, match="sub: operands of dtype bool, expected numbers"):
        kael.sub(bools, bools)
    with pytest.raises(kael.Error, match="neg: operands of dtype bool, expected numbers"):
        kael.neg(bools)
