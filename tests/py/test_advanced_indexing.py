"""t[...] with masks and tensors of integers, reading and writing, against PyTorch."""

from __future__ import annotations

import layouts
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from pytorch import torch

import kael


@st.composite
def indices(draw, shape):
    """An index of arrays, integers, slices, None and ...; all arrays but one mask broadcast to one shape."""
    picked = draw(st_numpy.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    mask_at = draw(st.none() | st.integers(0, len(shape) - 1))
    if mask_at is not None:
        picked = (1,)
    skipped_from = draw(st.none() | st.integers(0, len(shape)))
    entries = []
    dimension = 0
    while dimension < len(shape):
        size = shape[dimension]
        if draw(st.sampled_from([True, False, False, False])):
            entries.append(None)
        if dimension == mask_at:
            rank = draw(st.integers(0, len(shape) - dimension))
            entries.append(draw(st_numpy.arrays(bool, shape[dimension : dimension + rank])))
            dimension += rank
            mask_at = None
            continue
        if skipped_from is not None and dimension >= skipped_from:
            entries.append(...)
            skipped_from = None
            dimension += draw(st.integers(0, len(shape) - dimension))
            continue
        kind = draw(st.sampled_from(["array", "array", "slice", "integer"])) if size else "slice"
        if kind == "array":
            own = tuple(1 if draw(st.booleans()) else n for n in picked)
            numbers = st.integers(-size, size - 1)
            entries.append(draw(st_numpy.arrays("int64", own, elements=numbers)))
        elif kind == "integer":
            entries.append(draw(st.integers(-size, size - 1)))
        else:
            bound = st.none() | st.integers(-size - 1, size + 1)
            entries.append(slice(draw(bound), draw(bound), draw(st.integers(1, 2))))
        dimension += 1
    return tuple(entries)


def in_both(index):
    """The index with tensors of either library in place of arrays."""
    ours = tuple(kael.tensor(entry) if isinstance(entry, np.ndarray) else entry for entry in index)
    theirs = tuple(torch.from_numpy(entry) if isinstance(entry, np.ndarray) else entry for entry in index)
    return ours, theirs


def shapes():
    return layouts.shapes().filter(len)


@settings(max_examples=120)
@given(data=st.data())
def test_what_an_index_picks_is_what_pytorch_picks(data):
    x = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES)), data.draw(shapes())))
    ours, theirs = in_both(data.draw(indices(x.shape)))
    layouts.assert_same(x[ours], layouts.torch_of(x)[theirs])


def without_repeats(index):
    """The same index with no place twice: which of several writes stays is kael's own promise."""
    for i, entry in enumerate(index):
        if isinstance(entry, np.ndarray) and entry.dtype != bool:
            flat = entry.reshape(-1)[:1]
            index = (*index[:i], flat, *index[i + 1 :])
    return index


@settings(max_examples=120)
@given(data=st.data())
def test_writing_through_an_index_is_what_pytorch_writes(data):
    dtype = data.draw(st.sampled_from(layouts.DTYPES))
    plain = (layouts.contiguous, layouts.transposed, layouts.sliced)
    x = data.draw(layouts.tensors(dtype, data.draw(shapes()), plain))
    ours, theirs = in_both(without_repeats(data.draw(indices(x.shape))))
    expected = layouts.torch_of(x)
    if data.draw(st.booleans()):
        x[ours] = expected[theirs] = {"b": True, "i": 7, "u": 7, "f": -2.5}[dtype[0]]
    else:
        wanted = tuple(1 if data.draw(st.booleans()) else n for n in expected[theirs].shape)
        wanted = wanted[data.draw(st.integers(0, len(wanted))) :]
        if len(wanted) == len(expected[theirs].shape):
            wanted = (1,) * data.draw(st.integers(0, 2)) + wanted
        value = data.draw(layouts.tensors(dtype, wanted))
        x[ours] = value
        expected[theirs] = layouts.torch_of(value)
    layouts.assert_same(x, expected)


@settings(max_examples=80)
@given(data=st.data())
def test_gradients_go_back_to_what_was_picked_and_written(data):
    shape = data.draw(shapes())
    values = np.arange(np.prod(shape), dtype="float64").reshape(shape)
    index = data.draw(indices(shape))
    written = without_repeats(index)
    (ours, theirs), (our_places, their_places) = in_both(index), in_both(written)

    def gradients(library, picks, places):
        x = library.tensor(values, requires_grad=True)
        w = library.tensor(values[..., :1] + 1 if values.size else values, requires_grad=True)
        y = x * 2 + 0
        part = y[picks]
        y[places] = (w * 3).sum()
        ((y * y).sum() + (part * part).sum()).backward()
        return x.grad.numpy(), w.grad.numpy()

    for mine, other in zip(
        gradients(kael, ours, our_places), gradients(torch, theirs, their_places), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_second_derivatives_go_through_what_was_picked_and_written():
    random = np.random.default_rng(0)
    start, written, chosen = (
        random.normal(size=(3, 4)),
        random.normal(size=(2, 4)),
        random.normal(size=(3, 4)) > 0,
    )

    def second(library):
        x, values = (library.tensor(array, requires_grad=True) for array in (start, written))
        y = x * x
        y[library.tensor([2, 0])] = values**3
        z = y.scatter(1, library.tensor([[1, 2], [0, 3]]), (values * values)[:, :2])
        total = (z**3).sum() + (z[library.tensor(chosen)] ** 2).sum()
        grad = kael.grad if library is kael else library.autograd.grad
        first = grad(total, [x, values], create_graph=True)
        sum((gradient * gradient).sum() for gradient in first).backward()
        return x.grad.numpy(), values.grad.numpy()

    for ours, theirs in zip(second(kael), second(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@settings(max_examples=80)
@given(data=st.data())
def test_elements_that_are_not_zero_are_found_in_order(data):
    x = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES))))
    expected = layouts.torch_of(x).nonzero()
    layouts.assert_same(kael.nonzero(x), expected)
    columns = x.nonzero(as_tuple=True)
    there = layouts.torch_of(x).nonzero(as_tuple=True)
    assert [column.tolist() for column in columns] == [column.tolist() for column in there]
    if x.ndim:
        layouts.assert_same(x[columns], layouts.torch_of(x)[layouts.torch_of(x) != 0])


@settings(max_examples=80)
@given(data=st.data())
def test_a_mask_selects_where_it_is_true(data):
    shape, mask_shape = data.draw(
        st_numpy.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3)
    ).input_shapes
    x = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES)), shape))
    mask = data.draw(layouts.tensors("bool", mask_shape))
    expected = torch.masked_select(layouts.torch_of(x), layouts.torch_of(mask))
    layouts.assert_same(x.masked_select(mask), expected)


def test_lists_and_arrays_are_indices_like_tensors():
    x = kael.tensor(np.arange(12).reshape(3, 4))
    assert x[[True, False, True]].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert x[np.array([2, 0]), [1, -1]].tolist() == [9, 3]
    assert x[:, []].shape == (3, 0)
    assert x[kael.tensor(1), [0]].tolist() == [4]
    assert x[kael.tensor([0, 2], dtype="uint8")].shape == (2, 4)
    row = x[kael.tensor(1)]
    row[0] = -1
    assert x[1, 0].item() == -1


def test_a_mask_without_dimensions_takes_all_or_nothing():
    x = kael.tensor([1.0, 2.0])
    assert x[kael.tensor(True)].tolist() == [[1, 2]]
    assert x[kael.tensor(False)].shape == (0, 2)
    number = kael.tensor(3.0)
    number[number > 2] = 5
    assert number.item() == 5


def test_of_several_values_for_one_place_the_last_one_stays_and_gets_the_gradient():
    x = kael.zeros(3)
    values = kael.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    x[[1, 0, 1, -2]] = values
    assert x.tolist() == [2, 4, 0]
    (x * kael.tensor([10.0, 20.0, 30.0])).sum().backward()
    assert values.grad.tolist() == [0, 10, 0, 20]


def test_a_value_may_overlap_with_what_is_written():
    x = kael.tensor([1, 2, 3])
    x[[2, 1, 0]] = x
    assert x.tolist() == [3, 2, 1]
    x[x - 1] = x
    assert x.tolist() == [1, 2, 3]


def test_a_value_is_converted_and_a_number_that_does_not_fit_refused():
    x = kael.tensor([1, 2, 3], dtype="uint8")
    x[[0]] = kael.tensor([7.9])
    assert x.tolist() == [7, 2, 3]
    with pytest.raises(kael.Error, match="the number 300 does not fit the dtype uint8"):
        x[x > 1] = 300


def test_a_write_that_failed_changed_nothing():
    x = kael.tensor(np.arange(6.0).reshape(2, 3))
    before = x.tolist()
    for index, value, message in (
        ([0, 2], 1.0, r"index_put_: index 2 in dimension 0 of size 2, expected -2 to 1"),
        ((slice(None), [0, 1]), kael.zeros(3), r"the shapes \[2, 2\] and \[3\] do not broadcast"),
        ([0], kael.zeros(4, 1, 3), r"a value of shape \[4, 1, 3\] does not fit .*, expected one that br"),
    ):  # fmt: skip
        with pytest.raises(kael.Error, match=message):
            x[index] = value
    assert x.tolist() == before
    with pytest.raises(kael.Error, match=r"share memory .*, expected a place for each"):
        kael.zeros(1).expand(3)[[0]] = 1
    with pytest.raises(kael.Error, match=r"read-only \(.*\), expected memory that may be written"):
        kael.frombuffer(b"\0" * 8, dtype="int64")[[0]] = 1
    leaf = kael.zeros(2).requires_grad_()
    with pytest.raises(
        kael.Error, match=r"index_put_ would overwrite a leaf .* expected one that needs none"
    ):
        leaf[[0]] = 1


def test_wrong_indices_say_what_is_wrong():
    x = kael.tensor(np.zeros((2, 3, 4)))
    for index, message in (
        (x[0] > 0, r"a mask of shape \[3, 4\] from dimension 0 on of a tensor of shape \[2, 3, 4\]: "
                   r"dimension 0 has 3 and 2, expected equal sizes"),
        ((0, x[0, :, :2] > 0), r"a mask of shape \[3, 2\] .*: dimension 1 has 2 and 4"),
        ((..., x > 0, 0), "4 indices for a tensor of shape"),
        (([0, 1], [0, 1, 2]), r"index: the shapes \[2\] and \[3\] do not broadcast"),
        ((slice(None), [[3]]), "index 3 in dimension 1 of size 3, expected -3 to 2"),
        ((slice(None), slice(0, 0), [-5]), "index -5 in dimension 2 of size 4, expected -4 to 3"),
    ):  # fmt: skip
        with pytest.raises(kael.Error, match=message):
            x[index]
    with pytest.raises(kael.Error, match="index 0 in dimension 1 of size 0, expected none"):
        x[:, 0:0][:, [0]]
    for wrong in ([1.0], kael.tensor([1.0]), ["a"], [None]):
        with pytest.raises(TypeError):
            x[wrong]
