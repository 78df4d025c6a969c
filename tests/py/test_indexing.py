"""t[...] and the views against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import kael


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


@st.composite
def arrays_and_indices(draw):
    """An array and a basic index without negative steps, which no stride here can walk."""
    array = numbered(*draw(st_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
    index = draw(st_numpy.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True, max_dims=6))
    entries = index if isinstance(index, tuple) else (index,)
    assume(all(not isinstance(entry, slice) or (entry.step or 1) > 0 for entry in entries))
    return array, index


@given(arrays_and_indices())
def test_an_index_gives_the_view_that_numpy_gives(drawn):
    array, index = drawn
    tensor = kael.tensor(array)
    view = tensor[index]
    np.testing.assert_array_equal(view.numpy(), array[index])
    assert view.shape == array[index].shape
    if view.numel():
        assert np.shares_memory(view.numpy(), tensor.numpy())


@given(arrays_and_indices())
def test_an_assignment_writes_through_the_index(drawn):
    array, index = drawn
    tensor = kael.tensor(array)
    tensor[index] = -1
    expected = array.copy()
    expected[index] = -1
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_an_assignment_broadcasts_converts_and_sees_overlaps():
    tensor = kael.tensor(numbered(3, 3))
    tensor[1:] = kael.tensor([7.9, 8.0, 9.0])
    assert tensor.tolist() == [[0, 1, 2], [7, 8, 9], [7, 8, 9]]
    tensor[:, 1:] = tensor[:, :-1]
    assert tensor.tolist() == [[0, 0, 1], [7, 7, 8], [7, 7, 8]]
    tensor[0] = kael.tensor([[[5, 6, 7]]])
    assert tensor[0].tolist() == [5, 6, 7]
    with pytest.raises(kael.Error, match=r"copy_: a result of shape \[3, 3\] does not fit"):
        tensor[0] = tensor


def test_wrong_indices_say_what_is_wrong():
    tensor = kael.tensor(numbered(2, 3))
    for index, message in (
        (2, r"index 2 of dimension 0 of a tensor of shape \[2, 3\]"),
        (-3, "index -3 of dimension 0"),
        ((0, 0, 0), r"3 indices for a tensor of shape \[2, 3\], expected at most 2"),
        ((..., ...), r"more than one \.\.\. in an index, expected one at most"),
        (slice(None, None, 0), "slice: a step of 0, expected 1 or more"),
        (slice(None, None, -1), "slice: a step of -1, expected 1 or more"),
    ):
        with pytest.raises(kael.Error, match=message):
            tensor[index]
    for wrong in (1.0, "0", True, (0, (1, 2))):
        with pytest.raises(
            TypeError, match=r"an index must be an integer, a slice, None, \.\.\. or a tensor"
        ):
            tensor[wrong]
    with pytest.raises(TypeError, match="the stop of a slice must be an integer, not float"):
        tensor[:1.5]
    with pytest.raises(kael.Error, match="1 indices for a tensor of shape"):
        kael.tensor(1)[0]


def test_integers_pick_rows():
    array = numbered(4, 3)
    t = kael.tensor(array)
    for index in ([0, 0, 3], [-1, 1], [[0, 1], [2, -4]], []):
        expected = array[np.array(index, int)]
        np.testing.assert_array_equal(t[index].numpy(), expected)
        np.testing.assert_array_equal(t[kael.tensor(np.array(index, int))].numpy(), expected)
    np.testing.assert_array_equal(t[kael.tensor(2)].numpy(), array[2])
    for wrong in ([4], [-5]):
        with pytest.raises(kael.Error, match=r"index: index .* in dimension 0 of size 4, expected -4 to 3"):
            t[wrong]


def test_bounds_beyond_the_size_are_those_of_the_size():
    tensor = kael.tensor([1, 2, 3])
    assert tensor[-(10**30) : 10**30].tolist() == [1, 2, 3]
    assert tensor[2:1].tolist() == []


def test_iteration_gives_the_rows():
    tensor = kael.tensor(numbered(2, 3))
    assert [row.tolist() for row in tensor] == [[0, 1, 2], [3, 4, 5]]
    first, _ = tensor
    first[0] = 9
    assert tensor[0, 0].item() == 9
    with pytest.raises(TypeError, match="without dimensions"):
        iter(kael.tensor(1))


def test_views_are_those_of_numpy():
    array = numbered(2, 1, 3)
    tensor = kael.tensor(array)
    for view, expected in (
        (tensor.transpose(0, -1), array.transpose(2, 1, 0)),
        (tensor.permute(2, 0, 1), array.transpose(2, 0, 1)),
        (tensor.permute((2, 0, 1)), array.transpose(2, 0, 1)),
        (tensor.T, array.T),
        (tensor.unsqueeze(-1), array[..., None]),
        (tensor.squeeze(1), array[:, 0]),
        (tensor.squeeze(), array[:, 0]),
        (tensor.squeeze(0), array),
        (tensor.squeeze([0, 1]), array[:, 0]),
        (tensor[:1].squeeze((-3, 1)), array[0, 0]),
        (tensor.squeeze([]), array),
        (tensor.view((3, -1)), array.reshape(3, 2)),
        (tensor.expand(2, 4, -1), np.broadcast_to(array, (2, 4, 3))),
        (tensor.reshape(3, -1), array.reshape(3, 2)),
        (tensor.T.reshape(-1), array.T.reshape(-1)),
        (tensor.select(-1, -1), array[..., -1]),
    ):
        np.testing.assert_array_equal(view.numpy(), expected)
    assert tensor.T.contiguous().is_contiguous()
    copy = tensor.clone()
    copy[0] = 100
    assert tensor[0].tolist() == [[0, 1, 2]]


def test_views_refuse_what_is_not_there():
    tensor = kael.tensor(numbered(2, 3))
    with pytest.raises(kael.Error, match=r"dimension 2 of a tensor of shape \[2, 3\], expected -2 to 1"):
        tensor.transpose(0, 2)
    with pytest.raises(kael.Error, match=r"cannot expand the shape \[2, 3\] to \[4, 3\]"):
        tensor.expand(4, 3)
    with pytest.raises(
        kael.Error, match=r"does not divide the 6 elements of shape \[2, 3\], expected sizes that do"
    ):
        tensor.reshape(4, -1)
    with pytest.raises(TypeError, match="transpose: a dimension must be an integer, not float"):
        tensor.transpose(0, 1.0)


def test_dtypes_change_by_name():
    tensor = kael.tensor([0.0, 1.9, -1.0])
    assert tensor.to("float32").numpy().base is not None
    for name, dtype, expected in (
        ("double", "float64", [0.0, 1.9, -1.0]),
        ("half", "float16", [0.0, 1.9, -1.0]),
        ("bfloat16", "bfloat16", [0.0, 1.8984375, -1.0]),
        ("long", "int64", [0, 1, -1]),
        ("int", "int32", [0, 1, -1]),
        ("bool", "bool", [False, True, True]),
    ):
        converted = getattr(tensor, name)()
        assert converted.dtype == dtype
        assert converted.tolist() == pytest.approx(expected, rel=1e-3)
        assert tensor.to(dtype).tolist() == converted.tolist()
    with pytest.raises(kael.Error, match="to: dtype is 'float8', expected one of float32"):
        tensor.to("float8")
    with pytest.raises(TypeError, match="to: dtype must be a str"):
        tensor.to(np.float32)


def test_a_tensor_without_dimensions_takes_0_and_minus_1_as_if_it_had_one():
    x = kael.tensor(3.0, requires_grad=True)
    for call in (lambda d: x.squeeze(d), lambda d: x.squeeze([d]), lambda d: x.transpose(d, 0)):
        for dimension in (0, -1):
            result = call(dimension)
            assert (result.shape, result.item()) == ((), 3.0)
            assert kael.grad(result, x)[0].item() == 1.0
        for dimension in (1, -2):
            with pytest.raises(kael.Error, match=rf"dimension {dimension} of a tensor of shape \[\]"):
                call(dimension)


def test_wrong_dimensions_of_squeeze_are_named():
    x = kael.zeros(1, 2, 1)
    for wrong, message in (
        (3, r"squeeze: dimension 3 of a tensor of shape \[1, 2, 1\], expected -3 to 2"),
        ([0, -3], "squeeze: dimension 0 is named twice, expected each once"),
        ([0, 2**31 - 1], "squeeze: dimension 2147483647 of a tensor"),
    ):
        with pytest.raises(kael.Error, match=message):
            x.squeeze(wrong)
    with pytest.raises(kael.Error, match="squeeze: argument 1 is an integer, expected a tensor"):
        kael.squeeze(3)


def test_a_tensor_of_one_integer_is_an_index():
    two = kael.tensor([[2]])
    assert list("abc")[two] == "c"
    assert kael.arange(9).narrow(0, two, 2).tolist() == [2, 3]
    assert kael.tensor([[1, 2, 3]])[0, two[0]].item() == 3
    for wrong in (kael.tensor([1, 2]), kael.tensor(1.0), kael.tensor(True)):
        with pytest.raises(TypeError, match="as an integer, expected one element of an integer dtype"):
            "abc"[wrong]
